"""Keep columns of old values in arrays that grow at the end, in memory or mapped from a file."""

import errno
import mmap
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int64s, UInt8s
from tocsin.errors import StorageError
from tocsin.storage.regular_files import open_regular

_HEADROOM = 10  # a full array grows by a tenth, so that at most 10% of a column is empty
_ZEROS = bytes(1 << 20)


class GrowingArray:
    """An array with room to grow. Its user knows how much of it is in use."""

    def __init__(self, dtype: npt.DTypeLike, path: Path | None = None, used: int = 0) -> None:
        self.path = path
        self.source = path
        """The file that it was read from; that of a reader is not written."""
        self.dtype = np.dtype(dtype)
        self.checksum = 0
        self._checked = 0
        self._mapped: mmap.mmap | None = None
        self.array: npt.NDArray[Any] = np.zeros(0, dtype=self.dtype)
        if path is not None:
            with writing(path):
                open_regular(path, os.O_RDWR | os.O_CREAT).close()
        self.reserve(max(used, 1))

    @classmethod
    def of_reader(cls, dtype: npt.DTypeLike, path: Path, used: int) -> "GrowingArray":
        """Map the first `used` values of a file that is never written: changes and growth stay in memory."""
        result = cls(dtype)
        result.source = path
        with open_regular(path) as file:
            if used:
                mapped = mmap.mmap(file.fileno(), used * result.dtype.itemsize, access=mmap.ACCESS_COPY)
                result.array = np.frombuffer(mapped, dtype=result.dtype)
        return result

    def reserve(self, size: int) -> None:
        """Make room for `size` values; new ones are 0. Views that were taken before keep their old values.

        Raises StorageError if the disk is full.
        """
        if size <= self.array.size:
            return
        capacity = size + size // _HEADROOM + 64
        if self.path is None:
            grown = np.zeros(capacity, dtype=self.dtype)
            grown[: self.array.size] = self.array
            self.array = grown
        else:
            with writing(self.path), open_regular(self.path, os.O_RDWR) as file:
                _allocate(file.fileno(), capacity * self.dtype.itemsize)
                self._mapped = mmap.mmap(file.fileno(), capacity * self.dtype.itemsize)
            self.array = np.frombuffer(self._mapped, dtype=self.dtype)

    def sync(self, used: int) -> int:
        """Write the first `used` values to the disk and return their checksum. Cost: the values since the last call."""
        new = self.array[self._checked : used]
        self.checksum = zlib.crc32(new.tobytes(), self.checksum)
        self._checked = used
        if self._mapped is not None and self.path is not None:
            with writing(self.path), open_regular(self.path, os.O_RDWR) as file:
                self._mapped.flush()
                os.fsync(file.fileno())  # the length of the file, too
        return self.checksum

    def verify(self, used: int, checksum: int) -> None:
        """Refuse the file unless its first `used` values have this checksum; clear what follows them."""
        if zlib.crc32(self.array[:used].tobytes()) != checksum:
            raise StorageError(
                f"history file {self.source} is damaged", "Restore it from a copy, or start a new history"
            )
        self.array[used:] = 0
        self.checksum, self._checked = checksum, used


class OldColumn:
    """The old values of one attribute: 9 bytes each (a lane and a payload)."""

    def __init__(self, path: Path | None = None, used: int = 0) -> None:
        self.stem = "" if path is None else path.name
        self.payload_file = GrowingArray(np.int64, path and path.with_suffix(".payloads"), used)
        self.lane_file = GrowingArray(np.uint8, path and path.with_suffix(".lanes"), used)

    @classmethod
    def of_reader(cls, path: Path, used: int) -> "OldColumn":
        """Map the committed values of a column for a reader, which does not write them."""
        result = cls()
        result.payload_file = GrowingArray.of_reader(np.int64, path.with_suffix(".payloads"), used)
        result.lane_file = GrowingArray.of_reader(np.uint8, path.with_suffix(".lanes"), used)
        return result

    def moved_to(self, folder: Path) -> None:
        """Follow the files to a folder that was renamed."""
        for file in (self.payload_file, self.lane_file):
            file.path = file.path and folder / file.path.name

    @property
    def payloads(self) -> Int64s:
        """The payload of each position, with room at the end."""
        return self.payload_file.array

    @property
    def lanes(self) -> UInt8s:
        """The lane of each position, with room at the end."""
        return self.lane_file.array

    @property
    def nbytes(self) -> int:
        """The memory held, the room at the end included."""
        return int(self.payloads.nbytes + self.lanes.nbytes)

    def write(self, position: int, lane: int, payload: int) -> None:
        """Set the value at a position that is reserved."""
        self.payloads[position] = payload
        self.lanes[position] = lane

    def reserve(self, size: int) -> None:
        """Make room for `size` values; new ones are NULL."""
        self.payload_file.reserve(size)
        self.lane_file.reserve(size)

    def sync(self, used: int) -> tuple[int, int]:
        """Write the values to the disk and return the two checksums."""
        return self.payload_file.sync(used), self.lane_file.sync(used)

    def verify(self, used: int, checksums: tuple[int, int]) -> None:
        """Refuse either file if it is damaged."""
        self.payload_file.verify(used, checksums[0])
        self.lane_file.verify(used, checksums[1])


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the operating system into one that says which file could not be written."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}", "Free some space on the disk, then try again"
        ) from error


def _allocate(handle: int, size: int) -> None:
    """Make a file `size` bytes long, with no holes: writing to a mapped hole on a full disk kills the process."""
    before = os.fstat(handle).st_size
    try:
        try:
            os.posix_fallocate(handle, 0, size)
        except (AttributeError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            # This system, or this file system, cannot reserve space.
            for start in range(before, size, len(_ZEROS)):
                piece = _ZEROS[: size - start]
                if os.pwrite(handle, piece, start) < len(piece):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
    except OSError:
        os.ftruncate(handle, before)
        raise
