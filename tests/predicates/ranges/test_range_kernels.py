"""The kernels that encode values, against `np.searchsorted` and the formulas of their docstrings."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tocsin._compile import AddressTable
from tocsin.arrays import Float64s, Strings
from tocsin.predicates.ranges import kernels
from tocsin.predicates.ranges.kernels import (
    LOGARITHMIC,
    NO_LINE,
    NULL_CODE,
    NUMBER_GIVEN,
    STRAIGHT,
    TEXT_GIVEN,
    TIME_GIVEN,
    ColumnCoders,
    code_of_bytes,
    codes_of_integers,
    codes_of_numbers,
    codes_of_strings,
    compare_bytes,
    encode_event,
    encode_event_at,
    guide_of,
    quantize_values,
    short_codes_by_rank,
)
from tocsin.predicates.ranges.quantize import LAST_SHORT, shifts_by_rank
from tocsin.tuning import TUNING


def expected_codes(constants: Float64s, values: Float64s) -> list[int]:
    """2i + 1 for constant i, 2i for the gap before it, 2n behind the last of n."""
    codes = np.searchsorted(constants, values, "left") + np.searchsorted(constants, values, "right")
    with_null: list[int] = np.where(np.isnan(values), NULL_CODE, codes).tolist()
    return with_null


@pytest.mark.parametrize("count", [0, 1, 5, TUNING.guide_min_constants - 1, TUNING.guide_min_constants, 500])
@pytest.mark.parametrize("power", [1, 9])
def test_codes_of_numbers(count: int, power: int) -> None:
    """A high power crowds the constants into few buckets of the guide."""
    random = np.random.default_rng(count)
    constants = np.unique(random.random(count) ** power * 20 - 3)
    values = np.concatenate([random.random(200) * 30 - 8, constants, [np.nan, np.inf, -np.inf, -3.0, 17.0]])
    guide = guide_of(constants)
    assert (guide.size > 0) == (constants.size >= TUNING.guide_min_constants)
    codes = np.empty(values.size, np.int32)
    codes_of_numbers(constants, guide, values, codes)
    assert codes.tolist() == expected_codes(constants, values)
    kernels._codes_without_guide(constants, values, codes)
    assert codes.tolist() == expected_codes(constants, values)


def test_the_guide_says_where_the_constants_of_a_bucket_stand() -> None:
    constants = np.unique(np.random.default_rng(0).normal(size=400))
    guide = guide_of(constants)
    first, buckets = constants[0], guide.size - 1
    assert buckets == constants.size // 2
    scale = buckets / (constants[-1] - first)
    for place, constant in enumerate(constants):
        bucket = int(kernels._guide_bucket(constant, first, scale, buckets - 1.0))
        assert bucket == min(int((constant - first) * scale), buckets - 1)
        assert guide[bucket] <= place < guide[bucket + 1]
    assert kernels._guide_bucket(first - 1, first, scale, buckets - 1.0) == 0


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_first_at_least(count: int) -> None:
    constants = np.arange(10.0) * 2
    for base in range(3):
        for value in np.arange(-1.0, 22.0):
            expected = base + int(np.searchsorted(constants[base : base + count], value))
            assert kernels._first_at_least(constants, base, count, value) == expected


def test_codes_of_integers() -> None:
    random = np.random.default_rng(1)
    constants = np.unique(random.integers(-50, 50, 30)) * 2**55
    values = np.concatenate([constants, constants + 1, constants - 1])
    codes = np.empty(values.size, np.int32)
    codes_of_integers(constants, values, codes)
    expected = np.searchsorted(constants, values, "left") + np.searchsorted(constants, values, "right")
    assert codes.tolist() == expected.tolist()


TEXTS = ["", "a", "ab", "abc", "b", "ß", "zz", "é", "漢字", "𝄞", "\x00", "ab\x00"]


def test_compare_bytes() -> None:
    for left in TEXTS:
        for right in TEXTS:
            joined = f"x{left}{right}".encode()
            data, middle = np.frombuffer(joined, np.uint8), 1 + len(left.encode())
            sign = compare_bytes(data, 1, middle, data, middle, len(joined))
            assert sign == (left > right) - (left < right)


def test_codes_of_strings() -> None:
    constants = sorted(TEXTS[::2])
    packed, values = Strings.of(constants), Strings.of(TEXTS)
    codes = np.empty(len(TEXTS), np.int32)
    codes_of_strings(packed.offsets, packed.data, values.offsets, values.data, codes)
    array = np.array(constants, object)
    expected = np.searchsorted(array, TEXTS, "left") + np.searchsorted(array, TEXTS, "right")
    assert codes.tolist() == expected.tolist()


def test_short_codes_by_rank() -> None:
    """(code >> shift) + 1, which is 0 for NULL and at most LAST_SHORT."""
    last = np.array([0, 7, 65_533, 65_534, 1_000_000], np.int32)
    shift = shifts_by_rank(last)
    random = np.random.default_rng(2)
    codes = np.stack([np.append(random.integers(-1, code + 1, 50), [NULL_CODE, code]) for code in last]).astype(
        np.int32
    )
    short = short_codes_by_rank(codes, shift)
    assert short.tolist() == ((codes >> shift[:, None]) + 1).tolist()
    assert (short[:, -2] == 0).all()
    assert short.max() <= LAST_SHORT
    assert ((last >> shift) + 1 > LAST_SHORT // 2).tolist() == [False, False, True, True, True], "no shift is too large"


def test_quantize_values() -> None:
    """2 + int((value - origin) * steps_per_unit), with steps from -1 to last - 2; NaN is 0."""
    values = np.concatenate([np.linspace(-3, 40, 500), [np.nan, np.inf, -np.inf, 1.5, 1.5 - 0.09]])
    short = np.empty(values.size, np.uint16)
    quantize_values(1.5, 10.0, 300, values, short)
    with np.errstate(invalid="ignore"):
        steps = np.trunc(np.clip((values - 1.5) * 10.0, -1, 298))
    assert short.tolist() == np.where(np.isnan(values), 0, steps + 2).astype(int).tolist()
    assert short[-5:].tolist() == [0, 300, 1, 2, 2], "less than a step below the origin is in its step"


def test_code_of_bytes() -> None:
    constants, values = ["b", "ba", "c", "é"], ["", "a", "b", "ba", "bab", "c", "é", "z", "𝄞"]
    strings = Strings.of(constants)
    for value in values:
        encoded = np.frombuffer(f"x{value}".encode(), np.uint8)
        code = code_of_bytes(strings.offsets, strings.data, encoded, 1, encoded.size)
        assert code == sum(value > constant for constant in constants) + sum(
            value >= constant for constant in constants
        )


def test_encode_event() -> None:
    """Column 0 by rank, 1 and 2 by quantizers, 3 of strings, 4 with a given code, 5 NULL, 6 by rank, shifted."""
    random = np.random.default_rng(7)
    floats = [np.unique(random.normal(size=size)) for size in (9, 300, 300)]
    strings = Strings.of(["a", "bc", "é"])
    arrays: list[npt.NDArray[Any]] = [*floats, strings.data, strings.data, strings.data, floats[1]]
    rows = 7
    coders = ColumnCoders(
        constants=np.array([array.ctypes.data for array in arrays]),
        offsets=np.full(rows, strings.offsets.ctypes.data),
        size=np.array([9, 300, 300, 3, 3, 3, 300]),
        shift=np.array([0, 0, 0, 0, 0, 0, 3], np.int32),
        line=np.array([NO_LINE, STRAIGHT, LOGARITHMIC, NO_LINE, NO_LINE, NO_LINE, NO_LINE], np.uint8),
        origin=np.array([0.0, -2.0, -1e18, 0, 0, 0, 0]),
        steps_per_unit=np.array([0.0, 1000.0, 1e-15, 0, 0, 0, 0]),
    )
    codes = np.full((rows, 1), NULL_CODE, np.int32)
    short, before = np.zeros((rows, 1), np.uint16), np.zeros(rows + 1, np.int32)
    columns = np.array([3, 0, 1, 2, 4, 6], np.int32)
    given = np.array([TEXT_GIVEN, NUMBER_GIVEN, NUMBER_GIVEN, NUMBER_GIVEN, 4, NUMBER_GIVEN], np.int32)
    for value in (*floats[1][:3].tolist(), -9.5, 0.0, 0.01, 77.0):
        for text in ("", "a", "bb", "é"):
            numbers = np.full(6, value)
            encoded = np.frombuffer(text.encode(), np.uint8)
            texts = np.frombuffer(text.encode() + b" ", np.uint8)
            ends = np.array([encoded.size])
            bits = numbers.view(np.int64)
            encode_event(coders, LAST_SHORT, before, columns, given, numbers, bits, 6, texts, ends, codes, short)
            by_name = codes.copy(), short.copy()
            scratch = AddressTable(before, columns, given, numbers, bits, ends, codes, short)
            codes[:], short[:] = 99, 99
            encode_event_at(AddressTable(*coders).rows, scratch.rows, LAST_SHORT, 6, texts)
            codes[5], short[5] = NULL_CODE, 0
            assert np.array_equal(codes, by_name[0])
            assert np.array_equal(short, by_name[1])
            ranks = [expected_codes(array, np.array([value]))[0] for array in floats]
            of_text = code_of_bytes(strings.offsets, strings.data, encoded, 0, encoded.size)
            assert codes[:, 0].tolist() == [*ranks, of_text, 4, NULL_CODE, ranks[1]]
            straight, logarithmic = np.empty(1, np.uint16), np.empty(1, np.uint16)
            quantize_values(-2.0, 1000.0, LAST_SHORT, np.array([value]), straight)
            of_value = int(bits[0])
            line = float(of_value if of_value >= 0 else np.iinfo(np.int64).min - of_value)
            quantize_values(-1e18, 1e-15, LAST_SHORT, np.array([line]), logarithmic)
            quantized = [int(straight[0]), int(logarithmic[0])]
            assert short[:, 0].tolist() == [ranks[0] + 1, *quantized, of_text + 1, 5, 0, (ranks[1] >> 3) + 1]
    micros = np.array([-(1 << 60), -1, 0, 10**15, (1 << 60) + 1])
    coders.constants[0], coders.size[0], given[1] = micros.ctypes.data, 5, TIME_GIVEN
    for time in (-(1 << 62), *micros.tolist(), 1, 1 << 60, 1 << 62):
        bits = np.array([time])
        encode_event(coders, LAST_SHORT, before, columns[1:], given[1:], numbers, bits, 1, texts, ends, codes, short)
        assert codes[0, 0] == sum(time > constant for constant in micros) + sum(time >= constant for constant in micros)
        assert short[0, 0] == codes[0, 0] + 1
    numbers, bits = np.zeros(5), np.zeros(5, np.int64)
    encode_event(coders, LAST_SHORT, before, columns[1:], given[1:], numbers, bits, 1, texts, ends, codes, short)
    assert np.flatnonzero(short[:, 0]).tolist() == [0], "what the event before had is forgotten"
