"""The two scored interval trees: lists by score, or lists by endpoint, at the nodes of one tree."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin._kernels.ranking_tree import (
    gather_stabbed,
    grow_tree,
    heap_order,
    merge_lists,
    open_lists,
    pop_best,
    tree_path,
)
from tocsin.ranking.protocol import Float64s, How, Int32s, RankedIterator, best_first
from tocsin.ranking.static import StaticIndex

BUCKET = 32


class ScoredIntervalTree(StaticIndex):
    """Rank intervals by an interval tree whose nodes list theirs by score.

    Takes 8 bytes an interval and 16 a node; n log n to build. A query merges the lists on one path and steps over
    the intervals there that miss the value, in the worst case all of them.

    >>> index = ScoredIntervalTree.build([0, 10, 20], [30, 20, 40], [1.0, 3.0, 2.0])
    >>> index.iterate(20).take(10).tolist()
    [1, 2, 0]
    """

    bucket = BUCKET

    def _arrange(self) -> None:
        ranked = best_first(self.columns.scores)
        lo, hi = self.columns.lo[ranked], self.columns.hi[ranked]
        self.center, self.left, self.right, self.start, order = grow_tree(lo, hi, self.bucket)
        self.lo, self.hi, self.ids = lo[order], hi[order], ranked[order]

    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        return self.center, self.left, self.right, self.start, self.lo, self.hi, self.ids

    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:
        path = tree_path(self.center, self.left, self.right, value)
        positions, ends = open_lists(self.start, path)
        return _ListIterator(self, latest_lo, earliest_hi, positions, ends)

    def check(self) -> None:
        """Assert every invariant, with its reason."""
        super().check()
        assert np.array_equal(np.sort(self.ids), np.arange(len(self))), "each interval stands in one node"
        place = np.empty(len(self), np.int64)
        place[best_first(self.columns.scores)] = np.arange(len(self))
        pending = [(0, -(2**31), 2**31 - 1)] if self.center.size else []
        while pending:
            node, low, high = pending.pop()
            center = int(self.center[node])
            part = slice(self.start[node], self.start[node + 1])
            lo, hi = self.lo[part], self.hi[part]
            assert np.all((lo >= low) & (hi <= high)), "a subtree lies on one side of each center above it"
            assert np.all(np.diff(place[self.ids[part]]) > 0), "a node lists its intervals best first"
            if self.left[node] == -2:
                assert lo.size <= self.bucket, "a bucket is small, for it may miss every value"
                continue
            assert np.all((lo <= center) & (hi >= center)), "the intervals of a node contain its center"
            if self.left[node] >= 0:
                pending.append((int(self.left[node]), low, center - 1))
            if self.right[node] >= 0:
                pending.append((int(self.right[node]), center + 1, high))


class _ListIterator(RankedIterator):
    """Merges the lists on a path: `positions` and `ends` bound what is left of each."""

    def __init__(
        self,
        tree: ScoredIntervalTree,
        latest_lo: int,
        earliest_hi: int,
        positions: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
    ) -> None:
        self._tree = tree
        self._latest_lo, self._earliest_hi = latest_lo, earliest_hi
        self._positions, self._ends = positions, ends

    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""
        tree = self._tree
        out = np.empty(min(n, len(tree)), np.int32)
        count = merge_lists(
            tree.lo,
            tree.hi,
            tree.ids,
            tree.columns.scores,
            self._latest_lo,
            self._earliest_hi,
            self._positions,
            self._ends,
            out,
        )
        return out[:count]


class EndpointIntervalTree(StaticIndex):
    """Rank intervals by the usual interval tree: find every interval over the value, then order them by a heap.

    Takes 8 bytes an interval, 16 a node and one more id an interval; n log n to build; a query costs all its matches.

    >>> index = EndpointIntervalTree.build([0, 10, 20], [30, 20, 40], [1.0, 3.0, 2.0])
    >>> index.iterate(20).take(10).tolist()
    [1, 2, 0]
    """

    ranges: ClassVar[tuple[How, ...]] = ()

    def _arrange(self) -> None:
        lo, hi = self.columns.lo, self.columns.hi
        self.center, self.left, self.right, self.start, order = grow_tree(lo, hi, 1)
        node = np.repeat(np.arange(self.center.size), np.diff(self.start))
        self.ids_by_lo = order[np.lexsort((lo[order], node))]
        self.ids_by_hi = order[np.lexsort((-hi[order].astype(np.int64), node))]
        self.lo, self.hi = lo[self.ids_by_lo], hi[self.ids_by_hi]

    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        return self.center, self.left, self.right, self.start, self.lo, self.hi, self.ids_by_lo, self.ids_by_hi

    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:  # noqa: ARG002
        heap = self.stabbed(value)
        heap_order(heap, self.columns.scores)
        return _HeapIterator(heap, self.columns.scores)

    def stabbed(self, value: int) -> Int32s:
        """Return all intervals over `value` that the arrays hold, in no order."""
        path = tree_path(self.center, self.left, self.right, value)
        return gather_stabbed(self.center, self.start, path, self.lo, self.ids_by_lo, self.hi, self.ids_by_hi, value)

    def check(self) -> None:
        """Assert every invariant, with its reason."""
        super().check()
        for ids in (self.ids_by_lo, self.ids_by_hi):
            assert np.array_equal(np.sort(ids), np.arange(len(self))), "each interval stands once in both lists"
        for node, center in enumerate(self.center):
            part = slice(self.start[node], self.start[node + 1])
            assert np.all(self.lo[part] <= center), "the intervals of a node contain its center"
            assert np.all(self.hi[part] >= center), "the intervals of a node contain its center"
            assert np.all(self.lo[part][1:] >= self.lo[part][:-1]), "left of the center, a prefix has begun"
            assert np.all(self.hi[part][1:] <= self.hi[part][:-1]), "right of the center, a prefix has not ended"


class _HeapIterator(RankedIterator):
    """Pops the matches from a heap."""

    def __init__(self, heap: Int32s, scores: Float64s) -> None:
        self._heap, self._scores = heap, scores
        self._size = heap.size

    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""
        out = np.empty(min(n, self._size), np.int32)
        count = pop_best(self._heap, self._size, self._scores, out)
        self._size -= count
        return out[:count]
