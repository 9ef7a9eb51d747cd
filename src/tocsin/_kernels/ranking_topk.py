"""The best k: selection from known matches, and the weights of subscriptions for one event."""

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SUM, MAX = 0, 1


@kernel
def _worse(score: float, identity: int, than_score: float, than_identity: int) -> bool:
    """Whether a subscription ranks after another: a lower score, or the same with a larger id."""
    return score < than_score or (score == than_score and identity > than_identity)


@kernel
def select_best(offsets: Int64s, subscriptions: Int32s, scores: Float64s, k: int) -> tuple[Int64s, Int32s]:
    """Keep, for each event, the best `k` of its matches, best first.

    `scores` goes by subscription. A heap of k holds the best so far with the worst of them on top, so that most
    matches of a long list are turned away by one comparison.
    """
    events = offsets.size - 1
    kept = np.zeros(events + 1, np.int64)
    for event in range(events):
        kept[event + 1] = kept[event] + min(k, offsets[event + 1] - offsets[event])
    best = np.empty(kept[events], np.int32)
    keys = np.empty(kept[events], np.float64)
    for event in range(events):
        first = kept[event]
        room = kept[event + 1] - first
        size = 0
        for match in range(offsets[event], offsets[event + 1]):
            if room == 0:
                break
            identity = subscriptions[match]
            score = scores[identity]
            if size < room:
                place = size
                size += 1
                while place > 0:
                    above = (place - 1) // 2
                    if not _worse(score, identity, keys[first + above], best[first + above]):
                        break
                    best[first + place] = best[first + above]
                    keys[first + place] = keys[first + above]
                    place = above
                best[first + place] = identity
                keys[first + place] = score
            elif _worse(keys[first], best[first], score, identity):
                _replace_top(best, keys, first, room, identity, score)
        while size > 1:
            size -= 1
            identity = best[first]
            score = keys[first]
            _replace_top(best, keys, first, size, best[first + size], keys[first + size])
            best[first + size] = identity
            keys[first + size] = score
    return kept, best


@kernel
def _replace_top(best: Int32s, keys: Float64s, first: int, size: int, identity: int, score: float) -> None:
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _worse(
            keys[first + child + 1], best[first + child + 1], keys[first + child], best[first + child]
        ):
            child += 1
        if not _worse(keys[first + child], best[first + child], score, identity):
            break
        best[first + place] = best[first + child]
        keys[first + place] = keys[first + child]
        place = child
    best[first + place] = identity
    keys[first + place] = score


@kernel
def combine_weights(
    kind: int,
    coefficients: Float64s,
    subscriptions: Int32s,
    offsets: Int64s,
    attribute: Int32s,
    lo: Int32s,
    hi: Int32s,
    weight: Float64s,
    present: Bools,
    latest_lo: Int64s,
    earliest_hi: Int64s,
) -> Float64s:
    """The combined weight of each subscription for one event, adding in the order of attributes.

    What does not hold counts 0, also for MAX unless every attribute holds.
    """
    scores = np.zeros(subscriptions.size, np.float64)
    for index in range(subscriptions.size):
        held = 0
        total = 0.0
        for row in range(offsets[subscriptions[index]], offsets[subscriptions[index] + 1]):
            name = attribute[row]
            if present[name] and lo[row] <= latest_lo[name] and hi[row] >= earliest_hi[name]:
                value = coefficients[name] * weight[row]
                if kind == SUM:
                    total += value
                elif held == 0 or value > total:
                    total = value
                held += 1
        if kind == MAX and held < present.size and total < 0.0:
            total = 0.0
        scores[index] = total
    return scores


@kernel
def held_weights(
    subscriptions: Int32s,
    offsets: Int64s,
    attribute: Int32s,
    lo: Int32s,
    hi: Int32s,
    weight: Float64s,
    present: Bools,
    latest_lo: Int64s,
    earliest_hi: Int64s,
) -> npt.NDArray[np.float64]:
    """A row of weights by attribute for each subscription, 0 where its predicate does not hold or is not there."""
    table = np.zeros((subscriptions.size, present.size), np.float64)
    for index in range(subscriptions.size):
        for row in range(offsets[subscriptions[index]], offsets[subscriptions[index] + 1]):
            name = attribute[row]
            if present[name] and lo[row] <= latest_lo[name] and hi[row] >= earliest_hi[name]:
                table[index, name] = weight[row]
    return table


@kernel
def unseen(subscriptions: Int32s, seen: Bools) -> Int32s:
    """Those that come for the first time; they count as seen from now on."""
    fresh = np.empty(subscriptions.size, np.int32)
    count = 0
    for subscription in subscriptions:
        if not seen[subscription]:
            seen[subscription] = True
            fresh[count] = subscription
            count += 1
    return fresh[:count].copy()


@kernel
def add_weights(partial: Float64s, seen: Bools, subscriptions: Int32s, weights: Float64s, factor: float) -> Int32s:
    """Add a list of weights to the sums of their subscriptions; return those that come for the first time."""
    fresh = np.empty(subscriptions.size, np.int32)
    count = 0
    for index in range(subscriptions.size):
        subscription = subscriptions[index]
        partial[subscription] += factor * weights[index]
        if not seen[subscription]:
            seen[subscription] = True
            fresh[count] = subscription
            count += 1
    return fresh[:count].copy()
