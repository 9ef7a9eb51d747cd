"""Bitmaps of old events along a sorted run: what makes the paper's B-tree an augmented one.

A run is cut into `STEPS` equal steps of its order. The bitmap of a fence has a bit for each old event before it, so
that the events between two fences are one AND NOT, whatever their number. All together take 13 bits an old event.
"""

import numpy as np
import numpy.typing as npt

from tocsin.predicates.history.kernels import fill_fences

STEPS = 12
WORD = 64

Words = npt.NDArray[np.uint64]


class Fences:
    """The bitmaps of one run. Bit b of word w is the position `start + 64 w + b`; the length is a multiple of 64."""

    def __init__(self, order: npt.NDArray[np.int32], start: int) -> None:
        assert order.size % WORD == 0, "runs are whole words, so that the bitmaps of two attributes lie side by side"
        self._start = start
        self._size = order.size
        self._bitmaps: Words = np.zeros((STEPS + 1, order.size // WORD), dtype=np.uint64)
        fill_fences(order, start, self._at(np.arange(STEPS + 1)), self._bitmaps)

    @property
    def nbytes(self) -> int:
        """The memory held."""
        return int(self._bitmaps.nbytes)

    def between(self, first: int, stop: int) -> Words:
        """A bitmap with the events at `first..stop` of the run's order, and at most a step more on either side."""
        low = first * STEPS // self._size
        high = -(-stop * STEPS // self._size)
        marked: Words = self._bitmaps[high] & ~self._bitmaps[low]
        return marked

    def _at(self, fence: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many events of the order lie before each fence."""
        return -(-fence * self._size // STEPS)

    def check(self, order: npt.NDArray[np.int32]) -> None:
        """Assert the invariants."""
        for fence, before in enumerate(self._at(np.arange(STEPS + 1)).tolist()):
            bits = np.unpackbits(self._bitmaps[fence].view(np.uint8), bitorder="little")
            expected = np.sort(order[:before]) - self._start
            assert (np.flatnonzero(bits) == expected).all(), "a fence has the events before it in the order, no others"
