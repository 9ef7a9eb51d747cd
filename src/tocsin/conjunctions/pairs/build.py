"""File conjunctions by access pairs: rectangles, tables, postings and rest lists.

Each conjunction is filed under its two most selective predicates, in the cells of a grid over their two columns
(`access.py` chooses them). A posting carries three ranges of its conjunction, so that most conjunctions are verified
without reading anything else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin._compile import VECTOR_WIDTH
from tocsin.arrays import Float64s, Int32s, Int64s, UInt16s
from tocsin.conjunctions.coded import TRUE, Conjunctions, RangePredicates, range_predicates
from tocsin.conjunctions.pairs.access import AccessPairs, Side, choose, shifts
from tocsin.conjunctions.pairs.kernels import (
    BY_TEST,
    COLUMN_C,
    CONJUNCTION,
    HIGH_A,
    HIGH_C,
    LOW_A,
    LOW_B,
    QUANTIZED,
    SHORT_COLUMN_C,
    SHORT_FIELDS,
    PairTables,
    Postings,
    file_rectangles,
)
from tocsin.predicates.ranges.quantize import LAST_SHORT, NO_SHORT, ShortCodes, shifts_by_rank
from tocsin.tuning import TUNING

_HASH_A, _HASH_B = 0x9E3779B1, 0x85EBCA6B
"""Odd multipliers that spread the cells of a table over its buckets."""


@dataclass(frozen=True)
class Prepared:
    """Conjunctions, and where each will be filed."""

    conjunctions: Conjunctions
    shortened: Conjunctions
    """The same in short codes."""
    shift: Int32s
    """Of each column; see `Postings.short_shift`."""
    predicates: RangePredicates
    access: AccessPairs


def prepare(
    conjunctions: Conjunctions, popularity: list[Float64s], filed_under: Int32s, short: Mapping[int, ShortCodes]
) -> Prepared:
    """Choose where to file conjunctions; for the arguments see `PairIndex.build`."""
    shortened, shift = shorten(conjunctions, short)
    predicates = range_predicates(conjunctions, popularity).with_widths_of(shortened)
    return Prepared(conjunctions, shortened, shift, predicates, choose(shortened, predicates, filed_under))


def file_conjunctions(prepared: Prepared) -> tuple[PairTables, Postings]:
    """File every conjunction."""
    conjunctions, shortened, shift = prepared.conjunctions, prepared.shortened, prepared.shift
    predicates, access = prepared.predicates, prepared.access
    anything = conjunctions.last_code.size
    third = _third(predicates, access)
    full, cut = (_rectangles(of, predicates, access, third) for of in (conjunctions, shortened))
    # Without a third range, any code of any column will do.
    cut[cut[:, COLUMN_C] == anything, COLUMN_C:] = 0, -1, LAST_SHORT - 1
    tables, of_table = _tables(shortened, access, cut)
    buckets = int(tables.first_bucket[-1] + tables.mask[-1] + 1) if tables.mask.size else 0
    starts = np.zeros(buckets + 1, np.int64)
    posted = file_rectangles(tables, of_table, cut, starts)
    rest_starts, rest, ranges = _rest(conjunctions, predicates, access, third)
    has_rest = np.diff(rest_starts)[full[:, CONJUNCTION]] > 0
    in_grid = tables.column_a[of_table] != BY_TEST
    by_test = int(np.searchsorted(in_grid[posted], True))
    rows = full[posted[:by_test]]
    rows[has_rest[posted[:by_test]], COLUMN_C] = ~rows[has_rest[posted[:by_test]], COLUMN_C]
    number = np.cumsum(in_grid, dtype=np.int32) - 1
    conjunction_of = full[in_grid, CONJUNCTION]
    if np.array_equal(conjunction_of, np.arange(conjunctions.count)):
        conjunction_of = conjunction_of[:0]
    return tables, Postings(
        starts=starts,
        rows=rows,
        short=_short_fields(cut, posted[by_test:], np.maximum(starts - by_test, 0)),
        short_shift=shift,
        rectangle=np.where(has_rest, ~number, number)[posted[by_test:]].astype(np.int32),
        rectangles=full[in_grid],
        conjunction_of=conjunction_of,
        rest_starts=rest_starts,
        rest=rest,
        ranges=ranges,
    )


def shorten(conjunctions: Conjunctions, short: Mapping[int, ShortCodes]) -> tuple[Conjunctions, Int32s]:
    """Return the conjunctions with their ranges in short codes less one, and the shift of each column.

    Columns that are not in `short` have the short code (code >> shift) + 1, so that short code less one of NULL (-1) is
    -1. The last shift is that of ANYTHING.

    >>> nothing = np.empty(0, np.int32)
    >>> low, high = np.array([-1, 70_000], np.int32), np.array([-1, 99_999], np.int32)
    >>> one, column = np.array([0, 0], np.int32), np.array([0, 0], np.int32)
    >>> said = Conjunctions(1, np.array([99_999], np.int32), one, column, low, high, *[nothing] * 4)
    >>> shorter, shift = shorten(said, {})
    >>> shorter.low.tolist(), shorter.high.tolist(), shorter.last_code.tolist(), shift.tolist()
    ([-1, 35000], [-1, 49999], [49999], [1, 0])
    """
    last = np.append(conjunctions.last_code, np.int32(0))
    shift = shifts_by_rank(last)
    last_short = last >> shift
    low, high = conjunctions.low >> shift[conjunctions.column], conjunctions.high >> shift[conjunctions.column]
    for column, codes in short.items():
        rows = np.flatnonzero(conjunctions.column == column)
        low[rows] = codes.lowest[conjunctions.low[rows] + 1].astype(np.int32) - 1
        high[rows] = codes.highest[conjunctions.high[rows] + 1].astype(np.int32) - 1
        shift[column] = QUANTIZED
        last_short[column] = LAST_SHORT - 1
    return replace(conjunctions, low=low, high=high, last_code=last_short[:-1]), shift


def crowded(conjunctions: Conjunctions, column: int, short: ShortCodes) -> bool:
    """Tell whether many ranges of a column end at one short code: an event there leaves all of them undecided."""
    rows = conjunctions.column == column
    ends = np.concatenate([short.lowest[conjunctions.low[rows] + 1], short.highest[conjunctions.high[rows] + 1]])
    return bool(np.bincount(ends, minlength=1).max() > TUNING.crowd * (1 + ends.size / LAST_SHORT))


def _ranges_of(predicates: RangePredicates, side: Side) -> tuple[Int64s, Int64s]:
    """Return how many ranges each conjunction has on this side, and the first of them (-1: no predicate)."""
    predicate = side.predicate
    if predicates.column.size == 0:
        return np.ones(predicate.size, np.int64), np.full(predicate.size, -1, np.int64)
    there = predicate >= 0
    count = np.where(there, (predicates.end - predicates.first)[predicate], 1).astype(np.int64)
    return count, np.where(there, predicates.first[predicate], -1).astype(np.int64)


def _rectangles(conjunctions: Conjunctions, predicates: RangePredicates, access: AccessPairs, third: Int32s) -> Int32s:
    """Return the rectangles: every range of side a with every range of side b, and the range of `third`."""
    count_a, first_a = _ranges_of(predicates, access.a)
    count_b, first_b = _ranges_of(predicates, access.b)
    owner = np.repeat(np.arange(conjunctions.count), count_a * count_b)
    begin = np.cumsum(count_a * count_b) - count_a * count_b
    place = np.arange(owner.size) - begin[owner]
    rectangles = np.zeros((owner.size, HIGH_C + 1), np.int32)
    rectangles[:, CONJUNCTION] = owner
    for low, first, step in ((LOW_A, first_a, place // count_b[owner]), (LOW_B, first_b, place % count_b[owner])):
        there = first[owner] >= 0
        row = np.where(there, first[owner] + step, 0)
        if conjunctions.low.size:
            rectangles[:, low] = np.where(there, conjunctions.low[row], 0)
            rectangles[:, low + 1] = np.where(there, conjunctions.high[row], 0)
    by_test = access.a.column[owner] == BY_TEST
    rectangles[by_test, LOW_A] = rectangles[by_test, HIGH_A] = access.test[owner[by_test]]
    rectangles[:, COLUMN_C] = conjunctions.last_code.size
    there = third[owner] >= 0
    predicate = third[owner[there]]
    row = predicates.first[predicate]
    rectangles[there, COLUMN_C:] = np.stack(
        [predicates.column[predicate], conjunctions.low[row], conjunctions.high[row]], axis=1
    )
    return rectangles


def _tables(conjunctions: Conjunctions, access: AccessPairs, rectangles: Int32s) -> tuple[PairTables, Int32s]:
    """Return a table for each combination of columns and levels in use, and the table of each rectangle (short)."""
    owner = rectangles[:, CONJUNCTION]
    a, b = access.a, access.b
    key = np.stack([a.column, a.level, b.column, b.level], axis=1)[owner].astype(np.int64)
    packed = ((key[:, 0] + 1) << 40) | (key[:, 1] << 32) | (key[:, 2] << 8) | key[:, 3]
    _, one, of_table, size = np.unique(packed, return_index=True, return_inverse=True, return_counts=True)
    column_a, level_a, column_b, level_b = key[one].T
    shift = shifts(conjunctions.last_code)
    shift_a = np.where(column_a == BY_TEST, 0, shift[column_a, level_a])
    shift_b = shift[column_b, level_b]
    tests = int(access.test.max(initial=-1)) + 1
    last_code = np.append(conjunctions.last_code, 0)
    cells_a = ((np.where(column_a == BY_TEST, tests, last_code[column_a]) + 1) >> shift_a) + 1
    cells_b = ((last_code[column_b] + 1) >> shift_b) + 1
    dense = cells_a * cells_b <= np.maximum(TUNING.dense_cells_per_rectangle * size, TUNING.dense_cells)
    buckets = np.exp2(np.ceil(np.log2(np.where(dense, cells_a * cells_b, size)))).astype(np.int64)
    accepts_null = np.zeros(one.size, bool)
    null = ((rectangles[:, LOW_A] < 0) & (a.column[owner] != BY_TEST)) | (rectangles[:, LOW_B] < 0)
    accepts_null[of_table[null]] = True
    tables = PairTables(
        column_a=column_a.astype(np.int32),
        shift_a=shift_a.astype(np.int32),
        column_b=column_b.astype(np.int32),
        shift_b=shift_b.astype(np.int32),
        multiplier_a=np.where(dense, cells_b, _HASH_A),
        multiplier_b=np.where(dense, 1, _HASH_B),
        mask=buckets - 1,
        first_bucket=np.cumsum(buckets) - buckets,
        needs_value=~accepts_null,
        **_used(column_a, column_b, rectangles[:, COLUMN_C], of_table),
    )
    return tables, of_table.astype(np.int32)


def _used(column_a: Int32s, column_b: Int32s, column_c: Int32s, of_table: Int32s) -> dict[str, npt.NDArray[Any]]:
    """Return the columns that each table uses."""
    number = np.arange(column_a.size)
    table = np.concatenate([number[column_a != BY_TEST], number, of_table])
    column = np.concatenate([column_a[column_a != BY_TEST], column_b, column_c])
    distinct = np.unique((table.astype(np.int64) << 32) | column)
    starts = np.searchsorted(distinct >> 32, np.arange(column_a.size + 1)).astype(np.int64)
    return {"used_starts": starts, "used": (distinct & 0xFFFFFFFF).astype(np.int32)}


def _third(predicates: RangePredicates, access: AccessPairs) -> Int32s:
    """Return the most selective predicate of one range of each conjunction that is not an access; or -1."""
    third = np.full(access.test.size, -1, np.int32)
    number = np.arange(predicates.conjunction.size, dtype=np.int32)
    owner = predicates.conjunction
    free = (predicates.end - predicates.first == 1) & (access.a.predicate[owner] != number)
    free &= (access.b.predicate[owner] != number) & (predicates.column < NO_SHORT)
    # Predicates are sorted by selectivity within their conjunction: written backwards, the first one stays.
    third[owner[free][::-1]] = number[free][::-1]
    return third


def _short_fields(rectangles: Int32s, posted: Int32s, starts: Int64s) -> UInt16s:
    """Return the short fields of the postings of grids. `starts` says where the postings of each bucket start."""
    sizes = np.diff(starts)
    size = np.repeat(sizes, sizes)
    # SHORT_FIELDS times the first of the bucket, and the place in it: see Postings.
    place = np.repeat((SHORT_FIELDS - 1) * starts[:-1], sizes)
    place += np.arange(posted.size)
    # The vector that the last postings are read with goes on behind them.
    fields = np.zeros(SHORT_FIELDS * posted.size + VECTOR_WIDTH, np.uint16)
    for field in range(SHORT_FIELDS):
        fields[place] = rectangles[posted, field + 1] + (field != SHORT_COLUMN_C)
        place += size
    return fields


def _rest(
    conjunctions: Conjunctions, predicates: RangePredicates, access: AccessPairs, third: Int32s
) -> tuple[Int64s, Int32s, Int32s]:
    """Return the predicates and tests that postings do not carry: starts by conjunction, entries, ranges."""
    carried = np.zeros(predicates.conjunction.size, bool)
    for chosen in (access.a.predicate, access.b.predicate, third):
        carried[chosen[chosen >= 0]] = True
    left = np.flatnonzero(~carried)
    del carried
    sizes = (predicates.end - predicates.first)[left].astype(np.int64)
    ends = np.cumsum(sizes)
    rows = np.repeat(predicates.first[left] - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
    ranges = np.stack([conjunctions.low[rows], conjunctions.high[rows]], axis=1).astype(np.int32)
    del rows
    of_ranges = np.empty((left.size, 3), np.int32)
    for field, values in enumerate((predicates.column[left], ends - sizes, ends)):
        of_ranges[:, field] = values

    tested = ~((access.test[conjunctions.test_conjunction] == conjunctions.test) & (conjunctions.test_accepts == TRUE))
    test = conjunctions.test[tested]
    null_column = conjunctions.test_null_column[test] if test.size else test
    rest_owner, rest = predicates.conjunction[left], of_ranges
    if test.size:
        of_tests = np.stack([~conjunctions.test_accepts[tested], test, null_column], axis=1).astype(np.int32)
        rest_owner = np.concatenate([rest_owner, conjunctions.test_conjunction[tested]])
        order = np.argsort(rest_owner, kind="stable")
        rest_owner, rest = rest_owner[order], np.concatenate([of_ranges, of_tests])[order]
    starts = np.searchsorted(rest_owner, np.arange(conjunctions.count + 1)).astype(np.int64)
    return starts, rest, ranges
