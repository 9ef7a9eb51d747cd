"""Phase 1 for ordered attributes: what every index over the predicates of one attribute can do."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy.typing as npt
from pyroaring import BitMap

from tocsin.arrays import Int32s, Int64s

CodeNames = Callable[[int, int], str]
"""Turns a range of codes, first and last, into the text that drawings show."""


class Answers(NamedTuple):
    """The predicates that hold for each code of a batch: those of code ``i`` are ``ids[offsets[i]:offsets[i + 1]]``."""

    offsets: Int64s
    ids: Int32s


class PredicateIndex(Protocol):
    """Says which predicates of one attribute hold for a value.

    Values are codes (see `Endpoints`), predicates are unions of inclusive ranges of codes, and predicates have dense
    integer ids of the caller's choice. A negative code is NULL, for which no predicate holds.
    """

    evaluations: int
    """Predicate evaluations (comparisons of the value) since the caller last set this to 0."""

    @classmethod
    def build(cls, lo: npt.ArrayLike, hi: npt.ArrayLike, predicate: npt.ArrayLike | None = None) -> Self:
        """Index the ranges from ``lo[i]`` to ``hi[i]`` of predicate ``predicate[i]``, or of predicate ``i``."""
        ...

    def probe(self, code: int) -> Int32s:
        """Return the predicates that hold for `code`, sorted."""
        ...

    def probe_batch(self, codes: npt.ArrayLike) -> Answers:
        """Return the predicates that hold for each of `codes`, sorted for each."""
        ...

    def probe_bitmap(self, code: int) -> BitMap:
        """Return the predicates that hold for `code` as a bitmap."""
        ...

    def insert(self, predicate: int, lo: int, hi: int) -> None:
        """Add a range to a predicate, new or known; an empty range (``lo > hi``) adds nothing."""
        ...

    def delete(self, predicate: int) -> None:
        """Remove a predicate with all its ranges."""
        ...

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        ...

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        ...

    def check(self) -> None:
        """Assert every invariant."""
        ...

    def draw(self, code: int | None = None, names: CodeNames | None = None, depth: int = 8) -> str:
        """Return the tree as text down to `depth`, with the path of `code` marked."""
        ...

    def draw_svg(self, code: int | None = None, names: CodeNames | None = None, depth: int = 8) -> str:
        """Return the tree as an SVG image down to `depth`, with the path of `code` marked."""
        ...
