"""Access pairs as arrays: tables, postings and rest lists; and the kernels that all kinds of tables share.

A conjunction is filed as *rectangles* that carry three of its ranges, on the columns a and b of its table and on a
column c of its own; further predicates and tests are in the rest list. A table is a grid over two columns; its buckets
hold postings of rectangles. A bucket may hold the postings of several cells (by hashing): every posting is verified in
full, so that sharing a bucket costs time and never changes an answer. `grid_kernels.py` and `by_test_kernels.py` match
a batch with the two kinds of tables.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import inlined_kernel, kernel
from tocsin.arrays import Bools, Int32s, Int64s, UInt16s
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Events
from tocsin.tuning import TUNING

QUANTIZED = -1
"""As the shift of a column: its short codes are those of a quantizer, and come with the events."""
BY_TEST = -1
"""As column a of a table: the tests that are TRUE for an event instead of one code. Such tables come first."""

CONJUNCTION, LOW_A, HIGH_A, LOW_B, HIGH_B, COLUMN_C, LOW_C, HIGH_C = range(8)
"""The columns of a rectangle."""
SHORT_LOW_A, SHORT_HIGH_A, SHORT_LOW_B, SHORT_HIGH_B, SHORT_COLUMN_C, SHORT_LOW_C, SHORT_HIGH_C = range(7)
"""The fields of a short posting: the columns of its rectangle without the conjunction."""
SHORT_FIELDS = 7
REST_COLUMN, REST_FIRST_RANGE, REST_END_RANGE = range(3)
"""The columns of an entry of a rest list that is a predicate: any of these ranges of the column."""
REST_ACCEPTS, REST_TEST, REST_NULL_COLUMN = range(3)
"""Those of an entry that is a test: ~accepted truth values, which is negative as no column is; the test; the column
whose NULL makes the test NULL, or -1."""
LOW, HIGH = range(2)
"""The columns of a range."""
EVENT, FOUND = range(2)
"""The columns of a pair: the event, and the rectangle or the conjunction that was found, or its complement (~) while
its rest list is to be verified."""
WORDS_PER_FLUSH = TUNING.words_per_flush


class PairTables(NamedTuple):
    """One row a table.

    A short code s of column a is in cell x = s >> shift_a, one of column b in cell y = s >> shift_b; a test t is in
    cell x = (t + 1) >> shift_a. Cell (x, y) is bucket first_bucket + ((x * multiplier_a + y * multiplier_b) & mask).
    """

    column_a: Int32s
    shift_a: Int32s
    column_b: Int32s
    shift_b: Int32s
    multiplier_a: Int64s
    multiplier_b: Int64s
    mask: Int64s
    first_bucket: Int64s
    needs_value: Bools
    """Whether an event that is NULL in column a or b has nothing to find in this table."""
    used_starts: Int64s
    """Where the columns that each table uses start; one more entry at the end."""
    used: Int32s
    """The columns a, b and c of its rectangles, one table after the other."""


class Postings(NamedTuple):
    """Postings by bucket, and what remains to be verified of each conjunction.

    The postings of tables by test, which come first, are `rows`. Those of grids are short: SHORT_FIELDS of 16 bits and
    the number of the rectangle. The short fields of a bucket of n postings are stored field by field, n values each, so
    that one event is compared with many postings at once: if the bucket starts at posting f, field i of its posting j
    is `short[SHORT_FIELDS * f + i * n + j]`.
    """

    starts: Int64s
    """Where the postings of each bucket start; one more entry at the end."""
    rows: Int32s
    """Rectangles, a row for each posting of a table by test; column c is ~c if there is a rest list."""
    short: UInt16s
    short_shift: Int32s
    """For each column, how far codes are shifted to be short, (code >> shift) + 1; or QUANTIZED. Only if it is 0, an
    event whose short code is that of an end of a range is certain to lie in the range."""
    rectangle: Int32s
    """The rectangle of each posting of a grid; ~rectangle if its conjunction has a rest list."""
    rectangles: Int32s
    """The rectangles of grids, in full codes."""
    conjunction_of: Int32s
    """The conjunction of each rectangle of a grid; empty if rectangle i is that of conjunction i."""
    rest_starts: Int64s
    """Where the rest list of each conjunction starts; one more entry at the end."""
    rest: Int32s
    """The entries of rest lists: predicates, and tests with a negative first column."""
    ranges: Int32s
    """(low, high) of the ranges in the rest list, sorted within a predicate."""


class FoundPairs(NamedTuple):
    """The matches so far: the first `used` of `pairs`."""

    pairs: Int32s
    used: int


@inlined_kernel
def _bucket_of(tables: PairTables, table: int, x: int, y: int) -> int:
    place = (x * tables.multiplier_a[table] + y * tables.multiplier_b[table]) & tables.mask[table]
    bucket: int = tables.first_bucket[table] + place
    return bucket


@kernel
def _file(tables: PairTables, of_table: Int32s, rectangles: Int32s, next_place: Int64s, posted: Int32s) -> None:
    """Visit the buckets of every rectangle, once each; write the rectangle to the next place, if `posted` has any."""
    last = np.full(next_place.size, -1, np.int32)
    for rectangle in range(of_table.size):
        table = of_table[rectangle]
        shift_a, shift_b = tables.shift_a[table], tables.shift_b[table]
        low_x, high_x = (rectangles[rectangle, LOW_A] + 1) >> shift_a, (rectangles[rectangle, HIGH_A] + 1) >> shift_a
        low_y, high_y = (rectangles[rectangle, LOW_B] + 1) >> shift_b, (rectangles[rectangle, HIGH_B] + 1) >> shift_b
        for x in range(low_x, high_x + 1):
            for y in range(low_y, high_y + 1):
                bucket = _bucket_of(tables, table, x, y)
                if last[bucket] == rectangle:
                    continue
                last[bucket] = rectangle
                if posted.size > 0:
                    posted[next_place[bucket]] = rectangle
                next_place[bucket] += 1


@kernel
def file_rectangles(tables: PairTables, of_table: Int32s, rectangles: Int32s, starts: Int64s) -> Int32s:
    """Fill `starts` with the start of each bucket's postings; return the rectangle of each posting.

    The ranges of `rectangles` are short codes less one, and `of_table` has the table of each. A rectangle has one
    posting in a bucket, even if several of its cells share it.
    """
    counts = np.zeros(starts.size - 1, np.int64)
    _file(tables, of_table, rectangles, counts, np.empty(0, np.int32))
    for bucket in range(counts.size):
        starts[bucket + 1] = starts[bucket] + counts[bucket]
    posted = np.empty(starts[-1], np.int32)
    _file(tables, of_table, rectangles, starts[:-1].copy(), posted)
    return posted


@kernel
def contains(sorted_values: Int32s, start: int, end: int, wanted: int) -> bool:
    """Tell whether a value is among the sorted values from `start` to `end`."""
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
def in_ranges(ranges: Int32s, first: int, end: int, code: int) -> bool:
    """Tell whether a code is in one of the sorted ranges from `first` to `end`."""
    while first < end:
        middle = (first + end) >> 1
        if code < ranges[middle, LOW]:
            end = middle
        elif code > ranges[middle, HIGH]:
            first = middle + 1
        else:
            return True
    return False


@kernel
def verify_rest(
    postings: Postings, events: Events, conjunction_of: Int32s, pairs: Int32s, first: int, last: int
) -> int:
    """Verify the rest lists of the pairs from `first` to `last`, and keep those that match; return their end.

    FOUND is x if there is nothing to verify, else ~x, where x is a conjunction or, if `conjunction_of` has any, a
    rectangle. The pairs that match have the conjunction there.
    """
    rest_starts, rest, ranges = postings.rest_starts, postings.rest, postings.ranges
    codes, true_starts, true = events.codes, events.true_starts, events.true
    null_starts, null = events.null_starts, events.null
    several = conjunction_of.size > 0
    used = first
    for place in range(first, last):
        event, number = pairs[place, EVENT], pairs[place, FOUND]
        plain = number >= 0
        if not plain:
            number = ~number
        conjunction = conjunction_of[number] if several else number
        holds = True
        entry, end = rest_starts[conjunction], rest_starts[conjunction + 1]
        while holds and not plain and entry < end:
            column = rest[entry, REST_COLUMN]
            if column >= 0:
                first_range, end_range = rest[entry, REST_FIRST_RANGE], rest[entry, REST_END_RANGE]
                holds = in_ranges(ranges, first_range, end_range, codes[column, event])
            else:
                test, null_column = rest[entry, REST_TEST], rest[entry, REST_NULL_COLUMN]
                truth = FALSE
                if contains(true, true_starts[event], true_starts[event + 1], test):
                    truth = TRUE
                elif null_column >= 0:
                    if codes[null_column, event] < 0:
                        truth = NULL
                elif contains(null, null_starts[event], null_starts[event + 1], test):
                    truth = NULL
                holds = ~rest[entry, REST_ACCEPTS] & truth != 0
            entry += 1
        pairs[used, EVENT] = event
        pairs[used, FOUND] = conjunction
        used += holds
    return used


@kernel
def grown(rows: Int32s, wanted: int) -> Int32s:
    """Copy rows into an array with room for twice as many as wanted."""
    larger = np.empty((2 * max(len(rows), wanted), rows.shape[1]), np.int32)
    # One long copy: the compiler does not know how few columns there are.
    source, target = rows.reshape(-1), larger.reshape(-1)
    for place in range(source.size):
        target[place] = source[place]
    return larger


@kernel
def sort_by_bucket(bucket_of: Int32s, entries: int, ends: Int32s, order: Int32s) -> None:
    """Sort the entries by bucket, by counting; `ends` must be zero and becomes the end of each bucket in `order`."""
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
