"""The write-ahead log: page images appended until a commit, then made durable by one fsync.

The log is a header and frames of one size. A frame is (salt of this log, its sequence, page number, whether it ends a
commit, checksum) and the page. Frames behind the last commit are pages that the cache had no room for; recovery ignores
them. Frames never refer to each other, so a damaged frame *before* a valid commit is told from a torn end, and refused.
"""

import os
import struct
import zlib
from pathlib import Path

from tocsin.errors import StorageError
from tocsin.predicates.pbtree.pages import seal, verify

MAGIC = b"TOCSLOG1"
_HEADER = struct.Struct("<8sQQII")  # magic, identity of the file it belongs to, salt, page size, checksum
_FRAME = struct.Struct("<QIIII")  # salt, sequence, page, ends a commit, checksum


def write_all(handle: int, data: bytes, offset: int) -> None:
    """Write `data` at `offset`, however many calls the system needs for it."""
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written


class Log:
    """The log file of one tree."""

    def __init__(self, path: Path, identity: int, page_size: int) -> None:
        self.path = path
        self._identity = identity
        self._page_size = page_size
        self._frame_size = _FRAME.size + page_size
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._salt = 0
        self._frames = 0  # appended, committed or not
        self._committed = 0
        self._index: dict[int, int] = {}  # page -> its last committed frame
        self._pending: dict[int, int] = {}  # page -> its last frame after the last commit

    @staticmethod
    def described(path: Path) -> tuple[int, int] | None:
        """Identity and page size that a log was written for; None if there is no log with a whole header."""
        if not path.exists():
            return None
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
        if len(head) < _HEADER.size or _HEADER.unpack(head)[4] != zlib.crc32(head[:-4]):
            return None
        _, identity, _, page_size, _ = _HEADER.unpack(head)
        return identity, page_size

    @property
    def length(self) -> int:
        return self._offset(self._frames) if self._frames else 0

    def _offset(self, frame: int) -> int:
        return _HEADER.size + frame * self._frame_size

    def append(self, number: int, page: bytes, *, ends_commit: bool = False) -> None:
        """Add one page image. With `ends_commit`, everything appended so far is durable when this returns."""
        if self._frames == 0:
            self._salt = int.from_bytes(os.urandom(8), "little")
            head = _HEADER.pack(MAGIC, self._identity, self._salt, self._page_size, 0)[:-4]
            write_all(self._handle, head + zlib.crc32(head).to_bytes(4, "little"), 0)
        sealed = seal(page)
        head = _FRAME.pack(self._salt, self._frames, number, ends_commit, 0)[:-4]
        checksum = zlib.crc32(sealed, zlib.crc32(head))
        write_all(self._handle, head + checksum.to_bytes(4, "little") + sealed, self._offset(self._frames))
        if ends_commit:
            os.fsync(self._handle)
        self._pending[number] = self._frames
        self._frames += 1
        if ends_commit:
            self._settle()

    def _settle(self) -> None:
        """Count what is pending as committed."""
        self._committed = self._frames
        self._index.update(self._pending)
        self._pending.clear()

    def read(self, number: int) -> bytes | None:
        """The latest image of a page, or None if the log has none."""
        frame = self._pending.get(number, self._index.get(number))
        return None if frame is None else self._page(frame, number)

    def _page(self, frame: int, number: int) -> bytes:
        page = os.pread(self._handle, self._page_size, self._offset(frame) + _FRAME.size)
        verify(page, number, str(self.path))
        return page

    @property
    def has_uncommitted(self) -> bool:
        """Whether pages were appended after the last commit."""
        return bool(self._pending)

    def rollback(self) -> None:
        """Forget what was appended after the last commit."""
        self._frames = self._committed
        self._pending.clear()
        os.ftruncate(self._handle, self._offset(self._frames) if self._frames else 0)

    def committed_pages(self) -> list[int]:
        """The pages that a checkpoint has to copy, ascending."""
        return sorted(self._index)

    def committed(self, number: int) -> bytes:
        """The last committed image of a page of this log."""
        return self._page(self._index[number], number)

    def clear(self) -> None:
        """Empty the log, after a checkpoint."""
        if not os.fstat(self._handle).st_size:
            return
        os.ftruncate(self._handle, 0)
        os.fsync(self._handle)
        self._frames = self._committed = 0
        self._index.clear()
        self._pending.clear()

    def recover(self) -> None:
        """Find the commits that a process left behind when it ended; forget what follows the last of them."""
        size = os.fstat(self._handle).st_size
        head = os.pread(self._handle, _HEADER.size, 0)
        if len(head) < _HEADER.size or _HEADER.unpack(head)[4] != zlib.crc32(head[:-4]):
            if size > self._offset(1):
                raise StorageError(f"the header of {self.path} is damaged", "Restore the log from a copy")
            os.ftruncate(self._handle, 0)
            return
        magic, identity, self._salt, _, _ = _HEADER.unpack(head)
        if magic != MAGIC or identity != self._identity:
            raise StorageError(f"{self.path} is not the log of this tree", "Put the log that belongs to the file there")
        bad: int | None = None
        for frame in range((size - _HEADER.size) // self._frame_size):
            found = self._frame(frame)
            if found is None:
                bad = frame if bad is None else bad
            elif bad is None:
                number, ends_commit = found
                self._pending[number] = frame
                self._frames = frame + 1
                if ends_commit:
                    self._settle()
            elif found[1]:
                raise StorageError(
                    f"frame {bad} of {self.path} is damaged, and frame {frame} commits it",
                    "Restore the log from a copy",
                )
        self.rollback()

    def _frame(self, frame: int) -> tuple[int, bool] | None:
        """Page number and commit mark of a frame, or None if it is not a whole frame of this log."""
        data = os.pread(self._handle, self._frame_size, self._offset(frame))
        salt, sequence, number, ends_commit, checksum = _FRAME.unpack_from(data)
        head = data[: _FRAME.size - 4]
        whole = checksum == zlib.crc32(memoryview(data)[_FRAME.size :], zlib.crc32(head))
        return (number, bool(ends_commit)) if whole and (salt, sequence) == (self._salt, frame) else None

    def close(self, *, remove: bool = False) -> None:
        os.close(self._handle)
        if remove:
            self.path.unlink(missing_ok=True)
