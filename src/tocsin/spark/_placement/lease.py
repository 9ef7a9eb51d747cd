"""Lease pinned snapshots to a process: they are kept while it lives and removed after it, however it ends.

A process holds a locked file in every folder of pinned snapshots that it uses:

    views/3f9c….lock            locked by the process; contains its host and its process id
    views/3f9c…-….              its pinned snapshots

The lock ends with the process. The next process of the same host that uses the folder can take the lock, and removes
what it guarded. Not every file system shares locks between hosts. So a process also touches its locks every
`HEARTBEAT_SECONDS`, and a lease of another host that was not touched for `EXPIRY_SECONDS` has expired: by the clock of
the file system, which all hosts share.
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
import tempfile
import threading
import time
from pathlib import Path

from tocsin.errors import StorageError
from tocsin.storage.regular_files import open_regular

HEARTBEAT_SECONDS = 300.0
EXPIRY_SECONDS = 3600.0
"""Much more than a heartbeat: a process that was stopped for as long finds its pinned snapshots gone."""

_log = logging.getLogger(__name__)
_beating: list[tuple[Path, int]] = []
"""The locks that a thread touches, and the process that it runs in."""
_locks: list[int] = []
"""The file descriptors of the locks that this process holds."""


def owner_in(views: Path) -> str:
    """Return the name of the lease of this process in an existing folder; the first call removes expired leases."""
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
    # Not closed before the process ends, since that unlocks it. It is renamed once locked: an unlocked one is swept.
    handle = os.open(building, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    _locks.append(handle)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, f"{socket.gethostname()} {process}\n".encode())
    building.rename(_lock_file(views, owner))
    _beat(_lock_file(views, owner), process)
    atexit.register(_remove, views, owner, process)
    return owner


def _beat(lock: Path, process: int) -> None:
    """Touch a lock from now on, by the one thread of this process."""
    is_running = any(owner == process for _, owner in _beating)
    _beating.append((lock, process))
    if not is_running:
        threading.Thread(target=_touch_locks, args=(process,), name="tocsin-leases", daemon=True).start()


def _touch_locks(process: int) -> None:
    while True:
        time.sleep(HEARTBEAT_SECONDS)
        for lock, owner in _beating:
            if owner == process:
                with contextlib.suppress(OSError):  # the folder may be gone
                    os.utime(lock)


def _sweep(views: Path) -> None:
    """Remove the leases of processes of this host that have ended, and those of other hosts that have expired."""
    with tempfile.TemporaryFile(dir=views) as now:
        expired = os.fstat(now.fileno()).st_mtime - EXPIRY_SECONDS
    for lock in views.glob("*.lock"):
        with contextlib.suppress(FileNotFoundError, StorageError), open_regular(lock) as file:
            if file.read().split()[:1] != [socket.gethostname().encode()]:
                if os.fstat(file.fileno()).st_mtime < expired:
                    _log.info("removing the pinned snapshots in %s of another host, which has not renewed them", views)
                    _remove(views, lock.stem, os.getpid())
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _log.info("removing the pinned snapshots in %s of a process that has ended", views)
            _remove(views, lock.stem, os.getpid())


def _remove(views: Path, owner: str, process: int) -> None:
    """Remove the pinned snapshots of an owner, then its lock; does nothing in a fork of that process."""
    if process != os.getpid():
        return
    for path in [*views.glob(f"{owner}-*"), *views.glob(f".{owner}-*")]:
        shutil.rmtree(path, ignore_errors=True)
    _lock_file(views, owner).unlink(missing_ok=True)


def _lock_file(views: Path, owner: str) -> Path:
    return views / f"{owner}.lock"


def _leave_to_the_parent() -> None:
    """Close the locks of the parent in a forked child: otherwise they would outlive the parent."""
    while _locks:
        os.close(_locks.pop())


os.register_at_fork(after_in_child=_leave_to_the_parent)
