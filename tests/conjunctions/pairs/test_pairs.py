"""Access pairs and the two phases of the papers find what the definition of a conjunction says, from any arrays."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contracts.conjunction_index_contract import CASES, Case, found, random_case
from tocsin.conjunctions.coded import TRUE, Conjunctions, Events
from tocsin.conjunctions.pairs import access
from tocsin.conjunctions.pairs.kernels import BY_TEST
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.papers.tatbul import narrowing
from tocsin.papers.tatbul.two_phase import PHASE_2, TwoPhaseIndex
from tocsin.tuning import TUNING


def by_pairs(case: Case, look_cost: float = TUNING.look_cost) -> PairIndex:
    """File with this cost of a look: at 0, no table gives its grid up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "TUNING", replace(TUNING, look_cost=look_cost))
        matcher = PairIndex.build(case.conjunctions, case.popularity, case.filed_under)
    matcher.check()
    return matcher


@given(CASES, st.sampled_from([0.0, TUNING.look_cost]))
def test_access_pairs_equal_the_definition(case: Case, look: float) -> None:
    matcher = by_pairs(case, look)
    assert found(matcher, case.events) == case.expected()
    again = PairIndex.from_arrays(matcher.arrays())
    assert found(again, case.events) == case.expected()


@given(CASES, st.sampled_from(["auto", "interval", "naive"]), st.sampled_from(["auto", *PHASE_2]))
def test_two_phases_equal_the_definition(case: Case, index: str, matcher: str) -> None:
    built = TwoPhaseIndex(case.conjunctions, index, matcher)
    built.check()
    assert found(built, case.events) == case.expected()
    assert found(TwoPhaseIndex.from_arrays(built.arrays(), (index, matcher)), case.events) == case.expected()


@pytest.mark.parametrize("index", ["lazy", "cluster"])
@given(CASES)
def test_narrowing_equals_the_definition(index: str, case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrowing, "COUNTS", 3 * case.conjunctions.count)
        built = narrowing.NarrowingIndex(case.conjunctions, index)
        built.check()
        assert found(built, case.events) == case.expected()
        again = narrowing.NarrowingIndex.from_arrays(built.arrays(), (index, "auto"))
        assert found(again, case.events) == case.expected()


@settings(max_examples=4)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
@example(0, 1)
def test_many_conjunctions_use_grids_and_blocks(seed: int, events: int) -> None:
    """Enough of everything that tables stay apart at the real cost of a look, and buckets meet blocks of events."""
    case = random_case(seed, conjunctions=1500, events=events, columns=4, tests=3, span=500)
    matcher = by_pairs(case)
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
    rows, candidates = by_pairs(case).match(case.events)
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
        assert found(by_pairs(case, look), case.events) == expected


DAMAGE: list[tuple[str, Callable[[PairIndex], PairIndex]]] = [
    ("first bucket", lambda m: PairIndex(m.tables, m.postings._replace(starts=m.postings.starts + 1))),
    ("last bucket", lambda m: PairIndex(m.tables, m.postings._replace(rows=m.postings.rows[1:]))),
    ("power of two", lambda m: PairIndex(m.tables._replace(mask=m.tables.mask + 2), m.postings)),
    ("rest list", lambda m: PairIndex(m.tables, m.postings._replace(rest=m.postings.rest[1:]))),
]


@pytest.mark.parametrize(("reason", "damage"), DAMAGE, ids=[reason for reason, _ in DAMAGE])
def test_check_finds_damage(reason: str, damage: Callable[[PairIndex], PairIndex]) -> None:
    matcher = by_pairs(random_case(1, conjunctions=60, events=1, columns=5, tests=3, span=40))
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
    rows, candidates = by_pairs(case).match(case.events)
    assert len(rows) > 0
    assert json.loads(answer.stdout) == [sorted(rows.tolist()), candidates]
