"""Events laid out for a table: sorted by the bucket that they look into, in blocks of VECTOR_WIDTH.

A block has the short codes of its events, VECTOR_WIDTH for each of the rows that the table uses, so that a posting is
compared with all of them at once; a bucket begins with a new block. Indexes whose tables have the same cells, as the
segments of one set have, share the layout of a table.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import VECTOR_WIDTH, kernel
from tocsin.arrays import Int32s, Int64s, UInt16s
from tocsin.conjunctions.pairs.kernels import PairTables, sort_by_bucket
from tocsin.tuning import TUNING

SPARSE_BUCKETS = TUNING.sparse_buckets

PRIVATE_LAYOUT, SKIP_TABLE = -1, -2
"""Instead of the number of a shared layout: the index lays out the table itself; it does not look into it this time."""


class Layouts(NamedTuple):
    """Layouts that several indexes share, and which of them the tables of one index use."""

    of_table: Int32s
    """The layout of each table, or PRIVATE_LAYOUT, or SKIP_TABLE. Empty: PRIVATE_LAYOUT for all."""
    first_end: Int64s
    """Where the buckets of each layout start in `ends`."""
    ends: Int32s
    """The end of each bucket in the order of its layout."""
    order: Int32s
    """A row for each layout: the events."""
    used_starts: Int64s
    """Where the rows that each layout has start in `used`; one more entry at the end."""
    used: Int32s
    blocks: UInt16s
    """A row for each layout: its blocks."""


NO_LAYOUTS = Layouts(
    of_table=np.empty(0, np.int32),
    first_end=np.empty(0, np.int64),
    ends=np.empty(0, np.int32),
    order=np.empty((0, 0), np.int32),
    used_starts=np.empty(0, np.int64),
    used=np.empty(0, np.int32),
    blocks=np.empty((0, 0), np.uint16),
)


@kernel
def write_entries(
    tables: PairTables, table: int, short: UInt16s, row_of: Int32s, event_of: Int32s, bucket_of: Int32s
) -> int:
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
        # The entry of an event that cannot match is overwritten by the next one.
        count += not (needs_value and (a == 0 or b == 0))
    return count


@kernel
def _fill_row(source: UInt16s, order: Int32s, place_in_blocks: Int32s, blocks: UInt16s, start: int) -> None:
    """Write the short codes of one row, in the order of the events, to their places in the blocks."""
    begin = np.uint64(start)
    for place in range(np.uint64(order.size)):
        blocks[np.uint64(place_in_blocks[place]) + begin] = source[np.uint64(order[place])]


@kernel
def lay_out(
    event_of: Int32s,
    bucket_of: Int32s,
    entries: int,
    short: UInt16s,
    rows: Int32s,
    ends: Int32s,
    order: Int32s,
    blocks: UInt16s,
) -> None:
    """Sort the entries of a table by bucket, and write the blocks of these rows of the short codes.

    The place `i` of bucket `b` is the code `i % VECTOR_WIDTH` of block `first block of b + i // VECTOR_WIDTH`; row `r`
    of block `n` starts at `(n * rows.size + r) * VECTOR_WIDTH`. `bucket_of` is overwritten.
    """
    sort_by_bucket(bucket_of, entries, ends, order)
    place_in_blocks = bucket_of
    block, begin = 0, 0
    for bucket in range(ends.size):
        for place in range(begin, ends[bucket]):
            order[place] = event_of[order[place]]
            inside = place - begin
            block_start = (block + inside // VECTOR_WIDTH) * rows.size * VECTOR_WIDTH
            place_in_blocks[place] = block_start + inside % VECTOR_WIDTH
        block += block_count(ends[bucket] - begin)
        begin = ends[bucket]
    for number in range(rows.size):
        _fill_row(short[rows[number]], order[:entries], place_in_blocks, blocks, number * VECTOR_WIDTH)


@kernel
def block_count(events: int) -> int:
    """Return how many blocks the events of a bucket need."""
    return (events + VECTOR_WIDTH - 1) // VECTOR_WIDTH


@kernel
def max_block_codes(buckets: int, rows: int, events: int) -> int:
    """Return an upper bound of the short codes in the blocks of a table."""
    return (events // VECTOR_WIDTH + min(buckets, events)) * rows * VECTOR_WIDTH


@kernel
def lay_out_tables(tables: PairTables, short: UInt16s, layouts: Layouts) -> None:
    """Fill the layouts of all tables, whose columns are rows of `short`."""
    rows, count = short.shape
    row_of = np.arange(rows).astype(np.int32)
    event_of, bucket_of = np.empty(count, np.int32), np.empty(count, np.int32)
    for table in range(tables.mask.size):
        first, last = layouts.first_end[table], layouts.first_end[table] + tables.mask[table] + 1
        used = tables.used[tables.used_starts[table] : tables.used_starts[table + 1]]
        entries = write_entries(tables, table, short, row_of, event_of, bucket_of)
        order, blocks = layouts.order[table], layouts.blocks[table]
        lay_out(event_of, bucket_of, entries, short, used, layouts.ends[first:last], order, blocks)


def empty_layouts(tables: PairTables, events: int) -> Layouts:
    """Make room for the layouts of these tables, in their order."""
    buckets, used = (tables.mask + 1).tolist(), np.diff(tables.used_starts).tolist()
    codes = [max_block_codes(*sizes, events) for sizes in zip(buckets, used, strict=True)]
    return Layouts(
        of_table=np.arange(len(buckets), dtype=np.int32),
        first_end=tables.first_bucket,
        ends=np.zeros(sum(buckets), np.int32),
        order=np.empty((len(buckets), events), np.int32),
        used_starts=tables.used_starts,
        used=tables.used,
        blocks=np.empty((len(buckets), max(codes, default=0)), np.uint16),
    )
