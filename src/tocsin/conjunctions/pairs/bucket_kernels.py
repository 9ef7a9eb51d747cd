"""The buckets of one grid: their postings against the events that look into them.

Short codes are compared first, many at once, and nearly always decide. An event whose short code is that of an end of a
range may lie on either side of it; only then its full codes are compared with those of the rectangle. If there are no
full codes, such a pair becomes a *doubt*: a row (event, tagged rectangle, column a, column b).

A *tagged* rectangle is its number, or ~number if its conjunction has a rest list.

`match_few` is called for single buckets and takes a flat list: Numba counts references for every array that is taken
out of a tuple, at every call (measurements in `_compile.py`). `match_table` is called once a table, takes NamedTuples
and takes the arrays out before its loops.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import (
    VECTOR_WIDTH,
    admit,
    are_within,
    contain,
    count_bits,
    fetch,
    inlined_kernel,
    kernel,
    lie_on_ends,
    lowest_bit,
)
from tocsin.arrays import Int32s, Int64s, UInt16s, UInt64s
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.pairs.kernels import (
    COLUMN_C,
    EVENT,
    FOUND,
    HIGH_A,
    HIGH_B,
    HIGH_C,
    LOW_A,
    LOW_B,
    LOW_C,
    SHORT_COLUMN_C,
    SHORT_FIELDS,
    SHORT_HIGH_C,
    SHORT_LOW_A,
    SHORT_LOW_B,
    SHORT_LOW_C,
    WORDS_PER_FLUSH,
    Postings,
    grown,
)
from tocsin.conjunctions.pairs.layout_kernels import block_count
from tocsin.tuning import TUNING

FEW_EVENTS = TUNING.few_events
DOUBT_EVENT, DOUBT_TAGGED, DOUBT_COLUMN_A, DOUBT_COLUMN_B = range(4)
"""The columns of a doubt."""
WORD_TAGGED, WORD_BEGIN = range(2)
"""What a word of match bits belongs to: its tagged rectangle, and the place in `order` of its first event."""


class GridTable(NamedTuple):
    """One table that is a grid, and the events of a batch laid out for it (see `layout_kernels.py`)."""

    column_a: int
    column_b: int
    starts: Int64s
    """Where the postings of its buckets start among all postings; one more entry at the end."""
    order: Int32s
    ends: Int32s
    blocks: UInt16s
    block_size: int
    """The codes in a block."""
    place_of: Int32s
    """The place of each column among the rows of a block."""


class GridMatches(NamedTuple):
    """The matches in grids so far: `used` of the pairs, with tagged rectangles, and `doubted` of the doubts."""

    pairs: Int32s
    used: int
    doubts: Int32s
    doubted: int


@kernel
def is_end(short: UInt16s, low: int, size: int, code: int) -> bool:
    """Tell whether a short code is the low end of a posting, at place `low`, or its high end, one field further."""
    is_end: bool = (short[low] == code) | (short[low + size] == code)
    return is_end


@kernel
def holds_in_full(rectangles: Int32s, tagged: int, codes: Int32s, column_a: int, column_b: int, event: int) -> bool:
    """Tell whether the full codes of an event lie in a rectangle."""
    rectangle = rectangles[tagged if tagged >= 0 else ~tagged]
    a, b, c = codes[column_a, event], codes[column_b, event], codes[rectangle[COLUMN_C], event]
    holds: bool = (
        (a >= rectangle[LOW_A])
        & (a <= rectangle[HIGH_A])
        & (b >= rectangle[LOW_B])
        & (b <= rectangle[HIGH_B])
        & (c >= rectangle[LOW_C])
        & (c <= rectangle[HIGH_C])
    )
    return holds


@inlined_kernel
def write_doubt(doubts: Int32s, doubted: int, event: int, tagged: int, column_a: int, column_b: int) -> int:
    """Write a pair that full codes must decide; return the end of the doubts."""
    doubts[doubted, DOUBT_EVENT] = event
    doubts[doubted, DOUBT_TAGGED] = tagged
    doubts[doubted, DOUBT_COLUMN_A] = column_a
    doubts[doubted, DOUBT_COLUMN_B] = column_b
    return doubted + 1


@kernel
def match_few(
    fields: UInt16s,
    rectangle_of: Int32s,
    shift: Int32s,
    rectangles: Int32s,
    codes: Int32s,
    short: UInt16s,
    row_of: Int32s,
    short_by_event: UInt16s,
    column_a: int,
    column_b: int,
    first: int,
    size: int,
    order: Int32s,
    begin: int,
    end: int,
    pairs: Int32s,
    used: int,
    doubts: Int32s,
    doubted: int,
) -> tuple[Int32s, int, Int32s, int]:
    """Match the events `order[begin:end]`, one by one, with the `size` postings of a bucket that starts at `first`.

    `fields` to `rectangles` are those of Postings, `codes` to `short_by_event` those of Events. Return GridMatches.
    """
    most = (end - begin) * size
    if used + most > len(pairs):
        pairs = grown(pairs, used + most)
    if doubted + most > len(doubts):
        doubts = grown(doubts, doubted + most)
    unsure_a, unsure_b = shift[column_a] != 0, shift[column_b] != 0
    row_a, row_b = row_of[column_a], row_of[column_b]
    for number in range(begin, end):
        event = order[number]
        a, b = short[row_a, event], short[row_b, event]
        for start in range(0, size, VECTOR_WIDTH):
            field, low_a = np.uint64(size), np.uint64(SHORT_FIELDS * first + start)
            low_b = low_a + np.uint64(SHORT_LOW_B) * field
            column = low_a + np.uint64(SHORT_COLUMN_C) * field
            left = contain(fields, (low_a, low_b), (low_a + field, low_b + field), (a, b))
            row = np.uint64(event * VECTOR_WIDTH)
            left &= admit(fields, column, column + field, column + field + field, short_by_event, row)
            if size - start < VECTOR_WIDTH:
                # The vector reads on into the next field.
                left &= (np.uint64(1) << np.uint64(size - start)) - np.uint64(1)
            while left != np.uint64(0):
                place = start + lowest_bit(left)
                left &= left - np.uint64(1)
                at = SHORT_FIELDS * first + place
                column_c = np.int64(fields[at + SHORT_COLUMN_C * size])
                # The vector of an event has its first columns only.
                c = short[row_of[column_c], event]
                if (c < fields[at + SHORT_LOW_C * size]) | (c > fields[at + SHORT_HIGH_C * size]):
                    continue
                tagged = rectangle_of[first + place]
                unsure = unsure_a & is_end(fields, at + SHORT_LOW_A * size, size, a)
                unsure |= unsure_b & is_end(fields, at + SHORT_LOW_B * size, size, b)
                unsure |= (shift[column_c] != 0) & is_end(fields, at + SHORT_LOW_C * size, size, c)
                if unsure and codes.shape[1] == 0:
                    doubted = write_doubt(doubts, doubted, event, tagged, column_a, column_b)
                    continue
                if unsure and not holds_in_full(rectangles, tagged, codes, column_a, column_b, event):
                    continue
                pairs[used, EVENT] = event
                pairs[used, FOUND] = tagged
                used += 1
    return pairs, used, doubts, doubted


@kernel
def _decide(
    doubtful: np.uint64,
    tagged: int,
    column_a: int,
    column_b: int,
    rectangles: Int32s,
    codes: Int32s,
    order: Int32s,
    begin: int,
    doubts: Int32s,
    doubted: int,
) -> tuple[np.uint64, int]:
    """Return which of the doubtful bits match by the full codes of their events; without full codes, write doubts."""
    matching = np.uint64(0)
    while doubtful != np.uint64(0):
        lowest = doubtful & (~doubtful + np.uint64(1))
        doubtful ^= lowest
        event = order[begin + lowest_bit(lowest)]
        if codes.shape[1] == 0:
            doubted = write_doubt(doubts, doubted, event, tagged, column_a, column_b)
        elif holds_in_full(rectangles, tagged, codes, column_a, column_b, event):
            matching |= lowest
    return matching, doubted


@kernel
def _expand_words(
    order: Int32s, words_of: Int32s, words: UInt64s, count: int, total: int, pairs: Int32s, used: int
) -> tuple[Int32s, int]:
    """Write a pair for each of the `total` bits of `count` words that are not 0; there is room for one more word."""
    if used + total > len(pairs):
        pairs = grown(pairs, used + total)
    words[count] = np.uint64(1)
    number, left = np.uint64(0), words[0]
    for place in range(np.uint64(used), np.uint64(used + total)):
        pairs[place, EVENT] = order[np.uint64(words_of[number, WORD_BEGIN]) + np.uint64(lowest_bit(left))]
        pairs[place, FOUND] = words_of[number, WORD_TAGGED]
        left &= left - np.uint64(1)
        # Go on to the next word without a branch, which would be mispredicted every other time.
        number += np.uint64(left == np.uint64(0))
        left = words[number] if left == np.uint64(0) else left
    return pairs, used + total


@kernel
def match_table(
    postings: Postings,
    events: Events,
    short_by_event: UInt16s,
    table: GridTable,
    words_of: Int32s,
    words: UInt64s,
    matches: GridMatches,
) -> tuple[GridMatches, int]:
    """Add the matches of the events that are laid out for a table; also return how many candidates were verified.

    `words_of` and `words` are scratch: the bits of matches are collected there and become pairs when there are many.
    The loops are all in this kernel, since a call would cost as much as a small bucket; only `match_few` is worth one.
    """
    fields, rectangle_of, shift, rectangles = (
        postings.short,
        postings.rectangle,
        postings.short_shift,
        postings.rectangles,
    )
    codes, short, row_of = events.codes, events.short, events.row_of
    column_a, column_b, starts, order = table.column_a, table.column_b, table.starts, table.order
    ends, blocks, block_size, place_of = table.ends, table.blocks, table.block_size, table.place_of
    pairs, used, doubts, doubted = matches.pairs, matches.used, matches.doubts, matches.doubted
    by_test = len(postings.rows)
    place_a, place_b = place_of[column_a] * VECTOR_WIDTH, place_of[column_b] * VECTOR_WIDTH
    not_sure_a, not_sure_b = np.uint64(shift[column_a] != 0), np.uint64(shift[column_b] != 0)
    count, total, candidates = 0, 0, 0
    begin, origin = 0, 0
    for bucket in range(ends.size):
        end = int(ends[bucket])
        first, size = starts[bucket] - by_test, starts[bucket + 1] - starts[bucket]
        candidates += (end - begin) * size
        next_first, next_end = starts[bucket + 1] - by_test, starts[min(bucket + 2, ends.size)] - by_test
        if next_end - next_first >= VECTOR_WIDTH:
            # Prefetch the next bucket: a cache line has 16 rectangles or VECTOR_WIDTH fields.
            for place in range(next_first, next_end, VECTOR_WIDTH // 2):
                fetch(rectangle_of, np.uint64(place))
            for place in range(SHORT_FIELDS * next_first, SHORT_FIELDS * next_end, VECTOR_WIDTH):
                fetch(fields, np.uint64(place))
        if size == 0:
            origin += block_count(end - begin) * block_size
            begin = end
        # Unsigned indexes cannot be negative, so that the compiler need not check for that.
        field, first_low, first_rectangle = np.uint64(size), np.uint64(SHORT_FIELDS * first), np.uint64(first)
        while begin < end:
            width = min(VECTOR_WIDTH, end - begin)
            if size >= VECTOR_WIDTH and width <= FEW_EVENTS and short_by_event.size > 0:
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
                    first,
                    size,
                    order,
                    begin,
                    begin + width,
                    pairs,
                    used,
                    doubts,
                    doubted,
                )
                begin += width
                origin += block_size
                continue
            block_a, block_b = np.uint64(place_a + origin), np.uint64(place_b + origin)
            # The codes of a block from `width` on are not events of this bucket.
            in_block = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
            unsure_a, unsure_b = in_block * not_sure_a, in_block * not_sure_b
            for place in range(np.uint64(size)):
                low_a = first_low + place
                low_b, low_c = low_a + np.uint64(SHORT_LOW_B) * field, low_a + np.uint64(SHORT_LOW_C) * field
                column_c = np.uint64(fields[low_a + np.uint64(SHORT_COLUMN_C) * field])
                places = block_a, block_b, np.uint64(place_of[column_c] * VECTOR_WIDTH + origin)
                lows = fields[low_a], fields[low_b], fields[low_c]
                highs = fields[low_a + field], fields[low_b + field], fields[low_c + field]
                unsure = unsure_a, unsure_b, in_block * np.uint64(shift[column_c] != 0)
                word = are_within(blocks, places, lows, highs) & in_block
                doubtful = word & lie_on_ends(blocks, places, lows, highs, unsure)
                tagged = rectangle_of[first_rectangle + place]
                if doubtful != np.uint64(0):
                    if doubted + VECTOR_WIDTH > len(doubts):
                        doubts = grown(doubts, doubted + VECTOR_WIDTH)
                    matching, doubted = _decide(
                        doubtful, tagged, column_a, column_b, rectangles, codes, order, begin, doubts, doubted
                    )
                    word ^= doubtful ^ matching
                # Half of the postings have a bit: a branch here would be mispredicted too often.
                words_of[count, WORD_TAGGED] = tagged
                words_of[count, WORD_BEGIN] = begin
                words[count] = word
                count += int(word != np.uint64(0))
                total += count_bits(word)
                if count == WORDS_PER_FLUSH:
                    pairs, used = _expand_words(order, words_of, words, count, total, pairs, used)
                    count, total = 0, 0
            begin += width
            origin += block_size
    pairs, used = _expand_words(order, words_of, words, count, total, pairs, used)
    return GridMatches(pairs, used, doubts, doubted), candidates
