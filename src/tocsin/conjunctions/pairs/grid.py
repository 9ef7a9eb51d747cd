"""Tables that are grids over two columns: a batch is laid out by bucket, and each bucket's postings stream past it."""

import numpy as np

from tocsin._compile import LANES, kernel
from tocsin.conjunctions.pairs.bucket import match_few, match_table
from tocsin.conjunctions.pairs.kernels import HELD, RUN, Events, Found, Int32, Postings, Short, Tables, verify_rest
from tocsin.conjunctions.pairs.layout import NOT_NOW, OWN, SPARSE, Layouts, enter, lay_out, most_codes


@kernel
def _set_places(columns: Int32, row_of: Int32, rows: Int32, place_of_row: Int32, place_of: Int32) -> None:
    """Note the place of each column among the rows of a layout."""
    for place in range(rows.size):
        place_of_row[rows[place]] = place
    for column in columns:
        place_of[column] = place_of_row[row_of[column]]


@kernel
def side_by_side(short: Short, row_of: Int32) -> Short:
    """The short codes of each event in the first LANES columns of an index."""
    columns, events = min(row_of.size, LANES), short.shape[1]
    rows = np.empty(events * LANES, np.uint16)
    for event in range(events):
        for column in range(columns):
            rows[event * LANES + column] = short[row_of[column], event]
    return rows


@kernel
def match_grids(
    tables: Tables, postings: Postings, events: Events, layouts: Layouts, found: Found
) -> tuple[Found, int, Int32]:
    """Add the matches in grids, in no order; also return how many candidates were verified for them, and the doubts."""
    codes, short, row_of = events.codes, events.short, events.row_of
    count, rows = short.shape[1], events.rows
    starts, held = postings.starts, len(postings.rows)
    fields, shift, rectangle_of, rectangles = (
        postings.short,
        postings.short_shift,
        postings.rectangle,
        postings.rectangles,
    )
    event_of, bucket_of, own_order = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    most = 0
    for table in range(tables.mask.size):
        if tables.mask[table] < SPARSE * count:
            used_columns = tables.used_starts[table + 1] - tables.used_starts[table]
            most = max(most, most_codes(tables.mask[table] + 1, used_columns, count))
    own_laid = np.empty(most, np.uint16)
    place_of, place_of_row = np.empty(row_of.size, np.int32), np.empty(len(short), np.int32)
    noted, bits = np.empty((RUN + 1, 2), np.int32), np.empty(RUN + 1, np.uint64)
    pairs, used, candidates = found.pairs, found.used, 0
    doubts, doubted = np.empty((RUN, 2), np.int32), 0
    for table in range(tables.mask.size):
        column_a, column_b = tables.column_a[table], tables.column_b[table]
        first_bucket, buckets = tables.first_bucket[table], tables.mask[table] + 1
        if column_a == HELD:
            continue
        columns = tables.used[tables.used_starts[table] : tables.used_starts[table + 1]]
        slot = layouts.of_table[table] if layouts.of_table.size > 0 else OWN
        if slot == NOT_NOW:
            continue
        if slot != OWN:
            laid_rows = layouts.used[layouts.used_starts[slot] : layouts.used_starts[slot + 1]]
            ends = layouts.ends[layouts.first_end[slot] : layouts.first_end[slot] + buckets]
            order, laid = layouts.order[slot], layouts.laid[slot]
        else:
            entries = enter(tables, table, short, row_of, event_of, bucket_of)
            if entries * SPARSE < buckets:
                if rows.size == 0:
                    rows = side_by_side(short, row_of)
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
                        rows,
                        column_a,
                        column_b,
                        starts[bucket] - held,
                        size,
                        event_of,
                        entry,
                        entry + 1,
                        pairs,
                        used,
                        doubts,
                        doubted,
                    )
                continue
            laid_rows, order, laid = row_of[columns], own_order, own_laid
            ends = np.zeros(buckets, np.int32)
            lay_out(event_of, bucket_of, entries, short, laid_rows, ends, order, laid)
        _set_places(columns, row_of, laid_rows, place_of_row, place_of)
        pairs, used, doubts, doubted, verified = match_table(
            fields,
            rectangle_of,
            shift,
            rectangles,
            codes,
            short,
            row_of,
            rows,
            place_of,
            column_a,
            column_b,
            starts[first_bucket : first_bucket + buckets + 1],
            held,
            order,
            ends,
            laid,
            laid_rows.size * LANES,
            noted,
            bits,
            pairs,
            used,
            doubts,
            doubted,
        )
        candidates += verified
    if postings.conjunction_of.size > 0 or postings.rest.size > 0:
        used = verify_rest(postings, events, postings.conjunction_of, pairs, found.used, used)
    return Found(pairs, used), candidates, doubts[:doubted]
