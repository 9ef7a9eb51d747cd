"""Kernels of relaxed top-k and of selection from known matches."""

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Float64s, Int32s, Int64s
from tocsin.ranking.kernels import MAX, SUM, BestHeaps, offer


@kernel
def offer_lists(best: BestHeaps, offsets: Int64s, subscriptions: Int32s, scores: Float64s) -> None:
    """Offer each event its list of subscriptions; `scores` goes by subscription."""
    for event in range(offsets.size - 1):
        for match in range(offsets[event], offsets[event + 1]):
            offer(best, event, subscriptions[match], scores[subscriptions[match]])


@kernel
def offer_held(
    best: BestHeaps,
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
) -> Float64s:
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
