"""SOPTRTree: the R-tree whose intervals are arranged so that a top-k query meets at most k holes."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s
from tocsin.papers.ranked.protocol import Columns, How, as_columns, best_first
from tocsin.papers.ranked.rtree import ScoredRTree
from tocsin.papers.ranked.sopt_kernels import arrange_leftmost, constraint_edges


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

    def _order(self, columns: Columns) -> Int32s:
        ranked = best_first(columns.scores)
        lo, hi = columns.lo[ranked], columns.hi[ranked]
        by_lo = _sorted_ranks(lo)
        head, target, link = constraint_edges(lo, hi, by_lo, _sorted_ranks(hi))
        return ranked[arrange_leftmost(by_lo, head, target, link)]


def constraint_graph(lo: npt.ArrayLike, hi: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[Int32s, Int32s]:
    """Return the edges of the constraint graph as sources and targets: the source must precede the target.

    There are at most 3n: an interval adds two edges where it begins and one where it ends.

    >>> [ids.tolist() for ids in constraint_graph([0, 90, 5], [10, 99, 15], [1.0, 3.0, 2.0])]
    [[2], [0]]
    """
    columns = as_columns(lo, hi, scores)
    ranked = best_first(columns.scores)
    first, last = columns.lo[ranked], columns.hi[ranked]
    head, target, link = constraint_edges(first, last, _sorted_ranks(first), _sorted_ranks(last))
    source = np.full(target.size, -1, np.int32)
    for rank, edge in enumerate(head.tolist()):
        while edge >= 0:
            source[edge] = rank
            edge = int(link[edge])
    real = target >= 0
    return ranked[source[real]], ranked[target[real]]


def _sorted_ranks(ends: Int32s) -> Int32s:
    """Ranks by one of their endpoints, equal endpoints by rank. Sorting packed integers beats an indirect sort."""
    packed = (ends.astype(np.int64) << 32) | np.arange(ends.size)
    packed.sort()
    return (packed & 0xFFFFFFFF).astype(np.int32)
