"""The best k: selection from known matches, and the weights of subscriptions for one event."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SUM, MAX = 0, 1


@kernel
def _worse(score: float, identity: int, than_score: float, than_identity: int) -> bool:
    """Whether a subscription ranks after another: a lower score, or the same with a larger id."""
    return score < than_score or (score == than_score and identity > than_identity)


class Best(NamedTuple):
    """The best k matches of each event so far: a row is a heap with the worst of them on top."""

    ids: Int32s
    scores: Float64s
    sizes: Int64s


@kernel
def _sink(best: Best, event: int, size: int, identity: int, score: float) -> None:
    """Put a match in place of the top of a heap of `size` and let it sink."""
    ids = best.ids[event]
    scores = best.scores[event]
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _worse(scores[child + 1], ids[child + 1], scores[child], ids[child]):
            child += 1
        if not _worse(scores[child], ids[child], score, identity):
            break
        ids[place] = ids[child]
        scores[place] = scores[child]
        place = child
    ids[place] = identity
    scores[place] = score


@kernel
def offer(best: Best, event: int, identity: int, score: float) -> None:
    """Take in a match if it is among the best and not there yet. Most of a long list is turned away at once."""
    ids = best.ids[event]
    size = best.sizes[event]
    if size == ids.size and (size == 0 or not _worse(best.scores[event, 0], ids[0], score, identity)):
        return
    for place in range(size):
        if ids[place] == identity:
            return
    offer_once(best, event, identity, score)


@kernel
def offer_once(best: Best, event: int, identity: int, score: float) -> None:
    """Take in a match if it is among the best; it must not be there yet."""
    ids = best.ids[event]
    scores = best.scores[event]
    size = best.sizes[event]
    if size == ids.size and (size == 0 or not _worse(scores[0], ids[0], score, identity)):
        return
    if size == ids.size:
        _sink(best, event, size, identity, score)
        return
    best.sizes[event] = size + 1
    place = size
    while place > 0:
        above = (place - 1) // 2
        if not _worse(score, identity, scores[above], ids[above]):
            break
        ids[place] = ids[above]
        scores[place] = scores[above]
        place = above
    ids[place] = identity
    scores[place] = score


@kernel
def offer_lists(best: Best, offsets: Int64s, subscriptions: Int32s, scores: Float64s) -> None:
    """Offer each event its list of subscriptions; `scores` goes by subscription."""
    for event in range(offsets.size - 1):
        for match in range(offsets[event], offsets[event + 1]):
            offer(best, event, subscriptions[match], scores[subscriptions[match]])


@kernel
def offer_pairs(best: Best, pairs: Int32s, rows: Int64s, owner: Int32s, scores: Float64s) -> None:
    """Offer pairs (e, c) in any order: the event is `rows[e]` and the subscription `owner[c]`."""
    for match in range(len(pairs)):
        subscription = owner[pairs[match, 1]]
        offer(best, rows[pairs[match, 0]], subscription, scores[subscription])


@kernel
def unsettled(best: Best, rows: Int64s, score: float, identity: int) -> Int64s:
    """Those rows that a match as good as (score, identity) would change: the heap has room, or its worst is worse."""
    left = np.empty(rows.size, np.int64)
    count = 0
    k = best.ids.shape[1]
    for row in rows:
        if best.sizes[row] < k or (k > 0 and _worse(best.scores[row, 0], best.ids[row, 0], score, identity)):
            left[count] = row
            count += 1
    return left[:count].copy()


@kernel
def sort_best(best: Best) -> tuple[Int64s, Int32s, Float64s]:
    """Empty the heaps: offsets by event, and the subscriptions of each event with their scores, best first."""
    events = best.sizes.size
    offsets = np.zeros(events + 1, np.int64)
    for event in range(events):
        offsets[event + 1] = offsets[event] + best.sizes[event]
    found = np.empty(offsets[events], np.int32)
    scores = np.empty(offsets[events], np.float64)
    for event in range(events):
        for size in range(best.sizes[event] - 1, -1, -1):
            found[offsets[event] + size] = best.ids[event, 0]
            scores[offsets[event] + size] = best.scores[event, 0]
            _sink(best, event, size, best.ids[event, size], best.scores[event, size])
        best.sizes[event] = 0
    return offsets, found, scores


@kernel
def offer_held(
    best: Best,
    kind: int,
    held_offsets: Int64s,
    held: Int32s,
    posting_offsets: Int64s,
    subscriptions: Int32s,
    weights: Float64s,
    subscription_count: int,
) -> None:
    """Offer each event the subscriptions of its predicates, with their weights combined in the order of predicates.

    Event e holds `held[held_offsets[e] : held_offsets[e + 1]]`; predicate p has the postings `posting_offsets[p]` to
    `posting_offsets[p + 1]`.
    """
    total = np.zeros(subscription_count, np.float64)
    last_event = np.full(subscription_count, -1, np.int64)
    touched = np.empty(subscription_count, np.int32)
    for event in range(held_offsets.size - 1):
        count = 0
        for place in range(held_offsets[event], held_offsets[event + 1]):
            for posting in range(posting_offsets[held[place]], posting_offsets[held[place] + 1]):
                subscription = subscriptions[posting]
                weight = weights[posting]
                if last_event[subscription] != event:
                    last_event[subscription] = event
                    total[subscription] = weight
                    touched[count] = subscription
                    count += 1
                elif kind == SUM:
                    total[subscription] += weight
                elif weight > total[subscription]:
                    total[subscription] = weight
        for index in range(count):
            offer(best, event, touched[index], total[touched[index]])


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
def add_weights(
    partial: Float64s,
    seen: Bools,
    found: Int32s,
    members: Int32s,
    subscriptions: Int32s,
    weights: Float64s,
    factor: float,
) -> Int32s:
    """Add the weights of rows `members[found]` to the sums of their subscriptions; return the new ones."""
    fresh = np.empty(found.size, np.int32)
    count = 0
    for place in found:
        row = members[place]
        subscription = subscriptions[row]
        partial[subscription] += factor * weights[row]
        if not seen[subscription]:
            seen[subscription] = True
            fresh[count] = subscription
            count += 1
    return fresh[:count].copy()
