"""The folder of an index: segment files, files of changes, and numbered snapshots that list them.

    snapshot-000012.json     what is committed: the names of the files below; the highest number counts
    segment-….tocsin         a segment, never changed
    changes-….tocsin         the subscriptions dropped from a segment and the scores changed, up to one snapshot
    write.lock               held by the one process that may commit

A commit writes new files, then the snapshot that names them, each under a temporary name that is renamed when its bytes
are on disk. Whatever moment a process dies in, the last snapshot is whole. Files that the newest snapshot does not name
are removed by the writer; a reader that has them mapped keeps them until it lets go.
"""

import fcntl
import json
import os
import re
import weakref
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tocsin.errors import StorageError
from tocsin.storage.container import VERSION, write_file

_SNAPSHOT = re.compile(r"snapshot-(\d{6,})\.json")
_OURS = re.compile(r"(\.?(segment|changes|snapshot)-[0-9a-f]+\.(tocsin|json).*)")


class Folder:
    """Snapshots and files of one index, for a reader or for the one writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: weakref.finalize[[int], Folder] | None = None
        """Closes the lock's file, at the latest when this object is collected."""

    def newest(self) -> int | None:
        """The number of the newest snapshot, None if there is no index."""
        numbers = [int(found[1]) for name in _names(self.path) if (found := _SNAPSHOT.fullmatch(name))]
        return max(numbers, default=None)

    def read(self, number: int) -> dict[str, Any]:
        """The content of a snapshot."""
        path = self._snapshot(number)
        try:
            document = json.loads(path.read_text())
            content, crc = document["content"], document["crc"]
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{path} is damaged: it is no snapshot", "Restore it from a copy") from error
        if zlib.crc32(_canonical(content)) != crc:
            raise StorageError(f"{path} is damaged: it does not match its checksum", "Restore it from a copy")
        if content["version"] != VERSION:
            raise StorageError(
                f"{path} has format version {content['version']}, this Tocsin reads version {VERSION}",
                "Build the index again from its subscriptions, or use the Tocsin that wrote it",
            )
        return dict(content)

    def commit(self, number: int, content: dict[str, Any], files: Iterable[str]) -> None:
        """Make `content` the newest snapshot, and remove all files but those it names."""
        content = {**content, "version": VERSION}
        document = json.dumps({"content": content, "crc": zlib.crc32(_canonical(content))})
        write_file(self._snapshot(number), lambda file: file.write(document.encode()))
        self.remove_all_but({*files, self._snapshot(number).name})

    def remove_all_but(self, names: set[str]) -> None:
        """Remove files of this index that are not named; other files stay."""
        for name in _names(self.path):
            if name not in names and _OURS.fullmatch(name):
                (self.path / name).unlink(missing_ok=True)

    def lock(self) -> bool:
        """Become the writer; return whether this was news. The lock goes with the process, however it ends."""
        if self._lock is not None:
            return False
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / "write.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(f"cannot write to {self.path}: {error.strerror}", "Choose another folder") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise StorageError(
                f"{self.path} is being written by process {owner}", "Wait until it has closed the index, or stop it"
            ) from error
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        self._lock = weakref.finalize(self, os.close, handle)
        return True

    @property
    def is_locked(self) -> bool:
        """Whether this process is the writer."""
        return self._lock is not None

    def unlock(self) -> None:
        """Let another process write."""
        if self._lock is not None:
            self._lock()
            self._lock = None

    def _snapshot(self, number: int) -> Path:
        return self.path / f"snapshot-{number:06}.json"


def _names(path: Path) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()
