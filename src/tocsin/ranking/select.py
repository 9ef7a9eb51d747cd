"""The best k of matches that are known, and exact top-k in layers: match the best subscriptions first, stop at k."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tocsin._kernels.ranking_topk import select_best
from tocsin.errors import OptionError
from tocsin.ranking.protocol import Float64s, Int32s, Int64s

Match = Callable[[Int64s], tuple[Int64s, Int32s]]
"""Matches one layer: from the rows of a batch to offsets and distinct subscriptions, those of each row together."""


def select_k(
    offsets: npt.ArrayLike, subscriptions: npt.ArrayLike, scores: npt.ArrayLike, k: int
) -> tuple[Int64s, Int32s]:
    """Keep the best `k` matches of each event, best first, equal scores by id: offsets and subscriptions.

    `scores` goes by subscription. Costs m log k for m matches, and little more than m if they come in any order.

    >>> [part.tolist() for part in select_k([0, 3, 4], [0, 1, 2, 1], [1.0, 3.0, 2.0], 2)]
    [[0, 2, 3], [1, 2, 1]]
    """
    if k < 0:
        raise OptionError(f"k is {k}", "Ask for 0 or more")
    return select_best(
        np.ascontiguousarray(offsets, np.int64),
        np.ascontiguousarray(subscriptions, np.int32),
        np.ascontiguousarray(scores, np.float64),
        k,
    )


def layer_sizes(subscriptions: int, k: int, matches_per_event: float) -> list[int]:
    """Cut subscriptions, ordered by score, into layers that grow eightfold; one layer where cutting cannot pay.

    The first layer is as large as an event needs on average to find 2k matches there, so that most events stop at it.

    >>> layer_sizes(1_000_000, 20, 1231.0)
    [32493, 259944, 707563]
    >>> layer_sizes(1_000_000, 20, 30.0)
    [1000000]
    """
    if k == 0 or matches_per_event < 8 * k:
        return [subscriptions]
    sizes: list[int] = []
    size, left = max(int(2 * k / matches_per_event * subscriptions), 1), subscriptions
    while left > 0:
        size = min(size, left) if left > 2 * size else left
        sizes.append(size)
        left -= size
        size *= 8
    return sizes


def top_k_in_layers(layers: Sequence[Match], events: int, scores: Float64s, k: int) -> tuple[Int64s, Int32s]:
    """Return the best `k` matches of each event, matching layer after layer the events that still lack some.

    Every subscription of a layer ranks before those of the next, so an event with k matches is done.

    >>> best, rest = [2], [0, 1]
    >>> def layer(members):
    ...     def match(rows):
    ...         return np.arange(rows.size + 1) * len(members), np.tile(np.array(members, np.int32), rows.size)
    ...     return match
    >>> offsets, ids = top_k_in_layers([layer(best), layer(rest)], 2, np.array([1.0, 2.0, 3.0]), 2)
    >>> offsets.tolist(), ids.tolist()
    ([0, 2, 4], [2, 1, 2, 1])
    """
    rows = np.arange(events)
    have = np.zeros(events, np.int64)
    owners, found = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for match in layers:
        if not rows.size:
            break
        offsets, ids = match(rows)
        kept, best = select_k(offsets, ids, scores, k)
        counts = np.diff(kept)
        owners.append(np.repeat(rows, counts))
        found.append(best)
        have[rows] += counts
        rows = rows[have[rows] < k]
    # Layers come best first, so a stable sort by event keeps each event's matches in order; the first k are its answer.
    owner, ids = np.concatenate(owners), np.concatenate(found)
    order = np.argsort(owner, kind="stable")
    owner, ids = owner[order], ids[order]
    place = np.arange(owner.size) - np.repeat(np.cumsum(have) - have, have)
    offsets = np.zeros(events + 1, np.int64)
    np.cumsum(np.minimum(have, k), out=offsets[1:])
    return offsets, ids[place < k]
