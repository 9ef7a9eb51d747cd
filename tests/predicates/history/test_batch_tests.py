"""A batch is answered as its events one by one: any kinds of values, any tests, with and without remembering."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.model.condition import Exists, HistoryTest, OldComparedToNew, Op, Quantified, Quantifier
from tocsin.model.events import EventBatch
from tocsin.predicates.history import batch_tests, join_table
from tocsin.predicates.history.batch_tests import united
from tocsin.predicates.history.comparable_values import of_lanes, of_new
from tocsin.predicates.history.encode import Encoder, encode_column
from tocsin.predicates.history.join_table import JoinTable, attributes_of
from tocsin.predicates.history.store import HistoryStore

Event = Mapping[str, object]
Test = HistoryTest
Truths = Callable[[JoinTable, Event], list[bool | None]]


def judged(table: JoinTable, events: list[Event], remember: bool) -> tuple[list[list[Any]], int]:
    """The truth of each test for each event of a batch, where it can be judged, else `...`; and how many were left."""
    store, batch = table.store, EventBatch(events)
    columns = store.encoded(batch) if remember else None
    fronts = store.fronts(len(events)) if remember else np.zeros(len(events), np.int64)
    assert fronts is not None
    parts, left = table.judge_batch(batch, columns, fronts)
    true, null = (united([part[which] for part in parts], len(events)) for which in (0, 1))
    rows = []
    for row in range(len(events)):
        of_row = [ragged.values[ragged.starts[row] : ragged.starts[row + 1]].tolist() for ragged in (true, null)]
        assert not set(left) & {*of_row[0], *of_row[1]}, "what is left is not answered"
        rows.append(
            [
                ... if number in left else True if number in of_row[0] else None if number in of_row[1] else False
                for number in table.tests
            ]
        )
    return rows, len(left)


@pytest.mark.parametrize("retain", [None, 3])
def test_a_batch_is_its_events_one_by_one(
    mixed_events: st.SearchStrategy[list[Event]],
    mixed_tests: st.SearchStrategy[list[Test]],
    truth_of: Truths,
    retain: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @settings(max_examples=200)
    @given(
        before=mixed_events,
        events=mixed_events,
        tests=mixed_tests,
        remember=st.booleans(),
        few_rows=st.sampled_from([1, 13]),
    )
    def agree(before: list[Event], events: list[Event], tests: list[Test], remember: bool, few_rows: int) -> None:
        monkeypatch.setattr(batch_tests, "FEW_ROWS", few_rows)
        store = HistoryStore(attributes=attributes_of(tests), retain_events=retain)
        table = JoinTable(enumerate(tests), store)
        for event in before:
            store.append(event)
        found, _ = judged(table, events, remember)
        for event, row in zip(events, found, strict=True):
            # Events are read as a batch reads them.
            one = EventBatch([event]).event(0)
            expected = truth_of(table, one)
            assert [e if f is ... else f for e, f in zip(expected, row, strict=True)] == expected, (event, tests)
            if remember:
                store.append(one)

    agree()


def test_what_a_batch_answers_and_what_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    join = OldComparedToNew("a", Op.EQ, "a")
    tests: list[Test] = [Quantified("a", Op.GT, Quantifier.ALL, "a"), Exists((join, OldComparedToNew("b", Op.LT, "b")))]
    store = HistoryStore(attributes=["a", "b"])
    table = JoinTable(enumerate(tests), store)
    rows: list[Event] = [{"a": a, "b": b} for a, b in ((1, 1), (2, 5), (1, 2), (1, 0), (3, 0))]
    answers = [[True, False], [True, False], [False, True], [False, False], [True, False]]
    assert judged(table, rows, remember=True) == (answers, 0)
    monkeypatch.setattr(join_table, "SMALL_HISTORY", -1)
    assert judged(table, rows, remember=True)[1] == 1, "five events are few"
    monkeypatch.setattr(batch_tests, "FEW_ROWS", 1)
    assert judged(table, rows, remember=True) == (answers, 0)
    monkeypatch.setattr(batch_tests, "MOST_EVENTS", 4)
    assert judged(table, rows, remember=True)[1] == 1, "a long history is not passed over"
    assert judged(table, rows[:4], remember=True)[1] == 0


NUMBERS = [0, 1, -1, 1.0, 1.5, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 2.0**63, -(2.0**63), 1e300, -0.0]


def test_comparable_forms_compare_as_the_numbers_do() -> None:
    encoder = Encoder()
    lanes, payloads = encode_column(list(NUMBERS), encoder)
    values = (of_lanes(lanes, payloads, encoder)[0], of_new(list(NUMBERS), len(NUMBERS), encoder))
    for old in values:
        for new in values:
            for i, left in enumerate(NUMBERS):
                for j, right in enumerate(NUMBERS):
                    assert (old.at(i) < new.at(j), old.at(i) == new.at(j)) == (left < right, left == right)


def test_new_texts_lie_between_those_of_the_history_and_get_no_code() -> None:
    encoder = Encoder()
    encoder.strings.intern_all(["b", "d"])
    values = of_new(pa.array(["a", "b", "c", "d", "e", None]), 6, encoder)
    forms = [values.at(row) for row in range(5)]
    assert forms == sorted(set(forms))
    assert len(encoder.strings) == 2
    assert values.kinds[5] == 0
