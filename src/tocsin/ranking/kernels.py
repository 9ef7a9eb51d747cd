"""The best k matches of each event: a heap for each, and the kernels that offer matches to it."""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Float64s, Int32s, Int64s, UInt8s
from tocsin.conjunctions.boolean.kernels import MAX_LEVELS
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Events

SUM, MAX, EXACT = 0, 1, 2
"""How the weights of a conjunction become a score: their sum or the largest, of the predicates that hold. EXACT: all
its predicates must hold, and it has the score of its subscription."""


@kernel
def _worse(score: float, identity: int, than_score: float, than_identity: int) -> bool:
    """Tell whether a subscription ranks after another: a lower score, or the same with a larger id."""
    return score < than_score or (score == than_score and identity > than_identity)


class BestHeaps(NamedTuple):
    """The best k matches of each event so far: a row is a heap with the worst of them on top."""

    ids: Int32s
    scores: Float64s
    sizes: Int64s


class Weighed(NamedTuple):
    """Subscriptions as lists of conjunctions, and conjunctions as lists of predicates with weights."""

    conjunctions: Int64s
    """Where the conjunctions of each subscription start; one more entry at the end."""
    predicates: Int64s
    """Where the predicates of each conjunction start; one more entry at the end."""
    column: Int32s
    """Of each predicate; -1 if it is a test."""
    first: Int32s
    """Its first range, or its test."""
    end: Int32s
    """The end of its ranges, or the truth values that it accepts."""
    attribute: Int32s
    weight: Float64s
    low: Int32s
    high: Int32s
    null_column: Int32s
    """For each test, the column whose NULL makes the test NULL; or -1."""
    leaf_starts: Int64s
    """Where the leaves of each subscription start, if it is a tree of its conjunctions; one more entry at the end."""
    opens: UInt8s
    closes: UInt8s
    """For each leaf: how many nodes of the tree begin in front of it, and how many end behind it."""


class Asked(NamedTuple):
    """How subscriptions are scored, and which."""

    kind: int
    """SUM, MAX or EXACT."""
    factors: Float64s
    """By attribute."""
    left_out: Bools
    """By subscription; empty if none is left out."""
    scores: Float64s
    """By subscription, for EXACT."""
    identity: Int32s
    """What each subscription is called among the best: equal scores go by it."""


@kernel
def _sink(best: BestHeaps, event: int, size: int, identity: int, score: float) -> None:
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
def offer(best: BestHeaps, event: int, identity: int, score: float) -> None:
    """Take in a match if it is among the best and not there yet. Most of a long list is rejected at once."""
    ids = best.ids[event]
    size = best.sizes[event]
    if size == ids.size and (size == 0 or not _worse(best.scores[event, 0], ids[0], score, identity)):
        return
    for place in range(size):
        if ids[place] == identity:
            return
    offer_once(best, event, identity, score)


@kernel
def offer_once(best: BestHeaps, event: int, identity: int, score: float) -> None:
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
def offer_pairs(best: BestHeaps, pairs: Int32s, rows: Int64s, owner: Int32s, scores: Float64s) -> None:
    """Offer pairs (e, c) in any order: the event is `rows[e]` and the subscription `owner[c]`."""
    for match in range(len(pairs)):
        subscription = owner[pairs[match, 1]]
        offer(best, rows[pairs[match, 0]], subscription, scores[subscription])


@kernel
def unsettled(best: BestHeaps, rows: Int64s, score: float, identity: int) -> Int64s:
    """Return the rows that a match as good as (score, identity) would change: with room, or a worse one on top."""
    left = np.empty(rows.size, np.int64)
    count = 0
    k = best.ids.shape[1]
    for row in rows:
        if best.sizes[row] < k or (k > 0 and _worse(best.scores[row, 0], best.ids[row, 0], score, identity)):
            left[count] = row
            count += 1
    return left[:count].copy()


@kernel
def sort_best(best: BestHeaps) -> tuple[Int64s, Int32s, Float64s]:
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
def offer_matches(
    best: BestHeaps, pairs: Int32s, scores: Float64s, identity: Int32s, left_out: Bools, several: Bools
) -> None:
    """Offer pairs (event, subscription) in any order, with the score and the identity of each pair.

    The caller gathers those for all pairs at once, since gathering them one by one waits for memory each time. Most of
    many matches are rejected by their score: selecting from lists by event took 1.9 times as long (200,000
    subscriptions, 1,600 matches an event, k = 20). Only subscriptions with `several` conjunctions come more than once;
    that array and `left_out` go by subscription, and are empty if they would be false throughout.
    """
    k = best.ids.shape[1]
    some_left_out = left_out.size > 0
    some_come_again = several.size > 0
    for place in range(len(pairs)):
        event = pairs[place, 0]
        subscription = pairs[place, 1]
        score = scores[place]
        if best.sizes[event] == k and (k == 0 or score < best.scores[event, 0]):
            continue
        if some_left_out and left_out[subscription]:
            continue
        if some_come_again and several[subscription]:
            offer(best, event, identity[place], score)
        else:
            offer_once(best, event, identity[place], score)


@kernel
def _set_truths(truth: UInt8s, weighed: Weighed, events: Events, event: int) -> None:
    """Write the truth value of every test for an event."""
    for test in range(truth.size):
        column = weighed.null_column[test]
        truth[test] = NULL if column >= 0 and events.codes[column, event] < 0 else FALSE
    for place in range(events.null_starts[event], events.null_starts[event + 1]):
        truth[events.null[place]] = NULL
    for place in range(events.true_starts[event], events.true_starts[event + 1]):
        truth[events.true[place]] = TRUE


@kernel
def _holds(weighed: Weighed, truth: UInt8s, latest: Int32s, earliest: Int32s, event: int, predicate: int) -> bool:
    """Whether a predicate holds for an event."""
    column = weighed.column[predicate]
    if column < 0:
        return bool((truth[weighed.first[predicate]] & weighed.end[predicate]) != 0)
    for row in range(weighed.first[predicate], weighed.end[predicate]):
        if weighed.low[row] <= latest[column, event] and weighed.high[row] >= earliest[column, event]:
            return True
    return False


@kernel
def _weigh(
    weighed: Weighed, asked: Asked, truth: UInt8s, latest: Int32s, earliest: Int32s, event: int, conjunction: int
) -> tuple[int, float]:
    """How many predicates of a conjunction hold, and the weight of them; for EXACT all hold or none counts."""
    held = 0
    total = 0.0
    begin, end = weighed.predicates[conjunction], weighed.predicates[conjunction + 1]
    for predicate in range(begin, end):
        if _holds(weighed, truth, latest, earliest, event, predicate):
            weight = asked.factors[weighed.attribute[predicate]] * weighed.weight[predicate]
            if asked.kind == SUM or held == 0:
                total += weight
            elif weight > total:
                total = weight
            held += 1
        elif asked.kind == EXACT:
            return -1, 0.0
    return held, total


@kernel
def weigh_tree(opens: UInt8s, closes: UInt8s, held: Int64s, total: Float64s, kind: int) -> tuple[bool, float]:
    """Whether something of a tree counts, and its score, given how many predicates of each leaf hold and their weight.

    It is the score of the best conjunction that the tree could be multiplied into. A node has its best score with
    something that holds, and maybe 0 with nothing that holds: an OR takes the best child, an AND adds the best of all
    children or, for MAX, takes the greatest. For EXACT leaves with -1 are FALSE.
    """
    found = np.zeros(MAX_LEVELS, np.bool_)
    best = np.zeros(MAX_LEVELS, np.float64)
    # Of an AND: the best score of one child alone, and whether `best` has something that holds.
    alone = np.zeros(MAX_LEVELS, np.float64)
    something = np.zeros(MAX_LEVELS, np.bool_)
    # Whether nothing of the node need hold; for EXACT, whether it is TRUE.
    empty = np.zeros(MAX_LEVELS, np.bool_)
    depth = -1
    child_found, child_best, child_empty = False, 0.0, False
    for leaf in range(opens.size):
        for _ in range(opens[leaf]):
            depth += 1
            found[depth], best[depth], alone[depth], something[depth] = False, 0.0, 0.0, False
            empty[depth] = depth % 2 == 1
        child_found, child_best = held[leaf] > 0, total[leaf]
        child_empty = held[leaf] >= 0 if kind == EXACT else held[leaf] == 0
        for level in range(closes[leaf] + 1):
            if level > 0:
                if depth % 2 and kind == SUM and found[depth] and not something[depth]:
                    best[depth] = alone[depth]
                child_found, child_best, child_empty = found[depth], best[depth], empty[depth]
                depth -= 1
                if depth < 0:
                    break
            if depth % 2 == 0:
                empty[depth] = empty[depth] or child_empty
                if child_found and (not found[depth] or child_best > best[depth]):
                    best[depth] = child_best
            else:
                empty[depth] = empty[depth] and child_empty
                if child_found:
                    if not found[depth] or child_best > alone[depth]:
                        alone[depth] = child_best
                    if kind != SUM:
                        best[depth] = alone[depth]
                    elif not child_empty or child_best > 0.0:
                        best[depth] += child_best
                        something[depth] = True
            found[depth] = found[depth] or child_found
    return (child_empty, 0.0) if kind == EXACT else (child_found, child_best)


@kernel
def hold_attributes(
    weighed: Weighed, factors: Float64s, events: Events, latest: Int32s, earliest: Int32s, event: int
) -> tuple[Int64s, Float64s]:
    """How many predicates of each conjunction hold for an event, and their weights by attribute.

    When a range holds is told at `offer_weighed`.
    """
    truth = np.empty(weighed.null_column.size, np.uint8)
    _set_truths(truth, weighed, events, event)
    conjunctions = weighed.predicates.size - 1
    held, weights = np.zeros(conjunctions, np.int64), np.zeros((conjunctions, factors.size), np.float64)
    for conjunction in range(conjunctions):
        for predicate in range(weighed.predicates[conjunction], weighed.predicates[conjunction + 1]):
            if _holds(weighed, truth, latest, earliest, event, predicate):
                attribute = weighed.attribute[predicate]
                held[conjunction] += 1
                weights[conjunction, attribute] += factors[attribute] * weighed.weight[predicate]
    return held, weights


@kernel
def offer_weighed(
    best: BestHeaps, weighed: Weighed, asked: Asked, events: Events, latest: Int32s, earliest: Int32s
) -> None:
    """Offer each event every subscription of which something holds, with the best score of its conjunctions.

    A range of codes holds if low <= latest[column, event] and high >= earliest[column, event]. For a value both are its
    code; for an interval of the event they are its ends: the last and the first for ranges that overlap it, the first
    and the last for ranges that contain it.
    """
    truth = np.empty(weighed.null_column.size, np.uint8)
    held_of, total_of = np.empty(weighed.opens.size, np.int64), np.empty(weighed.opens.size, np.float64)
    for event in range(events.codes.shape[1]):
        _set_truths(truth, weighed, events, event)
        for subscription in range(weighed.conjunctions.size - 1):
            if asked.left_out.size > 0 and asked.left_out[subscription]:
                continue
            found = False
            score = 0.0
            leaf, end = weighed.leaf_starts[subscription], weighed.leaf_starts[subscription + 1]
            if leaf < end:
                for number in range(end - leaf):
                    conjunction = weighed.conjunctions[subscription] + number
                    held_of[number], total_of[number] = _weigh(
                        weighed, asked, truth, latest, earliest, event, conjunction
                    )
                found, score = weigh_tree(
                    weighed.opens[leaf:end], weighed.closes[leaf:end], held_of, total_of, asked.kind
                )
            else:
                for conjunction in range(weighed.conjunctions[subscription], weighed.conjunctions[subscription + 1]):
                    held, total = _weigh(weighed, asked, truth, latest, earliest, event, conjunction)
                    if asked.kind == EXACT:
                        if held >= 0:
                            found = True
                            break
                    elif held > 0 and (not found or total > score):
                        found = True
                        score = total
            if found:
                score = asked.scores[subscription] if asked.kind == EXACT else score
                offer(best, event, asked.identity[subscription], score)
