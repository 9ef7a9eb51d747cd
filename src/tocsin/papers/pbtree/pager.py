"""The paged file: a bounded cache in front of the log in front of the file.

A page is immutable bytes; a change writes a new image into the cache. A commit appends the changed pages and the meta
page to the log and syncs it. A checkpoint copies committed images into the file, syncs it, and only then empties the
log, so at any moment the file and the log together hold the last commit. Changed pages that the cache has no room for
go to the log early. Pages that are new and written in one piece (`append`) go straight to the file, behind its last
committed page, where nobody looks until the meta page that counts them is committed.
"""

import fcntl
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import numpy as np

from tocsin.arrays import UInt8s
from tocsin.errors import OptionError, StorageError
from tocsin.invariants import step_done
from tocsin.papers.pbtree.log import Log, write_all
from tocsin.papers.pbtree.meta import Meta
from tocsin.papers.pbtree.pages import free_page, next_of, seal, verify

PAGE_SIZES: Final = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
MINIMUM_CACHED_PAGES = 8


@dataclass(slots=True)
class Counters:
    """Work done since the file was opened."""

    page_reads: int = 0
    page_writes: int = 0
    cache_hits: int = 0
    syncs: int = 0


class Pager:
    """Pages by number, with commit and rollback."""

    def __init__(self, path: Path, meta: Meta, handle: int, log: Log, cache_bytes: int, log_bytes: int) -> None:
        self.path = path
        self.meta = meta
        self.page_size = meta.page_size
        self.counters = Counters()
        self._handle = handle
        self._log = log
        self._log_bytes = log_bytes
        self._room = max(MINIMUM_CACHED_PAGES, cache_bytes // meta.page_size)
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._changed: set[int] = set()
        self._appended = False  # pages went to the file directly since the last commit
        self._committed_meta = meta.encode()

    @staticmethod
    def create(path: Path, meta: Meta, pages: list[bytes]) -> None:
        """Write a new file: the meta page and the pages after it. All of it appears, or nothing."""
        if meta.page_size not in PAGE_SIZES:
            raise OptionError(f"page_size {meta.page_size} is not allowed", f"Choose one of {PAGE_SIZES}")
        if path.exists() or log_path(path).exists():
            raise StorageError(f"{path} exists", "Open it, or remove it and its log first")
        draft = path.with_name(path.name + ".new")
        with storage_errors(f"{path} could not be created"):
            with draft.open("wb") as file:
                file.write(b"".join(map(seal, [meta.encode(), *pages])))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            _sync_folder(path)

    @classmethod
    def open(cls, path: Path, cache_bytes: int, log_bytes: int) -> "Pager":
        """Open a file, alone; finish what a killed process left behind."""
        if not path.exists():
            raise StorageError(f"{path} does not exist", "Create the tree first")
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StorageError(f"{path} is locked", "Close it in the process that has it open") from None
            identity, page_size = _first_look(handle, path)
            log = Log(log_path(path), identity, page_size)
            try:
                _sync_folder(path)
                log.recover()
                with storage_errors(f"{path} could not be recovered"):
                    _copy_committed(log, handle, page_size)
                    log.clear()
                first = os.pread(handle, page_size, 0)
                verify(first, 0, str(path))
                meta = Meta.decode(first)
                _require_length(handle, path, meta)
                return cls(path, meta, handle, log, cache_bytes, log_bytes)
            except BaseException:
                log.close()
                raise
        except BaseException:
            os.close(handle)
            raise

    def read(self, number: int) -> bytes:
        """A page, from the cache, the log or the file."""
        page = self._cache.get(number)
        if page is not None:
            self.counters.cache_hits += 1
            self._cache.move_to_end(number)
            return page
        self._require_open()
        if not 0 < number < self.meta.pages:
            raise StorageError(f"page {number} of {self.path} does not exist, yet a page points to it", "Restore it")
        self.counters.page_reads += 1
        page = self._log.read(number)
        if page is None:
            page = os.pread(self._handle, self.page_size, number * self.page_size)
            verify(page, number, str(self.path))
        self._keep(number, page)
        return page

    def write(self, number: int, page: bytes) -> None:
        """Change a page, for now in the cache."""
        self._changed.add(number)
        self._keep(number, page)

    def _keep(self, number: int, page: bytes) -> None:
        self._cache[number] = page
        self._cache.move_to_end(number)
        while len(self._cache) > self._room:
            oldest = next(iter(self._cache))
            if oldest in self._changed:
                with storage_errors(f"the log of {self.path} could not grow"):
                    self._log.append(oldest, self._cache[oldest])
                self._changed.discard(oldest)
                self.counters.page_writes += 1
            del self._cache[oldest]

    def allocate(self) -> int:
        """The number of a page to write: a free one, or a new one at the end."""
        meta = self.meta
        number = meta.free
        if number:
            meta.free = next_of(self.read(number))
            meta.free_pages -= 1
        else:
            number = meta.pages
            meta.pages += 1
        return number

    def release(self, number: int) -> None:
        """Put a page on the free list."""
        self.write(number, free_page(number, self.meta.free, self.page_size))
        self.meta.free = number
        self.meta.free_pages += 1

    def append(self, pages: list[bytes]) -> None:
        """Write new pages at the end of the file; their numbers must be those that follow the last page."""
        with storage_errors(f"{self.path} could not grow"):
            write_all(self._handle, b"".join(map(seal, pages)), self.meta.pages * self.page_size)
        self.meta.pages += len(pages)
        self.counters.page_writes += len(pages)
        self._appended = True

    @contextmanager
    def change(self) -> Iterator[None]:
        """Undo all work since the last commit if the work inside fails: half a change must not be committed."""
        self._require_open()
        try:
            with storage_errors(f"{self.path} could not be changed"):
                yield
        except StorageError as error:
            self.rollback()
            raise StorageError(f"{error.message}; the work since the last commit is undone", error.hint) from error
        except BaseException:
            self.rollback()
            raise

    def commit(self) -> None:
        """Make all changes so far durable."""
        if not self._has_uncommitted():
            return
        meta_page = self.meta.encode()
        with self.change():
            if self._appended:
                os.fsync(self._handle)
                self.counters.syncs += 1
            for number in sorted(self._changed):
                self._log.append(number, self._cache[number])
            self._log.append(0, meta_page, ends_commit=True)
        self.counters.page_writes += len(self._changed) + 1
        self.counters.syncs += 1
        self._changed.clear()
        self._appended = False
        self._committed_meta = meta_page
        if self._log.length > self._log_bytes:
            try:
                self.checkpoint()
            except StorageError:
                # The commit is safe in the log; the next commit tries again and `close` reports.
                return

    def _has_uncommitted(self) -> bool:
        return bool(self._changed) or self._log.has_uncommitted or self.meta.encode() != self._committed_meta

    def rollback(self) -> None:
        """Return to the last commit."""
        self._require_open()
        self._log.rollback()
        self._cache.clear()
        self._changed.clear()
        self._appended = False
        self.meta.restore(self._committed_meta)

    def checkpoint(self) -> None:
        """Copy what the log has committed into the file, and empty the log."""
        self._require_open()
        if self._has_uncommitted():
            raise StorageError(f"{self.path} has uncommitted changes", "Call commit() or rollback() first")
        with storage_errors(f"{self.path} could not be checkpointed; its log keeps every commit"):
            self.counters.page_writes += _copy_committed(self._log, self._handle, self.page_size)
            self._log.clear()
        self.counters.syncs += 2

    @property
    def log_bytes(self) -> int:
        return self._log.length

    @property
    def cache_bytes(self) -> int:
        """Bytes of the pages in the cache: at most what was asked for, or eight pages if that was less."""
        return len(self._cache) * self.page_size

    def close(self) -> None:
        """Drop what is not committed, checkpoint, and let go of the file."""
        done = False
        try:
            self.rollback()
            self.checkpoint()
            done = True
        finally:
            self._cache.clear()
            self._log.close(remove=done)
            os.close(self._handle)
            self._handle = -1

    def _require_open(self) -> None:
        if self._handle < 0:
            raise StorageError(f"{self.path} is closed", "Open it again")

    def image(self) -> UInt8s:
        """The file as its last commit left it, for another file to hold. Raises StorageError if there are changes."""
        self.checkpoint()
        with storage_errors(f"{self.path} could not be read"):
            return np.fromfile(self.path, np.uint8)


PAGES_OF_A_STEP = 4096
"""Pages that are read before those of a check are given back."""


class MappedPager(Pager):
    """The pages of a tree that another file holds, mapped and read only: what is read stays in its pages."""

    def __init__(self, image: UInt8s, cache_bytes: int) -> None:
        found = Meta.peek(image[: max(PAGE_SIZES)].tobytes())
        if found is None or found[1] not in PAGE_SIZES:
            raise StorageError("the pages of a PB+tree are damaged", "Restore the index, or build it again")
        self.path = Path("pages of a segment")
        first = image[: found[1]].tobytes()
        verify(first, 0, str(self.path))
        self.meta = Meta.decode(first)
        self.page_size = self.meta.page_size
        self.counters = Counters()
        self._image = image
        self._room = max(MINIMUM_CACHED_PAGES, cache_bytes // self.page_size)
        self._cache = OrderedDict()
        self._changed = set()

    def read(self, number: int) -> bytes:
        """A page, from the cache or from where it is mapped."""
        page = self._cache.get(number)
        if page is not None:
            self.counters.cache_hits += 1
            return page
        if not 0 < number < self.meta.pages:
            raise StorageError(f"page {number} of {self.path} does not exist, yet a page points to it", "Restore it")
        self.counters.page_reads += 1
        page = self._image[number * self.page_size : (number + 1) * self.page_size].tobytes()
        verify(page, number, str(self.path))
        self._keep(number, page)
        if self.counters.page_reads % PAGES_OF_A_STEP == 0:
            step_done()
        return page

    def change(self) -> NoReturn:
        """Refuse a change."""
        raise StorageError("this PB+tree is part of a segment, which never changes", "Subscribe through the matcher")

    @property
    def log_bytes(self) -> int:
        """Nothing: there is no log."""
        return 0

    def image(self) -> UInt8s:
        """The pages as they are mapped."""
        return self._image

    def close(self) -> None:
        """Forget the cached pages."""
        self._cache.clear()


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn an error of the operating system into one that says what it means here."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{what}: {error.strerror}", "Free some space on the disk, then try again") from error


def log_path(path: Path) -> Path:
    """The log of the tree at `path`."""
    return path.with_name(path.name + ".log")


def _first_look(handle: int, path: Path) -> tuple[int, int]:
    """Identity and page size, even where a process was killed while it wrote page 0: then the log has them."""
    start = os.pread(handle, max(PAGE_SIZES), 0)
    found = Meta.peek(start)
    if found is not None and found[1] in PAGE_SIZES:
        return found
    logged = Log.described(log_path(path))
    if logged is None or logged[1] not in PAGE_SIZES:
        raise StorageError(
            f"page 0 of {path} is damaged, or not a page of a PB+tree", "Restore it, or name another file"
        )
    return logged


def _copy_committed(log: Log, handle: int, page_size: int) -> int:
    numbers = log.committed_pages()
    for number in numbers:
        write_all(handle, log.committed(number), number * page_size)
    if numbers:
        os.fsync(handle)
    return len(numbers)


def _require_length(handle: int, path: Path, meta: Meta) -> None:
    """Refuse a truncated file; cut off pages behind the last committed one."""
    size = os.fstat(handle).st_size
    if size < meta.pages * meta.page_size:
        raise StorageError(
            f"{path} is truncated: page {size // meta.page_size} of {meta.pages} is missing",
            "Restore the file from a copy, or build it again",
        )
    if size > meta.pages * meta.page_size:
        os.ftruncate(handle, meta.pages * meta.page_size)


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
