"""Conjunctions that are filed under several tests at once: the answers of the reference, and few candidates."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from reference_matcher import ReferenceMatcher
from strategies import conditions, conditions_on_history, events
from tocsin import Matcher
from tocsin.tuning import TUNING

Event = dict[str, Any]
OPERATORS = st.sampled_from(["<", "<=", "=", "<>", ">=", ">"])
NAMES = st.sampled_from(["i", "j", "d", "e"])
COMPARISONS = st.builds("{} {} {}".format, NAMES, OPERATORS, NAMES)
SEVERAL = st.lists(COMPARISONS, min_size=1, max_size=3).map(" AND ".join)
CONDITIONS = st.builds("{} AND {}".format, SEVERAL, conditions()) | SEVERAL | conditions_on_history()


@given(
    texts=st.lists(CONDITIONS, min_size=1, max_size=12),
    batch=st.lists(events(), min_size=2, max_size=6),
    most=st.sampled_from([1, 64]),
)
def test_answers_are_those_of_the_reference(texts: list[str], batch: list[Event], most: int) -> None:
    judge = ReferenceMatcher()
    for number, text in enumerate(texts):
        judge.subscribe(str(number), text)
    tuning = replace(TUNING, min_combined=1, min_combined_share=0.0, max_combinations=most)
    with patch("tocsin.index.combined_tests.TUNING", tuning):
        matcher = Matcher.from_table([{"id": str(number), "where": text} for number, text in enumerate(texts)])
    expected = {(row, id) for row, event in enumerate(batch) for id, _ in judge.match(event)}
    table = matcher.match_batch(batch)
    assert {(row["event"], row["subscription"]) for row in table.to_pylist()} == expected
    for row, event in enumerate(batch):
        assert {(row, id) for id in matcher.match(event).ids} == {pair for pair in expected if pair[0] == row}
    for state in matcher._subscriptions.current().states:
        state.segment.check()
    for event in batch:
        assert list(matcher.publish(event)) == sorted(judge.publish(event))


def test_an_event_that_fails_one_of_the_tests_looks_at_no_conjunction() -> None:
    texts = [f"a <> {number} AND b < c AND c < d" for number in range(500)]
    matcher = Matcher.from_table([{"id": str(number), "where": text} for number, text in enumerate(texts)])
    failing = [{"a": 1, "b": 1, "c": 2, "d": 0}, {"a": 1, "b": 3, "c": 2, "d": 9}, {"a": 1, "b": 1, "c": 2}]
    assert [matcher.match(event).evidence.candidates for event in failing] == [0, 0, 0]
    table = matcher.match_batch(failing)
    assert len(table) == 0
    assert b'"candidates": 0' in table.schema.metadata[b"tocsin"]
    assert len(matcher.match({"a": 1, "b": 1, "c": 2, "d": 3})) == 499
