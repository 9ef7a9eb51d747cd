"""Where each conjunction is filed: the choice of its access pair and of the grid for each pair of columns.

A conjunction is found through its two most selective predicates. Each of them is filed at a *level*, a cell width that
is a power of two in codes, at which its range covers a few cells. Every combination (column a, level a, column b,
level b) in use is a table, and every event looks into every table: a look costs about as much as verifying `LOOK`
candidates. So a table whose conjunctions would cause less than that many more candidates at a coarser level gives it
up; at the coarsest level a column has one cell and is no access any more. A thousand rare pairs become a few tables by
themselves.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tocsin._kernels.pairs import HELD
from tocsin.matching.conjunctions import Conjunctions, Predicates

Int32 = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

LOOK = 24.0
CELLS = 3.2
"""A range may cover this many cells of its level."""
LEVEL_BITS = 3
"""Levels of one column differ by a factor of 8."""
MOST_RECTANGLES = 64
"""A pair of unions makes at most this many rectangles; beyond it only the more selective union is an access."""


@dataclass(frozen=True)
class Side:
    """One of the two accesses of each conjunction."""

    predicate: Int32
    """Its predicate, or -1: none (the column is then ANYTHING or HELD)."""
    column: Int32
    level: Int32
    """How many steps the level is finer than one cell."""
    selectivity: Floats


@dataclass(frozen=True)
class Access:
    """Where each conjunction is filed. `test` is the test of conjunctions that are filed under HELD."""

    a: Side
    b: Side
    test: Int32


def shifts(last_code: Int32) -> npt.NDArray[np.int64]:
    """The shift of each column (a row) at each level; level 0 has one cell. The last row is ANYTHING's.

    >>> shifts(np.array([998], np.int32))[:, :6].tolist()
    [[10, 7, 4, 1, 0, 0], [0, 0, 0, 0, 0, 0]]
    """
    bits = np.floor(np.log2(last_code.astype(np.float64) + 2)).astype(np.int64)
    levels = np.arange(2 + -(-31 // LEVEL_BITS))
    finer = np.maximum(levels * LEVEL_BITS - 1, 0)
    table = np.maximum(bits[:, None] - finer[None, :], 0)
    table[:, 0] = bits + 1
    return np.vstack([table, np.zeros_like(levels)])


def choose(conjunctions: Conjunctions, predicates: Predicates, test: Int32) -> Access:
    """File every conjunction. `test[i]` is the test that conjunction i is filed under, or -1."""
    anything = conjunctions.last_code.size
    shift = shifts(conjunctions.last_code)
    counts = np.diff(predicates.starts)
    held = test >= 0
    first = np.where(counts > 0, predicates.starts[:-1], -1)
    second = np.where(counts > 1, predicates.starts[:-1] + 1, -1)
    a = _side(predicates, np.where(held, -1, first), anything, shift)
    a = replace(a, column=np.where(held, HELD, a.column), level=np.where(held, 1, a.level))
    b = _side(predicates, np.where(held, first, second), anything, shift)
    b = _without(b, _ranges(predicates, a) * _ranges(predicates, b) > MOST_RECTANGLES, anything)
    # The share of its domain that a cell of (column, level) is. HELD (-1) reads the row of ANYTHING, the last.
    last_code = np.append(conjunctions.last_code, 0).astype(np.float64)
    cell = np.minimum(np.exp2(shift) / (last_code[:, None] + 1), 1.0)
    a, b = _fold(a, b, cell, anything)
    swap = (a.column > b.column) & (a.column != anything)
    return Access(_mix(swap, b, a), _mix(swap, a, b), test)


def _side(predicates: Predicates, chosen: npt.NDArray[np.int64], anything: int, shift: npt.NDArray[np.int64]) -> Side:
    there = chosen >= 0
    safe = np.where(there, chosen, 0)
    if predicates.column.size == 0:
        nothing = np.full(chosen.size, -1, np.int32)
        return Side(nothing, np.full_like(nothing, anything), np.zeros_like(nothing), np.ones(chosen.size))
    column = np.where(there, predicates.column[safe], anything).astype(np.int32)
    width = predicates.width[safe]
    level = np.zeros(chosen.size, np.int32)
    for finer in range(1, shift.shape[1]):
        fits = (width <= CELLS * np.exp2(shift[column, finer])) & (shift[column, finer - 1] > 0)
        level = np.where(there & fits, finer, level).astype(np.int32)
    selectivity = np.where(there, predicates.selectivity[safe], 1.0)
    return _without(Side(chosen.astype(np.int32), column, level, selectivity), level == 0, anything)


def _ranges(predicates: Predicates, side: Side) -> npt.NDArray[np.int64]:
    if predicates.column.size == 0:
        return np.ones(side.predicate.size, np.int64)
    count = (predicates.end - predicates.first)[side.predicate].astype(np.int64)
    return np.where(side.predicate >= 0, count, 1)


def _without(side: Side, which: npt.NDArray[np.bool_], anything: int) -> Side:
    """The side with no access for the conjunctions in `which`, unless they are filed under HELD."""
    which = which & (side.column != HELD)
    return Side(
        np.where(which, -1, side.predicate).astype(np.int32),
        np.where(which, anything, side.column).astype(np.int32),
        np.where(which, 0, side.level).astype(np.int32),
        np.where(which, 1.0, side.selectivity),
    )


def _mix(which: npt.NDArray[np.bool_], yes: Side, no: Side) -> Side:
    return Side(
        np.where(which, yes.predicate, no.predicate),
        np.where(which, yes.column, no.column),
        np.where(which, yes.level, no.level),
        np.where(which, yes.selectivity, no.selectivity),
    )


def _fold(a: Side, b: Side, cell: Floats, anything: int) -> tuple[Side, Side]:
    """Give up levels that save fewer candidates than a look costs, the least useful first."""
    while True:
        low, high = np.minimum(a.column, b.column), np.maximum(a.column, b.column)
        first = np.where(a.column <= b.column, a.level, b.level)
        second = np.where(a.column <= b.column, b.level, a.level)
        key = ((low.astype(np.int64) + 1) << 40) | (high.astype(np.int64) << 16) | (first << 8) | second
        _, table = np.unique(key, return_inverse=True)
        gain_a = np.bincount(table, _more_candidates(a, b, cell))
        gain_b = np.bincount(table, _more_candidates(b, a, cell))
        fold_b = (gain_b < LOOK) & (gain_b <= gain_a)
        fold_a = (gain_a < LOOK) & ~fold_b
        of_a, of_b = fold_a[table] & (a.level > 0), fold_b[table] & (b.level > 0)
        of_a &= a.column != HELD
        if not (of_a.any() or of_b.any()):
            return a, b
        a = replace(a, level=a.level - of_a.astype(np.int32))
        b = replace(b, level=b.level - of_b.astype(np.int32))
        a, b = _without(a, a.level == 0, anything), _without(b, b.level == 0, anything)


def _more_candidates(side: Side, other: Side, cell: Floats) -> Floats:
    """How many more events in one would look at each conjunction if its level on this side were one step coarser."""
    now = np.minimum(side.selectivity + cell[side.column, side.level], 1.0)
    coarser = np.where(side.level > 1, cell[side.column, np.maximum(side.level - 1, 0)], 1.0)
    then = np.minimum(side.selectivity + coarser, 1.0)
    seen = np.minimum(other.selectivity + cell[other.column, other.level], 1.0)
    more: Floats = np.where((side.level > 0) & (side.column != HELD), (then - now) * seen, np.inf)
    return more
