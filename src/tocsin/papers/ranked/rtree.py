"""ScoredRTree: the intervals in order of score, and bounding intervals over each run of them."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s
from tocsin.papers.ranked.protocol import Columns, How, RankedIterator, best_first, by_id
from tocsin.papers.ranked.rtree_kernels import pack_extents, walk_rtree
from tocsin.papers.ranked.static import StaticIndex
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.protocol import CodeNames

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

    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:  # noqa: ARG002
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

    def drawing(self, names: CodeNames, depth: int = 8) -> Drawing:
        """Return the tree down to `depth`: the extents of nodes, and the intervals from left to right."""

        def show(level: int, place: int, depth: int) -> Drawing:
            at = int(self.starts[level]) + place
            lo, hi = int(self.extent_lo[at]), int(self.extent_hi[at])
            if level == 0:
                return Drawing(lo, hi, f"#{self.ids[place]} {names(lo, hi)}")
            below = range(place * self.fanout, min((place + 1) * self.fanout, int(np.diff(self.starts)[level - 1])))
            children = tuple(show(level - 1, child, depth - 1) for child in below) if depth else ()
            return Drawing(lo, hi, names(lo, hi), children=children)

        top = self.starts.size - 2
        roots = tuple(show(top, place, depth) for place in range(int(np.diff(self.starts)[top])))
        return roots[0] if len(roots) == 1 else Drawing(0, -1, "empty" if not roots else "intervals", children=roots)


class ConventionalRTree(ScoredRTree):
    """Find intervals by an R-tree as databases build it, then sort what was found: the rival without scores.

    Intervals that start near each other share a node, one of the groupings that the paper names (2.1.3). A query costs
    all its matches. Takes 4 bytes an interval more than `ScoredRTree`, for the rank by score.

    >>> index = ConventionalRTree.build([0, 10, 20], [30, 20, 40], [1.0, 3.0, 2.0])
    >>> index.iterate(20).take(2).tolist()
    [1, 2]
    """

    def _order(self, columns: Columns) -> Int32s:
        return np.lexsort((columns.hi, columns.lo)).astype(np.int32)

    def _arrange(self, columns: Columns) -> None:
        super()._arrange(columns)
        ranked = best_first(columns.scores)
        self.rank = by_id(ranked, np.arange(len(self), dtype=np.int32))

    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        return *super()._arrays(), self.rank

    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:
        found = super()._walk(value, latest_lo, earliest_hi).take(len(self))
        return SortedIterator(found[np.argsort(self.rank[found])])


class SortedIterator(RankedIterator):
    """Ids that were found and sorted before the first is asked for."""

    def __init__(self, ids: Int32s) -> None:
        self._ids = ids

    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""
        taken, self._ids = self._ids[:n], self._ids[n:]
        return taken


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
