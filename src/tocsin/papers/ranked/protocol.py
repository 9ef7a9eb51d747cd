"""What every ranked index offers: scored intervals in, for a value the intervals over it in order of score."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s
from tocsin.errors import OptionError
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.protocol import CodeNames

How = Literal["overlap", "containment"]


class Columns(NamedTuple):
    """Intervals by id, both ends included, and their scores. They belong to the caller; a build only reads them."""

    lo: Int32s
    hi: Int32s
    scores: Float64s


class RankedIterator(ABC):
    """Yields ids of intervals, best score first, equal scores by id. It must not be used after the index changed."""

    @abstractmethod
    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""

    def next(self) -> int | None:
        """Return the next id, or None at the end."""
        ids = self.take(1)
        return int(ids[0]) if ids.size else None


class RankedIndex(Protocol):
    """An index over scored intervals of codes. Ids are row numbers of the columns it was built from.

    Scores belong with the ids, to the caller, who often has one column of them for many indexes. Once built, a static
    index knows only the order that they make, until one of them changes.
    """

    ranges: ClassVar[tuple[How, ...]]
    """The relations that `iterate_range` can follow."""

    @classmethod
    def build(cls, lo: npt.ArrayLike, hi: npt.ArrayLike, scores: npt.ArrayLike) -> Self:
        """Build the index of the intervals [lo, hi]."""

    def __len__(self) -> int:
        """How many intervals there are."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that the index holds; 4 an interval are the ids themselves."""

    def iterate(self, value: int) -> RankedIterator:
        """Begin to yield the intervals over a value."""

    def iterate_range(self, lo: int, hi: int, how: How = "overlap") -> RankedIterator:
        """Begin to yield the intervals that overlap [lo, hi], or that contain all of it."""

    def rescore(self, interval: int, scores: Float64s) -> None:
        """File an interval under its new score without a rebuild; `scores` is the column of now, by id."""

    def check(self) -> None:
        """Assert every invariant, with its reason."""

    def drawing(self, names: CodeNames, depth: int = 8) -> Drawing:
        """Return the tree down to `depth`, for `tocsin draw`."""


def as_columns(lo: npt.ArrayLike, hi: npt.ArrayLike, scores: npt.ArrayLike) -> Columns:
    """Check the columns of an index, and convert them where their types differ."""
    columns = Columns(
        np.ascontiguousarray(lo, np.int32), np.ascontiguousarray(hi, np.int32), np.ascontiguousarray(scores, np.float64)
    )
    if not columns.lo.shape == columns.hi.shape == columns.scores.shape or columns.lo.ndim != 1:
        shapes = f"{columns.lo.shape}, {columns.hi.shape} and {columns.scores.shape}"
        raise OptionError(f"lo, hi and scores have shapes {shapes}", "Give one of each for every interval")
    if (empty := np.flatnonzero(columns.lo > columns.hi)).size:
        raise OptionError(f"Interval {empty[0]} is empty", "Leave out intervals that end before they begin")
    if (unordered := np.flatnonzero(np.isnan(columns.scores))).size:
        raise OptionError(f"The score of interval {unordered[0]} is NaN", "Give it a number, or an infinity")
    return columns


def best_first(scores: Float64s) -> Int32s:
    """Ids by falling score, equal scores by rising id, in O(n log n)."""
    order = np.argsort(-scores)
    ranked = scores[order]
    if np.any(ranked[1:] == ranked[:-1]):
        order = np.argsort(-scores, kind="stable")
    return order.astype(np.int32)


def new_score(interval: int, scores: Float64s) -> float:
    """Return the new score of an interval, or say what is wrong with it."""
    if not 0 <= interval < scores.size:
        raise OptionError(f"There is no interval {interval}", f"Ids run from 0 to {scores.size - 1}")
    if np.isnan(scores[interval]):
        raise OptionError(f"The score of interval {interval} is NaN", "Give it a number, or an infinity")
    return float(scores[interval])


def by_id(ids: Int32s, column: Int32s) -> Int32s:
    """Return a column in the order of ids; `ids` says whose each entry is."""
    ordered = np.empty_like(column)
    ordered[ids] = column
    return ordered


def check_how(how: str) -> None:
    """Refuse a word that is not one of `How`."""
    if how not in ("overlap", "containment"):
        raise OptionError(f"how is {how!r}", "Use 'overlap' or 'containment'")
