"""One bucket of a grid: its postings against the events that look into it.

Short codes are compared first, many at once, and decide nearly always. An event whose short code is that of an end of a
range may lie on either side of it; only then its full codes are compared with those of the rectangle. If there are no
full codes, such a pair becomes a *doubt*: two rows, (event, rectangle) and (column a, column b).
"""

import numpy as np
import numpy.typing as npt

from tocsin._compile import (
    LANES,
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
from tocsin.conjunctions.pairs.kernels import RUN, Int32, Int64, Short, grown
from tocsin.conjunctions.pairs.layout import blocks_of

Words = npt.NDArray[np.uint64]

FIELDS = 7
FEW = 8
"""So few events of a bucket are compared one by one, each with LANES postings at once, if it has as many."""


@kernel
def _is_end(fields: Short, at: int, size: int, code: int) -> bool:
    """Whether a short code is that of the low or the high end that stand at `at` and one field further."""
    is_end: bool = (fields[at] == code) | (fields[at + size] == code)
    return is_end


@kernel
def _holds_in_full(rectangles: Int32, noted: int, codes: Int32, column_a: int, column_b: int, event: int) -> bool:
    rectangle = rectangles[noted if noted >= 0 else ~noted]
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


@inlined_kernel
def _doubt(doubts: Int32, doubted: int, event: int, noted: int, column_a: int, column_b: int) -> int:
    """Note a pair that full codes must decide, and its columns; return the end of the doubts."""
    doubts[doubted, 0] = event
    doubts[doubted, 1] = noted
    doubts[doubted + 1, 0] = column_a
    doubts[doubted + 1, 1] = column_b
    return doubted + 2


@kernel
def match_few(
    fields: Short,
    rectangle_of: Int32,
    shift: Int32,
    rectangles: Int32,
    codes: Int32,
    short: Short,
    row_of: Int32,
    rows: Short,
    column_a: int,
    column_b: int,
    first: int,
    size: int,
    order: Int32,
    begin: int,
    end: int,
    pairs: Int32,
    used: int,
    doubts: Int32,
    doubted: int,
) -> tuple[Int32, int, Int32, int]:
    """Add the pairs of the events `order[begin:end]`, one by one, with the postings of a bucket, and the doubts."""
    most = (end - begin) * size
    if used + most > len(pairs):
        pairs = grown(pairs, used + most)
    if doubted + 2 * most > len(doubts):
        doubts = grown(doubts, doubted + 2 * most)
    unsure_a, unsure_b = shift[column_a] != 0, shift[column_b] != 0
    row_a, row_b = row_of[column_a], row_of[column_b]
    for number in range(begin, end):
        event = order[number]
        a, b = short[row_a, event], short[row_b, event]
        for start in range(0, size, LANES):
            field, low_a = np.uint64(size), np.uint64(FIELDS * first + start)
            low_b, column = low_a + np.uint64(2) * field, low_a + np.uint64(4) * field
            left = contain(fields, (low_a, low_b), (low_a + field, low_b + field), (a, b))
            left &= admit(fields, column, column + field, column + field + field, rows, np.uint64(event * LANES))
            if size - start < LANES:
                # The lanes behind the bucket are other fields.
                left &= (np.uint64(1) << np.uint64(size - start)) - np.uint64(1)
            while left != np.uint64(0):
                place = start + lowest_bit(left)
                left &= left - np.uint64(1)
                at = FIELDS * first + place
                column_c = np.int64(fields[at + 4 * size])
                c = short[row_of[column_c], event]
                if (c < fields[at + 5 * size]) | (c > fields[at + 6 * size]):
                    continue
                noted = rectangle_of[first + place]
                unsure = unsure_a & _is_end(fields, at, size, a)
                unsure |= unsure_b & _is_end(fields, at + 2 * size, size, b)
                unsure |= (shift[column_c] != 0) & _is_end(fields, at + 5 * size, size, c)
                if unsure and codes.shape[1] == 0:
                    doubted = _doubt(doubts, doubted, event, noted, column_a, column_b)
                    continue
                if unsure and not _holds_in_full(rectangles, noted, codes, column_a, column_b, event):
                    continue
                pairs[used, 0] = event
                pairs[used, 1] = noted
                used += 1
    return pairs, used, doubts, doubted


@kernel
def _decide(
    doubtful: np.uint64,
    noted: int,
    column_a: int,
    column_b: int,
    rectangles: Int32,
    codes: Int32,
    order: Int32,
    begin: int,
    doubts: Int32,
    doubted: int,
) -> tuple[np.uint64, int]:
    """The bits of doubtful events that match, by their full codes; if there are none, they are doubts."""
    matching = np.uint64(0)
    while doubtful != np.uint64(0):
        lowest = doubtful & (~doubtful + np.uint64(1))
        doubtful ^= lowest
        event = order[begin + lowest_bit(lowest)]
        if codes.shape[1] == 0:
            doubted = _doubt(doubts, doubted, event, noted, column_a, column_b)
        elif _holds_in_full(rectangles, noted, codes, column_a, column_b, event):
            matching |= lowest
    return matching, doubted


@kernel
def _write_notes(
    order: Int32, noted: Int32, bits: Words, count: int, total: int, pairs: Int32, used: int
) -> tuple[Int32, int]:
    """Add a pair for each of the `total` bits of `count` notes."""
    if used + total > len(pairs):
        pairs = grown(pairs, used + total)
    bits[count] = np.uint64(1)
    number, left = np.uint64(0), bits[0]
    for place in range(np.uint64(used), np.uint64(used + total)):
        pairs[place, 0] = order[np.uint64(noted[number, 1]) + np.uint64(lowest_bit(left))]
        pairs[place, 1] = noted[number, 0]
        left &= left - np.uint64(1)
        # To go on to the next word without a branch: it would be guessed wrong every other time.
        number += np.uint64(left == np.uint64(0))
        left = bits[number] if left == np.uint64(0) else left
    return pairs, used + total


@kernel
def match_table(
    fields: Short,
    rectangle_of: Int32,
    shift: Int32,
    rectangles: Int32,
    codes: Int32,
    short: Short,
    row_of: Int32,
    rows: Short,
    place_of: Int32,
    column_a: int,
    column_b: int,
    starts: Int64,
    held: int,
    order: Int32,
    ends: Int32,
    laid: Short,
    block: int,
    noted: Int32,
    bits: Words,
    pairs: Int32,
    used: int,
    doubts: Int32,
    doubted: int,
) -> tuple[Int32, int, Int32, int, int]:
    """Add the matches of the events in `order`, laid out in blocks of `block` codes, with all buckets of a table.

    `starts` are those of its buckets, `held` of which are postings of other tables. Return pairs and doubts, each with
    its end, and how many candidates were verified. A note is a word of bits, its rectangle and the place of the first
    event in `order`; notes become pairs when there are many. The loops stand here, since a call would cost as much as a
    small bucket; only few events of a large one are worth it.
    """
    place_a, place_b = place_of[column_a] * LANES, place_of[column_b] * LANES
    not_sure_a, not_sure_b = np.uint64(shift[column_a] != 0), np.uint64(shift[column_b] != 0)
    count, total, candidates = 0, 0, 0
    begin, origin = 0, 0
    for bucket in range(ends.size):
        end = int(ends[bucket])
        first, size = starts[bucket] - held, starts[bucket + 1] - starts[bucket]
        candidates += (end - begin) * size
        next_first, next_end = starts[bucket + 1] - held, starts[min(bucket + 2, ends.size)] - held
        if next_end - next_first >= LANES:
            # While this bucket is looked at, the next one comes into the cache.
            for place in range(next_first, next_end, LANES // 2):
                fetch(rectangle_of, np.uint64(place))
            for place in range(FIELDS * next_first, FIELDS * next_end, LANES):
                fetch(fields, np.uint64(place))
        if size == 0:
            origin += blocks_of(end - begin) * block
            begin = end
        # Unsigned indexes cannot be negative, which would have to be looked at.
        field, first_low, first_rectangle = np.uint64(size), np.uint64(FIELDS * first), np.uint64(first)
        while begin < end:
            width = min(LANES, end - begin)
            if size >= LANES and width <= FEW and rows.size > 0:
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
                origin += block
                continue
            block_a, block_b = np.uint64(place_a + origin), np.uint64(place_b + origin)
            # The lanes from `width` on are none of the bucket's.
            in_block = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
            unsure_a, unsure_b = in_block * not_sure_a, in_block * not_sure_b
            for place in range(np.uint64(size)):
                low_a = first_low + place
                low_b, low_c = low_a + np.uint64(2) * field, low_a + np.uint64(5) * field
                column_c = np.uint64(fields[low_c - field])
                blocks = block_a, block_b, np.uint64(place_of[column_c] * LANES + origin)
                lows = fields[low_a], fields[low_b], fields[low_c]
                highs = fields[low_a + field], fields[low_b + field], fields[low_c + field]
                unsure = unsure_a, unsure_b, in_block * np.uint64(shift[column_c] != 0)
                word = are_within(laid, blocks, lows, highs) & in_block
                doubtful = word & lie_on_ends(laid, blocks, lows, highs, unsure)
                rectangle = rectangle_of[first_rectangle + place]
                if doubtful != np.uint64(0):
                    if doubted + 2 * LANES > len(doubts):
                        doubts = grown(doubts, doubted + 2 * LANES)
                    matching, doubted = _decide(
                        doubtful, rectangle, column_a, column_b, rectangles, codes, order, begin, doubts, doubted
                    )
                    word ^= doubtful ^ matching
                # Half of the postings have a bit: a branch here would be guessed wrong too often.
                noted[count, 0] = rectangle
                noted[count, 1] = begin
                bits[count] = word
                count += int(word != np.uint64(0))
                total += count_bits(word)
                if count == RUN:
                    pairs, used = _write_notes(order, noted, bits, count, total, pairs, used)
                    count, total = 0, 0
            begin += width
            origin += block
    pairs, used = _write_notes(order, noted, bits, count, total, pairs, used)
    return pairs, used, doubts, doubted, candidates
