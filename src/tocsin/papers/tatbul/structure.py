"""What a frozen structure over intervals offers to the layers that hold it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tocsin.papers.tatbul.drawing import Drawing, bit_vector
from tocsin.papers.tatbul.entries import Entries
from tocsin.papers.tatbul.protocol import CodeNames, Int32s, Int64s

CountOrFill = Callable[[Int32s, Int64s, Int32s, bool], int]
"""A probing kernel bound to its structure: takes codes, offsets, answers and whether to count or to fill."""


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
