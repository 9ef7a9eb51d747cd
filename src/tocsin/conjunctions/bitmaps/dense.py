"""Conjunctions that many events are expected to match: bitsets with the ends of ranges, in blocks and regions.

Hardly a group of them fails as a whole, and most candidates match, so that nothing is gained by verifying them. Besides
the bitsets of its cells, a row has the *ends* of its ranges: a low end fails for the codes of its cell below it, a high
end for those above it. What neither a bitset nor an end rules out matches, unverified, but for conjunctions that are
*partial*.

A bitset has a bit for each place of the *lines* of its row, and no others: a line is 512 places, a vector and a line of
the cache, and belongs to a row if some conjunction of it names the column. Conjunctions of like columns stand together.

A few events are *marked* one by one, which waits for memory: hence *regions* of several blocks. All bits of a bitset of
a region lie together, and so do the ends of a cell, block by block: a row costs an event one stream of memory. Many
events are *swept* block by block, so that what fails for each of them stays in a cache.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import count_bits, fetch, inlined_kernel, kernel, lowest_bit, or_line
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
REGION_BLOCKS = 16
"""Blocks of a region. A million conjunctions of 1 to 10 of 100 ranges of any width, µs a single event with 1 and 16:
1,660 and 1,094 on a busy machine; of 5 of 20 ranges of width 0.5 with 1, 4, 16 and 32: 363, 319, 293 and 295."""
LINE = 512
"""Places of a line."""
LINE_WORDS = LINE // 64
BLOCK_LINES = DENSE_BLOCK // LINE
REGION_LINES = REGION_BLOCKS * BLOCK_LINES
_CODES_OF_A_LINE, _STARTS_OF_A_LINE = 16, 8
_ENDS_AHEAD = 64
"""Ends of the next cell that are prefetched in a sweep."""


class DenseBlocks(NamedTuple):
    """The bitsets and the ends of all blocks. The last region has as many blocks and words as its places need."""

    place_starts: Int64s
    """Where the places of each block start; one more entry at the end, behind the last place."""
    block_starts: Int64s
    """Where the blocks of each region start; one more entry at the end."""
    row_starts: Int64s
    """Where the rows of each region start; one more entry at the end."""
    column: Int32s
    """The column of each row, by its number among those that have cells."""
    shift: Int32s
    """A row that few conjunctions name has wider cells: cell >> shift of the cells of its column."""
    bitset_starts: Int64s
    """Where the bitsets of each region start; one more entry at the end."""
    first_bitset: Int32s
    """The bitset of the first cell of each row, among those of its region; that of NULL is behind the last cell."""
    line_starts: Int64s
    """Where the lines of each row start; one more entry at the end."""
    lines: UInt16s
    """The lines of each row, ascending, counted from the first of the region."""
    word_starts: Int64s
    """Where the bitsets of each row start; one more entry at the end. Each has LINE_WORDS words for each line."""
    words: UInt64s
    """A bit of a bitset is set if the predicate of the conjunction at its place fails in the whole cell."""
    list_starts: Int64s
    """Where the lists of ends of each region start, one for each block of each bitset; one more entry at the end."""
    end_starts: Int64s
    """Two entries for each list and one more: where the low ends and the high ends of its block start that lie in the
    cell of its bitset."""
    end_code: Int32s
    """The codes of ends, ascending in each list."""
    end_place: UInt16s
    """The places that they are those of, within their block."""
    partial: UInt64s
    """A bit for each place: conjunctions with a test, or with a predicate that has no row or no ends, are verified."""
    clear: Bools
    """For each bitset, whether it has no bit and no end: events leave it out."""


@inlined_kernel
def words_of(places: int) -> int:
    """Return the words of so many places: those of whole lines."""
    return (places + LINE - 1) // LINE * LINE_WORDS


@inlined_kernel
def _width_of(dense: DenseBlocks, region: int) -> int:
    """Return the words of all places of a region."""
    first, behind = dense.block_starts[region], dense.block_starts[region + 1]
    width: int = words_of(dense.place_starts[behind] - dense.place_starts[first])
    return width


@inlined_kernel
def _first_word(dense: DenseBlocks, row: int, cell: int) -> int:
    """Return where the bitset of a cell of a row starts."""
    width = LINE_WORDS * (dense.line_starts[row + 1] - dense.line_starts[row])
    at: int = dense.word_starts[row] + cell * width
    return at


@kernel
def _mark(
    dense: DenseBlocks, region: int, columns: Int32s, codes: Int32s, cells: UInt8s, event: int, failing: UInt64s
) -> None:
    """Find the places of a region that fail for an event, a bit each: those of its bitsets, and by ends.

    Low ends above the code fail, the last ones of their cell; high ends below it fail, the first ones. The ends are
    prefetched beside the bitset, line by line, and so is the beginning of the next one.
    """
    words, starts, code_of, place_of = dense.words, dense.end_starts, dense.end_code, dense.end_place
    blocks = dense.block_starts[region + 1] - dense.block_starts[region]
    failing[:] = np.uint64(0)
    first, behind = dense.row_starts[region], dense.row_starts[region + 1]
    rows = behind - first + 1
    row_of, word_of, list_of, count = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64), 0
    for row in range(first, behind):
        cell = cells[dense.column[row], event] >> dense.shift[row]
        bitset = dense.first_bitset[row] + cell
        row_of[count], word_of[count] = row, _first_word(dense, row, cell)
        list_of[count] = 2 * (dense.list_starts[region] + bitset * blocks)
        if not dense.clear[dense.bitset_starts[region] + bitset]:
            for ahead in range(0, 2 * blocks + 1, _STARTS_OF_A_LINE):
                fetch(starts, np.uint64(list_of[count] + ahead))
            count += 1
    word_of[count] = word_of[max(count - 1, 0)]
    for number in range(count):
        row, at, next_at = row_of[number], np.uint64(word_of[number]), np.uint64(word_of[number + 1])
        first_list = np.uint64(list_of[number])
        end, behind_last = np.uint64(starts[first_list]), np.uint64(starts[first_list + np.uint64(2 * blocks)])
        for place in range(np.uint64(dense.line_starts[row]), np.uint64(dense.line_starts[row + 1])):
            target = np.uint64(dense.lines[place]) * np.uint64(LINE_WORDS)
            fetch(words, next_at)
            if end < behind_last:
                fetch(code_of, end)
                fetch(place_of, end)
                end += np.uint64(_CODES_OF_A_LINE)
            or_line(words, at, failing, target)
            at += np.uint64(LINE_WORDS)
            next_at += np.uint64(LINE_WORDS)
        code = codes[columns[dense.column[row]], event]
        for block in range(np.uint64(blocks)):
            of_block, first_word = first_list + np.uint64(2) * block, block * np.uint64(DENSE_WORDS)
            low, high = np.uint64(starts[of_block]), np.uint64(starts[of_block + np.uint64(1)])
            end = np.uint64(starts[of_block + np.uint64(2)])
            above, below = np.int32(0), np.int32(0)
            for place in range(low, high):
                above += np.int32(code_of[place] > code)
            for place in range(high, end):
                below += np.int32(code_of[place] < code)
            for place in range(high - np.uint64(above), high + np.uint64(below)):
                fails = np.uint64(place_of[place])
                failing[first_word + (fails >> np.uint64(6))] |= np.uint64(1) << (fails & np.uint64(63))


@kernel
def _first_line(dense: DenseBlocks, row: int, line: int) -> int:
    """Return the number of the first line of a row that is not before a line of its region."""
    low: int = dense.line_starts[row]
    high: int = dense.line_starts[row + 1]
    while low < high:
        middle = (low + high) >> 1
        if dense.lines[middle] < line:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _sweep(
    dense: DenseBlocks,
    region: int,
    block: int,
    columns: Int32s,
    codes: Int32s,
    cells: UInt8s,
    by_code: Int32s,
    failing: UInt64s,
) -> None:
    """Find the places of a block of a region that fail for each event, a bit each, by going through the codes in order.

    Row i of `by_code` has the events in the order of their codes of `columns[i]`. A cell begins with what fails in all
    of it and with all low ends in it. From one event to the next few places change: those whose low end is reached
    fail no longer, and those whose high end is passed fail from then on.
    """
    words, starts, code_of, place_of = dense.words, dense.end_starts, dense.end_code, dense.end_place
    in_region = block - dense.block_starts[region]
    blocks = dense.block_starts[region + 1] - dense.block_starts[region]
    for one in range(np.uint64(len(failing))):
        for word in range(np.uint64(failing.shape[1])):
            failing[one, word] = np.uint64(0)
    flat, width = failing.reshape(-1), np.uint64(failing.shape[1])
    state, targets = np.empty(failing.shape[1], np.uint64), np.empty(BLOCK_LINES, np.uint64)
    for row in range(dense.row_starts[region], dense.row_starts[region + 1]):
        first_line = _first_line(dense, row, in_region * BLOCK_LINES)
        lines = np.uint64(_first_line(dense, row, (in_region + 1) * BLOCK_LINES) - first_line)
        if lines == np.uint64(0):
            continue
        for line in range(lines):
            inside = dense.lines[np.uint64(first_line) + line] - np.uint64(in_region * BLOCK_LINES)
            targets[line] = inside * np.uint64(LINE_WORDS)
        first_word = dense.word_starts[row] + (first_line - dense.line_starts[row]) * LINE_WORDS
        step = (dense.line_starts[row + 1] - dense.line_starts[row]) * LINE_WORDS
        base, wider, number = dense.first_bitset[row], dense.shift[row], dense.column[row]
        first_list = 2 * (dense.list_starts[region] + base * blocks + in_region)
        of_event, codes_of, in_order = cells[number], codes[columns[number]], by_code[number]
        current, is_clear = np.int64(-1), False
        low, middle, high, end = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
        for place in range(np.uint64(in_order.size)):
            event = np.uint64(in_order[place])
            cell = np.int64(of_event[event] >> wider)
            if cell != current:
                current, is_clear = cell, dense.clear[dense.bitset_starts[region] + base + cell]
                if is_clear:
                    continue
                at, of_ends = np.uint64(first_word + cell * step), np.uint64(first_list + 2 * cell * blocks)
                for line in range(lines):
                    # The next cell lies elsewhere: its bitset and the beginnings of its lists are prefetched.
                    fetch(words, at + np.uint64(step) + line * np.uint64(LINE_WORDS))
                    for word in range(np.uint64(LINE_WORDS)):
                        state[targets[line] + word] = words[at + line * np.uint64(LINE_WORDS) + word]
                of_next = of_ends + np.uint64(2 * blocks)
                if cell < of_event[np.uint64(in_order[in_order.size - 1])] >> wider:
                    for of_list in range(of_next, of_next + np.uint64(2)):
                        for ahead in range(np.uint64(0), np.uint64(_ENDS_AHEAD), np.uint64(_CODES_OF_A_LINE)):
                            fetch(code_of, np.uint64(starts[of_list]) + ahead)
                            fetch(place_of, np.uint64(starts[of_list]) + ahead)
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
            target = event * width
            if lines * np.uint64(LINE_WORDS) == width:
                for word in range(width):
                    flat[target + word] |= state[word]
                continue
            for line in range(lines):
                or_line(state, targets[line], flat, target + targets[line])


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
    first_block: int,
    end_block: int,
    demands: Demands,
    events: Events,
    by_event: Int32s,
    first_event: int,
    failing: UInt64s,
    bits: UInt64s,
) -> int:
    """Set the `bits` of the places of blocks that do not fail and, if they are partial, hold; return the candidates.

    Row i of `failing` is that of the event `first_event` + i.
    """
    first_place, end_place, candidates = dense.place_starts[first_block], dense.place_starts[end_block], 0
    width, in_bits = np.uint64(failing.shape[1]), np.uint64(bits.shape[1])
    first_word, flat, target, partial = (
        np.uint64(first_block * DENSE_WORDS),
        failing.reshape(-1),
        bits.reshape(-1),
        dense.partial,
    )
    for one in range(len(failing)):
        event, of_event = first_event + one, np.uint64(one) * width
        for word in range((end_place - first_place) >> 6, failing.shape[1]):
            flat[of_event + np.uint64(word)] |= bits_beyond(end_place - first_place - word * 64)
        at, some_doubt = np.uint64(event) * in_bits + first_word, np.uint64(0)
        for word in range(width):
            left = ~flat[of_event + word]
            candidates += count_bits(left)
            some_doubt |= left & partial[first_word + word]
            target[at + word] = left
        if some_doubt == np.uint64(0):
            continue
        for word in range(width):
            doubt = target[at + word] & partial[first_word + word]
            while doubt != np.uint64(0):
                place = first_place + np.int64(word) * 64 + lowest_bit(doubt)
                if not _holds(demands, events, by_event, event, place):
                    target[at + word] ^= doubt & (~doubt + np.uint64(1))
                doubt &= doubt - np.uint64(1)
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
    for region in range(dense.row_starts.size - 1):
        first, end = dense.block_starts[region], dense.block_starts[region + 1]
        if by_code.size == 0:
            failing = np.empty((1, _width_of(dense, region)), np.uint64)
            for event in range(size):
                _mark(dense, region, columns, events.codes, cells, event, failing[0])
                candidates += _set_others(dense, first, end, demands, events, by_event, event, failing, bits)
            continue
        for block in range(first, end):
            places = dense.place_starts[block + 1] - dense.place_starts[block]
            failing = np.empty((size, words_of(places)), np.uint64)
            _sweep(dense, region, block, columns, events.codes, cells, by_code, failing)
            candidates += _set_others(dense, block, block + 1, demands, events, by_event, 0, failing, bits)
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
    for region in range(dense.row_starts.size - 1):
        blocks, ends = dense.block_starts[region + 1] - dense.block_starts[region], 2 * dense.list_starts[region]
        bitset, end_bitset = dense.bitset_starts[region], dense.bitset_starts[region + 1]
        for row in range(dense.row_starts[region], dense.row_starts[region + 1]):
            is_last = row + 1 == dense.row_starts[region + 1]
            behind = end_bitset if is_last else dense.bitset_starts[region] + dense.first_bitset[row + 1]
            width = (dense.line_starts[row + 1] - dense.line_starts[row]) * LINE_WORDS
            at = dense.word_starts[row]
            while bitset < behind:
                some = np.uint64(0)
                for word in range(at, at + width):
                    some |= dense.words[word]
                no_end = dense.end_starts[ends] == dense.end_starts[ends + 2 * blocks]
                dense.clear[bitset] = some == np.uint64(0) and no_end
                bitset, at, ends = bitset + 1, at + width, ends + 2 * blocks
