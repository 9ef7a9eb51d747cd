"""Tables that are grids over two columns: short codes are compared first, by vectors, and decide nearly always.

An event whose short code is that of an end of a range may lie on either side of it; only then its full codes are
compared with those of the rectangle.
"""

import numpy as np
import numpy.typing as npt

from tocsin._kernels import inlined_kernel, kernel
from tocsin._kernels.pairs import (
    BLOCK,
    HELD,
    RUN,
    Events,
    Found,
    Int32,
    Postings,
    Tables,
    bits_of,
    grown,
    place_of,
    sort_by_bucket,
    verify_rest,
)

Short = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

FEW = 5
"""Fewer events than this in a bucket are compared with its postings one by one."""
OUTSIDE = 65535
"""A short code that lies in no range."""
FIELDS = 7


Run = tuple[int, int, int, int]
"""Some postings of one bucket: the first of the bucket among those of grids, its size, from which place to which."""


@kernel
def short_codes(codes: Int32, shift: Int32) -> Short:
    """The short codes of a batch, event by event."""
    columns, events = codes.shape
    short = np.empty((events, columns), np.uint16)
    for column in range(columns):
        for event in range(events):
            short[event, column] = (codes[column, event] + 1) >> shift[column]
    return short


@inlined_kernel
def _entries(tables: Tables, table: int, codes: Int32, event_of: Int32, bucket_of: Int32) -> int:
    """Write an entry (event, bucket) for each event that looks into a table; return how many there are."""
    shift_a, shift_b = tables.shift_a[table], tables.shift_b[table]
    multiplier_a, multiplier_b = tables.multiplier_a[table], tables.multiplier_b[table]
    mask, needs_value = tables.mask[table], tables.needs_value[table]
    codes_a, codes_b = codes[tables.column_a[table]], codes[tables.column_b[table]]
    count = 0
    for event in range(codes_a.size):
        a, b = codes_a[event], codes_b[event]
        event_of[count] = event
        bucket_of[count] = (((a + 1) >> shift_a) * multiplier_a + ((b + 1) >> shift_b) * multiplier_b) & mask
        # An entry that has nothing to find is overwritten by the next one.
        count += not (needs_value and (a < 0 or b < 0))
    return count


@kernel
def _scan_event(
    fields: Short,
    rectangle_of: Int32,
    run: Run,
    a: int,
    b: int,
    short: Short,
    event: int,
    marks: Bytes,
    marked: Int32,
    bits: Words,
) -> int:
    """Note which postings of a run have the short codes of an event; return how many."""
    first, size, start, end = run
    # Unsigned indexes cannot be negative, so that the compiler makes vectors of this loop.
    low_a = np.uint64(FIELDS * first + start)
    high_a, low_b, high_b = low_a + np.uint64(size), low_a + np.uint64(2 * size), low_a + np.uint64(3 * size)
    for place in range(np.uint64(end - start)):
        marks[place] = (
            (fields[low_a + place] <= a)
            & (fields[high_a + place] >= a)
            & (fields[low_b + place] <= b)
            & (fields[high_b + place] >= b)
        )
    likely = 0
    for place in range(end - start):
        marked[likely, 0] = start + place
        likely += marks[place]
    at = FIELDS * first
    count = 0
    for number in range(likely):
        place = marked[number, 0]
        c = short[event, fields[at + 4 * size + place]]
        marked[count, 0] = place
        marked[count, 1] = rectangle_of[first + place]
        bits[count] = np.uint64(1)
        count += (fields[at + 5 * size + place] <= c) & (fields[at + 6 * size + place] >= c)
    return count


@kernel
def _enter_block(
    short: Short, column_a: int, column_b: int, members: Int32, width: int, codes: Short, filled: Bools
) -> None:
    """Lay out the codes a and b of the first `width` members of a block."""
    filled[:] = False
    for slot in range(width):
        codes[column_a * BLOCK + slot] = short[members[slot], column_a]
        codes[column_b * BLOCK + slot] = short[members[slot], column_b]
    for slot in range(width, BLOCK):
        codes[column_a * BLOCK + slot] = OUTSIDE


@kernel
def _scan_block(
    fields: Short,
    rectangle_of: Int32,
    run: Run,
    column_a: int,
    column_b: int,
    short: Short,
    members: Int32,
    width: int,
    codes: Short,
    filled: Bools,
    words: Words,
    marks: Bytes,
    marked: Int32,
    bits: Words,
) -> int:
    """Note which postings of a run have the short codes of some member of the block; return how many."""
    first, size, start, end = run
    block_a, block_b = np.uint64(column_a * BLOCK), np.uint64(column_b * BLOCK)
    count = 0
    for place in range(start, end):
        at = FIELDS * first + place
        column_c = np.int64(fields[at + 4 * size])
        if not filled[column_c]:
            filled[column_c] = True
            for slot in range(width):
                codes[column_c * BLOCK + slot] = short[members[slot], column_c]
        block_c = np.uint64(column_c * BLOCK)
        low_a, high_a = fields[at], fields[at + size]
        low_b, high_b = fields[at + 2 * size], fields[at + 3 * size]
        low_c, high_c = fields[at + 5 * size], fields[at + 6 * size]
        for lane in range(np.uint64(BLOCK)):
            marks[lane] = (
                (codes[block_a + lane] >= low_a)
                & (codes[block_a + lane] <= high_a)
                & (codes[block_b + lane] >= low_b)
                & (codes[block_b + lane] <= high_b)
                & (codes[block_c + lane] >= low_c)
                & (codes[block_c + lane] <= high_c)
            )
        # Half of the postings have a bit: a branch here would be guessed wrong too often.
        marked[count, 0] = place
        marked[count, 1] = rectangle_of[first + place]
        bits[count] = bits_of(words)
        count += bits[count] != np.uint64(0)
    return count


@kernel
def _is_end(fields: Short, at: int, size: int, code: int) -> bool:
    """Whether a short code is that of the low or the high end that stand at `at` and one field further."""
    is_end: bool = (fields[at] == code) | (fields[at + size] == code)
    return is_end


@kernel
def _holds_in_full(rectangles: Int32, number: int, codes: Int32, column_a: int, column_b: int, event: int) -> bool:
    rectangle = rectangles[number]
    a, b, c = codes[column_a, event], codes[column_b, event], codes[rectangle[5], event]
    holds: bool = (
        (a >= rectangle[1])
        & (a <= rectangle[2])
        & (b >= rectangle[3])
        & (b <= rectangle[4])
        & (c >= rectangle[6])
        & (c <= rectangle[7])
    )
    return holds


@kernel
def _accept(
    fields: Short,
    run: Run,
    column_a: int,
    column_b: int,
    shift: Int32,
    rectangles: Int32,
    codes: Int32,
    members: Int32,
    short: Short,
    stride: int,
    origin: int,
    marked: Int32,
    bits: Words,
    likely: int,
    pairs: Int32,
    used: int,
) -> int:
    """Verify the noted postings of a run for their members; write pairs and return their end.

    The short code of a member stands at `short[column * stride + origin + member]`.
    """
    first, size, _, _ = run
    column_a_at, column_b_at = column_a * stride + origin, column_b * stride + origin
    unsure_a, unsure_b = shift[column_a] > 0, shift[column_b] > 0
    for number in range(likely):
        place, rectangle, left = marked[number, 0], marked[number, 1], bits[number]
        at = FIELDS * first + place
        column_c = np.int64(fields[at + 4 * size])
        unsure_c, column_c_at = shift[column_c] > 0, column_c * stride + origin
        while left != np.uint64(0):
            lowest = left & (~left + np.uint64(1))
            left ^= lowest
            member = place_of(lowest)
            event = members[member]
            unsure = unsure_a & _is_end(fields, at, size, short[column_a_at + member])
            unsure |= unsure_b & _is_end(fields, at + 2 * size, size, short[column_b_at + member])
            unsure |= unsure_c & _is_end(fields, at + 5 * size, size, short[column_c_at + member])
            if unsure:
                full = rectangle if rectangle >= 0 else ~rectangle
                if not _holds_in_full(rectangles, full, codes, column_a, column_b, event):
                    continue
            pairs[used, 0] = event
            pairs[used, 1] = rectangle
            used += 1
    return used


@kernel
def match_grids(tables: Tables, postings: Postings, events: Events, found: Found) -> tuple[Found, int]:
    """Add the matches in grids, in no order; also return how many candidates were verified for them."""
    codes, count = events.codes, events.codes.shape[1]
    starts, held = postings.starts, len(postings.rows)
    fields, shift, rectangle_of, rectangles = (
        postings.short,
        postings.short_shift,
        postings.rectangle,
        postings.rectangles,
    )
    short = short_codes(codes, shift)
    all_short = short.reshape(-1)
    event_of, bucket_of, order = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    block, filled = np.empty(codes.shape[0] * BLOCK, np.uint16), np.empty(codes.shape[0], np.bool_)
    members, marks = np.empty(BLOCK, np.int32), np.empty(RUN, np.uint8)
    words, marked, bits = marks.view(np.uint64), np.empty((RUN + 1, 2), np.int32), np.empty(RUN + 1, np.uint64)
    pairs, used, candidates = found.pairs, found.used, 0
    for table in range(tables.mask.size):
        column_a, column_b = tables.column_a[table], tables.column_b[table]
        first_bucket, buckets = tables.first_bucket[table], tables.mask[table] + 1
        if column_a == HELD:
            continue
        entries = _entries(tables, table, codes, event_of, bucket_of)
        many = entries * FEW >= buckets
        ends = np.zeros(buckets if many else 0, np.int32)
        if many:
            sort_by_bucket(bucket_of, entries, ends, order)
        begin = 0
        while begin < entries:
            bucket = bucket_of[order[begin] if many else begin]
            end = ends[bucket] if many else begin + 1
            first = starts[first_bucket + bucket] - held
            size = starts[first_bucket + bucket + 1] - held - first
            candidates += (end - begin) * size
            if size == 0:
                begin = end
            while begin < end:
                width = min(BLOCK, end - begin) if end - begin >= FEW else 1
                for slot in range(width):
                    members[slot] = event_of[order[begin + slot] if many else begin]
                begin += width
                if width > 1:
                    _enter_block(short, column_a, column_b, members, width, block, filled)
                for start in range(0, size, RUN):
                    run = first, size, start, min(start + RUN, size)
                    if width > 1:
                        likely = _scan_block(
                            fields,
                            rectangle_of,
                            run,
                            column_a,
                            column_b,
                            short,
                            members,
                            width,
                            block,
                            filled,
                            words,
                            marks,
                            marked,
                            bits,
                        )
                    else:
                        event = members[0]
                        a, b = short[event, column_a], short[event, column_b]
                        likely = _scan_event(fields, rectangle_of, run, a, b, short, event, marks, marked, bits)
                    if used + likely * width > len(pairs):
                        pairs = grown(pairs, used + likely * width)
                    if width > 1:
                        used = _accept(
                            fields,
                            run,
                            column_a,
                            column_b,
                            shift,
                            rectangles,
                            codes,
                            members,
                            block,
                            BLOCK,
                            0,
                            marked,
                            bits,
                            likely,
                            pairs,
                            used,
                        )
                    else:
                        used = _accept(
                            fields,
                            run,
                            column_a,
                            column_b,
                            shift,
                            rectangles,
                            codes,
                            members,
                            all_short,
                            1,
                            members[0] * short.shape[1],
                            marked,
                            bits,
                            likely,
                            pairs,
                            used,
                        )
    if postings.conjunction_of.size > 0 or postings.rest.size > 0:
        used = verify_rest(postings, events, postings.conjunction_of, pairs, found.used, used)
    return Found(pairs, used), candidates
