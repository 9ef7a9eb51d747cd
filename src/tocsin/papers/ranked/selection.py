"""Select the best k from matches or predicates that are known."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.papers.ranked.weight_kernels import offer_held, offer_lists
from tocsin.ranking.kernels import offer_pairs, sort_best
from tocsin.ranking.select import kind_of, nothing_yet


def select_k(
    offsets: npt.ArrayLike, subscriptions: npt.ArrayLike, scores: npt.ArrayLike, k: int
) -> tuple[Int64s, Int32s]:
    """Keep the best `k` distinct matches of each event, best first, equal scores by id: offsets and subscriptions.

    `scores` goes by subscription. Costs little more than one look a match, and log k for those that are kept.

    >>> [part.tolist() for part in select_k([0, 3, 4], [0, 1, 2, 1], [1.0, 3.0, 2.0], 2)]
    [[0, 2, 3], [1, 2, 1]]
    """
    starts = np.ascontiguousarray(offsets, np.int64)
    best = nothing_yet(starts.size - 1, min(k, int(np.diff(starts).max(initial=0))))
    offer_lists(best, starts, np.ascontiguousarray(subscriptions, np.int32), np.ascontiguousarray(scores, np.float64))
    return sort_best(best)[:2]


def select_from_pairs(pairs: Int32s, owner: Int32s, events: int, scores: Float64s, k: int) -> tuple[Int64s, Int32s]:
    """Do what `select_k` does for (event, conjunction) pairs in any order; `owner` goes by conjunction.

    >>> pairs = np.array([[1, 0], [0, 0], [0, 2], [0, 1]], np.int32)
    >>> owner = np.array([0, 1, 1], np.int32)
    >>> [part.tolist() for part in select_from_pairs(pairs, owner, 2, np.array([1.0, 3.0]), 2)]
    [[0, 2, 3], [1, 0, 0]]
    """
    best = nothing_yet(events, min(k, scores.size))
    offer_pairs(best, np.ascontiguousarray(pairs), np.arange(events), owner, scores)
    return sort_best(best)[:2]


class Postings(NamedTuple):
    """The subscriptions of each predicate with their weights: predicate p has `offsets[p]` to `offsets[p + 1]`."""

    offsets: Int64s
    subscriptions: Int32s
    weights: Float64s


def top_k_of_held(
    held_offsets: Int64s, held: Int32s, postings: Postings, subscriptions: int, k: int, combine: str = "sum"
) -> tuple[Int64s, Int32s, Float64s]:
    """Return the best `k` subscriptions of each event by the weights of its predicates that hold, of whatever kind.

    This is counting: it costs the postings of all predicates that hold. Weights are added in the order that predicates
    come in, so give them in one order. Returns offsets by event, subscriptions and their scores.

    >>> postings = Postings(np.array([0, 2, 3]), np.array([0, 1, 0], np.int32), np.array([1.0, 1.5, 1.0]))
    >>> [part.tolist() for part in top_k_of_held(np.array([0, 2, 3]), np.array([0, 1, 0], np.int32), postings, 2, 1)]
    [[0, 1, 2], [0, 1], [2.0, 1.5]]
    """
    best = nothing_yet(held_offsets.size - 1, min(k, subscriptions))
    offer_held(best, kind_of(combine), held_offsets, held, *postings, subscriptions)
    return sort_best(best)
