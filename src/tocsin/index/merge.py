"""Merging: few large segments instead of many small ones.

Segments fall into tiers by size, a factor of `FACTOR` apart. When a tier has `FACTOR` segments, they become one. So a
subscription is written again about log(n) times in its life, and there are never more than FACTOR times that many
segments. A segment that has lost half of its subscriptions is written again as well.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.index.intake import SubscriptionRows
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.index.snapshot import Part
from tocsin.language.normal_form import NormalForm

FACTOR = 8


def tier(size: int) -> int:
    """The tier of a segment.

    >>> [tier(size) for size in (1, 7, 8, 63, 64, 4096)]
    [0, 0, 1, 1, 2, 4]
    """
    tier = 0
    while size >= FACTOR:
        size //= FACTOR
        tier += 1
    return tier


def due(parts: Sequence[Part]) -> list[Part]:
    """The parts to merge next: none, one that is half empty, or all of the lowest full tier."""
    by_tier: dict[int, list[Part]] = {}
    for part in parts:
        if 2 * len(part.dropped) > len(part.segment):
            return [part]
        by_tier.setdefault(tier(len(part.segment)), []).append(part)
    for _, members in sorted(by_tier.items()):
        if len(members) >= FACTOR:
            return members
    return []


class Merger:
    """One merge: what the parts were when it began, the segment it makes, and the changes that came meanwhile."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = list(parts)
        self._live = [part.live() for part in parts]
        self._dropped = [set(part.dropped) for part in parts]
        self._scores = [dict(part.scores) for part in parts]
        self._new_number = np.empty(0, np.int64)
        """The number in the merged segment of each subscription, by its place among all that were live."""

    def build(self, options: Options) -> Segment:
        """Build one segment of all subscriptions that were live when the merge began. Touches no part."""
        ids, texts, extras, scores, forms = [], [], [], [], []
        for part, live, changed in zip(self.parts, self._live, self._scores, strict=True):
            segment = part.segment
            numbers = live.tolist()
            ids += [segment.ids[number] for number in numbers]
            texts += [segment.texts[number] for number in numbers]
            extras += [segment.extras[number] for number in numbers]
            scores += [changed.get(number, float(segment.scores[number])) for number in numbers]
            forms.append(segment.normal_form(live.astype(np.int32)))
        by_id = np.asarray(pc.sort_indices(pa.array(ids, pa.large_string()))).astype(np.int64)
        self._new_number = np.argsort(by_id)
        rows = SubscriptionRows(ids, texts, np.array(scores, np.float64), extras)
        return Segment.build(rows.take(by_id), NormalForm.joined(forms).select(by_id), options)

    def finish(self, merged: Segment) -> Part:
        """The part to put in place of the others, with the changes that came while it was built."""
        result = Part(merged)
        first = 0
        for part, live, dropped, scores in zip(self.parts, self._live, self._dropped, self._scores, strict=True):
            for number in part.dropped - dropped:
                result.drop(int(self._new_number[first + int(np.searchsorted(live, number))]))
            for number, score in part.scores.items():
                if number not in dropped and scores.get(number) != score:
                    result.rescore(int(self._new_number[first + int(np.searchsorted(live, number))]), score)
            first += live.size
        return result
