"""Match a batch with the tables by test: an event looks in once for each test that is TRUE.

`_scan_event`, `_scan_block` and `_write_block` are called for single buckets and take flat lists: Numba counts
references for every array that is taken out of a tuple, at every call (measurements in `_compile.py`).
"""

import numpy as np

from tocsin._compile import VECTOR_WIDTH, inlined_kernel, kernel, lowest_bit
from tocsin.arrays import Bools, Int32s, Int64s, UInt8s, UInt64s
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.pairs.grid_kernels import match_event
from tocsin.conjunctions.pairs.kernels import (
    BY_TEST,
    COLUMN_C,
    CONJUNCTION,
    EVENT,
    FOUND,
    HIGH_A,
    HIGH_B,
    HIGH_C,
    LOW_A,
    LOW_B,
    LOW_C,
    WORDS_PER_FLUSH,
    FoundPairs,
    PairTables,
    Postings,
    grown,
    sort_by_bucket,
    verify_rest,
)
from tocsin.tuning import TUNING

FEW_EVENTS = TUNING.few_events_by_test

_NO_CODE = -2
"""A code that lies in no range."""
_GATHER_BITS = 0x0102040810204080
"""Eight bytes of 0 or 1, times this, have the byte i as bit i of the highest byte of the product."""


@inlined_kernel
def _write_test_entries(
    tables: PairTables, table: int, events: Events, event_of: Int32s, test_of: Int32s, bucket_of: Int32s
) -> int:
    """Write an entry (event, test, bucket) for each test that is TRUE for an event; return how many there are."""
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
            test_of[count] = test
            bucket_of[count] = (((test + 1) >> shift_a) * multiplier_a + part) & mask
            count += 1
    return count


@kernel
def _tagged(rows: Int32s, posting: int) -> int:
    """Return the conjunction of a posting, or its complement (~) if there is a rest list to verify."""
    conjunction: int = rows[posting, CONJUNCTION]
    return conjunction if rows[posting, COLUMN_C] >= 0 else ~conjunction


@kernel
def _scan_event(
    rows: Int32s, first: int, last: int, codes: Int32s, event: int, a: int, b: int, pairs: Int32s, used: int
) -> int:
    """Write the pairs of one event with the postings `first` to `last`; return their end."""
    for posting in range(first, last):
        column_c = rows[posting, COLUMN_C]
        c = codes[column_c if column_c >= 0 else ~column_c, event]
        # One branch that is seldom taken is cheaper than six that are taken now and then.
        if (
            (a >= rows[posting, LOW_A])
            & (a <= rows[posting, HIGH_A])
            & (b >= rows[posting, LOW_B])
            & (b <= rows[posting, HIGH_B])
            & (c >= rows[posting, LOW_C])
            & (c <= rows[posting, HIGH_C])
        ):
            pairs[used, EVENT] = event
            pairs[used, FOUND] = _tagged(rows, posting)
            used += 1
    return used


@inlined_kernel
def _bits_of(marks: UInt64s) -> np.uint64:
    """Return the marks of a block, bytes of 0 or 1 in words of eight, as the bits of one word."""
    bits = np.uint64(0)
    for word in range(VECTOR_WIDTH // 8):
        byte = (marks[word] * np.uint64(_GATHER_BITS)) >> np.uint64(56)
        bits |= byte << np.uint64(8 * word)
    return bits


@kernel
def _scan_block(
    rows: Int32s,
    first: int,
    last: int,
    codes: Int32s,
    members: Int32s,
    width: int,
    block: Int32s,
    filled: Bools,
    marks: UInt8s,
    words: UInt64s,
    marked: Int32s,
    bits: UInt64s,
) -> int:
    """Mark the postings from `first` to `last` that some member of the block satisfies; return how many.

    The block has VECTOR_WIDTH codes for each column, if `filled`; codes a and b are its last two columns. `words` are
    the bytes of `marks`.
    """
    block_a = np.uint64(block.size - 2 * VECTOR_WIDTH)
    block_b = np.uint64(block.size - VECTOR_WIDTH)
    count = 0
    for posting in range(first, last):
        column_c = rows[posting, COLUMN_C] if rows[posting, COLUMN_C] >= 0 else ~rows[posting, COLUMN_C]
        if not filled[column_c]:
            filled[column_c] = True
            for slot in range(width):
                block[column_c * VECTOR_WIDTH + slot] = codes[column_c, members[slot]]
        block_c = np.uint64(column_c * VECTOR_WIDTH)
        low_a, high_a = rows[posting, LOW_A], rows[posting, HIGH_A]
        low_b, high_b = rows[posting, LOW_B], rows[posting, HIGH_B]
        low_c, high_c = rows[posting, LOW_C], rows[posting, HIGH_C]
        # Unsigned indexes cannot be negative, so that the compiler makes vectors of this loop.
        for number in range(np.uint64(VECTOR_WIDTH)):
            marks[number] = (
                (block[block_a + number] >= low_a)
                & (block[block_a + number] <= high_a)
                & (block[block_b + number] >= low_b)
                & (block[block_b + number] <= high_b)
                & (block[block_c + number] >= low_c)
                & (block[block_c + number] <= high_c)
            )
        # Many postings have a bit: a branch here would be mispredicted too often.
        marked[count] = posting
        bits[count] = _bits_of(words)
        count += bits[count] != np.uint64(0)
    return count


@kernel
def _write_block(
    rows: Int32s, members: Int32s, marked: Int32s, bits: UInt64s, count: int, pairs: Int32s, used: int
) -> int:
    """Write a pair for each bit of the marked postings; return their end."""
    for number in range(count):
        tagged, left = _tagged(rows, marked[number]), bits[number]
        while left != np.uint64(0):
            pairs[used, EVENT] = members[lowest_bit(left)]
            left &= left - np.uint64(1)
            pairs[used, FOUND] = tagged
            used += 1
    return used


def block_marks() -> tuple[UInt8s, UInt64s]:
    """Return room for the marks of a block: as bytes, and as words."""
    marks = np.empty(VECTOR_WIDTH, np.uint8)
    return marks, marks.view(np.uint64)


@kernel(looked_up=("found",))
def match_by_test(
    tables: PairTables, postings: Postings, events: Events, found: FoundPairs, marks: UInt8s, words: UInt64s
) -> tuple[FoundPairs, int]:
    """Add the matches in tables by test, in any order; also return how many candidates were verified for them.

    `marks` is work space for VECTOR_WIDTH marks, and `words` the same as words: to see them so takes long to compile.
    """
    codes, starts, rows = events.codes, postings.starts, postings.rows
    most = events.true.size
    event_of, test_of, order = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    bucket_of = np.empty(most, np.int32)
    members, block = np.empty(VECTOR_WIDTH, np.int32), np.empty((codes.shape[0] + 2) * VECTOR_WIDTH, np.int32)
    filled = np.empty(codes.shape[0], np.bool_)
    marked, bits = np.empty(WORDS_PER_FLUSH + 1, np.int32), np.empty(WORDS_PER_FLUSH + 1, np.uint64)
    block_a, block_b = block.size - 2 * VECTOR_WIDTH, block.size - VECTOR_WIDTH
    pairs, used, candidates = found.pairs, found.used, 0
    for table in range(tables.mask.size):
        if tables.column_a[table] != BY_TEST:
            break
        entries = _write_test_entries(tables, table, events, event_of, test_of, bucket_of)
        first_bucket, buckets = tables.first_bucket[table], tables.mask[table] + 1
        column_b = tables.column_b[table]
        many = entries * FEW_EVENTS >= buckets
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
                width = min(VECTOR_WIDTH, end - begin) if end - begin >= FEW_EVENTS else 1
                if width == 1:
                    entry = order[begin] if many else begin
                    event = event_of[entry]
                    if used + last - first > len(pairs):
                        pairs = grown(pairs, used + last - first)
                    used = _scan_event(
                        rows, first, last, codes, event, test_of[entry], codes[column_b, event], pairs, used
                    )
                    begin += 1
                    continue
                filled[:] = False
                for slot in range(width):
                    entry = order[begin + slot]
                    members[slot] = event_of[entry]
                    block[block_a + slot] = test_of[entry]
                    block[block_b + slot] = codes[column_b, event_of[entry]]
                block[block_a + width : block_b] = _NO_CODE
                begin += width
                for start in range(first, last, WORDS_PER_FLUSH):
                    stop = min(start + WORDS_PER_FLUSH, last)
                    count = _scan_block(
                        rows, start, stop, codes, members, width, block, filled, marks, words, marked, bits
                    )
                    if used + count * width > len(pairs):
                        pairs = grown(pairs, used + count * width)
                    used = _write_block(rows, members, marked, bits, count, pairs, used)
    if postings.rest.size > 0:
        used = verify_rest(postings, events, np.empty(0, np.int32), pairs, found.used, used)
    return FoundPairs(pairs, used), candidates


@kernel
def match_event_with_tests(
    grids: Int64s,
    starts_of: Int64s,
    tables: PairTables,
    postings: Postings,
    events: Events,
    marks: UInt8s,
    words: UInt64s,
) -> tuple[Int32s, int]:
    """Do what `match_event` and `match_by_test` do for a batch of one event that comes with its codes.

    In one call: to hand over the arrays takes longer than to look into the tables.
    """
    pairs, candidates, _ = match_event(grids, starts_of, postings, events)
    found, verified = match_by_test(tables, postings, events, FoundPairs(pairs, len(pairs)), marks, words)
    return found.pairs[: found.used], candidates + verified
