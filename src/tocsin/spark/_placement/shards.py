"""Divide an index that is too large for one host into shards: groups of segments, of which a task maps one."""

import logging
from pathlib import Path

from tocsin.errors import OptionError
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot, read, share

_log = logging.getLogger(__name__)


def shard(view: PinnedSnapshot, count: int) -> list[Path]:
    """Divide a pinned snapshot into at most `count` folders with about as many subscriptions each.

    A segment is not divided, so there are no more shards than segments. The folders are removed with the snapshot.
    """
    if count < 1:
        raise OptionError(f"shards is {count}", "It must be at least 1")
    parts = sorted(read(view.path, view.snapshot)["parts"], key=lambda part: part["subscriptions"], reverse=True)
    shares: list[list[dict[str, object]]] = [[] for _ in range(min(count, len(parts)) or 1)]
    sizes = [0] * len(shares)
    for part in parts:
        smallest = sizes.index(min(sizes))
        shares[smallest].append(part)
        sizes[smallest] += part["subscriptions"]
    _log.info(
        "plan: %d shards of %s, subscriptions in each %s%s; every event is matched once in each",
        len(shares),
        view.path,
        sizes,
        f" ({count} were asked for, the index has {len(parts)} segments)" if len(shares) < count else "",
    )
    return [shared.path for shared in share(view, shares)]
