"""Subscriptions whose constants Python takes for equal, or for different, answer as each of them does alone."""

import datetime as dt
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_matcher import ReferenceMatcher
from tocsin import Matcher
from tocsin.language.parse import parse
from tocsin.model.codec import decode_test, encode_test
from tocsin.model.condition import ArrayContains, Comparison, Exists, InList, OldComparedToConstant, Op
from tocsin.reference import evaluate

Event = dict[str, Any]

# In each list, Python's == or hash() mixes up constants of several kinds, or keeps apart constants of one value.
ALIKE = [
    ["1", "TRUE", "1.0", "1e0", "'1'", "TIMESTAMP '1970-01-01 00:00:00.000001'"],
    ["0", "FALSE", "-0.0", "0e0", "DATE '1970-01-01'", "TIMESTAMP '1970-01-01'", "TIMESTAMPTZ '1970-01-01 00:00+00'"],
    ["0.1", "1e-1", "0.10", "'0.1'"],
    [
        "DATE '2024-02-29'",
        "TIMESTAMP '2024-02-29 00:00:00'",
        "TIMESTAMPTZ '2024-02-29 01:00:00+01:00'",
        "1709164800000000",
    ],
    ["9007199254740992", "9007199254740993", "9007199254740992e0", "9007199254740993.0"],
]
LITERALS = [literal for literals in ALIKE for literal in literals]
UTC_1 = dt.timezone(dt.timedelta(hours=1))
# What events hold, list by list.
HELD: list[list[object]] = [
    [True, 1, 1.0, Decimal("1.00"), "1", dt.datetime(1970, 1, 1, microsecond=1)],
    [False, 0, -0.0, Decimal(0), dt.date(1970, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    [0.1, Decimal("0.1"), "0.1"],
    [dt.date(2024, 2, 29), dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 1, tzinfo=UTC_1), 1709164800000000],
    [2**53, 2**53 + 1, float(2**53), Decimal(2**53 + 1)],
]
VALUES = [value for values in HELD for value in values]
ON_EVENTS = [
    "x = {}",
    "x <> {}",
    "x <= {}",
    "NOT (x > {})",
    "x IN ({}, {})",
    "x NOT IN ({}, {})",
    "(x = {}) IS NOT TRUE",
    "x BETWEEN {} AND {}",
    "array_contains(l, {})",
    "NOT array_contains(l, {})",
    "array_contains(l, {}) AND array_contains(l, {})",
    "array_contains(l, {}) OR array_contains(l, {})",
    "array_contains(l, {}) AND NOT array_contains(l, {})",
    "array_contains(l, {}) IS NOT TRUE",
]
ON_HISTORY = [
    "EXISTS (SELECT 1 FROM history h WHERE h.x = {})",
    "NOT EXISTS (SELECT 1 FROM history h WHERE h.x = {})",
    "EXISTS (SELECT 1 FROM history h WHERE h.x = {} AND h.x <> {})",
    "EXISTS (SELECT 1 FROM history h WHERE h.x >= {} AND h.y = event.y)",
    "EXISTS (SELECT 1 FROM history h WHERE h.x = event.x) AND x = {}",
    "y = ANY (SELECT y FROM history h WHERE h.x = {})",
    "y < ANY (SELECT y FROM history h WHERE h.x <= {})",
    "y >= ALL (SELECT y FROM history h WHERE h.x = {}) AND x = {}",
]


@st.composite
def cases(draw: st.DrawFn, shapes: list[str]) -> tuple[list[str], list[Event]]:
    """One shape with several constants of one list, and events that hold values of that list."""
    number = draw(st.integers(0, len(ALIKE) - 1))
    shape = draw(st.sampled_from(shapes))
    constants = st.tuples(*[st.sampled_from(ALIKE[number])] * shape.count("{}"))
    texts = [shape.format(*chosen) for chosen in draw(st.lists(constants, min_size=2, max_size=8, unique=True))]
    value = st.sampled_from(HELD[number])
    attributes = {"x": value, "y": st.sampled_from([1, 2, True]), "l": st.lists(value | st.none(), max_size=2)}
    return texts, draw(st.lists(st.fixed_dictionaries({}, optional=attributes), min_size=1, max_size=4))


def answers(texts: list[str], batch: list[Event]) -> list[set[str]]:
    matcher = Matcher.from_table(pa.table({"id": list(map(str, range(len(texts)))), "where": texts}))
    assert matcher.rejected == []
    return [set(matcher.publish(event).ids) for event in batch]


def each_alone(texts: list[str], batch: list[Event]) -> list[set[str]]:
    alone = [answers([text], batch) for text in texts]
    return [{str(number) for number, found in enumerate(alone) if found[row]} for row in range(len(batch))]


def by_reference(texts: list[str], batch: list[Event]) -> list[set[str]]:
    reference = ReferenceMatcher()
    for number, text in enumerate(texts):
        reference.subscribe(str(number), text)
    return [{id for id, _ in reference.publish(event)} for event in batch]


@given(cases(ON_EVENTS))
def test_together_as_each_alone(case: tuple[list[str], list[Event]]) -> None:
    texts, batch = case
    expected = by_reference(texts, batch)
    assert answers(texts, batch) == expected
    assert each_alone(texts, batch) == expected


@given(cases(ON_HISTORY))
def test_on_history_as_each_alone(case: tuple[list[str], list[Event]]) -> None:
    texts, batch = case
    expected = by_reference(texts, batch)
    assert answers(texts, batch) == expected
    assert each_alone(texts, batch) == expected


@pytest.mark.parametrize("literals", ALIKE, ids=lambda literals: literals[0])
@pytest.mark.parametrize(
    "shape", ["x = {}", "array_contains(l, {})", "EXISTS (SELECT 1 FROM history h WHERE h.x = {})"]
)
def test_all_constants_of_one_value(shape: str, literals: list[str]) -> None:
    texts = [shape.format(literal) for literal in literals]
    batch = [{"x": value, "l": [value]} for value in VALUES]
    for event in batch:
        assert answers(texts, [event, {}]) == by_reference(texts, [event, {}])


def test_times_of_all_types_equal_duckdb() -> None:
    literals = ALIKE[3][:3]
    texts = [f"array_contains(l, {literal})" for literal in literals]
    moments = [dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 1), dt.datetime(2024, 2, 28, 23)]
    judge = duckdb.connect()
    judge.execute("SET TimeZone = 'UTC'")
    for moment in moments:
        row = judge.execute(f"SELECT {', '.join(texts)} FROM (SELECT [?::TIMESTAMP] AS l)", [moment]).fetchone()
        assert row is not None
        assert answers(texts, [{"l": [moment]}]) == [{str(n) for n, truth in enumerate(row) if truth}]


def test_conditions_are_equal_if_no_value_tells_their_constants_apart() -> None:
    found = {literal: parse(f"x = {literal}") for literal in LITERALS}
    for left, right in product(LITERALS, LITERALS):
        one, other = found[left], found[right]
        same = all(evaluate(one, {"x": value}) == evaluate(other, {"x": value}) for value in VALUES)
        assert (one == other) == same, f"{left} and {right}"
        assert hash(one) == hash(other) or not same, f"{left} and {right}"


@pytest.mark.parametrize(
    "make",
    [
        lambda constant: Comparison("x", Op.EQ, constant),
        lambda constant: ArrayContains("x", constant),
        lambda constant: InList("x", (None, constant)),
        lambda constant: Exists((OldComparedToConstant("x", Op.EQ, constant),)),
    ],
)
def test_one_is_not_true_and_a_date_is_its_midnight(make: Any) -> None:
    assert make(1) != make(True)
    assert make(1) == make(1.0) == make(Decimal("1.00"))
    assert make(0.1) == make(Decimal("0.1"))
    assert make(dt.date(1970, 1, 1)) == make(dt.datetime(1970, 1, 1, tzinfo=dt.UTC))
    assert make(dt.datetime(1970, 1, 1)) != make(0)
    assert make(True) != make(dt.datetime(1970, 1, 1, microsecond=1))
    assert len({make(1), make(True), make("1"), make(1.0), make(dt.datetime(1970, 1, 1, microsecond=1))}) == 4


@pytest.mark.parametrize("literal", LITERALS)
def test_constants_in_files_keep_their_kind(literal: str) -> None:
    test = parse(f"array_contains(l, {literal})")
    assert isinstance(test, ArrayContains)
    decoded = decode_test(encode_test(test))
    assert decoded == test
    assert isinstance(decoded, ArrayContains)
    assert type(decoded.constant) is type(test.constant)
