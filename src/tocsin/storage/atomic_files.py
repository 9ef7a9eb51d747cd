"""The one way to write a file: under a temporary name, synced to disk, then renamed, and its folder synced."""

import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from tocsin.errors import StorageError


def write_file(path: Path, fill: Callable[[BinaryIO], object], *, replace: bool = True) -> None:
    """Write a file that is there whole and durable, or not at all: `fill` writes it under a temporary name.

    Raises StorageError if it cannot be written, for example because the disk is full. It also raises if the file exists
    and `replace` is False: then one of two processes that write the same file fails.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            temporary.replace(path)
            sync_folder(path.parent)
        else:
            _rename_to_new(temporary, path)
            try:
                sync_folder(path.parent)
            except OSError:
                path.unlink()
                raise
    except FileExistsError as error:
        raise StorageError(
            f"{path} exists already: another process writes here", "Open the index again, or save to another folder"
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}", "Free some space on the disk, or choose another folder"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _rename_to_new(temporary: Path, path: Path) -> None:
    """Rename a file to a free name. A link fails if the name is taken, where a rename would replace that file."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # This file system has no hard links; the lock of the writer is the only protection.
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "file exists", str(path)) from None
        temporary.rename(path)


def sync_folder(folder: Path) -> None:
    """Make names that were created or renamed in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
