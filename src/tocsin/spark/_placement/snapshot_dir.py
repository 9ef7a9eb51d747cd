"""Pin snapshots of an index, so that later commits do not remove their files.

The writer of an index removes the files that its newest snapshot does not name. A pinned snapshot is a folder of hard
links to the files of one snapshot, or of some of its segments, so that every task of a job and every retry opens the
same one; links share their bytes and their pages in memory. They are in the folder `views` of the index, where every
worker that sees the index sees them. Those of a stream go when a newer one is there, those of plain jobs when no plan
reads them, and all when the process that made them ends.
"""

import errno
import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tocsin.errors import StorageError
from tocsin.forks import cached
from tocsin.matcher import Matcher
from tocsin.spark._placement.lease import owner_in
from tocsin.spark._placement.ship import scratch
from tocsin.storage.folder import Folder

JOBS = "match"
"""The purpose of snapshots that are pinned for plain jobs."""

_TRIES = 100

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PinnedSnapshot:
    """A folder that can be opened as an index and does not change."""

    path: Path
    snapshot: int
    is_of_jobs: bool = False
    """Whether it is for plain jobs alone, and so goes when no plan of theirs is left: see `plan_lifetime`."""
    known: Matcher | None = field(default=None, compare=False, repr=False)
    """An earlier snapshot, whose files are not opened again."""

    @cached
    def opened(self) -> Matcher:
        """The subscriptions, for the driver: opened once, since opening also checks the files."""
        return Matcher.open(self.path, mode="read", known=self.known)


def pin(index: Path, purpose: str = JOBS, required: bool = True) -> PinnedSnapshot:
    """Pin the newest snapshot; return the one that this process has already pinned for this purpose, if any.

    If the folder of the index cannot be written, raise; or if it is not `required`, return the index itself, which may
    change.
    """
    index = index.absolute()
    if scratch() in index.parents:  # made by this process, which does not commit to it again
        return PinnedSnapshot(index, newest(index))
    views = index / "views"
    for _ in range(_TRIES):
        number = newest(index)
        try:
            views.mkdir(exist_ok=True)
            view = PinnedSnapshot(views / f"{owner_in(views)}-{purpose}-{number:06}", number, purpose == JOBS)
            if not view.path.exists():
                content = Folder(index).read(number)
                _link(index, view, content, content["parts"])
                _log.info("pinned snapshot %d of %s as %s", number, index, view.path.name)
            return view
        except FileNotFoundError:
            continue  # a newer snapshot has been committed meanwhile
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            if required:
                raise StorageError(
                    f"cannot write to {views}: {error.strerror}", "Snapshots of the index are pinned there"
                ) from error
            _log.warning("cannot write to %s: a commit during the job would be seen by some tasks only", views)
            return PinnedSnapshot(index, number)
    raise StorageError(f"{index} changes faster than it can be read", "Commit less often")


def drop_older(view: PinnedSnapshot) -> None:
    """Remove the older snapshots that this process has pinned for the same purpose, with their shares."""
    owner_and_purpose = view.path.name.rpartition("-")[0]
    for other in view.path.parent.glob(f"{owner_and_purpose}-*"):
        if not other.name.startswith(view.path.name):
            shutil.rmtree(other, ignore_errors=True)


def share(view: PinnedSnapshot, shares: Sequence[Sequence[dict[str, Any]]]) -> list[PinnedSnapshot]:
    """Divide a pinned snapshot: make one for each share of its parts."""
    content = Folder(view.path).read(view.snapshot)
    views = []
    for place, parts in enumerate(shares):
        name = f"{view.path.name}-{place}of{len(shares)}"
        shared = PinnedSnapshot(view.path.parent / name, view.snapshot, view.is_of_jobs)
        if not shared.path.exists():
            # The newest subscriptions, which are in the snapshot itself, belong to the first.
            _link(view.path, shared, content if place == 0 else {**content, "fresh": None}, parts)
        views.append(shared)
    return views


def newest(index: Path) -> int:
    """Return the number of the newest snapshot."""
    number = Folder(index).newest() if index.is_dir() else None
    if number is None:
        raise StorageError(f"there is no index in {index}", "Make one with tocsin.spark.build or Matcher.save")
    return number


def _link_file(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        # The file system has no hard links, or refuses them to files of another user.
        shutil.copyfile(source, target)


def _link(index: Path, view: PinnedSnapshot, content: dict[str, Any], parts: Sequence[dict[str, Any]]) -> None:
    """Make the folder under a temporary name and rename it."""
    building = Path(tempfile.mkdtemp(prefix=f".{view.path.name}-", dir=view.path.parent))
    building.chmod(0o755)
    try:
        files = [name for part in parts for name in (part["segment"], part["changes"]) if name is not None]
        for name in files:
            _link_file(index / name, building / name)
        Folder(building).write(view.snapshot, {**content, "parts": list(parts)})
        for file in building.glob("snapshot-*"):
            # When it is pinned again it looks the same: what was opened or shipped is not opened or shipped anew.
            written = (index / file.name).stat().st_mtime_ns
            os.utime(file, ns=(written, written))
        building.rename(view.path)
    except OSError as error:
        # Another thread may have made the same folder meanwhile.
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
