"""Keep the old events in the order of one attribute: sorted runs, and the newest events as they came.

This is the paper's B-tree over the old documents, laid out flat. Run r holds the positions `starts[r]..starts[r + 1]`
of the column, sorted by lane and key, in the same places of `order`: 4 bytes an event. Each run is more than
`RATIO` times as long as the next, so that there are O(log n) of them.

Bitmaps along the long runs, called fences, make it the paper's augmented tree: where many old events satisfy each of
several conditions, but few satisfy all, their bitmaps are intersected.
"""

from itertools import pairwise

import numpy as np

from tocsin.arrays import Int32s, Int64s, UInt64s
from tocsin.predicates.history.column import GrowingArray, OldColumn
from tocsin.predicates.history.encode import Encoder
from tocsin.predicates.history.kernels import (
    LANES,
    WORD,
    Bounds,
    contains,
    fill_fences,
    gather,
    keys_at,
    narrow,
    slices,
)

RATIO = 4
"""A run is merged with the next unless it is more than this many times as long."""
TAIL = 1024
"""How many of the newest events are scanned before they become a run."""
FENCED = 1 << 15
"""Runs shorter than this are scanned as fast as their bitmaps are read."""
STEPS = 12
"""The steps into which the fences cut a run: 13 bitmaps, so 13 bits for each old event."""


class Fences:
    """The bitmaps of one run, whose length is a multiple of 64.

    The run is cut into `STEPS` equal steps of its order. The bitmap of a fence has a bit for each old event before it,
    so that the events between two fences are one AND NOT, whatever their number. Bit b of word w is the position
    `start + 64 w + b`.
    """

    def __init__(self, order: Int32s, start: int) -> None:
        assert order.size % WORD == 0, "runs are whole words, so that the bitmaps of two attributes lie side by side"
        self._start = start
        self._size = order.size
        self._bitmaps: UInt64s = np.zeros((STEPS + 1, order.size // WORD), dtype=np.uint64)
        fill_fences(order, start, self._at(np.arange(STEPS + 1)), self._bitmaps)

    @property
    def nbytes(self) -> int:
        """The memory held."""
        return int(self._bitmaps.nbytes)

    def between(self, first: int, stop: int) -> UInt64s:
        """Return a bitmap with the events `order[first:stop]` of the run, and at most a step more on either side."""
        low = first * STEPS // self._size
        high = -(-stop * STEPS // self._size)
        marked: UInt64s = self._bitmaps[high] & ~self._bitmaps[low]
        return marked

    def _at(self, fence: Int64s) -> Int64s:
        """Return how many events of the order lie before each fence."""
        return -(-fence * self._size // STEPS)

    def check(self, order: Int32s) -> None:
        """Assert the invariants."""
        for fence, before in enumerate(self._at(np.arange(STEPS + 1)).tolist()):
            bits = np.unpackbits(self._bitmaps[fence].view(np.uint8), bitorder="little")
            expected = np.sort(order[:before]) - self._start
            assert (np.flatnonzero(bits) == expected).all(), "a fence has the events before it in the order, no others"


class Tree:
    """The old events by one attribute: finds those that satisfy a condition, and their number, without a scan."""

    def __init__(self, column: OldColumn, encoder: Encoder) -> None:
        self.column = column
        self._encoder = encoder
        self._order = GrowingArray(np.int32)
        self._starts = [0]
        self._lane_starts: Int64s = np.zeros((0, LANES + 1), dtype=np.int64)
        self._first = self._next = 0
        self._fences: list[Fences | None] = []

    @property
    def nbytes(self) -> int:
        """The memory held."""
        fences = sum(fences.nbytes for fences in self._fences if fences is not None)
        return int(self._order.array.nbytes + self._lane_starts.nbytes) + fences

    def refresh(self, first: int, stop: int) -> None:
        """Add the positions up to `stop` and drop those before `first`. Cost: O(log n) an event, amortised."""
        self._first, self._next = first, stop
        if stop - self._starts[-1] >= TAIL:
            self._add_run(stop - stop % WORD)

    def find(self, bounds: Bounds) -> "FoundEvents":
        """Find the old events that satisfy a condition, as slices of the order. Cost: O(log n) a run."""
        old = self._encoder.old(self.column)
        found = slices(self._order.array, self._lane_starts, old, bounds)
        tail = np.arange(max(self._starts[-1], self._first), self._next, dtype=np.int32)
        return FoundEvents(self, found, narrow(tail, old, bounds))

    def contains(self, equality: Bounds) -> bool:
        """Tell whether an old event that has not expired equals a value. Cost: O(log n) a run."""
        old = self._encoder.old(self.column)
        limits = self._first, self._starts[-1], self._next
        return bool(contains(self._order.array, self._lane_starts, old, equality, *limits))

    def superset(self, bounds: Bounds, stop: int) -> UInt64s:
        """Return a bitmap of the positions before `stop`: all that satisfy a condition, and some that do not.

        Cost: O(n / 64). The fences of a long run are made when they are first asked for.
        """
        found = self.find(bounds).slices
        words = np.full(-(-stop // WORD), ~np.uint64(0))
        for run, (start, end) in enumerate(pairwise(self._starts)):
            if end - start >= FENCED and start < stop:
                fences = self._fences[run]
                if fences is None:
                    fences = self._fences[run] = Fences(self._order.array[start:end], start)
                marked = np.zeros((end - start) // WORD, dtype=np.uint64)
                for low, high in found[(found[:, 0] >= start) & (found[:, 1] <= end)]:
                    marked |= fences.between(int(low) - start, int(high) - start)
                words[start // WORD : end // WORD] = marked[: words.size - start // WORD]
        return words

    def positions(self, found: Int64s) -> Int32s:
        """Return the positions in slices of the order, without those that have expired."""
        return gather(self._order.array, found, self._first)

    def _add_run(self, stop: int) -> None:
        start = self._starts[-1]
        runs = len(self._starts) - 1
        while runs > 0 and self._starts[runs] - self._starts[runs - 1] <= RATIO * (stop - start):
            runs -= 1
            start = self._starts[runs]
        self._order.reserve(stop)
        positions = np.arange(start, stop, dtype=np.int32)
        keys = keys_at(positions, self._encoder.old(self.column))
        lanes = self.column.lanes[start:stop]
        by_key = np.argsort(keys, kind="stable") if (lanes == lanes[0]).all() else np.lexsort((keys, lanes))
        self._order.array[start:stop] = positions[by_key]
        lane_starts = start + np.searchsorted(lanes[by_key], np.arange(LANES + 1))
        self._lane_starts = np.vstack([self._lane_starts[:runs], lane_starts[np.newaxis]])
        self._starts[runs + 1 :] = [stop]
        self._fences[runs:] = [None]

    def check(self) -> None:
        """Assert the invariants."""
        lengths = np.diff(self._starts)
        assert (lengths[:-1] > RATIO * lengths[1:]).all(), "each run is much longer than the next: O(log n) runs"
        assert self._next - self._starts[-1] < TAIL + WORD, "the newest events that are not sorted are few"
        for start, stop in pairwise(self._starts):
            order = self._order.array[start:stop]
            assert (np.sort(order) == np.arange(start, stop)).all(), "a run orders the positions it covers"
            keys = keys_at(order, self._encoder.old(self.column))
            values = list(zip(self.column.lanes[order].tolist(), keys.tolist(), strict=True))
            assert values == sorted(values), "a run is sorted by lane and key"
        for (start, stop), fences in zip(pairwise(self._starts), self._fences, strict=True):
            if fences is not None:
                fences.check(self._order.array[start:stop])


class FoundEvents:
    """The old events that satisfy one condition: slices of the tree's order, and some of the newest."""

    def __init__(self, tree: Tree, found: Int64s, newest: Int32s) -> None:
        self._tree = tree
        self.slices = found
        self.newest = newest
        self.size: int = int((found[:, 1] - found[:, 0]).sum()) + newest.size
        """How many there are at most: expired events in the slices count."""

    def positions(self) -> Int32s:
        """Return their positions. Cost: O(size)."""
        return np.concatenate([self._tree.positions(self.slices), self.newest])
