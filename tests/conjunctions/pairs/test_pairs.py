"""Access pairs and the two phases of the papers find what the definition of a conjunction says, from any arrays."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Conjunctions, Events
from tocsin.conjunctions.pairs import access
from tocsin.conjunctions.pairs.kernels import BY_TEST
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.papers.tatbul.two_phase import PHASE_2, TwoPhaseIndex
from tocsin.tuning import TUNING

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

    def by_pairs(self, look_cost: float = TUNING.look_cost) -> PairIndex:
        """File with this cost of a look: at 0, no table gives its grid up."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(access, "TUNING", replace(TUNING, look_cost=look_cost))
            matcher = PairIndex.build(self.conjunctions, self.popularity, self.filed_under)
        matcher.check()
        return matcher


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


def found(matcher: PairIndex | TwoPhaseIndex, events: Events) -> Pairs:
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


@given(CASES, st.sampled_from([0.0, TUNING.look_cost]))
def test_access_pairs_equal_the_definition(case: Case, look: float) -> None:
    matcher = case.by_pairs(look)
    assert found(matcher, case.events) == case.expected()
    again = PairIndex.from_arrays(matcher.arrays())
    assert found(again, case.events) == case.expected()


@given(CASES, st.sampled_from(["auto", "interval", "naive"]), st.sampled_from(["auto", *PHASE_2]))
def test_two_phases_equal_the_definition(case: Case, index: str, matcher: str) -> None:
    built = TwoPhaseIndex(case.conjunctions, index, matcher)
    built.check()
    assert found(built, case.events) == case.expected()
    assert found(TwoPhaseIndex.from_arrays(built.arrays(), (index, matcher)), case.events) == case.expected()


@settings(max_examples=4)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
@example(0, 1)
def test_many_conjunctions_use_grids_and_blocks(seed: int, events: int) -> None:
    """Enough of everything that tables stay apart at the real cost of a look, and buckets meet blocks of events."""
    case = random_case(seed, conjunctions=1500, events=events, columns=4, tests=3, span=500)
    matcher = case.by_pairs()
    assert (matcher.tables.column_b < 4).any(), "some table is a grid over a column"
    assert (matcher.tables.column_a == BY_TEST).any(), "some conjunctions are filed under a test"
    assert found(matcher, case.events) == case.expected()


def one_column(ranges: list[tuple[int, int, int]], last: int, codes: list[int]) -> Case:
    """Conjunctions on one column, as (conjunction, low, high), and events with these codes."""
    conjunction, low, high = np.array(ranges, np.int32).T.copy()
    nothing = np.empty(0, np.int32)
    count = int(conjunction.max()) + 1
    said = Conjunctions(
        count,
        np.array([last], np.int32),
        conjunction,
        np.zeros_like(low),
        low,
        high,
        nothing,
        nothing,
        nothing,
        nothing,
    )
    starts = np.zeros(len(codes) + 1, np.int64)
    batch = np.array([codes, [0] * len(codes)], np.int32)
    shares = np.linspace(0.02, 1, last + 2)
    events = Events(batch, starts, nothing, starts, nothing)
    return Case(said, [shares], np.full(count, -1, np.int32), events, np.empty((0, len(codes)), np.int64))


def test_equality_verifies_only_what_can_match() -> None:
    """A thousand conjunctions `x = i`, code 2i + 1: an event looks at its own cell, in a gap or NULL at less."""
    case = one_column([(number, 2 * number + 1, 2 * number + 1) for number in range(1000)], 2000, [1, 1001, 1000, -1])
    rows, candidates = case.by_pairs().match(case.events)
    assert sorted(rows.tolist()) == [[0, 0], [1, 500]]
    assert candidates <= 8


@pytest.mark.parametrize("common", [True, False])
def test_a_common_test_is_paired_with_a_range_and_a_rare_one_is_not(common: bool) -> None:
    """A thousand conjunctions of a test and `x = i`: all with one test, or each with its own."""
    numbers = np.arange(1000, dtype=np.int32)
    tests = np.zeros_like(numbers) if common else numbers
    plain = one_column([(number, 2 * number + 1, 2 * number + 1) for number in range(1000)], 2000, [1001])
    said = replace(
        plain.conjunctions,
        test_conjunction=numbers,
        test=tests,
        test_accepts=np.full(1000, TRUE, np.int32),
        test_null_column=np.full(tests.max() + 1, -1, np.int32),
    )
    matcher = PairIndex.build(said, plain.popularity, tests)
    assert (matcher.tables.column_a == BY_TEST).all()
    assert (matcher.tables.column_b == (0 if common else 1)).all(), "column 1 is ANYTHING"
    true = np.array([0 if common else 500], np.int32)
    rows, candidates = matcher.match(plain.events._replace(true_starts=np.array([0, 1]), true=true))
    assert rows.tolist() == [[0, 500]]
    assert candidates <= 4


@pytest.mark.parametrize("code", [-1, 0, 3])
def test_null_is_found_by_the_range_that_accepts_it(code: int) -> None:
    """`x IS NULL`, and `x IS NULL OR x <= 0`."""
    case = one_column([(0, -1, -1), (1, -1, -1), (1, 0, 0)], 4, [code])
    expected = {-1: {(0, 0), (0, 1)}, 0: {(0, 1)}, 3: set()}[code]
    assert case.expected() == expected
    for look in (0.0, TUNING.look_cost):
        assert found(case.by_pairs(look), case.events) == expected


DAMAGE: list[tuple[str, Callable[[PairIndex], PairIndex]]] = [
    ("first bucket", lambda m: PairIndex(m.tables, m.postings._replace(starts=m.postings.starts + 1))),
    ("last bucket", lambda m: PairIndex(m.tables, m.postings._replace(rows=m.postings.rows[1:]))),
    ("power of two", lambda m: PairIndex(m.tables._replace(mask=m.tables.mask + 2), m.postings)),
    ("rest list", lambda m: PairIndex(m.tables, m.postings._replace(rest=m.postings.rest[1:]))),
]


@pytest.mark.parametrize(("reason", "damage"), DAMAGE, ids=[reason for reason, _ in DAMAGE])
def test_check_finds_damage(reason: str, damage: Callable[[PairIndex], PairIndex]) -> None:
    matcher = random_case(1, conjunctions=60, events=1, columns=5, tests=3, span=40).by_pairs()
    with pytest.raises(AssertionError, match=reason):
        damage(matcher).check()


UNCOMPILED = """
import json, pickle, sys
from tocsin._compile import COMPILED
from tocsin.conjunctions.pairs.match import PairIndex
assert not COMPILED
conjunctions, popularity, filed_under, events = pickle.load(sys.stdin.buffer)
rows, candidates = PairIndex.build(conjunctions, popularity, filed_under).match(events)
print(json.dumps([sorted(rows.tolist()), int(candidates)]))
"""


def test_uncompiled_kernels_give_the_same() -> None:
    case = random_case(7, conjunctions=300, events=40, columns=3, tests=3, span=60)
    given = pickle.dumps((case.conjunctions, case.popularity, case.filed_under, case.events))
    environment = {**os.environ, "TOCSIN_KERNELS": "python"}
    answer = subprocess.run([sys.executable, "-c", UNCOMPILED], input=given, capture_output=True, env=environment)
    assert answer.returncode == 0, answer.stderr.decode()
    rows, candidates = case.by_pairs().match(case.events)
    assert len(rows) > 0
    assert json.loads(answer.stdout) == [sorted(rows.tolist()), candidates]
