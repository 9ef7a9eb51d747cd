"""Examples 1, 2, 3 and 5 of Tatbul (2001), as a user writes them.

Example 4 is in test_example4.py, Examples 6 and 7 are in tests/predicates/history/test_prefilter.py.
"""

from tocsin import Matcher


def test_example_1_documents_whose_author_is_smith() -> None:
    matcher = Matcher()
    matcher.subscribe("P", "author = 'Smith'")
    documents = [{"author": "Smith"}, {"author": "smith"}, {"author": "Jones"}, {"title": "Smith"}]
    assert [matcher.match(document).ids for document in documents] == [["P"], [], [], []]


def test_example_2_calls_for_papers_on_databases_after_2000() -> None:
    matcher = Matcher()
    matcher.subscribe("P", "type = 'call for papers' AND area = 'Databases' AND year > 2000")
    call = {"type": "call for papers", "area": "Databases", "year": 2001}
    others = [{**call, "year": 2000}, {**call, "area": "Networks"}, {**call, "type": "proceedings"}]
    assert [matcher.match(document).ids for document in [call, *others]] == [["P"], [], [], []]


def test_example_3_books_by_smith_that_were_not_received_before() -> None:
    matcher = Matcher()
    matcher.subscribe("P", "author = 'Smith' AND price BETWEEN 10 AND 30 AND isbn <> ALL (SELECT isbn FROM history)")
    book = {"author": "Smith", "price": 10, "isbn": "1"}
    received = [book, book, {**book, "price": 30}, {**book, "isbn": "2"}, {**book, "isbn": "3", "price": 31}]
    assert [matcher.publish(document).ids for document in received] == [["P"], [], [], ["P"], []]
    assert matcher.publish({**book, "isbn": "3"}).ids == [], "it was received, though it did not match"


def test_example_5_answers_011() -> None:
    profiles = {
        "P1": "price < ANY (SELECT price FROM history)",
        "P2": "year > ALL (SELECT year FROM history)",
        "P3": "author = ANY (SELECT author FROM history)",
    }
    matcher = Matcher()
    for id, where in profiles.items():
        matcher.subscribe(id, where)
    matcher.publish({"price": 10, "year": 2000, "author": "Smith"})
    matcher.publish({"price": 25, "year": 1999})
    found = matcher.match({"price": 30, "year": 2001, "author": "Smith"})
    assert "".join(str(int(id in found)) for id in profiles) == "011"
