"""Open regular files only: a pipe would block, and a symbolic link would lead writes out of the folder."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from tocsin.errors import StorageError


def open_regular(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """Open a regular file with the flags of `os.open`; a file that is opened for writing is not a symbolic link.

    Raises StorageError for a pipe, a device or a folder, and OSError as `os.open` does.
    """
    writes = (flags & os.O_ACCMODE) != os.O_RDONLY
    # Without O_NONBLOCK, opening a pipe that nobody writes to would block for ever.
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if writes else 0)
    handle = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StorageError(f"{path} is not a regular file", "Remove it, or restore the file from a copy")
    return os.fdopen(handle, "r+b") if writes else os.fdopen(handle, "rb")


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file; raises as `open_regular` does."""
    with open_regular(path) as file:
        return file.read()
