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
"""

import json
import mmap
import os
import struct
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tocsin.errors import StorageError
from tocsin.storage.atomic_files import write_file
from tocsin.storage.regular_files import open_regular, read_regular

MAGIC = b"TOCSIN\0\0"
VERSION = 5
"""The version that is written. Older ones are upgraded, see docs/internals/segments.md."""
OLDEST = 1
"""The oldest version that `index/upgrade.py` reads: the layout of a file has never changed, only what it holds."""
_HEADER = struct.Struct("<8sIIQQ")
_ALIGNMENT = 64


@dataclass(frozen=True)
class Container:
    """Named arrays, mapped from a file or in memory, and metadata about them."""

    arrays: dict[str, npt.NDArray[Any]]
    meta: dict[str, Any]


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


def read(path: Path, oldest: int = VERSION) -> Container:
    """Map a container. Costs the directory only; pages come in when they are touched, one copy for all processes.

    Raises FileNotFoundError if it is gone, StorageError if it is damaged, newer than `VERSION` or below `oldest`.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < _HEADER.size:
                raise _damaged(path, "it is shorter than its header")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error.strerror}", "Check the path of the index") from error
    magic, version, crc, position, length = _HEADER.unpack_from(mapped)
    if magic != MAGIC:
        raise StorageError(f"{path} is not a Tocsin file", "Check the path of the index")
    if not oldest <= version <= VERSION:
        raise other_version(path, "format", version, VERSION)
    text = mapped[position : position + length]
    if len(text) != length or zlib.crc32(text) != crc:
        raise _damaged(path, "its directory does not match its checksum")
    directory = json.loads(text)
    arrays = {}
    for name, (dtype, shape, start, count, _) in directory["arrays"].items():
        raw = np.frombuffer(mapped, np.uint8, count, start) if count else np.empty(0, np.uint8)
        arrays[name] = raw.view(np.dtype(dtype)).reshape(shape)
    return Container(arrays, directory["meta"])


def verify(path: Path, oldest: int = VERSION) -> None:
    """Read every array of a file and compare its checksum; raise StorageError that names what is damaged."""
    read(path, oldest)
    raw = read_regular(path)
    _, _, _, position, length = _HEADER.unpack_from(raw)
    for name, (_, _, start, count, crc) in json.loads(raw[position : position + length])["arrays"].items():
        if zlib.crc32(raw[start : start + count]) != crc:
            raise _damaged(path, f"array {name!r} does not match its checksum")


def other_version(path: Path, what: str, version: int, current: int) -> StorageError:
    """Return the error for a file of an index that is older or newer than what this Tocsin reads."""
    if version > current:
        hint = "Update Tocsin"
    else:
        hint = f"Run `tocsin index upgrade {path.parent}`, which keeps the subscriptions and their history"
    return StorageError(f"{path} has {what} version {version}, this Tocsin reads version {current}", hint)


def _damaged(path: Path, why: str) -> StorageError:
    return StorageError(f"{path} is damaged: {why}", "Restore it from a copy, or build the index again")
