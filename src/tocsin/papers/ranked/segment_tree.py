"""ScoredSegmentTree: every interval filed, by score, under the segments that it covers."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.ranked.protocol import Columns, How, RankedIterator, best_first, by_id
from tocsin.papers.ranked.static import StaticIndex
from tocsin.papers.ranked.tree_kernels import fill_segments, merge_ranks
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.kernels import CODE_MAX
from tocsin.papers.tatbul.protocol import CodeNames


class ScoredSegmentTree(StaticIndex):
    """Rank intervals by a segment tree: all intervals on a value's path contain it, so nothing is stepped over.

    A query costs log n lists to merge and no more; the price is up to 2 log n entries an interval. `cuts` are the
    values where a segment begins, `ranks` the lists of the nodes, `ids` the intervals by rank.

    >>> index = ScoredSegmentTree.build([0, 10, 20], [30, 20, 40], [1.0, 3.0, 2.0])
    >>> index.iterate(20).take(10).tolist()
    [1, 2, 0]
    """

    ranges: ClassVar[tuple[How, ...]] = ()

    def _arrange(self, columns: Columns) -> None:
        self.ids = best_first(columns.scores)
        lo = columns.lo[self.ids].astype(np.int64)
        after = columns.hi[self.ids].astype(np.int64) + 1
        self.cuts = np.unique(np.concatenate((lo, after)))
        first = np.searchsorted(self.cuts, lo).astype(np.int32)
        last = np.searchsorted(self.cuts, after).astype(np.int32)
        self.starts, self.ranks = fill_segments(first, last, max(self.cuts.size, 1))

    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        return self.ids, self.cuts, self.starts, self.ranks

    def _ends(self) -> tuple[Int32s, Int32s]:
        leaves = max(self.cuts.size, 1)
        nodes = np.flatnonzero(np.diff(self.starts))
        first, last = nodes.copy(), nodes.copy()
        while (inner := first < leaves).any():
            first[inner] *= 2
        while (inner := last < leaves).any():
            last[inner] = 2 * last[inner] + 1
        lengths = self.starts[nodes + 1] - self.starts[nodes]
        lowest, highest = np.full(len(self), leaves), np.zeros(len(self), np.int64)
        np.minimum.at(lowest, self.ranks, np.repeat(first - leaves, lengths))
        np.maximum.at(highest, self.ranks, np.repeat(last - leaves, lengths))
        lo, hi = self.cuts[lowest].astype(np.int32), (self.cuts[highest + 1] - 1).astype(np.int32)
        return by_id(self.ids, lo), by_id(self.ids, hi)

    def _path(self, value: int) -> Int64s:
        """The nodes over a value, from its leaf up; none for a value before every cut."""
        leaf = int(np.searchsorted(self.cuts, value, side="right")) - 1
        if leaf < 0:
            return np.empty(0, np.int64)
        node = leaf + max(self.cuts.size, 1)
        return np.array([node >> level for level in range(node.bit_length())], np.int64)

    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:  # noqa: ARG002
        path = self._path(value)
        return _RankIterator(self, self.starts[path], self.starts[path + 1])

    def check(self) -> None:
        """Assert every invariant, with its reason."""
        super().check()
        for first, last in zip(self.starts[:-1], self.starts[1:], strict=True):
            assert np.all(np.diff(self.ranks[first:last]) > 0), "a node lists its intervals best first"
        lo, hi = self._ends()
        for leaf, cut in enumerate(self.cuts.tolist()):
            path = self._path(cut)
            filed = [self.ranks[self.starts[node] : self.starts[node + 1]] for node in path]
            found = self.ids[np.concatenate(filed)]
            over = (lo <= cut) & (hi >= cut)
            assert np.array_equal(np.sort(found), np.flatnonzero(over)), f"leaf {leaf} meets its intervals once"

    def drawing(self, names: CodeNames, depth: int = 8) -> Drawing:
        """Return the tree down to `depth`: segments, and the intervals filed there by score."""
        leaves = max(self.cuts.size, 1)

        def show(node: int, depth: int) -> Drawing:
            held = self.ids[self.ranks[self.starts[node] : self.starts[node + 1]]].tolist()
            if node >= leaves:
                first = int(self.cuts[node - leaves]) if self.cuts.size else 0
                last = int(self.cuts[node - leaves + 1]) - 1 if node - leaves + 1 < self.cuts.size else CODE_MAX
                return Drawing(first, last, names(first, last), f"{held or ''}")
            below = [show(child, depth - 1) for child in (2 * node, 2 * node + 1)]
            # Where the leaves are not a power of two, the last of them hang left of the first.
            first, last = min(child.first for child in below), max(child.last for child in below)
            together = below[0].last + 1 == below[1].first
            label = names(first, last) if together else "all"
            return Drawing(first, last, label, f"{held or ''}", tuple(below) if depth > 0 else ())

        return show(1, depth)


class _RankIterator(RankedIterator):
    """Merges the lists on a path: `positions` and `ends` bound what is left of each."""

    def __init__(self, tree: ScoredSegmentTree, positions: Int64s, ends: Int64s) -> None:
        self._tree = tree
        self._positions, self._ends = positions, ends

    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""
        out = np.empty(min(n, len(self._tree)), np.int32)
        count = merge_ranks(self._tree.ranks, self._positions, self._ends, out)
        return self._tree.ids[out[:count]]
