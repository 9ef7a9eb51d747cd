"""What every index of conjunctions must do: the contract that access pairs, bitmaps and their combination inherit."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Conjunctions, Events

Pairs = set[tuple[int, int]]


@dataclass
class Case:
    """Conjunctions, the test that each is filed under (-1: none), and a batch with the truth of each test."""

    conjunctions: Conjunctions
    popularity: list[Float64s]
    filed_under: Int32s
    events: Events
    truth: Int64s
    """`truth[test, event]` is TRUE, FALSE or NULL."""

    def expected(self) -> Pairs:
        """The definition: a code in some range of each predicate, and an accepted truth value of each test."""
        said, codes = self.conjunctions, self.events.codes
        pairs: Pairs = set()
        for number in range(said.count):
            holds = np.ones(codes.shape[1], bool)
            mine = said.conjunction == number
            for column in np.unique(said.column[mine]):
                inside = np.zeros_like(holds)
                for row in np.flatnonzero(mine & (said.column == column)):
                    inside |= (codes[column] >= said.low[row]) & (codes[column] <= said.high[row])
                holds &= inside
            for row in np.flatnonzero(said.test_conjunction == number):
                holds &= (self.truth[said.test[row]] & said.test_accepts[row]) != 0
            pairs |= {(int(event), number) for event in np.flatnonzero(holds)}
        return pairs


def random_case(seed: int, conjunctions: int, events: int, columns: int, tests: int, span: int) -> Case:
    """Arrays of these sizes; `span` is the largest code, so that few or many codes meet."""
    random = np.random.default_rng(seed)
    last_code = random.integers(0, span + 1, columns).astype(np.int32)
    rows: list[tuple[int, int, int, int]] = []
    tested: list[tuple[int, int, int]] = []
    filed_under = np.full(conjunctions, -1, np.int32)
    for number in range(conjunctions):
        for column in np.flatnonzero(random.random(columns) < 0.5):
            ranges = random_ranges(random, int(last_code[column]))
            rows += [(number, int(column), low, high) for low, high in ranges]
        for test in np.flatnonzero(random.random(tests) < 0.3):
            accepts = int(random.choice([TRUE, TRUE, TRUE, FALSE, NULL, TRUE | FALSE, TRUE | NULL, FALSE | NULL]))
            tested.append((number, int(test), accepts))
            if accepts == TRUE and random.random() < 0.7:
                filed_under[number] = test
    conjunction, column_of, low, high = np.array(rows, np.int32).reshape(-1, 4).T.copy()
    test_conjunction, test_of, accepted = np.array(tested, np.int32).reshape(-1, 3).T.copy()
    null_column = random.integers(-1, columns, tests).astype(np.int32)
    said = Conjunctions(
        conjunctions, last_code, conjunction, column_of, low, high, test_conjunction, test_of, accepted, null_column
    )
    popularity = [np.sort(np.append(random.random(last + 1), 1.0)) for last in last_code]
    return Case(said, popularity, filed_under, *random_events(random, events, last_code, null_column))


def random_ranges(random: np.random.Generator, last: int) -> list[tuple[int, int]]:
    """The ranges of one predicate: sorted, apart, perhaps with NULL; many narrow ones now and then."""
    count = int(random.choice([1, 1, 1, 2, 3, 12]))
    ends = np.unique(random.integers(0, last + 1, 2 * count))
    ranges = [(int(low), int(high)) for low, high in zip(ends[0::2], ends[1::2], strict=False)]
    null = [(-1, -1)] if not ranges or random.random() < 0.2 else []
    return null + ranges


def random_events(
    random: np.random.Generator, count: int, last_code: Int32s, null_column: Int32s
) -> tuple[Events, Int64s]:
    """A batch whose last column is ANYTHING; a test is NULL where its column is, or where phase 1 says so."""
    codes = np.zeros((last_code.size + 1, count), np.int32)
    for column, last in enumerate(last_code):
        codes[column] = random.integers(-1, last + 1, count)
    truth = np.empty((null_column.size, count), np.int64)
    for test, column in enumerate(null_column):
        truth[test] = random.choice([TRUE, FALSE] if column >= 0 else [TRUE, FALSE, NULL], count)
        if column >= 0:
            truth[test, codes[column] < 0] = NULL
    true = [np.flatnonzero(truth[:, event] == TRUE) for event in range(count)]
    null = [np.flatnonzero((truth[:, event] == NULL) & (null_column < 0)) for event in range(count)]
    return Events(codes, *sliced(true), *sliced(null)), truth


def sliced(lists: list[Int64s]) -> tuple[Int64s, Int32s]:
    """Where each list starts, and all lists behind each other."""
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return starts, np.concatenate([np.empty(0, np.int64), *lists]).astype(np.int32)


@lru_cache(maxsize=8)
def many_conjunctions(seed: int, events: int) -> tuple[Case, Pairs]:
    """A case that all indexes are given, with its answer: to find that takes longer than to build one."""
    case = random_case(seed, conjunctions=5000, events=events, columns=6, tests=2, span=500)
    return case, case.expected()


class Index(Protocol):
    """What the contract asks for."""

    def match(self, events: Events) -> tuple[Int32s, int]: ...

    def arrays(self) -> dict[str, npt.NDArray[Any]]: ...

    def check(self) -> None: ...


class Matching(Protocol):
    """Anything that finds the conjunctions of a batch."""

    def match(self, events: Events) -> tuple[Int32s, int]: ...


def found(matcher: Matching, events: Events) -> Pairs:
    """What a matcher finds, each pair once."""
    rows, candidates = matcher.match(events)
    pairs = {(event, conjunction) for event, conjunction in rows.tolist()}
    assert len(pairs) == len(rows), "a conjunction is found once for an event"
    # Tree verifies conjunctions with equal predicates together.
    assert candidates > 0 or not pairs, "what was found was verified"
    return pairs


CASES = st.builds(
    random_case,
    seed=st.integers(0, 2**32 - 1),
    conjunctions=st.integers(0, 50),
    events=st.integers(0, 100),
    columns=st.integers(1, 5),
    tests=st.integers(0, 5),
    span=st.sampled_from([0, 1, 6, 40, 3000, 200_000]),
)


def part_of(events: Events, first: int, end: int) -> Events:
    """Some events of a batch, as a batch of their own."""
    true_starts, null_starts = events.true_starts[first : end + 1], events.null_starts[first : end + 1]
    return Events(
        np.ascontiguousarray(events.codes[:, first:end]),
        true_starts - true_starts[0],
        events.true[true_starts[0] : true_starts[-1]],
        null_starts - null_starts[0],
        events.null[null_starts[0] : null_starts[-1]],
    )


# Each index runs the tests of this class on its own.
INHERITED = [HealthCheck.differing_executors]


class ConjunctionIndexContract:
    """Inherit and define `build` and `from_arrays`."""

    def build(self, case: Case) -> Index:
        raise NotImplementedError

    def from_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Index:
        raise NotImplementedError

    @settings(deadline=None, suppress_health_check=INHERITED)
    @given(CASES)
    def test_equals_the_definition(self, case: Case) -> None:
        index = self.build(case)
        index.check()
        assert found(index, case.events) == case.expected()
        again = self.from_arrays(index.arrays())
        again.check()
        assert found(again, case.events) == case.expected()

    @settings(deadline=None, max_examples=20, suppress_health_check=INHERITED)
    @given(CASES, st.integers(1, 7))
    def test_a_batch_in_parts_is_the_batch(self, case: Case, size: int) -> None:
        index = self.build(case)
        together: Pairs = set()
        for first in range(0, case.events.codes.shape[1], size):
            part = found(index, part_of(case.events, first, min(first + size, case.events.codes.shape[1])))
            together |= {(first + event, conjunction) for event, conjunction in part}
        assert together == case.expected()

    @settings(deadline=None, max_examples=3, suppress_health_check=INHERITED)
    @given(st.integers(0, 2**32 - 1), st.integers(1, 60))
    @example(0, 1)
    def test_many_conjunctions(self, seed: int, events: int) -> None:
        case, expected = many_conjunctions(seed, events)
        index = self.build(case)
        index.check()
        assert found(index, case.events) == expected

    def test_nothing_to_match(self) -> None:
        index = self.build(random_case(1, conjunctions=0, events=3, columns=2, tests=0, span=5))
        index.check()
        assert found(index, random_case(1, conjunctions=0, events=3, columns=2, tests=0, span=5).events) == set()
