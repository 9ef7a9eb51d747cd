"""Key keeps the contract of phase 2 under every policy, and does only the work it promises."""

import numpy as np
import pytest

from contracts.conjunction_matcher_contract import ConjunctionMatcherContract, Terms
from tocsin.conjunctions.key.drift import Frequencies, worth_rekeying
from tocsin.conjunctions.key.index import Key, Policy
from tocsin.conjunctions.key.terms import ConjunctionMatcher, csr
from tocsin.errors import OptionError


class TestKeyRarest(ConjunctionMatcherContract):
    kind = Key


class WithPolicy(ConjunctionMatcherContract):
    policy: Policy

    def make(
        self, conjunctions: list[Terms], predicates: int, frequency: list[float] | None = None
    ) -> ConjunctionMatcher:
        slices = csr([np.array(t, np.int32) for t in conjunctions])
        return Key.build(*slices, predicates, frequency, policy=self.policy)


class TestKeyRandom(WithPolicy):
    policy: Policy = "random"


class TestKeyFirst(WithPolicy):
    policy: Policy = "first"


class TestKeyLast(WithPolicy):
    policy: Policy = "last"


def candidates(policy: Policy, held: list[int]) -> int:
    """Two conjunctions, "0 and 1" and "0 and 2", where predicate 0 holds most often."""
    matcher = Key.build([0, 2, 4], [0, 1, 0, 2], 3, [0.9, 0.2, 0.1], policy)
    return matcher.match_batch(np.array([0, len(held)]), np.array(held, np.int32)).candidates


def test_the_policy_decides_which_conjunctions_are_looked_at() -> None:
    assert candidates("first", [0]) == 2
    assert candidates("last", [0]) == 0
    assert candidates("rarest", [0]) == 0
    assert candidates("rarest", [0, 1]) == 1


def test_a_conjunction_without_required_terms_is_looked_at_always() -> None:
    matcher = Key.build([0, 1, 2], [~0, 1], 2)
    assert matcher.unkeyed == 1
    found = matcher.match_batch(np.array([0, 0, 1]), np.array([0], np.int32))
    assert (found.offsets.tolist(), found.conjunctions.tolist(), found.candidates) == ([0, 1, 1], [0], 2)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(OptionError, match="Choose one of rarest, random, first, last"):
        Key.build([0], [], 0, policy="best")  # type: ignore[arg-type]  # the wrong value is the point


def test_keys_follow_what_events_show() -> None:
    """Subscriptions name predicate 1 least, but events hold it always: after some of them, new keys pay."""
    matcher = Key.build([0, 2, 4, 5], [0, 1, 0, 1, 0], 2)
    frequencies = Frequencies(np.array([3, 2]))
    assert not worth_rekeying(matcher.cost(frequencies.shares()))
    frequencies.observe(np.arange(10_001), np.ones(10_000, np.int32))
    now, best = matcher.cost(frequencies.shares())
    assert now == pytest.approx(2, abs=0.01)
    assert best == pytest.approx(0, abs=0.01)
    matcher.rekey(frequencies.shares())
    assert matcher.cost(frequencies.shares())[0] == pytest.approx(best)
    assert matcher.match_batch(np.array([0, 1]), np.array([1], np.int32)).candidates == 0


def test_old_events_fade() -> None:
    frequencies = Frequencies(np.array([1, 1]), memory=100, prior=0)
    frequencies.observe(np.arange(101), np.zeros(100, np.int32))
    frequencies.observe(np.arange(101), np.ones(100, np.int32))
    assert frequencies.shares().tolist() == pytest.approx([1 / 3, 2 / 3])


def test_the_note_on_words() -> None:
    """The arrays of the five conjunctions that docs/internals/words.md works through."""
    slices = [np.array(terms, np.int32) for terms in ([1, 2], [1, 0], [2], [1, 2], [1, ~3])]
    matcher = Key.build(*csr(slices), 4, [0.1, 0.6, 0.2, 0.3])
    arrays = matcher.arrays()
    said = {
        "keys": [2, 0, 2, 2, 1],
        "starts": [0, 1, 2, 4, 4, 4],
        "groups": [[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 5, 4]],
        "numbers": [1, 4, 2, 0, 3],
        "places": [1, 3, 1, 1],
    }
    assert {name: arrays[name].tolist() for name in said} == said
    found = matcher.match_batch(np.array([0, 2]), np.array([1, 2], np.int32))
    assert (sorted(found.conjunctions.tolist()), found.candidates) == ([0, 2, 3, 4], 4)
