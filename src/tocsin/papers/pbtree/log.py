"""The write-ahead log: page images appended until a commit, then made durable by one fsync.

The log is a header and frames of one size. A frame is (salt of this log, its sequence, the number of its commit, page
number, whether it ends its commit, checksum) and the page. Frames behind the last commit are pages that the cache had
no room for; recovery ignores them. When the power fails, the frames of the last commit may be lost in any order, so a
bad frame there only means that this commit did not happen. But a commit is begun after the one before it is durable: a
bad frame that belongs to an earlier commit than some valid frame is damage, and refused.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from tocsin.errors import StorageError
from tocsin.papers.pbtree.pages import seal, verify

MAGIC = b"TOCSLOG1"
_HEADER = struct.Struct("<8sQQII")  # magic, identity of the file it belongs to, salt, page size, checksum
_FRAME = struct.Struct("<QIIIII")  # salt, sequence, number of its commit, page, ends its commit, checksum


def write_all(handle: int, data: bytes, offset: int) -> None:
    """Write `data` at `offset`, however many calls the system needs for it."""
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written


class _Frame(NamedTuple):
    """What stands before the page in a frame."""

    salt: int
    sequence: int
    commit: int
    page: int
    ends_commit: int


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
        self._commits = 0
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
        head = _FRAME.pack(self._salt, self._frames, self._commits, number, ends_commit, 0)[:-4]
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
        self._commits += 1
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
        length = self._offset(self._frames) if self._frames else 0
        if os.fstat(self._handle).st_size > length:
            # Synced, so that no forgotten frame returns in the place of a new one that a power failure loses.
            os.ftruncate(self._handle, length)
            os.fsync(self._handle)

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
        self._frames = self._committed = self._commits = 0
        self._index.clear()
        self._pending.clear()

    def recover(self) -> None:
        """Find the commits that a process left behind when it ended; forget what follows the last of them."""
        head = os.pread(self._handle, _HEADER.size, 0)
        frames = [self._frame(i) for i in range((os.fstat(self._handle).st_size - _HEADER.size) // self._frame_size)]
        if len(head) < _HEADER.size or _HEADER.unpack(head)[4] != zlib.crc32(head[:-4]):
            self._refuse_if_committed(frames, 0, "the header")
            os.ftruncate(self._handle, 0)
            return
        magic, identity, self._salt, _, _ = _HEADER.unpack(head)
        if magic != MAGIC or identity != self._identity:
            raise StorageError(f"{self.path} is not the log of this tree", "Put the log that belongs to the file there")
        for i, frame in enumerate(frames):
            if frame is None or (frame.salt, frame.sequence, frame.commit) != (self._salt, i, self._commits):
                self._refuse_if_committed(frames[i:], self._commits, f"frame {i}")
                break
            self._pending[frame.page] = i
            self._frames = i + 1
            if frame.ends_commit:
                self._settle()
        self.rollback()

    def _refuse_if_committed(self, frames: list["_Frame | None"], commit: int, what: str) -> None:
        """Refuse the log if a part that is bad belongs to `commit` and one of the frames after it to a later one."""
        if any(frame is not None and frame.commit > commit for frame in frames):
            raise StorageError(f"{what} of {self.path} is damaged, and commits follow", "Restore the log from a copy")

    def _frame(self, i: int) -> "_Frame | None":
        """The description of frame `i`, or None if it is not whole."""
        data = os.pread(self._handle, self._frame_size, self._offset(i))
        *described, checksum = _FRAME.unpack_from(data)
        body, head = memoryview(data)[_FRAME.size :], data[: _FRAME.size - 4]
        return _Frame(*described) if checksum == zlib.crc32(body, zlib.crc32(head)) else None

    def close(self, *, remove: bool = False) -> None:
        os.close(self._handle)
        if remove:
            self.path.unlink(missing_ok=True)
