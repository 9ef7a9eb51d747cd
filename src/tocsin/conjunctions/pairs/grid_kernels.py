"""Match a batch with the tables that are grids over two columns.

The events are laid out by bucket, and the postings of each bucket are compared with them.
"""

import numpy as np

from tocsin._compile import VECTOR_WIDTH, admit, contain, fetch, kernel, lowest_bit
from tocsin.arrays import Int32s, Int64s, UInt16s
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.pairs.bucket_kernels import (
    GridMatches,
    GridTable,
    holds_in_full,
    is_end,
    match_few,
    match_table,
    write_doubt,
)
from tocsin.conjunctions.pairs.kernels import (
    BY_TEST,
    EVENT,
    FOUND,
    SHORT_COLUMN_C,
    SHORT_FIELDS,
    SHORT_HIGH_C,
    SHORT_LOW_A,
    SHORT_LOW_B,
    SHORT_LOW_C,
    WORDS_PER_FLUSH,
    FoundPairs,
    PairTables,
    Postings,
    grown,
    verify_rest,
)
from tocsin.conjunctions.pairs.layout_kernels import (
    PRIVATE_LAYOUT,
    SKIP_TABLE,
    SPARSE_BUCKETS,
    Layouts,
    lay_out,
    max_block_codes,
    write_entries,
)

LOOK_COLUMN_A, LOOK_COLUMN_B, LOOK_FIRST, LOOK_SIZE = range(4)
"""A bucket that one event looks into: the columns of its table, and its postings among those of grids."""

GRIDS = ("column_a", "shift_a", "multiplier_a", "column_b", "shift_b", "multiplier_b", "mask", "first_bucket")
"""The fields of PairTables that one event needs, and their columns in an array that has a row for each grid."""
(
    GRID_COLUMN_A,
    GRID_SHIFT_A,
    GRID_MULTIPLIER_A,
    GRID_COLUMN_B,
    GRID_SHIFT_B,
    GRID_MULTIPLIER_B,
    GRID_MASK,
    GRID_FIRST_BUCKET,
) = range(8)


@kernel
def _set_places(columns: Int32s, row_of: Int32s, rows: Int32s, place_of_row: Int32s, place_of: Int32s) -> None:
    """Write the place of each column among the rows of a layout."""
    for place in range(rows.size):
        place_of_row[rows[place]] = place
    for column in columns:
        place_of[column] = place_of_row[row_of[column]]


@kernel
def transpose_short_codes(short: UInt16s, row_of: Int32s) -> UInt16s:
    """Return the short codes of each event in the first VECTOR_WIDTH columns of an index: `Events.short_by_event`."""
    columns, events = min(row_of.size, VECTOR_WIDTH), short.shape[1]
    by_event = np.empty(events * VECTOR_WIDTH, np.uint16)
    for event in range(events):
        for column in range(columns):
            by_event[event * VECTOR_WIDTH + column] = short[row_of[column], event]
    return by_event


@kernel(looked_up=("found",))
def match_grids(
    tables: PairTables, postings: Postings, events: Events, layouts: Layouts, found: FoundPairs
) -> tuple[FoundPairs, int, Int32s]:
    """Add the matches in grids, in any order; also return how many candidates were verified, and the doubts."""
    codes, short, row_of = events.codes, events.short, events.row_of
    count, short_by_event = short.shape[1], events.short_by_event
    starts, by_test = postings.starts, len(postings.rows)
    # Taken out before the loops: see `bucket_kernels.py`.
    fields, rectangle_of = postings.short, postings.rectangle
    shift, rectangles = postings.short_shift, postings.rectangles
    event_of, bucket_of, own_order = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    most = 0
    for table in range(tables.mask.size):
        if tables.mask[table] < SPARSE_BUCKETS * count:
            used_columns = tables.used_starts[table + 1] - tables.used_starts[table]
            most = max(most, max_block_codes(tables.mask[table] + 1, used_columns, count))
    own_blocks = np.empty(most, np.uint16)
    place_of, place_of_row = np.empty(row_of.size, np.int32), np.empty(len(short), np.int32)
    words_of, words = np.empty((WORDS_PER_FLUSH + 1, 2), np.int32), np.empty(WORDS_PER_FLUSH + 1, np.uint64)
    matches, candidates = GridMatches(found.pairs, found.used, np.empty((WORDS_PER_FLUSH, 4), np.int32), 0), 0
    for table in range(tables.mask.size):
        column_a, column_b = tables.column_a[table], tables.column_b[table]
        first_bucket, buckets = tables.first_bucket[table], tables.mask[table] + 1
        if column_a == BY_TEST:
            continue
        columns = tables.used[tables.used_starts[table] : tables.used_starts[table + 1]]
        layout = layouts.of_table[table] if layouts.of_table.size > 0 else PRIVATE_LAYOUT
        if layout == SKIP_TABLE:
            continue
        if layout != PRIVATE_LAYOUT:
            rows = layouts.used[layouts.used_starts[layout] : layouts.used_starts[layout + 1]]
            ends = layouts.ends[layouts.first_end[layout] : layouts.first_end[layout] + buckets]
            order, blocks = layouts.order[layout], layouts.blocks[layout]
        else:
            entries = write_entries(tables, table, short, row_of, event_of, bucket_of)
            if entries * SPARSE_BUCKETS < buckets:
                if short_by_event.size == 0:
                    short_by_event = transpose_short_codes(short, row_of)
                pairs, used, doubts, doubted = matches.pairs, matches.used, matches.doubts, matches.doubted
                for entry in range(entries):
                    bucket = first_bucket + bucket_of[entry]
                    size = starts[bucket + 1] - starts[bucket]
                    candidates += size
                    pairs, used, doubts, doubted = match_few(
                        fields,
                        rectangle_of,
                        shift,
                        rectangles,
                        codes,
                        short,
                        row_of,
                        short_by_event,
                        column_a,
                        column_b,
                        starts[bucket] - by_test,
                        size,
                        event_of,
                        entry,
                        entry + 1,
                        pairs,
                        used,
                        doubts,
                        doubted,
                    )
                matches = GridMatches(pairs, used, doubts, doubted)
                continue
            rows, order, blocks = row_of[columns], own_order, own_blocks
            ends = np.zeros(buckets, np.int32)
            lay_out(event_of, bucket_of, entries, short, rows, ends, order, blocks)
        _set_places(columns, row_of, rows, place_of_row, place_of)
        bucket_starts = starts[first_bucket : first_bucket + buckets + 1]
        block_size = rows.size * VECTOR_WIDTH
        grid = GridTable(column_a, column_b, bucket_starts, order, ends, blocks, block_size, place_of)
        matches, verified = match_table(postings, events, short_by_event, grid, words_of, words, matches)
        candidates += verified
    pairs, used = matches.pairs, matches.used
    if postings.conjunction_of.size > 0 or postings.rest.size > 0:
        used = verify_rest(postings, events, postings.conjunction_of, pairs, found.used, used)
    return FoundPairs(pairs, used), candidates, matches.doubts[: matches.doubted]


@kernel
def match_event(grids: Int64s, starts_of: Int64s, postings: Postings, events: Events) -> tuple[Int32s, int, Int32s]:
    """Do what `match_grids` does for a batch of one event, which looks only into tables on columns where it has values.

    `grids[starts_of[c]:starts_of[c + 1]]` are the tables, as rows GRID_…, that only an event with a value in column c
    looks into; those behind the last column are for every event. One array costs less to hand over than PairTables.
    """
    codes, short, row_of = events.codes, events.short, events.row_of
    fields, rectangle_of = postings.short, postings.rectangle
    shift, rectangles = postings.short_shift, postings.rectangles
    short_by_event = transpose_short_codes(short, row_of)
    look, count = _buckets_of_event(grids, starts_of, postings, short, row_of)
    pairs, used, candidates = np.empty((VECTOR_WIDTH, 2), np.int32), 0, 0
    doubts, doubted = np.empty((0, 4), np.int32), 0
    for number in range(count):
        column_a, column_b = look[number, LOOK_COLUMN_A], look[number, LOOK_COLUMN_B]
        first, size = look[number, LOOK_FIRST], look[number, LOOK_SIZE]
        a, b = short[row_of[column_a], 0], short[row_of[column_b], 0]
        candidates += size
        for start in range(0, size, VECTOR_WIDTH):
            field, low_a = np.uint64(size), np.uint64(SHORT_FIELDS * first + start)
            low_b = low_a + np.uint64(SHORT_LOW_B) * field
            column = low_a + np.uint64(SHORT_COLUMN_C) * field
            left = contain(fields, (low_a, low_b), (low_a + field, low_b + field), (a, b))
            left &= admit(fields, column, column + field, column + field + field, short_by_event, np.uint64(0))
            if size - start < VECTOR_WIDTH:
                # The vector reads on into the next field.
                left &= (np.uint64(1) << np.uint64(size - start)) - np.uint64(1)
            while left != np.uint64(0):
                place = start + lowest_bit(left)
                left &= left - np.uint64(1)
                at = SHORT_FIELDS * first + place
                column_c = np.int64(fields[at + SHORT_COLUMN_C * size])
                # The vector of an event has its first columns only.
                c = short[row_of[column_c], 0]
                if (c < fields[at + SHORT_LOW_C * size]) | (c > fields[at + SHORT_HIGH_C * size]):
                    continue
                tagged = rectangle_of[first + place]
                unsure = (shift[column_a] != 0) & is_end(fields, at + SHORT_LOW_A * size, size, a)
                unsure |= (shift[column_b] != 0) & is_end(fields, at + SHORT_LOW_B * size, size, b)
                unsure |= (shift[column_c] != 0) & is_end(fields, at + SHORT_LOW_C * size, size, c)
                if unsure and codes.shape[1] == 0:
                    if doubted == len(doubts):
                        doubts = grown(doubts, doubted + 1)
                    doubted = write_doubt(doubts, doubted, 0, tagged, column_a, column_b)
                    continue
                if unsure and not holds_in_full(rectangles, tagged, codes, column_a, column_b, 0):
                    continue
                if used == len(pairs):
                    pairs = grown(pairs, used + 1)
                pairs[used, EVENT] = 0
                pairs[used, FOUND] = tagged
                used += 1
    if postings.conjunction_of.size > 0 or postings.rest.size > 0:
        used = verify_rest(postings, events, postings.conjunction_of, pairs, 0, used)
    return pairs[:used], candidates, doubts[:doubted]


@kernel
def _buckets_of_event(
    grids: Int64s, starts_of: Int64s, postings: Postings, short: UInt16s, row_of: Int32s
) -> tuple[Int64s, int]:
    """Return the buckets with postings that one event looks into, as rows LOOK_…, and how many they are.

    They are prefetched one step at a time for all, so that no step waits for the memory that the one before asked for.
    """
    starts, fields, by_test = postings.starts, postings.short, len(postings.rows)
    look, looked = np.empty((len(grids), 4), np.int64), 0
    columns = starts_of.size - 2
    for column in range(columns + 1):
        if column < columns and short[row_of[column], 0] == 0:
            continue
        for grid in range(starts_of[column], starts_of[column + 1]):
            column_a, column_b = grids[grid, GRID_COLUMN_A], grids[grid, GRID_COLUMN_B]
            a, b = np.int64(short[row_of[column_a], 0]), np.int64(short[row_of[column_b], 0])
            if b == 0 and column < columns:
                continue
            place = (a >> grids[grid, GRID_SHIFT_A]) * grids[grid, GRID_MULTIPLIER_A]
            place += (b >> grids[grid, GRID_SHIFT_B]) * grids[grid, GRID_MULTIPLIER_B]
            bucket = grids[grid, GRID_FIRST_BUCKET] + (place & grids[grid, GRID_MASK])
            fetch(starts, np.uint64(bucket))
            look[looked, LOOK_COLUMN_A], look[looked, LOOK_COLUMN_B] = column_a, column_b
            look[looked, LOOK_FIRST] = bucket
            looked += 1
    count = 0
    for number in range(looked):
        bucket = look[number, LOOK_FIRST]
        first, end = starts[bucket] - by_test, starts[bucket + 1] - by_test
        if first == end:
            continue
        for place in range(SHORT_FIELDS * first, SHORT_FIELDS * end, VECTOR_WIDTH):
            fetch(fields, np.uint64(place))
        fetch(postings.rectangle, np.uint64(first))
        look[count, LOOK_COLUMN_A], look[count, LOOK_COLUMN_B] = (
            look[number, LOOK_COLUMN_A],
            look[number, LOOK_COLUMN_B],
        )
        look[count, LOOK_FIRST], look[count, LOOK_SIZE] = first, end - first
        count += 1
    return look, count
