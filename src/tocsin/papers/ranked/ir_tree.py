"""IRTree: an interval tree with an R-tree by score at each node, which takes inserts, deletes and new scores."""

from typing import ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s
from tocsin.errors import OptionError
from tocsin.papers.ranked.interval_tree import Centers, draw_centers
from tocsin.papers.ranked.ir_kernels import (
    BUCKET,
    DEPTH,
    FANOUT,
    FREE_ROW,
    NODES,
    SIZES,
    IRArrays,
    bulk_load,
    bulk_size,
    delete_ranked,
)
from tocsin.papers.ranked.ir_walk_kernels import insert_interval, merge_walks, open_walks
from tocsin.papers.ranked.protocol import Columns, How, RankedIterator, as_columns, best_first, check_how, new_score
from tocsin.papers.ranked.tree_kernels import grow_tree
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.protocol import CodeNames

# What one insert may take: a new leaf and two more where it splits; a split on each level of a B-tree and a new root.
SPARE_NODES = 3
SPARE_BLOCKS = DEPTH + 4

Number = TypeVar("Number", bound=np.generic)


class IRTree:
    """Rank intervals by an interval tree whose nodes hold R-trees in order of score.

    The intervals of a node share its center, so an R-tree over them has no holes: each step down finds a match. Costs
    (k + log n) log n a query; an insert, a delete or a new score costs log n; n log n to build. Takes 18 to 20 bytes an
    interval, its id apart: 9 in the R-trees, 8 for the score, by which they are merged, and 2 for the node that holds
    it, where it can be taken out. An iterator that began before a change must not be used after it.

    >>> index = IRTree.build([0, 10, 20], [30, 20, 40], [1.0, 3.0, 2.0])
    >>> index.insert(15, 25, 2.5), index.iterate(20).take(10).tolist()
    (3, [1, 3, 2, 0])
    >>> index.delete(1)
    >>> index.rescore(0, np.array([9.0, 3.0, 2.0, 2.5]))
    >>> index.iterate(20).take(10).tolist()
    [0, 3, 2]
    """

    ranges: ClassVar[tuple[How, ...]] = ("containment",)

    def __init__(self, columns: Columns) -> None:
        self._version = 0
        self._size = self._live = columns.lo.size
        self._scores = columns.scores.copy()
        ids = best_first(columns.scores)
        self._load(columns.lo[ids], columns.hi[ids], ids)

    @classmethod
    def build(cls, lo: npt.ArrayLike, hi: npt.ArrayLike, scores: npt.ArrayLike) -> Self:
        """Build the index of the intervals [lo, hi] in O(n log n)."""
        return cls(as_columns(lo, hi, scores))

    def __len__(self) -> int:
        return self._live

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, the scores included."""
        return sum(array.nbytes for array in self.arrays) + self._scores.nbytes

    def _load(self, lo: Int32s, hi: Int32s, ids: Int32s) -> None:
        """Build the arrays over intervals that come best first."""
        center, left, right, start, order = grow_tree(lo, hi, BUCKET)
        entries, blocks = bulk_size(start)
        used = np.full(FREE_ROW + SIZES, -1, np.int64)
        used[:3] = center.size, 0, 0
        self.arrays = IRArrays(
            center=center,
            left=left,
            right=right,
            root=np.empty(center.size, np.int32),
            start=np.empty(blocks, np.int32),
            size=np.empty(blocks, np.int8),
            level=np.empty(blocks, np.int8),
            filled=np.empty(blocks, np.int32),
            lo=np.zeros(entries, np.int32),
            hi=np.zeros(entries, np.int32),
            ref=np.zeros(entries, np.int32),
            home=np.zeros(self._scores.size, np.uint16),
            home_high=np.zeros(self._scores.size if center.size > 1 << 16 else 0, np.uint16),
            used=used,
        )
        bulk_load(self.arrays, start, lo[order], hi[order], ids[order])
        self._loaded = self._live
        self._changes = 0

    def iterate(self, value: int) -> RankedIterator:
        """Begin to yield the intervals over `value`, best first."""
        return _WalkIterator(self, value, value, value)

    def iterate_range(self, lo: int, hi: int, how: How = "overlap") -> RankedIterator:
        """Begin to yield the intervals that contain all of [lo, hi], best first."""
        check_how(how)
        if how not in self.ranges:
            raise OptionError(f"IRTree cannot iterate by {how}", "Use a ScoredRTree, which can do both")
        return _WalkIterator(self, lo, lo, hi)

    def drawing(self, names: CodeNames, depth: int = 8) -> Drawing:
        """Return the tree down to `depth`: centers, and the R-tree of each, whose extents hold intervals by score."""
        tree = self.arrays

        def block(number: int) -> list[str]:
            entries = range(int(tree.start[number]), int(tree.start[number] + tree.filled[number]))
            if tree.level[number] == 0:
                return [f"{tree.ref[list(entries)].tolist()}"]
            return [f"({' '.join(text for entry in entries for text in block(int(tree.ref[entry])))})"]

        def held(nodes: slice) -> str:
            root = int(tree.root[nodes.start])
            return " ".join(block(root)) if root >= 0 else ""

        # Each node has one list, its R-tree.
        nodes = np.arange(int(tree.used[NODES]) + 1, dtype=np.int32)
        return draw_centers(Centers(tree.center[: nodes.size - 1], tree.left, tree.right, nodes), held, names, depth)

    def insert(self, lo: int, hi: int, score: float) -> int:
        """Add an interval and return its id, the next number; in O(log n) amortised."""
        as_columns([lo], [hi], [score])
        self._make_room(self._size + 1)
        interval = self._size
        self._size += 1
        self._live += 1
        self._scores[interval] = score
        self._file(lo, hi, interval)
        return interval

    def delete(self, interval: int) -> None:
        """Remove an interval, in O(log n) amortised; its id is not given out again."""
        self._strike(interval)
        self._live -= 1
        self._settle()

    def rescore(self, interval: int, scores: Float64s) -> None:
        """Give an interval its score in `scores`: take it out of its R-tree and file it again, in O(log n)."""
        score = new_score(interval, scores)
        lo, hi = self._strike(interval)
        self._scores[interval] = score
        self._file(lo, hi, interval)

    def _strike(self, interval: int) -> tuple[int, int]:
        """Take an interval out and return its ends."""
        found, lo, hi = False, 0, 0
        if 0 <= interval < self._size:
            found, lo, hi = delete_ranked(self.arrays, self._scores, interval)
        if not found:
            raise OptionError(f"There is no interval {interval}", "It was never inserted, or it was deleted")
        self._version += 1
        return lo, hi

    def _file(self, lo: int, hi: int, interval: int) -> None:
        self._reserve()
        insert_interval(self.arrays, self._scores, lo, hi, interval)
        self._version += 1
        self._settle()

    def _make_room(self, size: int) -> None:
        """Let the columns by id have room for `size` intervals."""
        if self._scores.size < size:
            room = size + size // 16 + 8
            self._scores = _grown(self._scores, room)
            old = self.arrays
            high = _grown(old.home_high, room if old.home_high.size else 0)
            self.arrays = old._replace(home=_grown(old.home, room), home_high=high)

    def _reserve(self) -> None:
        """Make room for what one insert may take: nodes, blocks and rows."""
        nodes, blocks, entries = self.arrays.used[:3]
        old = self.arrays
        if (
            old.center.size >= nodes + SPARE_NODES
            and old.start.size >= blocks + SPARE_BLOCKS
            and old.lo.size >= entries + SPARE_BLOCKS * FANOUT
        ):
            return
        rooms = (
            int(nodes + nodes // 32 + 2 * SPARE_NODES),
            int(blocks + blocks // 32 + 2 * SPARE_BLOCKS),
            int(entries + entries // 32 + 2 * SPARE_BLOCKS * FANOUT),
        )
        self.arrays = IRArrays(
            center=_grown(old.center, rooms[0]),
            left=_grown(old.left, rooms[0]),
            right=_grown(old.right, rooms[0]),
            root=_grown(old.root, rooms[0]),
            start=_grown(old.start, rooms[1]),
            size=_grown(old.size, rooms[1]),
            level=_grown(old.level, rooms[1]),
            filled=_grown(old.filled, rooms[1]),
            lo=_grown(old.lo, rooms[2]),
            hi=_grown(old.hi, rooms[2]),
            ref=_grown(old.ref, rooms[2]),
            home=old.home,
            home_high=_grown(old.home_high, old.home.size if rooms[0] > 1 << 16 else 0),
            used=old.used,
        )

    def _settle(self) -> None:
        """Build anew once as many intervals have come or gone as there were, so that the tree stays balanced."""
        self._changes += 1
        if self._changes > max(self._loaded, 4 * FANOUT):
            lo, hi, ids = self._held()
            ranked = np.lexsort((ids, -self._scores[ids]))
            self._load(lo[ranked], hi[ranked], ids[ranked])

    def _held(self) -> tuple[Int32s, Int32s, Int32s]:
        """What stands in the arrays: ends and ids."""
        tree = self.arrays
        blocks = [block for node in range(tree.used[NODES]) for block, _ in self._leaves(node)]
        first = tree.start[blocks].astype(np.int64) if blocks else np.empty(0, np.int64)
        counts = tree.filled[blocks] if blocks else np.empty(0, np.int32)
        entries = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return tree.lo[entries], tree.hi[entries], tree.ref[entries]

    def _leaves(self, node: int) -> list[tuple[int, list[tuple[int, int]]]]:
        """The blocks of level 0 of a node, best first, each with the extents above it."""
        tree = self.arrays
        found: list[tuple[int, list[tuple[int, int]]]] = []
        pending: list[tuple[int, list[tuple[int, int]]]] = [(int(tree.root[node]), [])] if tree.root[node] >= 0 else []
        while pending:
            block, extents = pending.pop()
            if tree.level[block] == 0:
                found.append((block, extents))
                continue
            start = int(tree.start[block])
            row = range(start + int(tree.filled[block]) - 1, start - 1, -1)
            pending += [(int(tree.ref[at]), [*extents, (int(tree.lo[at]), int(tree.hi[at]))]) for at in row]
        return found

    def check(self) -> None:
        """Assert every invariant, with its reason."""
        tree = self.arrays
        _, _, held = self._held()
        assert held.size == np.unique(held).size == self._live, "each live interval stands in one block"
        pending = [(0, -(2**31), 2**31 - 1)] if tree.used[NODES] else []
        while pending:
            node, low, high = pending.pop()
            center, listed = int(tree.center[node]), []
            for block, extents in self._leaves(node):
                start, count = int(tree.start[block]), int(tree.filled[block])
                assert 0 < count <= 2 * tree.size[block] + 2, "a block is neither empty nor over its row"
                lo, hi, ids = (column[start : start + count] for column in (tree.lo, tree.hi, tree.ref))
                home = tree.home[ids].astype(np.int64)
                if tree.home_high.size:
                    home |= tree.home_high[ids].astype(np.int64) << 16
                assert np.all(home == node), "an interval is looked for where it stands"
                assert np.all((lo >= low) & (hi <= high)), "a subtree lies on one side of each center above it"
                for first, last in extents:
                    assert np.all((lo >= first) & (hi <= last)), "an extent covers what is below it"
                if tree.left[node] != -2:
                    assert np.all((lo <= center) & (hi >= center)), "the intervals of a node contain its center"
                listed.append(ids)
            ids = np.concatenate(listed) if listed else np.empty(0, np.int32)
            assert np.array_equal(np.lexsort((ids, -self._scores[ids])), np.arange(ids.size)), "best first"
            assert tree.left[node] != -2 or ids.size <= BUCKET, "a bucket is small, for it may miss every value"
            if tree.left[node] >= 0:
                pending.append((int(tree.left[node]), low, center - 1))
            if tree.right[node] >= 0:
                pending.append((int(tree.right[node]), center + 1, high))


def _grown(array: npt.NDArray[Number], room: int) -> npt.NDArray[Number]:
    """A copy with room at the end. (`np.resize` repeats the whole array and keeps all of that alive.)"""
    grown = np.zeros(room, array.dtype)
    grown[: array.size] = array
    return grown


class _WalkIterator(RankedIterator):
    """Merges the walks over the R-trees on a path."""

    def __init__(self, tree: IRTree, value: int, latest_lo: int, earliest_hi: int) -> None:
        self._tree, self._version = tree, tree._version
        self._latest_lo, self._earliest_hi = latest_lo, earliest_hi
        self._blocks, self._slots, self._depths, self._heads = open_walks(tree.arrays, value)

    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""
        tree = self._tree
        if tree._version != self._version:
            raise OptionError("The IRTree changed under its iterator", "Iterate again after a change")
        out = np.empty(min(n, len(tree)), np.int32)
        count = merge_walks(
            tree.arrays,
            tree._scores,
            self._latest_lo,
            self._earliest_hi,
            self._blocks,
            self._slots,
            self._depths,
            self._heads,
            out,
        )
        return out[:count]
