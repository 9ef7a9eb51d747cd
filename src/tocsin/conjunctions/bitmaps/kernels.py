"""Bitmaps as arrays, and the kernels that match a batch with them.

Conjunctions stand in an order of their own (`build.py`): first those that few events are expected to match, in *blocks*
of BLOCK places; GROUP places of a block are a *group*, as many as a vector register has bits. A block has a *row* for
each column that enough of its conjunctions name, and a row has a *bitset* for each cell of the column: bit i is set if
the predicate of conjunction i fails in the whole cell. An event takes one bitset of each row; the places that none of
them has are candidates, and candidates are verified in full codes. So cells and rows that are left out cost time and
never change an answer. Conjunctions that many events are expected to match stand behind them (`dense.py`).

The bitsets of a block are stored group by group: while the events of a batch pass a group, its vectors stay in the
first- or second-level cache.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import OR_AT_ONCE, count_bits, fetch, kernel, lowest_bit, or_vectors
from tocsin.arrays import Bools, Int32s, Int64s, UInt8s, UInt64s
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Events
from tocsin.conjunctions.pairs.kernels import EVENT, FOUND, contains, in_ranges
from tocsin.conjunctions.runs import RUN_EVENT, RUN_LENGTH, FoundRuns

BLOCK = 4096
GROUP = 512
GROUPS = BLOCK // GROUP
GROUP_WORDS = GROUP // 64
BITSET_WORDS = BLOCK // 64
ALL_DEAD = (1 << GROUPS) - 1
MAX_CELLS = 64
"""Cells of a column, without that of NULL."""

CANDIDATES_PER_FLUSH = 1024
_ORED_TOGETHER = 32
"""So many ORs are done before the candidates of the first are taken. Which bits they have nobody can predict, and a
wrong guess stops the loads of the next OR: a million conjunctions of 5 of 80 ranges, batches of 32, µs an event without
verification, one by one and together: 385 and 245."""
ROOM = CANDIDATES_PER_FLUSH + _ORED_TOGETHER * GROUP
"""Candidates that wait at most: those that are not enough yet, and all of the next ORs."""
EVENT_SHIFT = 32
PLACE = (1 << EVENT_SHIFT) - 1
"""A candidate is a number: its event, shifted, and its place."""
WRITTEN_AT_ONCE = 4
"""Candidates of a word that are written without a branch."""
_FEW_HOLD = 8
"""If fewer than one of so many candidates matched, those that come are left at the first predicate that fails."""
_TAKEN_TOGETHER = 128
"""Events whose vectors of a block are found together: 10 to 40 kB of numbers."""
_LINE = 16
"""Numbers of a cache line."""
_AHEAD = 32
"""What a candidate demands is prefetched so many candidates before it is verified."""

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
    clear: Bools
    """For each bitset, whether it has no bit: events leave it out."""


class Progress(NamedTuple):
    """Where to go on: a block, a group of it, and an event by its number among those that the group is alive for."""

    block: int
    group: int
    number: int


BEGIN = Progress(0, 0, 0)


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
def _fetch_vectors(
    bitmaps: Bitmaps, block: int, group: int, killed: UInt8s, stride: int, vectors: Int32s, taken: Int64s
) -> None:
    """Prefetch the vectors that a few events take of a group of a block, if it is alive for them."""
    first_of_block = bitmaps.bitset_starts[block]
    bitsets = bitmaps.bitset_starts[block + 1] - first_of_block
    first_word = first_of_block * BITSET_WORDS + group * bitsets * GROUP_WORDS
    for number in range(killed.size):
        if not killed[number] >> group & 1:
            for place in range(number * stride, number * stride + taken[number]):
                fetch(bitmaps.words, np.uint64(first_word + vectors[place]))


@kernel
def take_candidates(failed: UInt64s, or_number: int, open_words: int, first: int, candidates: Int64s, end: int) -> int:
    """Write the candidates of an OR, the zeros of its 512 bits, to `candidates[end]` and on; return where they end.

    `first` is what bit 0 stands for: an event and a place. `open_words` says, as bits, which words have a zero.
    WRITTEN_AT_ONCE more are written.
    """
    if open_words & (open_words - 1) != 0:
        # To go through all words costs less than to guess which of several are the open ones.
        open_words = (1 << GROUP_WORDS) - 1
    while open_words != 0:
        word = lowest_bit(np.uint64(open_words))
        open_words &= open_words - 1
        left = ~failed[np.uint64(or_number * GROUP_WORDS + word)]
        at, after = first + word * 64, end + count_bits(left)
        while True:
            for step in range(WRITTEN_AT_ONCE):
                candidates[np.uint64(end + step)] = at + lowest_bit(left)
                left &= left - np.uint64(1)
            end += WRITTEN_AT_ONCE
            if end >= after:
                break
        end = after
    return end


@kernel
def _fetch_demands(starts: Int64s, conjunction: Int32s, predicates: Int32s, place: np.uint64) -> None:
    """Prefetch what the conjunction at a place demands; `predicates` are those of `Demands` as one list."""
    fetch(conjunction, place)
    line, last = 3 * starts[place], 3 * starts[place + np.uint64(1)] - 1
    fetch(predicates, np.uint64(line))
    fetch(predicates, np.uint64(last))
    while line + _LINE < last:
        line += _LINE
        fetch(predicates, np.uint64(line))


@kernel
def verify_candidates(
    demands: Demands,
    events: Events,
    by_event: Int32s,
    candidates: Int64s,
    count: int,
    many_hold: bool,
    found: FoundRuns,
) -> FoundRuns:
    """Verify the first candidates; add those that match to the runs, which have room for all. They are overwritten.

    `by_event` has the codes of the events, event by event. `many_hold`: many of the candidates are expected to match.
    """
    values, used, runs, run_count = found
    conjunction, starts, ranges = demands.conjunction, demands.starts, demands.ranges
    predicates, in_one_list = demands.predicates, demands.predicates.reshape(-1)
    has_tests, by_column = demands.tests.size > 0, events.codes
    for number in range(np.uint64(count)):
        fetch(starts, np.uint64(candidates[number] & PLACE))
    for number in range(np.uint64(min(count, _AHEAD))):
        _fetch_demands(starts, conjunction, in_one_list, np.uint64(candidates[number] & PLACE))
    matches = 0
    for number in range(np.uint64(count)):
        if number + np.uint64(_AHEAD) < np.uint64(count):
            early = candidates[number + np.uint64(_AHEAD)] & PLACE
            _fetch_demands(starts, conjunction, in_one_list, np.uint64(early))
        place, event = candidates[number] & PLACE, candidates[number] >> EVENT_SHIFT
        at, of_event = np.uint64(place), np.uint64(event)
        holds = True
        # Where many hold, to compare all without a branch costs less than to leave at the first that fails.
        first, end = np.uint64(starts[at]), np.uint64(starts[at + np.uint64(1)])
        if not many_hold:
            # The most selective one is on a column of the group, whose codes are in the cache, column by column.
            while holds and first < end:
                column = predicates[first, DEMAND_COLUMN]
                low, high = predicates[first, DEMAND_LOW], predicates[first, DEMAND_HIGH]
                if column >= 0:
                    code = by_column[np.uint64(column), of_event]
                    holds = (low <= code) & (code <= high)
                else:
                    holds = in_ranges(ranges, low, high, by_column[~column, of_event])
                first += np.uint64(1)
            end = first
        for row in range(first, end):
            column = predicates[row, DEMAND_COLUMN]
            low, high = predicates[row, DEMAND_LOW], predicates[row, DEMAND_HIGH]
            if column >= 0:
                code = by_event[of_event, np.uint64(column)]
                holds = holds & (low <= code) & (code <= high)
            else:
                holds = holds & in_ranges(ranges, low, high, by_event[of_event, ~column])
        if has_tests:
            holds = holds and holds_tests(demands, events, place, event)
        # Written in any case, and counted if it holds: whether it does nobody can predict.
        values[np.uint64(used + matches)] = conjunction[at]
        candidates[np.uint64(matches)] = event
        matches += holds
    last = np.int64(runs[run_count - 1, RUN_EVENT]) if run_count > 0 else np.int64(-1)
    length = np.int64(runs[run_count - 1, RUN_LENGTH]) if run_count > 0 else np.int64(0)
    for number in range(np.uint64(matches)):
        is_new = candidates[number] != last
        last = candidates[number]
        length = np.int64(1) if is_new else length + 1
        run_count += is_new
        runs[np.uint64(run_count - 1), RUN_EVENT] = last
        runs[np.uint64(run_count - 1), RUN_LENGTH] = length
    return FoundRuns(values, used + matches, runs, run_count)


@kernel
def match_bitmaps(
    bitmaps: Bitmaps,
    demands: Demands,
    events: Events,
    by_event: Int32s,
    cells: UInt8s,
    count: int,
    progress: Progress,
    found: FoundRuns,
) -> tuple[Progress, FoundRuns, int]:
    """Find which of the first `count` conjunctions match, from `progress` on, until the room is used.

    `by_event` has the codes of the events, event by event: a candidate needs several codes of one event. Row i of
    `cells` is that of the i-th column with cells. Matches are added to the runs, which have room for a GROUP at least.
    Returns the progress, the runs and the number of candidates verified. Several ORs are done one after the other, then
    their candidates are taken, and these wait until there are enough of them to be verified. Each step is done alone,
    so that what nobody can predict in one does not stop the loads of another.
    """
    words, candidates = bitmaps.words, 0
    values, used, runs, count_of_runs = found
    blocks = bitmaps.row_starts.size - 1
    alive, killed = np.empty(cells.shape[1], np.int32), np.empty(cells.shape[1], np.uint8)
    left_to = np.empty(cells.shape[1], np.int32)
    most_rows = 1
    for block in range(blocks):
        most_rows = max(most_rows, bitmaps.row_starts[block + 1] - bitmaps.row_starts[block])
    stride = (most_rows + OR_AT_ONCE - 1) // OR_AT_ONCE * OR_AT_ONCE
    vectors, taken = np.empty(cells.shape[1] * stride, np.int32), np.empty(cells.shape[1], np.int64)
    failed, open_words = np.zeros(_ORED_TOGETHER * GROUP_WORDS, np.uint64), np.empty(_ORED_TOGETHER, np.int64)
    first_of, ors, most_ors = np.empty(_ORED_TOGETHER, np.int64), 0, min(_ORED_TOGETHER, (values.size - used) // GROUP)
    waiting, end, many_hold = np.empty(ROOM + WRITTEN_AT_ONCE, np.int64), 0, True
    first_group, first_number = progress.group, progress.number
    for block in range(progress.block, blocks):
        rows = bitmaps.row_starts[block + 1] - bitmaps.row_starts[block]
        first_of_block = bitmaps.bitset_starts[block]
        bitsets = bitmaps.bitset_starts[block + 1] - first_of_block
        size = _still_alive(bitmaps, block, cells, alive, killed)
        _take_vectors(bitmaps, block, cells, alive[:size], stride, vectors, taken)
        # A few events take few of the vectors: those of a group are prefetched before the group ahead of it is ORed.
        are_few = size * rows < bitsets
        if are_few:
            _fetch_vectors(bitmaps, block, first_group, killed[:size], stride, vectors, taken)
        groups = min(GROUPS, (count - block * BLOCK + GROUP - 1) // GROUP)
        for group in range(first_group, groups):
            if are_few and group + 1 < groups:
                _fetch_vectors(bitmaps, block, group + 1, killed[:size], stride, vectors, taken)
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
                if ors == most_ors:
                    for number in range(ors):
                        end = take_candidates(failed, number, open_words[number], first_of[number], waiting, end)
                    ors = 0
                    if end >= CANDIDATES_PER_FLUSH or used + end + GROUP > values.size:
                        found = FoundRuns(values, used, runs, count_of_runs)
                        found = verify_candidates(demands, events, by_event, waiting, end, many_hold, found)
                        candidates += end
                        many_hold = _FEW_HOLD * (found.used - used) > end
                        if found.used + GROUP > values.size:
                            return Progress(block, group, at_event), found, candidates
                        used, count_of_runs, end = found.used, found.run_count, 0
                    most_ors = min(_ORED_TOGETHER, (values.size - used - end) // GROUP)
                number = left_to[at_event]
                for _ in range(lines):
                    fetch(words, np.uint64(ahead))
                    ahead += GROUP_WORDS
                opened = or_vectors(
                    words, first_word, vectors, number * stride, taken[number], failed, ors * GROUP_WORDS
                )
                if first_place + GROUP > count:
                    for word in range(GROUP_WORDS):
                        failed[ors * GROUP_WORDS + word] |= bits_beyond(count - first_place - word * 64)
                open_words[ors], first_of[ors] = opened, np.int64(alive[number]) << EVENT_SHIFT | first_place
                ors += opened != 0
            first_number = 0
        first_group = 0
    for number in range(ors):
        end = take_candidates(failed, number, open_words[number], first_of[number], waiting, end)
    found = FoundRuns(values, used, runs, count_of_runs)
    found = verify_candidates(demands, events, by_event, waiting, end, many_hold, found)
    return Progress(blocks, 0, 0), found, candidates + end


@kernel
def match_bitmaps_of_one(
    bitmaps: Bitmaps,
    demands: Demands,
    events: Events,
    columns: Int32s,
    bounds: Int32s,
    counts: Int32s,
    count: int,
    room: int,
) -> tuple[Int32s, int]:
    """Do what `match_bitmaps` does for a batch of one event; return pairs and candidates.

    In one call, whose result is no tuple with a name: Python takes longer to make those than to match an event.
    """
    cells, blocks = cells_of_codes(events.codes, columns, bounds, counts), bitmaps.row_starts.size - 1
    by_event, candidates = events.codes.reshape(1, -1), 0
    progress, pairs = BEGIN, np.empty((0, 2), np.int32)
    while progress.block < blocks:
        found = FoundRuns(np.empty(room, np.int32), 0, np.empty((room, 2), np.int32), 0)
        progress, found, verified = match_bitmaps(bitmaps, demands, events, by_event, cells, count, progress, found)
        candidates += verified
        before = len(pairs)
        more = np.empty((before + found.used, 2), np.int32)
        more[:before] = pairs
        for place in range(found.used):
            more[before + place, EVENT] = 0
            more[before + place, FOUND] = found.values[place]
        pairs, room = more, 2 * room
    return pairs, candidates


@kernel
def bits_beyond(left: int) -> np.uint64:
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
    first_word: Int64s,
    step: Int64s,
    bit: UInt8s,
    cells: UInt64s,
    null: Bools,
    counts: Int32s,
    shift: Int32s,
    words: UInt64s,
) -> None:
    """Set the bits of failing predicates.

    That of predicate i is bit `bit[i]` of the word `first_word[i]` (-1: it has no row) for the first cell of its row,
    and `step[i]` words further on for each other cell; a cell is `1 << shift[i]` of the `counts[i]` of its column.
    It holds for some code of those cells that are set in `cells[i]`, and for NULL if `null[i]`.
    """
    for predicate in range(first_word.size):
        at = first_word[predicate]
        if at < 0:
            continue
        mask = np.uint64(1) << np.uint64(bit[predicate])
        width = np.uint64(1 << shift[predicate])
        # No row is so coarse that a cell of it has a whole word of cells.
        ones = (np.uint64(1) << width) - np.uint64(1)
        left = cells[predicate]
        for _ in range(counts[predicate] >> shift[predicate]):
            if left & ones == np.uint64(0):
                words[at] |= mask
            left >>= width
            at += step[predicate]
        if not null[predicate]:
            words[at] |= mask


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
    """Fill `clear` from the bitsets."""
    for block in range(bitmaps.bitset_starts.size - 1):
        first, bitsets = bitmaps.bitset_starts[block], bitmaps.bitset_starts[block + 1] - bitmaps.bitset_starts[block]
        for bitset in range(bitsets):
            some = np.uint64(0)
            for group in range(GROUPS):
                for word in range(GROUP_WORDS):
                    some |= bitmaps.words[first * BITSET_WORDS + (group * bitsets + bitset) * GROUP_WORDS + word]
            bitmaps.clear[first + bitset] = some == np.uint64(0)


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
