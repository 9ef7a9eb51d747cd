"""Estimate what a conjunction costs an event, by access pairs and in bitmaps, in nanoseconds of a large batch.

The estimates need no event: they follow from the selectivities of predicates. Their constants stand in `tuning.py`, and
`docs/internals/bitmaps.md` compares estimates with measurements.
"""

import numpy as np

from tocsin.arrays import Float64s, Int64s
from tocsin.conjunctions.bitmaps.build import expected_matches, often_match
from tocsin.conjunctions.bitmaps.kernels import BLOCK, GROUP
from tocsin.conjunctions.coded import RangePredicates
from tocsin.conjunctions.pairs.access import AccessPairs, expected_candidates
from tocsin.conjunctions.pairs.build import Prepared
from tocsin.tuning import TUNING

CARRIED = 3
"""Predicates that a posting of access pairs carries; what is beyond them is read from the rest list."""
_AT_ONCE = 1 << 21
"""Predicates whose costs are estimated together: that takes a hundred bytes for each."""


def cost_by_pairs(prepared: Prepared) -> Float64s:
    """Return what each conjunction costs an event: being a candidate, having its rest list verified, and being a match.

    A conjunction without a rest list needs no full codes of most events, hence the discount. How often tests hold is
    not known: a conjunction that has one is taken to match rarely.
    """
    candidates = expected_candidates(prepared.access, prepared.shortened.last_code)
    carried = np.minimum(candidates, _shares(prepared.predicates, CARRIED))
    has_rest = np.diff(prepared.predicates.starts) > CARRIED
    has_rest[prepared.conjunctions.test_conjunction] = True
    cost = TUNING.posting_ns * candidates + TUNING.rest_ns * carried * has_rest
    matches = share_of_conjunctions(prepared.predicates)
    matches[prepared.conjunctions.test_conjunction] = 0.0
    return np.where(has_rest, cost, cost / TUNING.short_codes_pay) + TUNING.pair_ns * matches


def cost_of_looks(access: AccessPairs) -> Float64s:
    """Return the share that each conjunction has in the cost of a look into its table, which every event takes."""
    sides = (access.a, access.b)
    keys = np.stack([field for side in sides for field in (side.column, side.level)], axis=1)
    _, table, sizes = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    return TUNING.look_ns / sizes[table.reshape(-1)]


def cost_in_bitmaps(prepared: Prepared) -> Float64s:
    """Return what each conjunction costs an event: the vectors of its group if it is not dead, and verification.

    There are 2**bits groups if all conjunctions are in bitmaps. Sorting by a column spends bits on which column it is
    and on its classes, and leaves a group alive for as many events as a class accepts.
    """
    predicates, count = prepared.predicates, prepared.conjunctions.count
    columns, in_use = np.unique(predicates.column).size, _columns_in_use(predicates)
    costs, step = np.empty(count), max(_AT_ONCE * count // max(predicates.column.size, 1), 1)
    for first in range(0, count, step):
        part = predicates.part(first, min(first + step, count))
        costs[first : first + step] = _cost_in_bitmaps(part, count, columns, in_use)
    return costs


def _cost_in_bitmaps(predicates: RangePredicates, count: int, all_columns: int, columns: float) -> Float64s:
    """Do so for some of `count` conjunctions, of which `columns` of `all_columns` are in use."""
    named = np.diff(predicates.starts)
    bits = np.log2(max(count / GROUP, 1.0))
    selectivity = np.minimum(predicates.selectivity, 1.0)
    classes = np.where(selectivity > 0.25, 4, np.where(selectivity > 0.08, 8, 16))
    spent = np.log2(classes) + np.log2(1 + columns / np.maximum(named, 1))[predicates.conjunction]
    place = np.arange(predicates.conjunction.size) - predicates.starts[predicates.conjunction]
    sorts = np.clip(bits / spent - place, 0.0, 1.0)
    alive = _product(predicates, (selectivity + (1 - selectivity) / classes) ** sorts)
    # A row needs conjunctions: columns that few of a block name have none, but those that it is sorted by, of which a
    # block has as many as it takes to fill it.
    by_columns = min(count / columns / TUNING.min_named, 1.0)
    usual = np.clip(2 * named * BLOCK / columns / TUNING.min_named - 1, 0.0, 1.0)
    in_row = np.maximum(np.where(place == 0, np.maximum(sorts, by_columns), sorts), usual[predicates.conjunction])
    candidates = _product(predicates, 1 - in_row * (1 - selectivity))
    rows = np.maximum(columns * usual, min(columns, max(BLOCK * columns / max(count, 1), 1.0)))
    is_dense = often_match(expected_matches(predicates), named, all_columns)
    verify = np.where(is_dense, TUNING.certain_ns, TUNING.verify_ns)
    return TUNING.block_ns / BLOCK + TUNING.vector_ns / GROUP * rows * alive + verify * candidates


def _columns_in_use(predicates: RangePredicates) -> float:
    """Return how many columns there are, those that few predicates name counting less: the perplexity of the column.

    A hundred columns of one conjunction each do not make the bitmaps of all others worse.
    """
    shares = np.unique(predicates.column, return_counts=True)[1] / max(predicates.column.size, 1)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def share_of_conjunctions(predicates: RangePredicates) -> Float64s:
    """Return the share of events that satisfies all ranges of each conjunction."""
    return _product(predicates, np.minimum(predicates.selectivity, 1.0))


def _product(predicates: RangePredicates, factors: Float64s) -> Float64s:
    """Return the product of the factors of each conjunction's predicates."""
    logs = np.log(np.maximum(factors, 1e-12))
    return np.exp(np.bincount(predicates.conjunction, logs, predicates.starts.size - 1))


def _shares(predicates: RangePredicates, most: int) -> Float64s:
    """Return the share of events that satisfies the `most` most selective predicates of each conjunction."""
    place: Int64s = np.arange(predicates.conjunction.size) - predicates.starts[predicates.conjunction]
    return _product(predicates, np.where(place < most, np.minimum(predicates.selectivity, 1.0), 1.0))
