"""Which row groups of Parquet files can hold an event that satisfies some subscription, by their statistics.

The least and the greatest value of a column become codes, as any value does. Codes keep the order of values, so a
conjunction holds nowhere in a row group if one of its ranges lies outside of them. What statistics do not tell (words,
patterns, expressions, lists) may hold.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.arrays import Bools, Int32s
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


@dataclass(frozen=True)
class Bounds:
    """What the statistics of a row group say of an attribute."""

    least: Any
    greatest: Any
    """None: not known."""
    has_values: bool = True
    has_nulls: bool = True
    type: pa.DataType | None = None


UNKNOWN = Bounds(None, None)
ABSENT = Bounds(None, None, has_values=False)


class RowGroupFilter:
    """The conjunctions of some subscriptions, to be compared with the statistics of row groups."""

    def __init__(self, forms: Iterable[tuple[StoredForm, Sequence[Column]]]) -> None:
        self._forms = [_FormFilter(form, columns) for form, columns in forms]

    def may_match(self, file: pq.FileMetaData) -> list[bool]:
        """Return for each row group of a file whether an event in it may satisfy some subscription."""
        found = np.zeros(file.num_row_groups, np.bool_)
        for form in self._forms:
            bounds = [bounds_of(file, column.attribute) for column in form.columns]
            found |= form.may_match(bounds, file.num_row_groups)
        return cast(list[bool], found.tolist())


class _FormFilter:
    """The ranges of one segment, sorted by conjunction and column."""

    def __init__(self, form: StoredForm, columns: Sequence[Column]) -> None:
        self.columns = columns
        self._column, self._low, self._high = form.column, form.low, form.high
        sizes = np.diff(form.starts)
        conjunction = np.repeat(np.arange(sizes.size), sizes)
        is_first = np.append(True, np.diff(conjunction) | np.diff(self._column)).astype(np.bool_)[: conjunction.size]
        self._unions = np.flatnonzero(is_first)
        """The first row of each conjunction in each column: one of these rows must hold."""
        self._conjunctions = np.flatnonzero(np.append(True, np.diff(conjunction[self._unions])))[: self._unions.size]
        """The first union of each conjunction: all of them must hold."""
        self._is_free = bool((sizes == 0).any())
        """Whether a conjunction has no range."""

    def may_match(self, bounds: Sequence[Sequence[Bounds]], groups: int) -> Bools:
        """Return which row groups may satisfy a conjunction; `bounds` are by column and row group."""
        if self._is_free or not self._column.size:
            return np.full(groups, self._is_free)
        least, greatest = np.empty((2, len(self.columns), groups), np.int32)
        for place, (column, of_groups) in enumerate(zip(self.columns, bounds, strict=True)):
            least[place], greatest[place] = _codes(column, of_groups)
        # A value of another kind is NULL, and its code says so.
        nulls = np.array([[one.has_nulls for one in of_groups] for of_groups in bounds]) | (least < 0)
        values = np.array([[one.has_values for one in of_groups] for of_groups in bounds])
        found = np.empty(groups, np.bool_)
        is_null = self._low < 0
        for group in range(groups):
            inside = (self._low <= greatest[self._column, group]) & (self._high >= least[self._column, group])
            holds = np.where(is_null, nulls[self._column, group], inside & values[self._column, group])
            unions = np.logical_or.reduceat(holds, self._unions)
            found[group] = np.logical_and.reduceat(unions, self._conjunctions).any()
        return found


def _codes(column: Column, bounds: Sequence[Bounds]) -> tuple[Int32s, Int32s]:
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


def bounds_of(file: pq.FileMetaData, attribute: str) -> list[Bounds]:
    """Return what the statistics of each row group of a file say of an attribute."""
    if attribute[:1] == MARK:  # an expression, or the time of now
        return [UNKNOWN] * file.num_row_groups
    column, _ = read_attribute(file.schema.to_arrow_schema().empty_table(), attribute)
    if column is None:
        return [ABSENT] * file.num_row_groups
    leaves = [place for place in range(file.num_columns) if file.schema.column(place).path == attribute]
    if len(leaves) != 1 or isinstance(column, list):
        return [UNKNOWN] * file.num_row_groups
    type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(is_type(type_) for is_type in _HAS_BOUNDS):
        return [UNKNOWN] * file.num_row_groups
    is_readable = any(is_type(type_) for is_type in _NO_VALUE_IS_UNREADABLE)
    groups = map(file.row_group, range(file.num_row_groups))
    found = [_bounds(group, leaves[0], type_, is_readable) for group in groups]
    if not _is_array([end for one in found for end in (one.least, one.greatest)], type_):
        found = [one if _is_array([one.least, one.greatest], type_) else UNKNOWN for one in found]
    return found


def _bounds(group: pq.RowGroupMetaData, leaf: int, type_: pa.DataType, is_readable: bool) -> Bounds:
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
    return Bounds(least, greatest, has_values, has_nulls, type_)


def _is_array(values: list[Any], type_: pa.DataType) -> bool:
    """Whether values of statistics are of the type that the column is read as."""
    try:
        pa.array(values, type_)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True
