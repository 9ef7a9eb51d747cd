"""The best k of the matches of a segment; and of all its subscriptions, scored predicate by predicate."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.conjunctions.pairs.kernels import Events
from tocsin.ranking.kernels import MAX, SUM, Best, offer, offer_once

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

EXACT = 2
"""As a combination: a conjunction counts if all its predicates hold, and with the score of its subscription."""

_TRUE, _FALSE, _NULL = 1, 2, 4


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
def offer_matches(
    best: Best, pairs: Int32s, scores: Float64s, identity: Int32s, left_out: Bools, several: Bools
) -> None:
    """Offer pairs (event, subscription) in any order, with the score and the identity of each pair.

    Those are gathered before, all at once: a look into a large array that waits for the one before it is dear. Most of
    many matches are turned away by their score. Only subscriptions with `several` conjunctions come more than once;
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
def _set_truths(truth: npt.NDArray[np.uint8], weighed: Weighed, events: Events, event: int) -> None:
    """Note the truth value of every test for an event."""
    for test in range(truth.size):
        column = weighed.null_column[test]
        truth[test] = _NULL if column >= 0 and events.codes[column, event] < 0 else _FALSE
    for place in range(events.null_starts[event], events.null_starts[event + 1]):
        truth[events.null[place]] = _NULL
    for place in range(events.true_starts[event], events.true_starts[event + 1]):
        truth[events.true[place]] = _TRUE


@kernel
def offer_weighed(best: Best, weighed: Weighed, asked: Asked, events: Events, latest: Int32s, earliest: Int32s) -> None:
    """Offer each event every subscription of which something holds, with the best score of its conjunctions.

    A range of codes holds if it begins at `latest[column, event]` or before and ends at `earliest[column, event]` or
    behind; both are the code of a value, and for an event's interval its ends, in the order that the question asks.
    """
    truth = np.empty(weighed.null_column.size, np.uint8)
    for event in range(events.codes.shape[1]):
        _set_truths(truth, weighed, events, event)
        for subscription in range(weighed.conjunctions.size - 1):
            if asked.left_out.size > 0 and asked.left_out[subscription]:
                continue
            found = False
            score = 0.0
            for conjunction in range(weighed.conjunctions[subscription], weighed.conjunctions[subscription + 1]):
                held = 0
                total = 0.0
                begin, end = weighed.predicates[conjunction], weighed.predicates[conjunction + 1]
                for predicate in range(begin, end):
                    column = weighed.column[predicate]
                    holds = False
                    if column < 0:
                        holds = (truth[weighed.first[predicate]] & weighed.end[predicate]) != 0
                    else:
                        for row in range(weighed.first[predicate], weighed.end[predicate]):
                            if (
                                weighed.low[row] <= latest[column, event]
                                and weighed.high[row] >= earliest[column, event]
                            ):
                                holds = True
                                break
                    if holds:
                        weight = asked.factors[weighed.attribute[predicate]] * weighed.weight[predicate]
                        if asked.kind == SUM or held == 0:
                            total += weight
                        elif weight > total:
                            total = weight
                        held += 1
                    elif asked.kind == EXACT:
                        break
                if asked.kind == EXACT:
                    if held == end - begin:
                        found = True
                        score = asked.scores[subscription]
                        break
                elif held > 0 and (not found or total > score):
                    found = True
                    score = total
            if found:
                offer(best, event, asked.identity[subscription], score)


__all__ = ["EXACT", "MAX", "SUM", "Asked", "Weighed", "offer_matches", "offer_weighed"]
