"""A batch of events: columns for the indexes, rows for the reference."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

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
        self._event = lru_cache(maxsize=4096)(self._read_event)

    def __len__(self) -> int:
        return self._length

    def column(self, attribute: str) -> pa.Array | list[Any] | None:
        """The values of an attribute: an Arrow array, a list of Python values, or None if no event has it."""
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
    """The column of that name, or the field of a struct column that its dots lead to."""
    if attribute in table.column_names:
        return table.column(attribute)
    head, dot, rest = attribute.partition(".")
    while dot:
        if head in table.column_names:
            column = table.column(head)
            return _field(column, rest)
        part, dot, rest = rest.partition(".")
        head = f"{head}.{part}"
    return None


def _field(column: pa.ChunkedArray, attribute: str) -> pa.ChunkedArray | None:
    while pa.types.is_struct(column.type):
        names = [field.name for field in column.type]
        if attribute in names:
            return pc.struct_field(column, attribute)
        head, dot, attribute = attribute.partition(".")
        if not dot or head not in names:
            return None
        column = pc.struct_field(column, head)
    return None
