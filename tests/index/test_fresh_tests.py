"""New subscriptions with tests: which of them an event is compared with."""

import pytest

from tocsin.index.fresh_rows import FreshRows, FreshView
from tocsin.index.options import Options
from tocsin.matcher import Matcher
from tocsin.model.events import EventBatch
from tocsin.model.result import Evidence
from tocsin.model.subscription import Subscription

EVENT = {"body": "the quick brown fox", "title": "A fox", "price": 3, "user.name": "ada"}


def judged(where: str, event: dict[str, object]) -> tuple[list[str], int]:
    """The matches of an event among one new subscription, and the candidates."""
    rows, evidence = FreshRows(), Evidence()
    rows.add(Subscription("a", where), Options().normalise_one(where, "a"))
    found = FreshView(rows).match(event, EventBatch([event]), {}, evidence)
    return [one.id for one in found], evidence.candidates


@pytest.mark.parametrize(
    ("where", "holds", "candidates"),
    [
        ("has_words(body, 'fox quick')", True, 0),
        ("has_words(body, 'fox slow')", False, 0),
        ("has_words(body, 'slow')", False, 0),
        ("has_words(body, 'fox') AND has_words(title, 'fox')", True, 1),
        ("has_words(body, 'fox') AND has_words(title, 'hen')", False, 1),
        ("has_words(body, 'fox') AND price > 2", True, 1),
        ("has_words(body, 'slow') OR has_words(body, 'fox')", True, 1),
        ("has_words(body, 'qui*')", True, 1),
        ("has_words(text, 'qui*')", False, 0),
        ("title LIKE '%fox'", True, 1),
        ("label LIKE '%fox'", False, 0),
        ("NOT title LIKE '%fox'", False, 1),
        ("NOT label LIKE '%fox'", False, 0),
        ("(label LIKE '%fox') IS NOT TRUE", True, 1),
        ("label LIKE '%fox' OR price = 3", True, 1),
        ("user.name LIKE 'a%a'", True, 1),
        ("has_phrase(body, 'brown fox')", True, 1),
        (f"price IN ({', '.join(map(str, range(64)))})", True, 1),
        (f"price IN ({', '.join(map(str, range(65)))})", True, 1),
        (f"weight IN ({', '.join(map(str, range(65)))})", False, 0),
    ],
)
def test_an_event_judges_what_it_may_satisfy(where: str, holds: bool, candidates: int) -> None:
    assert judged(where, dict(EVENT)) == (["a"] * holds, candidates)


def test_what_goes_after_a_view_is_still_in_it() -> None:
    rows = FreshRows()
    for number, where in enumerate(["has_words(body, 'fox')", "price = 3", "title LIKE '%fox'"]):
        rows.add(Subscription(str(number), where), Options().normalise_one(where, str(number)))
    before = FreshView(rows)
    for number in range(3):
        rows.leave(number)
    where = "has_words(body, 'fox')"
    rows.add(Subscription("new", where), Options().normalise_one(where, "new"))
    found = [
        {one.id for one in view.match(EVENT, EventBatch([EVENT]), {}, Evidence())} for view in (before, FreshView(rows))
    ]
    assert found == [{"0", "1", "2"}, {"new"}]


def test_many_new_patterns_that_events_judge_become_a_segment() -> None:
    matcher = Matcher()
    for number in range(100):
        matcher.subscribe(f"s{number}", f"title LIKE '%fox{number}%'")
    assert matcher.match({"title": "fox7 x"}).evidence.candidates == 100
    for _ in range(20):
        matcher.match({"title": "fox7 x"})
    matcher.subscribe("other", "has_words(body, 'fox')")
    found = matcher.match({"title": "fox7 x"})
    assert found.ids == ["s7"]
    assert found.evidence.candidates < 10
