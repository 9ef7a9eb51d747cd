"""Boolean expressions of any shape: kept as trees they answer as the reference, DuckDB and their normal form do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, get_args
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ranked_by_the_book import exact_scores, relaxed_scores
from reference_matcher import ReferenceMatcher
from strategies import comparisons, events, history, lists_and_texts, logic, patterns
from tocsin import Matcher
from tocsin.language.parse import parse
from tocsin.predicates.history.order import Order
from tocsin.reference import evaluate
from tocsin.registry import IndexName, MatcherName
from tocsin.tuning import TUNING

Event = dict[str, Any]
Judge = Callable[[Sequence[str], Sequence[Event], Sequence[Event]], list[tuple[bool | None, ...]]]

ATOMS = st.one_of(comparisons(), comparisons(), patterns(), lists_and_texts())
TREES = st.lists(logic(ATOMS, max_leaves=24), min_size=1, max_size=6)
EVENTS = st.lists(events(), min_size=1, max_size=6)
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def products_of(most: int, max_cover: float = 1e9) -> Iterator[None]:
    """Keep as a tree what multiplies into more conjunctions than this, and file it if its cover is as rare as this."""
    tuning = replace(TUNING, max_cover=max_cover)
    with (
        patch("tocsin.conjunctions.boolean.build.TUNING", tuning),
        patch("tocsin.language.normalise.MAX_PRODUCT", most),
        patch("tocsin.language.normalise.MAX_GROWTH", 0),
        patch("tocsin.language.shape_plan.MAX_CONJUNCTIONS", most),
    ):
        yield


def matcher_of(texts: Sequence[str], **options: Any) -> Matcher:
    rows = [{"id": str(number), "where": text} for number, text in enumerate(texts)]
    matcher = Matcher.from_table(pa.Table.from_pylist(rows), background_merge=False, **options)
    assert matcher.rejected == []
    return matcher


def found_in(matcher: Matcher, batch: Sequence[Event]) -> list[set[str]]:
    found: list[set[str]] = [set() for _ in batch]
    for row in matcher.match_batch(list(batch)).to_pylist():
        assert row["subscription"] not in found[row["event"]], "no subscription is reported twice"
        found[row["event"]].add(row["subscription"])
    return found


def by_reference(texts: dict[str, str], batch: Sequence[Event]) -> list[set[str]]:
    parsed = {id: parse(text) for id, text in texts.items()}
    return [{id for id, condition in parsed.items() if evaluate(condition, event) is True} for event in batch]


def numbered(texts: Sequence[str]) -> dict[str, str]:
    return {str(number): text for number, text in enumerate(texts)}


@FEW
@given(TREES, EVENTS)
def test_a_tree_that_is_too_new_for_a_segment_answers_as_the_reference(texts: list[str], batch: list[Event]) -> None:
    matcher = Matcher(background_merge=False)
    with products_of(1):
        for id, text in numbered(texts).items():
            matcher.subscribe(id, text)
    assert [set(matcher.match(event).ids) for event in batch] == by_reference(numbered(texts), batch)


@FEW
@given(TREES, EVENTS, st.sampled_from([1, 4]), st.sampled_from([0.0, 0.2, 1e9]))
def test_a_tree_answers_as_the_reference(texts: list[str], batch: list[Event], most: int, max_cover: float) -> None:
    with products_of(most, max_cover):
        matcher = matcher_of(texts)
    expected = by_reference(numbered(texts), batch)
    assert found_in(matcher, batch) == expected
    assert found_in(matcher, batch * 40) == expected * 40, "more candidates than trees"
    for event, ids in zip(batch, expected, strict=True):
        assert set(matcher.match(event).ids) == ids
        for id in numbered(texts):
            explanation = matcher.explain(event, id)
            assert explanation.matches == (id in ids)
            assert explanation.matches == any(all(v.holds for v in found) for found in explanation.alternatives)
            assert str(explanation)


@FEW
@given(
    texts=st.lists(logic(comparisons(), max_leaves=24), min_size=1, max_size=6),
    batch=st.lists(events(False), min_size=1, max_size=6),
)
def test_a_tree_answers_as_duckdb(judge: Judge, texts: list[str], batch: list[Event]) -> None:
    with products_of(1):
        matcher = matcher_of(texts)
    truths = judge(texts, batch, [])
    expected = [{str(number) for number, value in enumerate(values) if value is True} for values in truths]
    assert found_in(matcher, batch) == expected


@FEW
@given(TREES, EVENTS)
def test_a_tree_and_its_normal_form_answer_alike(texts: list[str], batch: list[Event]) -> None:
    found = []
    for most in (1, 2, 8, 1_000_000):
        with products_of(most):
            found.append(found_in(matcher_of(texts), batch))
    assert all(one == found[0] for one in found)


@FEW
@given(TREES, TREES, EVENTS, st.sampled_from([0.0, 1e9]), st.data())
def test_trees_come_and_go(
    first: list[str], second: list[str], batch: list[Event], max_cover: float, data: st.DataObject
) -> None:
    with products_of(1, max_cover):
        matcher = matcher_of(first)
        standing = numbered(first)
        for number, text in enumerate(second):
            id = data.draw(st.sampled_from([str(number), f"new {number}"]))
            matcher.subscribe(id, text)
            standing[id] = text
            assert found_in(matcher, batch[:1]) == by_reference(standing, batch[:1])
        id = data.draw(st.sampled_from(sorted(standing)))
        matcher.unsubscribe(id)
        del standing[id]
    assert found_in(matcher, batch) == by_reference(standing, batch)
    with patch("tocsin.index.options.Options.normalise", side_effect=AssertionError("a text is parsed again")):
        matcher.compact()
    assert len(matcher.stats().segments) <= 1
    assert found_in(matcher, batch) == by_reference(standing, batch)


@settings(FEW, max_examples=15)
@given(TREES, EVENTS)
def test_trees_are_stored(tmp_path_factory: pytest.TempPathFactory, texts: list[str], batch: list[Event]) -> None:
    folder = tmp_path_factory.mktemp("index")
    with products_of(1):
        matcher = matcher_of(texts)
    matcher.save(folder)
    matcher.close()
    with Matcher.open(folder, mode="read") as reader:
        for state in reader._subscriptions.current().states:
            state.segment.check()
        assert found_in(reader, batch) == by_reference(numbered(texts), batch)


@settings(FEW, max_examples=30)
@given(
    TREES,
    EVENTS,
    st.sampled_from(get_args(IndexName)),
    st.sampled_from(get_args(MatcherName)),
    st.sampled_from([0.0, 1e9]),
)
def test_every_choice_of_algorithms(
    texts: list[str], batch: list[Event], index: str, matcher: str, max_cover: float
) -> None:
    with products_of(1, max_cover):
        chosen = matcher_of(texts, index=index, matcher=matcher)
    assert found_in(chosen, batch) == by_reference(numbered(texts), batch)


@FEW
@given(
    st.lists(logic(st.one_of(history(), comparisons()), max_leaves=10), min_size=1, max_size=4),
    EVENTS,
    st.booleans(),
    st.sampled_from([0.0, 1e9]),
)
@example(
    ["(i = 1 OR j = 1) AND (NOT EXISTS (SELECT 1 FROM history h WHERE h.i = event.i) OR d > 2)"], [{"i": 1}], True, 1e9
)
def test_trees_on_the_history(texts: list[str], batch: list[Event], constants_first: bool, max_cover: float) -> None:
    order = Order(constants_first, 0, 0, "for this test")
    with products_of(1, max_cover), patch("tocsin.index.history_planner.choose_order", lambda _: order):
        matcher, reference = matcher_of(texts), ReferenceMatcher()
        for id, text in numbered(texts).items():
            reference.subscribe(id, text)
        for event in batch:
            assert set(matcher.publish(event).ids) == {id for id, _ in reference.publish(event)}
        again = {id for id, _ in reference.match(batch[0])}
        assert set(matcher.match(batch[0]).ids) == again
        for id in numbered(texts):
            assert matcher.explain(batch[0], id).matches == (id in again)


@FEW
@given(
    st.lists(logic(ATOMS, max_leaves=10), min_size=1, max_size=4),
    events(),
    st.dictionaries(st.sampled_from(["i", "d", "s", "body"]), st.sampled_from([0.25, 2.0, -0.5, -3.0]), max_size=3),
    st.sampled_from(["sum", "max", {"i": 2.0}]),
)
def test_trees_are_ranked(texts: list[str], event: Event, weights: dict[str, float], score_by: Any) -> None:
    with products_of(1):
        matcher = Matcher(background_merge=False)
        for number, text in enumerate(texts):
            matcher.subscribe(str(number), text, score=number % 3, weights=weights)
        standing = list(matcher.subscriptions())
        found = dict(matcher.top_k(event, 10, mode="relaxed", score_by=score_by))
        assert found == pytest.approx(relaxed_scores(standing, event, score_by))
    assert dict(matcher.top_k(event, 10)) == exact_scores(standing, event)


EXCLUSIONS = {
    "not": "c = 1 AND " + " AND ".join(f"NOT (a = 'x{i}' AND b = 'y{i}')" for i in range(13)),
    "null-safe": "c = 1 AND "
    + " AND ".join(f"(a IS NULL OR NOT a = 'x{i}' OR b IS NULL OR NOT b = 'y{i}')" for i in range(7)),
    "product": " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(300)),
}


@pytest.mark.parametrize("text", EXCLUSIONS.values(), ids=EXCLUSIONS)
def test_rules_that_would_multiply(text: str) -> None:
    matcher = matcher_of([text])
    batch: list[Event] = [
        {"c": 1, "a": "x1", "b": "y1"},
        {"c": 1, "a": "x1", "b": "y2"},
        {"c": 1, "a": "x1"},
        {"c": 2, "a": "q", "b": "q"},
        {f"a{i}": 1 for i in range(300)},
        {f"a{i}": 1 for i in range(299)},
        {f"{'ab'[i % 2]}{i}": 1 for i in range(300)},
    ]
    assert found_in(matcher, batch) == by_reference({"0": text}, batch)
    (state,) = matcher._subscriptions.current().states
    assert len(state.segment.trees) == 1
    assert len(state.segment.trees.code.instructions) <= 600, "as many predicates as the text has"
    assert "kept as trees" in str(matcher.plan())


def test_an_intervals_range_holds_in_a_tree() -> None:
    text = "x = 1 AND (hours > 20 OR y = 1) AND (hours < 40 OR y = 2)"
    with products_of(1):
        matcher = matcher_of([text])
    assert matcher.top_k({"x": 1, "hours": [10, 25]}, k=1).ids == ["0"]
    assert matcher.top_k({"x": 1, "hours": [10, 25]}, k=1, interval="within").ids == []
    assert matcher.top_k({"x": 1, "hours": [21, 25]}, k=1, interval="within").ids == ["0"]
    assert matcher.top_k({"x": 2, "hours": [21, 25]}, k=1).ids == []
