"""Shards: an index too large for one host, in groups of segments that tasks map one at a time."""

import atexit
import functools
import logging
import secrets
import shutil
from pathlib import Path

from tocsin.errors import OptionError
from tocsin.spark.views import newest, read, share

_log = logging.getLogger(__name__)


def shard(index: Path, count: int) -> list[Path]:
    """Divide the newest snapshot into at most `count` folders of about as many subscriptions each.

    A segment is not divided, so that there are no more shards than segments. The folders are views, which go with this
    process; should it be killed, they stay in `views` and can be removed by hand.
    """
    if count < 1:
        raise OptionError(f"shards is {count}", "It must be at least 1")
    number = newest(index)
    parts = sorted(read(index, number)["parts"], key=lambda part: part["subscriptions"], reverse=True)
    shares: list[list[dict[str, object]]] = [[] for _ in range(min(count, len(parts)) or 1)]
    sizes = [0] * len(shares)
    for part in parts:
        smallest = sizes.index(min(sizes))
        shares[smallest].append(part)
        sizes[smallest] += part["subscriptions"]
    _log.info(
        "plan: %d shards of %s, subscriptions in each %s%s; every event is matched once in each",
        len(shares),
        index,
        sizes,
        f" ({count} were asked for, the index has {len(parts)} segments)" if len(shares) < count else "",
    )
    views = share(index, number, shares, f"{_owner()}-{len(shares)}")
    atexit.register(_remove, views[0].path.parent, _owner())
    return [view.path for view in views]


@functools.cache
def _owner() -> str:
    return f"shards-{secrets.token_hex(6)}"


def _remove(folder: Path, owner: str) -> None:
    for path in folder.glob(f"{owner}-*"):
        shutil.rmtree(path, ignore_errors=True)
