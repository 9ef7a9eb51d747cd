"""What holds is learned from some of the events, and keys follow it without changing an answer."""

import numpy as np

from tocsin.conjunctions.key.drift import A_BATCH, EVERY, FIRST_LOOK, Drift
from tocsin.conjunctions.key.index import KeyIndex
from tocsin.conjunctions.protocol import Pairs

ALL, COUNT = 0, 50
"""Conjunction i is (i + 1 and ALL): by its name alone, ALL looks frequent."""


def matcher() -> KeyIndex:
    return index_of(np.array([[number + 1, ALL] for number in range(COUNT)], np.int32))


def index_of(conjunctions: np.ndarray) -> KeyIndex:
    """Two terms each, filed by how often a term is named."""
    terms, ids = conjunctions.ravel(), np.arange(len(conjunctions), dtype=np.int32)
    return KeyIndex.build(ids, np.arange(0, terms.size + 1, 2), terms, np.bincount(terms).astype(np.float64))


def batch(events: int, held: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(events + 1) * len(held), np.tile(np.array(held, np.int32), events)


def watched(key: KeyIndex, drift: Drift, events: int, held: list[int]) -> Pairs:
    offsets, tests = batch(events, held)
    drift.observe(offsets, tests)
    drift.join()
    return key.match(offsets, tests)


def test_keys_move_to_what_has_become_rare_and_answers_stay() -> None:
    key = matcher()
    drift = Drift(key)
    everything_but_all, everything = list(range(1, COUNT + 1)), list(range(COUNT + 1))
    pairs, candidates = watched(key, drift, 1, everything_but_all)
    assert (candidates, len(pairs), drift.rekeyed) == (COUNT, 0, 0)
    for _ in range(-(-FIRST_LOOK // A_BATCH)):
        watched(key, drift, 2 * A_BATCH, everything_but_all)
    _, candidates = watched(key, drift, 1, everything_but_all)
    assert (candidates, drift.rekeyed) == (0, 1)
    key.check()
    pairs, _ = key.match(*batch(1, everything))
    assert np.sort(pairs[:, 1]).tolist() == list(range(COUNT))


def test_keys_that_are_good_stay() -> None:
    key = matcher()
    drift = Drift(key)
    for number in range(40):
        watched(key, drift, A_BATCH, [ALL, 1 + number % COUNT])
    assert drift.looked_at >= 4 * FIRST_LOOK
    assert drift.rekeyed == 0
    now, best = key.cost(drift.shares())
    assert now == best


def test_single_events_are_looked_at_now_and_then() -> None:
    key = matcher()
    drift = Drift(key)
    for _ in range(EVERY * (COUNT + 2)):
        drift.observe(*batch(1, [ALL]))
    assert 0 < drift.looked_at <= COUNT + 3
    assert drift.shares()[ALL] > 0.5


def test_chance_makes_no_drift() -> None:
    """Both terms of each conjunction hold equally seldom: what few events show is luck."""
    random = np.random.default_rng(3)
    key = index_of(random.integers(0, 2_000, (10_000, 2)).astype(np.int32))
    drift = Drift(key)
    for _ in range(40):
        held = np.nonzero(random.random((A_BATCH, 2_000)) < 0.002)
        drift.observe(np.searchsorted(held[0], np.arange(A_BATCH + 1)), held[1].astype(np.int32))
        drift.join()
    assert drift.looked_at >= 4 * FIRST_LOOK
    assert drift.rekeyed == 0
