"""Exact top-k in a segment: its best subscriptions are segments of their own, matched before the whole.

Subscriptions are ordered by score. The best of them make a *layer*, a small segment; sometimes two. A batch goes
through the first layer, and only events that do not find their k there go on, in the end to the segment itself, which
holds all subscriptions. Layers stay as they are when scores change or subscriptions are dropped: what each of them can
offer at best follows the scores of now.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels.ranking_topk import sort_best
from tocsin._kernels.ranking_weights import offer_matches
from tocsin.engine.families import Probed, Slices
from tocsin.engine.options import Options
from tocsin.engine.segment import Segment
from tocsin.engine.weights import Weights
from tocsin.forks import cached
from tocsin.model.events import EventBatch
from tocsin.model.result import Evidence
from tocsin.ranking import Layer, layer_sizes, top_k_in_layers
from tocsin.ranking.select import PAYS, nothing_yet

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bound = tuple[float, int]
"""The best score and, of those that have it, the first by id."""

REPAID, MATCH = 5_000, 16
"""Building a layer costs, for each of its subscriptions, as much as verifying some 5,000 candidates, and to select from
a match as much as 16: layers are built once that much was done without them."""
SAMPLE = 1_024
"""Events whose numbers of matches say how large layers should be."""


class _Layer(NamedTuple):
    """A segment of some subscriptions; their numbers in the whole segment and their places by id."""

    segment: Segment
    owner: Int32
    rank: Int32


class Ranked:
    """What top-k derives from a segment: layers, when enough events have come to pay for them, and weights."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.layers: tuple[_Layer, ...] = ()
        """Best first; the last is the segment itself. Empty until they are built."""
        self._k = 0
        self._done_without = 0
        self._matches = np.empty(0, np.int64)
        self._weights: list[Weights] | None = None

    @cached
    def rank(self) -> Int32:
        """The place of each subscription in the order of ids."""
        rank = np.empty(len(self.segment), np.int32)
        rank[self.segment.id_order] = np.arange(len(self.segment), dtype=np.int32)
        return rank

    def weights(self, options: Options) -> list[Weights]:
        """The predicates with their weights; the first call costs at most what building the segment did."""
        if self._weights is None:
            self._weights = Weights.build(self.segment, options)
        return self._weights

    def serve(self, k: int) -> bool:
        """Whether there are layers that were cut for this k, or a larger one."""
        return 0 < k <= self._k

    def learn(self, matches: Int64, candidates: int, scores: Floats, k: int, options: Options) -> None:
        """Take note of a batch that was matched without layers, and build them if that would have been cheaper.

        Tests on the history are judged for a whole segment, so that one with such tests has no layers.
        """
        self._done_without += candidates + MATCH * int(matches.sum())
        self._matches = np.concatenate([self._matches, matches])[-SAMPLE:]
        if not self._matches.size or self.segment.history_demands.size:
            return
        *sizes, _ = layer_sizes(len(self.segment), k, float(np.median(self._matches)))
        if sizes and self._done_without > REPAID * sum(sizes):
            best_first = np.lexsort((self.rank, -scores)).astype(np.int32)
            parts = np.split(best_first, np.cumsum(sizes))[:-1]
            whole = _Layer(self.segment, np.arange(len(self.segment), dtype=np.int32), self.rank)
            self.layers = (*(self._build(part, options) for part in parts), whole)
            self._k, self._done_without = k, 0

    def plan(self) -> tuple[str, str]:
        """How the best k are found as things stand, and why."""
        exact = "all matches, then the best"
        why = "layers are built when they would have paid"
        if self._matches.size:
            why = f"a typical event has {np.median(self._matches):,.0f} matches: layers pay beyond {PAYS:.0f} k of them"
        if self.segment.history_demands.size:
            why = "tests on the history are judged for the segment as a whole"
        if self.layers:
            sizes = " and ".join(f"{len(layer.segment):,}" for layer in self.layers)
            exact = f"in layers of {sizes} subscriptions for k up to {self._k:,}"
        ways = ["not asked yet"] if self._weights is None else [weights.plan() for weights in self._weights]
        return f"exact: {exact}; relaxed: {', '.join(dict.fromkeys(ways))}", why

    def _build(self, members: Int32, options: Options) -> _Layer:
        numbers = members.tolist()
        ids, texts = ([strings[number] for number in numbers] for strings in (self.segment.ids, self.segment.texts))
        segment, errors = Segment.build(ids, texts, np.ones(len(numbers)), [""] * len(numbers), options)
        assert not errors, "every subscription of a segment was understood when it was built"
        return _Layer(segment, members, self.rank[members])


class BestMatches:
    """The layers of a segment under the scores of one view."""

    def __init__(self, ranked: Ranked, scores: Floats) -> None:
        self._ranked = ranked
        self._scores = scores
        self._segment = ranked.segment
        self._bounds: tuple[tuple[_Layer, ...], list[Bound]] = ((), [])

    @cached
    def _by_rank(self) -> Floats:
        """The scores in the order of ids: among the best, subscriptions go by their place there."""
        return self._scores[self._segment.id_order]

    def top_k(
        self, batch: EventBatch, left_out: Bools, judged: Mapping[int, Probed], k: int, options: Options
    ) -> tuple[Slices, Floats, Evidence]:
        """The best `k` matches of each event, best first, their scores, and the evidence."""
        if self._ranked.serve(k):
            evidence = Evidence(events=len(batch))
            starts, ranks = top_k_in_layers(self._plan(batch, left_out, evidence), len(batch), self._by_rank, k)
        else:
            pairs, evidence = self._segment.match_subscriptions(batch, judged)
            matches = np.bincount(pairs[:, 0], minlength=len(batch))
            best = nothing_yet(len(batch), min(k, int(matches.max(initial=0))))
            found = pairs[:, 1]
            scores, ranks = self._scores[found], self._ranked.rank[found]
            offer_matches(best, pairs, scores, ranks, left_out, self._segment.several)
            starts, ranks, _ = sort_best(best)
            self._ranked.learn(matches, evidence.candidates, self._scores, k, options)
        evidence.matches = ranks.size
        return Slices(starts, self._segment.id_order[ranks]), self._by_rank[ranks], evidence

    def _plan(self, batch: EventBatch, left_out: Bools, evidence: Evidence) -> list[Layer]:
        def match(layer: _Layer, rows: Int64) -> Int32:
            some = batch if rows.size == len(batch) else batch.take(rows)
            pairs, work = layer.segment.match_subscriptions(some)
            evidence.add(work)
            return pairs[~left_out[layer.owner[pairs[:, 1]]]] if left_out.size else pairs

        layers = self._ranked.layers
        if self._bounds[0] is not layers:
            self._bounds = (layers, self._find_bounds(layers))
        bounds = self._bounds[1]
        return [Layer(partial(match, layer), layer.rank, *bound) for layer, bound in zip(layers, bounds, strict=True)]

    def _find_bounds(self, layers: tuple[_Layer, ...]) -> list[Bound]:
        """The best that each layer has to offer and that no layer before it has."""
        bounds = []
        new = np.ones(len(self._segment), bool)
        for layer in layers:
            ranks = layer.rank[new[layer.rank]]
            new[ranks] = False
            best = self._by_rank[ranks].max(initial=-np.inf)
            first = ranks[self._by_rank[ranks] == best].min(initial=np.iinfo(np.int32).max)
            bounds.append((float(best), int(first)))
        return bounds
