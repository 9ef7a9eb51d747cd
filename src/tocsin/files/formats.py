"""The formats of files, told by their names; compressed files, folders of files, and standard input."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO, cast

import pyarrow as pa

from tocsin.errors import OptionError

Format = Literal["jsonl", "csv", "parquet", "arrow"]

FORMATS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

STANDARD = "-"
"""The name of standard input and standard output."""
NO_TEXT = "no well-formed text: it has half a surrogate pair, or bytes that are not UTF-8"


@dataclass(frozen=True)
class DataFile:
    """A file to be read, or standard input."""

    path: Path
    format: Format

    @property
    def name(self) -> str:
        """The name of the file, for messages."""
        return "standard input" if str(self.path) == STANDARD else self.path.name

    def open(self) -> BinaryIO:
        """Open it, decompressed."""
        if str(self.path) == STANDARD:
            return sys.stdin.buffer
        try:
            return cast(BinaryIO, pa.input_stream(str(self.path), compression=COMPRESSIONS.get(self.path.suffix)))
        except OSError as error:
            raise OptionError(f"cannot read {self.path}: {error.strerror or error}", "Check the file") from error

    def open_text(self) -> TextIO:
        """Open it as text, without a byte order mark; what is not UTF-8 becomes lone surrogates."""
        return io.TextIOWrapper(self.open(), encoding="utf-8-sig", errors="surrogateescape", newline="")

    def whole(self) -> Any:
        """What Parquet and Arrow read it from: a mapped file, or its bytes if it is compressed or standard input."""
        if str(self.path) == STANDARD or self.path.suffix in COMPRESSIONS:
            return pa.BufferReader(self.open().read())
        return pa.memory_map(str(self.path))


def data_files(path: Path, what: str, format: Format | None = None) -> list[DataFile]:
    """List the files of a path, sorted: one file, or those of a folder; `what` they hold is for messages.

    The format is told by the name if it is not given; standard input is JSON Lines if nothing else is said. Names that
    begin with a dot or an underscore are left out of folders, as Spark does.
    """
    if str(path) == STANDARD:
        return [DataFile(path, format or "jsonl")]
    if not path.exists():
        raise OptionError(f"there is no file {path}", f"Give the {what} as JSON Lines, CSV or Parquet")
    paths = [path]
    if path.is_dir():
        files = (file for file in sorted(path.rglob("*")) if file.is_file())
        paths = [file for file in files if not any(p.startswith(("_", ".")) for p in file.relative_to(path).parts)]
    return [DataFile(file, format or format_of(file)) for file in paths]


def format_of(path: Path) -> Format:
    """The format of a file, by its name. Raises OptionError if it cannot be told.

    >>> format_of(Path("subscriptions.jsonl.gz")), format_of(Path("matches.parquet"))
    ('jsonl', 'parquet')
    """
    suffixes = [suffix for suffix in path.suffixes if suffix not in COMPRESSIONS]
    found = FORMATS.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise OptionError(f"the format of {path} cannot be told", f"Name it with one of {', '.join(FORMATS)}")
    return found


@contextlib.contextmanager
def compressed(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """What to write the content of a file to: itself, or what compresses it if the name of its path says so."""
    compression = COMPRESSIONS.get(path.suffix)
    if compression is None:
        yield file
        return
    # A stream of Arrow's closes what it writes to, and the file is still to be synced.
    with os.fdopen(os.dup(file.fileno()), "wb") as again, pa.CompressedOutputStream(again, compression) as stream:
        yield cast(BinaryIO, stream)


def is_text(text: str) -> bool:
    """Whether a text is well-formed: no half of a surrogate pair, as JSON may have, and no byte that is not UTF-8.

    A file that is opened with ``errors="surrogateescape"`` has the latter as the former.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
