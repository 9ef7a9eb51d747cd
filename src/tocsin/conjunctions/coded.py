"""Conjunctions and events over codes: what phase 2 is built from and what it matches, as arrays."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tocsin.arrays import Float64s, Int32s, Int64s, UInt16s
from tocsin.model.predicate import Accepts

NULL_SHARE = 0.02
"""The share of events that is taken to be NULL in an attribute, before any was seen."""
TRUE, FALSE, NULL = Accepts.TRUE.value, Accepts.FALSE.value, Accepts.NULL.value
"""The truth values of a test, as the bits that arrays and kernels have for them."""
NOT_TRUE = FALSE | NULL
ANY_TRUTH = TRUE | FALSE | NULL


@dataclass(frozen=True)
class Conjunctions:
    """Conjunctions 0 to count - 1, their range predicates over codes and their tests.

    Row i of the ranges says that conjunction `conjunction[i]` accepts the codes `low[i]` to `high[i]` of `column[i]`.
    Rows are sorted by (conjunction, column, low); several rows of one conjunction and column are the ranges of one
    predicate. NULL is code -1.
    """

    count: int
    last_code: Int32s
    """The largest code of each column."""
    conjunction: Int32s
    column: Int32s
    low: Int32s
    high: Int32s
    test_conjunction: Int32s
    """Sorted."""
    test: Int32s
    test_accepts: Int32s
    """The truth values that it accepts: TRUE, FALSE and NULL, added up."""
    test_null_column: Int32s
    """For each test, the column whose NULL makes the test NULL; -1: phase 1 says which tests are NULL."""

    def select(self, numbers: Int32s) -> "Conjunctions":
        """Return some of the conjunctions, numbered anew in their order; `numbers` ascend."""
        if numbers.size == self.count:
            return self
        number = np.full(self.count, -1, np.int32)
        number[numbers] = np.arange(numbers.size, dtype=np.int32)
        rows = np.flatnonzero(number[self.conjunction] >= 0)
        tests = np.flatnonzero(number[self.test_conjunction] >= 0)
        return replace(
            self,
            count=numbers.size,
            conjunction=number[self.conjunction[rows]],
            column=self.column[rows],
            low=self.low[rows],
            high=self.high[rows],
            test_conjunction=number[self.test_conjunction[tests]],
            test=self.test[tests],
            test_accepts=self.test_accepts[tests],
        )


class Events(NamedTuple):
    """A batch of events: codes, and the tests that are TRUE and those that are NULL for each event, sorted."""

    codes: Int32s
    """`codes[column, event]`; the last column is ANYTHING, whose code is always 0. No events: only `short` is there."""
    true_starts: Int64s
    true: Int32s
    null_starts: Int64s
    null: Int32s
    short: UInt16s = np.empty((0, 0), np.uint16)
    """Short codes, a row for each column and shared with other indexes; empty: (code >> shift) + 1 for all columns."""
    row_of: Int32s = np.empty(0, np.int32)
    """The row of each column in `short`."""
    short_by_event: UInt16s = np.empty(0, np.uint16)
    """VECTOR_WIDTH places for each event: its short codes in the first columns. Empty: not needed yet."""


@dataclass(frozen=True)
class RangePredicates:
    """The range predicates of conjunctions, one row each, sorted by conjunction, most selective first."""

    conjunction: Int32s
    column: Int32s
    first: Int32s
    """Its first row among the ranges."""
    end: Int32s
    low: Int32s
    high: Int32s
    width: Float64s
    """The mean width of its ranges, in codes."""
    selectivity: Float64s
    """The share of events that satisfies it, estimated."""
    starts: Int64s
    """Where the predicates of each conjunction start; one more entry at the end."""

    def part(self, first: int, end: int) -> "RangePredicates":
        """Those of some conjunctions, which are numbered from 0 on."""
        rows = slice(int(self.starts[first]), int(self.starts[end]))
        fields = {name: getattr(self, name)[rows] for name in ("column", "first", "end", "low", "high")}
        return RangePredicates(
            conjunction=self.conjunction[rows] - np.int32(first),
            **fields,
            width=self.width[rows],
            selectivity=self.selectivity[rows],
            starts=self.starts[first : end + 1] - self.starts[first],
        )

    def with_widths_of(self, conjunctions: Conjunctions) -> "RangePredicates":
        """The same predicates, as wide as the ranges of `conjunctions` are."""
        total = np.concatenate([[0.0], np.cumsum(conjunctions.high - conjunctions.low + 1.0)])
        return replace(self, width=(total[self.end] - total[self.first]) / (self.end - self.first))


def popularity(
    low: Int32s, high: Int32s, last: int, even: Float64s | None = None, null_share: float = NULL_SHARE
) -> Float64s:
    """Estimate the share of events at or below each code, from -1 on.

    Half of them are taken to be spread as the ends of ranges are, the others evenly over the values: `even` is the
    share of values that has each code, or None. Ends alone say of wide ranges that few events lie in their middle,
    where there is no end; values alone know nothing of what is frequent. `last` is the largest code.

    >>> popularity(np.array([1, 1], np.int32), np.array([3, 3], np.int32), 4, None, 0.0).round(2).tolist()
    [0.0, 0.17, 0.33, 0.67, 0.83, 1.0]
    >>> popularity(np.array([1]), np.array([3]), 4, np.array([0.0, 0.0, 1.0, 0.0, 0.0]), 0.0).round(2).tolist()
    [0.0, 0.08, 0.33, 0.67, 0.92, 1.0]
    """
    named = np.concatenate([low[low > 0], high[(high >= 0) & (high < last)]])
    weight = np.bincount(np.minimum(named, last), minlength=last + 1).astype(np.float64)
    if even is not None:
        weight += even * max(weight.sum(), 1.0)
    spread = np.convolve(weight, np.ones(3))[1:-1] + 1e-3
    return np.concatenate([[null_share], null_share + (1 - null_share) * np.cumsum(spread) / spread.sum()])


def range_predicates(conjunctions: Conjunctions, popularity: list[Float64s]) -> RangePredicates:
    """Group the range rows into predicates and sort those of each conjunction by selectivity.

    `popularity[column][code + 1]` is the share of events whose code is at most `code`.
    """
    conjunction, column = conjunctions.conjunction, conjunctions.column
    rows = conjunction.size
    changes = np.ones(rows, bool)
    changes[1:] = (conjunction[1:] != conjunction[:-1]) | (column[1:] != column[:-1])
    # Nine million conjunctions of ten predicates: each array of 64 bits is 0.7 GB, and none stays longer than needed.
    first = np.flatnonzero(changes).astype(np.int32)
    end = np.append(first[1:], np.int32(rows)) if rows else first
    share = np.empty(rows)
    for number, cumulative in enumerate(popularity):
        of_column = np.flatnonzero(column == number)
        low, high = conjunctions.low[of_column], conjunctions.high[of_column]
        below = np.where(low >= 0, cumulative[np.maximum(low, 0)], 0.0)
        share[of_column] = cumulative[high + 1] - below
    selectivity = np.add.reduceat(share, first) if rows else share
    del changes, share
    widths = conjunctions.high - conjunctions.low + 1.0
    width = np.add.reduceat(widths, first) if rows else widths
    del widths
    order = np.lexsort((selectivity, conjunction[first])).astype(np.int32)
    first, end = first[order], end[order]
    owner = conjunction[first]
    return RangePredicates(
        conjunction=owner,
        column=column[first],
        first=first,
        end=end,
        low=conjunctions.low[first],
        high=conjunctions.high[end - 1] if rows else conjunctions.high,
        width=width[order] / (end - first),
        selectivity=selectivity[order],
        starts=np.searchsorted(owner, np.arange(conjunctions.count + 1)).astype(np.int64),
    )
