"""Divide the segments of an index into shards: groups of segments with about as many subscriptions each.

A shard is a group of whole segments, so an index has other shards as soon as its segments are grouped otherwise. Only a
segment that is larger than a shard is cut: its subscriptions are dealt out in turn, and each piece is built from the
stored normal form.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.index.merge import gather
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.index.snapshot import LiveSegment


def shards_of(sizes: Sequence[int], count: int) -> list[list[int]]:
    """Return the numbers of the segments in each shard, given their sizes; no more shards than segments.

    The largest segments go first, each to the shard that is the smallest then.

    >>> shards_of([40, 30, 20, 10], 2), shards_of([5], 2), shards_of([], 2)
    ([[0, 3], [1, 2]], [[0]], [[]])
    """
    shards: list[list[int]] = [[] for _ in range(min(count, len(sizes)) or 1)]
    totals = [0] * len(shards)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        smallest = totals.index(min(totals))
        shards[smallest].append(number)
        totals[smallest] += sizes[number]
    return shards


def pieces_of(sizes: Sequence[int], count: int) -> list[int]:
    """Return into how many pieces each segment is cut, so that none is larger than one of `count` equal shards.

    >>> pieces_of([100, 100, 100, 100], 8), pieces_of([50] * 8, 4), pieces_of([70, 20, 10], 2)
    ([2, 2, 2, 2], [1, 1, 1, 1, 1, 1, 1, 1], [2, 1, 1])
    """
    most = max(-(-sum(sizes) // count), 1)
    return [max(-(-size // most), 1) for size in sizes]


def cut(segments: Sequence[LiveSegment], pieces: int, options: Options) -> Iterator[Segment]:
    """Build `pieces` segments of the subscriptions that are not dropped, one after the other; empty ones are left out.

    Each has every `pieces`-th subscription by id, so that pieces are alike whatever ids stand for.
    """
    numbers, scores = [], []
    for live in segments:
        numbers.append(live.live_numbers())
        scores.append(live.segment.scores.copy())
        scores[-1][list(live.scores)] = list(live.scores.values())
    for piece in range(pieces):
        own = [every[piece::pieces] for every in numbers]
        rows, form = gather(zip((live.segment for live in segments), own, scores, strict=True))
        if rows.ids:
            by_id = np.asarray(pc.sort_indices(pa.array(rows.ids, pa.large_string()))).astype(np.int64)
            yield Segment.build(rows.take(by_id), form.select(by_id), options)
