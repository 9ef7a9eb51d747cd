"""Merge small segments into few large ones.

Segments fall into tiers by size, a factor of `FACTOR` apart. When a tier has `FACTOR` segments, they become one; in the
tiers of small segments, which are quickly built, `FEW_SMALL` are enough. So a subscription is rewritten about log(n)
times in its life, and there are at most `FACTOR` log(n) segments. A segment that has lost more than half of its
subscriptions is rewritten as well. In an index in shards no merge makes a segment that is larger than a shard, so that
there are always enough segments for all of them.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Float64s, Int64s
from tocsin.index.intake import SubscriptionRows
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.index.snapshot import LiveSegment
from tocsin.language.normal_form import NormalForm

FACTOR = 8
SMALL_TIER = 3
"""The last tier of small segments, up to 4,095 subscriptions, which are built in 60 ms."""
FEW_SMALL = 2
"""Small segments of a tier that become one. Each costs a single event as much as a large one, nearly. A reader that
follows 10 changes a commit on 100,000 alerts, processor time: a single event took 0.81 ms with 8, up to 11 segments;
0.56 with 4 and 0.40 with 3, with 256 subscriptions in a snapshot instead of 64. On another day, 2,500 to 4,000 changes:
up to 7 segments, 0.52 ms and a 99th percentile of refreshes of 19 to 22 ms with 3; 5, 0.48 and 9 with 2, for which a
writer needs 1.05 times as long."""


def tier(size: int) -> int:
    """Return the tier of a segment of this size.

    >>> [tier(size) for size in (1, 7, 8, 63, 64, 4096)]
    [0, 0, 1, 1, 2, 4]
    """
    tier = 0
    while size >= FACTOR:
        size //= FACTOR
        tier += 1
    return tier


def due(segments: Sequence[LiveSegment], shards: int | None = None) -> list[LiveSegment]:
    """Return the segments to merge next: one that is half empty, or all of the lowest full tier, or none.

    With shards, the smallest of the tier, and only if they are not more than a shard.
    """
    most = math.inf if shards is None else sum(map(len, segments)) / shards
    by_tier: dict[int, list[LiveSegment]] = {}
    for live in segments:
        if 2 * len(live.dropped) > len(live.segment):
            return [live]
        by_tier.setdefault(tier(len(live.segment)), []).append(live)
    for number, members in sorted(by_tier.items()):
        wanted = FEW_SMALL if number <= SMALL_TIER else FACTOR
        chosen = members if shards is None else sorted(members, key=len)[:wanted]
        if len(members) >= wanted and sum(map(len, chosen)) <= most:
            return chosen
    return []


def gather(chosen: Iterable[tuple[Segment, Int64s, Float64s]]) -> tuple[SubscriptionRows, NormalForm]:
    """Return some subscriptions of segments, by number, and their normal form; with each segment come its scores."""
    ids: list[str] = []
    texts: list[str] = []
    extras: list[str] = []
    scores, forms = [np.empty(0)], []
    for segment, numbers, all_scores in chosen:
        places = pa.array(numbers)
        ids += segment.ids.arrow().take(places).to_pylist()
        texts += segment.texts.arrow().take(places).to_pylist()
        extras += segment.extras_at(numbers)
        scores.append(all_scores[numbers])
        forms.append(segment.normal_form(numbers.astype(np.int32)))
    return SubscriptionRows(ids, texts, np.concatenate(scores), extras), NormalForm.joined(forms)


class Merger:
    """One merge: `build` runs beside changes of the segments, and `finish` applies those changes to the result."""

    def __init__(self, segments: Sequence[LiveSegment]) -> None:
        self.segments = list(segments)
        self._numbers = [live.live_numbers() for live in segments]
        self._dropped = [set(live.dropped) for live in segments]
        self._scores = [dict(live.scores) for live in segments]
        self._new_number = np.empty(0, np.int64)
        """The number in the merged segment of each subscription, by its place among all that were live."""

    def build(self, options: Options) -> Segment:
        """Build one segment of all subscriptions that were live when the merge began, without touching the others."""
        scores = []
        for live, changed in zip(self.segments, self._scores, strict=True):
            scores.append(live.segment.scores.copy())
            scores[-1][list(changed)] = list(changed.values())
        segments = [live.segment for live in self.segments]
        rows, form = gather(zip(segments, self._numbers, scores, strict=True))
        by_id = np.asarray(pc.sort_indices(pa.array(rows.ids, pa.large_string()))).astype(np.int64)
        self._new_number = np.argsort(by_id)
        return Segment.build(rows.take(by_id), form.select(by_id), options)

    def finish(self, merged: Segment) -> LiveSegment:
        """Return the segment that replaces the others, with the changes that came while it was built."""
        result = LiveSegment(merged)
        first = 0
        for live, numbers, dropped, scores in zip(
            self.segments, self._numbers, self._dropped, self._scores, strict=True
        ):
            for number in live.dropped - dropped:
                result.drop(int(self._new_number[first + int(np.searchsorted(numbers, number))]))
            for number, score in live.scores.items():
                if number not in dropped and scores.get(number) != score:
                    result.rescore(int(self._new_number[first + int(np.searchsorted(numbers, number))]), score)
            first += numbers.size
        return result
