"""Equal conjunctions are found, and covered ones dropped, as the definitions say."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.matching.duplicates import distinct, uncovered
from tocsin.matching.key import Key
from tocsin.matching.protocol import csr

TERMS = st.lists(st.integers(-4, 3), max_size=4)


@settings(deadline=None)
@given(st.lists(TERMS, max_size=20))
def test_groups_are_the_equal_conjunctions(conjunctions: list[list[int]]) -> None:
    groups = distinct(*csr([np.array(t, np.int32) for t in conjunctions]))
    by_terms: dict[frozenset[int], list[int]] = {}
    for number, terms in enumerate(conjunctions):
        by_terms.setdefault(frozenset(terms), []).append(number)
    lists = np.split(groups.members, groups.member_offsets[1:-1]) if by_terms else []
    assert [members.tolist() for members in lists] == list(by_terms.values())
    assert groups.representatives.tolist() == [members[0] for members in by_terms.values()]
    assert groups.group.tolist() == [list(by_terms).index(frozenset(terms)) for terms in conjunctions]


@settings(deadline=None)
@given(st.lists(st.lists(TERMS, max_size=6), max_size=4))
def test_covered_conjunctions_are_dropped(subscriptions: list[list[list[int]]]) -> None:
    sizes = np.concatenate([[0], np.cumsum([len(s) for s in subscriptions])]).astype(np.int64)
    keep = uncovered(sizes, *csr([np.array(t, np.int32) for s in subscriptions for t in s]))
    expected = []
    for subscription in subscriptions:
        sets = [frozenset(terms) for terms in subscription]
        for i, own in enumerate(sets):
            expected.append(not any(other < own or (other == own and j < i) for j, other in enumerate(sets)))
    assert keep.tolist() == expected


def test_a_million_equal_conjunctions_cost_one_evaluation() -> None:
    offsets, terms = np.arange(0, 2_000_001, 2), np.tile(np.array([5, 9], np.int32), 1_000_000)
    groups = distinct(offsets, terms)
    matcher = Key.build([0, 2], terms[:2], 10)
    found = matcher.match_batch(np.array([0, 2, 3]), np.array([5, 9, 5], np.int32))
    assert found.candidates <= 2
    event_offsets, owners = groups.owners(found.offsets, found.conjunctions)
    assert event_offsets.tolist() == [0, 1_000_000, 1_000_000]
    assert np.array_equal(owners, np.arange(1_000_000))
