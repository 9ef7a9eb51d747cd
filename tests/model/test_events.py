"""Columns of events: the same values in every layout that Arrow has."""

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import EventError, Matcher
from tocsin.model.events import EventBatch
from tocsin.model.readable import read_column

NUMBERS = [1, 1, 1, None, None, 2, 3, 3]
TEXTS = ["a b", "a b", None, "c", "c", "c", "d", "a b"]
LISTS = [[1, 2], [1, 2], None, [], [3], [3], [1], None]


def runs_of(values: pa.Array) -> pa.Array:
    """Run-end encoded, run by run; Arrow encodes scalars only."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), values)


def dictionary_of(values: pa.Array) -> pa.Array:
    indices = pa.array([None if value is None else place for place, value in enumerate(values.to_pylist())], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, values)


LAYOUTS: dict[str, Callable[[], tuple[pa.Array, pa.Array, pa.Array]]] = {
    "plain": lambda: (pa.array(NUMBERS), pa.array(TEXTS), pa.array(LISTS)),
    "run ends": lambda: (
        pc.run_end_encode(pa.array(NUMBERS)),
        pc.run_end_encode(pa.array(TEXTS)),
        runs_of(pa.array(LISTS)),
    ),
    "run ends of dictionaries": lambda: (
        runs_of(pa.array(NUMBERS).dictionary_encode()),
        runs_of(pa.array(TEXTS).dictionary_encode()),
        runs_of(dictionary_of(pa.array(LISTS))),
    ),
    "dictionaries": lambda: (
        pa.array(NUMBERS).dictionary_encode(),
        dictionary_of(pa.array(TEXTS, pa.string_view())),
        dictionary_of(pa.array(LISTS)),
    ),
    "views": lambda: (
        pa.array(NUMBERS),
        pa.array(TEXTS, pa.string_view()),
        pa.array(LISTS, pa.list_view(pa.int64())),
    ),
    "large": lambda: (
        pa.array(NUMBERS, pa.int8()),
        pa.array(TEXTS, pa.large_string()),
        pa.array(LISTS, pa.large_list_view(pa.int64())),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_matches_do_not_depend_on_the_layout(layout: str) -> None:
    matcher = Matcher()
    matcher.subscribe("number", "n >= 2 OR s.n = 1")
    matcher.subscribe("text", "t = 'c' OR has_words(t, 'b')")
    matcher.subscribe("list", "array_contains(l, 3)")
    numbers, texts, lists = LAYOUTS[layout]()
    nested = pa.StructArray.from_arrays([numbers], ["n"])
    table = pa.table({"n": numbers, "t": texts, "l": lists, "s": nested})
    rows = [
        {"n": number, "t": text, "l": items, "s": {"n": number}}
        for number, text, items in zip(NUMBERS, TEXTS, LISTS, strict=True)
    ]
    for start, length in ((0, 8), (2, 5), (5, 0)):
        found = matcher.match_batch(table.slice(start, length)).select(["event", "subscription"]).to_pylist()
        expected = [
            {"event": row, "subscription": id} for row in range(length) for id in matcher.match(rows[start + row]).ids
        ]
        assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_lists_of_a_fixed_size_are_lists() -> None:
    matcher = Matcher()
    matcher.subscribe("list", "array_contains(l, 3)")
    lists = pa.array([[1, 2], [3, 4], None], pa.list_(pa.int64(), 2))
    assert matcher.match_batch(pa.table({"l": lists}))["event"].to_pylist() == [1]


@given(st.lists(st.sampled_from([None, 1, 2])), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_of_runs_is_decoded(values: list[int | None], start: int, length: int) -> None:
    runs = pc.run_end_encode(pa.array(values, pa.int64())).slice(start, length)
    read, _ = read_column(pa.chunked_array([runs]))
    assert isinstance(read, pa.Array)
    assert read.to_pylist() == values[start : start + length]


def test_dots_lead_into_structs_of_every_layout() -> None:
    inner = pa.array([{"c": 1}, {"c": 2}, None])
    table = pa.table({"a": runs_of(pa.StructArray.from_arrays([dictionary_of(inner)], ["b"]))})
    batch = EventBatch(table)
    column = batch.column("a.b.c")
    assert isinstance(column, pa.Array)
    assert column.to_pylist() == [1, 2, None]
    assert batch.column("a.x") is None
    assert batch.column("a.b.c.d") is None


def test_nanoseconds_lie_between_microseconds() -> None:
    matcher = Matcher()
    literal = "TIMESTAMP '2026-01-31 12:00:00.000001'"
    for name, operator in (("before", "<"), ("at", "="), ("after", ">")):
        matcher.subscribe(name, f"t {operator} {literal}")
    nanoseconds = 1_769_860_800_000_001_000
    column = pa.array([nanoseconds, nanoseconds + 1, nanoseconds - 1], pa.timestamp("ns"))
    # With pandas, which Spark brings, Arrow's timestamps of this unit are those of pandas.
    events = [{"t": moment} for moment in column.to_pylist()]
    assert events[1]["t"].nanosecond == 1
    assert [matcher.match(event).ids for event in events] == [["at"], ["after"], ["before"]]
    found = matcher.match_batch(pa.table({"t": column}))
    assert sorted(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True)) == [
        (0, "at"),
        (1, "after"),
        (2, "before"),
    ]
    assert matcher.explain(events[1], "after").matches


@pytest.mark.parametrize(
    "event",
    [
        {"a": 1, "b": 2.5, "c": True, "d": "text", "e": float("nan"), "f": None, "g": [1, None], "h": 2**70},
        {"a": {"b": 1}, "a.b": 2, "d": "\ud800", "g": (1, 2), "h": dt.date(2026, 3, 2), "\0now": 5},
        {},
    ],
)
def test_a_value_of_one_event_is_that_of_its_column(event: dict[str, object]) -> None:
    now = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
    for name in ("a", "b", "c", "d", "e", "f", "g", "h", "a.b", "x", "x.y", "\0now"):
        values = EventBatch([event], now).values(name)
        found, column = EventBatch([event], now).value(name), None if values is None else values[0]
        assert repr(found) == repr(column)


def test_columns_without_a_value_are_not_read() -> None:
    """Only attributes that subscriptions name are asked for, however many columns there are."""
    columns = {f"a{number}": pa.array([1, 2]) for number in range(50)}
    table = pa.table(columns | {"gone": pa.nulls(2, pa.int64()), "dots.in": pa.nulls(2)})
    batch = EventBatch(table)
    assert [batch.lacks(name) for name in ("a1", "gone", "missing", "dots.in", "\0now")] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert not EventBatch([{"a": None}]).lacks("a")
    matcher = Matcher.from_table(pa.table({"id": ["x", "y"], "where": ["a1 > 1 AND gone IS NULL", "gone < 3"]}))
    segment = matcher._subscriptions.current().states[0].segment
    segment.match(batch)
    assert set(batch._columns) | set(batch._lacking) <= {"a1", "gone", "missing", "dots.in", "\0now"}
    assert "gone" not in batch._columns
    assert matcher.match_batch(table)["subscription"].to_pylist() == ["x"]


def test_two_columns_of_one_name_are_an_error_even_without_values() -> None:
    table = pa.Table.from_arrays([pa.nulls(2, pa.int64())] * 2, ["a", "a"])
    assert not EventBatch(table).lacks("a")
    with pytest.raises(EventError, match="2 columns 'a'"):
        EventBatch(table).column("a")
