"""A batch of events: columns for the indexes, rows for the reference."""

import datetime as dt
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tocsin.arrays import Int64s
from tocsin.errors import EventError
from tocsin.model.derive import derive
from tocsin.model.expression_tree import MARK, NOW, expression_of, is_derived
from tocsin.model.lookup import lookup
from tocsin.model.readable import Lost, Values, fields_of, python_values, read_column, read_values
from tocsin.model.sql_text import name as sql_name

Event = Mapping[str, Any]

FEW_ROWS = 8
"""Columns of fewer mappings stay lists: an Arrow array costs as much as the codes of about so many values."""
_ARROW_TYPES = {float: pa.float64(), int: pa.int64(), str: pa.large_string(), bool: pa.bool_()}
Events: TypeAlias = Any
"""A batch of events: Arrow, whatever has `__arrow_c_stream__` (pandas, Polars, DuckDB), or dicts."""


def event_batches(events: Events, now: dt.datetime | None = None) -> "Iterator[EventBatch]":
    """Read events as one batch, or a reader batch by batch, so that its events need not be in memory at once.

    All of them are matched at one time: `now`, or the time when the first is read.
    """
    now = now or dt.datetime.now(dt.UTC)
    if isinstance(events, pa.RecordBatchReader):
        # Without a batch there is still a schema, which has the column that names events or not.
        yield EventBatch(events.schema.empty_table(), now)
        yield from (EventBatch(batch, now) for batch in events)
    elif isinstance(events, (pa.Table, pa.RecordBatch)):
        yield EventBatch(events, now)
    elif hasattr(events, "__arrow_c_stream__") or hasattr(events, "__arrow_c_array__"):
        try:
            table = pa.table(events)
        except (pa.ArrowException, OverflowError) as error:
            raise EventError(f"the events cannot be read: {error}", "Let each column be of one type") from error
        yield EventBatch(table, now)
    elif isinstance(events, (Mapping, str)):
        raise EventError(f"events are several mappings, not one {type(events).__name__}", "Pass a list, or call match")
    elif isinstance(events, Iterable):
        yield EventBatch(list(events), now)
    else:
        raise EventError(f"a {type(events).__name__} is not a batch of events", "Pass dicts, or what Arrow reads")


class EventBatch:
    """Events in order, from mappings or from an Arrow table; nested attributes are dotted names.

    A value that cannot be read is NULL, and counted in `unreadable`.

    >>> batch = EventBatch([{"price": 12, "user": {"name": "Ada"}}, {"price": None}])
    >>> batch.column("user.name"), batch.event(0)["price"], len(batch)
    (['Ada', None], 12, 2)
    """

    def __init__(self, events: Sequence[Event] | pa.Table | pa.RecordBatch, now: dt.datetime | None = None) -> None:
        if isinstance(events, pa.RecordBatch):
            events = pa.Table.from_batches([events])
        self.table: pa.Table | None = events if isinstance(events, pa.Table) else None
        self._rows: Sequence[Event] = [] if isinstance(events, pa.Table) else events
        for row in self._rows:
            if not isinstance(row, Mapping):
                raise EventError(f"an event is a mapping, not {type(row).__name__}", "Pass a dict, or an Arrow table")
        self._length = len(events)
        self._now = now
        self._columns: dict[str, Values | None] = {}
        self._lacking: dict[str, bool] = {}
        self._python: dict[str, list[Any] | None] = {}
        self.unreadable: dict[str, int] = {}
        """How many values of the columns that were asked for could not be read, by attribute and reason."""
        self.remembered: dict[Hashable, Any] = {}
        """A cache of what was computed from the events."""

    def __len__(self) -> int:
        return self._length

    @property
    def single(self) -> Event | None:
        """The event as it was given, if it is a mapping and the only one."""
        return self._rows[0] if len(self._rows) == 1 else None

    @property
    def rows(self) -> Sequence[Event]:
        """The events as they were given, if they are mappings; none if they are a table."""
        return self._rows

    def column(self, attribute: str) -> Values | None:
        """Return the values of an attribute: an Arrow array, a list of Python values, or None if no event has it."""
        if attribute not in self._columns:
            self._columns[attribute] = self._read_column(attribute)
        return self._columns[attribute]

    def lacks(self, attribute: str) -> bool:
        """Tell whether it is known without reading that no event has a value for an attribute.

        It is known of columns of a table: to read one takes ten times as long as to ask for its NULLs.

        >>> batch = EventBatch(pa.table({"price": [12, None], "year": pa.nulls(2)}))
        >>> [batch.lacks(attribute) for attribute in ("price", "year", "author")]
        [False, True, True]
        """
        if self.table is None or "." in attribute or attribute.startswith(MARK):
            return False
        if attribute not in self._lacking:
            places = self.table.schema.get_all_field_indices(attribute)
            columns = [self.table.column(place) for place in places]
            # Two columns of one name are an error, which reading reports.
            is_one = len(columns) < 2
            self._lacking[attribute] = is_one and all(column.null_count == len(column) for column in columns)
        return self._lacking[attribute]

    @property
    def now(self) -> dt.datetime:
        """The time at which the events are matched, the same for all of them."""
        self._now = self._now or dt.datetime.now(dt.UTC)
        return self._now

    def _read_column(self, attribute: str) -> Values | None:
        values: Values | None
        if is_derived(attribute) or attribute == NOW:
            return self._derive_column(attribute)
        if self.table is None:
            values, lost = self._read_rows(attribute)
        else:
            values, lost = read_attribute(self.table, attribute)
        for reason, count in lost.items():
            self.unreadable[f"{attribute}: {reason}"] = count
        return values

    def _derive_column(self, attribute: str) -> Values:
        if attribute == NOW:
            return pa.repeat(pa.scalar(self.now, pa.timestamp("us", "UTC")), len(self))
        values, lost = derive(expression_of(attribute), self)
        for reason, count in lost.items():
            self.unreadable[f"{sql_name(attribute)}: {reason}"] = count
        return values

    def _read_rows(self, attribute: str) -> tuple[Values | None, Lost]:
        """Read an attribute of mappings, as an Arrow array where all its values are of one plain type."""
        rows = self._rows
        given = [lookup(row, attribute) for row in rows] if "." in attribute else [row.get(attribute) for row in rows]
        types = set(map(type, given)) - {type(None)}
        if not types:
            return (given if any(attribute in row for row in rows) else None), {}
        if len(types) == 1 and len(rows) >= FEW_ROWS:
            kind = _ARROW_TYPES.get(types.pop())
            if kind is not None:
                try:
                    return pa.array(given, kind), {}
                except (OverflowError, UnicodeEncodeError, pa.ArrowException):
                    pass  # an integer beyond 64 bits, or a text that is not Unicode
        return read_values(given)

    def values(self, attribute: str) -> list[Any] | None:
        """Return the values of an attribute as Python has them (see `python_values`), or None if no event has it."""
        if attribute not in self._python:
            column = self.column(attribute)
            self._python[attribute] = None if column is None else python_values(column)
        return self._python[attribute]

    def value(self, attribute: str) -> Any:
        """Return the value that the first event has, as `values` does, without a column if it is a plain one.

        >>> EventBatch([{"price": 12, "user": {"name": "Ada"}}]).value("user.name")
        'Ada'
        """
        if self._rows and not attribute.startswith(MARK):
            value: Any = self._rows[0].get(attribute)
            kind = type(value)
            is_plain = kind is int or kind is bool or (kind is float and value == value)
            if is_plain or (kind is str and value.isascii()) or (value is None and "." not in attribute):
                return value
        values = self.values(attribute)
        return None if values is None else values[0]

    def event(self, row: int) -> Event:
        """Return one event as a mapping, which has a value for every attribute: None for one that is missing."""
        return _Row(self, row)

    def names_of(self, row: int) -> Sequence[str]:
        """Return the names that an event has on its uppermost level."""
        return list(self._rows[row]) if self.table is None else self.table.column_names

    def names(self) -> list[str]:
        """Return the names that some event has on its uppermost level."""
        if self.table is not None:
            return list(self.table.column_names)
        return sorted(set().union(*self._rows))

    def has(self, attribute: str) -> bool:
        """Tell whether some event has the attribute, if only as NULL."""
        if self.table is not None:
            return self.column(attribute) is not None
        return any(attribute in row for row in self._rows) or any(v is not None for v in self.column(attribute) or ())

    def parts(self, most: int) -> "Iterator[tuple[int, EventBatch]]":
        """Return the batch in parts of at most so many events and of about the same size, each with its first row.

        A small last part would cost more for each event.
        """
        size = max(1, math.ceil(len(self) / max(1, math.ceil(len(self) / most))))
        for start in range(0, len(self), size):
            yield start, self.slice(start, size) if len(self) > size else self

    def slice(self, start: int, length: int) -> "EventBatch":
        """Return the events from `start` on, `length` of them at most."""
        if self.table is not None:
            return EventBatch(self.table.slice(start, length), self.now)
        return EventBatch(self._rows[start : start + length], self.now)

    def take(self, rows: Int64s) -> "EventBatch":
        """Return some of the events, in this order; they are read as part of this batch."""
        return _Some(self, rows)


def taken(values: Values | None, rows: Int64s) -> Values | None:
    """Return the values at these rows."""
    if isinstance(values, list):
        return [values[row] for row in rows.tolist()]
    return None if values is None else values.take(pa.array(rows))


class _Some(EventBatch):
    """Some events of a batch. It reads the columns of that batch: what cannot be read is counted there."""

    def __init__(self, batch: EventBatch, rows: Int64s) -> None:
        super().__init__([])
        self._batch = batch
        self._chosen = rows
        self._length = rows.size

    def lacks(self, attribute: str) -> bool:
        """Tell it of the whole batch."""
        return self._batch.lacks(attribute)

    def _read_column(self, attribute: str) -> Values | None:
        return taken(self._batch.column(attribute), self._chosen)

    def names_of(self, row: int) -> Sequence[str]:
        """Return the names of the event that stands there in the whole batch."""
        return self._batch.names_of(int(self._chosen[row]))


class _Row(Mapping[str, Any]):
    """One event of a batch. Only the attributes that are asked for are read."""

    def __init__(self, batch: EventBatch, row: int) -> None:
        self._batch = batch
        self._row = row

    def __getitem__(self, attribute: str) -> Any:
        if self._row == 0:
            return self._batch.value(attribute)
        values = self._batch.values(attribute)
        return None if values is None else values[self._row]

    def __contains__(self, attribute: object) -> bool:
        return isinstance(attribute, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._batch.names_of(self._row))

    def __len__(self) -> int:
        return len(self._batch.names_of(self._row))


def read_attribute(table: pa.Table, attribute: str) -> tuple[Values | None, Lost]:
    """Return the values of the column of that name, or of the field that its dots lead to; None if there is none.

    With it, by reason, how many of the values could not be read.
    """
    # To look at all names for every attribute would take a third of the time of a batch with 166 columns.
    is_column = len(table.schema.get_all_field_indices(attribute)) == 1
    path = [attribute] if is_column else _path(table.schema, attribute, attribute)
    if path is None:
        return None, {}
    column = table.column(path[0])
    try:
        return read_column(column, path[1:])
    except pa.ArrowException as error:
        raise EventError(
            f"the column {path[0]!r} of type {column.type} cannot be read for {attribute!r}: {error}",
            "Cast it to a type that Arrow computes with",
        ) from error


def _path(fields: Iterable[pa.Field], attribute: str, asked: str) -> list[str] | None:
    """Return the names that lead to a field: the field of that name, or else a struct named by the shortest head."""
    kinds = [(field.name, field.type) for field in fields]
    names = [name for name, _ in kinds]
    head, dot, rest = attribute, "", ""
    if attribute not in names:
        head, dot, rest = attribute.partition(".")
        while dot and head not in names:
            part, dot, rest = rest.partition(".")
            head = f"{head}.{part}"
        if not dot:
            return None
    if names.count(head) > 1:
        raise EventError(
            f"the events have {names.count(head)} columns {head!r}, and {asked!r} may mean any of them",
            "Rename or drop all but one",
        )
    if not dot:
        return [head]
    below = _path(fields_of(dict(kinds)[head]), rest, asked)
    return None if below is None else [head, *below]
