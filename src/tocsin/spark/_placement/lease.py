"""Who needs a view: a process, for as long as it lives, however it ends.

A process holds a locked file in every folder of views that it uses:

    views/3f9c….lock            locked by the process; names its host and its number
    views/3f9c…-….              its views

The lock goes with the process. So the next process that comes to the folder can tell what nobody needs any more, and
removes it. Locks need not reach over hosts: what a process of another host has left stays until one of that host comes.
"""

import atexit
import contextlib
import fcntl
import functools
import logging
import os
import secrets
import shutil
import socket
from pathlib import Path

from tocsin.errors import StorageError
from tocsin.storage.regular_files import open_regular

_log = logging.getLogger(__name__)
_locks: list[int] = []
"""The files that this process has locked."""


def owner_in(views: Path) -> str:
    """The name under which this process owns views in the folder, which exists; what dead processes left there goes."""
    owner = _owner(views, os.getpid())
    if not _lock_file(views, owner).exists():  # the folder was removed and made anew
        _owner.cache_clear()
        owner = _owner(views, os.getpid())
    return owner


@functools.cache
def _owner(views: Path, process: int) -> str:
    _sweep(views)
    owner = secrets.token_hex(8)
    building = views / f".{owner}"
    # Never closed by hand: closing is what unlocks it. It has its name only when it is locked, or it might be swept.
    handle = os.open(building, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    _locks.append(handle)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, f"{socket.gethostname()} {process}\n".encode())
    building.rename(_lock_file(views, owner))
    atexit.register(_remove, views, owner, process)
    return owner


def _sweep(views: Path) -> None:
    """Remove what processes of this host that have ended own."""
    for lock in views.glob("*.lock"):
        with contextlib.suppress(FileNotFoundError, StorageError), open_regular(lock) as file:
            if file.read().split()[:1] != [socket.gethostname().encode()]:
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _log.info("removing the views in %s of a process that has ended", views)
            _remove(views, lock.stem, os.getpid())


def _remove(views: Path, owner: str, process: int) -> None:
    """Remove the views of an owner, then its lock; a fork of the process that registered this removes nothing."""
    if process != os.getpid():
        return
    for path in [*views.glob(f"{owner}-*"), *views.glob(f".{owner}-*")]:
        shutil.rmtree(path, ignore_errors=True)
    _lock_file(views, owner).unlink(missing_ok=True)


def _lock_file(views: Path, owner: str) -> Path:
    return views / f"{owner}.lock"


def _leave_to_the_parent() -> None:
    """In a child after a fork: close what the parent has locked, or it would stay locked when the parent has ended."""
    while _locks:
        os.close(_locks.pop())


os.register_at_fork(after_in_child=_leave_to_the_parent)
