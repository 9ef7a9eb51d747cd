"""Keep the count, the least and the greatest old value of an attribute: enough for one quantified comparison."""

from typing import Any

import numpy as np

from tocsin.arrays import Int64s
from tocsin.model.values import Kind
from tocsin.predicates.history.column import OldColumn
from tocsin.predicates.history.encode import LANES_OF, Encoder, comparable
from tocsin.predicates.history.kernels import LANES, tally

BLOCK = 4096
"""How many events have aggregates of their own, to recompute those of a window from."""


class Aggregates:
    """Per lane of one attribute: how many old values, the least and the greatest.

    Appending updates them in O(1). When the least or greatest value expires they are computed anew from the same
    aggregates of each block of 4,096 events, so that a sliding window costs O(n / 4096) at worst, not O(n).
    """

    def __init__(self, column: OldColumn, encoder: Encoder) -> None:
        self.column = column
        self._encoder = encoder
        self._first = self._next = 0
        self._counts, self._least, self._greatest = _empty(())
        self._blocks = _empty((0,))
        self._ends: dict[Kind, tuple[int, Any, Any]] = {}

    def refresh(self, first: int, stop: int) -> None:
        """Add the positions up to `stop` and drop those before `first`."""
        if (self._first, self._next) != (first, stop):
            self._ends = {}
        if self._next < stop:
            self._tally(self._next, stop, self._counts, self._least, self._greatest)
            self._refresh_blocks(self._next, stop)
            self._next = stop
        if self._first < first:
            self._forget(first)

    @property
    def by_lane(self) -> tuple[Int64s, Int64s, Int64s]:
        """The count, and the payloads of the least and greatest value, of each lane."""
        return self._counts, self._least, self._greatest

    def ends(self, kind: Kind) -> tuple[int, Any, Any]:
        """Return how many old values have this kind, the least and the greatest; None if there is none. Cost: O(1)."""
        found = self._ends.get(kind)
        if found is None:
            lanes = [lane for lane in LANES_OF[kind] if self._counts[lane]]
            least = [self._encoder.decode(lane, int(self._least[lane])) for lane in lanes]
            greatest = [self._encoder.decode(lane, int(self._greatest[lane])) for lane in lanes]
            count = sum(int(self._counts[lane]) for lane in lanes)
            if len(lanes) == 1:
                found = count, least[0], greatest[0]
            else:
                found = count, min(least, default=None, key=comparable), max(greatest, default=None, key=comparable)
            self._ends[kind] = found
        return found

    def _tally(self, start: int, stop: int, *into: Int64s) -> None:
        tally(start, stop, self._encoder.old(self.column), *into)

    def _refresh_blocks(self, start: int, stop: int) -> None:
        blocks = -(-stop // BLOCK)
        if blocks > self._blocks[0].shape[0]:
            added = _empty((blocks + blocks // 4 - self._blocks[0].shape[0],))
            self._blocks = tuple(np.concatenate([old, new]) for old, new in zip(self._blocks, added, strict=True))
        for block in range(start // BLOCK, blocks):
            rows = tuple(array[block] for array in self._blocks)
            self._tally(max(start, block * BLOCK), min(stop, (block + 1) * BLOCK), *rows)

    def _forget(self, first: int) -> None:
        gone = _empty(())
        self._tally(self._first, first, *gone)
        self._first = first
        self._counts -= gone[0]
        same = (self._least == gone[1]) | (self._greatest == gone[2])
        if (same & (gone[0] > 0)).any():
            self._recompute()

    def _recompute(self) -> None:
        counts, least, greatest = _empty(())
        head = min(self._next, -(-self._first // BLOCK) * BLOCK)
        self._tally(self._first, head, counts, least, greatest)
        inside = slice(head // BLOCK, -(-self._next // BLOCK))
        if head < self._next:
            block_counts, block_least, block_greatest = (array[inside] for array in self._blocks)
            for lane in np.flatnonzero(block_counts.sum(axis=0)):
                present = block_counts[:, lane] > 0
                for ends in (block_least, block_greatest):
                    payloads = np.ascontiguousarray(ends[present, lane])
                    self._tally_payloads(int(lane), payloads, counts, least, greatest)
                counts[lane] += int(block_counts[:, lane].sum()) - 2 * int(present.sum())
        self._counts, self._least, self._greatest = counts, least, greatest

    def _tally_payloads(self, lane: int, payloads: Int64s, *into: Int64s) -> None:
        old = self._encoder.old(self.column)._replace(payloads=payloads, lanes=np.full(payloads.size, lane, np.uint8))
        tally(0, payloads.size, old, *into)

    def check(self) -> None:
        """Assert the invariants."""
        counts, least, greatest = _empty(())
        self._tally(self._first, self._next, counts, least, greatest)
        assert (counts == self._counts).all(), "every old value is counted once"
        used = counts > 0
        assert (least[used] == self._least[used]).all(), "the least of what is left"
        assert (greatest[used] == self._greatest[used]).all(), "the greatest of what is left"


def _empty(shape: tuple[int, ...]) -> tuple[Int64s, ...]:
    return tuple(np.zeros((*shape, LANES), dtype=np.int64) for _ in range(3))
