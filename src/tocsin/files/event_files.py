"""Read events from files, in order and a batch at a time, each attribute as the kind that it is compared with.

JSON has no dates, and CSV has no types at all. So a text that subscriptions compare only with points in time is read as
one, and a text that they compare only with numbers as a number; what cannot be read so is NULL. Parquet and Arrow are
taken as they are.
"""

import csv
import datetime as dt
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from tocsin.errors import EventError, OptionError
from tocsin.files.formats import STANDARD, DataFile, data_files, is_text
from tocsin.files.subscription_files import read_arrow
from tocsin.model.readable import malformed
from tocsin.model.values import Kind

if TYPE_CHECKING:
    # A command looks at the columns of its events before it loads the library.
    from tocsin.matcher import Matcher

Rows = list[dict[str, Any]]
Kinds = Mapping[str, Set[Kind]]

AT_ONCE = 32_768
"""Events in a batch: as many as a matcher takes at a time."""
SHOWN = 10
"""Malformed lines that are reported with their text."""
LONGEST_FIELD = 2**31 - 1
"""Characters in a field of a CSV file; Python's own limit, 131,072, is less than a document."""

_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")

_log = logging.getLogger(__name__)


class ReadEvent(dict[str, Any]):
    """An event whose texts were read as what they are compared with, and the event as it was given."""

    def __init__(self, read: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        super().__init__(read)
        self.given = given


def read_events(
    path: str | Path,
    matcher: "Matcher | None" = None,
    *,
    order: str | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> pa.Table:
    """Read events from JSON Lines, CSV, Parquet or Arrow into a table: a file, compressed or not, a folder, or `-`.

    With a matcher, texts become the times and numbers that its subscriptions compare them with. A column with values of
    several types becomes text. Lines that are not events are left out, and texts that cannot be read as what they are
    compared with are NULL; the log says which. `progress` is called with the number of events so far.

    >>> import tempfile
    >>> from tocsin import Matcher
    >>> file = Path(tempfile.mkdtemp()) / "events.jsonl"
    >>> _ = file.write_text('{"id": 1, "day": "2026-03-01"}\\n{"id": 2, "day": null}\\n')
    >>> matcher = Matcher()
    >>> matcher.subscribe("march", "day >= DATE '2026-03-01'")
    >>> matcher.match_batch(read_events(file, matcher), id="id")["event"].to_pylist()
    [1]
    """
    source = EventFiles(Path(path), {} if matcher is None else matcher.kinds, order=order, progress=progress)
    tables = [batch_table(batch) for batch in source.batches()]
    if source.bad:
        shown = "; ".join(f"line {number}: {line[:60]}" for number, line in source.bad_lines)
        _log.warning("%s: %d lines are not events and were left out (%s)", path, source.bad, shown)
    if source.unread:
        counts = ", ".join(f"{attribute} ({count:,})" for attribute, count in sorted(source.unread.items()))
        _log.warning("%s: texts that cannot be read as what they are compared with are NULL: %s", path, counts)
    return joined(tables) if tables else pa.table({})


class EventFiles:
    """The events of a file, of the files of a folder, or of standard input, and what could not be read.

    With `order`, all events are read first and sorted by that column; NULL comes first, as on Spark. `progress` is
    called with the number of events that have been read. With `keep_given`, rows of JSON and CSV are `ReadEvent`.
    """

    def __init__(
        self,
        path: Path,
        kinds: Kinds,
        *,
        order: str | None = None,
        progress: Callable[[int], object] = lambda _: None,
        keep_given: bool = False,
    ) -> None:
        self.files = data_files(path, "events")
        self.bad = 0
        """Lines that are not events."""
        self.bad_lines: list[tuple[int | None, str]] = []
        """The first of them: the number of the line, and its text."""
        self.names: set[str] = set()
        """The columns of the events read so far."""
        self.unread: Counter[str] = Counter()
        """Texts that cannot be read as what their attribute is compared with, by attribute; they count as NULL."""
        self._order = order
        self.progress = progress
        self._keep_given = keep_given
        self._of_json = self._counted(conversions_of_json(kinds))
        self._of_csv = self._counted(dict(_conversions(kinds)))
        self._texts = {name for name, compared in kinds.items() if compared - {Kind.ANY} == {Kind.STRING}}

    def _counted(self, conversions: Mapping[str, Callable[[str], object]]) -> dict[str, Callable[[str], object]]:
        """The conversions, which count the texts that they cannot read."""

        def counted(attribute: str, conversion: Callable[[str], object]) -> Callable[[str], object]:
            def read(text: str) -> object:
                value = conversion(text)
                if value is None and text.strip():
                    self.unread[attribute] += 1
                return value

            return read

        return {attribute: counted(attribute, conversion) for attribute, conversion in conversions.items()}

    def batches(self) -> Iterator[Rows | pa.RecordBatch]:
        """The events in order: dicts from JSON and CSV, record batches from Parquet and Arrow."""
        found = self._read()
        yield from found if self._order is None else _sorted(list(found), self._order)

    def _read(self) -> Iterator[Rows | pa.RecordBatch]:
        read = 0
        for file in self.files:
            for batch in self._batches_of(file):
                read += len(batch)
                self.names |= names_of(batch)
                self.progress(read)
                yield batch

    def _batches_of(self, file: DataFile) -> Iterator[Rows | pa.RecordBatch]:
        try:
            if file.format in ("parquet", "arrow"):
                yield from self._record_batches(file)
                return
            rows = self._json_lines(file) if file.format == "jsonl" else self._csv_rows(file)
            while some := list(islice(rows, AT_ONCE)):
                yield some
        except (OSError, pa.ArrowException, csv.Error) as error:
            raise OptionError(f"cannot read {file.path}: {error}", "Check the file") from error

    def _report(self, number: int, line: str) -> None:
        self.bad += 1
        if len(self.bad_lines) < SHOWN:
            # Bytes that are not UTF-8 are escaped in it, and cannot be printed so.
            shown = line.encode(errors="surrogateescape").decode(errors="replace")
            self.bad_lines.append((number, shown.rstrip("\r\n")))

    def _json_lines(self, file: DataFile) -> Iterator[dict[str, Any]]:
        with file.open_text() as lines:
            for number, line in enumerate(lines, start=1):
                event = parse_event(line) if line.strip() else {}
                if event is None:
                    self._report(number, line)
                elif event:
                    yield self._with_given(converted(event, self._of_json), event)

    def _csv_rows(self, file: DataFile) -> Iterator[dict[str, Any]]:
        csv.field_size_limit(LONGEST_FIELD)
        with file.open_text() as lines:
            reader = csv.DictReader(lines)
            for row in reader:
                if None in row or None in row.values() or not is_text("".join(row.values())):
                    self._report(reader.line_num, ",".join(str(value) for value in row.values() if value is not None))
                else:
                    yield self._with_given({name: self._field(name, text) for name, text in row.items()}, row)

    def _with_given(self, read: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        return ReadEvent(read, given) if self._keep_given else read

    def _field(self, name: str, text: str) -> object:
        """Read a field as what its attribute is compared with, or else as the whole number or the text that it is."""
        if not text:
            return None
        if name in self._of_csv:
            return self._of_csv[name](text)
        if name not in self._texts and _WHOLE_NUMBER.fullmatch(text):
            return int(text)
        return text

    def _record_batches(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        if file.format == "parquet":
            found: Iterator[pa.RecordBatch] = parquet.ParquetFile(file.whole()).iter_batches(AT_ONCE)
        else:
            found = iter(read_arrow(file))
        first = 1
        for batch in found:
            bad = dict(malformed(batch))
            for row, reason in bad.items():
                self._report(first + row, reason)
            first += len(batch)
            yield (
                batch.take(pa.array([row for row in range(len(batch)) if row not in bad], pa.int64())) if bad else batch
            )


def check_columns(events: Path, wanted: Mapping[str, Iterable[str | None]]) -> None:
    """Raise OptionError if the first events of no file have a column that an option asks for.

    `wanted` has the columns by option. A column that the first events have may be missing later, where it is NULL.
    Standard input is read once, and not here.
    """
    if str(events) == STANDARD:
        return
    missing, found = {name for names in wanted.values() for name in names if name is not None}, set[str]()
    for file in data_files(events, "events"):
        if not missing - found:
            return
        found.update(names_of(next(EventFiles(file.path, {}).batches(), [])))
    demand_columns(wanted, found)


def demand_columns(wanted: Mapping[str, Iterable[str | None]], columns: Set[str]) -> None:
    """Raise OptionError if a column that an option asks for is not among these."""
    for option, names in wanted.items():
        for name in names:
            if name is not None and name not in columns:
                there = ", ".join(sorted(columns)) or "none at all"
                raise OptionError(f"the events have no column {name!r}", f"Choose with {option} from {there}")


def names_of(batch: Rows | pa.RecordBatch) -> set[str]:
    """The names of the columns of a batch."""
    return set(batch.schema.names) if isinstance(batch, pa.RecordBatch) else set().union(*batch)


def parse_event(line: str) -> dict[str, Any] | None:
    """Parse an event from JSON; None if it is not an object of well-formed text."""
    try:
        event = json.loads(line)
        if "\\u" in line or not line.isascii():
            json.dumps(event, ensure_ascii=False).encode()  # raises if it has half a surrogate pair
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def converted(
    event: Mapping[str, Any], conversions: Mapping[str, Callable[[str], object]], prefix: str = ""
) -> dict[str, Any]:
    """The event with the texts of some attributes read as what they are compared with; nested names are dotted."""
    found = dict(event)
    for name, value in event.items():
        attribute = prefix + name
        if isinstance(value, str):
            if attribute in conversions:
                found[name] = conversions[attribute](value)
        elif isinstance(value, dict):
            found[name] = converted(cast(dict[str, Any], value), conversions, f"{attribute}.")
    return found


def conversions_of_json(kinds: Kinds) -> dict[str, Callable[[str], object]]:
    """How texts of JSON are read, by attribute."""
    return {name: conversion for name, conversion in _conversions(kinds) if conversion is not _boolean}


def _conversions(kinds: Kinds) -> Iterator[tuple[str, Callable[[str], object]]]:
    """The conversions of attributes that are compared with one kind only, other than text."""
    readers = {Kind.TIME: _time, Kind.NUMBER: _number, Kind.BOOLEAN: _boolean}
    for name, compared in kinds.items():
        match list(compared - {Kind.ANY}):
            case [kind] if kind in readers:
                yield name, readers[kind]


def _time(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def _number(text: str) -> int | float | None:
    text = text.strip()
    if "_" in text:  # Python's own way of writing numbers
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())


def _sorted(batches: list[Rows | pa.RecordBatch], order: str) -> Iterator[Rows | pa.RecordBatch]:
    """All events, sorted by a column; equal ones keep their order, and NULL comes first."""
    tables = [batch for batch in batches if isinstance(batch, pa.RecordBatch)]
    if len(tables) == len(batches):
        table = joined([pa.table(batch) for batch in tables])
        if tables and order not in table.column_names:
            raise OptionError(f"the events have no column {order!r}", f"They have {', '.join(table.column_names)}")
        if tables:
            # Arrow puts NULL last.
            by_order = np.roll(np.asarray(pc.sort_indices(table[order])), table[order].null_count)
            yield from table.take(by_order).to_batches(AT_ONCE)
        return
    rows = [row for batch in batches for row in (batch.to_pylist() if isinstance(batch, pa.RecordBatch) else batch)]
    if not any(order in row for row in rows):
        raise OptionError(f"the events have no column {order!r}", f"They have {', '.join(sorted(set().union(*rows)))}")
    there = [row for row in rows if row.get(order) is not None]
    try:
        there.sort(key=lambda row: row[order])
    except TypeError as error:
        raise EventError(f"the values of {order!r} have no order: {error}", "Let all be of one type") from error
    rows = [row for row in rows if row.get(order) is None] + there
    yield from (rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE))


def batch_table(batch: Rows | pa.RecordBatch) -> pa.Table:
    """A batch as a table; a column with values of several types becomes text."""
    if isinstance(batch, pa.RecordBatch):
        return pa.table(batch)
    names = dict.fromkeys(name for row in batch for name in row)
    return pa.table({name: column([row.get(name) for row in batch]) for name in names})


def column(values: list[Any]) -> pa.Array:
    """The values as a column; text if they are of several types."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


def joined(tables: list[pa.Table]) -> pa.Table:
    """Join tables whose columns may differ: what one lacks is NULL, and types that do not go together become text."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException:
        names = dict.fromkeys(name for table in tables for name in table.column_names)
        types = {
            name: {table.schema.field(name).type for table in tables if name in table.column_names} for name in names
        }
        mixed = {name for name, found in types.items() if len(found - {pa.null()}) > 1}
        return pa.concat_tables([_as_text(table, mixed) for table in tables], promote_options="permissive")


def _as_text(table: pa.Table, names: Set[str]) -> pa.Table:
    for place, name in enumerate(table.column_names):
        if name in names and not pa.types.is_string(table.schema.field(place).type):
            values = [None if value is None else str(value) for value in table.column(place).to_pylist()]
            table = table.set_column(place, name, pa.array(values, pa.string()))
    return table
