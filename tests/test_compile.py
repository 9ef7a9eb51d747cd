"""Vectors of short codes and of bits: compiled and uncompiled functions say the same."""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import _compile
from tocsin._compile import COMPILED, VECTOR_WIDTH, kernel
from tocsin.arrays import Int32s, Int64s, UInt8s, UInt16s, UInt64s

SIZE = 3 * VECTOR_WIDTH
CODES = st.lists(st.integers(0, 65535), min_size=SIZE, max_size=SIZE).map(lambda codes: np.array(codes, np.uint16))
COLUMNS = st.lists(st.integers(0, 2 * VECTOR_WIDTH), min_size=VECTOR_WIDTH, max_size=VECTOR_WIDTH)
PLACES = st.tuples(st.integers(0, 2 * VECTOR_WIDTH), st.integers(0, 2 * VECTOR_WIDTH))
BOUNDS = st.tuples(st.integers(0, 65535), st.integers(0, 65535))


@kernel
def within(codes: UInt16s, first: int, second: int, low: int, high: int) -> np.uint64:
    places = np.uint64(first), np.uint64(second)
    lows, highs = (np.uint16(low), np.uint16(0)), (np.uint16(high), np.uint16(65535))
    word: np.uint64 = _compile.are_within(codes, places, lows, highs)
    return word


@kernel
def read_at(floats: int, integers: int, small: int, size: int) -> float:
    total = _compile.floats_at(floats, size).sum() + _compile.integers_at(integers, size).sum()
    everything: float = total + _compile.bytes_at(small, size)[size - 1]
    return everything


@kernel
def containing(fields: UInt16s, low: int, high: int, code: int) -> np.uint64:
    word: np.uint64 = _compile.contain(fields, (np.uint64(low),), (np.uint64(high),), (np.uint16(code),))
    return word


@kernel
def on_ends(codes: UInt16s, first: int, second: int, low: int, high: int, wanted: int) -> np.uint64:
    places, lows = (np.uint64(first), np.uint64(second)), (np.uint16(low), np.uint16(low))
    highs, both = (np.uint16(high), np.uint16(high)), (np.uint64(wanted), np.uint64(0))
    word: np.uint64 = _compile.lie_on_ends(codes, places, lows, highs, both)
    return word


@given(CODES, PLACES, BOUNDS, st.integers(0, 2**VECTOR_WIDTH - 1))
def test_a_code_on_an_end_is_noticed_where_it_is_wanted(
    codes: UInt16s, places: tuple[int, int], bounds: tuple[int, int], wanted: int
) -> None:
    first, second = places
    low = int(codes[first])
    word = int(on_ends(codes, first, second, low, bounds[1], wanted))
    for place in range(VECTOR_WIDTH):
        is_end = codes[first + place] in (low, bounds[1])
        assert bool(word >> place & 1) == (is_end and bool(wanted >> place & 1))


@given(CODES, PLACES, BOUNDS)
def test_each_bit_is_a_comparison(codes: UInt16s, places: tuple[int, int], bounds: tuple[int, int]) -> None:
    first, second = places
    low, high = bounds
    word = int(within(codes, first, second, low, high))
    assert word >> VECTOR_WIDTH == 0
    for place in range(VECTOR_WIDTH):
        assert bool(word >> place & 1) == (low <= codes[first + place] <= high)
    word = int(containing(codes, first, second, low))
    for place in range(VECTOR_WIDTH):
        assert bool(word >> place & 1) == (codes[first + place] <= low <= codes[second + place])


@kernel
def admitted(fields: UInt16s, columns: int, lows: int, highs: int, rows: UInt16s, first: int) -> np.uint64:
    places = np.uint64(columns), np.uint64(lows), np.uint64(highs)
    word: np.uint64 = _compile.admit(fields, places[0], places[1], places[2], rows, np.uint64(first))
    return word


@given(CODES, COLUMNS, PLACES, st.integers(0, 65535))
def test_a_code_is_picked_by_its_column(
    codes: UInt16s, columns: list[int], places: tuple[int, int], on_end: int
) -> None:
    low, high = places
    fields = np.concatenate([codes, np.array(columns, np.uint16)])
    rows, first = np.roll(codes, 1), on_end % VECTOR_WIDTH
    rows[first + columns[0] % VECTOR_WIDTH] = codes[low] if on_end % 2 else codes[high]
    word = int(admitted(fields, codes.size, low, high, rows, first))
    assert word >> VECTOR_WIDTH == 0
    for place, column in enumerate(columns):
        holds = column >= VECTOR_WIDTH or codes[low + place] <= rows[first + column] <= codes[high + place]
        assert bool(word >> place & 1) == holds


@kernel
def bits(word: np.uint64) -> tuple[int, int]:
    return _compile.count_bits(word), _compile.lowest_bit(word)


@given(st.integers(1, 2**64 - 1))
def test_bits_are_counted_and_found(word: int) -> None:
    count, lowest = bits(np.uint64(word))
    assert count == bin(word).count("1")
    assert word % 2**lowest == 0
    assert word >> lowest & 1


@kernel
def or_vectors_of(words: UInt64s, first_word: int, places: Int32s, first: int, count: int, unions: UInt64s) -> int:
    open_words: int = _compile.or_vectors(words, first_word, places, first, count, unions, 8)
    return open_words


@pytest.mark.parametrize("count", [0, 4, 8])
def test_or_of_vectors(count: int) -> None:
    words = np.random.default_rng(count).integers(0, 2**64, 64, dtype=np.uint64)
    words[:] &= words[::-1] & np.uint64(0xFFFF)
    words[13::8] = ~np.uint64(0)
    places, unions = np.array([99, 0, 8, 3, 40, 16, 24, 24, 24, 99], np.int32), np.full(24, 7, np.uint64)
    open_words = or_vectors_of(words, 8, places, 1, count, unions)
    vectors = [words[8 + place : 16 + place] for place in places[1 : 1 + count]]
    expected = np.bitwise_or.reduce([np.zeros(8, np.uint64), *vectors])
    assert unions.tolist() == [7] * 8 + expected.tolist() + [7] * 8
    assert open_words == sum(1 << word for word in range(8) if expected[word] != ~np.uint64(0))
    assert (open_words == 255) == (count == 0)


def test_or_of_vectors_ends_when_all_bits_are_set() -> None:
    words = np.zeros(40, np.uint64)
    words[:4], words[12:16] = ~np.uint64(0), ~np.uint64(0)
    unions = np.zeros(16, np.uint64)
    places = np.array([0, 8, 16, 16, 24, 24, 24, 24], np.int32)
    assert or_vectors_of(words, 0, places, 0, 8, unions) == 0
    assert (unions[8:] == ~np.uint64(0)).all()
    words[15] -= np.uint64(1)
    assert or_vectors_of(words, 0, places, 0, 8, unions) == 1 << 7
    assert unions[8:].tolist() == [2**64 - 1] * 7 + [2**64 - 2]


@kernel
def or_line_of(words: UInt64s, at: int, target: UInt64s, first: int) -> None:
    _compile.or_line(words, np.uint64(at), target, np.uint64(first))


def test_or_of_a_line() -> None:
    words, target = np.random.default_rng(1).integers(0, 2**64, (2, 24), dtype=np.uint64)
    expected = target.copy()
    expected[11:19] |= words[3:11]
    or_line_of(words, 3, target, 11)
    assert target.tolist() == expected.tolist()


@kernel
def put_eight_of(table: UInt8s, row: int, base: int, values: Int32s, first: int) -> None:
    _compile.put_eight(table, np.uint64(row), np.int32(base), values, np.uint64(first))


def test_eight_numbers_are_put() -> None:
    table, values = np.arange(24, dtype=np.uint8) * 10, np.full(12, -1, np.int32)
    put_eight_of(table, 2, 100_000, values, 3)
    assert values.tolist() == [-1] * 3 + [100_000 + 10 * number for number in range(16, 24)] + [-1]


def test_arrays_by_address() -> None:
    floats, integers, small = np.arange(5) / 4, np.arange(5) - 9, np.arange(5, dtype=np.uint8)
    assert read_at(floats.ctypes.data, integers.ctypes.data, small.ctypes.data, 4) == 1.5 - 30 + 3
    for read, array in (
        (_compile._floats_at, floats),
        (_compile._integers_at, integers),
        (_compile._int32s_at, integers.astype(np.int32)),
        (_compile._uint16s_at, small.astype(np.uint16)),
        (_compile._int16s_at, integers.astype(np.int16)),
        (_compile._int8s_at, integers.astype(np.int8)),
        (_compile._bools_at, small > 2),
        (_compile._bytes_at, small),
    ):
        assert read(array.ctypes.data, array.size).tolist() == array.tolist()


@kernel
def last_of_each(table: Int64s) -> int:
    first = _compile.int32s_at(table[0, 0], table[0, 1])
    second = _compile.uint16s_at(table[1, 0], table[1, 1])
    both: int = 1000 * first[first.size - 1] + second[second.size - 1]
    return both


def test_a_table_of_addresses_keeps_its_arrays() -> None:
    table = _compile.AddressTable(np.arange(8, dtype=np.int32)[:5], np.full((2, 3), 7, np.uint16))
    assert table.rows[:, 1].tolist() == [5, 6]
    assert last_of_each(table.rows) == 4007


class Lists(NamedTuple):
    starts: Int32s
    values: Int32s


@kernel
def longest_of(lists: Lists) -> int:
    """Makes no array: references to its arguments are not counted."""
    starts, longest = lists.starts, 0
    for place in range(starts.size - 1):
        part = lists.values[starts[place] : starts[place + 1]]
        longest = max(longest, part.size)
    return longest


@kernel
def same_or_longer(array: Int32s, size: int) -> Int32s:
    """Returns its argument, or a new array."""
    return np.zeros(size, np.int32) if array.size < size else array


@kernel
def size_after(lists: Lists, size: int) -> int:
    """Takes an array from a call."""
    return same_or_longer(lists.values, size).size + longest_of(lists)


@kernel
def picked_sum(lists: Lists) -> int:
    """Picks an array by another."""
    total = 0
    for value in lists.values[lists.starts]:
        total += value
    return total


@kernel
def doubled_sum(lists: Lists) -> int:
    """Makes an array by an operator."""
    total = 0
    for value in lists.values + lists.values:
        total += value
    return total


@kernel
def shift(values: Int32s) -> None:
    """Assigns a part of an array to another part."""
    values[1:] = values[:-1]


@kernel
def last_part(lists: Lists) -> Int32s:
    """Returns a part of its argument."""
    return lists.values[lists.starts[lists.starts.size - 2] :]


def test_kernels_keep_no_array_and_free_none() -> None:
    starts, values = np.array([0, 1, 4], np.int32), np.arange(10, 15, dtype=np.int32)
    lists = Lists(starts, values)
    references = sys.getrefcount(starts), sys.getrefcount(values)
    for _ in range(100):
        assert longest_of(lists) == 3
        assert size_after(lists, 2) == 5 + 3
        assert size_after(lists, 9) == 9 + 3
        assert picked_sum(lists) == 10 + 11 + 14
        assert doubled_sum(lists) == 2 * values.sum()
        assert last_part(lists).tolist() == [11, 12, 13, 14]
        assert same_or_longer(values, 3).tolist() == values.tolist()
        assert same_or_longer(values, 7).tolist() == [0] * 7
    assert (sys.getrefcount(starts), sys.getrefcount(values)) == references
    shift(values)
    assert values.tolist() == [10, 10, 11, 12, 13]
    part = last_part(Lists(starts, values.copy()))
    np.full(values.size, 99, np.int32)
    assert part.tolist() == [10, 11, 12, 13]


@kernel
def sum_of(values: Int32s) -> int:
    total = 0
    for value in values:
        total += value
    return total


@pytest.mark.skipif(not COMPILED, reason="TOCSIN_KERNELS=python compiles nothing")
def test_read_only_arrays_that_two_threads_bring_at_once_go_past_the_compiler_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tocsin._numba import Kernel

    values, calls = np.arange(5, dtype=np.int32), []
    values.flags.writeable = False
    real = Kernel.compile

    def compile_as_two_threads(self: Kernel, signature: object) -> object:
        calls.append(signature)
        real(self, signature)
        return real(self, signature)

    monkeypatch.setattr(Kernel, "compile", compile_as_two_threads)
    assert [sum_of(values) for _ in range(3)] == [10, 10, 10]
    assert len(calls) == 1
