"""Which row groups of Parquet files can hold an event that satisfies some subscription, by their statistics.

The least and the greatest value of a column become codes, as any value does. Codes keep the order of values, so a
conjunction holds nowhere in a row group if one of its ranges lies outside of them. What statistics do not tell (words,
patterns, expressions, lists) may hold.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.arrays import Bools, Int32s, Int64s
from tocsin.index.encoding import Column
from tocsin.index.form import StoredForm
from tocsin.model.events import read_attribute
from tocsin.model.expression_tree import MARK
from tocsin.predicates.ranges.kernels import NULL_CODE

_NO_VALUE_IS_UNREADABLE = (pa.types.is_integer, pa.types.is_boolean)
"""Types whose values can all be read. A float may be NaN, a text not UTF-8, a time too far off: these are NULL."""
_HAS_BOUNDS = (
    *_NO_VALUE_IS_UNREADABLE,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date,
    pa.types.is_timestamp,
)
_MOST_AT_ONCE = 1 << 24
"""Pairs of a conjunction and a row group that are compared at a time: a byte each."""


@dataclass(frozen=True)
class ColumnFacts:
    """What the statistics of a row group say of an attribute."""

    least: Any
    greatest: Any
    """None: not known."""
    has_values: bool = True
    has_nulls: bool = True
    type: pa.DataType | None = None


UNKNOWN = ColumnFacts(None, None)
ABSENT = ColumnFacts(None, None, has_values=False)


class RowGroupFilter:
    """The conjunctions of some subscriptions, to be compared with the statistics of row groups."""

    def __init__(self, forms: Iterable[tuple[StoredForm, Sequence[Column]]]) -> None:
        self._forms = [_FormFilter(form, columns) for form, columns in forms]

    def may_match(self, file: pq.FileMetaData) -> list[bool]:
        """Return for each row group of a file whether an event in it may satisfy some subscription."""
        found = np.zeros(file.num_row_groups, np.bool_)
        for form in self._forms:
            left = np.flatnonzero(~found)
            step = max(_MOST_AT_ONCE // max(form.conjunctions, 1), 1)
            for start in range(0, left.size, step):
                found[form.may_match(file, left[start : start + step])] = True
        return cast(list[bool], found.tolist())


class _ColumnRanges(NamedTuple):
    """The ranges of a segment's conjunctions on one column."""

    column: Column
    low: Int32s
    high: Int32s
    """The distinct ranges."""
    row: Int64s
    """The number of the range in each row; rows are sorted by conjunction."""
    first: Int64s
    """The first row of each conjunction: one of its rows must hold."""
    conjunction: Int64s


class _FormFilter:
    """The ranges of one segment, by column."""

    def __init__(self, form: StoredForm, columns: Sequence[Column]) -> None:
        sizes = np.diff(form.starts)
        conjunction = np.repeat(np.arange(sizes.size), sizes)
        self.conjunctions = sizes.size
        self._is_free = bool((sizes == 0).any())
        """Whether a conjunction has no range."""
        named = [(columns[place], np.flatnonzero(form.column == place)) for place in np.unique(form.column).tolist()]
        ranges = [_ranges_of(column, conjunction[rows], form.low[rows], form.high[rows]) for column, rows in named]
        # A column with few ranges that many conjunctions name leaves the fewest row groups to the others.
        self._columns = sorted(ranges, key=lambda one: one.low.size / one.conjunction.size)

    def may_match(self, file: pq.FileMetaData, groups: Int64s) -> Int64s:
        """Return which of these row groups may satisfy a conjunction."""
        if self._is_free:
            return groups
        holds = np.ones((self.conjunctions, groups.size), np.bool_)
        for ranges in self._columns:
            holds[ranges.conjunction] &= _may_hold(ranges, bounds_of(file, ranges.column.attribute, groups.tolist()))
            left = holds.any(axis=0)
            if not left.all():
                groups, holds = groups[left], holds[:, left]
            if not groups.size:
                break
        return groups if self.conjunctions else groups[:0]


def _ranges_of(column: Column, conjunction: Int64s, low: Int32s, high: Int32s) -> _ColumnRanges:
    packed, row = np.unique(((low.astype(np.int64) + 1) << 32) | (high + 1), return_inverse=True)
    lows, highs = (packed >> 32) - 1, (packed & 0xFFFFFFFF) - 1
    first = np.flatnonzero(np.append(True, np.diff(conjunction)))
    return _ColumnRanges(column, lows.astype(np.int32), highs.astype(np.int32), row, first, conjunction[first])


def _may_hold(ranges: _ColumnRanges, bounds: Sequence[ColumnFacts]) -> Bools:
    """Return for each conjunction and row group whether some of its ranges may hold there."""
    least, greatest = _codes(ranges.column, bounds)
    # A value of another kind is NULL, and its code says so.
    nulls = np.array([one.has_nulls for one in bounds]) | (least < 0)
    inside = (ranges.low[:, None] <= greatest) & (ranges.high[:, None] >= least)
    inside &= np.array([one.has_values for one in bounds])
    inside[ranges.low < 0] = nulls
    rows = inside[ranges.row]
    return rows if ranges.first.size == len(rows) else np.logical_or.reduceat(rows, ranges.first, axis=0)


def _codes(column: Column, bounds: Sequence[ColumnFacts]) -> tuple[Int32s, Int32s]:
    """Return the least and the greatest code of each row group: of NULL on, if they are not known."""
    least = np.full(len(bounds), NULL_CODE, np.int32)
    greatest = np.full(len(bounds), column.domain.last, np.int32)
    known = [place for place, one in enumerate(bounds) if one.least is not None]
    if known:
        type_ = bounds[known[0]].type
        least[known] = column.domain.codes(pa.array([bounds[place].least for place in known], type_))
        greatest[known] = column.domain.codes(pa.array([bounds[place].greatest for place in known], type_))
    # Of another kind, or too far off to be read, while values between them may be readable.
    greatest[greatest < 0] = column.domain.last
    return least, greatest


def bounds_of(file: pq.FileMetaData, attribute: str, chosen: Sequence[int]) -> list[ColumnFacts]:
    """Return what the statistics of some row groups of a file say of an attribute."""
    if attribute[:1] == MARK:  # an expression, or the time of now
        return [UNKNOWN] * len(chosen)
    column, _ = read_attribute(file.schema.to_arrow_schema().empty_table(), attribute)
    if column is None:
        return [ABSENT] * len(chosen)
    leaves = [place for place in range(file.num_columns) if file.schema.column(place).path == attribute]
    if len(leaves) != 1 or isinstance(column, list):
        return [UNKNOWN] * len(chosen)
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(is_type(type_) for is_type in _HAS_BOUNDS):
        return [UNKNOWN] * len(chosen)
    is_readable = any(is_type(type_) for is_type in _NO_VALUE_IS_UNREADABLE)
    groups = map(file.row_group, chosen)
    found = [_bounds(group, leaves[0], type_, is_readable) for group in groups]
    if not _is_array([end for one in found for end in (one.least, one.greatest)], type_):
        found = [one if _is_array([one.least, one.greatest], type_) else UNKNOWN for one in found]
    return found


def _bounds(group: pq.RowGroupMetaData, leaf: int, type_: pa.DataType, is_readable: bool) -> ColumnFacts:
    facts = group.column(leaf).statistics
    if facts is None:
        return UNKNOWN
    has_values = not (facts.has_null_count and facts.null_count == group.num_rows)
    has_nulls = not (is_readable and facts.has_null_count and facts.null_count == 0)
    least = greatest = None
    if facts.has_min_max:
        try:
            least, greatest = facts.min, facts.max
        except (pa.ArrowException, ValueError, OverflowError):
            least = greatest = None  # text that is not UTF-8, nanoseconds without pandas
    return ColumnFacts(least, greatest, has_values, has_nulls, type_)


def _is_array(values: list[Any], type_: pa.DataType) -> bool:
    """Whether values of statistics are of the type that the column is read as."""
    try:
        pa.array(values, type_)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True
