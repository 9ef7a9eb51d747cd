"""The kernels that encode values, against `np.searchsorted` and the formulas of their docstrings."""

import numpy as np
import pytest

from tocsin.arrays import Float64s, Strings
from tocsin.predicates.ranges import kernels
from tocsin.predicates.ranges.kernels import (
    NULL_CODE,
    codes_of_integers,
    codes_of_numbers,
    codes_of_strings,
    compare_bytes,
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
