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
from tocsin.predicates.history.batch_kernels import (
    BUCKETS,
    IS_TRUE,
    IS_UNKNOWN,
    Chains,
    Extremes,
    NewTable,
    OldTable,
    Terms,
    Tests,
    add_old,
    find_old,
    judge_event,
    judge_tests,
)
from tocsin.predicates.history.batch_tests import united
from tocsin.predicates.history.comparable_values import of_lanes, of_new
from tocsin.predicates.history.encode import Encoder, encode_column
from tocsin.predicates.history.join_table import JoinTable, attributes_of
from tocsin.predicates.history.kernels import LANES, Bounds
from tocsin.predicates.history.store import HistoryStore

Event = Mapping[str, object]
Test = HistoryTest
Truths = Callable[[JoinTable, Event], list[bool | None]]


def judged(table: JoinTable, events: list[Event], remember: bool) -> tuple[list[list[Any]], int]:
    """The truth of each test for each event of a batch, where it can be judged, else `...`; and how many were left."""
    store, batch = table.store, EventBatch(events)
    columns = (store.encoded_event(batch) if len(events) == 1 else store.encoded(batch)) if remember else None
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


@pytest.mark.parametrize("retain", [None, 3])
def test_single_events_are_judged_as_they_are_probed(
    mixed_events: st.SearchStrategy[list[Event]],
    mixed_tests: st.SearchStrategy[list[Test]],
    truth_of: Truths,
    retain: int | None,
) -> None:
    """The history in comparable form grows event by event; what is beyond its extremes is not looked for."""

    @settings(max_examples=150)
    @given(events=mixed_events, tests=mixed_tests, remembered=st.lists(st.integers(0, 2), min_size=20, max_size=20))
    def agree(events: list[Event], tests: list[Test], remembered: list[int]) -> None:
        store = HistoryStore(attributes=attributes_of(tests), retain_events=retain)
        table = JoinTable(enumerate(tests), store)
        for event, remember in zip(events, remembered, strict=False):
            one = EventBatch([event]).event(0)
            expected = truth_of(table, one)
            [row], _ = judged(table, [event], remember > 0)
            assert [e if f is ... else f for e, f in zip(expected, row, strict=True)] == expected, (event, tests)
            if remember == 1:
                store.append(one)
            elif remember == 2:
                store.append_encoded_event(store.encoded_event(EventBatch([event])))

    agree()


KINDS = [0, 1, 3, 6]
VALUES = st.tuples(st.sampled_from(KINDS), st.integers(-2, 2), st.integers(0, 1))
TERMS = st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 1), st.integers(0, 6))


def satisfies(term: tuple[int, int, int, int], old: Any, new: Any, bounds: Bounds) -> bool:
    form, of_old, of_new, what = term
    (kind, *value), (new_kind, *new_value) = old[of_old], new[of_new]
    if form == 1:
        row = what % 2
        return bool((bounds.low[row, kind] <= value[0] <= bounds.high[row, kind]) != bounds.outside[row, kind])
    if form == 2:
        return bool((kind == 0) != (what == 1))
    if form == 3:
        return bool(kind != new_kind or kind <= 1)
    return bool(kind == new_kind > 1 and what & (1 if value < new_value else 2 if value == new_value else 4))


@settings(max_examples=200)
@given(
    old=st.lists(st.tuples(VALUES, VALUES), max_size=8),
    new=st.tuples(VALUES, VALUES),
    searches=st.lists(st.lists(TERMS, min_size=1, max_size=3), min_size=1, max_size=4),
    null=st.integers(-1, 3),
    first=st.integers(0, 4),
)
def test_the_kernel_judges_tests_by_the_book(
    old: list[Any], new: Any, searches: list[list[tuple[int, int, int, int]]], null: int, first: int
) -> None:
    lanes = LANES
    bounds = Bounds(
        np.full((2, lanes), -1), np.array([[1] * lanes, [-2] * lanes]), np.array([[False] * lanes, [True] * lanes])
    )
    table = OldTable(*(np.zeros((2, 10), kind) for kind in (np.uint8, np.int64, np.uint8, np.int64, np.int64)))
    extremes = Extremes(np.zeros((2, lanes), np.bool_), *(np.zeros((2, lanes, 2), np.int64) for _ in range(2)))
    rows_of = [np.array([(kind, major, kind, major, minor) for kind, major, minor in event]) for event in old]
    for place, values in enumerate(rows_of[:-1]):
        add_old(place, values.reshape(2, 1, 5), table, extremes)
    equalities = [(terms[0][1:3] if terms[0][0] == 0 and terms[0][3] == 2 else None) for terms in searches]
    distinct = list(dict.fromkeys(pair for pair in equalities if pair is not None))
    rows = [(form, o, n, what % 2 if form in (1, 2) else what) for terms in searches for form, o, n, what in terms]
    form, of_old, of_new, what = np.array(rows, np.int64).T.copy()
    slots = np.array([-1 if pair is None else distinct.index(pair) for pair in equalities])
    terms = Terms(np.cumsum([0, *map(len, searches)]), form, of_old, of_new, what, slots)
    first, null = min(first, len(old)), min(null, len(searches) - 1)
    is_all = [False, True] * len(searches)
    tests = Tests(np.repeat(np.arange(len(searches)), 2), np.full(2 * len(searches), null), np.array(is_all))
    new_rows = np.array([(0, 0, *value) for value in new])
    newest = rows_of[-1] if old else np.empty((0, 5), np.int64)
    numbers = np.arange(10, 10 + len(is_all), dtype=np.int32)
    # It writes the newest event.
    chains = Chains(np.full((2, BUCKETS), -1, np.int32), np.empty((2, 10), np.int32))
    of_one = judge_event(
        newest, first, len(old), terms, tests, numbers, table, extremes, new_rows, bounds, chains, linked=0
    )
    columns = [np.array([value[field] for value in new]).reshape(2, 1) for field in range(3)]
    given_values = NewTable(columns[0].astype(np.uint8), columns[1], columns[2])
    unlinked = Chains(np.empty((0, 0), np.int32), np.empty((0, 0), np.int32))
    rows_seen = np.array([first]), np.array([len(old)])
    found = judge_tests(*rows_seen, terms, tests, table, extremes, given_values, bounds, unlinked)
    held = [
        any(
            all(satisfies((f, o, n, w % 2 if f in (1, 2) else w), event, new, bounds) for f, o, n, w in wanted)
            for event in old[first:]
        )
        for wanted in searches
    ]
    for test, truth in enumerate(found[0].tolist()):
        met, unclear, every = held[test // 2], null >= 0 and held[null], bool(test % 2)
        expected = (0 if every else IS_TRUE) if met else IS_UNKNOWN if unclear else IS_TRUE if every else 0
        assert truth == expected, (test, held)
    by_truth = [numbers[found[0] == truth].tolist() for truth in (IS_TRUE, IS_UNKNOWN)]
    assert [one.tolist() for one in of_one] == by_truth


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


class Counted:
    """An array that counts how often it is looked at."""

    def __init__(self, values: Any) -> None:
        self.values, self.looks = values, 0

    def __getitem__(self, place: Any) -> Any:
        self.looks += 1
        return self.values[place]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many old values the searches of each single event look at: the kernel is run again, uncompiled."""
    counts: list[int] = []
    judge, find = judge_event, getattr(find_old, "py_func", find_old)

    def counting(newest: Any, first: int, stop: int, *others: Any) -> Any:
        found = judge(newest, first, stop, *others)
        terms, _, _, old, extremes, values, bounds, chains, _ = others
        kinds, majors = Counted(old.kinds), Counted(old.majors)
        new = NewTable(*(values[:, field : field + 1] for field in (2, 3, 4)))
        counted = old._replace(kinds=kinds, majors=majors)
        find(np.array([first]), np.array([stop]), terms, counted, extremes, new, bounds, chains)
        counts.append(kinds.looks + majors.looks)
        return found

    monkeypatch.setattr(batch_tests, "judge_event", counting)
    return counts


def test_what_is_beyond_the_extremes_is_not_looked_for(looks: list[int]) -> None:
    above = Exists((OldComparedToNew("a", Op.GT, "a"), OldComparedToNew("b", Op.LT, "b")))
    never_null = Quantified("a", Op.LT, Quantifier.ALL, "a")
    store = HistoryStore(attributes=["a", "b"])
    table = JoinTable(enumerate([above, never_null]), store)
    for number in range(50):
        store.append({"a": number, "b": number})
    assert judged(table, [{"a": -1, "b": -1}], remember=False)[0] == [[False, True]]
    assert looks == [0], "no old b is below -1, no a is at most -1, and all of them compare"
    assert judged(table, [{"a": 20, "b": 30}], remember=False)[0] == [[True, False]]
    assert looks[1] > 0


def test_equal_old_values_are_looked_for_once(looks: list[int]) -> None:
    same = OldComparedToNew("a", Op.EQ, "a")
    tests = [Exists((same, OldComparedToNew(name, op, name))) for name in "bc" for op in (Op.LT, Op.GT)]
    store = HistoryStore(attributes=["a", "b", "c"])
    table = JoinTable(enumerate(tests), store)
    for number in range(1000):
        of_b = 50 if number % 10 == 7 else number
        store.append({"a": number % 10, "b": of_b, "c": of_b})
    assert judged(table, [{"a": 7, "b": 50, "c": 50}], remember=False)[0] == [[False] * 4]
    # Its kind and a of each of the 100 once, and b or c with its kind for each of the four searches.
    assert looks == [100 * (2 + 4 * 2)]


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
