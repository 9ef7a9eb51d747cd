"""Bitmaps as arrays, and the kernels that match a batch with them.

Conjunctions stand in an order of their own (`build.py`), in *blocks* of BLOCK places; GROUP places of a block are a
*group*, as many as a vector register has bits. A block has a *row* for each column that enough of its conjunctions
name, and a row has a *bitset* for each cell of the column: bit i is set if the predicate of conjunction i fails in the
whole cell. An event takes one bitset of each row; the places that none of them has are candidates, and candidates are
verified in full codes. So cells and rows that are left out cost time and never change an answer.

The bitsets of a block are stored group by group: while the events of a batch pass a group, its vectors stay in the
first- or second-level cache.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import OR_AT_ONCE, count_bits, fetch, kernel, lowest_bit, or_vectors
from tocsin.arrays import Bools, Int32s, Int64s, UInt8s, UInt16s, UInt64s
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Events
from tocsin.conjunctions.pairs.kernels import EVENT, FOUND, contains, in_ranges
from tocsin.conjunctions.runs import RUN_EVENT, RUN_LENGTH, WRITTEN_AT_ONCE, FoundRuns, write_places
from tocsin.tuning import TUNING

BLOCK = 4096
GROUP = 512
GROUPS = BLOCK // GROUP
GROUP_WORDS = GROUP // 64
BITSET_WORDS = BLOCK // 64
ALL_DEAD = (1 << GROUPS) - 1
MAX_CELLS = 64
"""Cells of a column, without that of NULL."""

CANDIDATES_PER_FLUSH = 256
ROOM = 2 * GROUP + CANDIDATES_PER_FLUSH + WRITTEN_AT_ONCE
"""Conjunctions that are found before anyone asks for room: a group, and the candidates that wait."""
_ROWS_A_CANDIDATE = TUNING.rows_a_candidate
_MARKED_TOGETHER = 32
"""Events whose marks of a block are made together: 16 kB of them, half of a first-level cache."""
_TAKEN_TOGETHER = 128
"""Events whose vectors of a block are found together: 10 to 40 kB of numbers."""
_LINE = 16
"""Numbers of a cache line."""
_STARTS_AHEAD = 8
"""The predicates of a candidate are prefetched when so many more were found: where they start has arrived by then."""

DEMAND_COLUMN, DEMAND_LOW, DEMAND_HIGH = range(3)
"""The columns of a predicate that is one range."""
DEMAND_FIRST, DEMAND_END = 1, 2
"""Those of a predicate that is a union of ranges; its column is ~column, which is negative as no column is."""
TEST, TEST_ACCEPTS, TEST_NULL_COLUMN = range(3)
"""The columns of a test: its number, the truth values that are accepted, the column whose NULL makes it NULL or -1."""


MIDDLES = 2 * MAX_CELLS
"""More than the middle of any range, which is the sum of its first and its last cell."""


class Bitmaps(NamedTuple):
    """The bitsets of all blocks. Columns are numbered among those that have a row in some block."""

    row_starts: Int64s
    """Where the rows of each block start; one more entry at the end."""
    pruning_ends: Int64s
    """Where the rows of each block end in which some cell kills a group; the others come behind them."""
    column: Int32s
    """The column of each row."""
    shift: Int32s
    """A row that few conjunctions name has wider cells: cell >> shift of the cells of its column."""
    bitset_starts: Int64s
    """Where the bitsets of each block start; one more entry at the end."""
    first_bitset: Int32s
    """The bitset of the first cell of each row, among those of its block; that of NULL is behind the last cell."""
    dead: UInt8s
    """For each bitset, the groups of which all conjunctions fail, as bits."""
    words: UInt64s
    """The bitsets. If a block has b of them and they start at bitset s, the GROUP_WORDS of group g of its bitset i are
    at s * BITSET_WORDS + (g * b + i) * GROUP_WORDS."""
    has_ends: Bools
    """Whether a block has the ends of its ranges by cell. Only blocks whose conjunctions match often have them: what
    no bitset and no end rules out need not be verified, unless it is `partial`."""
    end_starts: Int64s
    """Two entries for each bitset and one more: where the low ends and the high ends that lie in its cell start."""
    end_code: Int32s
    """The codes of ends, ascending."""
    end_place: UInt16s
    """The places that they are those of, within their block."""
    partial: UInt64s
    """BITSET_WORDS for each block: the conjunctions with a test, or with a predicate that has no row or no ends."""
    clear: Bools
    """For each bitset, whether it has no bit and no end: events leave it out."""


class Progress(NamedTuple):
    """Where to go on: a block, a group of it, and an event by its number among those that the group is alive for."""

    block: int
    group: int
    number: int
    ends_pay: bool
    """Whether the ends of the block are used, if it has them."""


BEGIN = Progress(0, 0, 0, True)


class Demands(NamedTuple):
    """What the conjunction at each place demands, the most selective predicate first."""

    conjunction: Int32s
    """The number of the conjunction at each place."""
    starts: Int64s
    """Where the predicates of each place start; one more entry at the end."""
    predicates: Int32s
    """A row for each predicate: one range, or the numbers of its ranges."""
    ranges: Int32s
    """(low, high) of the ranges of unions, sorted within a predicate."""
    test_starts: Int64s
    tests: Int32s
    """A row for each test."""


@kernel
def cells_of_codes(codes: Int32s, columns: Int32s, bounds: Int32s, counts: Int32s) -> UInt8s:
    """Return the cell of each event in some columns; that of NULL has the number of cells of the column.

    Cell i of column c begins at code `bounds[c, i]`; `bounds` has MAX_CELLS entries for each column, which ascend.
    """
    events = codes.shape[1]
    cells = np.empty((columns.size, events), np.uint8)
    for number in range(columns.size):
        column = columns[number]
        for event in range(events):
            code = codes[column, event]
            if code < 0:
                cells[number, event] = counts[number]
                continue
            cell = 0
            step = MAX_CELLS // 2
            while step > 0:
                cell += step if bounds[number, cell + step] <= code else 0
                step >>= 1
            cells[number, event] = cell
    return cells


@kernel
def holds_tests(demands: Demands, events: Events, place: int, event: int) -> bool:
    """Tell whether an event has what the conjunction at a place demands of tests."""
    for row in range(demands.test_starts[place], demands.test_starts[place + 1]):
        test, null_column = demands.tests[row, TEST], demands.tests[row, TEST_NULL_COLUMN]
        truth = FALSE
        if contains(events.true, events.true_starts[event], events.true_starts[event + 1], test):
            truth = TRUE
        elif null_column >= 0:
            if events.codes[null_column, event] < 0:
                truth = NULL
        elif contains(events.null, events.null_starts[event], events.null_starts[event + 1], test):
            truth = NULL
        if demands.tests[row, TEST_ACCEPTS] & truth == 0:
            return False
    return True


@kernel
def _still_alive(bitmaps: Bitmaps, block: int, cells: UInt8s, alive: Int32s, killed: UInt8s) -> int:
    """Find the events for which some group of a block is not dead; return their number.

    `alive` takes the events, `killed` the dead groups of each; both have room for all events.
    """
    events = cells.shape[1]
    dead = bitmaps.dead[bitmaps.bitset_starts[block] :]
    first, end = bitmaps.row_starts[block], bitmaps.pruning_ends[block]
    if first == end:
        for event in range(events):
            alive[event] = event
            killed[event] = 0
        return len(alive)
    base, shift, of_event = bitmaps.first_bitset[first], bitmaps.shift[first], cells[bitmaps.column[first]]
    size: int = 0
    for event in range(events):
        groups = dead[np.uint64(base + (of_event[event] >> shift))]
        alive[size] = event
        killed[size] = groups
        size += groups != ALL_DEAD
    for row in range(first + 1, end):
        base, shift, of_event = bitmaps.first_bitset[row], bitmaps.shift[row], cells[bitmaps.column[row]]
        kept = 0
        for place in range(size):
            event = alive[place]
            groups = killed[place] | dead[np.uint64(base + (of_event[event] >> shift))]
            alive[kept] = event
            killed[kept] = groups
            kept += groups != ALL_DEAD
        size = kept
    return size


@kernel
def _take_vectors(
    bitmaps: Bitmaps, block: int, cells: UInt8s, alive: Int32s, stride: int, vectors: Int32s, taken: Int64s
) -> None:
    """Find the vectors of a group that each event takes: `taken[i]` of them, from `vectors[i * stride]` on.

    A vector is given by its first word, counted from that of the group. The last one is repeated until there is a
    multiple of OR_AT_ONCE.
    """
    first, rows = bitmaps.row_starts[block], bitmaps.row_starts[block + 1] - bitmaps.row_starts[block]
    clear = bitmaps.clear[bitmaps.bitset_starts[block] : bitmaps.bitset_starts[block + 1]]
    some_clear = alive.size * rows <= clear.size
    if not some_clear:
        # Many events: it costs less to look at all bitsets once than to ask for each that is taken.
        for each in range(np.uint64(clear.size)):
            some_clear |= clear[each]
    for some in range(0, alive.size, _TAKEN_TOGETHER):
        behind = min(some + _TAKEN_TOGETHER, alive.size)
        for number in range(np.uint64(some), np.uint64(behind)):
            taken[number] = 0 if some_clear else rows
        for row in range(first, first + rows):
            base, wider, of_event = bitmaps.first_bitset[row], bitmaps.shift[row], cells[bitmaps.column[row]]
            if not some_clear:
                place = np.uint64(row - first)
                for number in range(np.uint64(some), np.uint64(behind)):
                    bitset = np.uint64(base + (of_event[np.uint64(alive[number])] >> wider))
                    vectors[number * np.uint64(stride) + place] = bitset * np.uint64(GROUP_WORDS)
                continue
            for number in range(np.uint64(some), np.uint64(behind)):
                bitset = np.uint64(base + (of_event[np.uint64(alive[number])] >> wider))
                vectors[number * np.uint64(stride) + np.uint64(taken[number])] = bitset * np.uint64(GROUP_WORDS)
                taken[number] += not clear[bitset]
    for number in range(alive.size):
        while taken[number] % OR_AT_ONCE > 0:
            vectors[number * stride + taken[number]] = vectors[number * stride + taken[number] - 1]
            taken[number] += 1


@kernel
def _fetch_vectors(bitmaps: Bitmaps, block: int, killed: UInt8s, stride: int, vectors: Int32s, taken: Int64s) -> None:
    """Prefetch the vectors that a few events take of the groups of a block that are alive."""
    first_of_block = bitmaps.bitset_starts[block]
    bitsets = bitmaps.bitset_starts[block + 1] - first_of_block
    for group in range(GROUPS):
        first_word = first_of_block * BITSET_WORDS + group * bitsets * GROUP_WORDS
        for number in range(killed.size):
            if not killed[number] >> group & 1:
                for place in range(number * stride, number * stride + taken[number]):
                    fetch(bitmaps.words, np.uint64(first_word + vectors[place]))


@kernel
def _mark_ends(
    bitmaps: Bitmaps, block: int, columns: Int32s, codes: Int32s, cells: UInt8s, alive: Int32s, marked: UInt64s
) -> None:
    """Mark the places of a block that fail for each event, though not in the whole cell: a bit each, from a zero on.

    Low ends above the code fail, the last ones of their cell; high ends below it fail, the first ones.
    """
    starts, code_of, place_of = bitmaps.end_starts, bitmaps.end_code, bitmaps.end_place
    first_of_block = bitmaps.bitset_starts[block]
    for some in range(0, alive.size, _MARKED_TOGETHER):
        behind = min(some + _MARKED_TOGETHER, alive.size)
        for number in range(some, behind):
            for word in range(BITSET_WORDS):
                marked[number, word] = np.uint64(0)
        for row in range(bitmaps.row_starts[block], bitmaps.row_starts[block + 1]):
            base, wider = first_of_block + bitmaps.first_bitset[row], bitmaps.shift[row]
            of_event, codes_of = cells[bitmaps.column[row]], codes[columns[bitmaps.column[row]]]
            for number in range(np.uint64(some), np.uint64(behind)):
                event = np.uint64(alive[number])
                bitset = np.uint64(2) * np.uint64(base + (of_event[event] >> wider))
                first, middle = np.uint64(starts[bitset]), np.uint64(starts[bitset + np.uint64(1)])
                end = np.uint64(starts[bitset + np.uint64(2)])
                if first == end:
                    continue
                code = codes_of[event]
                above, below = np.int32(0), np.int32(0)
                for place in range(first, middle):
                    above += np.int32(code_of[place] > code)
                for place in range(middle, end):
                    below += np.int32(code_of[place] < code)
                for place in range(middle - np.uint64(above), middle + np.uint64(below)):
                    failing = np.uint64(place_of[place])
                    marked[number, failing >> np.uint64(6)] |= np.uint64(1) << (failing & np.uint64(63))


@kernel
def _fetch_ends(bitmaps: Bitmaps, block: int, cells: UInt8s, alive: Int32s) -> None:
    """Prefetch the ends that lie in the cells of a few events."""
    starts, first_of_block = bitmaps.end_starts, bitmaps.bitset_starts[block]
    for only_starts in (True, False):
        for row in range(bitmaps.row_starts[block], bitmaps.row_starts[block + 1]):
            base, wider = first_of_block + bitmaps.first_bitset[row], bitmaps.shift[row]
            of_event = cells[bitmaps.column[row]]
            for event in alive:
                bitset = np.uint64(2 * (base + (of_event[event] >> wider)))
                if only_starts:
                    fetch(starts, bitset)
                    continue
                end = np.uint64(starts[bitset + np.uint64(2)])
                place = np.uint64(starts[bitset])
                while place < end:
                    fetch(bitmaps.end_code, place)
                    fetch(bitmaps.end_place, place)
                    place += np.uint64(_LINE)


@kernel
def _sweep(
    bitmaps: Bitmaps, block: int, columns: Int32s, codes: Int32s, cells: UInt8s, by_code: Int32s, failing: UInt64s
) -> None:
    """Find the places of a block that fail for each event, a bit each, going through the events in order of codes.

    Row i of `by_code` has the events in the order of their codes of `columns[i]`. A cell begins with what fails in all
    of it and with all low ends in it. From one event to the next few places change: those whose low end is reached
    fail no longer, and those whose high end is passed fail from then on.
    """
    words, starts, code_of, place_of = bitmaps.words, bitmaps.end_starts, bitmaps.end_code, bitmaps.end_place
    clear, first_of_block = bitmaps.clear, bitmaps.bitset_starts[block]
    bitsets = bitmaps.bitset_starts[block + 1] - first_of_block
    for one in range(np.uint64(len(failing))):
        for word in range(np.uint64(BITSET_WORDS)):
            failing[one, word] = np.uint64(0)
    state = np.empty(BITSET_WORDS, np.uint64)
    for row in range(bitmaps.row_starts[block], bitmaps.row_starts[block + 1]):
        base, wider, number = bitmaps.first_bitset[row], bitmaps.shift[row], bitmaps.column[row]
        of_event, codes_of, in_order = cells[number], codes[columns[number]], by_code[number]
        current, is_clear = np.int64(-1), False
        low, middle, high, end = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
        for place in range(np.uint64(in_order.size)):
            event = np.uint64(in_order[place])
            bitset = np.int64(base + (of_event[event] >> wider))
            if bitset != current:
                current, is_clear = bitset, clear[first_of_block + bitset]
                for group in range(GROUPS):
                    at = np.uint64(first_of_block * BITSET_WORDS + (group * bitsets + bitset) * GROUP_WORDS)
                    for word in range(np.uint64(GROUP_WORDS)):
                        state[np.uint64(group * GROUP_WORDS) + word] = words[at + word]
                of_ends = np.uint64(2 * (first_of_block + bitset))
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
            for word in range(np.uint64(BITSET_WORDS)):
                failing[event, word] |= state[word]


@kernel
def _set_others(failing: UInt64s, block: int, count: int, bits: UInt64s) -> int:
    """Set the `bits` of the places of a block that do not fail for each event; return how many there are.

    Only the first `count` places of all blocks have a conjunction.
    """
    first = block * BITSET_WORDS
    none = np.empty(BITSET_WORDS, np.uint64)
    for word in range(BITSET_WORDS):
        none[word] = _beyond(count - (first + word) * 64)
    others = 0
    for event in range(np.uint64(len(failing))):
        for word in range(np.uint64(BITSET_WORDS)):
            left = ~(failing[event, word] | none[word])
            bits[event, np.uint64(first) + word] = left
            others += count_bits(left)
    return others


@kernel
def verify_candidates(
    demands: Demands, events: Events, by_event: Int32s, waiting: Int32s, found: FoundRuns, bits: UInt64s
) -> FoundRuns:
    """Verify the candidates (event, place); add those that match to the runs, or set their `bits`, if there are any.

    `by_event` has the codes of the events, event by event. The runs have room for all of them.
    """
    values, used, runs, count = found
    conjunction, starts, predicates, ranges = demands.conjunction, demands.starts, demands.predicates, demands.ranges
    has_tests = demands.tests.size > 0
    for candidate in range(len(waiting)):
        event, place = waiting[candidate, EVENT], waiting[candidate, FOUND]
        holds = True
        for row in range(starts[place], starts[place + 1]):
            column = predicates[row, DEMAND_COLUMN]
            if column >= 0:
                holds = predicates[row, DEMAND_LOW] <= by_event[event, column] <= predicates[row, DEMAND_HIGH]
            else:
                first_range, end_range = predicates[row, DEMAND_FIRST], predicates[row, DEMAND_END]
                holds = in_ranges(ranges, first_range, end_range, by_event[event, ~column])
            if not holds:
                break
        if holds and (not has_tests or holds_tests(demands, events, place, event)):
            if bits.size > 0:
                bits[event, place >> 6] |= np.uint64(1) << np.uint64(place & 63)
                continue
            values[used] = conjunction[place]
            used += 1
            if count > 0 and runs[count - 1, RUN_EVENT] == event:
                runs[count - 1, RUN_LENGTH] += 1
            else:
                runs[count, RUN_EVENT] = event
                runs[count, RUN_LENGTH] = 1
                count += 1
    return FoundRuns(values, used, runs, count)


@kernel
def match_bitmaps(
    bitmaps: Bitmaps,
    demands: Demands,
    events: Events,
    by_event: Int32s,
    columns: Int32s,
    cells: UInt8s,
    by_code: Int32s,
    progress: Progress,
    found: FoundRuns,
    bits: UInt64s,
) -> tuple[Progress, FoundRuns, int]:
    """Find the conjunctions that match, from `progress` on, until all blocks are done or the room is used.

    `by_event` has the codes of the events, event by event: a candidate needs several codes of one event. Row i of
    `cells` is that of the column `columns[i]`, and row i of `by_code` has the events in the order of their codes of it;
    nothing: there are too few events to be swept. Matches
    are added to the runs, which have ROOM at least; or, if there are `bits`, the bit of each (event, place) is set
    there. Returns the progress, the runs and the number of candidates verified. In blocks with ends, a group and an
    event are finished at once, and few candidates are partial; but if a block had few candidates, the ends of the next
    one are not worth their time. In the others candidates wait, and what they demand is prefetched, until there are
    enough of them; verified one by one, each would wait for memory.
    """
    values, used, runs, count_of_runs = found
    candidates = 0
    words, partial = bitmaps.words, bitmaps.partial
    conjunction, starts, predicates = demands.conjunction, demands.starts, demands.predicates.reshape(-1)
    ranges, has_tests = demands.ranges, demands.tests.size > 0
    count, blocks, in_bits = conjunction.size, bitmaps.row_starts.size - 1, bits.size > 0
    alive, killed = np.empty(cells.shape[1], np.int32), np.empty(cells.shape[1], np.uint8)
    left_to = np.empty(cells.shape[1], np.int32)
    most_rows = 1
    for block in range(blocks):
        most_rows = max(most_rows, bitmaps.row_starts[block + 1] - bitmaps.row_starts[block])
    stride = (most_rows + OR_AT_ONCE - 1) // OR_AT_ONCE * OR_AT_ONCE
    vectors, taken = np.empty(cells.shape[1] * stride, np.int32), np.empty(cells.shape[1], np.int64)
    # The places of a group that fail; where there are ends, those that are left.
    failed, marked = np.zeros(GROUP_WORDS, np.uint64), np.empty((0, BITSET_WORDS), np.uint64)
    waiting = np.empty((CANDIDATES_PER_FLUSH + GROUP, 2), np.int32)
    end, ends_pay = 0, progress.ends_pay
    first_group, first_number = progress.group, progress.number
    for block in range(progress.block, blocks):
        rows = bitmaps.row_starts[block + 1] - bitmaps.row_starts[block]
        first_of_block = bitmaps.bitset_starts[block]
        bitsets = bitmaps.bitset_starts[block + 1] - first_of_block
        has_ends = bitmaps.has_ends[block] and ends_pay
        before_block = candidates + end
        if has_ends and len(marked) == 0:
            marked = np.empty((cells.shape[1], BITSET_WORDS), np.uint64)
        if has_ends and by_code.size > 0:
            _sweep(bitmaps, block, columns, events.codes, cells, by_code, marked)
            some_partial = np.uint64(0)
            for word in range(block * BITSET_WORDS, (block + 1) * BITSET_WORDS):
                some_partial |= partial[word]
            if in_bits and some_partial == np.uint64(0) and first_group == 0 and first_number == 0:
                candidates += _set_others(marked, block, count, bits)
                ends_pay = (candidates + end - before_block) * _ROWS_A_CANDIDATE > rows * cells.shape[1]
                continue
            # All that fails is marked: no event takes a vector.
            size = cells.shape[1]
            for number in range(size):
                alive[number] = number
                killed[number] = 0
                taken[number] = 0
        else:
            size = _still_alive(bitmaps, block, cells, alive, killed)
            _take_vectors(bitmaps, block, cells, alive[:size], stride, vectors, taken)
            if size * rows < bitsets:
                _fetch_vectors(bitmaps, block, killed[:size], stride, vectors, taken)
                if has_ends:
                    _fetch_ends(bitmaps, block, cells, alive[:size])
            if has_ends:
                _mark_ends(bitmaps, block, columns, events.codes, cells, alive[:size], marked)
        for group in range(first_group, min(GROUPS, (count - block * BLOCK + GROUP - 1) // GROUP)):
            first_place = block * BLOCK + group * GROUP
            first_word = first_of_block * BITSET_WORDS + group * bitsets * GROUP_WORDS
            left_events = 0
            for number in range(np.uint64(size)):
                left_to[np.uint64(left_events)] = number
                left_events += ~(killed[number] >> group) & 1
            # Where most vectors of a group are taken by some event, all of the next group are prefetched meanwhile.
            ahead, lines = first_word + bitsets * GROUP_WORDS, 0
            if left_events * rows > bitsets:
                lines = (bitsets + left_events - 1) // left_events
            for at_event in range(first_number, left_events):
                number = left_to[at_event]
                for _ in range(lines):
                    fetch(words, np.uint64(ahead))
                    ahead += GROUP_WORDS
                open_words = or_vectors(words, first_word, vectors, number * stride, taken[number], failed)
                if open_words == 0:
                    continue
                if used + ROOM > values.size and not in_bits:
                    found = FoundRuns(values, used, runs, count_of_runs)
                    found = verify_candidates(demands, events, by_event, waiting[:end], found, bits)
                    return Progress(block, group, at_event, ends_pay), found, candidates + end
                event = alive[number]
                if first_place + GROUP > count:
                    for word in range(GROUP_WORDS):
                        failed[word] |= _beyond(count - first_place - word * 64)
                if has_ends:
                    before = used
                    some_partial = np.uint64(0)
                    for word in range(GROUP_WORDS):
                        failed[word] = ~(failed[word] | marked[number, group * GROUP_WORDS + word])
                        some_partial |= failed[word] & partial[(first_place >> 6) + word]
                    if in_bits and some_partial == np.uint64(0):
                        for word in range(np.uint64(GROUP_WORDS)):
                            bits[np.uint64(event), np.uint64(first_place >> 6) + word] = failed[word]
                            candidates += count_bits(failed[word])
                        continue
                    for word in range(GROUP_WORDS):
                        at = first_place + word * 64
                        left = failed[word]
                        candidates += count_bits(left)
                        doubt = left & partial[at >> 6]
                        while doubt != np.uint64(0):
                            place = at + lowest_bit(doubt)
                            holds = True
                            # Unsigned indexes cannot be negative, which nobody has to ask for then.
                            for predicate in range(np.uint64(starts[place]), np.uint64(starts[place + 1])):
                                of_column = predicates[predicate * np.uint64(3)]
                                low = predicates[predicate * np.uint64(3) + np.uint64(DEMAND_LOW)]
                                high = predicates[predicate * np.uint64(3) + np.uint64(DEMAND_HIGH)]
                                if of_column >= 0:
                                    code = by_event[np.uint64(event), np.uint64(of_column)]
                                    holds = holds & (low <= code) & (code <= high)
                                else:
                                    holds = holds & in_ranges(ranges, low, high, by_event[event, ~of_column])
                            if has_tests and holds:
                                holds = holds_tests(demands, events, place, event)
                            lowest = doubt & (~doubt + np.uint64(1))
                            left ^= np.uint64(0) if holds else lowest
                            doubt ^= lowest
                        if in_bits:
                            bits[event, at >> 6] = left
                        else:
                            used = write_places(left, at, conjunction, values, used)
                    if used > before:
                        runs[count_of_runs, RUN_EVENT] = event
                        runs[count_of_runs, RUN_LENGTH] = used - before
                        count_of_runs += 1
                    continue
                while open_words != 0:
                    word = lowest_bit(np.uint64(open_words))
                    open_words &= open_words - 1
                    left = ~failed[word]
                    while left != np.uint64(0):
                        place = first_place + word * 64 + lowest_bit(left)
                        left &= left - np.uint64(1)
                        fetch(starts, np.uint64(place))
                        waiting[end, EVENT] = event
                        waiting[end, FOUND] = place
                        if end >= _STARTS_AHEAD:
                            earlier = np.uint64(waiting[end - _STARTS_AHEAD, FOUND])
                            fetch(conjunction, earlier)
                            behind = 3 * starts[earlier + np.uint64(1)]
                            for line in range(3 * starts[earlier], behind, _LINE):
                                fetch(predicates, np.uint64(line))
                            fetch(predicates, np.uint64(behind - 1))
                        end += 1
                if end >= CANDIDATES_PER_FLUSH:
                    candidates += end
                    found = FoundRuns(values, used, runs, count_of_runs)
                    _, used, _, count_of_runs = verify_candidates(demands, events, by_event, waiting[:end], found, bits)
                    end = 0
            first_number = 0
        first_group = 0
        ends_pay = (candidates + end - before_block) * _ROWS_A_CANDIDATE > rows * cells.shape[1]
    found = FoundRuns(values, used, runs, count_of_runs)
    found = verify_candidates(demands, events, by_event, waiting[:end], found, bits)
    return Progress(blocks, 0, 0, True), found, candidates + end


@kernel
def match_bitmaps_of_one(
    bitmaps: Bitmaps,
    demands: Demands,
    events: Events,
    columns: Int32s,
    bounds: Int32s,
    counts: Int32s,
    room: int,
    expects_many: bool,
) -> tuple[Int32s, int]:
    """Do what `match_bitmaps` does for a batch of one event; return pairs and candidates.

    In one call, whose result is no tuple with a name: Python takes longer to make those than to match an event. Matches
    are found in runs, or in bits if many are expected or the room for runs does not suffice.
    """
    cells, blocks = cells_of_codes(events.codes, columns, bounds, counts), bitmaps.row_starts.size - 1
    by_event, no_order, no_bits = events.codes.reshape(1, -1), np.empty((0, 0), np.int32), np.empty((0, 0), np.uint64)
    if not expects_many:
        found = FoundRuns(np.empty(room, np.int32), 0, np.empty((room, 2), np.int32), 0)
        progress, found, candidates = match_bitmaps(
            bitmaps, demands, events, by_event, columns, cells, no_order, BEGIN, found, no_bits
        )
        if progress.block == blocks:
            pairs = np.empty((found.used, 2), np.int32)
            for place in range(found.used):
                pairs[place, EVENT] = 0
                pairs[place, FOUND] = found.values[place]
            return pairs, candidates
    bits = np.zeros((1, blocks * BITSET_WORDS), np.uint64)
    no_runs = FoundRuns(np.empty(ROOM, np.int32), 0, np.empty((ROOM, 2), np.int32), 0)
    _, _, candidates = match_bitmaps(bitmaps, demands, events, by_event, columns, cells, no_order, BEGIN, no_runs, bits)
    total = 0
    for word in bits[0]:
        total += count_bits(word)
    pairs, used = np.empty((total, 2), np.int32), 0
    for word in range(bits.shape[1]):
        left = bits[0, word]
        while left != np.uint64(0):
            pairs[used, EVENT] = 0
            pairs[used, FOUND] = demands.conjunction[word * 64 + lowest_bit(left)]
            left &= left - np.uint64(1)
            used += 1
    return pairs, candidates


@kernel
def _beyond(left: int) -> np.uint64:
    """Return a word without its lowest `left` bits, which may be fewer than none or more than all."""
    if left <= 0:
        return ~np.uint64(0)
    return np.uint64(0) if left >= 64 else ~((np.uint64(1) << np.uint64(left)) - np.uint64(1))


@kernel
def weigh_columns(
    of_run: Int32s, starts: Int64s, column: Int32s, share: Int64s, done: Bools, named: Int64s, ruled_out: Int64s
) -> None:
    """Count how often conjunctions of a run name each column that is not done, and how many events it rules out.

    Predicate i of conjunction c, for i from `starts[c]` to `starts[c + 1]`, is on `column[i]` and accepts `share[i]`
    thousandths of the events.
    """
    for conjunction in of_run:
        for row in range(starts[conjunction], starts[conjunction + 1]):
            if not done[column[row]]:
                named[column[row]] += 1
                ruled_out[column[row]] += 1000 - share[row]


@kernel
def fill_keys(
    of_run: Int32s, starts: Int64s, column: Int32s, middle: Int32s, done: Bools, rank: Int64s, key: Int64s
) -> None:
    """Fill the key by which each conjunction of a run is sorted: its column of the lowest rank, and the middle there.

    A conjunction whose columns are all done comes last.
    """
    last = rank.size
    for place in range(of_run.size):
        best, at = last, 0
        for row in range(starts[of_run[place]], starts[of_run[place] + 1]):
            if not done[column[row]] and rank[column[row]] < best:
                best, at = rank[column[row]], middle[row]
        key[place] = best * MIDDLES + at


@kernel
def set_bits(
    order: Int64s, row_of: Int32s, place: Int64s, cells: UInt64s, null: Bools, counts: Int32s, bitmaps: Bitmaps
) -> None:
    """Set the bits of failing predicates; `order` goes through the predicates in the order of places.

    Predicate i is that of `place[i]`, in row `row_of[i]` (-1: in none); it holds for some code of those cells that are
    set in `cells[i]`, of the `counts[i]` cells of its column, and for NULL if `null[i]`.
    """
    for predicate in order:
        row = row_of[predicate]
        block, inside = place[predicate] // BLOCK, place[predicate] % BLOCK
        bit = np.uint64(1) << np.uint64(inside & 63)
        if row < 0:
            bitmaps.partial[place[predicate] >> 6] |= bit
            continue
        at = _first_word(bitmaps, block, inside, row, bitmaps.bitset_starts[block] * BITSET_WORDS)
        shift = bitmaps.shift[row]
        width = np.uint64(1 << shift)
        # No row is so coarse that a cell of it has a whole word of cells.
        ones = (np.uint64(1) << width) - np.uint64(1)
        left = cells[predicate]
        for _ in range(counts[predicate] >> shift):
            if left & ones == np.uint64(0):
                bitmaps.words[at] |= bit
            left >>= width
            at += GROUP_WORDS
        if not null[predicate]:
            bitmaps.words[at] |= bit


@kernel
def _first_word(bitmaps: Bitmaps, block: int, inside: int, row: int, of_block: int) -> int:
    """Return where the word of a place of a block is, in the first bitset of a row."""
    bitsets = bitmaps.bitset_starts[block + 1] - bitmaps.bitset_starts[block]
    vector = inside // GROUP * bitsets + bitmaps.first_bitset[row]
    word: int = of_block + vector * GROUP_WORDS + (inside % GROUP >> 6)
    return word


@kernel
def mark_dead(bitmaps: Bitmaps, count: int) -> None:
    """Fill `dead` from the bitsets; only the first `count` places are those of conjunctions."""
    for block in range(bitmaps.bitset_starts.size - 1):
        first, bitsets = bitmaps.bitset_starts[block], bitmaps.bitset_starts[block + 1] - bitmaps.bitset_starts[block]
        for group in range(GROUPS):
            for bitset in range(bitsets):
                all_fail = True
                for word in range(GROUP_WORDS):
                    left = count - (block * BLOCK + group * GROUP + word * 64)
                    if left > 0:
                        wanted = ~np.uint64(0) if left >= 64 else (np.uint64(1) << np.uint64(left)) - np.uint64(1)
                        at = first * BITSET_WORDS + (group * bitsets + bitset) * GROUP_WORDS + word
                        all_fail = all_fail and bitmaps.words[at] & wanted == wanted
                bitmaps.dead[first + bitset] |= np.uint8(all_fail << group)


@kernel
def mark_clear(bitmaps: Bitmaps) -> None:
    """Fill `clear` from the bitsets and the ends."""
    for block in range(bitmaps.bitset_starts.size - 1):
        first, bitsets = bitmaps.bitset_starts[block], bitmaps.bitset_starts[block + 1] - bitmaps.bitset_starts[block]
        for bitset in range(bitsets):
            some = np.uint64(0)
            for group in range(GROUPS):
                for word in range(GROUP_WORDS):
                    some |= bitmaps.words[first * BITSET_WORDS + (group * bitsets + bitset) * GROUP_WORDS + word]
            of_ends = 2 * (first + bitset)
            no_end = bitmaps.end_starts[of_ends] == bitmaps.end_starts[of_ends + 2]
            bitmaps.clear[first + bitset] = some == np.uint64(0) and no_end


@kernel
def count_dead(bitmaps: Bitmaps, sizes: Int64s) -> Int64s:
    """Count the groups that the bitsets of each row kill; rows have `sizes` bitsets and follow each other."""
    counts = np.zeros(sizes.size, np.int64)
    bitset = 0
    for row in range(sizes.size):
        for _ in range(sizes[row]):
            for group in range(GROUPS):
                counts[row] += bitmaps.dead[bitset] >> group & 1
            bitset += 1
    return counts
