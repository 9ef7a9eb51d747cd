"""From raw values to codes: the endpoints of the predicates of one attribute, standing alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s
from tocsin.errors import OptionError


class Interval(NamedTuple):
    """The values between `low` and `high`; each end belongs to it or not. An infinite end is open.

    >>> Interval(45, 50, low_closed=False, high_closed=False)
    Interval(low=45, high=50, low_closed=False, high_closed=False)
    """

    low: float = -inf
    high: float = inf
    low_closed: bool = True
    high_closed: bool = True


def point(value: float) -> Interval:
    """The interval of one value."""
    return Interval(value, value)


def not_equal(value: float) -> tuple[Interval, Interval]:
    """The values other than `value`: two intervals of one predicate."""
    return Interval(high=value, high_closed=False), Interval(low=value, low_closed=False)


def one_of(values: Iterable[float]) -> tuple[Interval, ...]:
    """The values of an IN list: one interval each, of one predicate."""
    return tuple(point(value) for value in values)


class Ranges(NamedTuple):
    """Inclusive ranges of codes and the predicates they belong to; what `PredicateIndex.build` takes."""

    lo: Int32s
    hi: Int32s
    predicate: Int32s


@dataclass(frozen=True)
class Endpoints:
    """The sorted distinct endpoints of an attribute's intervals, which cut its values into 2n + 1 elementary intervals.

    The codes number these in order: endpoint ``i`` is code ``2 i + 1``, the values just below it are code ``2 i``, and
    the values above all endpoints are code ``2 n``.

    >>> endpoints = Endpoints.of([Interval(10, 25), point(20)])
    >>> endpoints.codes([5, 10, 12, 20, 99, float("nan")]).tolist()
    [0, 1, 2, 3, 6, -1]
    """

    values: Float64s

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> "Endpoints":
        """Collect the endpoints of `intervals`. O(n log n)."""
        ends = np.array([end for interval in intervals for end in interval[:2]], np.float64)
        return cls(np.unique(ends[np.isfinite(ends)]))

    @property
    def size(self) -> int:
        """The number of codes, 2n + 1."""
        return 2 * len(self.values) + 1

    def codes(self, values: npt.ArrayLike) -> Int32s:
        """The codes of `values`; NaN is NULL, -1. O(log n) each."""
        raw = np.asarray(values, np.float64)
        below, upto = np.searchsorted(self.values, raw, "left"), np.searchsorted(self.values, raw, "right")
        return np.where(np.isnan(raw), -1, below + upto).astype(np.int32)

    def ranges(self, predicates: Sequence[Interval | Sequence[Interval]]) -> Ranges:
        """The ranges of codes of `predicates`, each one interval or several; predicate ids are positions.

        An interval that holds no value, such as one from 3 to 2, is a range with ``lo > hi``. Raises OptionError for an
        end that is not among the endpoints, because no code begins there.

        >>> endpoints = Endpoints.of(not_equal(7))
        >>> [array.tolist() for array in endpoints.ranges([not_equal(7), point(7)])]
        [[0, 2, 1], [0, 2, 1], [0, 0, 1]]
        """
        flat: list[Interval] = []
        owner: list[int] = []
        for number, predicate in enumerate(predicates):
            intervals = (predicate,) if isinstance(predicate, Interval) else predicate
            flat.extend(intervals)
            owner.extend([number] * len(intervals))
        table = np.array(flat, np.float64).reshape(-1, 4)
        low, high, low_closed, high_closed = table.T
        for ends in (low, high):
            strange = np.isnan(ends) | (np.isfinite(ends) & (self.codes(ends) % 2 == 0))
            if strange.any():
                raise OptionError(f"{ends[strange][0]} is not an endpoint", "Collect all intervals' endpoints first")
        lo = self.codes(low) + np.where((low_closed == 0) & np.isfinite(low), 1, 0)
        hi = self.codes(high) - np.where((high_closed == 0) & np.isfinite(high), 1, 0)
        return Ranges(lo.astype(np.int32), hi.astype(np.int32), np.array(owner, np.int32))

    def name(self, first: int, last: int) -> str:
        """The values of a range of codes, as a point or an interval; ∅ beyond the last code, where no value is.

        >>> Endpoints.of([Interval(10, 25)]).name(0, 2)
        '(-∞, 25)'
        """
        count = len(self.values)
        if first > 2 * count:
            return "∅"
        if first == last and first % 2:
            return f"{self.values[first // 2]:g}"
        low = "[" if first % 2 else "("
        low += f"{self.values[(first - 1) // 2]:g}" if first else "-∞"
        high = f"{self.values[last // 2]:g}" if last < 2 * count else "∞"
        return f"{low}, {high}{']' if last < 2 * count and last % 2 else ')'}"
