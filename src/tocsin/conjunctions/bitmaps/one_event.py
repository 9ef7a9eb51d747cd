"""Bitmaps and a single event: the steps of `kernels.py` without what serves many events.

For indexes of ranges alone, whose events are expected to match few conjunctions. Others take `match_bitmaps_of_one`.
"""

import numpy as np

from tocsin._compile import (
    OR_AT_ONCE,
    AddressTable,
    bytes_at,
    fetch,
    int32s_at,
    integers_at,
    kernel,
    or_vectors,
)
from tocsin.arrays import Int32s, Int64s, UInt64s
from tocsin.conjunctions.bitmaps.kernels import (
    ALL_DEAD,
    BITSET_WORDS,
    BLOCK,
    DEMAND_HIGH,
    DEMAND_LOW,
    GROUP,
    GROUP_WORDS,
    GROUPS,
    MAX_CELLS,
    WRITTEN_AT_ONCE,
    Bitmaps,
    Demands,
    cells_of_codes,
    take_candidates,
)
from tocsin.conjunctions.pairs.kernels import EVENT, FOUND, in_ranges

_AHEAD = 32
"""The predicates of a candidate are fetched so many candidates before it is verified, and where they start twice as
many before."""
_LINE = 16
"""Numbers of a line of the cache."""

(
    _ROW_STARTS,
    _PRUNING_ENDS,
    _BITSET_STARTS,
    _STARTS,
    _COLUMN,
    _SHIFT,
    _FIRST_BITSET,
    _CONJUNCTION,
    _RANGES,
    _COLUMNS,
    _BOUNDS,
    _COUNTS,
    _DEAD,
    _CLEAR,
) = range(14)
"""The rows of the table of addresses."""


def addresses_of(bitmaps: Bitmaps, demands: Demands, cells: tuple[Int32s, Int32s, Int32s]) -> AddressTable:
    """Return the table of all arrays that the kernel is not handed."""
    return AddressTable(
        bitmaps.row_starts,
        bitmaps.pruning_ends,
        bitmaps.bitset_starts,
        demands.starts,
        bitmaps.column,
        bitmaps.shift,
        bitmaps.first_bitset,
        demands.conjunction,
        demands.ranges,
        *cells,
        bitmaps.dead,
        bitmaps.clear,
    )


@kernel
def match_ranges_of_one(
    words: UInt64s, predicates: Int32s, table: Int64s, codes: Int32s, count: int
) -> tuple[Int32s, int]:
    """Return the pairs (0, conjunction) of the first `count` that match an event with these codes, and the candidates.

    `words` and `predicates` are those of `Bitmaps` and `Demands`; `table` has the addresses of what else they have.
    """
    row_starts = integers_at(table[_ROW_STARTS, 0], table[_ROW_STARTS, 1])
    pruning_ends = integers_at(table[_PRUNING_ENDS, 0], table[_PRUNING_ENDS, 1])
    bitset_starts = integers_at(table[_BITSET_STARTS, 0], table[_BITSET_STARTS, 1])
    starts = integers_at(table[_STARTS, 0], table[_STARTS, 1])
    column = int32s_at(table[_COLUMN, 0], table[_COLUMN, 1])
    shift = int32s_at(table[_SHIFT, 0], table[_SHIFT, 1])
    first_bitset = int32s_at(table[_FIRST_BITSET, 0], table[_FIRST_BITSET, 1])
    conjunction = int32s_at(table[_CONJUNCTION, 0], table[_CONJUNCTION, 1])
    ranges = int32s_at(table[_RANGES, 0], table[_RANGES, 1]).reshape(-1, 2)
    columns = int32s_at(table[_COLUMNS, 0], table[_COLUMNS, 1])
    bounds = int32s_at(table[_BOUNDS, 0], table[_BOUNDS, 1]).reshape(-1, MAX_CELLS)
    counts = int32s_at(table[_COUNTS, 0], table[_COUNTS, 1])
    dead = bytes_at(table[_DEAD, 0], table[_DEAD, 1])
    clear = bytes_at(table[_CLEAR, 0], table[_CLEAR, 1])
    cells = cells_of_codes(codes, columns, bounds, counts)
    candidates = 0
    vectors, failed = np.empty(columns.size + OR_AT_ONCE, np.int32), np.empty(GROUPS * GROUP_WORDS, np.uint64)
    open_words, place_of = np.empty(GROUPS, np.int64), np.empty(GROUPS, np.int64)
    places = np.empty(2 * BLOCK, np.int64)
    for block in range(row_starts.size - 1):
        first, end, first_of_block = row_starts[block], row_starts[block + 1], bitset_starts[block]
        killed = np.uint8(0)
        for row in range(first, pruning_ends[block]):
            killed |= dead[first_of_block + first_bitset[row] + (cells[column[row], 0] >> shift[row])]
            if killed == ALL_DEAD:
                break
        if killed == ALL_DEAD:
            continue
        taken = 0
        for row in range(first, end):
            bitset = first_bitset[row] + (cells[column[row], 0] >> shift[row])
            vectors[taken] = bitset * GROUP_WORDS
            taken += clear[first_of_block + bitset] == 0
        while taken % OR_AT_ONCE > 0:
            vectors[taken] = vectors[taken - 1]
            taken += 1
        bitsets = bitset_starts[block + 1] - first_of_block
        groups = min(GROUPS, (count - block * BLOCK + GROUP - 1) // GROUP)
        for group in range(groups):
            if not killed >> group & 1:
                first_word = first_of_block * BITSET_WORDS + group * bitsets * GROUP_WORDS
                for place in range(taken):
                    fetch(words, np.uint64(first_word + vectors[place]))
        ors = 0
        for group in range(groups):
            if not killed >> group & 1:
                first_word = first_of_block * BITSET_WORDS + group * bitsets * GROUP_WORDS
                opened = or_vectors(words, first_word, vectors, 0, taken, failed, ors * GROUP_WORDS)
                open_words[ors], place_of[ors] = opened, block * BLOCK + group * GROUP
                ors += opened != 0
        if candidates + BLOCK + WRITTEN_AT_ONCE > places.size:
            more = np.empty(2 * places.size, np.int64)
            for place in range(candidates):
                more[place] = places[place]
            places = more
        for number in range(ors):
            candidates = take_candidates(failed, number, open_words[number], place_of[number], places, candidates)
    # Bits behind the last place are no conjunctions; they are in the last group, so that they come last.
    while candidates > 0 and places[candidates - 1] >= count:
        candidates -= 1
    pairs, used = np.empty((candidates, 2), np.int32), 0
    for number in range(candidates + 2 * _AHEAD):
        if number < candidates:
            fetch(starts, np.uint64(places[number]))
        if _AHEAD <= number < candidates + _AHEAD:
            early = places[number - _AHEAD]
            last = 3 * starts[early + 1] - 1
            for line in range(3 * starts[early], last, _LINE):
                fetch(predicates, np.uint64(line))
            fetch(predicates, np.uint64(last))
            fetch(conjunction, np.uint64(early))
        if number < 2 * _AHEAD:
            continue
        place = places[number - 2 * _AHEAD]
        holds = True
        # Most hold: to compare all without a branch costs less than to leave at the first that fails.
        for row in range(np.uint64(starts[place]), np.uint64(starts[place + 1])):
            of_column, low, high = predicates[row, 0], predicates[row, DEMAND_LOW], predicates[row, DEMAND_HIGH]
            if of_column >= 0:
                code = codes[np.uint64(of_column), 0]
                holds = holds & (low <= code) & (code <= high)
            else:
                holds = holds & in_ranges(ranges, low, high, codes[~of_column, 0])
        pairs[used, EVENT] = 0
        pairs[used, FOUND] = conjunction[place]
        used += holds
    return pairs[:used].copy(), candidates
