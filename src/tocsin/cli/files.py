"""The files that the commands read and write on this machine: subscriptions in, output folders out."""

import contextlib
import csv
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyarrow.compute import CastOptions

from tocsin.errors import OptionError, SubscriptionError

TYPES = {
    "id": pa.string(),
    "where": pa.string(),
    "score": pa.float64(),
    "weights": pa.map_(pa.string(), pa.float64()),
    "tags": pa.map_(pa.string(), pa.string()),
}
"""The columns of a file of subscriptions. `id` and `where` must be there. In CSV, weights and tags are JSON."""

NO_TEXT = "no well-formed text: it has half a surrogate pair, or bytes that are not UTF-8"
WRITE_TEXT = "Write the file as UTF-8"

Row = dict[str, object]
Place = str


def read_subscriptions(path: Path) -> tuple[pa.Table, list[SubscriptionError]]:
    """Read subscriptions from JSON Lines, CSV or Parquet; return them, and an error for each line that is none."""
    if not path.is_file():
        raise OptionError(f"there is no file {path}", "Give the subscriptions as JSON Lines, CSV or Parquet")
    readers = {".jsonl": _json_lines, ".ndjson": _json_lines, ".csv": _csv_rows, ".parquet": None}
    if path.suffix not in readers:
        raise OptionError(f"the format of {path} cannot be told", f"Name it with one of {', '.join(readers)}")
    reader = readers[path.suffix]
    if reader is None:
        return _conform(parquet.read_table(path), path), []
    rows: list[Row] = []
    rejected: list[SubscriptionError] = []
    for place, row in reader(path):
        try:
            rows.append(_checked(row, place))
        except SubscriptionError as error:
            rejected.append(error)
    used = [name for name in TYPES if name in ("id", "where") or any(name in row for row in rows)]
    columns = {name: pa.array([row.get(name) for row in rows], TYPES[name]) for name in used}
    return pa.table(columns), rejected


def is_text(text: str) -> bool:
    """Whether a text is well-formed: no half of a surrogate pair, as JSON may have, and no byte that is not UTF-8.

    A file that is opened with ``errors="surrogateescape"`` has the latter as the former.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_lines(path: Path) -> Iterator[tuple[Place, object]]:
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                yield f"line {number}", SubscriptionError(f"not JSON: {error}", 'Write {"id": "…", "where": "…"}')


def _csv_rows(path: Path) -> Iterator[tuple[Place, object]]:
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        reader = csv.DictReader(file)
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
        found = "missing" if where is None else f"no text but {json.dumps(where)[:40]}"
        raise SubscriptionError(f"its condition is {found}", "Write a SQL condition in where", subscription=name)
    if not is_text(where):
        raise SubscriptionError(f"its condition is {NO_TEXT}", WRITE_TEXT, subscription=name)
    checked: Row = {"id": name, "where": where}
    for column in ("score", "weights", "tags"):
        if row.get(column) is not None:
            checked[column] = _converted(column, row[column], name)
    return checked


def _converted(column: str, value: object, name: str) -> object:
    try:
        if column == "score":
            return float(value)  # type: ignore[arg-type]  # what is no number raises
        given: Any = json.loads(value) if isinstance(value, str) else value
        # A map of Arrow is a list of pairs.
        return pa.scalar(list(given.items()), TYPES[column]).as_py()
    except (TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        form = {"score": "a number", "weights": "an object of numbers", "tags": "an object of texts"}[column]
        raise SubscriptionError(
            f"its {column} is {json.dumps(value)[:40]}", f"Write {form}, or leave it out", subscription=name
        ) from error


def _conform(table: pa.Table, path: Path) -> pa.Table:
    missing = [name for name in ("id", "where") if name not in table.column_names]
    if missing:
        raise OptionError(f"{path} has no column {missing[0]!r}", f"It has {', '.join(table.column_names)}")
    # What is not UTF-8 stays: it is one row that is rejected then, not the file.
    options = {name: CastOptions(TYPES[name], allow_invalid_utf8=True) for name in TYPES if name in table.column_names}
    return pa.table({name: table.column(name).cast(options=option) for name, option in options.items()})


@contextlib.contextmanager
def whole_folder(output: Path, overwrite: bool) -> Iterator[Path]:
    """Yield a new path to write to, which becomes `output` at the end; after an error or Ctrl-C nothing has changed."""
    output = output.absolute()
    if output.exists() and not overwrite:
        raise OptionError(f"{output} exists", "Choose another folder, or replace it with --overwrite")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent, ignore_cleanup_errors=True) as work:
        new, old = Path(work) / "new", Path(work) / "old"
        yield new
        if output.exists():
            output.rename(old)
        try:
            new.rename(output)
        except OSError:
            if old.exists():
                old.rename(output)
            raise
