"""Exact top-k in a segment: its best subscriptions are copied to small segments, which are matched first.

Subscriptions are ordered by score. The best of them make a *layer*, a small segment; sometimes two. A batch goes
through the first layer, and only events that do not find their k there go on, in the end to the segment itself, which
holds all subscriptions. Layers are not rebuilt when scores change or subscriptions are dropped: the bound of what each
can offer is computed from the current scores.
"""

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, Ragged
from tocsin.index.intake import SubscriptionRows
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.model.events import EventBatch
from tocsin.model.result import Evidence
from tocsin.predicates.families import Probed
from tocsin.ranking.kernels import offer_matches, sort_best
from tocsin.ranking.relaxed import Weights
from tocsin.ranking.select import Layer, layer_sizes, nothing_yet, top_k_in_layers
from tocsin.ranking.worth import Worth
from tocsin.tuning import TUNING

Bound = tuple[float, int]
"""The best score and, of those that have it, the first by id."""

REPAID, MATCH = 5_000, 16
"""Building a layer costs as much for each of its subscriptions as verifying some 5,000 candidates, and selecting from a
match as much as 16. Layers are built once that much work was done without them."""
LOOK_AGAIN = 1.1
"""Whether layers would pay is asked again when a tenth more work was done: asking costs 30 µs, as much as an event."""
SAMPLE = 1_024
"""Events whose numbers of matches say how large layers should be."""


class _Layer(NamedTuple):
    """A segment of some subscriptions, and their numbers in the whole segment."""

    segment: Segment
    owner: Int32s


class SegmentRanking:
    """What top-k caches for a segment: layers, once enough events have come to pay for them, and weights."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.layers: tuple[_Layer, ...] = ()
        """Best first; the last is the segment itself. Empty until they are built."""
        self._k = 0
        self._done_without = 0
        self._next_look = 0.0
        """How much work must be done without layers before they are thought of again."""
        self._matches: deque[int] = deque(maxlen=SAMPLE)
        self._weights: Weights | None = None
        self._worth: Worth | None = None

    def worth(self, options: Options) -> Worth | None:
        """Return what the alternatives of subscriptions are worth; None if none says so. The first call builds it."""
        if self._worth is None and self.segment.with_utility.size:
            self._worth = Worth(self.segment, options)
        return self._worth

    def weights(self) -> Weights:
        """Return the predicates with their weights; the first call derives them."""
        if self._weights is None:
            self._weights = Weights.build(self.segment)
        return self._weights

    def serve(self, k: int) -> bool:
        """Whether there are layers that were cut for this k, or a larger one."""
        return 0 < k <= self._k

    def learn(self, matches: Int64s, candidates: int, scores: Float64s, k: int, options: Options) -> None:
        """Count a batch that was matched without layers, and build them once they would have been cheaper.

        Tests on the history are judged for a whole segment, so that one with such tests has no layers.
        """
        self._done_without += candidates + MATCH * int(matches.sum())
        self._matches.extend(matches[-SAMPLE:].tolist())
        if self._done_without < self._next_look or not self._matches or self.segment.history_demands.size:
            return
        self._next_look = LOOK_AGAIN * self._done_without
        *sizes, _ = layer_sizes(len(self.segment), k, float(np.median(list(self._matches))))
        if sizes and self._done_without > REPAID * sum(sizes):
            best_first = np.argsort(-scores, kind="stable").astype(np.int32)
            parts = np.split(best_first, np.cumsum(sizes))[:-1]
            whole = _Layer(self.segment, np.arange(len(self.segment), dtype=np.int32))
            self.layers = (*(self._build(part, options) for part in parts), whole)
            self._k, self._done_without, self._next_look = k, 0, 0.0

    def plan(self) -> tuple[str, str]:
        """Say how the best k are found now, and why."""
        exact = "all matches, then the best"
        why = "layers are built when they would have paid"
        if self._matches:
            matches, least = np.median(list(self._matches)), TUNING.layers_pay
            why = f"a typical event has {matches:,.0f} matches: layers pay beyond {least:.0f} k of them"
        if self.segment.history_demands.size:
            why = "tests on the history are judged for the segment as a whole"
        if self.layers:
            sizes = " and ".join(f"{len(layer.segment):,}" for layer in self.layers)
            exact = f"in layers of {sizes} subscriptions for k up to {self._k:,}"
        relaxed = "not asked yet" if self._weights is None else self._weights.plan()
        return f"exact: {exact}; relaxed: {relaxed}", why

    def _build(self, members: Int32s, options: Options) -> _Layer:
        members = np.sort(members)
        chosen = pa.array(members)
        ids, texts = (strings.arrow().take(chosen).to_pylist() for strings in (self.segment.ids, self.segment.texts))
        rows = SubscriptionRows(ids, texts, np.ones(members.size), [""] * members.size)
        return _Layer(Segment.build(rows, self.segment.normal_form(members), options), members)


class ExactTopK:
    """Find the best matches in a segment under the scores of one state, by layers if there are any."""

    def __init__(self, ranking: SegmentRanking, scores: Float64s) -> None:
        self._ranking = ranking
        self._scores = scores
        self._segment = ranking.segment
        self._bounds: tuple[tuple[_Layer, ...], list[Bound]] = ((), [])

    def top_k(
        self, batch: EventBatch, left_out: Bools, judged: Mapping[int, Probed], k: int, options: Options
    ) -> tuple[Ragged, Float64s, Evidence]:
        """Return the best `k` matches of each event, best first, their scores, and the evidence."""
        if self._ranking.serve(k):
            evidence = Evidence(events=len(batch))
            starts, numbers = top_k_in_layers(self._plan(batch, left_out, evidence), len(batch), self._scores, k)
        else:
            pairs, evidence = self._segment.match_subscriptions(batch, judged)
            matches = np.bincount(pairs[:, 0], minlength=len(batch))
            best = nothing_yet(len(batch), min(k, int(matches.max(initial=0))))
            pairs, found = np.ascontiguousarray(pairs), np.ascontiguousarray(pairs[:, 1])
            offer_matches(best, pairs, self._scores[found], found, left_out, self._segment.several)
            starts, numbers, _ = sort_best(best)
            self._ranking.learn(matches, evidence.candidates, self._scores, k, options)
        evidence.matches = numbers.size
        return Ragged(starts, numbers), self._scores[numbers], evidence

    def _plan(self, batch: EventBatch, left_out: Bools, evidence: Evidence) -> list[Layer]:
        def match(layer: _Layer, rows: Int64s) -> Int32s:
            some = batch if rows.size == len(batch) else batch.take(rows)
            pairs, work = layer.segment.match_subscriptions(some)
            evidence.add_segment(work)
            return pairs[~left_out[layer.owner[pairs[:, 1]]]] if left_out.size else pairs

        layers = self._ranking.layers
        if self._bounds[0] is not layers:
            self._bounds = (layers, self._find_bounds(layers))
        bounds = self._bounds[1]
        return [Layer(partial(match, layer), layer.owner, *bound) for layer, bound in zip(layers, bounds, strict=True)]

    def _find_bounds(self, layers: tuple[_Layer, ...]) -> list[Bound]:
        """Return for each layer the best score among subscriptions that no earlier layer has."""
        bounds = []
        new = np.ones(len(self._segment), bool)
        for layer in layers:
            members = layer.owner[new[layer.owner]]
            new[members] = False
            best = self._scores[members].max(initial=-np.inf)
            first = members[self._scores[members] == best].min(initial=np.iinfo(np.int32).max)
            bounds.append((float(best), int(first)))
        return bounds
