"""Keep a history on disk: its commit record, and the logs of its dictionaries.

A history is a folder. Columns and logs only grow; `commit.json` says how much of each file is committed, with its
checksum, and is replaced in one step. What lies beyond is an append that was cut off, and is dropped. The record names
the segments of the event log, too (see `event_log`). Version 1 had no log, only columns: they become its first events.
Version 2 had no checksums of segments.
"""

import json
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path

from tocsin.errors import StorageError
from tocsin.invariants import check_within
from tocsin.predicates.history.column import OldColumn, writing
from tocsin.predicates.history.encode import Encoder, Lane
from tocsin.predicates.history.event_log import LogEntry
from tocsin.storage.atomic_files import write_file
from tocsin.storage.container import reading
from tocsin.storage.regular_files import open_regular, read_regular

VERSION = 3
COMMIT = "commit.json"
_COLUMN = re.compile(r"column-\d+")
_EVENTS = re.compile(r"events-\d+\.parquet")
_TEMPORARY = re.compile(r"\.(commit\.json|events-\d+\.parquet)\.[0-9a-f]+|commit\.json\.new")
"""A record or a segment whose writer died before it was complete."""
_OURS = re.compile(
    rf"{_TEMPORARY.pattern}|commit\.json|column-\d+\.(payloads|lanes)|(strings|exacts)-\d+\.log|{_EVENTS.pattern}"
)
_HINT = "Restore it from a copy, or start a new history"


@dataclass
class Commit:
    """What is committed. `columns` maps an attribute to its file and the checksums of payloads and lanes."""

    generation: int = 0
    base: int = 0
    first: int = 0
    next: int = 0
    latest_time: int | None = None
    passed_time: int | None = None
    columns: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    strings: tuple[int, int] = (0, 0)
    exacts: tuple[int, int] = (0, 0)
    """Committed bytes and checksum of each dictionary."""
    events: list[LogEntry] = field(default_factory=list)
    """The segments of the event log."""
    partial: tuple[int, list[str]] | None = None
    """Of the events before this number only these attributes are known: version 1 kept no others."""

    def body(self) -> str:
        """Return what a record says."""
        return json.dumps(asdict(self), sort_keys=True)

    def write(self, folder: Path) -> None:
        """Replace the commit record of `folder`, durably and in one step."""
        body = self.body()
        record = {"version": VERSION, "checksum": zlib.crc32(body.encode()), "body": body}
        write_file(folder / COMMIT, lambda file: file.write(json.dumps(record).encode()))

    @staticmethod
    def read(folder: Path) -> "Commit":
        """Read the commit record of `folder`."""
        path = folder / COMMIT
        expect_size(path, 0)
        try:
            record = json.loads(read_regular(path))
            version, checksum, body = record["version"], record["checksum"], record["body"]
            sound = zlib.crc32(body.encode()) == checksum
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StorageError(f"history file {path} is damaged", _HINT) from None
        if version not in (1, 2, VERSION):
            raise StorageError(
                f"history file {path} has version {version}, not {VERSION}", "Open it with the Tocsin that wrote it"
            )
        try:
            state = Commit(**json.loads(body))
            state.columns = {name: (str(stem), int(p), int(q)) for name, (stem, p, q) in state.columns.items()}
            state.strings, state.exacts = ((int(size), int(crc)) for size, crc in (state.strings, state.exacts))
            state.events = [
                LogEntry(str(file), int(f), int(n), int(s), *(int(crc) for crc in checksum if crc is not None))
                for file, f, n, s, *checksum in state.events
            ]
            if version == 1:
                state.partial = state.next, sorted(state.columns)
            elif state.partial is not None:
                state.partial = int(state.partial[0]), [str(name) for name in state.partial[1]]
            numbers = (state.generation, state.base, state.first, state.next)
            sound = sound and all(isinstance(one, int) for one in numbers) and state.base <= state.first <= state.next
        except (ValueError, TypeError, AttributeError):
            sound = False
        if not sound:
            raise StorageError(f"history file {path} is damaged", _HINT)
        for name, (stem, _, _) in state.columns.items():
            # A name with a folder in it would lead out of the history.
            if not _COLUMN.fullmatch(stem):
                raise StorageError(f"history file {path} names {stem!r} for {name!r}, which is not a column", _HINT)
        for entry in state.events:
            if not _EVENTS.fullmatch(entry.file):
                raise StorageError(f"history file {path} names {entry.file!r}, which is not a segment", _HINT)
        return state


class HistoryFolder:
    """The folder of one history."""

    def __init__(self, path: Path, is_reader: bool = False) -> None:
        self.path = path.absolute()
        self._is_reader = is_reader
        self._generation = 0
        self._last_file = 0
        self._logs: tuple[DictionaryLog, DictionaryLog]
        self._written = ""
        """What the commit record says that was written last."""

    def open(self, encoder: Encoder) -> tuple[Commit, dict[str, OldColumn]]:
        """Read what is committed: dictionaries into `encoder`, and columns; nothing if the folder is new.

        A reader does not change the folder. If a writer changes it meanwhile, a file is missing or seems damaged.
        """
        try:
            if not self._is_reader:
                self.path.mkdir(parents=True, exist_ok=True)
            with reading(self.path / COMMIT):
                return self._open(encoder)
        except OSError as error:
            raise StorageError(
                f"cannot open the history in {self.path}: {error.strerror}", "Check that it exists and can be read"
            ) from error

    def _open(self, encoder: Encoder) -> tuple[Commit, dict[str, OldColumn]]:
        if all(_TEMPORARY.fullmatch(name) for name in self._files()):
            if self._is_reader:
                return Commit(), {}
            Commit().write(self.path)
        state = Commit.read(self.path)
        self._generation = state.generation
        for (name, _, _), (size, _) in zip(_LOGS, (state.strings, state.exacts), strict=True):
            if size:
                expect_size(self.path / f"{name}-{state.generation}.log", size)
        self._open_logs()
        encoder.strings.intern_all(self._logs[0].read(*state.strings))
        encoder.exacts.intern_all(self._logs[1].read(*state.exacts))
        used = state.next - state.base
        columns = {}
        for name, (stem, *checksums) in state.columns.items():
            for file, width in ((f"{stem}.payloads", 8), (f"{stem}.lanes", 1)):
                expect_size(self.path / file, used * width)
            column = OldColumn.of_reader if self._is_reader else OldColumn
            columns[name] = column(self.path / stem, used)
            columns[name].verify(used, (checksums[0], checksums[1]))
            _check_column(columns[name], used, encoder)
            self._last_file = max(self._last_file, int(stem.rsplit("-")[-1]))
        if not self._is_reader:
            self._delete_strays(state)
        return state, columns

    def moved_to(self, path: Path) -> None:
        """Follow the folder to another name."""
        self.path = path
        for log in self._logs:
            log.path = path / log.path.name

    def new_column(self, used: int) -> OldColumn:
        """Return a column of NULLs in files of its own."""
        self._last_file += 1
        return OldColumn(self.path / f"column-{self._last_file}", used)

    def begin_generation(self) -> None:
        """Start new logs, for dictionaries that were compacted."""
        self._generation += 1
        self._open_logs()

    def commit(self, state: Commit, columns: Mapping[str, OldColumn], encoder: Encoder) -> None:
        """Write everything to the disk, then the commit record; then delete the files that it no longer names."""
        for log, dictionary in zip(self._logs, (encoder.strings, encoder.exacts), strict=True):
            log.append(dictionary.values[log.count :])
        state.generation = self._generation
        state.strings, state.exacts = self._logs[0].state, self._logs[1].state
        used = state.next - state.base
        state.columns = {name: (column.stem, *column.sync(used)) for name, column in columns.items()}
        if (body := state.body()) == self._written:
            # Subscriptions alone were changed: the record costs two syncs.
            return
        self._written = ""
        state.write(self.path)
        self._delete_strays(state)
        self._written = body

    def _open_logs(self) -> None:
        strings, exacts = (
            DictionaryLog(self.path / f"{name}-{self._generation}.log", to_text, from_text)
            for name, to_text, from_text in _LOGS
        )
        self._logs = strings, exacts

    def _delete_strays(self, state: Commit) -> None:
        named = {COMMIT, *(f"{name}-{state.generation}.log" for name, _, _ in _LOGS)}
        for stem, _, _ in state.columns.values():
            named |= {f"{stem}.payloads", f"{stem}.lanes"}
        named |= {entry.file for entry in state.events}
        for stray in self._files() - named:
            (self.path / stray).unlink(missing_ok=True)

    def _files(self) -> set[str]:
        return {file.name for file in self.path.iterdir() if _OURS.fullmatch(file.name)}


class DictionaryLog:
    """The values of a dictionary in order of their codes: a length of 4 bytes and the text, one after the other."""

    def __init__(self, path: Path, to_text: Callable[[object], str], from_text: Callable[[str], object]) -> None:
        self.path = path
        self._to_text = to_text
        self._from_text = from_text
        self._size = 0
        self._checksum = 0
        self.count = 0
        """Values written."""

    def append(self, values: Sequence[object]) -> None:
        """Append values and write them to the disk."""
        if not values:
            return
        texts = (self._to_text(value).encode("utf-8", "surrogatepass") for value in values)
        data = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        with writing(self.path), open_regular(self.path, os.O_RDWR | os.O_CREAT) as file:
            file.truncate(self._size)
            file.seek(self._size)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # Only now: values whose writing failed are written by the next commit.
        self.count += len(values)
        self._size += len(data)
        self._checksum = zlib.crc32(data, self._checksum)

    @property
    def state(self) -> tuple[int, int]:
        """The bytes written and their checksum."""
        return self._size, self._checksum

    def read(self, size: int, checksum: int) -> list[object]:
        """Return the values in the first `size` bytes."""
        data = read_regular(self.path)[:size] if size else b""
        if zlib.crc32(data) != checksum:
            raise StorageError(f"history file {self.path} is damaged", _HINT)
        self._size, self._checksum = size, checksum
        values, at = [], 0
        while at < size:
            length = int.from_bytes(data[at : at + 4], "little")
            values.append(self._from_text(data[at + 4 : at + 4 + length].decode("utf-8", "surrogatepass")))
            at += 4 + length
        self.count = len(values)
        return values


def _check_column(column: OldColumn, used: int, encoder: Encoder) -> None:
    """Demand lanes that there are, and codes that their dictionary has: kernels look their labels up."""
    lanes, payloads = column.lanes[:used], column.payloads[:used]
    check_within(f"{column.lane_file.source}", lanes, 0, len(Lane))
    for lane, dictionary in ((Lane.STRING, encoder.strings), (Lane.EXACT, encoder.exacts)):
        check_within(f"{column.payload_file.source}", payloads[lanes == lane], 0, len(dictionary))


def exact_text(value: object) -> str:
    """Return a decimal or integer as text that keeps its type."""
    return f"integer {value:x}" if isinstance(value, int) else f"decimal {value}"


def exact_value(text: str) -> int | Decimal:
    """Return the inverse of `exact_text`."""
    kind, digits = text.split(" ")
    return int(digits, 16) if kind == "integer" else Decimal(digits)


_LOGS: tuple[tuple[str, Callable[[object], str], Callable[[str], object]], ...] = (
    ("strings", str, str),
    ("exacts", exact_text, exact_value),
)


def expect_size(path: Path, size: int) -> None:
    """Refuse a file that is missing or shorter than what is committed."""
    if not path.exists():
        raise StorageError(f"history file {path} is missing", _HINT)
    if path.stat().st_size < size:
        raise StorageError(f"history file {path} is damaged: it is shorter than what was committed", _HINT)
