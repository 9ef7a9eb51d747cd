"""Tables of conjunctions that wait for a test: the events look in once for each test that holds."""

import numpy as np
import numpy.typing as npt

from tocsin._compile import LANES, inlined_kernel, kernel, lowest_bit
from tocsin.conjunctions.pairs.kernels import (
    HELD,
    RUN,
    Events,
    Found,
    Int32,
    Postings,
    Tables,
    grown,
    sort_by_bucket,
    verify_rest,
)

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

FEW = 4
"""Fewer events than this in a bucket are verified one by one."""

_OUTSIDE = -2
"""A code that lies in no range."""
_SPREAD = 0x0102040810204080


@inlined_kernel
def _entries(tables: Tables, table: int, events: Events, event_of: Int32, code_of: Int32, bucket_of: Int32) -> int:
    """Write an entry (event, test, bucket) for each test that holds for an event; return how many there are."""
    row_b, shift_a, shift_b = events.row_of[tables.column_b[table]], tables.shift_a[table], tables.shift_b[table]
    multiplier_a, multiplier_b = tables.multiplier_a[table], tables.multiplier_b[table]
    mask, needs_value = tables.mask[table], tables.needs_value[table]
    count = 0
    for event in range(events.codes.shape[1]):
        if needs_value and events.codes[tables.column_b[table], event] < 0:
            continue
        part = (np.int64(events.short[row_b, event]) >> shift_b) * multiplier_b
        for place in range(events.true_starts[event], events.true_starts[event + 1]):
            test = events.true[place]
            event_of[count] = event
            code_of[count] = test
            bucket_of[count] = (((test + 1) >> shift_a) * multiplier_a + part) & mask
            count += 1
    return count


@kernel
def _noted(rows: Int32, posting: int) -> int:
    """The conjunction of a posting, or its complement if there is a rest list to verify."""
    conjunction: int = rows[posting, 0]
    return conjunction if rows[posting, 5] >= 0 else ~conjunction


@kernel
def _scan_event(
    rows: Int32, first: int, last: int, codes: Int32, event: int, a: int, b: int, pairs: Int32, used: int
) -> int:
    """Write the pairs of one event with the postings `first` to `last`; return their end."""
    for posting in range(first, last):
        column_c = rows[posting, 5]
        c = codes[column_c if column_c >= 0 else ~column_c, event]
        # One branch that is seldom taken is cheaper than six that are taken now and then.
        if (
            (a >= rows[posting, 1])
            & (a <= rows[posting, 2])
            & (b >= rows[posting, 3])
            & (b <= rows[posting, 4])
            & (c >= rows[posting, 6])
            & (c <= rows[posting, 7])
        ):
            pairs[used, 0] = event
            pairs[used, 1] = _noted(rows, posting)
            used += 1
    return used


@inlined_kernel
def _bits_of(marks: npt.NDArray[np.uint64]) -> np.uint64:
    """The marks of a block, bytes of 0 or 1 in words of eight, as the bits of one word."""
    bits = np.uint64(0)
    for word in range(LANES // 8):
        byte = (marks[word] * np.uint64(_SPREAD)) >> np.uint64(56)
        bits |= byte << np.uint64(8 * word)
    return bits


@kernel
def _scan_block(
    rows: Int32,
    first: int,
    last: int,
    codes: Int32,
    members: Int32,
    width: int,
    block: Int32,
    filled: Bools,
    marks: Bytes,
    words: Words,
    marked: Int32,
    bits: Words,
) -> int:
    """Note which postings from `first` to `last` have the codes of some member of the block; return how many.

    The block has LANES codes for each column, if `filled`; codes a and b are its last two columns.
    """
    block_a = np.uint64(block.size - 2 * LANES)
    block_b = np.uint64(block.size - LANES)
    count = 0
    for posting in range(first, last):
        column_c = rows[posting, 5] if rows[posting, 5] >= 0 else ~rows[posting, 5]
        if not filled[column_c]:
            filled[column_c] = True
            for slot in range(width):
                block[column_c * LANES + slot] = codes[column_c, members[slot]]
        block_c = np.uint64(column_c * LANES)
        low_a, high_a, low_b, high_b = rows[posting, 1], rows[posting, 2], rows[posting, 3], rows[posting, 4]
        low_c, high_c = rows[posting, 6], rows[posting, 7]
        # Unsigned indexes cannot be negative, so that the compiler makes vectors of this loop.
        for lane in range(np.uint64(LANES)):
            marks[lane] = (
                (block[block_a + lane] >= low_a)
                & (block[block_a + lane] <= high_a)
                & (block[block_b + lane] >= low_b)
                & (block[block_b + lane] <= high_b)
                & (block[block_c + lane] >= low_c)
                & (block[block_c + lane] <= high_c)
            )
        # Many postings have a bit: a branch here would be guessed wrong too often.
        marked[count] = posting
        bits[count] = _bits_of(words)
        count += bits[count] != np.uint64(0)
    return count


@kernel
def _write_block(rows: Int32, members: Int32, marked: Int32, bits: Words, count: int, pairs: Int32, used: int) -> int:
    """Write a pair for each bit of the noted postings; return their end."""
    for number in range(count):
        noted, left = _noted(rows, marked[number]), bits[number]
        while left != np.uint64(0):
            pairs[used, 0] = members[lowest_bit(left)]
            left &= left - np.uint64(1)
            pairs[used, 1] = noted
            used += 1
    return used


@kernel
def match_held(tables: Tables, postings: Postings, events: Events, found: Found) -> tuple[Found, int]:
    """Add the matches in HELD tables, in no order; also return how many candidates were verified for them."""
    codes, starts, rows = events.codes, postings.starts, postings.rows
    most = events.true.size
    event_of, code_of, order = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    bucket_of = np.empty(most, np.int32)
    members, block = np.empty(LANES, np.int32), np.empty((codes.shape[0] + 2) * LANES, np.int32)
    filled, marks = np.empty(codes.shape[0], np.bool_), np.empty(LANES, np.uint8)
    words, marked, bits = marks.view(np.uint64), np.empty(RUN + 1, np.int32), np.empty(RUN + 1, np.uint64)
    block_a, block_b = block.size - 2 * LANES, block.size - LANES
    pairs, used, candidates = found.pairs, found.used, 0
    for table in range(tables.mask.size):
        if tables.column_a[table] != HELD:
            break
        entries = _entries(tables, table, events, event_of, code_of, bucket_of)
        first_bucket, buckets = tables.first_bucket[table], tables.mask[table] + 1
        column_b = tables.column_b[table]
        many = entries * FEW >= buckets
        ends = np.zeros(buckets if many else 0, np.int32)
        if many:
            sort_by_bucket(bucket_of, entries, ends, order)
        begin = 0
        while begin < entries:
            bucket = bucket_of[order[begin] if many else begin]
            end = ends[bucket] if many else begin + 1
            first, last = starts[first_bucket + bucket], starts[first_bucket + bucket + 1]
            candidates += (end - begin) * (last - first)
            if first == last:
                begin = end
            while begin < end:
                width = min(LANES, end - begin) if end - begin >= FEW else 1
                if width == 1:
                    entry = order[begin] if many else begin
                    event = event_of[entry]
                    if used + last - first > len(pairs):
                        pairs = grown(pairs, used + last - first)
                    used = _scan_event(
                        rows, first, last, codes, event, code_of[entry], codes[column_b, event], pairs, used
                    )
                    begin += 1
                    continue
                filled[:] = False
                for slot in range(width):
                    entry = order[begin + slot]
                    members[slot] = event_of[entry]
                    block[block_a + slot] = code_of[entry]
                    block[block_b + slot] = codes[column_b, event_of[entry]]
                block[block_a + width : block_b] = _OUTSIDE
                begin += width
                for start in range(first, last, RUN):
                    stop = min(start + RUN, last)
                    count = _scan_block(
                        rows, start, stop, codes, members, width, block, filled, marks, words, marked, bits
                    )
                    if used + count * width > len(pairs):
                        pairs = grown(pairs, used + count * width)
                    used = _write_block(rows, members, marked, bits, count, pairs, used)
    if postings.rest.size > 0:
        used = verify_rest(postings, events, np.empty(0, np.int32), pairs, found.used, used)
    return Found(pairs, used), candidates
