"""Conjunctions that many events are expected to match: bitsets with the ends of ranges, in blocks as large as a cache.

Hardly a group of them fails as a whole, and most candidates match, so that nothing is gained by verifying them. Besides
the bitsets of its cells, a row has the *ends* of its ranges: a low end fails for the codes of its cell below it, a high
end for those above it. What neither a bitset nor an end rules out matches, unverified, but for conjunctions that are
*partial*.

All bits of a bitset of a block lie together, and so do the ends of a cell: a row of a block costs an event a few
branches that cannot be predicted, whatever the size of the block, and one stream of memory.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import count_bits, fetch, inlined_kernel, kernel, lowest_bit
from tocsin.arrays import Bools, Int32s, Int64s, UInt8s, UInt16s, UInt64s
from tocsin.conjunctions.bitmaps.kernels import (
    DEMAND_COLUMN,
    DEMAND_HIGH,
    DEMAND_LOW,
    Demands,
    bits_beyond,
    cells_of_codes,
    holds_tests,
)
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.pairs.kernels import EVENT, FOUND, in_ranges

DENSE_BLOCK = 1 << 15
"""Places of a block. A million conjunctions of 5 of 20 ranges of width 0.5, µs an event with 4,096, 16,384, 32,768 and
65,536: batches of 2,000, swept, 119, 66, 58 and 57; of 32, marked, 736, 299, 257 and 271."""
DENSE_WORDS = DENSE_BLOCK // 64
_CODES_OF_A_LINE, _WORDS_OF_A_LINE = 16, 8


class DenseBlocks(NamedTuple):
    """The bitsets and the ends of all blocks. The last block has as many words as its places need."""

    place_starts: Int64s
    """Where the places of each block start; one more entry at the end, behind the last place."""
    row_starts: Int64s
    """Where the rows of each block start; one more entry at the end."""
    column: Int32s
    """The column of each row, by its number among those that have cells."""
    shift: Int32s
    """A row that few conjunctions name has wider cells: cell >> shift of the cells of its column."""
    bitset_starts: Int64s
    """Where the bitsets of each block start; one more entry at the end."""
    first_bitset: Int32s
    """The bitset of the first cell of each row, among those of its block; that of NULL is behind the last cell."""
    word_starts: Int64s
    """Where the words of each block start; one more entry at the end. All bitsets of a block have the same size."""
    words: UInt64s
    """Bit i of a bitset is set if the predicate of conjunction i fails in the whole cell."""
    end_starts: Int64s
    """Two entries for each bitset and one more: where the low ends and the high ends that lie in its cell start."""
    end_code: Int32s
    """The codes of ends, ascending."""
    end_place: UInt16s
    """The places that they are those of, within their block."""
    partial: UInt64s
    """A bit for each place: conjunctions with a test, or with a predicate that has no row or no ends, are verified."""
    clear: Bools
    """For each bitset, whether it has no bit and no end: events leave it out."""


@inlined_kernel
def words_of(places: int) -> int:
    """Return the words of a bitset of so many places: whole lines of the cache."""
    return (places + 64 * _WORDS_OF_A_LINE - 1) // (64 * _WORDS_OF_A_LINE) * _WORDS_OF_A_LINE


@kernel
def _mark(
    dense: DenseBlocks, block: int, columns: Int32s, codes: Int32s, cells: UInt8s, event: int, failing: UInt64s
) -> None:
    """Find the places of a block that fail for an event, a bit each: those of its bitsets, and by ends.

    Low ends above the code fail, the last ones of their cell; high ends below it fail, the first ones. What the next
    row needs is prefetched beside the bitset of this one, line by line: all at once, it would wait for memory.
    """
    words, starts, code_of, place_of = dense.words, dense.end_starts, dense.end_code, dense.end_place
    first_of_block, width = dense.bitset_starts[block], failing.size
    failing[:] = np.uint64(0)
    first, behind = dense.row_starts[block], dense.row_starts[block + 1]
    taken, column_of, count = np.empty(behind - first, np.int64), np.empty(behind - first, np.int32), 0
    for row in range(first, behind):
        taken[count] = dense.first_bitset[row] + (cells[dense.column[row], event] >> dense.shift[row])
        column_of[count] = columns[dense.column[row]]
        count += not dense.clear[first_of_block + taken[count]]
    for number in range(count):
        bitset = np.uint64(first_of_block + taken[number])
        at = np.uint64(dense.word_starts[block] + taken[number] * width)
        next_at, next_end, after_next = at, np.uint64(0), np.uint64(0)
        if number + 1 < count:
            next_at = np.uint64(dense.word_starts[block] + taken[number + 1] * width)
            next_end = np.uint64(starts[2 * (first_of_block + taken[number + 1])])
            after_next = np.uint64(starts[2 * (first_of_block + taken[number + 1]) + 2])
        for line in range(np.uint64(0), np.uint64(width), np.uint64(_WORDS_OF_A_LINE)):
            fetch(words, next_at + line)
            if next_end < after_next:
                fetch(code_of, next_end)
                fetch(place_of, next_end)
                next_end += np.uint64(_CODES_OF_A_LINE)
            for word in range(np.uint64(_WORDS_OF_A_LINE)):
                failing[line + word] |= words[at + line + word]
        low, high = np.uint64(starts[np.uint64(2) * bitset]), np.uint64(starts[np.uint64(2) * bitset + np.uint64(1)])
        end = np.uint64(starts[np.uint64(2) * bitset + np.uint64(2)])
        code = codes[column_of[number], event]
        above, below = np.int32(0), np.int32(0)
        for place in range(low, high):
            above += np.int32(code_of[place] > code)
        for place in range(high, end):
            below += np.int32(code_of[place] < code)
        for place in range(high - np.uint64(above), high + np.uint64(below)):
            fails = np.uint64(place_of[place])
            failing[fails >> np.uint64(6)] |= np.uint64(1) << (fails & np.uint64(63))


@kernel
def _sweep(
    dense: DenseBlocks, block: int, columns: Int32s, codes: Int32s, cells: UInt8s, by_code: Int32s, failing: UInt64s
) -> None:
    """Find the places of a block that fail for each event, a bit each, going through the events in order of codes.

    Row i of `by_code` has the events in the order of their codes of `columns[i]`. A cell begins with what fails in all
    of it and with all low ends in it. From one event to the next few places change: those whose low end is reached
    fail no longer, and those whose high end is passed fail from then on.
    """
    words, starts, code_of, place_of = dense.words, dense.end_starts, dense.end_code, dense.end_place
    first_of_block, width = dense.bitset_starts[block], failing.shape[1]
    for one in range(np.uint64(len(failing))):
        for word in range(np.uint64(width)):
            failing[one, word] = np.uint64(0)
    state = np.empty(width, np.uint64)
    for row in range(dense.row_starts[block], dense.row_starts[block + 1]):
        base, wider, number = dense.first_bitset[row], dense.shift[row], dense.column[row]
        of_event, codes_of, in_order = cells[number], codes[columns[number]], by_code[number]
        current, is_clear = np.int64(-1), False
        low, middle, high, end = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
        for place in range(np.uint64(in_order.size)):
            event = np.uint64(in_order[place])
            local = np.int64(base + (of_event[event] >> wider))
            if local != current:
                current, is_clear = local, dense.clear[first_of_block + local]
                if is_clear:
                    continue
                at = np.uint64(dense.word_starts[block] + local * width)
                for word in range(np.uint64(width)):
                    state[word] = words[at + word]
                of_ends = np.uint64(2 * (first_of_block + local))
                low, middle = np.uint64(starts[of_ends]), np.uint64(starts[of_ends + np.uint64(1)])
                high, end = middle, np.uint64(starts[of_ends + np.uint64(2)])
                for one in range(low, middle):
                    below = np.uint64(place_of[one])
                    state[below >> np.uint64(6)] |= np.uint64(1) << (below & np.uint64(63))
            if is_clear:
                continue
            code = codes_of[event]
            while low < middle and code_of[low] <= code:
                reached = np.uint64(place_of[low])
                state[reached >> np.uint64(6)] &= ~(np.uint64(1) << (reached & np.uint64(63)))
                low += np.uint64(1)
            while high < end and code_of[high] < code:
                passed = np.uint64(place_of[high])
                state[passed >> np.uint64(6)] |= np.uint64(1) << (passed & np.uint64(63))
                high += np.uint64(1)
            for word in range(np.uint64(width)):
                failing[event, word] |= state[word]


@kernel
def _holds(demands: Demands, events: Events, by_event: Int32s, event: int, place: int) -> bool:
    """Tell whether the conjunction at a place holds for an event."""
    predicates, holds = demands.predicates, True
    # Most hold: to compare all without a branch costs less than to leave at the first that fails.
    for row in range(np.uint64(demands.starts[place]), np.uint64(demands.starts[place + 1])):
        column, low, high = predicates[row, DEMAND_COLUMN], predicates[row, DEMAND_LOW], predicates[row, DEMAND_HIGH]
        if column >= 0:
            code = by_event[event, column]
            holds = holds & (low <= code) & (code <= high)
        else:
            holds = holds & in_ranges(demands.ranges, low, high, by_event[event, ~column])
    if holds and demands.tests.size > 0:
        return holds_tests(demands, events, place, event)
    return holds


@kernel
def _set_others(
    dense: DenseBlocks,
    block: int,
    demands: Demands,
    events: Events,
    by_event: Int32s,
    first_event: int,
    failing: UInt64s,
    bits: UInt64s,
) -> int:
    """Set the `bits` of the places of a block that do not fail and, if they are partial, hold; return the candidates.

    Row i of `failing` is that of the event `first_event` + i.
    """
    first_place, end_place, candidates = dense.place_starts[block], dense.place_starts[block + 1], 0
    for one in range(np.uint64(len(failing))):
        event = first_event + int(one)
        for word in range(np.uint64(failing.shape[1])):
            at = np.uint64(block * DENSE_WORDS) + word
            place = first_place + np.int64(word) * 64
            left = ~failing[one, word]
            if place + 64 > end_place:
                left &= ~bits_beyond(end_place - place)
            candidates += count_bits(left)
            doubt = left & dense.partial[at]
            while doubt != np.uint64(0):
                if not _holds(demands, events, by_event, event, place + lowest_bit(doubt)):
                    left ^= doubt & (~doubt + np.uint64(1))
                doubt &= doubt - np.uint64(1)
            bits[np.uint64(event), at] = left
    return candidates


@kernel
def match_dense(
    dense: DenseBlocks,
    demands: Demands,
    events: Events,
    by_event: Int32s,
    columns: Int32s,
    cells: UInt8s,
    by_code: Int32s,
    bits: UInt64s,
) -> int:
    """Set the bits of the conjunctions that match, for each event; return the number of candidates.

    Row i of `cells` is that of the column `columns[i]`, and row i of `by_code` has the events in the order of their
    codes of it; nothing: there are too few events to be swept. `by_event` has the codes event by event. Word i of an
    event in `bits` is that of word i of `dense.partial`.
    """
    candidates, size = 0, cells.shape[1]
    for block in range(dense.row_starts.size - 1):
        width = words_of(dense.place_starts[block + 1] - dense.place_starts[block])
        if by_code.size > 0:
            failing = np.empty((size, width), np.uint64)
            _sweep(dense, block, columns, events.codes, cells, by_code, failing)
            candidates += _set_others(dense, block, demands, events, by_event, 0, failing, bits)
            continue
        failing = np.empty((1, width), np.uint64)
        for event in range(size):
            _mark(dense, block, columns, events.codes, cells, event, failing[0])
            candidates += _set_others(dense, block, demands, events, by_event, event, failing, bits)
    return candidates


@kernel
def match_dense_of_one(
    dense: DenseBlocks, demands: Demands, events: Events, columns: Int32s, bounds: Int32s, counts: Int32s
) -> tuple[Int32s, int]:
    """Do what `match_dense` does for a batch of one event, in one call; return pairs and candidates."""
    cells, no_order = cells_of_codes(events.codes, columns, bounds, counts), np.empty((0, 0), np.int32)
    bits = np.empty((1, dense.partial.size), np.uint64)
    by_event = events.codes.reshape(1, -1)
    candidates = match_dense(dense, demands, events, by_event, columns, cells, no_order, bits)
    total = 0
    for word in bits[0]:
        total += count_bits(word)
    pairs, used = np.empty((total, 2), np.int32), 0
    for word in range(bits.shape[1]):
        left, place = bits[0, word], dense.place_starts[0] + word * 64
        while left != np.uint64(0):
            pairs[used, EVENT] = 0
            pairs[used, FOUND] = demands.conjunction[place + lowest_bit(left)]
            left &= left - np.uint64(1)
            used += 1
    return pairs, candidates


@kernel
def mark_clear_bitsets(dense: DenseBlocks) -> None:
    """Fill `clear` from the bitsets and the ends."""
    for block in range(dense.row_starts.size - 1):
        width = words_of(dense.place_starts[block + 1] - dense.place_starts[block])
        first, at = dense.bitset_starts[block], dense.word_starts[block]
        for bitset in range(first, dense.bitset_starts[block + 1]):
            some = np.uint64(0)
            for word in range(at, at + width):
                some |= dense.words[word]
            at += width
            no_end = dense.end_starts[2 * bitset] == dense.end_starts[2 * bitset + 2]
            dense.clear[bitset] = some == np.uint64(0) and no_end
