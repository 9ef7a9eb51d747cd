"""Which leaves of a tree are filed: a cover of which one holds whenever the tree is TRUE, as rarely as possible."""

import numpy as np

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, UInt8s
from tocsin.conjunctions.boolean.kernels import choose_cover
from tocsin.conjunctions.coded import TRUE, Conjunctions
from tocsin.tuning import TUNING

POSTING = 1e-6
"""What filing a leaf costs beside the events that satisfy it, as a share of events: of equals the smaller wins."""


def cover_of(
    conjunctions: Conjunctions,
    leaf: Int32s,
    nesting: tuple[UInt8s, UInt8s],
    starts: Int64s,
    popularity: list[Float64s],
    selective: Bools,
) -> Bools:
    """Tell which conjunctions are filed: those that are not a leaf, and the covers of trees that have a rare one.

    The leaves of tree t are the conjunctions `leaf[starts[t]:starts[t + 1]]`. `popularity[column][code + 1]` is the
    share of events whose code is at most `code`; `selective` says which tests few events satisfy.
    """
    share = np.ones(conjunctions.count)
    is_leaf = np.zeros(conjunctions.count, bool)
    is_leaf[leaf] = True
    rows = np.flatnonzero(is_leaf[conjunctions.conjunction])
    owner, column = conjunctions.conjunction[rows], conjunctions.column[rows]
    if rows.size:
        first = np.flatnonzero(np.append(True, (np.diff(owner) != 0) | (np.diff(column) != 0)))
        shares = np.add.reduceat(_shares(conjunctions, rows, popularity), first)
        np.multiply.at(share, owner[first], np.minimum(shares, 1.0))
    tests = np.flatnonzero(is_leaf[conjunctions.test_conjunction])
    rare = tests[(conjunctions.test_accepts[tests] == TRUE) & selective[conjunctions.test[tests]]]
    share_of_test = min(1.0, TUNING.expected_true_tests / max(selective.size, 1))
    np.multiply.at(share, conjunctions.test_conjunction[rare], share_of_test)
    filed = ~is_leaf
    chosen, costs = choose_cover(*nesting, starts, share[leaf] + POSTING)
    filed[leaf] = chosen & np.repeat(costs <= TUNING.max_cover, np.diff(starts))
    return filed


def _shares(conjunctions: Conjunctions, rows: Int64s, popularity: list[Float64s]) -> Float64s:
    """The share of events in each of some rows of ranges."""
    share = np.empty(rows.size)
    column, low, high = conjunctions.column[rows], conjunctions.low[rows], conjunctions.high[rows]
    order = np.argsort(column, kind="stable")
    ends = np.searchsorted(column[order], np.arange(len(popularity) + 1))
    for number, cumulative in enumerate(popularity):
        mine = order[ends[number] : ends[number + 1]]
        below = np.where(low[mine] >= 0, cumulative[np.maximum(low[mine], 0)], 0.0)
        share[mine] = cumulative[high[mine] + 1] - below
    return share
