"""Every index gives the answer of lxml, on documents and expressions at random."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.errors import SubscriptionError
from tocsin.papers.gpx import XPATH_INDEXES
from tocsin.predicates.xpath import parse_xpath
from tocsin.predicates.xpath.oracle import evaluate, failing_step

NAMESPACES = {"p": "urn:p", "q": "urn:q?a&b"}
MODEST = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def compare(
    names: Iterable[str], documents: list[str], expressions: list[str], lxml_says: Callable[[str, str], bool]
) -> int:
    """Assert that indexes agree with lxml on all pairs, the first time and the second; returns the number of pairs."""
    expected = [[i for i, text in enumerate(expressions) if lxml_says(text, document)] for document in documents]
    for name in names:
        index = XPATH_INDEXES[name]()
        index.build([parse_xpath(text, NAMESPACES) for text in expressions])
        index.check()
        for _ in range(2):
            matches = index.match_batch(documents)
            assert not matches.errors
            for place, document in enumerate(documents):
                assert matches[place].tolist() == expected[place], (name, document)
        index.check()
    return len(documents) * len(expressions)


@pytest.mark.parametrize("name", XPATH_INDEXES)
def test_index_equals_lxml(
    name: str,
    random_documents: st.SearchStrategy[str],
    random_expressions: st.SearchStrategy[str],
    lxml_says: Callable[[str, str], bool],
) -> None:
    @MODEST
    @given(
        st.lists(random_documents, min_size=1, max_size=3),
        st.lists(random_expressions, min_size=1, max_size=12),
    )
    def run(documents: list[str], expressions: list[str]) -> None:
        compare([name], documents, expressions, lxml_says)

    run()


@pytest.mark.slow
def test_all_indexes_equal_lxml_on_fifty_thousand_pairs(
    random_documents: st.SearchStrategy[str],
    random_expressions: st.SearchStrategy[str],
    lxml_says: Callable[[str, str], bool],
    capsys: pytest.CaptureFixture[str],
) -> None:
    pairs = 0

    @settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(random_documents, min_size=4, max_size=6),
        st.lists(random_expressions, min_size=32, max_size=40),
    )
    def run(documents: list[str], expressions: list[str]) -> None:
        nonlocal pairs
        pairs += compare(XPATH_INDEXES, documents, expressions, lxml_says)

    run()
    with capsys.disabled():
        print(f"\n{pairs} pairs: {', '.join(XPATH_INDEXES)} equal lxml")
    assert pairs >= 50_000


def test_oracle_and_failing_step_agree_with_the_text(
    random_documents: st.SearchStrategy[str],
    random_expressions: st.SearchStrategy[str],
    lxml_says: Callable[[str, str], bool],
) -> None:
    @MODEST
    @given(random_documents, st.lists(random_expressions, min_size=1, max_size=8))
    def run(document: str, expressions: list[str]) -> None:
        for text in expressions:
            xpath = parse_xpath(text, NAMESPACES)
            expected = lxml_says(text, document)
            assert evaluate(xpath, document) == expected
            assert (failing_step(xpath, document) == "") == expected

    run()


def test_canonical_text_is_read_back(random_expressions: st.SearchStrategy[str]) -> None:
    @MODEST
    @given(random_expressions)
    def run(text: str) -> None:
        xpath = parse_xpath(text, NAMESPACES)
        written = str(xpath)
        if "{" in written or "descendant-or-self" in written:
            return
        assert parse_xpath(written) == xpath
        assert hash(parse_xpath(written)) == hash(xpath)

    run()


def test_an_unknown_prefix_is_named() -> None:
    with pytest.raises(SubscriptionError, match="prefix 'z' of z:a is not declared"):
        parse_xpath("/z:a", NAMESPACES)
