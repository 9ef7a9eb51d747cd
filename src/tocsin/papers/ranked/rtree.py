"""ScoredRTree: the intervals in order of score, and bounding intervals over each run of them."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s
from tocsin.papers.ranked.protocol import Columns, How, RankedIterator, best_first, by_id
from tocsin.papers.ranked.rtree_kernels import pack_extents, walk_rtree
from tocsin.papers.ranked.static import StaticIndex

FANOUT = 50


class ScoredRTree(StaticIndex):
    """Rank intervals by an R-tree in score order: a walk from the left meets the best first.

    Takes 8 bytes an interval, its id apart, and 8 for each inner node: where an interval stands says how it ranks.
    Costs n log n to build. A query may visit every leaf, because bounding intervals of unrelated intervals have holes.
    Any relation that an extent can rule out can be followed.

    >>> index = ScoredRTree.build([0, 10, 20], [30, 20, 40], [1.0, 3.0, 2.0])
    >>> index.iterate(20).take(10).tolist()
    [1, 2, 0]
    >>> index.iterate_range(21, 35, "containment").take(10).tolist()
    [2]
    """

    ranges: ClassVar[tuple[How, ...]] = ("overlap", "containment")
    fanout = FANOUT

    def _order(self, columns: Columns) -> Int32s:
        return best_first(columns.scores)

    def _arrange(self, columns: Columns) -> None:
        self.ids = self._order(columns)
        lo, hi = columns.lo[self.ids], columns.hi[self.ids]
        self.extent_lo, self.extent_hi, self.starts = pack_extents(lo, hi, self.fanout)

    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        return self.ids, self.extent_lo, self.extent_hi, self.starts

    def _ends(self) -> tuple[Int32s, Int32s]:
        size = len(self)
        return by_id(self.ids, self.extent_lo[:size]), by_id(self.ids, self.extent_hi[:size])

    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> "RTreeIterator":  # noqa: ARG002
        return RTreeIterator(self, latest_lo, earliest_hi)

    def check(self) -> None:
        """Assert every invariant, with its reason."""
        super().check()
        size = len(self)
        assert np.array_equal(np.sort(self.ids), np.arange(size)), "each interval stands once"
        assert self.starts[1] == size, "level 0 is the sequence"
        for level in range(1, self.starts.size - 1):
            first, here, end = self.starts[level - 1 : level + 2]
            cuts = np.arange(0, here - first, self.fanout)
            low = np.minimum.reduceat(self.extent_lo[first:here], cuts)
            high = np.maximum.reduceat(self.extent_hi[first:here], cuts)
            assert np.array_equal(self.extent_lo[here:end], low), "an extent begins with the first below it"
            assert np.array_equal(self.extent_hi[here:end], high), "an extent ends with the last below it"


class RTreeIterator(RankedIterator):
    """A left-first walk. `explored` counts the nodes entered so far, by level; level 0 are the intervals."""

    def __init__(self, tree: ScoredRTree, latest_lo: int, earliest_hi: int) -> None:
        self._tree = tree
        self._latest_lo, self._earliest_hi = latest_lo, earliest_hi
        self._state = np.array([tree.starts.size - 2, 0], np.int64)
        self.explored = np.zeros(tree.starts.size - 1, np.int64)

    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""
        tree = self._tree
        out = np.empty(min(n, len(tree)), np.int32)
        count = walk_rtree(
            tree.extent_lo,
            tree.extent_hi,
            tree.starts,
            tree.fanout,
            self._latest_lo,
            self._earliest_hi,
            self._state,
            self.explored,
            out,
        )
        return tree.ids[out[:count]]
