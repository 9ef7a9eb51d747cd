"""Where compiled kernels are kept: one folder for each module and each state of its source.

The first of these that can be written to is taken: ``$TOCSIN_CACHE_DIR``; beside the package; the cache of the user; a
temporary folder of the user. Code that lies in one of the others is used all the same, so that an image with a package
that was warmed and is mounted read-only compiles nothing. Last, a wheel may hold code for levels of processors rather
than for one processor (`make wheel`): a level that this one has is used, else it compiles.

A folder is named by a hash of its module, of the compiler's (`_numba.py`), and of all modules of the package that they
import at their top, directly or not: code never outlives a change of a NamedTuple or a constant in another file. What
a module imports for types alone, or inside a function, cannot be part of a kernel: a change of it compiles nothing. A
lock file for each kernel keeps processes from compiling the same thing at once.
"""

import fcntl
import functools
import hashlib
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger(__name__)

PACKAGE = Path(__file__).parent
SHIPPED = PACKAGE / "_shipped"
"""Code that came with the package, a folder for each level of processors."""
_IMPORT = re.compile(r"^(?:from|import)\s+(tocsin[\w.]*)(?:\s+import\s+(?:\(([^)]*)\)|([^(\n]+)))?", re.MULTILINE)
"""An import at the top of a module: the module, and the names in parentheses or without."""
_LONGEST_WAIT_S = 120
"""A process that holds a lock for longer has been stopped: others compile for themselves."""
_KEPT_S = 7 * 24 * 3600
"""Code of another state of the source is removed after a week."""


def _wanted() -> list[Path]:
    """Return where the cache may lie, the preferred place first."""
    places = [PACKAGE / "__pycache__" / "kernels"]
    # Installations do not share a folder: each removes what the other has just made.
    name = hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:12]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home):
        places.append(Path(home) / "tocsin" / name)
    if chosen := os.environ.get("TOCSIN_CACHE_DIR"):
        places.insert(0, Path(chosen))
    return places


@functools.cache
def root() -> Path:
    """Return the folder that this process writes compiled code to."""
    for place in _wanted():
        if _is_writable(place):
            return place
    place = _temporary()
    _log.warning("no place for compiled code can be written to; %s is used (set TOCSIN_CACHE_DIR to keep it)", place)
    return place


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _temporary() -> Path:
    """Return a temporary folder that the processes of this user share, and nobody else can write to."""
    shared = Path(tempfile.gettempdir()) / f"tocsin-kernels-{os.getuid()}"
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        status = shared.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return shared
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="tocsin-kernels-"))


def folder_of(module: str, source: str) -> Path:
    """Return the folder for the kernels of a module."""
    return root() / f"{module}.{_stamp(source)}"


def read_only_folders_of(module: str, source: str) -> list[Path]:
    """Return the folders of a module in places that come before ours but cannot be written to."""
    places = _wanted()
    before = places[: places.index(root())] if root() in places else places
    folders = (place / f"{module}.{_stamp(source)}" for place in before)
    return [folder for folder in folders if folder.is_dir()]


def shipped_folder_of(level: str, module: str, source: str) -> Path:
    """Return the folder of a module among what came with the package for a level of processors."""
    return SHIPPED / level / f"{module}.{_stamp(source)}"


def has_code_of(function: Callable[..., object]) -> bool:
    """Tell whether code of a kernel lies in one of the places where it may; whether it can be loaded is not known."""
    code, module = function.__code__, function.__module__
    source = code.co_filename
    folders = [folder_of(module, source), *read_only_folders_of(module, source)]
    if SHIPPED.is_dir():
        folders += [shipped_folder_of(level.name, module, source) for level in SHIPPED.iterdir()]
    # As Numba names it, for Python to call: what is there for other kernels has a further suffix.
    version = f"py{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}"
    name = f"{Path(source).stem}.{function.__qualname__}-{code.co_firstlineno}.{version}.nbi"
    return any((folder / name).exists() for folder in folders)


@functools.cache
def _stamp(source: str) -> str:
    """Hash a file, that of the compiler, and all files of the package that they import, directly or not."""
    digest = hashlib.sha256()
    pending = [source, str(PACKAGE / "_numba.py")]
    seen = set(pending)
    while pending:
        text, imported = _read(pending.pop())
        digest.update(text)
        pending.extend(sorted(imported - seen))
        seen |= imported
    return digest.hexdigest()[:16]


@functools.cache
def _read(source: str) -> tuple[bytes, frozenset[str]]:
    """Return the hash of a file, and the files of the package that it imports at its top."""
    try:
        text = Path(source).read_text(encoding="utf-8")
    except OSError:
        return source.encode(), frozenset()
    files: set[Path] = set()
    for module, in_parentheses, without in _IMPORT.findall(text):
        place = PACKAGE.joinpath(*module.split(".")[1:])
        files.update(place / f"{name}.py" for name in re.findall(r"\w+", in_parentheses or without))
        # The package itself names everything, for types, and defines nothing.
        if place != PACKAGE:
            files.update((place.with_suffix(".py"), place / "__init__.py"))
    return hashlib.sha256(text.encode()).digest(), frozenset(str(file) for file in files if file.is_file())


@functools.cache
def prepare(folder: Path) -> None:
    """Make a folder of compiled code; remove those of older states of its module."""
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.parent.glob(f"{folder.stem}.*"):
        if other != folder and other.stat().st_mtime < time.time() - _KEPT_S:
            shutil.rmtree(other, ignore_errors=True)


class CompileLock:
    """The right to compile a kernel, among the processes that share a cache. Taken when it is made."""

    def __init__(self, folder: Path, name: str) -> None:
        self.waited = False
        self._file: int | None = None
        try:
            prepare(folder)
            self._file = os.open(folder / f"{name}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except OSError:
            return
        end = time.monotonic() + _LONGEST_WAIT_S
        while time.monotonic() < end:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                self.waited = True
                time.sleep(0.01)
            except OSError:  # a file system without locks
                return

    def release(self) -> None:
        """Let another process compile."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


@functools.cache
def _tell_once() -> None:
    _log.info("compiling kernels at their first use, into %s; `tocsin warm` does so ahead of time", root())


def tell(module: str, name: str, seconds: float) -> None:
    """Say on the log that a kernel was compiled; the first time, that kernels are compiled at all."""
    _tell_once()
    _log.debug("compiled %s.%s in %.2f s", module, name, seconds)
