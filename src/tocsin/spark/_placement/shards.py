"""Divide an index that is too large for one host into shards: groups of segments, of which a task maps one."""

import logging
from pathlib import Path

from tocsin.errors import OptionError
from tocsin.index.options import Options
from tocsin.index.reshard import shards_of
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot, newest, share
from tocsin.storage.folder import Folder

_log = logging.getLogger(__name__)


def stored_shards(index: Path) -> int | None:
    """Return the shards that an index or a pinned snapshot says it has."""
    return Options.of(Folder(index).read(newest(index))["options"]).shards


def shard(view: PinnedSnapshot, count: int) -> list[PinnedSnapshot]:
    """Divide a pinned snapshot into at most `count` folders with about as many subscriptions each.

    A segment is not divided, so there are no more shards than segments. The folders are removed with the snapshot.
    """
    if count < 1:
        raise OptionError(f"shards is {count}", "It must be at least 1")
    parts = Folder(view.path).read(view.snapshot)["parts"]
    groups = shards_of([part["subscriptions"] for part in parts], count)
    shares = [[parts[number] for number in group] for group in groups]
    sizes = [sum(part["subscriptions"] for part in group) for group in shares]
    _log.info(
        "plan: %d shards of %s, subscriptions in each %s%s; every event is matched once in each",
        len(shares),
        view.path,
        sizes,
        f" ({count} were asked for, the index has {len(parts)} segments)" if len(shares) < count else "",
    )
    return share(view, shares)
