"""Exact top-k in layers: match the best subscriptions first, and stop at k."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.errors import OptionError
from tocsin.ranking.kernels import MAX, SUM, BestHeaps, offer_pairs, sort_best, unsettled
from tocsin.tuning import TUNING


class Layer(NamedTuple):
    """Conjunctions of some subscriptions, and the best that any of them could be.

    `match` goes from the rows of a batch to pairs (place among the rows, conjunction), in any order; `owner` is the
    subscription of each conjunction. A subscription may come up several times. After `rescore`, a layer stays right
    as long as nothing in it ranks before (`best_score`, `best_id`): raise them if need be.
    """

    match: Callable[[Int64s], Int32s]
    owner: Int32s
    best_score: float
    best_id: int

    @classmethod
    def of(cls, match: Callable[[Int64s], Int32s], owner: Int32s, scores: Float64s) -> "Layer":
        """Make a layer whose bound is the best of its subscriptions; one without any is never asked first."""
        if not owner.size:
            return cls(match, owner, -np.inf, np.iinfo(np.int32).max)
        best = scores[owner].max()
        return cls(match, owner, float(best), int(owner[scores[owner] == best].min()))


def top_k_in_layers(layers: Sequence[Layer], events: int, scores: Float64s, k: int) -> tuple[Int64s, Int32s]:
    """Return the best `k` matches of each event: match layers best first, each with the events it can still change.

    Layers may come from several segments and may overlap in score. An event is done when it has k matches and the
    best of the next layer ranks after its k-th.

    >>> scores = np.array([1.0, 2.0, 3.0])
    >>> def everything(members):
    ...     def match(rows):
    ...         return np.array([[place, c] for place in range(rows.size) for c in range(len(members))], np.int32)
    ...     return Layer.of(match, np.array(members, np.int32), scores)
    >>> offsets, ids = top_k_in_layers([everything([0, 1]), everything([2])], 2, scores, 2)
    >>> offsets.tolist(), ids.tolist()
    ([0, 2, 4], [2, 1, 2, 1])
    """
    best = nothing_yet(events, min(k, scores.size))
    rows = np.arange(events)
    for layer in sorted(layers, key=lambda layer: (-layer.best_score, layer.best_id)):
        rows = unsettled(best, rows, layer.best_score, layer.best_id)
        if not rows.size or k == 0:
            break
        offer_pairs(best, np.ascontiguousarray(layer.match(rows)), rows, layer.owner, scores)
    return sort_best(best)[:2]


def layer_sizes(subscriptions: int, k: int, typical_matches: float) -> list[int]:
    """Cut subscriptions, ordered by score, into layers for a top-k; one layer where cutting does not pay.

    `typical_matches` is the median number of matches of an event in a sample. Two or three layers come out: more of
    them would cost the events that stop late more than they save.

    >>> layer_sizes(1_000_000, 20, 1231.0)
    [48740, 951260]
    >>> layer_sizes(1_000_000, 20, 20_000.0)
    [3000, 48000, 949000]
    >>> layer_sizes(1_000_000, 20, 30.0)
    [1000000]
    """
    if k == 0 or typical_matches <= TUNING.layers_pay * k:
        return [subscriptions]
    sizes: list[int] = []
    size, left = max(int(TUNING.first_layer_matches * k / typical_matches * subscriptions), 1), subscriptions
    while left > 0:
        # What would remain for a layer smaller than the next should be joins this one.
        size = left if left < (1 + TUNING.layer_growth / 2) * size and sizes else min(size, left)
        sizes.append(size)
        left -= size
        size *= TUNING.layer_growth
    return sizes


def nothing_yet(events: int, k: int) -> BestHeaps:
    """Return an empty heap of `k` places for each event."""
    if k < 0:
        raise OptionError(f"k is {k}", "Ask for 0 or more")
    return BestHeaps(np.empty((events, k), np.int32), np.empty((events, k), np.float64), np.zeros(events, np.int64))


def kind_of(combine: str) -> int:
    """Return the kernel's number for the name of a combination."""
    kinds = {"sum": SUM, "max": MAX}
    if combine not in kinds:
        raise OptionError(f"combine is {combine!r}", "Use 'sum', 'max' or a function")
    return kinds[combine]
