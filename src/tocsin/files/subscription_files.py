"""Read subscriptions from files, with an error for each line that is not one, and write them to files."""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet
from pyarrow.compute import CastOptions

from tocsin.errors import OptionError, SubscriptionError
from tocsin.files.formats import NO_TEXT, DataFile, Format, compressed, data_files, format_of, is_text
from tocsin.model.subscription import Subscription

TYPES = {
    "id": pa.string(),
    "where": pa.string(),
    "score": pa.float64(),
    "weights": pa.map_(pa.string(), pa.float64()),
    "tags": pa.map_(pa.string(), pa.string()),
    "params": pa.string(),
}
"""The columns of a file of subscriptions. `id` and `where` must be there. In CSV, weights and tags are JSON.

`params` are JSON everywhere, since their values are of several types.
"""

WRITE_TEXT = "Write the file as UTF-8"

Row = dict[str, object]
Place = str


@dataclass(frozen=True)
class SubscriptionFile:
    """The subscriptions of a file as a table, and what a person should know about the file."""

    table: pa.Table
    rejected: list[SubscriptionError] = field(default_factory=list)
    """An error for each line that is not a subscription; conditions are read later, by the matcher."""
    unknown: list[str] = field(default_factory=list)
    """The columns that no subscription has, sorted."""

    @property
    def duplicates(self) -> list[str]:
        """The ids that several rows have, sorted; the last of them counts."""
        return sorted(id for id, count in Counter(self.table["id"].to_pylist()).items() if count > 1)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Let `Matcher.from_table` and everything else that reads Arrow take this as a table."""
        return self.table.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class RowsOfFiles:
    """The subscriptions of a file before they are one table, for which Arrow loads pandas if it is installed."""

    tables: list[pa.Table] = field(default_factory=list)
    """Those of files of Parquet and Arrow."""
    rows: list[Row] = field(default_factory=list)
    """Those of all other files."""
    rejected: list[SubscriptionError] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)

    @property
    def ids(self) -> list[str]:
        """The ids of the subscriptions, in the order of the table."""
        return [id for table in self.tables for id in table["id"].to_pylist()] + [str(row["id"]) for row in self.rows]

    def as_table(self) -> SubscriptionFile:
        """Return them as a table."""
        used = [name for name in TYPES if name in ("id", "where") or any(name in row for row in self.rows)]
        columns = {name: pa.array([row.get(name) for row in self.rows], TYPES[name]) for name in used}
        tables = [*self.tables, pa.table(columns)] if self.rows or not self.tables else self.tables
        table = pa.concat_tables(tables, promote_options="default")
        return SubscriptionFile(table, self.rejected, sorted(self.unknown))


def read_subscriptions(path: str | Path, *, progress: Callable[[int], object] = lambda _: None) -> SubscriptionFile:
    """Read subscriptions from JSON Lines, CSV, Parquet or Arrow: a file, compressed or not, a folder, or `-`.

    The columns are `id` and `where`, and may be `score`, `weights`, `tags` and `params`; `Matcher.from_table` takes it.
    `progress` is called with the number of rows so far.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "subscriptions.csv"
    >>> _ = file.write_text("id,where,colour\\ncheap,price < 10,red\\n,price > 90,\\n")
    >>> found = read_subscriptions(file)
    >>> found.table["where"].to_pylist(), found.unknown, [error.message for error in found.rejected]
    (['price < 10'], ['colour'], ['no id'])
    """
    return read_rows(path, progress).as_table()


def read_rows(path: str | Path, progress: Callable[[int], object]) -> RowsOfFiles:
    """Read the rows of files of subscriptions, as `read_subscriptions` does."""
    found = RowsOfFiles()
    for file in data_files(Path(path), "subscriptions"):
        if file.format in ("parquet", "arrow"):
            table = _whole_table(file)
            found.unknown.update(set(table.column_names) - set(TYPES))
            found.tables.append(_conform(table, file))
            continue
        for place, row in (_json_lines if file.format == "jsonl" else _csv_rows)(file):
            try:
                found.rows.append(_checked(row, place))
            except SubscriptionError as error:
                found.rejected.append(error)
            if isinstance(row, dict):
                found.unknown.update(set(row) - set(TYPES))
            progress(len(found.rows))
    return found


def _whole_table(file: DataFile) -> pa.Table:
    try:
        if file.format == "parquet":
            return parquet.read_table(file.whole())
        return read_arrow(file).read_all()
    except pa.ArrowException as error:
        raise OptionError(f"{file.path} is not a file of {file.format.title()}: {error}", "Check the file") from error


def read_arrow(file: DataFile) -> pa.RecordBatchReader:
    """Open a file of Arrow's, written as a file or as a stream."""
    try:
        opened = pa.ipc.open_file(file.whole())
        batches = (opened.get_batch(number) for number in range(opened.num_record_batches))
        return pa.RecordBatchReader.from_batches(opened.schema, batches)
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(file.whole())


def _json_lines(file: DataFile) -> Iterator[tuple[Place, object]]:
    with file.open_text() as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                yield f"line {number}", SubscriptionError(f"not JSON: {error}", 'Write {"id": "…", "where": "…"}')


def _csv_rows(file: DataFile) -> Iterator[tuple[Place, object]]:
    with file.open_text() as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            if None in row:
                yield f"line {reader.line_num}", SubscriptionError("more fields than columns", "Quote text with commas")
            else:
                yield f"line {reader.line_num}", {name: value for name, value in row.items() if value}


def _checked(row: object, place: Place) -> Row:
    """A row with columns of the right types, or an error that names it by its id, or by its place if it has none."""
    if isinstance(row, SubscriptionError):
        raise row.of(place)
    if not isinstance(row, dict):
        raise SubscriptionError("not an object", 'Write {"id": "…", "where": "…"}', subscription=place)
    id_ = row.get("id")
    if isinstance(id_, bool) or not isinstance(id_, (str, int)):
        raise SubscriptionError("no id", 'Give it one: {"id": "…", "where": "…"}', subscription=place)
    name = str(id_)
    if not is_text(name):
        raise SubscriptionError(f"its id is {NO_TEXT}", WRITE_TEXT, subscription=place)
    where = row.get("where")
    if not isinstance(where, str):
        found = "missing" if where is None else f"not a text but {json.dumps(where)[:40]}"
        raise SubscriptionError(f"its condition is {found}", "Write a SQL condition in where", subscription=name)
    if not is_text(where):
        raise SubscriptionError(f"its condition is {NO_TEXT}", WRITE_TEXT, subscription=name)
    checked: Row = {"id": name, "where": where}
    for column in ("score", "weights", "tags", "params"):
        if row.get(column) is not None:
            checked[column] = _converted(column, row[column], name)
    return checked


def _converted(column: str, value: object, name: str) -> object:
    try:
        if column == "score":
            return float(value)  # type: ignore[arg-type]  # what is not a number raises
        given: Any = json.loads(value) if isinstance(value, str) else value
        if not is_text(json.dumps(given, ensure_ascii=False)):
            raise ValueError(NO_TEXT)
        if column == "params":
            return json.dumps(dict(given))
        # A map of Arrow is a list of pairs. Arrow itself would load pandas to check it.
        if column == "weights":
            return [(key, None if held is None else float(_demand(held, (int, float)))) for key, held in given.items()]
        return [(key, None if held is None else _demand(held, str)) for key, held in given.items()]
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        forms = {"score": "a number", "weights": "an object of numbers", "tags": "an object of texts"}
        form = forms.get(column, "an object of constants")
        raise SubscriptionError(
            f"its {column} is {json.dumps(value)[:40]}", f"Write {form}, or leave it out", subscription=name
        ) from error


def _demand(value: Any, types: type | tuple[type, ...]) -> Any:
    if not isinstance(value, types):
        raise TypeError(f"{value!r} is of another type")
    return value


def _conform(table: pa.Table, file: DataFile) -> pa.Table:
    missing = [name for name in ("id", "where") if name not in table.column_names]
    if missing:
        raise OptionError(f"{file.path} has no column {missing[0]!r}", f"It has {', '.join(table.column_names)}")
    # What is not UTF-8 stays: it is one row that is rejected then, not the file.
    options = {name: CastOptions(TYPES[name], allow_invalid_utf8=True) for name in TYPES if name in table.column_names}
    return pa.table({name: table.column(name).cast(options=option) for name, option in options.items()})


def _write_json_lines(subscriptions: Sequence[Subscription], file: BinaryIO) -> None:
    for one in subscriptions:
        row = {"id": one.id, "where": one.where, "score": one.score, "weights": one.weights, "tags": one.tags}
        kept = {name: value for name, value in row.items() if value != {}}
        file.write(f"{json.dumps(kept, ensure_ascii=False)}\n".encode())


def _write_csv(subscriptions: Sequence[Subscription], file: BinaryIO) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(["id", "where", "score", "weights", "tags"])
    for one in subscriptions:
        extras = [json.dumps(extra, ensure_ascii=False) if extra else "" for extra in (one.weights, one.tags)]
        writer.writerow([one.id, one.where, one.score, *extras])
    text.detach()


def _table_of(subscriptions: Sequence[Subscription]) -> pa.Table:
    columns = {
        "id": [one.id for one in subscriptions],
        "where": [one.where for one in subscriptions],
        "score": [one.score for one in subscriptions],
        "weights": [list(one.weights.items()) for one in subscriptions],
        "tags": [list(one.tags.items()) for one in subscriptions],
    }
    return pa.table({name: pa.array(values, TYPES[name]) for name, values in columns.items()})


def _write_parquet(subscriptions: Sequence[Subscription], file: BinaryIO) -> None:
    parquet.write_table(_table_of(subscriptions), file)


def _write_arrow(subscriptions: Sequence[Subscription], file: BinaryIO) -> None:
    table = _table_of(subscriptions)
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


_WRITERS: dict[Format, Callable[[Sequence[Subscription], BinaryIO], None]] = {
    "jsonl": _write_json_lines,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}


def write_subscriptions(subscriptions: Sequence[Subscription], file: BinaryIO, path: Path) -> None:
    """Write subscriptions to an open file, in the format and compressed as the name of its path says."""
    with compressed(file, path) as written:
        _WRITERS[format_of(path)](subscriptions, written)
