"""One file of named arrays: written once, mapped by any number of processes, never changed.

    bytes 0-7     the magic `TOCSIN\\0\\0`
    bytes 8-11    format version, uint32
    bytes 12-15   CRC-32 of the directory, uint32
    bytes 16-23   position of the directory, uint64
    bytes 24-31   length of the directory, uint64
    from 64       the arrays, each at a multiple of 64 bytes
    at the end    the directory: JSON {"meta": …, "arrays": {name: [dtype, shape, position, bytes, crc]}}

All numbers are little-endian. A file is written under a temporary name, synced, and renamed, so that it is there whole
or not at all.

The directory is compared with its checksum when a file is opened, and an array when it is first asked for: nobody gets
an array whose bytes are damaged. What an array must be besides, in a file made to mislead, `tocsin.invariants` asks.
"""

import json
import mmap
import os
import struct
import sys
import weakref
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tocsin.errors import StorageError
from tocsin.invariants import BrokenInvariantError
from tocsin.storage.atomic_files import write_file
from tocsin.storage.regular_files import open_regular

MAGIC = b"TOCSIN\0\0"
VERSION = 9
"""The version that is written, see docs/internals/segments.md."""
READABLE = 5
"""The oldest version that is read as it is. Older ones are upgraded."""
OLDEST = 1
"""The oldest version that `index/upgrade.py` reads: the layout of a file has never changed, only what it holds."""
_HEADER = struct.Struct("<8sIIQQ")
_ALIGNMENT = 64
_TYPES = {np.dtype(kind).str for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")}
"""The types of arrays in a file: plain numbers, never objects."""
_READ_AT_ONCE = 1 << 20
"""Bytes that are read at once for a checksum: they stay in the cache."""


@dataclass(frozen=True)
class Container:
    """Named arrays, mapped from a file or in memory, and metadata about them."""

    arrays: Mapping[str, npt.NDArray[Any]]
    meta: dict[str, Any]
    path: Path | None = None
    """The file, if they are mapped from one."""


class MappedArrays(Mapping[str, npt.NDArray[Any]]):
    """The arrays of a file, mapped. One that is asked for the first time is read and compared with its checksum."""

    def __init__(self, path: Path, file: BinaryIO, mapped: mmap.mmap, directory: Mapping[str, Any]) -> None:
        self._path = path
        self._handle = os.dup(file.fileno())
        """Open: a writer may remove the name of the file while it is still mapped."""
        weakref.finalize(self, os.close, self._handle)
        self._mapped = mapped
        self._directory = directory
        self._verified: dict[str, npt.NDArray[Any]] = {}

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        array = self._verified.get(name)
        if array is None:
            dtype, shape, start, count, crc = self._directory[name]
            try:
                is_sound = self._checksum(start, count) == crc
            except OSError as error:
                raise damaged(self._path, f"array {name!r} cannot be read: {error.strerror}") from error
            if not is_sound:
                raise damaged(self._path, f"array {name!r} does not match its checksum")
            raw = np.frombuffer(self._mapped, np.uint8, count, start) if count else np.empty(0, np.uint8)
            array = self._verified[name] = raw.view(np.dtype(dtype)).reshape(shape)
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._directory)

    def __len__(self) -> int:
        return len(self._directory)

    def give_back(self) -> None:
        """Let go of the mapped pages: who reads them again gets them from the cache of the system, or from disk."""
        self._mapped.madvise(mmap.MADV_DONTNEED)

    def _checksum(self, start: int, count: int) -> int:
        """The checksum of some bytes, which are read and not mapped: a file that was cut off ends them, no signal."""
        crc, end = 0, start + count
        while start < end and (data := os.pread(self._handle, min(end - start, _READ_AT_ONCE), start)):
            crc = zlib.crc32(data, crc)
            start += len(data)
        return crc if start == end else -1


def write(path: Path, container: Container) -> None:
    """Write a container durably. The name `path` appears only when everything is on disk."""
    write_file(path, lambda file: _write(file, container))


def _write(file: BinaryIO, container: Container) -> None:
    file.write(b"\0" * _ALIGNMENT)
    directory: dict[str, Any] = {}
    position = _ALIGNMENT
    for name, array in container.arrays.items():
        data = np.ascontiguousarray(array)
        if data.dtype.byteorder == ">" or (data.dtype.byteorder == "=" and sys.byteorder == "big"):
            data = data.astype(data.dtype.newbyteorder("<"))
        raw = data.reshape(-1).view(np.uint8).data
        directory[name] = [data.dtype.str, list(data.shape), position, len(raw), zlib.crc32(raw)]
        file.write(raw)
        padding = -len(raw) % _ALIGNMENT
        file.write(b"\0" * padding)
        position += len(raw) + padding
    text = json.dumps({"meta": container.meta, "arrays": directory}, ensure_ascii=False).encode()
    file.write(text)
    file.seek(0)
    file.write(_HEADER.pack(MAGIC, VERSION, zlib.crc32(text), position, len(text)))


def read(path: Path, oldest: int = READABLE) -> Container:
    """Map a container. Costs the directory; arrays are read when they are asked for, one copy for all processes.

    Raises FileNotFoundError if it is gone, StorageError if it is damaged, newer than `VERSION` or below `oldest`.
    """
    try:
        with open_regular(path) as file:
            return _read(path, file, oldest)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error.strerror}", "Check the path of the index") from error


def _read(path: Path, file: BinaryIO, oldest: int) -> Container:
    if os.fstat(file.fileno()).st_size < _HEADER.size:
        raise damaged(path, "it is shorter than its header")
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    magic, version, crc, position, length = _HEADER.unpack_from(mapped)
    if magic != MAGIC:
        raise StorageError(f"{path} is not a Tocsin file", "Check the path of the index")
    if not oldest <= version <= VERSION:
        raise other_version(path, "format", version, VERSION)
    text = mapped[position : position + length]
    if len(text) != length or zlib.crc32(text) != crc:
        raise damaged(path, "its directory does not match its checksum")
    with reading(path):
        directory = json.loads(text)
        arrays = {name: _checked(name, entry, position) for name, entry in directory["arrays"].items()}
        return Container(MappedArrays(path, file, mapped, arrays), dict(directory["meta"]), path)


def _checked(name: str, entry: Any, end: int) -> Any:
    """Return the entry of an array in a directory; raise unless it describes numbers before `end`."""
    dtype, shape, start, count, _ = entry
    try:
        if not all(type(number) is int and number >= 0 for number in (*shape, start, count)):
            raise ValueError("a size is not a number")
        if dtype not in _TYPES or start % _ALIGNMENT or start + count > end:
            raise ValueError("it is not in the file")
        if np.dtype(dtype).itemsize * int(np.prod(np.array(shape, object))) != count:
            raise ValueError("its shape does not fit its size")
    except (ValueError, TypeError) as error:
        raise BrokenInvariantError(name, str(error)) from error
    return entry


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say of whatever goes wrong while the content of a file is made sense of that the file is damaged."""
    try:
        yield
    except (StorageError, OSError):
        raise
    except BrokenInvariantError as error:
        raise damaged(path, str(error)) from error
    except KeyError as error:
        raise damaged(path, f"array or entry {error} is missing") from error
    except Exception as error:
        # Whatever is not as it was written is damage: the readers below are not asked to foresee all of it.
        raise damaged(path, f"{type(error).__name__}: {error}") from error


def verify(path: Path, oldest: int = READABLE) -> None:
    """Read every array of a file and compare its checksum; raise StorageError that names what is damaged."""
    arrays = read(path, oldest).arrays
    for name in arrays:
        arrays[name]


def other_version(path: Path, what: str, version: int, current: int) -> StorageError:
    """Return the error for a file of an index that is older or newer than what this Tocsin reads."""
    if version > current:
        hint = "Update Tocsin"
    else:
        hint = f"Run `tocsin index upgrade {path.parent}`, which keeps the subscriptions and their history"
    return StorageError(f"{path} has {what} version {version}, this Tocsin reads version {current}", hint)


def damaged(path: Path, why: str) -> StorageError:
    """Return the error for a file whose content is not what was written."""
    return StorageError(f"{path} is damaged: {why}", "Restore it from a copy, or build the index again")
