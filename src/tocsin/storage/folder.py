"""The folder of an index: segment files, files of changes, and numbered snapshots that list them.

    snapshot-000012.json     what is committed: the names of the files below, and the newest subscriptions, if they are
                             few; the highest number counts
    segment-….tocsin         a segment, never changed
    changes-….tocsin         the subscriptions dropped from a segment and the scores changed, up to one snapshot
    write.lock               held by the one process that may commit
    history/                 the events that were published, see predicates/history
    .history-000012/         the history of a matcher that was saved here as snapshot 12, until it takes its place

A commit writes new files, then the snapshot that names them, each under a temporary name until its bytes are on disk.
Whatever moment a process dies in, the last snapshot is whole. No snapshot ever replaces another: if two processes write
at once, because somebody removed the lock, one of them fails, and the index stays whole.

The writer removes files that its newest snapshot does not name, but only those that it wrote itself or found when it
took the lock. A reader that has removed files mapped can read them until it unmaps them.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import weakref
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin.errors import StorageError
from tocsin.forks import tell_children
from tocsin.storage.atomic_files import write_file
from tocsin.storage.container import READABLE, VERSION, other_version, reading
from tocsin.storage.regular_files import read_regular

_SNAPSHOT = re.compile(r"snapshot-(\d{6,})\.json")
_NAMED = {kind: re.compile(rf"{kind}-[0-9a-f]+\.tocsin") for kind in ("segment", "changes")}
_OURS = re.compile(r"(\.?(segment|changes|snapshot)-[0-9a-f]+\.(tocsin|json).*)")
_LOCK = "write.lock"


@dataclass(frozen=True)
class _Lock:
    """A lock that was taken: by which process, on which file."""

    process: int
    identity: tuple[int, int]
    close: "weakref.finalize[[int], Folder]"
    """Closes the file; called at the latest when the Folder is garbage-collected."""


class Folder:
    """Snapshots and files of one index, for a reader or for the one writer."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        """Absolute, so that a change of the working directory does not matter."""
        self._lock: _Lock | None = None
        self._ours: set[str] = set()
        """The files that the writer may remove."""
        self._named: set[str] = set()
        """The files that its last commit names."""
        tell_children(self)

    def newest(self) -> int | None:
        """Return the number of the newest snapshot; None if there is no index."""
        numbers = [int(found[1]) for name in _names(self.path) if (found := _SNAPSHOT.fullmatch(name))]
        return max(numbers, default=None)

    def committed(self) -> int:
        """Return the number of the newest snapshot; raise StorageError if there is no index."""
        if (number := self.newest()) is None:
            raise StorageError(
                f"there is no index in {self.path}", "Make one with Matcher.save or `tocsin index build`"
            )
        return number

    def read(self, number: int, oldest: int = READABLE) -> dict[str, Any]:
        """Return the content of a snapshot; raise StorageError if its version is newer than ours or below `oldest`."""
        path = self.snapshot(number)
        try:
            document = json.loads(read_regular(path))
            content, crc = document["content"], document["crc"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StorageError(f"{path} is damaged: it is not a snapshot", "Restore it from a copy") from error
        if zlib.crc32(_canonical(content)) != crc:
            raise StorageError(f"{path} is damaged: it does not match its checksum", "Restore it from a copy")
        with reading(path):
            if not oldest <= content["version"] <= VERSION:
                raise other_version(path, "format", content["version"], VERSION)
            for part in content["parts"]:
                for kind, pattern in _NAMED.items():
                    name = part[kind]
                    # A name with a folder in it would lead out of the index.
                    if not pattern.fullmatch(str(name)) and (name is not None or kind == "segment"):
                        raise StorageError(
                            f"{path} names {name!r}, which is not a file of an index", "Restore it from a copy"
                        )
        return dict(content)

    def new_name(self, kind: str) -> str:
        """Return a new name for a file of kind `segment` or `changes` that the writer is about to write."""
        name = f"{kind}-{secrets.token_hex(8)}.tocsin"
        self._ours.add(name)
        return name

    def write(self, number: int, content: dict[str, Any]) -> None:
        """Write a snapshot; raises StorageError if there is one of this number."""
        write_file(self.snapshot(number), lambda file: file.write(_document(content)), replace=False)

    def commit(self, number: int, content: dict[str, Any], files: Iterable[str]) -> None:
        """Make `content`, which names `files`, the newest snapshot.

        Raises StorageError if another process has taken the lock or has committed. A commit that raises any error
        leaves no snapshot.
        """
        self._require_lock()
        if (newest := self.newest()) is not None and newest >= number:
            raise self._foreign(newest)
        try:
            self.write(number, content)
            if (newest := self.newest()) != number:
                # The other process had committed this number as well, and removed it since.
                raise self._foreign(newest)
        except BaseException:
            self._withdraw(number, content)
            raise
        self._named = {*files, self.snapshot(number).name}
        self._ours |= self._named

    def _withdraw(self, number: int, content: dict[str, Any]) -> None:
        path = self.snapshot(number)
        with contextlib.suppress(OSError, StorageError):
            if read_regular(path) == _document(content):
                path.unlink()

    def clean(self) -> None:
        """Remove the files of this writer that its last commit does not name."""
        if self._named:
            self._remove(self._ours - self._named)

    def remove_new(self, names: Iterable[str]) -> None:
        """Remove files of a commit that failed."""
        self._remove({*names})

    def _remove(self, names: set[str]) -> None:
        for name in names:
            # What cannot be removed now is tried again with the next commit.
            with contextlib.suppress(OSError):
                (self.path / name).unlink(missing_ok=True)
                self._ours.discard(name)

    def lock(self) -> bool:
        """Become the writer; return False if we were it already. The lock ends with the process, however it ends.

        Raises StorageError if another process is the writer, or may be: the file of our lock was removed or replaced.
        """
        if self.is_locked:
            self._require_lock()
            return False
        self.unlock()
        while self._lock is None:
            self._lock = self._take_lock()
        # Our first commit may remove what earlier writers left behind.
        self._named = set()
        self._ours = {name for name in _names(self.path) if _OURS.fullmatch(name)}
        return True

    def _take_lock(self) -> _Lock | None:
        """Take the lock; return None if its file was removed meanwhile."""
        path = self.path / _LOCK
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            handle = os.open(path, flags, 0o644)
        except OSError as error:
            if path.is_symlink():
                raise StorageError(f"{path} is a symbolic link", "Remove it") from error
            raise StorageError(f"cannot write to {self.path}: {error.strerror}", "Choose another folder") from error
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"{path} is not a regular file", "Remove it")
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                owner = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
                raise StorageError(
                    f"{self.path} is being written by process {owner}", "Wait until it has closed the index, or stop it"
                ) from error
            if _identity(path) != (status.st_dev, status.st_ino):
                os.close(handle)
                return None
            # For the message above; a full disk may prevent it, which does no harm.
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
        except StorageError:
            os.close(handle)
            raise
        return _Lock(os.getpid(), (status.st_dev, status.st_ino), weakref.finalize(self, os.close, handle))

    @property
    def is_locked(self) -> bool:
        """Whether this process is the writer."""
        return self._lock is not None and self._lock.process == os.getpid()

    def _require_lock(self) -> None:
        """Check that we are still the writer: this process took the lock, and the locked file is still there."""
        if self._lock is None or self._lock.process != os.getpid():
            raise StorageError(f"{self.path} is not locked by this process", "Lock it before a commit")
        if _identity(self.path / _LOCK) != self._lock.identity:
            raise StorageError(
                f"{self.path / _LOCK} was removed or replaced: another process may be writing",
                "Open the index again, or save to another folder",
            )

    def unlock(self) -> None:
        """Let another process write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def become_child(self) -> None:
        """Release our copy of the lock after a fork; the parent has the same file open and keeps its lock."""
        self.unlock()

    def history(self, number: int) -> Path:
        """Return the folder of the history that belongs to a snapshot."""
        saved = self.new_history(number)
        return saved if saved.is_dir() else self.path / "history"

    def new_history(self, number: int) -> Path:
        """Return the folder for a history that comes with a new snapshot and will replace the present one."""
        return self.path / f".history-{number:06}"

    def settle_history(self, number: int) -> Path:
        """Put the history of the newest snapshot in its place, and remove what belongs to none; return the place."""
        place, saved = self.path / "history", self.new_history(number)
        if saved.is_dir():
            try:
                if place.exists():
                    shutil.rmtree(place)
                saved.rename(place)
            except OSError as error:
                raise StorageError(f"cannot replace {place}: {error.strerror}", "Make it writable") from error
        for name in _names(self.path):
            if re.fullmatch(r"\.history-\d{6,}", name):
                shutil.rmtree(self.path / name, ignore_errors=True)
        return place

    def snapshot(self, number: int) -> Path:
        """Return the file of a snapshot."""
        return self.path / f"snapshot-{number:06}.json"

    def _foreign(self, newest: int | None) -> StorageError:
        return StorageError(
            f"{self.path} was committed by another process, as snapshot {newest}",
            "Open the index again, or save to another folder",
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode, which tell a file from another one of the same name; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _names(path: Path) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def _document(content: dict[str, Any]) -> bytes:
    content = {**content, "version": VERSION}
    return json.dumps({"content": content, "crc": zlib.crc32(_canonical(content))}).encode()


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()
