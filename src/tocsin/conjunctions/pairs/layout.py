"""Events laid out for a table: sorted by the bucket that they look into, in blocks of LANES.

A block has the short codes of its events, LANES for each of the rows that the table uses, so that a posting is compared
with all of them at once; a bucket begins with a new block. Indexes that cut their columns alike, as the segments of one
set do, look into the same cells: what is laid out for one serves all.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import LANES, kernel
from tocsin.conjunctions.pairs.kernels import Int32, Int64, Short, Tables, sort_by_bucket

SPARSE = 5
"""Fewer events than one for so many buckets are not sorted by them."""


OWN, NOT_NOW = -1, -2
"""Instead of a layout: the table is laid out for this index alone; it is left for another time."""


class Layouts(NamedTuple):
    """Layouts that several indexes share, and which of them the tables of one index use."""

    of_table: Int32
    """The layout of each table, or OWN, or NOT_NOW. Empty: no table has one."""
    first_end: Int64
    """Where the buckets of each layout start in `ends`."""
    ends: Int32
    """The end of each bucket in the order of its layout."""
    order: Int32
    """A row for each layout: the events."""
    used_starts: Int64
    """Where the rows that each layout has start in `used`; one more entry at the end."""
    used: Int32
    laid: Short
    """A row for each layout: its blocks."""


NO_LAYOUTS = Layouts(
    of_table=np.empty(0, np.int32),
    first_end=np.empty(0, np.int64),
    ends=np.empty(0, np.int32),
    order=np.empty((0, 0), np.int32),
    used_starts=np.empty(0, np.int64),
    used=np.empty(0, np.int32),
    laid=np.empty((0, 0), np.uint16),
)


@kernel
def short_codes(codes: Int32, shift: Int32) -> Short:
    """The short codes of a batch by rank, a row for each column; NULL is 0."""
    columns, events = codes.shape
    short = np.empty((columns, events), np.uint16)
    for column in range(columns):
        for event in range(events):
            short[column, event] = (codes[column, event] >> shift[column]) + 1
    return short


@kernel
def enter(tables: Tables, table: int, short: Short, row_of: Int32, event_of: Int32, bucket_of: Int32) -> int:
    """Write an entry (event, bucket) for each event that looks into a table; return how many there are."""
    shift_a, shift_b = tables.shift_a[table], tables.shift_b[table]
    multiplier_a, multiplier_b = tables.multiplier_a[table], tables.multiplier_b[table]
    mask, needs_value = tables.mask[table], tables.needs_value[table]
    row_a, row_b = row_of[tables.column_a[table]], row_of[tables.column_b[table]]
    count = 0
    for event in range(short.shape[1]):
        a, b = np.int64(short[row_a, event]), np.int64(short[row_b, event])
        event_of[count] = event
        bucket_of[count] = ((a >> shift_a) * multiplier_a + (b >> shift_b) * multiplier_b) & mask
        # An entry that has nothing to find is overwritten by the next one.
        count += not (needs_value and (a == 0 or b == 0))
    return count


@kernel
def _lay_row(source: Short, order: Int32, block_of: Int32, laid: Short, start: int) -> None:
    begin = np.uint64(start)
    for place in range(np.uint64(order.size)):
        laid[np.uint64(block_of[place]) + begin] = source[np.uint64(order[place])]


@kernel
def lay_out(
    event_of: Int32, bucket_of: Int32, entries: int, short: Short, rows: Int32, ends: Int32, order: Int32, laid: Short
) -> None:
    """Sort the entries of a table by bucket, and lay out these rows of the short codes."""
    sort_by_bucket(bucket_of, entries, ends, order)
    # Where the code of each event in the first row stands; the bucket of an entry is not needed any more.
    place_in_laid = bucket_of
    block, begin = 0, 0
    for bucket in range(ends.size):
        for place in range(begin, ends[bucket]):
            order[place] = event_of[order[place]]
            inside = place - begin
            place_in_laid[place] = (block + inside // LANES) * rows.size * LANES + inside % LANES
        block += blocks_of(ends[bucket] - begin)
        begin = ends[bucket]
    for number in range(rows.size):
        _lay_row(short[rows[number]], order[:entries], place_in_laid, laid, number * LANES)


@kernel
def blocks_of(events: int) -> int:
    """How many blocks the events of a bucket need."""
    return (events + LANES - 1) // LANES


@kernel
def most_codes(buckets: int, rows: int, events: int) -> int:
    """The most short codes that the layout of a table has."""
    return (events // LANES + min(buckets, events)) * rows * LANES


@kernel
def lay_out_tables(tables: Tables, short: Short, layouts: Layouts) -> None:
    """Fill the layouts of all tables, whose columns are rows of `short`."""
    rows, count = short.shape
    row_of = np.arange(rows).astype(np.int32)
    event_of, bucket_of = np.empty(count, np.int32), np.empty(count, np.int32)
    for table in range(tables.mask.size):
        first, last = layouts.first_end[table], layouts.first_end[table] + tables.mask[table] + 1
        used = tables.used[tables.used_starts[table] : tables.used_starts[table + 1]]
        entries = enter(tables, table, short, row_of, event_of, bucket_of)
        order, laid = layouts.order[table], layouts.laid[table]
        lay_out(event_of, bucket_of, entries, short, used, layouts.ends[first:last], order, laid)


def room(tables: Tables, events: int) -> Layouts:
    """Empty layouts for these tables, in their order."""
    buckets, used = (tables.mask + 1).tolist(), np.diff(tables.used_starts).tolist()
    codes = [most_codes(*sizes, events) for sizes in zip(buckets, used, strict=True)]
    return Layouts(
        of_table=np.arange(len(buckets), dtype=np.int32),
        first_end=tables.first_bucket,
        ends=np.zeros(sum(buckets), np.int32),
        order=np.empty((len(buckets), events), np.int32),
        used_starts=tables.used_starts,
        used=tables.used,
        laid=np.empty((len(buckets), max(codes, default=0)), np.uint16),
    )
