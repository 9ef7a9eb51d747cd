"""Subscriptions of many attributes as rows, and what an event asks of each attribute."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Float64s, Int32s, Int64s
from tocsin.errors import OptionError
from tocsin.papers.ranked.protocol import How, RankedIndex, RankedIterator, check_how

NULL = -1
"""The code of an attribute that an event does not have."""


class Rows(NamedTuple):
    """Interval predicates by subscription and attribute: those of s are rows `offsets[s]` to `offsets[s + 1]`."""

    offsets: Int64s
    attribute: Int32s
    lo: Int32s
    hi: Int32s
    weight: Float64s
    subscription: Int32s
    attributes: int

    @property
    def subscriptions(self) -> int:
        """How many subscriptions there are."""
        return self.offsets.size - 1


class Probe(NamedTuple):
    """An event, by attribute: an interval passes if lo <= latest_lo and hi >= earliest_hi, where it is present."""

    present: Bools
    value: Int64s
    latest_lo: Int64s
    earliest_hi: Int64s
    how: How | None

    def iterate(self, attribute: int, index: RankedIndex) -> RankedIterator:
        """Begin the iteration that this event asks of an attribute's index."""
        value = int(self.value[attribute])
        if self.how is None:
            return index.iterate(value)
        last = self.latest_lo[attribute] if self.how == "overlap" else self.earliest_hi[attribute]
        return index.iterate_range(value, int(last), self.how)


def as_rows(
    attribute: npt.ArrayLike,
    lo: npt.ArrayLike,
    hi: npt.ArrayLike,
    weight: npt.ArrayLike,
    subscription: npt.ArrayLike,
    *,
    attributes: int,
    count: int,
) -> Rows:
    """Sort predicates by subscription and attribute; each subscription has at most one on an attribute.

    >>> as_rows([1, 0], [5, 0], [9, 3], [1.0, 2.0], [0, 0], attributes=2, count=1).attribute.tolist()
    [0, 1]
    """
    names, owners = np.asarray(attribute, np.int32), np.asarray(subscription, np.int32)
    for what, numbers, end in (("attribute", names, attributes), ("subscription", owners, count)):
        if numbers.size and (numbers.min() < 0 or numbers.max() >= end):
            raise OptionError(f"A row has {what} {numbers.max()}", f"Number each {what} from 0 to {end - 1}")
    order = np.lexsort((names, owners))
    names, owners = names[order], owners[order]
    twice = np.flatnonzero((names[1:] == names[:-1]) & (owners[1:] == owners[:-1]))
    if twice.size:
        row = twice[0]
        raise OptionError(
            f"Subscription {owners[row]} has two predicates on attribute {names[row]}",
            "Intersect them, or make them two subscriptions",
        )
    return Rows(
        offsets=np.searchsorted(owners, np.arange(count + 1)).astype(np.int64),
        attribute=names,
        lo=np.asarray(lo, np.int32)[order],
        hi=np.asarray(hi, np.int32)[order],
        weight=np.asarray(weight, np.float64)[order],
        subscription=owners,
        attributes=attributes,
    )


def as_probe(values: npt.ArrayLike, until: npt.ArrayLike | None = None, how: How = "overlap") -> Probe:
    """Read an event: a code by attribute, NULL where there is none; with `until`, the ranges from `values` to it.

    >>> as_probe([20, NULL], until=[30, NULL], how="containment").latest_lo.tolist()
    [20, -1]
    """
    first = np.asarray(values, np.int64)
    if until is None:
        return Probe(first != NULL, first, first, first, None)
    check_how(how)
    last = np.asarray(until, np.int64)
    latest, earliest = (last, first) if how == "overlap" else (first, last)
    return Probe(first != NULL, first, latest, earliest, how)


def typical_held(rows: Rows) -> float:
    """Estimate how many rows of one attribute hold for an event, from a sample of rows and of their endpoints.

    >>> rows = as_rows([0, 0, 0, 0], [0, 0, 5, 5], [9, 9, 9, 9], [1.0] * 4, [0, 1, 2, 3], attributes=1, count=4)
    >>> typical_held(rows)
    3.0
    """
    if not rows.lo.size or not rows.attributes:
        return 0.0
    sample = np.linspace(0, rows.lo.size - 1, min(rows.lo.size, 2048)).astype(np.int64)
    lo, hi, attribute = rows.lo[sample], rows.hi[sample], rows.attribute[sample]
    picked = sample[:: max(sample.size // 64, 1)]
    same = rows.attribute[picked][:, None] == attribute
    over = same & (lo <= rows.lo[picked][:, None]) & (hi >= rows.lo[picked][:, None])
    return float(over.sum() / max(same.sum(), 1) * rows.lo.size / rows.attributes)
