"""SOPTRTree: the R-tree whose intervals are arranged so that a top-k query meets at most k holes."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin._kernels.ranking_sopt import arrange_leftmost, constraint_edges
from tocsin.ranking.protocol import How, Int32s, best_first
from tocsin.ranking.rtree import ScoredRTree


class SOPTRTree(ScoredRTree):
    """Rank intervals by a score-optimal R-tree: neighbours on the line stand together, as far as scores allow.

    Only intervals that share a point must stand in order of score, because no value meets the others together.
    Bytes as ScoredRTree, n log n to build, and a top-k query explores at most 2k nodes a level. Containment is
    followed as well: intervals that contain one range share its points. Overlap is not.

    >>> index = SOPTRTree.build([0, 90, 5], [10, 99, 15], [1.0, 3.0, 2.0])
    >>> index.ids.tolist()
    [2, 0, 1]
    >>> index.iterate(7).take(2).tolist()
    [2, 0]
    """

    ranges: ClassVar[tuple[How, ...]] = ("containment",)

    def _order(self) -> Int32s:
        ranked = best_first(self.columns.scores)
        lo, hi = self.columns.lo[ranked], self.columns.hi[ranked]
        by_lo = _sorted_ranks(lo)
        head, target, link = constraint_edges(lo, hi, by_lo, _sorted_ranks(hi))
        return ranked[arrange_leftmost(by_lo, head, target, link)]

    def edges(self) -> tuple[Int32s, Int32s]:
        """Return the edges of the constraint graph as sources and targets: the source must precede the target."""
        ranked = best_first(self.columns.scores)
        lo, hi = self.columns.lo[ranked], self.columns.hi[ranked]
        head, target, link = constraint_edges(lo, hi, _sorted_ranks(lo), _sorted_ranks(hi))
        source = np.full(target.size, -1, np.int32)
        for rank, first in enumerate(head.tolist()):
            edge = first
            while edge >= 0:
                source[edge] = rank
                edge = int(link[edge])
        real = target >= 0
        return ranked[source[real]], ranked[target[real]]

    def _check_order(self) -> None:
        place = np.empty(len(self), np.int64)
        place[self.ids] = np.arange(len(self))
        source, target = self.edges()
        assert source.size <= 3 * len(self), "an interval adds two edges where it begins and one where it ends"
        assert np.all(place[source] < place[target]), "an interval stands after those that must precede it"


def _sorted_ranks(ends: npt.NDArray[np.int32]) -> Int32s:
    """Ranks by one of their endpoints, equal endpoints by rank. Sorting packed integers beats an indirect sort."""
    packed = (ends.astype(np.int64) << 32) | np.arange(ends.size)
    packed.sort()
    return (packed & 0xFFFFFFFF).astype(np.int32)
