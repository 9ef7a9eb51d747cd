"""Views: folders that hold one snapshot of an index, whole or a share of its segments, whatever is committed later.

The writer of an index removes the files that its newest snapshot does not name. A view is a folder of hard links to the
files of one snapshot, so that every task of a job, and every retry, opens the same one; all views of a segment share
its bytes and its pages. Views are in the folder `views` of the index, where workers that see the index see them too.
"""

import contextlib
import errno
import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin.errors import StorageError
from tocsin.storage.folder import Folder

_TRIES = 100

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class View:
    """A folder that can be opened as an index and never changes."""

    path: Path
    snapshot: int


def pin(index: Path, owner: str) -> View:
    """View the newest snapshot and drop the owner's views of older ones. Costs nothing if it is viewed already."""
    for _ in range(_TRIES):
        number = newest(index)
        view = View(_views(index) / f"{owner}-{number:06}", number)
        with contextlib.suppress(FileNotFoundError):  # a newer snapshot has been committed meanwhile
            if not view.path.exists():
                content = read(index, number)
                _link(index, view, content, content["parts"])
                _log.info("viewing snapshot %d of %s as %s", number, index, view.path.name)
            for other in _views(index).glob(f"{owner}-*"):
                if other != view.path:
                    shutil.rmtree(other, ignore_errors=True)
            return view
    raise StorageError(f"{index} changes faster than it can be read", "Commit less often")


def share(index: Path, number: int, shares: Sequence[Sequence[dict[str, Any]]], owner: str) -> list[View]:
    """View snapshot `number` as several: each with its share of the parts."""
    content = read(index, number)
    views = []
    for place, parts in enumerate(shares):
        view = View(_views(index) / f"{owner}-{number:06}-{place}", number)
        if not view.path.exists():
            _link(index, view, content, parts)
        views.append(view)
    return views


def newest(index: Path) -> int:
    """The number of the newest snapshot."""
    number = Folder(index).newest()
    if number is None:
        raise StorageError(f"there is no index in {index}", "Make one with tocsin.spark.build or Matcher.save")
    return number


def read(index: Path, number: int) -> dict[str, Any]:
    """What a snapshot names."""
    return Folder(index).read(number)


def _views(index: Path) -> Path:
    return index / "views"


def _link_file(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        # No hard links here, or none to files of another user.
        shutil.copyfile(source, target)


def _link(index: Path, view: View, content: dict[str, Any], parts: Sequence[dict[str, Any]]) -> None:
    """Make a view under a temporary name; it is there whole or not at all."""
    try:
        view.path.parent.mkdir(exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".", dir=view.path.parent))
    except PermissionError as error:
        raise StorageError(
            f"cannot write to {view.path.parent}: {error.strerror}", "A view of the index is made there"
        ) from error
    building.chmod(0o755)
    try:
        files = [name for part in parts for name in (part["segment"], part["changes"]) if name is not None]
        for name in files:
            _link_file(index / name, building / name)
        Folder(building).commit(view.snapshot, {**content, "parts": list(parts)}, files)
        building.rename(view.path)
    except OSError as error:
        # Somebody else may have made the same view meanwhile.
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
