"""The kernels of relaxed top-k and of selection, against NumPy."""

import numpy as np
import pytest

from tocsin.papers.ranked.weight_kernels import (
    add_weights,
    combine_weights,
    held_weights,
    offer_held,
    offer_lists,
    unseen,
)
from tocsin.ranking.kernels import MAX, SUM, sort_best
from tocsin.ranking.select import nothing_yet


@pytest.mark.parametrize("kind", [SUM, MAX])
@pytest.mark.parametrize("seed", range(3))
def test_combine_and_held_weights(seed: int, kind: int) -> None:
    random = np.random.default_rng(seed)
    attributes, count = 3, 10
    has = random.random((count, attributes)) < 0.7
    offsets = np.cumsum([0, *has.sum(axis=1)])
    attribute = np.nonzero(has)[1].astype(np.int32)
    lo = random.integers(0, 6, attribute.size).astype(np.int32)
    hi = lo + random.integers(0, 4, attribute.size).astype(np.int32)
    weight = random.integers(-3, 6, attribute.size).astype(float)
    present = np.array([True, True, seed % 2 == 0])
    latest, earliest = np.array([4, 5, 6]), np.array([3, 5, 2])
    chosen = random.permutation(count)[:7].astype(np.int32)
    holds = present[attribute] & (lo <= latest[attribute]) & (hi >= earliest[attribute])
    table = np.zeros((count, attributes))
    table[has] = np.where(holds, weight, 0)
    ranges = chosen, offsets, attribute, lo, hi, weight, present, latest, earliest
    assert np.array_equal(held_weights(*ranges), table[chosen])
    factors = np.array([1.0, 2.0, 0.5])
    combined = (table * factors).sum(axis=1) if kind == SUM else (table * factors).max(axis=1)
    assert np.allclose(combine_weights(kind, factors, *ranges), combined[chosen])


def test_unseen_and_add_weights() -> None:
    seen = np.array([False, True, False, False])
    assert unseen(np.array([2, 1, 2, 0], np.int32), seen).tolist() == [2, 0]
    assert seen.tolist() == [True, True, True, False]
    random = np.random.default_rng(0)
    members, subscriptions = random.permutation(8).astype(np.int32), random.integers(0, 5, 8).astype(np.int32)
    weights, found = random.random(8), np.array([1, 4, 5, 7], np.int32)
    partial, seen = np.zeros(5), np.zeros(5, bool)
    fresh = add_weights(partial, seen, found, members, subscriptions, weights, 2.0)
    touched = subscriptions[members[found]]
    assert np.allclose(partial, np.bincount(touched, 2.0 * weights[members[found]], minlength=5))
    assert fresh.tolist() == list(dict.fromkeys(touched.tolist()))
    assert np.flatnonzero(seen).tolist() == np.unique(touched).tolist()


@pytest.mark.parametrize("kind", [SUM, MAX])
def test_offer_held_and_offer_lists(kind: int) -> None:
    random = np.random.default_rng(kind)
    posted = random.random((6, 9)) < 0.4
    weights = np.where(posted, random.integers(1, 9, posted.shape), 0).astype(float)
    held = random.random((4, 6)) < 0.5
    best = nothing_yet(4, 3)
    arrays = np.cumsum([0, *held.sum(axis=1)]), np.nonzero(held)[1].astype(np.int32)
    subscriptions = np.nonzero(posted)[1].astype(np.int32)
    offer_held(best, kind, *arrays, np.cumsum([0, *posted.sum(axis=1)]), subscriptions, weights[posted], 9)
    offsets, ids, scores = sort_best(best)
    lists = nothing_yet(4, 3)
    for event in range(4):
        of_event = weights[held[event]]
        total = (of_event.sum(axis=0) if kind == SUM else of_event.max(axis=0, initial=0)) * (of_event > 0).any(axis=0)
        order = np.lexsort((np.arange(9), -total))[: min(3, np.count_nonzero(total))]
        assert ids[offsets[event] : offsets[event + 1]].tolist() == order.tolist()
        assert scores[offsets[event] : offsets[event + 1]].tolist() == total[order].tolist()
    score = random.random(9)
    offer_lists(lists, arrays[0], arrays[1], score)
    offsets, ids, _ = sort_best(lists)
    for event in range(4):
        numbers = np.flatnonzero(held[event])
        assert ids[offsets[event] : offsets[event + 1]].tolist() == numbers[np.argsort(-score[numbers])][:3].tolist()
