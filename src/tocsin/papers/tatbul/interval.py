"""The Interval Index (Tatbul 2001, 4.1.2): a binary search tree over elementary intervals."""

import numpy as np

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.elementary_kernels import Elementary, build_elementary, elementary_probe
from tocsin.papers.tatbul.kernels import CODE_MAX
from tocsin.papers.tatbul.layers import LayeredIndex
from tocsin.papers.tatbul.protocol import CodeNames
from tocsin.papers.tatbul.structure import Entries, Found, Structure, count_and_fill


class ElementaryTree(Structure):
    """A search tree over the elementary intervals that some entry contains; others are left out."""

    def __init__(self, entries: Entries) -> None:
        super().__init__(entries)
        self.tree: Elementary = build_elementary(entries.lo, entries.hi)

    def find(self, codes: Int32s) -> Found:
        """Return the entries that contain each code. O(log n) each, and the answers."""
        return count_and_fill(lambda *batch: elementary_probe(self.tree, *batch), codes)

    @property
    def nodes(self) -> int:
        """The number of elementary intervals that are not empty."""
        return len(self.tree.first)

    @property
    def arrays(self) -> tuple[Int32s | Int64s, ...]:
        """Elementary intervals, their rows, and the rows."""
        return tuple(self.tree)

    def check(self) -> None:
        """Assert that the nodes are elementary, in order, not empty, and that their rows are right."""
        check_extent(self.tree)
        check_elementary(self, self.tree, 0, np.arange(len(self.entries.lo), dtype=np.int32))

    def drawing(self, names: CodeNames, depth: int) -> Drawing:
        """Return the tree down to `depth`: elementary intervals with what holds there."""
        return draw_elementary(self, self.tree, 0, 0, CODE_MAX, names, depth)


def check_extent(tree: Elementary) -> None:
    """Assert that the trees together use every node, and the rows every id."""
    assert tree.trees[-1] == len(tree.first), "the last tree ends with the nodes"
    assert tree.offsets[-1] == len(tree.ids), "the last row ends with the ids"


def check_elementary(structure: Structure, tree: Elementary, number: int, members: Int32s) -> None:
    """Assert that search tree `number` is right for the entries at positions `members`."""
    nodes = slice(int(tree.trees[number]), int(tree.trees[number + 1]))
    first, last = tree.first[nodes], tree.last[nodes]
    assert (first <= last).all(), "an elementary interval holds a code"
    assert (first[1:] > last[:-1]).all(), "elementary intervals are disjoint and sorted, or the search goes astray"
    lo, hi = structure.entries.lo[members], structure.entries.hi[members]
    covered = int(np.sum(last.astype(np.int64) - first + 1))
    assert covered == covered_codes(lo, hi), "an elementary interval is left out exactly if no entry contains it"
    for a, b, row in zip(first, last, tree.row[nodes], strict=True):
        ids = tree.ids[tree.offsets[row] : tree.offsets[row + 1]]
        assert np.array_equal(ids, members[(lo <= a) & (b <= hi)]), "a row is every entry that contains its interval"
        assert not ((lo > a) & (lo <= b) | (hi >= a) & (hi < b)).any(), "no entry begins or ends inside"


def covered_codes(lo: Int32s, hi: Int32s) -> int:
    """The number of codes in the union of some ranges."""
    total, reached = 0, -1
    for a, b in sorted(zip(lo.tolist(), hi.tolist(), strict=True)):
        total += max(0, b - max(a, reached + 1) + 1)
        reached = max(reached, b)
    return total


def draw_elementary(
    structure: Structure, tree: Elementary, number: int, first: int, last: int, names: CodeNames, depth: int
) -> Drawing:
    """Return search tree `number`, which serves the codes from `first` to `last`, down to `depth`."""

    def show(low: int, high: int, first: int, last: int, depth: int) -> Drawing:
        middle = (low + high) // 2
        a, b, row = int(tree.first[middle]), int(tree.last[middle]), int(tree.row[middle])
        children = []
        if depth and low < middle:
            children.append(show(low, middle, first, a - 1, depth - 1))
        if depth and middle + 1 < high:
            children.append(show(middle + 1, high, b + 1, last, depth - 1))
        bits = structure.bits(tree.ids[tree.offsets[row] : tree.offsets[row + 1]])
        return Drawing(first, last, names(a, b), bits, tuple(children))

    low, high = int(tree.trees[number]), int(tree.trees[number + 1])
    return show(low, high, first, last, depth) if low < high else Drawing(first, last, "empty")


class IntervalIndex(LayeredIndex):
    """Search the elementary intervals for the one of the value; all its predicates hold.

    Evaluations: at most log2(4 n), and as few as one. Memory: 2 n times the mean number of predicates that hold.

    >>> index = IntervalIndex.build([3, 5, 9], [7, 15, 13])
    >>> index.probe(5).tolist(), index.evaluations
    ([0, 1], 2)
    >>> index.nodes
    11
    """

    def _freeze(self, entries: Entries) -> ElementaryTree:
        return ElementaryTree(entries)
