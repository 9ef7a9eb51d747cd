"""File conjunctions of wide ranges in bitmaps: their order, the cells of columns, rows and bitsets."""

from dataclasses import dataclass

import numpy as np

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, UInt64s
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
    arrange,
    count_dead,
    mark_dead,
    set_bits,
    set_edges,
)
from tocsin.conjunctions.coded import Conjunctions, RangePredicates, range_predicates
from tocsin.tuning import TUNING

NO_BOUND = np.iinfo(np.int32).max
"""Instead of the first code of a cell that a column does not have."""


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

        A column of few codes has a cell for each of them; the bitsets of its cells are exact.
        """
        columns = np.unique(conjunctions.column)
        bounds = np.full((columns.size, MAX_CELLS), NO_BOUND, np.int32)
        counts = np.empty(columns.size, np.int32)
        for number, column in enumerate(columns.tolist()):
            codes = int(conjunctions.last_code[column]) + 1
            counts[number] = cells = min(MAX_CELLS, 1 << (codes - 1).bit_length())
            if codes <= cells:
                bounds[number, :codes] = np.arange(codes)
                continue
            share = popularity[column]
            quantiles = share[0] + (share[-1] - share[0]) * np.arange(cells) / cells
            bounds[number, :cells] = np.searchsorted(share[1:], quantiles, side="right")
            bounds[number, 0] = 0
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


@dataclass(frozen=True)
class _Accepted:
    """The cells that each predicate accepts, in the order of `RangePredicates`."""

    column: Int32s
    """By its number among those of the cells."""
    cells: UInt64s
    """The cells with some code that is accepted, as bits."""
    whole: UInt64s
    """The cells of which one range accepts all codes."""
    null: Bools
    middle: Int32s
    """The sum of the first and the last cell."""


def file_conjunctions(conjunctions: Conjunctions, popularity: list[Float64s]) -> tuple[Cells, Bitmaps, Demands]:
    """File every conjunction; for the arguments see `BitmapIndex.build`."""
    predicates = range_predicates(conjunctions, popularity)
    cells = Cells.of(conjunctions, popularity)
    accepted = _accepted(conjunctions, predicates, cells)
    thousandths = np.clip(predicates.selectivity * 1000, 0, 1000).astype(np.int64)
    order = arrange(predicates.starts, accepted.column, accepted.middle, thousandths, cells.columns.size)
    rows, starts = _in_order(predicates.starts, order)
    expected = np.exp(np.bincount(predicates.conjunction, np.log(predicates.selectivity + 1e-9), conjunctions.count))
    of_tests = np.bincount(conjunctions.test_conjunction, minlength=conjunctions.count) > 0
    bitmaps = _bitmaps(rows, starts, accepted, cells, np.where(of_tests, 0.0, expected)[order])
    return cells, bitmaps, _demands(conjunctions, predicates, order, rows, starts)


def _accepted(conjunctions: Conjunctions, predicates: RangePredicates, cells: Cells) -> _Accepted:
    rows = conjunctions.column.size
    number = np.searchsorted(cells.columns, conjunctions.column).astype(np.int32)
    is_null = conjunctions.high < 0
    low = cells.of_codes(number, np.maximum(conjunctions.low, 0)).astype(np.uint64)
    high = cells.of_codes(number, np.maximum(conjunctions.high, 0)).astype(np.uint64)
    # Cells begin at their bounds: a range leaves out the first or the last cell unless it has all codes of it.
    starts_inside = cells.bounds[number, low] < conjunctions.low
    next_bound = np.where(high + 1 < MAX_CELLS, cells.bounds[number, np.minimum(high + 1, MAX_CELLS - 1)], NO_BOUND)
    last = np.minimum(next_bound.astype(np.int64) - 1, conjunctions.last_code[conjunctions.column])
    ends_inside = conjunctions.high < last
    bits = np.where(is_null, np.uint64(0), _bits(low, high))
    whole = np.where(is_null, np.uint64(0), _bits(low + starts_inside, high) & ~(ends_inside.astype(np.uint64) << high))
    null = conjunctions.low < 0
    if rows:
        starts = np.sort(predicates.first)
        predicate = np.searchsorted(starts, predicates.first)
        bits, whole = (np.bitwise_or.reduceat(each, starts)[predicate] for each in (bits, whole))
        null = np.logical_or.reduceat(null, starts)[predicate]
    middle = low[predicates.first] + high[predicates.end - 1]
    return _Accepted(number[predicates.first], bits, whole, null, middle.astype(np.int32))


def _bits(low: UInt64s, high: UInt64s) -> UInt64s:
    """Return words with the bits `low` to `high` set; none if low is higher. Neither is more than 64."""
    one = np.uint64(1)
    below = np.where(low < 64, (one << np.minimum(low, np.uint64(63))) - one, ~np.uint64(0))
    return (((one << high) - one) << one | one) & ~below


def _bitmaps(rows: Int64s, starts: Int64s, accepted: _Accepted, cells: Cells, expected: Float64s) -> Bitmaps:
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
    shift = np.zeros(keys.size, np.int32)
    for _ in range(MAX_CELLS.bit_length()):
        size = cells.counts[column] >> shift
        shift += (size > TUNING.min_row_cells) & (size > named[keys] // TUNING.named_per_cell)
    sizes = (cells.counts[column] >> shift).astype(np.int64) + 1
    ends = np.concatenate([[0], np.cumsum(sizes)])
    row_starts = np.searchsorted(block, np.arange(blocks + 1)).astype(np.int64)
    bitset_starts = ends[row_starts]
    row_of = np.full(blocks * columns, -1, np.int32)
    row_of[keys] = np.arange(keys.size)
    often = np.bincount(np.arange(count) // BLOCK, expected, blocks) > TUNING.edge_matches * BLOCK
    edge_words = np.where(often, np.diff(bitset_starts) * BITSET_WORDS, 0)
    partial = np.zeros(blocks * BITSET_WORDS * 64, bool)
    partial[:count] = expected == 0
    bitmaps = Bitmaps(
        row_starts=row_starts,
        pruning_ends=np.empty(blocks, np.int64),
        column=column,
        shift=shift,
        bitset_starts=bitset_starts,
        first_bitset=(ends[:-1] - bitset_starts[block]).astype(np.int32),
        dead=np.zeros(int(ends[-1]), np.uint8),
        words=_aligned_zeros(int(ends[-1]) * BITSET_WORDS),
        edges_from=np.where(often, np.cumsum(edge_words) - edge_words, -1),
        edges=_aligned_zeros(int(edge_words.sum())),
        partial=np.packbits(partial, bitorder="little").view(np.uint64),
    )
    counts = cells.counts[accepted.column]
    set_bits(rows, row_of[key_of], place, accepted.cells, accepted.null, counts, bitmaps)
    if often.any():
        set_edges(rows, row_of[key_of], place, accepted.whole, accepted.null, counts, bitmaps)
    mark_dead(bitmaps, count)
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
