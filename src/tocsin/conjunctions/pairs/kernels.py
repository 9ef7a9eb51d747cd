"""Access pairs: where conjunctions are filed in grids over two columns, and what is left to verify of each.

Codes come as `codes[column, event]`; the last column is ANYTHING, whose code is always 0. A conjunction is filed as
*rectangles*, rows

    conjunction, low a, high a, low b, high b, column c, low c, high c

that carry three of its ranges; further predicates stand in the rest list. A table is a grid over two columns; its
buckets hold postings of rectangles. A bucket may hold the postings of several cells (by hashing): every posting is
verified in full, so that sharing a bucket costs time, never truth. `pairs_held.py` and `pairs_grid.py` run a batch past
the two sorts of tables.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import inlined_kernel, kernel

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Short = npt.NDArray[np.uint16]

RULER = -1
"""As the shift of short codes: they are read from a ruler, and come with the events."""
HELD = -1
"""As column a of a table: the tests that hold for the event instead of one code. Such tables come first."""
RUN = 1024
"""Postings that are marked before their marks are read."""


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
    used_starts: Int64
    """Where the columns that each table uses start; one more entry at the end."""
    used: Int32
    """The columns a, b and c of its rectangles, one table after the other."""


class Postings(NamedTuple):
    """Postings by bucket, and what remains to be verified of each conjunction.

    The postings of HELD tables, which come first, are `rows`. Those of grids are short: 16 bits for each of low a, high
    a, low b, high b, column c, low c, high c, and the number of the rectangle. The short codes of a bucket of n
    postings stand field by field, n values each, so that one event is compared with many postings at once.
    """

    starts: Int64
    """Where the postings of each bucket start; one more entry at the end."""
    rows: Int32
    """Rectangles, a row for each posting of a HELD table; column c is ~c if there is a rest list."""
    short: npt.NDArray[np.uint16]
    short_shift: Int32
    """For each column, how far codes are shifted to be short: (code + 1) >> shift; or RULER. Only at 0, an event whose
    short code is that of an end of a range is certain to lie in the range."""
    rectangle: Int32
    """The rectangle of each posting of a grid; ~rectangle if its conjunction has a rest list."""
    rectangles: Int32
    """The rectangles of grids, in full."""
    conjunction_of: Int32
    """The conjunction of each rectangle of a grid; empty if rectangle i is that of conjunction i."""
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
    short: Short = np.empty((0, 0), np.uint16)
    """Short codes, a row for each column and shared with other indexes; empty: (code + 1) >> shift will do."""
    row_of: Int32 = np.empty(0, np.int32)
    """The row of each column in `short`."""
    rows: Short = np.empty(0, np.uint16)
    """For each event LANES places: its short codes in the first columns, side by side; empty: not needed yet."""


class Found(NamedTuple):
    """Matches so far: the first `used` rows (event, conjunction) of `pairs`."""

    pairs: Int32
    used: int


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
def verify_rest(postings: Postings, events: Events, conjunction_of: Int32, pairs: Int32, first: int, last: int) -> int:
    """Verify the rest lists of the pairs from `first` to `last`, and put the pairs that match there; return their end.

    A pair is (event, x) if there is nothing to verify, else (event, ~x), where x is a conjunction or, if
    `conjunction_of` has any, a rectangle.
    """
    rest_starts, rest, ranges = postings.rest_starts, postings.rest, postings.ranges
    codes, true_starts, true = events.codes, events.true_starts, events.true
    null_starts, null = events.null_starts, events.null
    several = conjunction_of.size > 0
    used = first
    for place in range(first, last):
        event, number = pairs[place, 0], pairs[place, 1]
        plain = number >= 0
        if not plain:
            number = ~number
        conjunction = conjunction_of[number] if several else number
        holds = True
        entry, end = rest_starts[conjunction], rest_starts[conjunction + 1]
        while holds and not plain and entry < end:
            column = rest[entry, 0]
            if column >= 0:
                holds = _in_ranges(ranges, rest[entry, 1], rest[entry, 2], codes[column, event])
            else:
                test, null_column = rest[entry, 1], rest[entry, 2]
                truth = 2
                if _contains(true, true_starts[event], true_starts[event + 1], test):
                    truth = 1
                elif null_column >= 0:
                    if codes[null_column, event] < 0:
                        truth = 4
                elif _contains(null, null_starts[event], null_starts[event + 1], test):
                    truth = 4
                holds = (-1 - column) & truth != 0
            entry += 1
        pairs[used, 0] = event
        pairs[used, 1] = conjunction
        used += holds
    return used


@kernel
def grown(pairs: Int32, wanted: int) -> Int32:
    """The same matches with room for as many as wanted, and as many again."""
    larger = np.empty((2 * max(len(pairs), wanted), 2), np.int32)
    larger[: len(pairs)] = pairs
    return larger


@kernel
def sort_by_bucket(bucket_of: Int32, entries: int, ends: Int32, order: Int32) -> None:
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
