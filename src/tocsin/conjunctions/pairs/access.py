"""Choose where each conjunction is filed: its access pair, and the grid for each pair of columns.

A conjunction is found through its two most selective predicates. Each of them is filed at a *level*, a cell width that
is a power of two in codes, at which its range is a few cells wide. Every combination (column a, level a, column b,
level b) in use is a table, and every event looks into every table: a look costs as much as verifying `TUNING.look_cost`
candidates. So tables are merged at coarser levels as long as that adds fewer candidates than the look costs; at the
coarsest level a column has one cell and is not an access any more. In this way a thousand rare pairs become a few
tables. A conjunction that is filed under a test (BY_TEST) keeps its range as the second access if many share the test.
"""

from dataclasses import dataclass, replace

import numpy as np

from tocsin.arrays import Bools, Float64s, Int32s, Int64s
from tocsin.conjunctions.coded import Conjunctions, RangePredicates
from tocsin.conjunctions.pairs.kernels import BY_TEST
from tocsin.tuning import TUNING


@dataclass(frozen=True)
class Side:
    """One of the two accesses of each conjunction."""

    predicate: Int32s
    """Its predicate; -1 if there is none (the column is then ANYTHING or BY_TEST)."""
    column: Int32s
    level: Int32s
    """How many steps the level is finer than one cell."""
    selectivity: Float64s


@dataclass(frozen=True)
class AccessPairs:
    """Where each conjunction is filed. `test` is the test of those that are filed under one, else -1."""

    a: Side
    b: Side
    test: Int32s


def shifts(last_code: Int32s) -> Int64s:
    """Return the shift of each column (a row) at each level; level 0 has one cell. The last row is ANYTHING's.

    >>> shifts(np.array([998], np.int32))[:, :6].tolist()
    [[10, 7, 5, 3, 1, 0], [0, 0, 0, 0, 0, 0]]
    """
    bits = np.floor(np.log2(last_code.astype(np.float64) + 2)).astype(np.int64)
    levels = np.arange(2 + -(-31 // TUNING.level_bits))
    table = np.maximum(bits[:, None] - levels[None, :] * TUNING.level_bits, 0)
    table[:, 0] = bits + 1
    return np.vstack([table, np.zeros_like(levels)])


def choose(conjunctions: Conjunctions, predicates: RangePredicates, test: Int32s) -> AccessPairs:
    """File every conjunction. `test[i]` is the test that conjunction i is filed under, or -1."""
    anything = conjunctions.last_code.size
    shift = shifts(conjunctions.last_code)
    counts = np.diff(predicates.starts)
    by_test = test >= 0
    first = np.where(counts > 0, predicates.starts[:-1], -1)
    second = np.where(counts > 1, predicates.starts[:-1] + 1, -1)
    a = _side(predicates, np.where(by_test, -1, first), anything, shift)
    a = replace(
        a,
        column=np.where(by_test, BY_TEST, a.column),
        level=np.where(by_test, 1, a.level),
        selectivity=np.where(by_test, _share_of_tests(test), a.selectivity),
    )
    b = _side(predicates, np.where(by_test, first, second), anything, shift)
    b = _without(b, _ranges(predicates, a) * _ranges(predicates, b) > TUNING.max_rectangles, anything)
    cell = _cell_shares(conjunctions.last_code)
    swap = a.column > b.column
    a, b = _fold(_mix(swap, b, a), _mix(swap, a, b), cell, anything)
    swap = a.column > b.column
    return AccessPairs(_mix(swap, b, a), _mix(swap, a, b), test)


def expected_candidates(access: AccessPairs, last_code: Int32s) -> Float64s:
    """Estimate the share of events for which each conjunction is a candidate."""
    cell = _cell_shares(last_code)
    a, b = (
        np.minimum(side.selectivity + cell[side.column, side.level] * (side.column >= 0), 1.0)
        for side in (access.a, access.b)
    )
    return a * b


def _cell_shares(last_code: Int32s) -> Float64s:
    """Return the share of its domain that a cell of (column, level) has.

    BY_TEST (-1) reads the last row: a test has no width.
    """
    shift = shifts(last_code)
    share = np.minimum(np.exp2(shift) / (np.append(last_code, 0).astype(np.float64)[:, None] + 1), 1.0)
    return np.vstack([share, np.zeros(shift.shape[1])])


def _share_of_tests(test: Int32s) -> Float64s:
    """Estimate the share of events for which the test of each conjunction is TRUE, as often as conjunctions name it."""
    filed = test[test >= 0]
    demand = np.bincount(filed, minlength=1)
    return np.minimum(TUNING.expected_true_tests * demand[np.maximum(test, 0)] / max(filed.size, 1), 1.0)


def _side(predicates: RangePredicates, chosen: Int64s, anything: int, shift: Int64s) -> Side:
    there = chosen >= 0
    safe = np.where(there, chosen, 0)
    if predicates.column.size == 0:
        nothing = np.full(chosen.size, -1, np.int32)
        return Side(nothing, np.full_like(nothing, anything), np.zeros_like(nothing), np.ones(chosen.size))
    column = np.where(there, predicates.column[safe], anything).astype(np.int32)
    width = predicates.width[safe]
    level = np.zeros(chosen.size, np.int32)
    for finer in range(1, shift.shape[1]):
        fits = (width <= TUNING.cells_per_range * np.exp2(shift[column, finer])) & (shift[column, finer - 1] > 0)
        level = np.where(there & fits, finer, level).astype(np.int32)
    selectivity = np.where(there, predicates.selectivity[safe], 1.0)
    return _without(Side(chosen.astype(np.int32), column, level, selectivity), level == 0, anything)


def _ranges(predicates: RangePredicates, side: Side) -> Int64s:
    if predicates.column.size == 0:
        return np.ones(side.predicate.size, np.int64)
    count = (predicates.end - predicates.first)[side.predicate].astype(np.int64)
    return np.where(side.predicate >= 0, count, 1)


def _without(side: Side, which: Bools, anything: int) -> Side:
    """Return the side with no access for the conjunctions in `which`, unless they are filed under a test."""
    which = which & (side.column != BY_TEST)
    return Side(
        np.where(which, -1, side.predicate).astype(np.int32),
        np.where(which, anything, side.column).astype(np.int32),
        np.where(which, 0, side.level).astype(np.int32),
        np.where(which, 1.0, side.selectivity),
    )


def _mix(which: Bools, yes: Side, no: Side) -> Side:
    return Side(
        np.where(which, yes.predicate, no.predicate),
        np.where(which, yes.column, no.column),
        np.where(which, yes.level, no.level),
        np.where(which, yes.selectivity, no.selectivity),
    )


Levels = tuple[int, ...]
Group = dict[Levels, list[float]]
"""The tables on the same columns, by levels: (conjunctions, sum of the selectivities of each access)."""
CellShares = list[list[float]]
"""What `_cell_shares` returns, as lists: they are read one by one, which takes a quarter of the time."""


def _fold(a: Side, b: Side, cell: Float64s, anything: int) -> tuple[Side, Side]:
    """Merge tables until no merger adds fewer candidates than the look that it saves costs."""
    key = np.stack([a.column, a.level, b.column, b.level], axis=1).astype(np.int64)
    packed = ((key[:, 0] + 1) << 40) | (key[:, 1] << 32) | (key[:, 2] << 8) | key[:, 3]
    _, one, table, size = np.unique(packed, return_index=True, return_inverse=True, return_counts=True)
    sums = np.stack([size, np.bincount(table, a.selectivity), np.bincount(table, b.selectivity)], axis=1)
    pairs: dict[tuple[int, ...], Group] = {}
    for (column_a, level_a, column_b, level_b), population in zip(key[one].tolist(), sums.tolist(), strict=True):
        pairs.setdefault((column_a, column_b), {})[level_a, level_b] = population
    final = _merge_groups(pairs, cell.tolist(), anything)
    new = np.array([final[tuple(row)] for row in key[one].tolist()], np.int32).reshape(-1, 2)
    a, b = replace(a, level=new[table, 0]), replace(b, level=new[table, 1])
    return _without(a, a.level == 0, anything), _without(b, b.level == 0, anything)


def _merge_groups(
    pairs: dict[tuple[int, ...], Group], cell: CellShares, anything: int
) -> dict[tuple[int, ...], tuple[int, int]]:
    """Return the levels that each (column a, level a, column b, level b) ends with; level 0 is not an access."""
    final: dict[tuple[int, ...], tuple[int, int]] = {}
    singles: dict[tuple[int, ...], Group] = {}
    moved: list[tuple[int, int, int, tuple[int, ...]]] = []
    for (column_a, column_b), group in pairs.items():
        for start, end in _merge_group((column_a, column_b), group, cell).items():
            level_a, level_b = end
            count, share_a, share_b = group[end]
            # Dropping b makes every conjunction visible to all events that pass a, and the other way round.
            lost_b = (
                share_a + count * cell[column_a][level_a] - _candidates(group[end], (column_a, column_b), end, cell)
            )
            lost_a = (
                share_b + count * cell[column_b][level_b] - _candidates(group[end], (column_a, column_b), end, cell)
            )
            place: tuple[int, ...] = (column_a, start[0], column_b, start[1])
            final[place] = (level_a, level_b)
            # A test is never given up, and an event looks once for each test that is TRUE.
            lost = lost_b / TUNING.expected_true_tests if column_a == BY_TEST else min(lost_a, lost_b)
            if column_a != anything and column_b != anything and lost >= TUNING.look_cost:
                continue
            keep_a = column_a == BY_TEST or (column_a != anything and (column_b == anything or lost_b <= lost_a))
            column, level, share = (column_a, level_a, share_a) if keep_a else (column_b, level_b, share_b)
            if column == anything:
                continue
            single = singles.setdefault((column,), {}).setdefault((level,), [0.0, 0.0])
            if start == end:
                single[0] += count
                single[1] += share
            moved.append((column, level, 0 if keep_a else 1, place))
    merged = {columns: _merge_group(columns, group, cell) for columns, group in singles.items()}
    for column, level, side, place in moved:
        (single_level,) = merged[column,][level,]
        count, share = singles[column,][single_level,]
        if column != BY_TEST and count - share - count * cell[column][single_level] < TUNING.look_cost:
            single_level = 0
        final[place] = (single_level, 0) if side == 0 else (0, single_level)
    return final


def _merge_group(columns: tuple[int, ...], group: Group, cell: CellShares) -> dict[Levels, Levels]:
    """Merge the tables of one group, the cheapest merger first; return where each ends. `group` keeps what is left."""
    end = {levels: levels for levels in group}
    while len(group) > 1:
        best, chosen = TUNING.look_cost, None
        tables = list(group)
        now = {levels: _candidates(group[levels], columns, levels, cell) for levels in tables}
        for number, left in enumerate(tables):
            for right in tables[number + 1 :]:
                joined = tuple(map(min, left, right))
                added = [_candidates(group[levels], columns, joined, cell) - now[levels] for levels in (left, right)]
                cost = added[0] + added[1]
                if cost < best:
                    best, chosen = cost, (left, right, joined)
        if chosen is None:
            break
        left, right, joined = chosen
        population = [x + y for x, y in zip(group.pop(left), group.pop(right), strict=True)]
        known = group.get(joined)
        group[joined] = population if known is None else [x + y for x, y in zip(known, population, strict=True)]
        end = {levels: joined if last in (left, right) else last for levels, last in end.items()}
    return end


def _candidates(population: list[float], columns: tuple[int, ...], levels: Levels, cell: CellShares) -> float:
    """Estimate how many of these conjunctions an event verifies, if they are filed at these levels.

    A conjunction of selectivities f, g on its accesses is verified with probability (f + cell a) * (g + cell b); f * g
    is the same at all levels and left out.
    """
    count = population[0]
    if len(columns) == 1:
        return float(count * cell[columns[0]][levels[0]])
    cell_a, cell_b = cell[columns[0]][levels[0]], cell[columns[1]][levels[1]]
    return float(population[1] * cell_b + population[2] * cell_a + count * cell_a * cell_b)
