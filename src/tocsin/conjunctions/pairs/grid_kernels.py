"""Match a batch with the tables that are grids over two columns.

The events are laid out by bucket, and the postings of each bucket are compared with them.
"""

import numpy as np

from tocsin._compile import VECTOR_WIDTH, kernel
from tocsin.arrays import Int32s, UInt16s
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.pairs.bucket_kernels import GridMatches, GridTable, match_few, match_table
from tocsin.conjunctions.pairs.kernels import BY_TEST, WORDS_PER_FLUSH, FoundPairs, PairTables, Postings, verify_rest
from tocsin.conjunctions.pairs.layout_kernels import (
    PRIVATE_LAYOUT,
    SKIP_TABLE,
    SPARSE_BUCKETS,
    Layouts,
    lay_out,
    max_block_codes,
    write_entries,
)


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


@kernel
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
