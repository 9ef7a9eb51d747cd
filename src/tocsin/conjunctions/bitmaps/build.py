"""File conjunctions of wide ranges in bitmaps: their order, the cells of columns, rows and bitsets."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, UInt64s
from tocsin.conjunctions.bitmaps.arrangement import arrange
from tocsin.conjunctions.bitmaps.kernels import (
    BITSET_WORDS,
    BLOCK,
    DEMAND_COLUMN,
    DEMAND_END,
    DEMAND_FIRST,
    GROUP_WORDS,
    MAX_CELLS,
    Bitmaps,
    Demands,
    count_dead,
    mark_clear,
    mark_dead,
    set_bits,
)
from tocsin.conjunctions.coded import Conjunctions, RangePredicates, range_predicates
from tocsin.tuning import TUNING

NO_BOUND = np.iinfo(np.int32).max
"""Instead of the first code of a cell that a column does not have."""
_WIDEST = MAX_CELLS // 8
"""Cells of a column that are one cell of a row at most, with `TUNING.min_row_cells`."""
NEARLY_ALL = 7 / 8
"""A code that this share of a column's ranges accept has a cell of its own. 300,000 conjunctions of 5 of 20 ranges of
width 0.9: a third of the candidates were doubtful without it. Other values were not measured."""


@dataclass(frozen=True)
class Cells:
    """The cells of the columns that conjunctions name: ranges of codes that events fall into equally often."""

    columns: Int32s
    """The columns, ascending."""
    bounds: Int32s
    """`bounds[i, j]` is the first code of cell j of `columns[i]`."""
    counts: Int32s
    """How many cells each column has: a power of two."""

    @classmethod
    def of(cls, conjunctions: Conjunctions, popularity: list[Float64s]) -> "Cells":
        """Cut the columns that conjunctions name into cells.

        A column of few codes has a cell for each of them; the bitsets of its cells are exact. A code that nearly all
        predicates accept has a cell of its own: where ranges are wide there is one in their middle, with no constant
        for a long way, and many events fall into it.
        """
        columns, starts = np.unique(np.sort(conjunctions.column), return_index=True)
        rows_by_column = np.split(np.argsort(conjunctions.column, kind="stable"), starts[1:])
        bounds = np.full((columns.size, MAX_CELLS), NO_BOUND, np.int32)
        counts = np.empty(columns.size, np.int32)
        for number, (column, rows) in enumerate(zip(columns.tolist(), rows_by_column, strict=False)):
            codes = int(conjunctions.last_code[column]) + 1
            counts[number] = cells = min(MAX_CELLS, 1 << (codes - 1).bit_length())
            if codes <= cells:
                bounds[number, :codes] = np.arange(codes)
                continue
            middle = _accepted_by_most(conjunctions.low[rows], conjunctions.high[rows], codes)
            bounds[number] = _bounds(popularity[column], codes, middle)
        return cls(columns.astype(np.int32), bounds, counts)

    def of_codes(self, number: Int32s, codes: Int32s) -> Int32s:
        """Return the cells of codes, each of the column `columns[number]`; that of NULL is not asked for."""
        cells = np.empty(codes.size, np.int32)
        order = np.argsort(number, kind="stable")
        ends = np.searchsorted(number[order], np.arange(self.columns.size + 1))
        for place, bounds in enumerate(self.bounds):
            rows = order[ends[place] : ends[place + 1]]
            cells[rows] = np.searchsorted(bounds, codes[rows], side="right") - 1
        return cells


def _accepted_by_most(low: Int32s, high: Int32s, codes: int) -> tuple[int, int] | None:
    """Return the first and the last code, in a row, that most ranges accept, if these are nearly all of them."""
    begins = np.bincount(np.maximum(low, 0)[high >= 0], minlength=codes)
    ends = np.bincount(high[high >= 0] + 1, minlength=codes + 1)[:codes]
    accepting = np.cumsum(begins - ends)
    first = int(accepting.argmax())
    fewer = np.flatnonzero(accepting[first:] < accepting[first])
    last = first + int(fewer[0]) - 1 if fewer.size else codes - 1
    return (first, last) if accepting[first] >= NEARLY_ALL * low.size else None


def _bounds(share: Float64s, codes: int, middle: tuple[int, int] | None) -> Int32s:
    """Return the first codes of MAX_CELLS cells that events fall into equally often, by the `share` up to each code.

    The codes of the `middle` have a cell of their own, and behind it are as many cells without codes as the widest
    cells of a row have: so they stay alone in rows with wider cells.
    """

    def between(first: int, end: int, cells: int) -> Int32s:
        quantiles = share[first] + (share[end] - share[first]) * np.arange(cells) / max(cells, 1)
        cut: Int32s = np.searchsorted(share[1:], quantiles, side="right").astype(np.int32)
        cut[:1] = first
        np.clip(cut, first, max(end - 1, first), out=cut)
        return cut

    if middle is None:
        return between(0, codes, MAX_CELLS)
    first, behind = middle[0], middle[1] + 1
    steps = MAX_CELLS // _WIDEST - 1
    below = round(steps * (share[first] - share[0]) / (share[-1] - share[0]))
    below = min(max(below, first > 0), steps - (behind < codes)) * _WIDEST
    own = np.full(_WIDEST, behind, np.int32)
    own[0] = first
    above = np.full(MAX_CELLS - _WIDEST - below, NO_BOUND, np.int32)
    if behind < codes:
        above = between(behind, codes, above.size)
    return np.concatenate([between(0, first, below), own, above])


@dataclass(frozen=True)
class _Accepted:
    """The cells that each predicate accepts, in the order of `RangePredicates`."""

    column: Int32s
    """By its number among those of the cells."""
    cells: UInt64s
    """The cells with some code that is accepted, as bits."""
    null: Bools
    middle: Int32s
    """The sum of the first and the last cell."""


def file_conjunctions(conjunctions: Conjunctions, popularity: list[Float64s]) -> tuple[Cells, Bitmaps, Demands]:
    """File every conjunction; for the arguments see `BitmapIndex.build`."""
    predicates = range_predicates(conjunctions, popularity)
    cells = Cells.of(conjunctions, popularity)
    accepted = _accepted(conjunctions, predicates, cells)
    accepting = np.minimum(TUNING.edge_optimism * predicates.selectivity, 1.0)
    expected = np.exp(np.bincount(predicates.conjunction, np.log(accepting + 1e-9), conjunctions.count))
    order = _order(predicates, accepted, expected, cells.columns.size)
    rows, starts = _in_order(predicates.starts, order)
    of_tests = np.bincount(conjunctions.test_conjunction, minlength=conjunctions.count) > 0
    is_union = predicates.end - predicates.first > 1
    ranges = _Ranges(predicates.low, predicates.high, is_union, conjunctions.last_code[predicates.column])
    bitmaps = _bitmaps(rows, starts, accepted, cells, ranges, np.where(of_tests, 0.0, expected)[order])
    return cells, bitmaps, _demands(conjunctions, predicates, order, rows, starts)


def _order(predicates: RangePredicates, accepted: _Accepted, expected: Float64s, columns: int) -> Int32s:
    """Return the conjunctions in the order of their places.

    Those that are `expected` to match often stay in their own order, behind the others; if they are most, all stay.
    """
    rare = expected <= TUNING.in_order_matches
    if 2 * np.count_nonzero(rare) < rare.size:
        return np.arange(rare.size, dtype=np.int32)
    thousandths = np.clip(predicates.selectivity * 1000, 0, 1000).astype(np.int64)
    numbers = np.flatnonzero(rare).astype(np.int32)
    rows, starts = _in_order(predicates.starts, numbers)
    arranged = arrange(starts, accepted.column[rows], accepted.middle[rows], thousandths[rows], columns)
    return np.concatenate([numbers[arranged], np.flatnonzero(~rare).astype(np.int32)])


def _accepted(conjunctions: Conjunctions, predicates: RangePredicates, cells: Cells) -> _Accepted:
    rows = conjunctions.column.size
    number = np.searchsorted(cells.columns, conjunctions.column).astype(np.int32)
    is_null = conjunctions.high < 0
    low = cells.of_codes(number, np.maximum(conjunctions.low, 0)).astype(np.uint64)
    high = cells.of_codes(number, np.maximum(conjunctions.high, 0)).astype(np.uint64)
    bits = np.where(is_null, np.uint64(0), _bits(low, high))
    null = conjunctions.low < 0
    if rows:
        starts = np.sort(predicates.first)
        predicate = np.searchsorted(starts, predicates.first)
        bits = np.bitwise_or.reduceat(bits, starts)[predicate]
        null = np.logical_or.reduceat(null, starts)[predicate]
    middle = low[predicates.first] + high[predicates.end - 1]
    return _Accepted(number[predicates.first], bits, null, middle.astype(np.int32))


def _bits(low: UInt64s, high: UInt64s) -> UInt64s:
    """Return words with the bits `low` to `high` set; none if low is higher. Neither is more than 64."""
    one = np.uint64(1)
    below = np.where(low < 64, (one << np.minimum(low, np.uint64(63))) - one, ~np.uint64(0))
    return (((one << high) - one) << one | one) & ~below


class _Ranges(NamedTuple):
    """The ranges of predicates, in the order of `RangePredicates`."""

    low: Int32s
    high: Int32s
    is_union: Bools
    """Whether there are further ranges between."""
    last_code: Int32s
    """The last code of the column."""


def _ends(
    ranges: _Ranges, accepted: _Accepted, cells: Cells, bitset_of: Int64s, shift: Int32s, place: Int64s
) -> tuple[Int64s, Int32s, Int32s]:
    """Return the ends of ranges that lie in some cell: their keys, 2 * bitset + (whether high), codes and places.

    `bitset_of` is the first bitset of the row of each predicate, or -1 if its ends are not wanted.
    """
    keys, codes, places = [], [], []
    for is_high, code, inside in (
        (0, ranges.low, ranges.low > 0),
        (1, ranges.high, (ranges.high >= 0) & (ranges.high < ranges.last_code)),
    ):
        wanted = np.flatnonzero(inside & (bitset_of >= 0))
        cell = cells.of_codes(accepted.column[wanted], code[wanted]) >> shift[wanted]
        keys.append(2 * (bitset_of[wanted] + cell) + is_high)
        codes.append(code[wanted])
        places.append(place[wanted])
    return np.concatenate(keys), np.concatenate(codes), np.concatenate(places).astype(np.int32)


def _bitmaps(
    rows: Int64s, starts: Int64s, accepted: _Accepted, cells: Cells, ranges: _Ranges, expected: Float64s
) -> Bitmaps:
    """Make the rows of each block and their bitsets; `rows` has the predicates of each place, from its start on.

    `expected` is the share of events that the conjunction of each place is expected to match; 0 if it has tests.
    """
    count, columns = starts.size - 1, cells.columns.size
    blocks = -(-count // BLOCK)
    place = np.empty(rows.size, np.int64)
    place[rows] = np.repeat(np.arange(count), np.diff(starts))
    key_of = place // BLOCK * columns + accepted.column
    named = np.bincount(key_of, minlength=blocks * columns)
    keys = np.flatnonzero(named >= TUNING.min_named)
    block, column = keys // max(columns, 1), (keys % max(columns, 1)).astype(np.int32)
    often = np.bincount(np.arange(count) // BLOCK, expected, blocks) > TUNING.edge_matches * BLOCK
    named_per_cell = np.where(often, -(-TUNING.named_per_cell // 2), TUNING.named_per_cell)[block]
    shift = np.zeros(keys.size, np.int32)
    for _ in range(MAX_CELLS.bit_length()):
        size = cells.counts[column] >> shift
        shift += (size > TUNING.min_row_cells) & (size > named[keys] // named_per_cell)
    sizes = (cells.counts[column] >> shift).astype(np.int64) + 1
    ends = np.concatenate([[0], np.cumsum(sizes)])
    row_starts = np.searchsorted(block, np.arange(blocks + 1)).astype(np.int64)
    bitset_starts = ends[row_starts]
    row_of = np.full(blocks * columns, -1, np.int32)
    row_of[keys] = np.arange(keys.size)
    partial = np.zeros(blocks * BITSET_WORDS * 64, bool)
    partial[:count] = expected == 0
    row = row_of[key_of]
    is_exact = (cells.counts[accepted.column] > ranges.last_code) & (np.append(shift, 0)[row] == 0)
    partial[place[ranges.is_union & ~is_exact]] = True
    of_row = np.where((row >= 0) & often[place // BLOCK] & ~ranges.is_union & ~is_exact, row, -1)
    bitset_of = np.append(ends[:-1], -1)[of_row]
    end_key, end_code, end_place = _ends(ranges, accepted, cells, bitset_of, np.append(shift, 0)[of_row], place % BLOCK)
    in_order = np.argsort(end_key << 32 | end_code)
    bitmaps = Bitmaps(
        row_starts=row_starts,
        pruning_ends=np.empty(blocks, np.int64),
        column=column,
        shift=shift,
        bitset_starts=bitset_starts,
        first_bitset=(ends[:-1] - bitset_starts[block]).astype(np.int32),
        dead=np.zeros(int(ends[-1]), np.uint8),
        words=_aligned_zeros(int(ends[-1]) * BITSET_WORDS),
        has_ends=often,
        end_starts=np.concatenate([[0], np.cumsum(np.bincount(end_key, minlength=2 * int(ends[-1])))]),
        end_code=end_code[in_order],
        end_place=end_place[in_order].astype(np.uint16),
        partial=np.packbits(partial, bitorder="little").view(np.uint64),
        clear=np.zeros(int(ends[-1]), bool),
    )
    counts = cells.counts[accepted.column]
    set_bits(rows, row, place, accepted.cells, accepted.null, counts, bitmaps)
    mark_dead(bitmaps, count)
    mark_clear(bitmaps)
    # The rows that kill most groups first, the others by how many conjunctions they may rule out.
    kills = count_dead(bitmaps, sizes) / sizes
    order = np.lexsort((-named[keys], -kills, block))
    return bitmaps._replace(
        pruning_ends=row_starts[:-1] + np.bincount(block[kills > 0], minlength=blocks),
        column=column[order],
        shift=shift[order],
        first_bitset=bitmaps.first_bitset[order],
    )


def _demands(
    conjunctions: Conjunctions, predicates: RangePredicates, order: Int32s, rows: Int64s, starts: Int64s
) -> Demands:
    """Write down what each conjunction demands, in the order of places."""
    first, end = predicates.first[rows], predicates.end[rows]
    demanded = np.stack([predicates.column[rows], predicates.low[rows], predicates.high[rows]], axis=1)
    unions = np.flatnonzero(end - first > 1)
    sizes = (end - first)[unions].astype(np.int64)
    range_ends = np.cumsum(sizes)
    ranges = np.repeat(first[unions] - (range_ends - sizes), sizes) + np.arange(int(sizes.sum()))
    demanded[unions, DEMAND_COLUMN] = ~demanded[unions, DEMAND_COLUMN]
    demanded[unions, DEMAND_FIRST] = range_ends - sizes
    demanded[unions, DEMAND_END] = range_ends
    of_tests = np.searchsorted(conjunctions.test_conjunction, np.arange(conjunctions.count + 1)).astype(np.int64)
    tests, test_starts = _in_order(of_tests, order)
    test = conjunctions.test[tests]
    tested = np.stack([test, conjunctions.test_accepts[tests], conjunctions.test_null_column[test]], axis=1)
    return Demands(
        conjunction=order,
        starts=starts,
        predicates=demanded.astype(np.int32),
        ranges=np.stack([conjunctions.low[ranges], conjunctions.high[ranges]], axis=1),
        test_starts=test_starts,
        tests=tested.astype(np.int32),
    )


def _aligned_zeros(size: int) -> UInt64s:
    """Return zeros that begin with a cache line, so that no vector lies in two of them."""
    words = np.zeros(size + GROUP_WORDS, np.uint64)
    beyond = words.ctypes.data % (8 * GROUP_WORDS) // 8
    return words[GROUP_WORDS - beyond :][:size]


def _in_order(starts: Int64s, order: Int32s) -> tuple[Int64s, Int64s]:
    """Return the rows of conjunctions in another order, and where those of each start then."""
    sizes = np.diff(starts)[order]
    new_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return np.repeat(starts[:-1][order] - new_starts[:-1], sizes) + np.arange(new_starts[-1]), new_starts
