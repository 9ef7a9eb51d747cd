"""A batch of events: columns for the indexes, rows for the reference."""

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import EventError
from tocsin.model.lookup import lookup

Event = Mapping[str, Any]


class EventBatch:
    """Events in order, from mappings or from an Arrow table; nested attributes are dotted names.

    >>> batch = EventBatch([{"price": 12, "user": {"name": "Ada"}}, {"price": None}])
    >>> batch.column("user.name"), batch.event(0)["price"], len(batch)
    (['Ada', None], 12, 2)
    """

    def __init__(self, events: Sequence[Event] | pa.Table | pa.RecordBatch) -> None:
        if isinstance(events, pa.RecordBatch):
            events = pa.Table.from_batches([events])
        self.table: pa.Table | None = events if isinstance(events, pa.Table) else None
        self._rows: Sequence[Event] = [] if isinstance(events, pa.Table) else events
        for row in self._rows:
            if not isinstance(row, Mapping):
                raise EventError(f"an event is a mapping, not {type(row).__name__}", "Pass a dict, or an Arrow table")
        self._length = len(events)
        self._columns: dict[str, pa.Array | list[Any] | None] = {}
        self.remembered: dict[Hashable, Any] = {}
        """What was made of the events and may be asked for again."""
        self._event = lru_cache(maxsize=4096)(self._read_event)

    def __len__(self) -> int:
        return self._length

    def column(self, attribute: str) -> pa.Array | list[Any] | None:
        """The values of an attribute: an Arrow array, a list of Python values, or None if no event has it."""
        if attribute not in self._columns:
            self._columns[attribute] = self._read_column(attribute)
        return self._columns[attribute]

    def _read_column(self, attribute: str) -> pa.Array | list[Any] | None:
        if self.table is None:
            return [lookup(row, attribute) for row in self._rows]
        found = find_column(self.table, attribute)
        return None if found is None else found.combine_chunks()

    def event(self, row: int) -> Event:
        """One event as a mapping."""
        return self._rows[row] if self.table is None else self._event(row)

    def _read_event(self, row: int) -> Event:
        assert self.table is not None
        return dict(self.table.slice(row, 1).to_pylist()[0])

    def slice(self, start: int, length: int) -> "EventBatch":
        """The events from `start` on, `length` of them at most."""
        if self.table is not None:
            return EventBatch(self.table.slice(start, length))
        return EventBatch(self._rows[start : start + length])


def find_column(table: pa.Table, attribute: str) -> pa.ChunkedArray | None:
    """The column of that name, or the field of a struct column that its dots lead to; in a `plain` layout."""
    if attribute in table.column_names:
        return _plain_chunks(table.column(attribute))
    head, dot, rest = attribute.partition(".")
    while dot:
        if head in table.column_names:
            return _field(table.column(head), rest)
        part, dot, rest = rest.partition(".")
        head = f"{head}.{part}"
    return None


def _field(column: pa.ChunkedArray, attribute: str) -> pa.ChunkedArray | None:
    column = _plain_chunks(column)
    while pa.types.is_struct(column.type):
        names = [field.name for field in column.type]
        if attribute in names:
            return _plain_chunks(pc.struct_field(column, attribute))
        head, dot, attribute = attribute.partition(".")
        if not dot or head not in names:
            return None
        column = _plain_chunks(pc.struct_field(column, head))
    return None


def _plain_chunks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if _is_plain(column.type):
        return column
    chunks = [plain(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks) if chunks else pa.chunked_array([plain(pa.array([], column.type))])


def plain(values: pa.Array) -> pa.Array:
    """The same values in a layout that the indexes read: no run ends, no views, and dictionaries of scalars only.

    >>> plain(pc.run_end_encode(pa.array([1, 1, None]))).to_pylist()
    [1, 1, None]
    """
    types, layout = pa.types, values.type
    if _is_plain(layout):
        return values
    if types.is_run_end_encoded(layout):
        # Arrow itself decodes runs of scalars only.
        rows = np.arange(values.offset, values.offset + len(values))
        return plain(values.values).take(pa.array(np.searchsorted(np.asarray(values.run_ends), rows, side="right")))
    if types.is_dictionary(layout):
        return plain(values.dictionary).take(values.indices)
    if types.is_string_view(layout):
        return values.cast(pa.large_string())
    # Arrow's own cast of a list view loses the elements of a slice.
    return pa.array(values.to_pylist(), pa.large_list(layout.value_type))


def _is_plain(layout: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(layout):
        return not types.is_nested(layout.value_type) and _is_plain(layout.value_type)
    return not (
        types.is_run_end_encoded(layout)
        or types.is_string_view(layout)
        or types.is_list_view(layout)
        or types.is_large_list_view(layout)
        or types.is_fixed_size_list(layout)
    )
