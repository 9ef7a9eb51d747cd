"""Ranges on rare attributes become tests: answers stay those of the reference, and an event pays for what it has."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reference_matcher import ReferenceMatcher
from strategies import conditions, conditions_on_history, events, odd_conditions, odd_events
from tocsin import Matcher
from tocsin.index.segment import Segment
from tocsin.language.parse import parse
from tocsin.reference import evaluate
from tocsin.tuning import TUNING

Event = dict[str, Any]
SIZES = st.tuples(st.sampled_from([0, 1, 3]), st.sampled_from([1, 4, 100]))
"""How many attributes are common at least, and how many ranges a rare one has at most."""


def rare(common: int, ranges: int) -> Any:
    tuning = replace(TUNING, common_attributes=common, rare_ranges=ranges)
    return patch("tocsin.index.rare_attributes.TUNING", tuning)


def matcher_of(texts: Sequence[str]) -> Matcher:
    rows = [{"id": str(number), "where": text} for number, text in enumerate(texts)]
    matcher = Matcher.from_table(rows, background_merge=False)
    assert matcher.rejected == []
    return matcher


def found(table: pa.Table) -> set[tuple[int, str]]:
    return {(row["event"], row["subscription"]) for row in table.to_pylist()}


def by_reference(texts: Sequence[str], batch: Sequence[Event]) -> set[tuple[int, str]]:
    parsed = [parse(text) for text in texts]
    return {
        (row, str(number))
        for row, event in enumerate(batch)
        for number, condition in enumerate(parsed)
        if evaluate(condition, event) is True
    }


@given(
    texts=st.lists(conditions() | odd_conditions(), min_size=1, max_size=16),
    batch=st.lists(events() | odd_events(), min_size=2, max_size=6),
    sizes=SIZES,
)
def test_answers_are_those_of_the_reference(texts: list[str], batch: list[Event], sizes: tuple[int, int]) -> None:
    with rare(*sizes):
        matcher = matcher_of(texts)
    expected = by_reference(texts, batch)
    table = matcher.match_batch(batch)
    assert found(table) == expected
    usual = matcher_of(texts)
    assert table.schema.metadata is not None
    for row, event in enumerate(batch):
        matches = matcher.match(event)
        assert {(row, id) for id in matches.ids} == {pair for pair in expected if pair[0] == row}
        assert matches.evidence.mismatches == usual.match(event).evidence.mismatches
        assert matches.evidence.errors == usual.match(event).evidence.errors
        relaxed = list(usual.top_k(event, 3, mode="relaxed"))
        assert list(matcher.top_k(event, 3, mode="relaxed")) == relaxed


@given(
    texts=st.lists(conditions(), min_size=3, max_size=16), batch=st.lists(events(), min_size=2, max_size=6), sizes=SIZES
)
def test_columns_changes_and_files(
    typed: Callable[[Sequence[Event]], pa.Table],
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    batch: list[Event],
    sizes: tuple[int, int],
) -> None:
    expected = by_reference(texts, batch)
    with rare(*sizes):
        matcher = matcher_of(texts[::2])
        assert found(matcher.match_batch(typed(batch))) == by_reference(texts[::2], batch)
        for number in range(len(texts)):
            matcher.subscribe(str(number), texts[number])
        assert found(matcher.match_batch(typed(batch))) == expected
        matcher.compact()
        for state in matcher._subscriptions.current().states:
            state.segment.check()
        folder = tmp_path_factory.mktemp("rare")
        matcher.save(folder)
    assert found(matcher.match_batch(typed(batch))) == expected
    with Matcher.open(folder, mode="read") as opened:
        assert found(opened.match_batch(batch)) == expected
        assert {(row, id) for row, event in enumerate(batch) for id in opened.match(event).ids} == expected


@given(
    texts=st.lists(conditions_on_history(), min_size=1, max_size=6), batch=st.lists(events(), max_size=6), sizes=SIZES
)
@example(
    texts=[
        "i = 0",
        "NOT ((day IS NULL) IS TRUE)",
        "EXISTS (SELECT 1 FROM history h) AND i = ALL (SELECT i FROM history h WHERE event.j > 0) AND j IS NULL",
    ],
    batch=[{}, {}],
    sizes=(0, 1),
)
def test_history(texts: list[str], batch: list[Event], sizes: tuple[int, int]) -> None:
    judge = ReferenceMatcher()
    with rare(*sizes):
        matcher = matcher_of(texts)
    for number, text in enumerate(texts):
        judge.subscribe(str(number), text)
    for event in batch:
        assert list(matcher.publish(event)) == sorted(judge.publish(event))


NAMES = 3_000


def many_names() -> Matcher:
    return matcher_of([f"z{number} BETWEEN 1 AND 9" for number in range(NAMES)] + ["price < 5 AND z7 > 2", "price < 5"])


def test_an_event_pays_for_the_attributes_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are read, and conjunctions verified, for the attributes of the events alone."""
    matcher = many_names()
    [state] = matcher._subscriptions.current().states
    assert len(state.segment.common_columns) == TUNING.common_attributes < len(state.segment.columns)
    rows: list[int] = []
    encode = Segment.encode

    def counted(self: Segment, *arguments: Any) -> Any:
        encoded, evidence = encode(self, *arguments)
        rows.append(max(encoded.codes.shape[0], encoded.short.shape[0]))
        return encoded, evidence

    monkeypatch.setattr(Segment, "encode", counted)
    event = {"price": 3, "z7": 4, "z2999": 20, "unknown": 1}
    table = matcher.match_batch([event] * 10)
    assert sorted(set(table["subscription"].to_pylist())) == ["3000", "3001", "7"]
    assert max(rows) <= TUNING.common_attributes + 1, "rare attributes have no codes"
    matches = matcher.match(event)
    assert matches.ids == ["3000", "3001", "7"]
    assert matches.evidence.candidates <= TUNING.common_attributes + 3


def test_nested_names_are_found() -> None:
    texts = [f"user.field{number} = {number}" for number in range(200)]
    matcher = matcher_of(texts)
    events: list[Event] = [{"user": {"field150": 150}}, {"user.field3": 3}, {"user": {"field3": 4}}]
    assert found(matcher.match_batch(events)) == {(0, "150"), (1, "3")}
    assert [matcher.match(event).ids for event in events] == [["150"], ["3"], []]
    table = pa.table({"user": [{"field150": 150.0}, {"field150": 1.0}]})
    assert found(matcher.match_batch(table)) == {(0, "150")}


def test_one_conjunction_of_many_names() -> None:
    """It is filed under one of its names: an event without that one does not look at it."""
    matcher = matcher_of([" AND ".join(f"z{number} = 1" for number in range(NAMES))])
    assert matcher.match({"price": 1}).evidence.candidates == 0
    assert matcher.match({f"z{number}": 1 for number in range(NAMES)}).ids == ["0"]
    assert matcher.match({f"z{number}": 1 for number in range(NAMES - 1)}).ids == []


def test_null_is_accepted_where_it_was_asked_for() -> None:
    texts = [f"z{number} IS NULL OR z{number} BETWEEN 2 AND 3 OR z{number} > 7" for number in range(100)]
    matcher = matcher_of(texts)
    values = [None, 1, 2, 3, 5, 7, 8]
    matches = [{"99"} & set(matcher.match({"z99": value}).ids) for value in values]
    assert [bool(found) for found in matches] == [True, False, True, True, False, False, True]
    table = matcher.match_batch(pa.table({"z99": pa.array(values, pa.int64())}))
    rows = [row for row, id in found(table) if id == "99"]
    assert np.sort(rows).tolist() == [0, 2, 3, 6]
