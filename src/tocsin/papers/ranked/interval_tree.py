"""The two scored interval trees: lists by score, or lists by endpoint, at the nodes of one tree."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.ranked.protocol import Columns, How, RankedIterator, best_first, by_id
from tocsin.papers.ranked.static import StaticIndex
from tocsin.papers.ranked.tree_kernels import (
    gather_stabbed,
    grow_tree,
    heap_order,
    merge_lists,
    open_lists,
    pop_best,
    tree_path,
)
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.kernels import CODE_MAX
from tocsin.papers.tatbul.protocol import CodeNames

BUCKET = 64


class ScoredIntervalTree(StaticIndex):
    """Rank intervals by an interval tree whose nodes list theirs by score.

    Takes 11 bytes an interval, its id apart, and 16 a node: both ends, and the rank in the order of scores, by which
    lists are merged. Ranks have 16 low bits and 8 high ones, 16 from 2 ** 24 intervals on. Costs n log n to build. A
    query merges the lists on one path and steps over the intervals there that miss the value, at worst all of them.

    >>> index = ScoredIntervalTree.build([0, 10, 20], [30, 20, 40], [1.0, 3.0, 2.0])
    >>> index.iterate(20).take(10).tolist()
    [1, 2, 0]
    """

    bucket = BUCKET

    def _arrange(self, columns: Columns) -> None:
        ranked = best_first(columns.scores)
        lo, hi = columns.lo[ranked], columns.hi[ranked]
        self.center, self.left, self.right, self.start, ranks = grow_tree(lo, hi, self.bucket)
        self.lo, self.hi, self.ids = lo[ranks], hi[ranks], ranked[ranks]
        self.rank_low = (ranks & 0xFFFF).astype(np.uint16)
        narrow = ranks.size <= 1 << 24
        self.rank_high: npt.NDArray[np.unsignedinteger] = (ranks >> 16).astype(np.uint8 if narrow else np.uint16)

    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        lists = self.lo, self.hi, self.rank_low, self.rank_high, self.ids
        return self.center, self.left, self.right, self.start, *lists

    def _ends(self) -> tuple[Int32s, Int32s]:
        return by_id(self.ids, self.lo), by_id(self.ids, self.hi)

    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:
        path = tree_path(self.center, self.left, self.right, value)
        positions, ends = open_lists(self.start, path)
        return _ListIterator(self, latest_lo, earliest_hi, positions, ends)

    def check(self) -> None:
        """Assert every invariant, with its reason."""
        super().check()
        assert np.array_equal(np.sort(self.ids), np.arange(len(self))), "each interval stands in one node"
        rank = self.rank_low | (self.rank_high.astype(np.int64) << 16)
        assert np.array_equal(np.sort(rank), np.arange(len(self))), "no two intervals have the same rank"
        pending = [(0, -(2**31), 2**31 - 1)] if self.center.size else []
        while pending:
            node, low, high = pending.pop()
            center = int(self.center[node])
            part = slice(self.start[node], self.start[node + 1])
            lo, hi = self.lo[part], self.hi[part]
            assert np.all((lo >= low) & (hi <= high)), "a subtree lies on one side of each center above it"
            assert np.all(np.diff(rank[part]) > 0), "a node lists its intervals best first"
            if self.left[node] == -2:
                assert lo.size <= self.bucket, "a bucket is small, for it may miss every value"
                continue
            assert np.all((lo <= center) & (hi >= center)), "the intervals of a node contain its center"
            if self.left[node] >= 0:
                pending.append((int(self.left[node]), low, center - 1))
            if self.right[node] >= 0:
                pending.append((int(self.right[node]), center + 1, high))

    def drawing(self, names: CodeNames, depth: int = 8) -> Drawing:
        """Return the tree down to `depth`: centers, and the intervals of each node by score."""
        centers = Centers(self.center, self.left, self.right, self.start)
        return draw_centers(centers, lambda part: f"{self.ids[part].tolist()}", names, depth)


class _ListIterator(RankedIterator):
    """Merges the lists on a path: `positions` and `ends` bound what is left of each."""

    def __init__(
        self,
        tree: ScoredIntervalTree,
        latest_lo: int,
        earliest_hi: int,
        positions: Int64s,
        ends: Int64s,
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
            tree.rank_low,
            tree.rank_high,
            self._latest_lo,
            self._earliest_hi,
            self._positions,
            self._ends,
            out,
        )
        return tree.ids[out[:count]]


class EndpointIntervalTree(StaticIndex):
    """Rank intervals by the usual interval tree: find every interval over the value, then order them by a heap.

    Takes 16 bytes an interval, its id apart, and 16 a node; n log n to build; a query costs all its matches. Lists hold
    ranks in the order of scores, and `ids` goes by rank.

    >>> index = EndpointIntervalTree.build([0, 10, 20], [30, 20, 40], [1.0, 3.0, 2.0])
    >>> index.iterate(20).take(10).tolist()
    [1, 2, 0]
    """

    ranges: ClassVar[tuple[How, ...]] = ()

    def _arrange(self, columns: Columns) -> None:
        self.ids = best_first(columns.scores)
        lo, hi = columns.lo[self.ids], columns.hi[self.ids]
        self.center, self.left, self.right, self.start, ranks = grow_tree(lo, hi, 1)
        node = np.repeat(np.arange(self.center.size), np.diff(self.start))
        self.ranks_by_lo = ranks[np.lexsort((lo[ranks], node))]
        self.ranks_by_hi = ranks[np.lexsort((-hi[ranks].astype(np.int64), node))]
        self.lo, self.hi = lo[self.ranks_by_lo], hi[self.ranks_by_hi]

    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        lists = self.lo, self.hi, self.ranks_by_lo, self.ranks_by_hi, self.ids
        return self.center, self.left, self.right, self.start, *lists

    def _ends(self) -> tuple[Int32s, Int32s]:
        return by_id(self.ids[self.ranks_by_lo], self.lo), by_id(self.ids[self.ranks_by_hi], self.hi)

    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:  # noqa: ARG002
        heap = self._stabbed(value)
        heap_order(heap)
        return _HeapIterator(self, heap)

    def _stabbed(self, value: int) -> Int32s:
        path = tree_path(self.center, self.left, self.right, value)
        lists = self.lo, self.ranks_by_lo, self.hi, self.ranks_by_hi
        return gather_stabbed(self.center, self.start, path, *lists, value)

    def stabbed(self, value: int) -> Int32s:
        """Return the ids of all intervals over `value` that the arrays hold, in no order."""
        return self.ids[self._stabbed(value)]

    def check(self) -> None:
        """Assert every invariant, with its reason."""
        super().check()
        for ranks in (self.ranks_by_lo, self.ranks_by_hi, self.ids):
            assert np.array_equal(np.sort(ranks), np.arange(len(self))), "each interval stands once in every list"
        for node, center in enumerate(self.center):
            part = slice(self.start[node], self.start[node + 1])
            assert np.all(self.lo[part] <= center), "the intervals of a node contain its center"
            assert np.all(self.hi[part] >= center), "the intervals of a node contain its center"
            assert np.all(self.lo[part][1:] >= self.lo[part][:-1]), "left of the center, a prefix has begun"
            assert np.all(self.hi[part][1:] <= self.hi[part][:-1]), "right of the center, a prefix has not ended"

    def drawing(self, names: CodeNames, depth: int = 8) -> Drawing:
        """Return the tree down to `depth`: centers, and the intervals of each node by start and by end."""

        def lists(part: slice) -> str:
            return " ".join(f"{self.ids[ranks[part]].tolist()}" for ranks in (self.ranks_by_lo, self.ranks_by_hi))

        centers = Centers(self.center, self.left, self.right, self.start)
        return draw_centers(centers, lists, names, depth)


class Centers(NamedTuple):
    """The nodes of an interval tree: their centers, children and where their lists start."""

    center: Int32s
    left: Int32s
    right: Int32s
    start: Int32s


def draw_centers(tree: Centers, lists: Callable[[slice], str], names: CodeNames, depth: int) -> Drawing:
    """Return an interval tree down to `depth`; `lists` writes what a node holds."""

    def show(node: int, first: int, last: int, depth: int) -> Drawing:
        held = lists(slice(int(tree.start[node]), int(tree.start[node + 1])))
        left, right, center = int(tree.left[node]), int(tree.right[node]), int(tree.center[node])
        if left == -2:
            return Drawing(first, last, "bucket", held)
        children = []
        if left >= 0 and depth:
            children.append(show(left, first, center - 1, depth - 1))
        if right >= 0 and depth:
            children.append(show(right, center + 1, last, depth - 1))
        return Drawing(first, last, f"center {names(center, center)}", held, tuple(children))

    return show(0, 0, CODE_MAX, depth) if tree.center.size else Drawing(0, CODE_MAX, "empty")


class _HeapIterator(RankedIterator):
    """Pops the ranks of the matches from a heap."""

    def __init__(self, tree: EndpointIntervalTree, heap: Int32s) -> None:
        self._tree, self._heap = tree, heap
        self._size = heap.size

    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""
        out = np.empty(min(n, self._size), np.int32)
        count = pop_best(self._heap, self._size, out)
        self._size -= count
        return self._tree.ids[out[:count]]
