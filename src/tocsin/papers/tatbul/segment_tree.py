"""The Segment Tree (Tatbul 2001, 4.1.4): elementary intervals in pairs, and each entry as high as it fits."""

import numpy as np

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.elementary_kernels import Segments, build_segments, segment_probe
from tocsin.papers.tatbul.kernels import CODE_MAX, cut
from tocsin.papers.tatbul.layers import LayeredIndex
from tocsin.papers.tatbul.protocol import CodeNames
from tocsin.papers.tatbul.structure import Entries, Found, Structure, count_and_fill


class PairedTree(Structure):
    """A segment tree built from the leaves up; the leaves are all elementary intervals, empty ones as well."""

    def __init__(self, entries: Entries) -> None:
        super().__init__(entries)
        self.tree: Segments = build_segments(entries.lo, entries.hi)

    def find(self, codes: Int32s) -> Found:
        """Return the entries that contain each code. O(log n) each, and the answers, sorted."""
        return count_and_fill(lambda *batch: segment_probe(self.tree, *batch), codes)

    @property
    def nodes(self) -> int:
        """The number of nodes: a binary tree over its leaves."""
        return max(0, 2 * len(self.tree.last) - 1)

    @property
    def arrays(self) -> tuple[Int32s | Int64s, ...]:
        """The leaves, the levels, and what each node stores."""
        return tuple(self.tree)

    def _place(self, level: int, i: int) -> tuple[Int32s, int, int]:
        """What node `i` of a level stores, and its first and last code."""
        leaves, v = len(self.tree.last), int(self.tree.start[level]) + i
        begin, end = i << level, min((i + 1) << level, leaves)
        first = int(self.tree.last[begin - 1]) + 1 if begin else 0
        return self.tree.ids[self.tree.offsets[v] : self.tree.offsets[v + 1]], first, int(self.tree.last[end - 1])

    def check(self) -> None:
        """Assert that the levels are in order and each entry is stored once on each path, as high as it fits."""
        width = self.tree.width
        _, leaves = cut(self.entries.lo, self.entries.hi, True)
        assert np.array_equal(self.tree.last, leaves), "leaves are the elementary intervals that the ends cut"
        assert width[0] == len(leaves), "the first level is the leaves"
        assert (width[1:] == (width[:-1] + 1) // 2).all(), "a level pairs the one below"
        assert np.array_equal(np.diff(self.tree.start), width), "levels stand one after the other"
        assert self.tree.offsets[0] == 0, "the first node begins with the ids"
        assert (np.diff(self.tree.offsets) >= 0).all(), "nodes store their ids one after the other"
        assert self.tree.offsets[-1] == len(self.tree.ids), "the last node ends with the ids"
        for level in range(len(width)):
            for i in range(int(width[level])):
                ids, first, last = self._place(level, i)
                single = level > 0 and 2 * i + 1 >= width[level - 1]
                assert not (single and len(ids)), "a place without a second child stands for a node below"
                inside = (self.entries.lo[ids] <= first) & (last <= self.entries.hi[ids])
                assert inside.all(), "an entry contains every node that stores it"
                if level + 1 < len(width):
                    _, above_first, above_last = self._place(level + 1, i // 2)
                    higher = (self.entries.lo[ids] <= above_first) & (above_last <= self.entries.hi[ids])
                    whole = above_first == first and above_last == last
                    assert whole or not higher.any(), "an entry that contains the parent is stored there"
        found = self.find(leaves)
        for number, code in enumerate(leaves.tolist()):
            positions = found.positions[found.offsets[number] : found.offsets[number + 1]]
            assert np.array_equal(positions, self.inside(code, code)), "on a path each entry of the leaf is met once"

    def drawing(self, names: CodeNames, depth: int) -> Drawing:
        """Return the tree down to `depth`: unions of elementary intervals with what is stored there."""

        def show(level: int, i: int, depth: int) -> Drawing:
            while level > 0 and 2 * i + 1 >= self.tree.width[level - 1]:
                level, i = level - 1, 2 * i
            ids, first, last = self._place(level, i)
            children = (
                ()
                if level == 0 or depth == 0
                else (
                    show(level - 1, 2 * i, depth - 1),
                    show(level - 1, 2 * i + 1, depth - 1),
                )
            )
            return Drawing(first, last, names(first, last), self.bits(ids) if len(ids) else "", children)

        return show(len(self.tree.width) - 1, 0, depth) if len(self.tree.last) else Drawing(0, CODE_MAX, "empty")


class SegmentTreeIndex(LayeredIndex):
    """Walk from the root to the elementary interval of the value; what the nodes on the way store holds.

    Evaluations: log2(4 n), always. Memory: at most 2 n log2(4 n) ids, whatever the overlap.

    >>> index = SegmentTreeIndex.build([3, 5, 9], [7, 15, 13])
    >>> index.probe(5).tolist(), index.evaluations
    ([0, 1], 4)
    """

    def _freeze(self, entries: Entries) -> PairedTree:
        return PairedTree(entries)
