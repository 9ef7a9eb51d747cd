"""Arrays that grow at the end, in memory or mapped from a file; a column is two of them."""

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.errors import StorageError

_HEADROOM = 10  # an array that is full grows by a tenth: at most 10% of a column is empty


class GrowingArray:
    """An array with room to grow. The owner knows how much of it is in use."""

    def __init__(self, dtype: npt.DTypeLike, path: Path | None = None, used: int = 0) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self.checksum = 0
        self._checked = 0
        self._mapped: np.memmap[Any, np.dtype[Any]] | None = None
        if path is not None:
            path.touch()
        self.array: npt.NDArray[Any] = np.zeros(0, dtype=self.dtype)
        self.reserve(max(used, 1))

    def reserve(self, size: int) -> None:
        """Make room for `size` values; new ones are 0. Views that were taken before keep their old values."""
        if size <= self.array.size:
            return
        capacity = size + size // _HEADROOM + 64
        if self.path is None:
            grown = np.zeros(capacity, dtype=self.dtype)
            grown[: self.array.size] = self.array
            self.array = grown
        else:
            with self.path.open("r+b") as file:
                file.truncate(max(capacity * self.dtype.itemsize, self.path.stat().st_size))
            self._mapped = np.memmap(self.path, dtype=self.dtype, mode="r+", shape=(capacity,))
            self.array = self._mapped.view(np.ndarray)

    def sync(self, used: int) -> int:
        """Write the first `used` values through to the disk; return their checksum. Cost: what is new."""
        new = self.array[self._checked : used]
        self.checksum = zlib.crc32(new.tobytes(), self.checksum)
        self._checked = used
        if self._mapped is not None and self.path is not None:
            self._mapped.flush()
            with self.path.open("r+b") as file:
                os.fsync(file.fileno())  # the length of the file, too
        return self.checksum

    def verify(self, used: int, checksum: int) -> None:
        """Refuse the file unless its first `used` values have this checksum; forget what follows them."""
        if zlib.crc32(self.array[:used].tobytes()) != checksum:
            raise StorageError(f"history file {self.path} is damaged", "Restore it from a copy, or start a new history")
        self.array[used:] = 0
        self.checksum, self._checked = checksum, used


class Column:
    """The old values of one attribute: 9 bytes each (a lane and a payload)."""

    def __init__(self, path: Path | None = None, used: int = 0) -> None:
        self.stem = "" if path is None else path.name
        self.payload_file = GrowingArray(np.int64, path and path.with_suffix(".payloads"), used)
        self.lane_file = GrowingArray(np.uint8, path and path.with_suffix(".lanes"), used)

    @property
    def payloads(self) -> npt.NDArray[np.int64]:
        """The payload of each position, with room at the end."""
        return self.payload_file.array

    @property
    def lanes(self) -> npt.NDArray[np.uint8]:
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
        """Write the values through to the disk; return the two checksums."""
        return self.payload_file.sync(used), self.lane_file.sync(used)

    def verify(self, used: int, checksums: tuple[int, int]) -> None:
        """Refuse either file if it is damaged."""
        self.payload_file.verify(used, checksums[0])
        self.lane_file.verify(used, checksums[1])
