"""Write matches to a file or to standard output: JSON Lines and CSV as they come, Parquet and Arrow at the end."""

import csv
import datetime as dt
import io
import json
from collections.abc import Callable
from typing import Any, BinaryIO, Literal

import pyarrow as pa
from pyarrow import parquet

from tocsin.files.event_files import joined

OutputFormat = Literal["table", "jsonl", "csv", "parquet", "arrow"]

Show = Callable[[pa.Table], None]
"""Shows matches on the terminal."""


class MatchWriter:
    """Matches, written batch by batch; `close` writes what waits for the last batch."""

    def __init__(self, file: BinaryIO, format: OutputFormat, columns: list[str], show: Show) -> None:
        self.rows = 0
        self._file = file
        self._format = format
        self._show = show
        self._waiting: list[pa.Table] = []
        self._empty = pa.table({name: pa.array([], pa.string()) for name in columns})
        if format == "csv":
            self._write_csv([columns])

    def write(self, matches: pa.Table) -> None:
        """Write the matches of a batch."""
        self.rows += len(matches)
        if self._format == "jsonl":
            for row in matches.to_pylist():
                self._file.write(f"{json.dumps(row, ensure_ascii=False, default=_as_json)}\n".encode())
            self._file.flush()
        elif self._format == "csv":
            self._write_csv(zip(*(column.to_pylist() for column in matches.columns), strict=True))
            self._file.flush()
        elif len(matches):
            self._waiting.append(matches)

    def close(self) -> None:
        """Write what waits: the formats whose types are known at the end only."""
        if self._format in ("jsonl", "csv"):
            return
        table = joined(self._waiting) if self._waiting else self._empty
        if self._format == "parquet":
            parquet.write_table(table, self._file)
        elif self._format == "arrow":
            with pa.ipc.new_file(pa.PythonFile(self._file, "w"), table.schema) as writer:
                writer.write_table(table)
        else:
            self._show(table)

    def _write_csv(self, rows: Any) -> None:
        text = io.TextIOWrapper(self._file, encoding="utf-8", newline="")
        csv.writer(text).writerows(rows)
        text.detach()


def _as_json(value: object) -> object:
    """A value that JSON has no form for."""
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
