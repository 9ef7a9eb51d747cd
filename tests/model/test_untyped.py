"""Untyped attributes: texts have the order of the values they stand for, kind by kind."""

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import strategies
from tocsin import Matcher
from tocsin.language.parse import parse
from tocsin.model.casts import Time
from tocsin.model.derive import FEW_ROWS
from tocsin.model.functions import as_value
from tocsin.model.untyped import HIGHEST, compare_untyped, readings, typed_scalar, untyped_text
from tocsin.model.values import Kind, Number, compare_values, kind_of
from tocsin.reference import evaluate

NUMBERS = st.one_of(
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -0.0, Decimal("-0"), 10, 9, -9, -10, 0.1, Decimal("0.1"), -0.12, -0.123, 100, 1e300]),
)
TIMES = st.builds(Time, st.integers(-(2**63), 2**63 - 1), st.integers(0, 999))
TEXTS = st.text(st.sampled_from(["a", "1", HIGHEST, "n", "z"]), max_size=4)


def sign(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


@pytest.mark.parametrize(
    "values", [NUMBERS, TIMES, TEXTS, st.booleans()], ids=["numbers", "times", "texts", "booleans"]
)
@given(data=st.data())
def test_texts_have_the_order_of_values(values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    left, right = data.draw(values), data.draw(values)
    texts = untyped_text(left), untyped_text(right)
    assert sign(*texts) == compare_values(as_value(left), as_value(right))


@given(value=st.one_of(NUMBERS, TIMES, TEXTS, st.booleans()))
def test_a_text_is_read_back(value: Any) -> None:
    if isinstance(value, float):
        assume(math.isfinite(value))
    text = untyped_text(value)
    assert text is not None
    back = typed_scalar(text)
    if isinstance(value, Time):
        assert back == value.microseconds
    elif isinstance(value, (str, bool)):
        assert back == value
        assert type(back) is type(value)
    else:
        assert back == Number(value)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("10", {Kind.STRING, Kind.NUMBER}),
        ("1", {Kind.STRING, Kind.NUMBER, Kind.BOOLEAN}),
        ("yes", {Kind.STRING, Kind.BOOLEAN}),
        ("2026-01-31T00:00:00Z", {Kind.STRING, Kind.TIME}),
        ("2026-02-31", {Kind.STRING}),
        ("\u0661\u0662", {Kind.STRING}),
        ("1e999", {Kind.STRING}),
        ("1" * 2000, {Kind.STRING}),
        ("ten", {Kind.STRING}),
        ("", {Kind.STRING}),
    ],
)
def test_what_a_string_reads_as(text: str, kinds: set[Kind]) -> None:
    assert set(readings(text)) == kinds


VALUES = [None, "10", "9", "1", "true", "x", "2026-01-31", 10, 10.0, Decimal("10.00"), 9, 11, 1, 0, True, False, [10]]
EVENTS = [{"x": value} for value in [*VALUES, *strategies.DATES, *strategies.TIMESTAMPS]]


@pytest.mark.parametrize("literal", ["10", "1", "true", "f", " 9 ", "1970-01-01T00:00:00Z", "1970-1-1", "010"])
@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_each_way_to_match_reads_a_constant_by_the_kind_of_the_value(literal: str, op: str) -> None:
    wheres = [f"x {op} '{literal}'", f"NOT (x {op} '{literal}')", f"(x {op} '{literal}') IS NULL"]
    wheres += [f"x IN ('{literal}', 'x', '2026-01-31')", f"x NOT IN ('{literal}', 'x', 11)"]
    conditions = [parse(where) for where in wheres]
    expected = {
        (row, f"{number} {turn}")
        for row, event in enumerate(EVENTS)
        for number, condition in enumerate(conditions)
        for turn in range(6)
        if evaluate(condition, event) is True
    }
    # Four texts of a shape or more are bound as columns.
    one_by_one, together = Matcher(), Matcher()
    named = [(f"{number} {turn}", where) for number, where in enumerate(wheres) for turn in range(6)]
    for id, where in named:
        one_by_one.subscribe(id, where)
    assert together.subscribe_many([{"id": id, "where": where} for id, where in named]) == []
    for matcher in (one_by_one, together):
        for first, events in ((0, EVENTS), *((row, [event]) for row, event in enumerate(EVENTS))):
            rows = matcher.match_batch(events).to_pylist()
            found = {(first + row["event"], row["subscription"]) for row in rows}
            assert found == {pair for pair in expected if first <= pair[0] < first + len(events)}
        assert {(0, id) for id in matcher.match(EVENTS[0]).ids} == {pair for pair in expected if pair[0] == 0}
    for event in EVENTS:
        kind = kind_of(event["x"])
        if kind is not None and kind in readings(literal):
            assert compare_untyped(event["x"], literal) is not None
            assert [evaluate(conditions[n], event) for n in (0, 1)].count(True) == 1


COLUMNS = {
    "booleans": pa.array([True, False, None]),
    "integers": pa.array([10, 9, 1, 0, None]),
    "floats": pa.array([10.0, -0.0, 1.5, float("inf"), float("nan"), None]),
    "decimals": pa.array([Decimal("10.00"), Decimal("1.50"), Decimal("-9.00"), None]),
    "texts": pa.array(["10", "true", "", HIGHEST, HIGHEST + "nC", None]),
    "dates": pa.array([*strategies.DATES, None]),
    "timestamps": pa.array([*strategies.TIMESTAMPS, None]),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_typed_columns(column: str) -> None:
    values = pa.concat_arrays([COLUMNS[column]] * FEW_ROWS)
    literals = ["10", "1", "0", "true", "1.5", "-9", "1970-01-01T00:00:00Z", "2024-02-29 00:00:00.0"]
    wheres = [f"x {op} '{literal}'" for literal in literals for op in ("=", "<>", "<", ">=")]
    matcher = Matcher.from_table(pa.table({"id": wheres, "where": wheres}))
    found = {(row["event"], row["subscription"]) for row in matcher.match_batch(pa.table({"x": values})).to_pylist()}
    rows = enumerate(values.to_pylist())
    assert found == {(row, where) for row, x in rows for where in wheres if evaluate(parse(where), {"x": x}) is True}


def test_the_attribute_of_a_shape_does_not_depend_on_its_first_text() -> None:
    matcher = Matcher()
    wheres = {"word": "zip = 'abc'", "number": "zip = '10115'", "time": "zip = '2026-01-31'", "float": "zip = '1e3'"}
    rows = [{"id": f"{id} {n}", "where": where} for n in range(9) for id, where in wheres.items()]
    assert matcher.subscribe_many(rows) == []
    for value, id in (("abc", "word"), ("10115", "number"), (10115, "number"), (1000, "float")):
        assert set(matcher.match({"zip": value}).ids) == {f"{id} {n}" for n in range(9)}
    assert matcher.match({"zip": 10116}).ids == []
    assert matcher.attributes == {"zip"}
