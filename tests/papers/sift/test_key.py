"""Key keeps the contract of phase 2 under every policy, and does only the work it promises."""

import numpy as np
import pytest

from contracts.conjunction_matcher_contract import ConjunctionMatcherContract, Terms
from tocsin.errors import OptionError
from tocsin.papers.sift.key import Key, Policy
from tocsin.papers.sift.protocol import ConjunctionMatcher, csr


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
