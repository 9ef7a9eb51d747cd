"""Vectors of short codes: compiled and uncompiled functions say the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin import _lanes as lanes
from tocsin._compile import LANES, Short, kernel

CODES = st.lists(st.integers(0, 65535), min_size=3 * LANES, max_size=3 * LANES).map(lambda x: np.array(x, np.uint16))
PLACES = st.tuples(st.integers(0, 2 * LANES), st.integers(0, 2 * LANES))
BOUNDS = st.tuples(st.integers(0, 65535), st.integers(0, 65535))


@kernel
def within(codes: Short, first: int, second: int, low: int, high: int) -> np.uint64:
    places = np.uint64(first), np.uint64(second)
    lows, highs = (np.uint16(low), np.uint16(0)), (np.uint16(high), np.uint16(65535))
    word: np.uint64 = lanes.are_within(codes, places, lows, highs)
    return word


@kernel
def containing(fields: Short, low: int, high: int, code: int) -> np.uint64:
    word: np.uint64 = lanes.contain(fields, (np.uint64(low),), (np.uint64(high),), (np.uint16(code),))
    return word


@kernel
def on_ends(codes: Short, first: int, second: int, low: int, high: int, wanted: int) -> np.uint64:
    places, lows = (np.uint64(first), np.uint64(second)), (np.uint16(low), np.uint16(low))
    highs, both = (np.uint16(high), np.uint16(high)), (np.uint64(wanted), np.uint64(0))
    word: np.uint64 = lanes.lie_on_ends(codes, places, lows, highs, both)
    return word


@given(CODES, PLACES, BOUNDS, st.integers(0, 2**LANES - 1))
def test_a_code_on_an_end_is_noticed_where_it_is_wanted(
    codes: Short, places: tuple[int, int], bounds: tuple[int, int], wanted: int
) -> None:
    first, second = places
    low = int(codes[first])
    word = int(on_ends(codes, first, second, low, bounds[1], wanted))
    for lane in range(LANES):
        is_end = codes[first + lane] in (low, bounds[1])
        assert bool(word >> lane & 1) == (is_end and bool(wanted >> lane & 1))


@given(CODES, PLACES, BOUNDS)
def test_each_bit_is_a_comparison(codes: Short, places: tuple[int, int], bounds: tuple[int, int]) -> None:
    first, second = places
    low, high = bounds
    word = int(within(codes, first, second, low, high))
    assert word >> LANES == 0
    for lane in range(LANES):
        assert bool(word >> lane & 1) == (low <= codes[first + lane] <= high)
    word = int(containing(codes, first, second, low))
    for lane in range(LANES):
        assert bool(word >> lane & 1) == (codes[first + lane] <= low <= codes[second + lane])


@kernel
def admitted(fields: Short, columns: int, lows: int, highs: int, rows: Short, first: int) -> np.uint64:
    word: np.uint64 = lanes.admit(fields, np.uint64(columns), np.uint64(lows), np.uint64(highs), rows, np.uint64(first))
    return word


@given(CODES, st.lists(st.integers(0, 2 * LANES), min_size=LANES, max_size=LANES), PLACES, st.integers(0, 65535))
def test_a_code_is_picked_by_its_column(codes: Short, columns: list[int], places: tuple[int, int], on_end: int) -> None:
    low, high = places
    fields = np.concatenate([codes, np.array(columns, np.uint16)])
    rows, first = np.roll(codes, 1), on_end % LANES
    rows[first + columns[0] % LANES] = codes[low] if on_end % 2 else codes[high]
    word = int(admitted(fields, codes.size, low, high, rows, first))
    assert word >> LANES == 0
    for lane, column in enumerate(columns):
        holds = column >= LANES or codes[low + lane] <= rows[first + column] <= codes[high + lane]
        assert bool(word >> lane & 1) == holds


@kernel
def bits(word: np.uint64) -> tuple[int, int]:
    return lanes.count_bits(word), lanes.lowest_bit(word)


@given(st.integers(1, 2**64 - 1))
def test_bits_are_counted_and_found(word: int) -> None:
    count, lowest = bits(np.uint64(word))
    assert count == bin(word).count("1")
    assert word % 2**lowest == 0
    assert word >> lowest & 1
