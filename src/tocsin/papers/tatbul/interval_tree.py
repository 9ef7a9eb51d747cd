"""The Interval Tree (Tatbul 2001, 4.1.4): each entry once, at the highest key it contains, in two sorted lists."""

import numpy as np

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.interval_tree_kernels import Centred, build_centred, centred_probe
from tocsin.papers.tatbul.kernels import CODE_MAX
from tocsin.papers.tatbul.layers import LayeredIndex
from tocsin.papers.tatbul.protocol import CodeNames
from tocsin.papers.tatbul.structure import Entries, Found, Structure, count_and_fill


class CentredTree(Structure):
    """An interval tree whose keys are the middle ones of the distinct ends of the entries below.

    Of two middle ends the upper is taken, which gives the keys 35 and 25 that the paper names in its example.
    """

    def __init__(self, entries: Entries) -> None:
        super().__init__(entries)
        self.tree: Centred = build_centred(entries.lo, entries.hi)

    def find(self, codes: Int32s) -> Found:
        """Return the entries that contain each code. O(log n + answers) each, sorted."""
        return count_and_fill(lambda *batch: centred_probe(self.tree, *batch), codes)

    @property
    def nodes(self) -> int:
        """The number of keys."""
        return len(self.tree.key)

    @property
    def arrays(self) -> tuple[Int32s | Int64s, ...]:
        """Keys, children, and the two sorted lists of each node."""
        return tuple(self.tree)

    def check(self) -> None:
        """Assert that each entry is once in each list, at a node whose key it contains, in order."""
        lo, hi, _ = self.entries
        everyone = np.arange(len(lo))
        assert np.array_equal(np.sort(self.tree.by_lo), everyone), "each entry is in one list by low end"
        assert self.tree.offsets[0] == 0, "the first node begins with the lists"
        assert self.tree.offsets[-1] == len(lo), "the last node ends with the lists"
        assert np.array_equal(self.tree.lo, lo[self.tree.by_lo]), "low ends stand beside their entries"
        assert np.array_equal(self.tree.hi, hi[self.tree.by_hi]), "high ends stand beside their entries"
        stack = [(0, 0, CODE_MAX)] if self.nodes else []
        reached = 0
        while stack:
            node, first, last = stack.pop()
            reached += 1
            key = int(self.tree.key[node])
            assert first <= key <= last, "a key lies inside the range that it splits"
            here = slice(int(self.tree.offsets[node]), int(self.tree.offsets[node + 1]))
            low, high = self.tree.by_lo[here], self.tree.by_hi[here]
            assert key in lo[low] or key in hi[low], "the key is an end of an entry of its node"
            assert np.array_equal(np.sort(low), np.sort(high)), "both lists of a node have the same entries"
            assert ((lo[low] <= key) & (key <= hi[low])).all(), "an entry contains the key of its node"
            assert ((first <= lo[low]) & (hi[low] <= last)).all(), "an entry contains no key above its node"
            assert (np.diff(lo[low]) >= 0).all(), "one list is sorted by increasing low end"
            assert (np.diff(hi[high]) <= 0).all(), "the other is sorted by decreasing high end"
            left, right = int(self.tree.left[node]), int(self.tree.right[node])
            stack += [(left, first, key - 1)] if left else []
            stack += [(right, key + 1, last)] if right else []
        assert reached == self.nodes, "every node is reached"

    def drawing(self, names: CodeNames, depth: int) -> Drawing:
        """Return the tree down to `depth`: keys with both lists."""

        def show(node: int, first: int, last: int, depth: int) -> Drawing:
            key = int(self.tree.key[node])
            here = slice(int(self.tree.offsets[node]), int(self.tree.offsets[node + 1]))
            low, high = (self.entries.predicate[ids[here][:32]].tolist() for ids in (self.tree.by_lo, self.tree.by_hi))
            children = []
            left, right = int(self.tree.left[node]), int(self.tree.right[node])
            if left and depth:
                children.append(show(left, first, key - 1, depth - 1))
            if right and depth:
                children.append(show(right, key + 1, last, depth - 1))
            return Drawing(first, last, f"key {names(key, key)}", f"{low} {high}", tuple(children))

        return show(0, 0, CODE_MAX, depth) if self.nodes else Drawing(0, CODE_MAX, "empty")


class IntervalTreeIndex(LayeredIndex):
    """Walk towards the value; at each key report the list of the value's side until an entry falls short.

    Evaluations: O(log n) keys, the answers, and one entry more at each key. Memory: each entry twice.

    >>> index = IntervalTreeIndex.build([3, 5, 9], [7, 15, 13])
    >>> index.probe(5).tolist(), index.evaluations
    ([0, 1], 5)
    """

    def _freeze(self, entries: Entries) -> CentredTree:
        return CentredTree(entries)
