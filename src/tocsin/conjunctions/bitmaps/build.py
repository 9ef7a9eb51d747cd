"""File conjunctions of wide ranges in bitmaps: their order, the cells of columns, rows, bitsets and ends."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, UInt64s
from tocsin.conjunctions.bitmaps.arrangement import arrange, by_families_of_columns
from tocsin.conjunctions.bitmaps.dense import (
    DENSE_BLOCK,
    LINE,
    LINE_WORDS,
    REGION_BLOCKS,
    REGION_LINES,
    DenseBlocks,
    mark_clear_bitsets,
    words_of,
)
from tocsin.conjunctions.bitmaps.kernels import (
    BITSET_WORDS,
    BLOCK,
    DEMAND_COLUMN,
    DEMAND_END,
    DEMAND_FIRST,
    GROUP,
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
_AT_ONCE = 1 << 21
"""Predicates whose bits are set together: what that takes is 70 bytes for each."""
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


def file_conjunctions(
    conjunctions: Conjunctions, popularity: list[Float64s]
) -> tuple[Cells, Bitmaps, DenseBlocks, Demands]:
    """File every conjunction; for the arguments see `BitmapIndex.build`."""
    predicates = range_predicates(conjunctions, popularity)
    expected = expected_matches(predicates)
    cells = Cells.of(conjunctions, popularity)
    accepted = _accepted(conjunctions, predicates, cells)
    of_tests = np.bincount(conjunctions.test_conjunction, minlength=conjunctions.count) > 0
    order, rare = _order(predicates, accepted, np.where(of_tests, 0.0, expected), cells.columns.size)
    rows, starts = _in_order(predicates.starts, order)
    place = np.empty(rows.size, np.int64)
    place[rows] = np.repeat(np.arange(conjunctions.count), np.diff(starts))
    is_union = predicates.end - predicates.first > 1
    ranges = _Ranges(predicates.low, predicates.high, is_union, conjunctions.last_code[predicates.column])
    of_rare, of_others = np.split(rows, [int(starts[rare])])
    bitmaps = _bitmaps(of_rare, place, accepted, cells, expected[order[:rare]])
    dense = _dense(of_others, place, accepted, cells, ranges, rare, of_tests[order])
    # Nine million conjunctions of ten predicates: each of these is half a gigabyte.
    del accepted, ranges, is_union, place
    return cells, bitmaps, dense, _demands(conjunctions, predicates, order, rows, starts)


def expected_matches(predicates: RangePredicates) -> Float64s:
    """Return the share of events that each conjunction is expected to match, as far as ranges say."""
    accepting = TUNING.dense_optimism * predicates.selectivity
    np.minimum(accepting, 1.0, out=accepting)
    logs = np.log(np.maximum(accepting, 1e-9, out=accepting), out=accepting)
    return np.exp(np.bincount(predicates.conjunction, logs, predicates.starts.size - 1))


def often_match(expected: Float64s, named: Int64s, columns: int) -> Bools:
    """Tell which conjunctions belong into dense blocks, given the matches expected and how many columns each names.

    To verify a conjunction costs more, the more it names; a dense block costs less, the fewer columns there are.
    """
    dear = np.maximum(named / TUNING.dense_predicates, 1.0)
    cheap = min(max(TUNING.dense_columns / max(columns, 1), 1.0), 2.0)
    return expected * dear * cheap > TUNING.dense_matches


def _order(predicates: RangePredicates, accepted: _Accepted, expected: Float64s, columns: int) -> tuple[Int32s, int]:
    """Return the conjunctions in the order of their places, and how many of them are not in dense blocks.

    Those that are `expected` to match often stand behind the others; if they are most, all are taken to be such. Those
    with a test are verified anyway, and count as rare: nothing is expected of them.
    """
    is_rare = ~often_match(expected, np.diff(predicates.starts), columns)
    others = np.flatnonzero(~is_rare).astype(np.int32)
    if 2 * others.size > is_rare.size:
        others = np.arange(is_rare.size, dtype=np.int32)
        if expected.mean() > TUNING.matches_in_order:
            return others, 0
    rows, starts = _in_order(predicates.starts, others)
    others = others[by_families_of_columns(starts, accepted.column[rows], columns)]
    if others.size == is_rare.size:
        return others, 0
    thousandths = np.clip(predicates.selectivity * 1000, 0, 1000).astype(np.int64)
    numbers = np.flatnonzero(is_rare).astype(np.int32)
    rows, starts = _in_order(predicates.starts, numbers)
    arranged = arrange(starts, accepted.column[rows], accepted.middle[rows], thousandths[rows], columns)
    order = np.concatenate([numbers[arranged], others])
    return order, order.size if others.size < TUNING.min_dense else numbers.size


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


class _Rows(NamedTuple):
    """The rows of all blocks: the columns that enough conjunctions of a block name."""

    block: Int64s
    column: Int32s
    """By its number among those of the cells."""
    named: Int64s
    """How many conjunctions of the block name it."""
    shift: Int32s
    sizes: Int64s
    """Bitsets."""
    first_bitset: Int64s
    """Counted from the first of the block."""
    row_starts: Int64s
    """Where the rows of each block start; one more entry at the end."""
    bitset_starts: Int64s
    of_predicate: Int32s
    """The row of each predicate that was asked for; -1 if it has none."""


def _rows(
    block: Int64s, column: Int32s, blocks: int, cells: Cells, scale: Int64s, min_named: int, named_per_cell: Int64s
) -> _Rows:
    """Make the rows of blocks, given the block and the column of each predicate.

    A row is worth while, and has as many cells, as if a block had BLOCK places: `scale` are its places.
    """
    columns = max(cells.columns.size, 1)
    key_of = block * columns + column
    named = np.bincount(key_of, minlength=blocks * columns)
    per_block = named * BLOCK // np.repeat(scale, columns)
    keys = np.flatnonzero(per_block >= min_named)
    of_block, of_column = keys // columns, (keys % columns).astype(np.int32)
    shift = np.zeros(keys.size, np.int32)
    for _ in range(MAX_CELLS.bit_length()):
        size = cells.counts[of_column] >> shift
        shift += (size > TUNING.min_row_cells) & (size > per_block[keys] // named_per_cell[of_block])
    sizes = (cells.counts[of_column] >> shift).astype(np.int64) + 1
    ends = np.concatenate([[0], np.cumsum(sizes)])
    row_starts = np.searchsorted(of_block, np.arange(blocks + 1)).astype(np.int64)
    row_of = np.full(blocks * columns, -1, np.int32)
    row_of[keys] = np.arange(keys.size)
    first_bitset = ends[:-1] - ends[row_starts][of_block]
    return _Rows(
        of_block, of_column, named[keys], shift, sizes, first_bitset, row_starts, ends[row_starts], row_of[key_of]
    )


def _bitmaps(mine: Int64s, place: Int64s, accepted: _Accepted, cells: Cells, expected: Float64s) -> Bitmaps:
    """Make the rows of the first places and their bitsets; `mine` are their predicates, in that order.

    Predicate i is that of `place[i]`; `expected` says of each place how often its conjunction is expected to match.
    """
    rare = expected.size
    blocks = -(-rare // BLOCK)
    whole = np.full(blocks, BLOCK, np.int64)
    often = np.bincount(np.arange(rare) // BLOCK, expected, blocks) > TUNING.dense_matches / 2 * BLOCK
    per_cell = np.where(often, -(-TUNING.named_per_cell // 2), TUNING.named_per_cell)
    made = _rows(place[mine] // BLOCK, accepted.column[mine], blocks, cells, whole, TUNING.min_named, per_cell)
    bitsets, first_bitset = np.diff(made.bitset_starts), np.append(made.first_bitset, 0)
    bitmaps = Bitmaps(
        row_starts=made.row_starts,
        pruning_ends=np.empty(blocks, np.int64),
        column=made.column,
        shift=made.shift,
        bitset_starts=made.bitset_starts,
        first_bitset=made.first_bitset.astype(np.int32),
        dead=np.zeros(int(made.bitset_starts[-1]), np.uint8),
        words=_aligned_zeros(int(made.bitset_starts[-1]) * BITSET_WORDS),
        clear=np.zeros(int(made.bitset_starts[-1]), bool),
    )
    for first in range(0, mine.size, _AT_ONCE):
        some, row = mine[first : first + _AT_ONCE], made.of_predicate[first : first + _AT_ONCE]
        block, inside = place[some] // BLOCK, place[some] % BLOCK
        vector = inside // GROUP * bitsets[block] + first_bitset[row]
        first_word = made.bitset_starts[block] * BITSET_WORDS + vector * GROUP_WORDS + (inside % GROUP >> 6)
        step = np.full(some.size, GROUP_WORDS, np.int64)
        _set_bits(some, row, made.shift, first_word, step, inside, accepted, cells, bitmaps.words)
    mark_dead(bitmaps, rare)
    mark_clear(bitmaps)
    # The rows that kill most groups first, the others by how many conjunctions they may rule out.
    kills = count_dead(bitmaps, made.sizes) / made.sizes
    order = np.lexsort((-made.named, -kills, made.block))
    return bitmaps._replace(
        pruning_ends=made.row_starts[:-1] + np.bincount(made.block[kills > 0], minlength=blocks),
        column=made.column[order],
        shift=made.shift[order],
        first_bitset=bitmaps.first_bitset[order],
    )


def _dense(
    mine: Int64s, place: Int64s, accepted: _Accepted, cells: Cells, ranges: _Ranges, rare: int, of_tests: Bools
) -> DenseBlocks:
    """Make the rows of the places behind the first `rare` ones, their bitsets and ends; `mine` are their predicates.

    Predicate i is that of `place[i]`; `of_tests` says of each place whether it has tests.
    """
    count = of_tests.size - rare
    blocks = -(-count // DENSE_BLOCK)
    place_starts = np.append(np.arange(blocks, dtype=np.int64) * DENSE_BLOCK, count) + rare
    regions = -(-blocks // REGION_BLOCKS)
    block_starts = np.append(np.arange(regions, dtype=np.int64) * REGION_BLOCKS, blocks)
    places = np.diff(place_starts[block_starts])
    block = (place[mine] - rare) // DENSE_BLOCK
    region, inside = block // REGION_BLOCKS, (place[mine] - rare) % (DENSE_BLOCK * REGION_BLOCKS)
    per_cell = np.full(regions, -(-TUNING.named_per_cell // 2), np.int64)
    made = _rows(region, accepted.column[mine], regions, cells, places, TUNING.min_named_dense, per_cell)
    row = made.of_predicate
    # Lines by row, at `row * REGION_LINES`; those of predicates without a row behind all.
    key_of_line = np.where(row < 0, made.column.size, row) * np.int64(REGION_LINES) + inside // LINE
    has_line = np.zeros((made.column.size + 1) * REGION_LINES, bool)
    has_line[key_of_line] = True
    lines = np.flatnonzero(has_line[: made.column.size * REGION_LINES])
    line_starts = np.searchsorted(lines, np.arange(made.column.size + 1) * REGION_LINES)
    lines_before = (np.cumsum(has_line) - 1)[key_of_line] - line_starts[row]
    width = np.diff(line_starts) * LINE_WORDS
    word_starts = np.concatenate([[0], np.cumsum(width * made.sizes)])
    first_word = word_starts[row] + lines_before * LINE_WORDS + (inside % LINE >> 6)
    bitsets = np.diff(made.bitset_starts)
    list_starts = np.concatenate([[0], np.cumsum(np.diff(block_starts) * bitsets)])
    first_bitset = np.append(made.first_bitset, 0)[row]
    shift = np.append(made.shift, 0)[row]
    is_exact = (cells.counts[accepted.column[mine]] > ranges.last_code[mine]) & (shift == 0)
    doubtful = ranges.is_union[mine] & ~is_exact
    partial = np.zeros(words_of(count) * 64, bool)
    partial[:count] = of_tests[rare:]
    partial[place[mine[(row < 0) | doubtful]] - rare] = True
    with_ends = np.flatnonzero((row >= 0) & ~ranges.is_union[mine] & ~is_exact)
    lists = np.diff(block_starts)[region]
    first_list = list_starts[region] + first_bitset * lists + block % REGION_BLOCKS
    key, code, end_place = _ends(ranges, accepted, cells, mine, with_ends, first_list, lists, shift, inside)
    in_order = np.argsort(key << 32 | code)
    dense = DenseBlocks(
        place_starts=place_starts,
        block_starts=block_starts,
        row_starts=made.row_starts,
        column=made.column,
        shift=made.shift,
        bitset_starts=made.bitset_starts,
        first_bitset=made.first_bitset.astype(np.int32),
        line_starts=line_starts,
        lines=(lines % REGION_LINES).astype(np.uint16),
        word_starts=word_starts,
        words=_aligned_zeros(int(word_starts[-1])),
        list_starts=list_starts,
        end_starts=np.concatenate([[0], np.cumsum(np.bincount(key, minlength=2 * int(list_starts[-1])))]),
        end_code=code[in_order],
        end_place=(end_place[in_order] % DENSE_BLOCK).astype(np.uint16),
        partial=np.packbits(partial, bitorder="little").view(np.uint64),
        clear=np.zeros(int(bitsets.sum()), bool),
    )
    _set_bits(mine, row, made.shift, first_word, np.append(width, 0)[row], inside, accepted, cells, dense.words)
    mark_clear_bitsets(dense)
    return dense


def _set_bits(
    mine: Int64s,
    row: Int32s,
    shift: Int32s,
    first_word: Int64s,
    step: Int64s,
    inside: Int64s,
    accepted: _Accepted,
    cells: Cells,
    words: UInt64s,
) -> None:
    """Set the bits of the predicates `mine`, given their rows, the word of the first cell and the step to the next."""
    set_bits(
        np.where(row < 0, -1, first_word),
        step,
        (inside & 63).astype(np.uint8),
        accepted.cells[mine],
        accepted.null[mine],
        cells.counts[accepted.column[mine]],
        np.append(shift, 0)[row].astype(np.int32),
        words,
    )


def _ends(
    ranges: _Ranges,
    accepted: _Accepted,
    cells: Cells,
    mine: Int64s,
    with_ends: Int64s,
    first_list: Int64s,
    lists: Int64s,
    shift: Int32s,
    inside: Int64s,
) -> tuple[Int64s, Int32s, Int64s]:
    """Return the ends of ranges that lie in some cell: their keys, 2 * list + (whether high), codes and places.

    They are those of the predicates `mine[with_ends]`, at the place `inside` of their regions. The list of the first
    cell of their rows is `first_list`; that of the next cell is `lists` further on.
    """
    keys, codes, places = [], [], []
    low, high = ranges.low[mine], ranges.high[mine]
    has_low, has_high = low > 0, (high >= 0) & (high < ranges.last_code[mine])
    for is_high, code, lies_inside in ((0, low, has_low), (1, high, has_high)):
        wanted = with_ends[lies_inside[with_ends]]
        cell = cells.of_codes(accepted.column[mine[wanted]], code[wanted]) >> shift[wanted]
        keys.append(2 * (first_list[wanted] + cell * lists[wanted]) + is_high)
        codes.append(code[wanted])
        places.append(inside[wanted])
    return np.concatenate(keys), np.concatenate(codes), np.concatenate(places)


def _demands(
    conjunctions: Conjunctions, predicates: RangePredicates, order: Int32s, rows: Int64s, starts: Int64s
) -> Demands:
    """Write down what each conjunction demands, in the order of places."""
    demanded = np.empty((rows.size, 3), np.int32)
    for part, values in enumerate((predicates.column, predicates.low, predicates.high)):
        demanded[:, part] = values[rows]
    unions = np.flatnonzero((predicates.end - predicates.first > 1)[rows])
    first = predicates.first[rows[unions]]
    sizes = (predicates.end[rows[unions]] - first).astype(np.int64)
    range_ends = np.cumsum(sizes)
    ranges = np.repeat(first - (range_ends - sizes), sizes) + np.arange(int(sizes.sum()))
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
        predicates=demanded,
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
