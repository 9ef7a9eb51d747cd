"""The intervals of an attribute in normal form, and what a frozen structure over them offers to its layers."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Int32s, Int64s
from tocsin.errors import OptionError
from tocsin.papers.tatbul.drawing import Drawing, bit_vector
from tocsin.papers.tatbul.kernels import merge_entries
from tocsin.papers.tatbul.protocol import CodeNames

CountOrFill = Callable[[Int32s, Int64s, Int32s, bool], int]
"""A probing kernel bound to its structure: takes codes, offsets, answers and whether to count or to fill."""


class Entries(NamedTuple):
    """Inclusive ranges of codes with their predicates, sorted by predicate, then by code.

    The ranges of one predicate neither overlap nor touch, so that at most one of them contains a code and sorted
    positions here are sorted predicates.
    """

    lo: Int32s
    hi: Int32s
    predicate: Int32s

    @classmethod
    def of(cls, lo: npt.ArrayLike, hi: npt.ArrayLike, predicate: npt.ArrayLike | None = None) -> "Entries":
        """Bring ranges into normal form: leave out empty ones, sort, join those that meet. O(n log n).

        >>> Entries.of([5, 9, 0], [7, 3, 6], [4, 4, 4])
        Entries(lo=array([0], dtype=int32), hi=array([7], dtype=int32), predicate=array([4], dtype=int32))
        """
        los, his = np.asarray(lo, np.int32), np.asarray(hi, np.int32)
        owners = np.arange(len(los), dtype=np.int32) if predicate is None else np.asarray(predicate, np.int32)
        if not len(los) == len(his) == len(owners):
            raise OptionError(
                f"{len(los)} low ends, {len(his)} high ends and {len(owners)} predicates do not pair up",
                "Give one of each for every range",
            )
        if len(los) and (los.min() < 0 or owners.min() < 0):
            raise OptionError(
                "a range begins below code 0 or its predicate is negative", "Leave it out: NULL has no range"
            )
        kept = los <= his
        los, his, owners = los[kept], his[kept], owners[kept]
        order = np.lexsort((los, owners))
        return cls(*merge_entries(los[order], his[order], owners[order]))

    def take(self, kept: Bools) -> "Entries":
        """The entries marked true."""
        return Entries(self.lo[kept], self.hi[kept], self.predicate[kept])

    def check(self) -> None:
        """Assert the normal form. O(n)."""
        assert (self.lo >= 0).all(), "codes below 0 are NULL and belong to no range"
        assert (self.lo <= self.hi).all(), "an empty range is never stored"
        same = self.predicate[1:] == self.predicate[:-1]
        assert (self.predicate[1:] >= self.predicate[:-1]).all(), "entries are sorted by predicate"
        apart = self.lo[1:].astype(np.int64) > self.hi[:-1].astype(np.int64) + 1
        assert apart[same].all(), "ranges of one predicate are sorted and apart, so that at most one holds"


class Found(NamedTuple):
    """The entries, by position, that contain each code of a batch, and the evaluations it took."""

    offsets: Int64s
    positions: Int32s
    evaluations: int


class Structure(ABC):
    """An immutable structure over `entries`. Its state is arrays; subclasses say how to search them."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    @abstractmethod
    def find(self, codes: Int32s) -> Found:
        """Return the entries that contain each code."""

    @property
    @abstractmethod
    def nodes(self) -> int:
        """The number of nodes."""

    @property
    @abstractmethod
    def arrays(self) -> tuple[Int32s | Int64s, ...]:
        """The arrays that this structure has besides its entries."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant of the arrays."""

    @abstractmethod
    def drawing(self, names: CodeNames, depth: int) -> Drawing:
        """Return the tree down to `depth`."""

    @property
    def nbytes(self) -> int:
        """The bytes of the entries and of the structure's own arrays."""
        return sum(array.nbytes for array in (*self.entries, *self.arrays))

    def predicates(self, positions: Int32s) -> list[int]:
        """The distinct predicates of the entries at `positions`, sorted."""
        return sorted(set(self.entries.predicate[positions].tolist()))

    def bits(self, positions: Int32s) -> str:
        """The predicates of some entries as a bit vector."""
        size = int(self.entries.predicate[-1]) + 1 if len(self.entries.predicate) else 0
        return bit_vector(self.predicates(positions), size)

    def inside(self, first: int, last: int) -> Int32s:
        """The positions of the entries that share a code with the range from `first` to `last`."""
        return np.flatnonzero((self.entries.hi >= first) & (self.entries.lo <= last)).astype(np.int32)


def count_and_fill(probe: CountOrFill, codes: Int32s) -> Found:
    """Run a kernel twice: once to count the answers to each code, once to write them."""
    offsets = np.zeros(len(codes) + 1, np.int64)
    evaluations = probe(codes, offsets, np.empty(0, np.int32), False)
    offsets = np.cumsum(offsets)
    positions = np.empty(int(offsets[-1]), np.int32)
    probe(codes, offsets, positions, True)
    return Found(offsets, positions, int(evaluations))
