"""The Matcher equals the reference, and DuckDB, on generated subscriptions and events."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference_matcher import ReferenceMatcher
from strategies import comparisons, conditions, conditions_on_history, events, logic, odd_conditions, odd_events
from tocsin import Matcher
from tocsin.conjunctions.pairs import access
from tocsin.language.parse import parse
from tocsin.predicates.history.order import Order
from tocsin.predicates.ranges import quantize
from tocsin.reference import evaluate
from tocsin.registry import IndexName, MatcherName
from tocsin.tuning import TUNING

Event = dict[str, Any]
Found = set[tuple[int, str]]
Judge = Callable[[Sequence[str], Sequence[Event], Sequence[Event]], list[tuple[bool | None, ...]]]

SUBSCRIPTIONS = st.lists(conditions(), min_size=1, max_size=12)
EVENTS = st.lists(events(), min_size=1, max_size=6)


def by_reference(texts: Sequence[str], batch: Sequence[Event]) -> Found:
    parsed = [parse(text) for text in texts]
    return {
        (row, str(number))
        for row, event in enumerate(batch)
        for number, condition in enumerate(parsed)
        if evaluate(condition, event) is True
    }


def matcher_of(texts: Sequence[str]) -> Matcher:
    matcher = Matcher.from_table(pa.table({"id": list(map(str, range(len(texts)))), "where": list(texts)}))
    assert matcher.rejected == []
    return matcher


def found_in(table: pa.Table) -> Found:
    rows = table.select(["event", "subscription"]).to_pylist()
    found = {(row["event"], row["subscription"]) for row in rows}
    assert len(found) == len(rows), "no subscription is reported twice for one event"
    return found


def one_by_one(matcher: Matcher, batch: Sequence[Event]) -> Found:
    """What `match` and `top_k` find for each event, which is what a batch finds, with the same evidence."""
    found = set()
    for row, event in enumerate(batch):
        matches = matcher.match(event)
        # A batch of two events does not go by the lane of single ones.
        twice = matcher.match_batch([event, {}])
        evidence = json.loads(twice.schema.metadata[b"tocsin"])
        own = [answer for answer in twice.to_pylist() if answer["event"] == 0]
        assert list(matches) == [(answer["subscription"], answer["score"]) for answer in own]
        assert (matches.evidence.mismatches, matches.evidence.errors) == (evidence["mismatches"], evidence["errors"])
        best = matcher.top_k(event, len(own) // 2)
        assert list(best) == sorted(matches, key=lambda match: (-match[1], match[0]))[: len(own) // 2]
        found |= {(row, id) for id in matches.ids}
    return found


@given(SUBSCRIPTIONS, EVENTS)
def test_events_as_mappings(texts: list[str], batch: list[Event]) -> None:
    matcher = matcher_of(texts)
    expected = by_reference(texts, batch)
    assert found_in(matcher.match_batch(batch)) == expected
    assert one_by_one(matcher, batch) == expected


@given(texts=SUBSCRIPTIONS, batch=EVENTS)
def test_events_as_columns(typed: Callable[[Sequence[Event]], pa.Table], texts: list[str], batch: list[Event]) -> None:
    assert found_in(matcher_of(texts).match_batch(typed(batch))) == by_reference(texts, batch)


@given(texts=st.lists(conditions(), min_size=4, max_size=24), batch=EVENTS, odd=st.booleans())
def test_segments_that_match_together(
    typed: Callable[[Sequence[Event]], pa.Table], texts: list[str], batch: list[Event], odd: bool
) -> None:
    """Three segments, with grids, quantizers and common layouts even for this little."""
    table = pa.table({"id": list(map(str, range(len(texts)))), "where": list(texts)})
    with pytest.MonkeyPatch.context() as always:
        tuning = replace(TUNING, look_cost=0.0, min_even_codes=2, shared_layout_min_events=1)
        always.setattr(access, "TUNING", tuning)
        always.setattr(quantize, "TUNING", tuning)
        always.setattr("tocsin.index.answer.TUNING", tuning)
        matcher = Matcher(background_merge=False)
        for start in range(3):
            matcher.subscribe_many(table.take(list(range(start, len(texts), 3))))
        # Twenty times the same events: enough that tables are laid out.
        repeated = batch * 20
        found = found_in(matcher.match_batch(repeated if odd else typed(repeated)))
        assert one_by_one(matcher, batch) == {(row, id) for row, id in found if row < len(batch)}
    expected = by_reference(texts, batch)
    assert found == {(turn * len(batch) + row, id) for turn in range(20) for row, id in expected}


@given(st.lists(odd_conditions(), min_size=1, max_size=12), st.lists(odd_events(), min_size=1, max_size=4))
def test_values_of_another_kind_are_null(texts: list[str], batch: list[Event]) -> None:
    matcher = matcher_of(texts)
    assert found_in(matcher.match_batch(batch)) == by_reference(texts, batch) == one_by_one(matcher, batch)


@given(
    texts=st.lists(conditions() | odd_conditions(), min_size=2, max_size=24),
    batch=st.lists(events() | odd_events(), min_size=1, max_size=3),
    standing=st.integers(0, 24),
    few_complex=st.sampled_from([0, 2, 100]),
    most_filed=st.sampled_from([0, 2, 100]),
)
def test_new_subscriptions_are_found_before_they_are_in_a_segment(
    texts: list[str], batch: list[Event], standing: int, few_complex: int, most_filed: int
) -> None:
    """Some stand in a segment, the others come one by one; then some go, come back and get another score."""
    with (
        patch("tocsin.index.buffer.FEW_COMPLEX", few_complex),
        patch("tocsin.index.buffer.MOST_FILED", most_filed),
        patch("tocsin.index.buffer.MOST_GONE", 1),
    ):
        matcher = matcher_of(texts[:standing])
        for number, text in list(enumerate(texts))[standing:]:
            matcher.subscribe(str(number), text)
        expected = by_reference(texts, batch)
        assert {(row, id) for row, event in enumerate(batch) for id in matcher.match(event).ids} == expected
        for number in range(0, len(texts), 2):
            matcher.unsubscribe(str(number))
        odd = {(row, id) for row, id in expected if int(id) % 2}
        assert {(row, id) for row, event in enumerate(batch) for id in matcher.match(event).ids} == odd
        for number in range(0, len(texts), 2):
            matcher.subscribe(str(number), texts[number], tags={"of": "ada"})
            matcher.rescore(str(number), float(number))
        for row, event in enumerate(batch):
            of_event = {id: 1.0 if int(id) % 2 else float(id) for place, id in expected if place == row}
            assert list(matcher.match(event)) == sorted(of_event.items())
            best = sorted(of_event.items(), key=lambda match: (-match[1], match[0]))
            assert list(matcher.top_k(event, 3)) == best[:3]
            tagged = [id for id in sorted(of_event) if int(id) % 2 == 0]
            assert matcher.match(event, tags={"of": "ada"}).ids == tagged
        assert one_by_one(matcher, batch) == expected


@given(
    texts=st.lists(logic(comparisons()), min_size=4, max_size=8), batch=st.lists(events(False), min_size=4, max_size=8)
)
def test_matcher_equals_duckdb(
    judge: Judge, typed: Callable[[Sequence[Event]], pa.Table], texts: list[str], batch: list[Event]
) -> None:
    truths = judge(texts, batch, [])
    expected = {(row, str(n)) for row, values in enumerate(truths) for n, value in enumerate(values) if value is True}
    assert found_in(matcher_of(texts).match_batch(typed(batch))) == expected


@given(
    texts=st.lists(conditions(), min_size=1, max_size=6),
    batch=st.lists(events(), min_size=1, max_size=4),
    index=st.sampled_from(get_args(IndexName)),
    matcher=st.sampled_from(get_args(MatcherName)),
)
def test_every_choice_of_algorithms(
    texts: list[str], batch: list[Event], index: IndexName, matcher: MatcherName
) -> None:
    table = pa.table({"id": list(map(str, range(len(texts)))), "where": list(texts)})
    chosen = Matcher.from_table(table, index=index, matcher=matcher)
    assert found_in(chosen.match_batch(batch)) == by_reference(texts, batch) == one_by_one(chosen, batch)


@given(
    st.lists(conditions_on_history(), min_size=1, max_size=6),
    st.lists(events(), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
@example(
    ["i = ANY (SELECT i FROM history h)", "i >= i OR (i >= i AND i = ANY (SELECT j FROM history h))"],
    [{}],
    False,
    False,
)
def test_published_events_are_history_for_the_next(
    texts: list[str], batch: list[Event], at_once: bool, constants_first: bool
) -> None:
    order = Order(constants_first, 0, 0, "for this test")
    with patch("tocsin.index.history_planner.choose_order", lambda _: order):
        check_publishing(texts, batch, at_once)


def check_publishing(texts: list[str], batch: list[Event], at_once: bool) -> None:
    matcher, reference = matcher_of(texts), ReferenceMatcher()
    for number, text in enumerate(texts):
        reference.subscribe(str(number), text)
    expected = {(row, id) for row, event in enumerate(batch) for id, _ in reference.publish(event)}
    if at_once:
        assert found_in(matcher.publish_batch(batch)) == expected
    else:
        assert {(row, id) for row, event in enumerate(batch) for id in matcher.publish(event).ids} == expected
    again = {id for id, _ in reference.match(batch[0])}
    assert set(matcher.match(batch[0]).ids) == again, "match leaves the history as it is"
    for id in map(str, range(len(texts))):
        assert matcher.explain(batch[0], id).matches == (id in again)


@pytest.mark.slow
@settings(max_examples=100_000)
@given(
    texts=st.lists(logic(comparisons()), min_size=2, max_size=4), batch=st.lists(events(False), min_size=2, max_size=4)
)
def test_matcher_equals_duckdb_for_long(
    judge: Judge, typed: Callable[[Sequence[Event]], pa.Table], texts: list[str], batch: list[Event]
) -> None:
    truths = judge(texts, batch, [])
    expected = {(row, str(n)) for row, values in enumerate(truths) for n, value in enumerate(values) if value is True}
    assert found_in(matcher_of(texts).match_batch(typed(batch))) == expected == by_reference(texts, batch)
