"""The one way to write a file or a folder: under a temporary name, then renamed; files are synced to disk."""

import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import BinaryIO

from tocsin.errors import OptionError, StorageError

_OF_OUTPUT = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.ENAMETOOLONG,
}
"""Errors of the system that are of the place where a file is written, and not of one that is read meanwhile."""


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
        raise _cannot_write(path, error) from error
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


@contextlib.contextmanager
def whole_file(output: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """Yield a new file, which becomes `output` at the end; after an error or Ctrl-C nothing has changed."""
    _check_output(output, overwrite)
    temporary = output.with_name(f".{output.name}.{secrets.token_hex(8)}")
    with _named(output):
        file = temporary.open("xb")
    try:
        with _named(output, _OF_OUTPUT), file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(output)
        sync_folder(output.absolute().parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _named(output: Path, only: Container[int | None] | None = None) -> Iterator[None]:
    """Name the output in an error of the system, such as that of a full disk, instead of a temporary name."""
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        raise _cannot_write(output, error) from error


def _cannot_write(path: Path, error: OSError) -> StorageError:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    way_out = "Free some space on the disk, or choose another folder" if is_full else "Choose another folder"
    return StorageError(f"cannot write {path}: {error.strerror}", way_out)


def check_place(output: Path) -> None:
    """Raise OptionError or StorageError if a file or folder cannot be made. What is made to find out is removed."""
    above = next(folder for folder in output.absolute().parents if folder.exists())
    if not above.is_dir():
        raise OptionError(f"cannot write {output}: {above} is not a folder", "Choose another name")
    if not os.access(above, os.W_OK):
        raise OptionError(f"cannot write {output}: {above} is read-only", "Choose another folder")
    # The rights of a user do not tell all: a system for processes, a quota, a share that refuses root.
    with _named(output), tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=above):
        pass


def _check_output(output: Path, overwrite: bool) -> None:
    if output.exists() and not overwrite:
        raise OptionError(f"{output} exists", "Choose another name, or replace it with --overwrite")
    check_place(output)
    with _named(output):
        output.parent.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def whole_folder(output: Path, overwrite: bool) -> Iterator[Path]:
    """Yield a new path to write to, which becomes `output` at the end; after an error or Ctrl-C nothing has changed."""
    output = output.absolute()
    _check_output(output, overwrite)
    with contextlib.ExitStack() as stack:
        with _named(output):
            work = stack.enter_context(
                tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent, ignore_cleanup_errors=True)
            )
        new, old = Path(work) / "new", Path(work) / "old"
        with _named(output, _OF_OUTPUT):
            yield new
        if output.exists():
            output.rename(old)
        try:
            new.rename(output)
        except OSError:
            if old.exists():
                old.rename(output)
            raise
