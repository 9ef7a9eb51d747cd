"""Access pairs: file each conjunction in the cells of a grid over two columns, and stream cells past their events.

Codes come as `codes[column, event]`; the last column is ANYTHING, whose code is always 0. A posting is a row

    conjunction, low a, high a, low b, high b, column c, low c, high c

that carries three ranges of its conjunction; further predicates stand in the rest list, and column c is ~c if there
are any. A table is a grid over two columns; its buckets hold postings. A bucket may hold the postings of several cells
(by hashing): every posting is verified in full, so that sharing a bucket costs time, never truth.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels import inlined_kernel, kernel

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

BLOCK = 64
FEW = 6
"""Fewer events than this in a bucket are verified one by one."""
HELD = -1
"""As column a of a table: the tests that hold for the event instead of one code."""

_OUTSIDE = -2
"""A code that lies in no range."""
_SPREAD = 0x0102040810204080
_DE_BRUIJN = 0x03F79D71B4CB0A89
_POSITION = np.zeros(64, np.uint8)
for _bit in range(64):
    _POSITION[((1 << _bit) * _DE_BRUIJN & (2**64 - 1)) >> 58] = _bit


class Tables(NamedTuple):
    """One row a table. Cell (x, y) is bucket first_bucket + ((x * multiplier_a + y * multiplier_b) & mask)."""

    column_a: Int32
    shift_a: Int32
    column_b: Int32
    shift_b: Int32
    multiplier_a: Int64
    multiplier_b: Int64
    mask: Int64
    first_bucket: Int64
    needs_value: npt.NDArray[np.bool_]
    """Whether an event that is NULL in column a or b has nothing to find in this table."""


class Postings(NamedTuple):
    """Postings by bucket, and what remains to be verified of each conjunction."""

    starts: Int64
    """Where the postings of each bucket start; one more entry at the end."""
    rows: Int32
    rest_starts: Int64
    """Where the rest list of each conjunction starts; one more entry at the end."""
    rest: Int32
    """(column, first range, end range); or (-1 - accepted truth values, test, column that is NULL when the test is)."""
    ranges: Int32
    """(low, high) of the ranges in the rest list, sorted within a predicate."""


class Events(NamedTuple):
    """A batch of events: codes, and the tests that are TRUE and those that are NULL for each event, sorted."""

    codes: Int32
    true_starts: Int64
    true: Int32
    null_starts: Int64
    null: Int32


class Found(NamedTuple):
    """Matches so far: the first `used` rows (event, conjunction) of `pairs`."""

    pairs: Int32
    used: int


class Block(NamedTuple):
    """The codes of up to BLOCK events, side by side: by column (if `filled`), and those of the table's two accesses."""

    codes: Int32
    filled: npt.NDArray[np.bool_]
    a: Int32
    b: Int32
    marks: npt.NDArray[np.uint8]


@inlined_kernel
def _bucket(tables: Tables, table: int, x: int, y: int) -> int:
    place = (x * tables.multiplier_a[table] + y * tables.multiplier_b[table]) & tables.mask[table]
    bucket: int = tables.first_bucket[table] + place
    return bucket


@kernel
def _file(tables: Tables, of_table: Int32, bounds: Int32, next_place: Int64, posted: Int32) -> None:
    """Visit the buckets of every rectangle, once each; note the rectangle at the next place, if `posted` has any."""
    last = np.full(next_place.size, -1, np.int32)
    for rectangle in range(of_table.size):
        table = of_table[rectangle]
        shift_a, shift_b = tables.shift_a[table], tables.shift_b[table]
        low_x, high_x = (bounds[rectangle, 0] + 1) >> shift_a, (bounds[rectangle, 1] + 1) >> shift_a
        low_y, high_y = (bounds[rectangle, 2] + 1) >> shift_b, (bounds[rectangle, 3] + 1) >> shift_b
        for x in range(low_x, high_x + 1):
            for y in range(low_y, high_y + 1):
                bucket = _bucket(tables, table, x, y)
                if last[bucket] == rectangle:
                    continue
                last[bucket] = rectangle
                if posted.size > 0:
                    posted[next_place[bucket]] = rectangle
                next_place[bucket] += 1


@kernel
def file_rectangles(tables: Tables, of_table: Int32, bounds: Int32, starts: Int64) -> Int32:
    """Fill `starts` with the start of each bucket's postings; return the rectangle that each posting stands for.

    `bounds` has a row (low a, high a, low b, high b) for each rectangle. A rectangle stands once in a bucket, even if
    several of its cells share it.
    """
    counts = np.zeros(starts.size - 1, np.int64)
    _file(tables, of_table, bounds, counts, np.empty(0, np.int32))
    for bucket in range(counts.size):
        starts[bucket + 1] = starts[bucket] + counts[bucket]
    posted = np.empty(starts[-1], np.int32)
    _file(tables, of_table, bounds, starts[:-1].copy(), posted)
    return posted


@kernel
def _contains(sorted_values: Int32, start: int, end: int, wanted: int) -> bool:
    while start < end:
        middle = (start + end) >> 1
        if sorted_values[middle] < wanted:
            start = middle + 1
        elif sorted_values[middle] > wanted:
            end = middle
        else:
            return True
    return False


@kernel
def _in_ranges(ranges: Int32, first: int, end: int, code: int) -> bool:
    while first < end:
        middle = (first + end) >> 1
        if code < ranges[middle, 0]:
            end = middle
        elif code > ranges[middle, 1]:
            first = middle + 1
        else:
            return True
    return False


@kernel
def rest_holds(postings: Postings, events: Events, conjunction: int, event: int) -> bool:
    """Whether the rest list of a conjunction holds for an event."""
    for entry in range(postings.rest_starts[conjunction], postings.rest_starts[conjunction + 1]):
        column = postings.rest[entry, 0]
        if column >= 0:
            code = events.codes[column, event]
            if not _in_ranges(postings.ranges, postings.rest[entry, 1], postings.rest[entry, 2], code):
                return False
            continue
        test, null_column = postings.rest[entry, 1], postings.rest[entry, 2]
        truth = 2
        if _contains(events.true, events.true_starts[event], events.true_starts[event + 1], test):
            truth = 1
        elif null_column >= 0:
            if events.codes[null_column, event] < 0:
                truth = 4
        elif _contains(events.null, events.null_starts[event], events.null_starts[event + 1], test):
            truth = 4
        if (-1 - column) & truth == 0:
            return False
    return True


@inlined_kernel
def _entries(tables: Tables, table: int, events: Events, event_of: Int32, code_of: Int32, bucket_of: Int64) -> int:
    """Write the (event, code a, bucket) entries that look into a table; return how many there are."""
    column_a, column_b = tables.column_a[table], tables.column_b[table]
    shift_a, shift_b = tables.shift_a[table], tables.shift_b[table]
    multiplier_a, multiplier_b = tables.multiplier_a[table], tables.multiplier_b[table]
    mask, needs_value = tables.mask[table], tables.needs_value[table]
    count = 0
    for event in range(events.codes.shape[1]):
        b = events.codes[column_b, event]
        if b < 0 and needs_value:
            continue
        part = ((b + 1) >> shift_b) * multiplier_b
        if column_a != HELD:
            a = events.codes[column_a, event]
            if a < 0 and needs_value:
                continue
            event_of[count] = event
            code_of[count] = a
            bucket_of[count] = (((a + 1) >> shift_a) * multiplier_a + part) & mask
            count += 1
            continue
        for place in range(events.true_starts[event], events.true_starts[event + 1]):
            test = events.true[place]
            event_of[count] = event
            code_of[count] = test
            bucket_of[count] = (((test + 1) >> shift_a) * multiplier_a + part) & mask
            count += 1
    return count


@kernel
def _grown(pairs: Int32) -> Int32:
    larger = np.empty((2 * len(pairs), 2), np.int32)
    larger[: len(pairs)] = pairs
    return larger


@inlined_kernel
def _mark(
    a: Int32,
    b: Int32,
    c: Int32,
    low_a: int,
    high_a: int,
    low_b: int,
    high_b: int,
    low_c: int,
    high_c: int,
    marks: npt.NDArray[np.uint8],
) -> None:
    """Mark the events of a block whose three codes lie in the three ranges. The compiler makes vectors of this."""
    for slot in range(BLOCK):
        marks[slot] = (
            (a[slot] >= low_a)
            & (a[slot] <= high_a)
            & (b[slot] >= low_b)
            & (b[slot] <= high_b)
            & (c[slot] >= low_c)
            & (c[slot] <= high_c)
        )


@inlined_kernel
def _scan_bucket(
    postings: Postings, events: Events, first: int, last: int, event: int, a: int, b: int, found: Found
) -> Found:
    """Verify the postings `first` to `last` for one event."""
    rows, codes = postings.rows, events.codes
    pairs, used = found.pairs, found.used
    for posting in range(first, last):
        column_c = rows[posting, 5]
        c = codes[column_c if column_c >= 0 else ~column_c, event]
        # One branch that is seldom taken is cheaper than six that are taken now and then.
        holds = (
            (a >= rows[posting, 1])
            & (a <= rows[posting, 2])
            & (b >= rows[posting, 3])
            & (b <= rows[posting, 4])
            & (c >= rows[posting, 6])
            & (c <= rows[posting, 7])
        )
        if holds and (column_c >= 0 or rest_holds(postings, events, rows[posting, 0], event)):
            if used == len(pairs):
                pairs = _grown(pairs)
            pairs[used, 0] = event
            pairs[used, 1] = rows[posting, 0]
            used += 1
    return Found(pairs, used)


@inlined_kernel
def _scan_bucket_by_block(
    postings: Postings, events: Events, first: int, last: int, members: Int32, block: Block, found: Found
) -> Found:
    """Verify the postings `first` to `last` for a block of events whose codes a and b are in the block already."""
    rows, codes = postings.rows, events.codes
    pairs, used = found.pairs, found.used
    words = block.marks.view(np.uint64)
    for posting in range(first, last):
        plain = rows[posting, 5] >= 0
        column_c = rows[posting, 5] if plain else ~rows[posting, 5]
        block_c = block.codes[column_c]
        if not block.filled[column_c]:
            block.filled[column_c] = True
            for slot in range(members.size):
                block_c[slot] = codes[column_c, members[slot]]
        _mark(
            block.a,
            block.b,
            block_c,
            rows[posting, 1],
            rows[posting, 2],
            rows[posting, 3],
            rows[posting, 4],
            rows[posting, 6],
            rows[posting, 7],
            block.marks,
        )
        bits = np.uint64(0)
        for word in range(8):
            byte = (words[word] * np.uint64(_SPREAD)) >> np.uint64(56)
            bits |= byte << np.uint64(8 * word)
        if bits == np.uint64(0):
            continue
        conjunction = rows[posting, 0]
        if used + BLOCK > len(pairs):
            pairs = _grown(pairs)
        while bits != np.uint64(0):
            lowest = bits & (~bits + np.uint64(1))
            bits ^= lowest
            event = members[_POSITION[(lowest * np.uint64(_DE_BRUIJN)) >> np.uint64(58)]]
            if plain or rest_holds(postings, events, conjunction, event):
                pairs[used, 0] = event
                pairs[used, 1] = conjunction
                used += 1
    return Found(pairs, used)


@kernel
def _sort_by_bucket(bucket_of: Int64, entries: int, ends: Int64, order: Int32) -> None:
    """Sort the entries by bucket; `ends` becomes the end of each bucket in `order`."""
    for entry in range(entries):
        ends[bucket_of[entry]] += 1
    total = 0
    for bucket in range(ends.size):
        size = ends[bucket]
        ends[bucket] = total
        total += size
    for entry in range(entries):
        bucket = bucket_of[entry]
        order[ends[bucket]] = entry
        ends[bucket] += 1


@kernel
def match_pairs(tables: Tables, postings: Postings, events: Events) -> tuple[Int32, int]:
    """The (event, conjunction) pairs that match, in no order, and how many candidates were verified for them."""
    codes, starts = events.codes, postings.starts
    most = max(codes.shape[1], events.true.size)
    event_of, code_of, order = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    bucket_of = np.empty(most, np.int64)
    members = np.empty(BLOCK, np.int32)
    block = Block(
        np.empty((codes.shape[0], BLOCK), np.int32),
        np.empty(codes.shape[0], np.bool_),
        np.empty(BLOCK, np.int32),
        np.empty(BLOCK, np.int32),
        np.empty(BLOCK, np.uint8),
    )
    found = Found(np.empty((4096, 2), np.int32), 0)
    candidates = 0
    for table in range(tables.mask.size):
        entries = _entries(tables, table, events, event_of, code_of, bucket_of)
        buckets = tables.mask[table] + 1
        first_bucket, column_b = tables.first_bucket[table], tables.column_b[table]
        if entries * FEW < buckets:
            for entry in range(entries):
                bucket = first_bucket + bucket_of[entry]
                first, last = starts[bucket], starts[bucket + 1]
                candidates += last - first
                event = event_of[entry]
                found = _scan_bucket(
                    postings, events, first, last, event, code_of[entry], codes[column_b, event], found
                )
            continue
        ends = np.zeros(buckets, np.int64)
        _sort_by_bucket(bucket_of, entries, ends, order)
        end = 0
        for bucket in range(buckets):
            begin, end = end, ends[bucket]
            first, last = starts[first_bucket + bucket], starts[first_bucket + bucket + 1]
            if first == last:
                continue
            candidates += (end - begin) * (last - first)
            for base in range(begin, end, BLOCK):
                width = min(BLOCK, end - base)
                if width < FEW:
                    for slot in range(base, end):
                        event = event_of[order[slot]]
                        found = _scan_bucket(
                            postings, events, first, last, event, code_of[order[slot]], codes[column_b, event], found
                        )
                    continue
                block.filled[:] = False
                for slot in range(width):
                    event = event_of[order[base + slot]]
                    members[slot] = event
                    block.a[slot] = code_of[order[base + slot]]
                    block.b[slot] = codes[column_b, event]
                block.a[width:] = _OUTSIDE
                found = _scan_bucket_by_block(postings, events, first, last, members[:width], block, found)
    return found.pairs[: found.used], candidates
