"""Conjunctions of tests alone under Key, the others by access pairs: together they find what the definition says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.arrays import Int32s, Int64s
from tocsin.conjunctions.choose import _BITMAPS, _PAIRS, CombinedIndex, _cheaper, of_tests_alone
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.conjunctions.protocol import Filing
from tocsin.matcher import Matcher

TESTS = 4
TRUE, FALSE, NULL, NOT_TRUE = 1, 2, 4, 6
Conjunction = tuple[int | None, dict[int, int]]
"""The only code that is accepted, if any; and what is accepted of each test."""

CONJUNCTIONS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 2),
        st.dictionaries(st.integers(0, TESTS - 1), st.sampled_from([TRUE, TRUE, NOT_TRUE, FALSE, NULL])),
    ),
    max_size=12,
)
EVENTS = st.lists(
    st.tuples(st.integers(-1, 2), st.lists(st.sampled_from([TRUE, FALSE, NULL]), min_size=TESTS, max_size=TESTS))
)


def built(conjunctions: list[Conjunction], excluded: int | None = None) -> tuple[CombinedIndex, list[Conjunction]]:
    """The matcher, and the conjunctions in its order."""
    said = arrays_of(conjunctions)
    filed = np.full(said.count, -1, np.int32)
    true = said.test_accepts == TRUE
    filed[said.test_conjunction[true]] = said.test[true]
    alone = of_tests_alone(said, filed, np.arange(TESTS) == excluded)
    order = np.argsort(alone, kind="stable")
    ordered = [conjunctions[place] for place in order]
    popularity = [np.array([0.1, 0.4, 0.7, 1.0])]
    split = int(np.count_nonzero(~alone))
    on_history = np.arange(TESTS) == excluded
    filing = Filing(
        arrays_of(ordered), split, popularity, filed[order], np.arange(TESTS, dtype=np.float64), {}, on_history
    )
    return CombinedIndex.build(filing), ordered


def arrays_of(conjunctions: list[Conjunction]) -> Conjunctions:
    rows = [(c, 0, code, code) for c, (code, _) in enumerate(conjunctions) if code is not None]
    tests = [(c, *tested) for c, (_, accepted) in enumerate(conjunctions) for tested in accepted.items()]
    conjunction, column, low, high = np.array(rows, np.int32).reshape(-1, 4).T.copy()
    owner, test, accepts = np.array(tests, np.int32).reshape(-1, 3).T.copy()
    null = np.full(TESTS, -1, np.int32)
    return Conjunctions(
        len(conjunctions), np.array([2], np.int32), conjunction, column, low, high, owner, test, accepts, null
    )


def batch(events: list[tuple[int, list[int]]]) -> Events:
    codes = np.array([[code for code, _ in events], [0] * len(events)], np.int32).reshape(2, -1)
    return Events(codes, *lists_of(events, TRUE), *lists_of(events, NULL))


def lists_of(events: list[tuple[int, list[int]]], truth: int) -> tuple[Int64s, Int32s]:
    """The tests of each event that have this truth value."""
    table = np.array([truths for _, truths in events], np.int32).reshape(-1, TESTS) == truth
    return np.append(0, np.cumsum(table.sum(axis=1))), np.nonzero(table)[1].astype(np.int32)


@settings(deadline=None)
@given(CONJUNCTIONS, EVENTS, st.none() | st.integers(0, TESTS - 1))
def test_both_parts_find_what_the_definition_says(
    conjunctions: list[Conjunction], events: list[tuple[int, list[int]]], excluded: int | None
) -> None:
    matcher, ordered = built(conjunctions, excluded)
    matcher.check()
    expected = {
        (event, number)
        for event, (code, truths) in enumerate(events)
        for number, (wanted, accepted) in enumerate(ordered)
        if wanted in (None, code) and all(truths[test] & accepts for test, accepts in accepted.items())
    }
    for each in (matcher, CombinedIndex.from_arrays(matcher.arrays())):
        pairs, candidates = each.match(batch(events))
        assert sorted(map(tuple, pairs.tolist())) == sorted(expected)
        assert candidates >= len(expected)


@pytest.mark.parametrize(
    ("conjunction", "alone"),
    [
        ((None, {0: TRUE}), True),
        ((None, {0: TRUE, 1: NOT_TRUE}), True),
        ((None, {0: TRUE, 1: FALSE}), False),
        ((None, {1: NOT_TRUE}), False),
        ((1, {0: TRUE}), False),
        ((None, {0: TRUE, 3: TRUE}), False),
        ((None, {}), False),
    ],
)
def test_what_key_can_have(conjunction: Conjunction, alone: bool) -> None:
    matcher, _ = built([conjunction], excluded=3)
    assert (len(matcher.key), matcher.split) == ((1, 0) if alone else (0, 1))


def test_only_the_conjunctions_of_a_key_that_holds_are_looked_at() -> None:
    matcher, _ = built([(None, {0: TRUE, 3: TRUE}), (None, {1: TRUE, 3: TRUE}), (None, {2: TRUE, 3: TRUE})])
    pairs, candidates = matcher.match(batch([(0, [TRUE, FALSE, FALSE, TRUE])]))
    assert (pairs.tolist(), candidates) == ([[0, 0]], 1)


@pytest.mark.parametrize(
    ("pairs_ns", "looks_ns", "bitmaps_ns", "in_bitmaps"),
    [
        (100, 4500, 500, True),  # looks into many tables are spared
        (100, 4500, 3000, True),  # and it is more than a quarter cheaper
        (100, 4500, 4000, False),  # it is not
        (10, 100, 20, False),  # one table: it saves too little
        (5000, 100, 4000, True),  # cheaper without the looks as well
    ],
)
def test_looks_count_where_all_go_into_bitmaps(
    pairs_ns: float, looks_ns: float, bitmaps_ns: float, in_bitmaps: bool
) -> None:
    """Two conjunctions of a thousand cannot be in bitmaps; what they cost counts for nothing."""
    count = 1000
    can_be = np.arange(count) >= 2
    costs = np.array([[pairs_ns], [bitmaps_ns]]) / np.count_nonzero(can_be) * np.ones(count)
    costs[_PAIRS, :2] = 1e6
    looks = np.full(count, looks_ns / np.count_nonzero(can_be))
    assert _cheaper(costs, looks, can_be).tolist() == (can_be & in_bitmaps).tolist()


def test_columns_that_hardly_anybody_names_do_not_change_the_choice() -> None:
    """50 names of one subscription each, beside 3,000 subscriptions of ten attributes that all go into bitmaps."""
    texts = [
        " AND ".join(f"a{(n + k) % 10} BETWEEN {n % 97 / 100} AND {n % 97 / 100 + 0.4}" for k in range(6))
        for n in range(3000)
    ]
    rare = [f"z{n} > 1" for n in range(50)]

    def in_bitmaps(conditions: list[str]) -> float:
        matcher = Matcher(background_merge=False)
        matcher.subscribe_many([{"id": f"{n:05}", "where": text} for n, text in enumerate(conditions)])
        [state] = matcher._subscriptions.current().states
        index = state.segment.index
        assert isinstance(index, CombinedIndex)
        return float(index.estimates[_BITMAPS, _BITMAPS])

    assert in_bitmaps(texts + rare) < 1.2 * in_bitmaps(texts)
