"""The Hybrid Index (Tatbul 2001, 4.1.3): a cluster tree with an interval index on each leaf cluster."""

from typing import Self

import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.errors import OptionError
from tocsin.papers.tatbul.cluster import ClusterTree
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.elementary_kernels import Elementary, build_hybrid, hybrid_probe
from tocsin.papers.tatbul.interval import check_elementary, check_extent, draw_elementary
from tocsin.papers.tatbul.layers import LayeredIndex
from tocsin.papers.tatbul.protocol import CodeNames
from tocsin.papers.tatbul.structure import Entries, Found, count_and_fill


class HybridTree(ClusterTree):
    """A cluster tree whose leaf clusters of two or more entries each have a search tree over elementary intervals."""

    def __init__(self, entries: Entries, minimum: int) -> None:
        super().__init__(entries, minimum)
        self.inner: Elementary = build_hybrid(entries.lo, entries.hi, self.tree)

    def find(self, codes: Int32s) -> Found:
        """Return the entries that contain each code. O(depth + log(cluster)) each, and the answers."""
        lo, hi, _ = self.entries
        return count_and_fill(lambda *batch: hybrid_probe(lo, hi, self.tree, self.inner, *batch), codes)

    @property
    def nodes(self) -> int:
        """The number of nodes of the cluster tree and of all search trees on its leaves."""
        return super().nodes + len(self.inner.first)

    @property
    def arrays(self) -> tuple[Int32s | Int64s, ...]:
        """The arrays of the cluster tree and of the search trees."""
        return (*super().arrays, *self.inner)

    def check(self) -> None:
        """Assert the invariants of the cluster tree and of each search tree."""
        super().check()
        check_extent(self.inner)
        for number in range(len(self.tree.offsets) - 1):
            members = self.tree.ids[self.tree.offsets[number] : self.tree.offsets[number + 1]]
            if len(members) > 1:
                check_elementary(self, self.inner, number, members)
            else:
                assert self.inner.trees[number] == self.inner.trees[number + 1], "a single entry needs no search tree"

    def leaf(self, number: int, first: int, last: int, names: CodeNames, depth: int) -> Drawing:
        """Return leaf cluster `number` with its search tree below it."""
        cluster = super().leaf(number, first, last, names, depth)
        if depth == 0 or self.inner.trees[number] == self.inner.trees[number + 1]:
            return cluster
        inner = draw_elementary(self, self.inner, number, first, last, names, depth - 1)
        return Drawing(first, last, cluster.label, cluster.bits, (inner,))


class HybridIndex(LayeredIndex):
    """Walk down keys to a cluster, then search the elementary intervals of that cluster.

    Clusters are split while they have more than `minimum` entries and a key parts them. Evaluations: O(log n).

    >>> index = HybridIndex.build([3, 5, 9], [7, 15, 13], minimum=2)
    >>> index.probe(5).tolist(), index.evaluations
    ([0, 1], 4)
    """

    minimum = 8

    @classmethod
    def build(
        cls, lo: npt.ArrayLike, hi: npt.ArrayLike, predicate: npt.ArrayLike | None = None, minimum: int = minimum
    ) -> Self:
        """Index the ranges from ``lo[i]`` to ``hi[i]`` of predicate ``predicate[i]``, or of predicate ``i``."""
        if minimum < 1:
            raise OptionError(f"a minimum cluster size of {minimum} never stops splitting", "Give 1 or more")
        index = cls()
        index.minimum = minimum
        index._add(Entries.of(lo, hi, predicate))
        return index

    def _freeze(self, entries: Entries) -> HybridTree:
        return HybridTree(entries, self.minimum)
