"""What every phase 2 matcher must do: the contract that BruteForce, Count, Key and Tree inherit."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.errors import OptionError
from tocsin.papers.sift.protocol import ConjunctionMatcher, csr

PREDICATES = 12
# Each matcher runs the tests of this class on its own.
INHERITED = [HealthCheck.differing_executors]
Terms = list[int]
TERMS = st.lists(st.integers(~(PREDICATES - 1), PREDICATES - 1), max_size=6)
HELD = st.sets(st.integers(0, PREDICATES + 2))


def holds(terms: Iterable[int], held: set[int]) -> bool:
    """The definition: what is required is there, and what is forbidden is not."""
    return all(t in held if t >= 0 else ~t not in held for t in terms)


def expected(conjunctions: dict[int, Terms], held: set[int]) -> list[int]:
    return sorted(number for number, terms in conjunctions.items() if holds(terms, held))


class ConjunctionMatcherContract:
    """Inherit and set `kind` (a matcher class), or override `make`."""

    kind: type[ConjunctionMatcher]

    def make(
        self, conjunctions: list[Terms], predicates: int, frequency: list[float] | None = None
    ) -> ConjunctionMatcher:
        return self.kind.build(*csr([np.array(t, np.int32) for t in conjunctions]), predicates, frequency)

    def answers(self, matcher: ConjunctionMatcher, events: list[set[int]]) -> list[list[int]]:
        found = matcher.match_batch(*csr([np.array(sorted(e), np.int32) for e in events]))
        assert found.candidates > 0 or not len(found.conjunctions), "what was found was looked at"
        return [sorted(found.of(e).tolist()) for e in range(len(events))]

    @settings(max_examples=80, deadline=None, suppress_health_check=INHERITED)
    @given(st.lists(TERMS, max_size=12), st.lists(HELD, max_size=5))
    def test_equals_the_definition(self, conjunctions: list[Terms], events: list[set[int]]) -> None:
        matcher = self.make(conjunctions, PREDICATES)
        matcher.check()
        numbered = dict(enumerate(conjunctions))
        assert self.answers(matcher, events) == [expected(numbered, held) for held in events]
        for held in events:
            assert sorted(matcher.match(sorted(held)).tolist()) == expected(numbered, held)

    @settings(max_examples=40, deadline=None, suppress_health_check=INHERITED)
    @given(
        st.lists(TERMS, max_size=6),
        st.lists(st.one_of(TERMS, st.integers(0, 12)), max_size=12),
        st.lists(HELD, min_size=1, max_size=3),
    )
    def test_inserts_and_deletes(
        self, conjunctions: list[Terms], steps: list[Terms | int], events: list[set[int]]
    ) -> None:
        matcher = self.make(conjunctions, PREDICATES)
        alive = dict(enumerate(conjunctions))
        for step in steps:
            if isinstance(step, list):
                alive[matcher.insert(step)] = step
            elif step in alive:
                matcher.delete(step)
                del alive[step]
            else:
                with pytest.raises(OptionError, match=f"no conjunction {step}"):
                    matcher.delete(step)
            matcher.check()
            assert len(matcher) == len(alive)
        assert self.answers(matcher, events) == [expected(alive, held) for held in events]
        matcher.arrays()
        matcher.check()
        assert self.answers(matcher, events) == [expected(alive, held) for held in events]

    def test_many_insertions_and_deletions_are_worked_in(self) -> None:
        matcher = self.make([[0]], 1)
        alive = {0: [0]}
        for step in range(1, 700):
            alive[matcher.insert([step % 40, ~(step % 7 + 40)])] = [step % 40, ~(step % 7 + 40)]
            if step % 3:
                matcher.delete(step - 1)
                del alive[step - 1]
        matcher.check()
        events = [set(range(20)), set(range(10, 45)), set()]
        assert self.answers(matcher, events) == [expected(alive, held) for held in events]
        for number in list(alive)[: len(alive) - 3]:
            matcher.delete(number)
            del alive[number]
        matcher.check()
        assert self.answers(matcher, events) == [expected(alive, held) for held in events]

    def test_numbers_are_never_given_twice(self) -> None:
        matcher = self.make([[0], [1]], 2)
        matcher.delete(1)
        matcher.arrays()
        assert matcher.insert([0]) not in (0, 1)

    def test_a_thousand_terms(self) -> None:
        everything = list(range(1000))
        matcher = self.make([everything, everything[::-1], [*everything, ~1000], everything[:999]], 1001)
        matcher.check()
        assert self.answers(matcher, [set(everything), set(range(999)), set(range(1, 1000)), set(range(1001))]) == [
            [0, 1, 2, 3],
            [3],
            [],
            [0, 1, 3],
        ]

    def test_more_events_than_a_block(self) -> None:
        conjunctions = [[a, b] for a in range(12) for b in range(12)] + [[~a] for a in range(12)]
        rng = np.random.default_rng(1)
        events = [set(np.flatnonzero(rng.random(12) < 0.4).tolist()) for _ in range(200)]
        matcher = self.make(conjunctions, 12)
        assert self.answers(matcher, events) == [expected(dict(enumerate(conjunctions)), held) for held in events]

    def test_pairs_of_event_and_conjunction(self) -> None:
        matcher = self.make([[0], [1], [0, 1]], 2)
        found = matcher.match_batch(*csr([np.array(e, np.int32) for e in ([1], [], [0, 1])]))
        pairs = zip(found.events().tolist(), found.conjunctions.tolist(), strict=True)
        assert sorted(pairs) == [(0, 1), (2, 0), (2, 1), (2, 2)]

    def test_nothing_to_match(self) -> None:
        matcher = self.make([], 0)
        matcher.check()
        assert self.answers(matcher, [set(), {1, 2}]) == [[], []]
        assert self.answers(matcher, []) == []

    def test_empty_and_negated_conjunctions_hold_without_any_predicate(self) -> None:
        matcher = self.make([[], [~0], [0], []], 1)
        assert self.answers(matcher, [set(), {0}]) == [[0, 1, 3], [0, 2, 3]]

    @settings(max_examples=25, deadline=None, suppress_health_check=INHERITED)
    @given(st.lists(TERMS, max_size=8), st.lists(st.floats(0, 1), min_size=PREDICATES, max_size=PREDICATES), HELD)
    def test_frequencies_change_the_work_and_not_the_answer(
        self, conjunctions: list[Terms], frequency: list[float], held: set[int]
    ) -> None:
        matcher = self.make(conjunctions, PREDICATES, frequency)
        matcher.check()
        assert self.answers(matcher, [held]) == [expected(dict(enumerate(conjunctions)), held)]
        matcher.rekey(frequency[::-1])
        matcher.check()
        assert self.answers(matcher, [held]) == [expected(dict(enumerate(conjunctions)), held)]

    def test_arrays_are_the_whole_state_and_may_be_read_only(self) -> None:
        conjunctions = [[0, 1], [1, ~2], [], [2]]
        matcher = self.make(conjunctions, 3)
        arrays = matcher.arrays()
        for array in arrays.values():
            array.setflags(write=False)
        copy = type(matcher).from_arrays(arrays)
        copy.check()
        assert copy.nbytes == matcher.nbytes > 0
        events = [{0, 1}, {1, 2}, set()]
        assert self.answers(copy, events) == self.answers(matcher, events) == [[0, 1, 2], [2, 3], [2]]
        copy.delete(0)
        copy.insert([0])
        assert self.answers(copy, events) == [[1, 2, 4], [2, 3], [2]]

    def test_a_term_beyond_the_predicates_is_refused(self) -> None:
        with pytest.raises(OptionError, match="a term names predicate 3 of 3"):
            self.make([[~3]], 3)
