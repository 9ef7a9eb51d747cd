"""Domains: the codes of columns, of Python values and by comparison with each constant are the same."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.model.predicate import Range
from tocsin.model.values import Constant, Kind, Scalar, compare_to_constant, is_null, kind_of, scalar
from tocsin.predicates.ranges.domain import Domain

BIG = 2**53
CORNERS = [0, 1, -1, 2, BIG - 1, BIG, BIG + 1, -BIG - 1, 2**63 - 1, -(2**63), 2**64 - 1]
LONG_TENTH = Decimal.from_float(0.1)
"""The float 0.1 to its last digit, which is more than the decimal 0.1 that the float stands for."""
NUMBERS: st.SearchStrategy[Constant] = st.one_of(
    st.sampled_from([*CORNERS, 2**64, 10**30, 0.5, 0.1, -0.0, 1e300]),
    st.sampled_from([LONG_TENTH, Decimal("0.1"), Decimal("19.99"), Decimal("1.0"), Decimal(BIG) + 1]),
    st.integers(-5, 5),
    st.floats(-3, 3, width=16),
    st.decimals(-3, 3, places=3),
)
WORDS = st.sampled_from(["", "a", "ab", "b", "é", "z", "\U0001f600", "￿", "a\0"]) | st.text(max_size=3)
MOMENTS = st.sampled_from(
    [
        dt.datetime(1970, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        dt.datetime(2026, 2, 28, 12, 30),
        dt.datetime(2026, 2, 28, 12, 30, 0, 1),
    ]
) | st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1))
DAYS = st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 3))
ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "+05:30"]
ZONED = st.builds(lambda moment: moment.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))), MOMENTS)

CONSTANTS: dict[Kind, st.SearchStrategy[list[Constant]]] = {
    Kind.NUMBER: st.lists(NUMBERS, max_size=6),
    Kind.STRING: st.lists(WORDS, max_size=6),
    Kind.BOOLEAN: st.lists(st.booleans(), max_size=3),
    Kind.TIME: st.lists(st.one_of(MOMENTS, DAYS, ZONED), max_size=6),
}


def whole(unit: str) -> st.SearchStrategy[dt.datetime]:
    """Moments without a fraction of this unit."""
    step = {"s": 1_000_000, "ms": 1000}.get(unit, 1)
    return MOMENTS.map(lambda moment: moment.replace(microsecond=moment.microsecond // step * step))


def integers(width: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    return st.sampled_from([value for value in CORNERS if low <= value <= high]) | st.integers(low, high)


COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **{getattr(pa, f"int{width}")(): integers(width, True) for width in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{width}")(): integers(width, False) for width in (8, 16, 32, 64)},
    pa.float32(): st.floats(width=32) | st.sampled_from([0.5, 1.0, -0.0]),
    pa.float64(): st.floats() | st.sampled_from([0.1, 0.5, 19.99, float(BIG), 1e300]),
    pa.decimal128(10, 3): st.decimals(-99, 99, places=3) | st.sampled_from([Decimal("19.99"), Decimal("0.1")]),
    pa.decimal256(15, 6): st.decimals(-99, 99, places=3) | st.just(Decimal("19.99")),
    pa.decimal128(12, -2): st.integers(-5, 5).map(lambda hundreds: Decimal(100 * hundreds)),
    pa.decimal128(30, 9): st.decimals(-3, 3, places=3) | st.sampled_from([Decimal("19.99"), Decimal(BIG + 1)]),
    pa.decimal256(60, 9): st.decimals(-3, 3, places=3) | st.just(Decimal(10**30)),
    pa.bool_(): st.booleans(),
    pa.string(): WORDS,
    pa.large_string(): WORDS,
    pa.string_view(): WORDS,
    pa.date32(): DAYS,
    pa.date64(): DAYS,
    **{pa.timestamp(unit): whole(unit) for unit in ("s", "ms", "us", "ns")},
    **{pa.timestamp("us", zone): MOMENTS for zone in ZONES},
    pa.timestamp("ns", "Asia/Kolkata"): MOMENTS,
    pa.null(): st.none(),
    pa.binary(): st.binary(max_size=2),
    pa.list_(pa.int64()): st.lists(st.integers(0, 3), max_size=2),
    pa.struct([("x", pa.int64())]): st.fixed_dictionaries({"x": st.integers(0, 3)}),
    pa.duration("us"): st.timedeltas(dt.timedelta(0), dt.timedelta(1)),
    pa.time64("us"): st.times(),
}


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    """A column of any type, whole, sliced out of a longer one, in chunks, or dictionary-encoded."""
    column = draw(st.sampled_from(list(COLUMNS)))
    values = draw(st.lists(COLUMNS[column] | st.none(), max_size=8))
    array = pa.array(values, column)
    form = draw(st.sampled_from(["whole", "slice", "chunks", "dictionary"]))
    if form == "slice":
        return array.slice(draw(st.integers(0, len(values))), draw(st.integers(0, len(values))))
    if form == "chunks":
        cut = draw(st.integers(0, len(values)))
        return pa.chunked_array([array[:cut], array[cut:]], column)
    encodable = kind_of(next((value for value in values if value is not None), None)) is not None
    return array.dictionary_encode() if form == "dictionary" and encodable else array


def by_comparison(value: object, kind: Kind, constants: list[Constant]) -> int:
    """The definition: two for each constant below the value, and one for a constant that equals it."""
    if kind_of(value) is not kind:
        return -1
    signs = [compare_to_constant(value, constant) for constant in constants]
    return 2 * signs.count(1) + signs.count(0)


def distinct(constants: list[Constant]) -> list[Constant]:
    return list({scalar(constant): constant for constant in constants}.values())


@settings(max_examples=200)
@given(arrays(), st.data())
def test_columns_values_and_comparisons_agree(array: pa.Array, data: st.DataObject) -> None:
    values = array.to_pylist()
    kinds = {kind_of(value) for value in values}
    for kind in [kind for kind in CONSTANTS if kind in kinds] or [Kind.NUMBER]:
        constants = distinct(data.draw(CONSTANTS[kind]))
        domain = Domain.of(kind, [scalar(constant) for constant in constants])
        expected = [by_comparison(value, kind, constants) for value in values]
        assert [domain.code(value) for value in values] == expected
        codes = domain.codes(array)
        assert codes.dtype == np.int32
        assert codes.tolist() == expected
        again = Domain.from_arrays(kind, "d", domain.arrays("d"))
        assert again.codes(array).tolist() == expected
        assert [again.code(value) for value in values] == expected


@given(arrays(), st.sampled_from(list(CONSTANTS)), st.data())
def test_values_of_another_kind_are_null(array: pa.Array, kind: Kind, data: st.DataObject) -> None:
    constants = distinct(data.draw(CONSTANTS[kind]))
    domain = Domain.of(kind, [scalar(constant) for constant in constants])
    expected = [by_comparison(value, kind, constants) for value in array.to_pylist()]
    assert domain.codes(array).tolist() == expected


@given(arrays())
def test_presence_is_code_0(array: pa.Array) -> None:
    domain = Domain(Kind.ANY, np.empty(0, np.int64))
    expected = [-1 if is_null(value) else 0 for value in array.to_pylist()]
    assert domain.codes(array).tolist() == expected
    assert [domain.code(value) for value in array.to_pylist()] == expected


@given(st.data(), st.sampled_from(list(CONSTANTS)), st.booleans(), st.booleans())
def test_a_range_of_values_is_a_range_of_codes(
    data: st.DataObject, kind: Kind, low_closed: bool, high_closed: bool
) -> None:
    constants = data.draw(CONSTANTS[kind].filter(bool))
    low, high = (data.draw(st.sampled_from(constants) | st.none()) for _ in range(2))
    domain = Domain.of(kind, [scalar(constant) for constant in constants])
    ends: list[Scalar | None] = [None if end is None else scalar(end) for end in (low, high)]
    first, last = domain.code_range(Range(ends[0], low_closed, ends[1], high_closed))
    for value in [*constants, *data.draw(CONSTANTS[kind])]:
        above = low is None or compare_to_constant(value, low) in ((0, 1) if low_closed else (1,))
        below = high is None or compare_to_constant(value, high) in ((0, -1) if high_closed else (-1,))
        assert (first <= domain.code(value) <= last) == (above and below)


@given(st.sampled_from(list(CONSTANTS)), st.data())
def test_constants_come_back_sorted(kind: Kind, data: st.DataObject) -> None:
    scalars = [scalar(constant) for constant in data.draw(CONSTANTS[kind])]
    domain = Domain.of(kind, scalars)
    assert domain.last == 2 * len(set(scalars))
    assert [domain.constant(place) for place in range(domain.last // 2)] == sorted(set(scalars))


@pytest.mark.parametrize(
    ("nanoseconds", "code"), [(0, 1), (1, 2), (999, 2), (1000, 3), (1001, 4), (-1, 0), (-1000, 0), (500_000, 4)]
)
def test_a_nanosecond_lies_in_the_gap_behind_its_microsecond(nanoseconds: int, code: int) -> None:
    domain = Domain.of(Kind.TIME, [0, 1])
    array = pa.array([nanoseconds], pa.int64()).cast(pa.timestamp("ns"))
    assert domain.codes(array).tolist() == [code]


def test_short_decimals_are_the_floats_that_they_read_as() -> None:
    """Every decimal from 0.000 to 19.999 meets itself among the constants."""
    decimals = [Decimal(number).scaleb(-3) for number in range(20_000)]
    domain = Domain.of(Kind.NUMBER, [scalar(decimal) for decimal in decimals])
    array = pa.array([*decimals, None], pa.decimal128(10, 3)).slice(1)
    assert domain.codes(array).tolist() == [*range(3, 2 * len(decimals), 2), -1]


def test_chunks_with_different_dictionaries() -> None:
    domain = Domain.of(Kind.STRING, ["a", "b"])
    chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array(["a", None, "c"]).dictionary_encode()]
    assert domain.codes(pa.chunked_array(chunks)).tolist() == [3, 1, 1, -1, 4]


def test_null_inside_a_dictionary() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([None, "a"]))
    assert Domain.of(Kind.STRING, ["a"]).codes(array).tolist() == [-1, 1, -1]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.uint64()])
@pytest.mark.parametrize("first", [0, 1, 8, 13])
def test_codes_of_a_slice_with_nulls_are_those_of_its_values(kind: pa.DataType, first: int) -> None:
    """Whatever integers stand under the NULLs, also such that no float is equal to."""
    domain = Domain.of(Kind.NUMBER, [scalar(constant) for constant in (3, 20, 90)])
    random = np.random.default_rng(first)
    values = random.integers(0, 100, 40).astype(kind.to_pandas_dtype())
    is_null = random.random(40) < 0.6
    values[is_null] = np.iinfo(values.dtype).max
    bits = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    array = pa.Array.from_buffers(kind, 40, [bits, pa.py_buffer(values)]).slice(first, 20)
    expected = [domain.code(value) for value in array.to_pylist()]
    assert array.null_count
    assert domain.codes(array).tolist() == expected
