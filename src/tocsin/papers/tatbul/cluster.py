"""The Cluster Index (Tatbul 2001, 4.1.1): a tree of keys whose leaves are clusters of predicates that may hold."""

import numpy as np
from pyroaring import BitMap

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.tatbul.cluster_kernels import Clusters, build_clusters, cluster_probe, find_leaf
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.kernels import CODE_MAX
from tocsin.papers.tatbul.layers import LayeredIndex, bitmap
from tocsin.papers.tatbul.protocol import CodeNames
from tocsin.papers.tatbul.structure import Entries, Found, Structure, count_and_fill


class ClusterTree(Structure):
    """A cluster tree, split until a cluster has at most `minimum` entries or all of its entries share a code.

    The paper's score of a key, the difference of the two sides plus what is on both, is twice the larger side minus the
    whole: l + r + |l - r| - n = 2 max(l, r) - n. The left side only grows with the key and the right only shrinks, so
    the paper's search finds the best key of all, and it finds none exactly if the entries have a code in common.
    """

    def __init__(self, entries: Entries, minimum: int = 1) -> None:
        super().__init__(entries)
        self.minimum = minimum
        self.tree: Clusters = build_clusters(entries.lo, entries.hi, minimum)

    def find(self, codes: Int32s) -> Found:
        """Return the entries that contain each code. O(depth + cluster) each."""
        lo, hi, _ = self.entries
        return count_and_fill(lambda *batch: cluster_probe(lo, hi, self.tree, *batch), codes)

    def cluster(self, code: int) -> tuple[Int32s, int]:
        """Return the entries that may contain `code` and the number of keys compared."""
        leaf, evaluations = find_leaf(self.tree, code)
        return self.tree.ids[self.tree.offsets[leaf] : self.tree.offsets[leaf + 1]], int(evaluations)

    @property
    def nodes(self) -> int:
        """The number of nodes, leaf clusters included."""
        return len(self.tree.key)

    @property
    def arrays(self) -> tuple[Int32s | Int64s, ...]:
        """Keys, children, and the clusters at the leaves."""
        return tuple(self.tree)

    def check(self) -> None:
        """Assert that each leaf cluster is exactly what reaches its range, and that it had to be a leaf."""
        assert self.tree.offsets[-1] == len(self.tree.ids), "the last cluster ends with the ids"
        ends = set(self.entries.lo.tolist()) | set(self.entries.hi.tolist())
        stack, leaves = [(0, 0, CODE_MAX)], 0
        while stack:
            node, first, last = stack.pop()
            assert first <= last, "a key lies inside the range that it splits"
            key, right = int(self.tree.key[node]), int(self.tree.right[node])
            if right:
                assert node + 1 < right, "nodes stand in preorder"
                assert key in ends, "keys are ends of entries"
                stack += [(right, key, last), (node + 1, first, key - 1)]
                continue
            assert key == leaves, "leaves are numbered from left to right"
            leaves += 1
            ids = self.tree.ids[self.tree.offsets[key] : self.tree.offsets[key + 1]]
            assert np.array_equal(ids, self.inside(first, last)), "a cluster is every entry that reaches its range"
            common = len(ids) == 0 or self.entries.hi[ids].min() >= self.entries.lo[ids].max()
            assert len(ids) <= self.minimum or common, "a cluster that a key can part is split"
        assert leaves == len(self.tree.offsets) - 1, "every leaf is reached"

    def leaf(self, number: int, first: int, last: int, names: CodeNames, depth: int) -> Drawing:  # noqa: ARG002
        """Return leaf cluster `number`, which serves the codes from `first` to `last`."""
        ids = self.tree.ids[self.tree.offsets[number] : self.tree.offsets[number + 1]]
        return Drawing(first, last, "cluster", self.bits(ids))

    def drawing(self, names: CodeNames, depth: int) -> Drawing:
        """Return the tree down to `depth`: keys with what may hold below them."""

        def show(node: int, first: int, last: int, depth: int) -> Drawing:
            key, right = int(self.tree.key[node]), int(self.tree.right[node])
            if not right:
                return self.leaf(key, first, last, names, depth)
            children = (
                ()
                if depth == 0
                else (
                    show(node + 1, first, key - 1, depth - 1),
                    show(right, key, last, depth - 1),
                )
            )
            return Drawing(first, last, f"key {names(key, key)}", self.bits(self.inside(first, last)), children)

        return show(0, 0, CODE_MAX, depth)


class ClusterIndex(LayeredIndex):
    """Walk down keys to the cluster of predicates that may hold, then evaluate these.

    Evaluations: O(log n) keys plus the cluster, which is at least as large as the answer. Memory: n times the mean
    number of predicates that hold for a value.

    >>> index = ClusterIndex.build([3, 5, 9], [7, 15, 13])
    >>> index.probe(5).tolist(), index.evaluations
    ([0, 1], 3)
    >>> print(index.draw(5))
    * key 9  111
    ├─ * cluster  110
    └─ cluster  011
    """

    def _freeze(self, entries: Entries) -> ClusterTree:
        return ClusterTree(entries)

    def narrow(self, code: int, alive: BitMap) -> BitMap:
        """Return those of `alive` that may hold for `code`: the cluster, not yet evaluated."""
        if code < 0:
            return BitMap()
        near = self.evaluate(code, alive & bitmap(self._buffered().predicate))
        for layer in self._layers:
            structure = layer.structure
            assert isinstance(structure, ClusterTree)
            ids, compared = structure.cluster(code)
            self.evaluations += compared
            near |= bitmap(structure.entries.predicate[ids[~layer.dead[ids]]])
        return alive & near

    def verify(self, code: int, alive: BitMap) -> BitMap:
        """Evaluate those of `alive`, which `narrow` left, and return the ones that hold for `code`."""
        return self.evaluate(code, alive)
