"""Keep the published events themselves: Parquet segments, on disk or in memory, and the newest events as they came.

What a new subscription compares with is read from here when it comes, a column at a time. A segment never changes. The
newest events wait in memory until there are enough of them, or until a commit; then they become a segment, together
with the segments before that are not much longer, so that there are few of them and each event is written O(log n)
times. A segment whose events have all expired goes. The commit record has the checksum of each file, which is compared
before its first page is read.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.errors import StorageError
from tocsin.model.events import EventBatch
from tocsin.model.readable import Values
from tocsin.predicates.history.event_values import attribute_of, is_json, joined, leads_to_some, rows_of, stored
from tocsin.storage.atomic_files import write_file
from tocsin.storage.regular_files import open_regular

WAITING_EVENTS = 8192
"""So many events wait in memory before they become a segment: 10 columns of them take some 2 ms to write."""
WAITING_BYTES = 16 << 20
"""Or so many bytes of text and Arrow arrays."""
RATIO = 4
"""A segment is written again with the events behind it unless it is more than this many times as long."""
SEGMENT_BYTES = 32 << 20
"""A segment of more bytes than this is not written again."""
_READ_AT_ONCE = 1 << 20
"""Bytes that are read at once for a checksum: they stay in the cache."""
ROWS_AT_ONCE = 65_536
"""Events that are read from a segment at a time."""
_PLAIN = frozenset({int, float, str, bool, type(None)})
"""Types of most values, which nobody can change."""
_HINT = "Restore it from a copy, or start a new history"


class LogEntry(NamedTuple):
    """A segment as the commit record names it."""

    file: str
    first: int
    """The number of its first event."""
    events: int
    size: int
    """The bytes of the file."""
    checksum: int | None = None
    """The CRC-32 of the file: the checksums of Parquet are those of its pages alone. Version 2 had none."""


@dataclass
class LogSegment:
    """A segment that can be read: `source` is a buffer, or a file that stays open, whatever becomes of its name."""

    entry: LogEntry
    source: Any
    name: str
    """The file, for messages."""
    is_verified: bool
    """Whether the whole file was compared with its checksum: when it is first read, or since it was written here."""

    @property
    def stop(self) -> int:
        """The number behind its last event."""
        return self.entry.first + self.entry.events


class EventLog:
    """The events `first <= number < next`, whole or with the attributes `kept`; `folder` is None in memory.

    >>> log = EventLog()
    >>> log.append(EventBatch([{"price": 10, "tags": ["a"]}, {"price": "ten"}]))
    >>> log.flush()
    >>> list(log.events(0))
    [{'price': 10, 'tags': ['a']}, {'price': 'ten'}]
    """

    def __init__(self, folder: Path | None = None, kept: frozenset[str] | None = None, first: int = 0) -> None:
        self.folder = folder
        self.kept = kept
        self.next = first
        self._segments: list[LogSegment] = []
        self._waiting: list[pa.Table] = []
        self._waiting_rows: list[dict[str, Any]] = []
        self._waiting_bytes = 0
        self._last_file = 0
        self._expired = first

    def open(self, entries: Sequence[LogEntry], folder: Path, stop: int) -> None:
        """Read the segments that a commit record names; they end before the event `stop`."""
        behind = None
        for entry in entries:
            if entry.events < 1 or entry.first != (entry.first if behind is None else behind):
                raise StorageError(f"history file {folder / entry.file} has other events than were committed", _HINT)
            behind = entry.first + entry.events
            path = folder / entry.file
            if not path.exists():
                raise StorageError(f"history file {path} is missing", _HINT)
            if path.stat().st_size != entry.size:
                raise StorageError(f"history file {path} is damaged: its size is not what was committed", _HINT)
            open_regular(path).close()
            self._segments.append(LogSegment(entry, pa.OSFile(str(path)), str(path), is_verified=False))
            self._last_file = max(self._last_file, int(entry.file.split("-")[-1].split(".")[0]))
        self.next = stop

    @property
    def first(self) -> int:
        """The number of the oldest event that can be read."""
        waiting = sum(map(len, self._waiting)) + len(self._waiting_rows)
        return self._segments[0].entry.first if self._segments else self.next - waiting

    @property
    def entries(self) -> list[LogEntry]:
        """The segments, for the commit record; call `flush` first."""
        return [segment.entry for segment in self._segments]

    @property
    def nbytes(self) -> int:
        """The bytes of the segments, and about those of the events that wait."""
        return sum(segment.entry.size for segment in self._segments) + self._waiting_bytes

    def append(self, batch: EventBatch) -> None:
        """Add the events of a batch. Mappings are copied: their owner may change them."""
        if batch.table is None:
            for row in batch.rows:
                self._waiting_rows.append(
                    {name: value if type(value) in _PLAIN else _own(value) for name, value in row.items()}
                )
                self._waiting_bytes += 64 + sum([len(v) for v in row.values() if isinstance(v, (str, bytes))])
        elif len(batch):
            self._seal_rows()
            self._waiting.append(stored(batch, self.kept))
            self._waiting_bytes += self._waiting[-1].nbytes
        self.next += len(batch)
        waiting = sum(map(len, self._waiting)) + len(self._waiting_rows)
        if waiting >= WAITING_EVENTS or self._waiting_bytes >= WAITING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Make a segment of the events that wait. Raises StorageError if it cannot be written; then they go on."""
        self._seal_rows()
        if not self._waiting:
            return
        rows, size = sum(map(len, self._waiting)), self._waiting_bytes
        kept = len(self._segments)
        while kept and self._segments[kept - 1].entry.events <= RATIO * rows:
            entry = self._segments[kept - 1].entry
            if entry.size + size > SEGMENT_BYTES:
                break
            rows, size, kept = rows + entry.events, size + entry.size, kept - 1
        tables: list[pa.Table] = []
        for old in self._segments[kept:]:
            tables += self._tables(old, None, max(old.entry.first, self._expired))
        table = joined([*tables, *self._waiting])
        made = self._write(table, self.next - len(table))
        self._segments[kept:] = [made]
        self._waiting, self._waiting_bytes = [], 0

    def forget(self, first: int) -> None:
        """Drop the segments whose events are all older than `first`; their files go with the next commit."""
        self._expired = first
        while self._segments and self._segments[0].stop <= first:
            del self._segments[0]

    def columns(self, attributes: Sequence[str], first: int) -> Iterator[tuple[int, int, dict[str, Values | None]]]:
        """Yield number, count and attributes of the events from `first` on, some at a time, oldest first."""
        for start, table in self._from(first, attributes):
            yield start, len(table), {name: attribute_of(table, name) for name in attributes}

    def events(self, first: int) -> Iterator[dict[str, Any]]:
        """Yield the events from `first` on, oldest first; attributes that are NULL are left out."""
        for _, table in self._from(first, None):
            yield from rows_of(table)

    def batches(self, first: int) -> Iterator[EventBatch]:
        """Yield the events from `first` on as batches, oldest first."""
        for _, table in self._from(first, None):
            yield EventBatch(list(rows_of(table)) if any(map(is_json, table.schema)) else table)

    def check_files(self) -> None:
        """Read every page of every segment and compare its checksum. Raises StorageError if one is damaged."""
        for segment in self._segments:
            for _ in self._tables(segment, None, segment.entry.first):
                pass

    def _seal_rows(self) -> None:
        if self._waiting_rows:
            self._waiting.append(stored(EventBatch(self._waiting_rows), self.kept))
            self._waiting_rows = []

    def _from(self, first: int, attributes: Sequence[str] | None) -> Iterator[tuple[int, pa.Table]]:
        self._seal_rows()
        segments, waiting, behind = list(self._segments), list(self._waiting), self.next
        for segment in segments:
            start = max(first, segment.entry.first)
            for table in self._tables(segment, attributes, start):
                yield start, table
                start += len(table)
        start = behind - sum(map(len, waiting))
        for table in waiting:
            skipped = max(0, first - start)
            if skipped < len(table):
                yield start + skipped, table.slice(skipped)
            start += len(table)

    def _tables(self, segment: LogSegment, attributes: Sequence[str] | None, first: int) -> Iterator[pa.Table]:
        """Yield the events of a segment from `first` on, with the columns that the attributes are read from."""
        import pyarrow.parquet as pq  # only where events are stored

        try:
            self._verify(segment)
            file = pq.ParquetFile(segment.source, page_checksum_verification=True, pre_buffer=False)
            if file.metadata.num_rows != segment.entry.events:
                raise pa.ArrowInvalid("it has other events than were committed")
            names = file.schema_arrow.names
            if attributes is not None:
                names = [name for name in names if leads_to_some(name, attributes)]
            skipped, fields = first - segment.entry.first, [file.schema_arrow.field(name) for name in names]
            if not names:
                # Parquet forgets the number of rows of no columns.
                left = max(0, segment.entry.events - skipped)
                yield from ([pa.table({"": pa.nulls(left)})] if left else [])
                return
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=names, use_threads=False):
                if skipped >= len(batch):
                    skipped -= len(batch)
                    continue
                table = pa.Table.from_batches([batch.slice(skipped)]).select(names)
                skipped = 0
                # Batches lose the metadata of fields, which says what is JSON.
                marked = [
                    field.with_metadata(given.metadata) for field, given in zip(table.schema, fields, strict=True)
                ]
                yield table.cast(pa.schema(marked)) if any(map(is_json, marked)) else table
        except (pa.ArrowException, OSError) as error:
            raise StorageError(f"history file {segment.name} is damaged: {error}", _HINT) from error

    def _verify(self, segment: LogSegment) -> None:
        """Compare a segment with its checksum, once."""
        if segment.is_verified or segment.entry.checksum is None:
            return
        crc, at = 0, 0
        while data := segment.source.read_at(_READ_AT_ONCE, at):
            crc, at = zlib.crc32(data, crc), at + len(data)
        if crc != segment.entry.checksum:
            raise pa.ArrowInvalid("it does not match its checksum")
        segment.is_verified = True

    def _write(self, table: pa.Table, first: int) -> LogSegment:
        import pyarrow.parquet as pq

        self._last_file += 1
        entry = LogEntry(f"events-{self._last_file}.parquet", first, len(table), 0)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        buffer = sink.getvalue()
        entry = entry._replace(size=buffer.size, checksum=zlib.crc32(buffer))
        if self.folder is None:
            return LogSegment(entry, buffer, entry.file, is_verified=True)
        path = self.folder / entry.file
        write_file(path, lambda file: file.write(buffer))
        return LogSegment(entry, pa.OSFile(str(path)), str(path), is_verified=True)


def _own(value: Any) -> Any:
    """Return a value that its giver cannot change: lists and mappings are copied."""
    if isinstance(value, dict):
        return {name: _own(item) for name, item in value.items()}
    return [_own(item) for item in value] if isinstance(value, (list, set, tuple)) else value
