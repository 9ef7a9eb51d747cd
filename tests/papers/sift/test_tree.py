"""Tree keeps the contract of phase 2."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.conjunction_matcher_contract import ConjunctionMatcherContract
from tocsin.papers.sift.protocol import csr
from tocsin.papers.sift.tree import Tree, distinct


class TestTree(ConjunctionMatcherContract):
    kind = Tree


def test_only_identifying_prefixes_have_nodes() -> None:
    """Rarest first: (3 2 0), (3 1 0) twice, (3) and (2 1 0). Nodes: root; 2, 3; 3-1, 3-2."""
    slices = csr([np.array(t, np.int32) for t in ([0, 2, 3], [0, 1, 3], [3, 1, 0], [3], [0, 1, 2])])
    tree = Tree.build(*slices, 4, [0.9, 0.5, 0.3, 0.1])
    tree.check()
    arrays = tree.arrays()
    assert arrays["node_terms"].tolist()[1:] == [2, 3, 1, 2]
    first_child, first_member, postfix = arrays["nodes"].T
    assert first_child.tolist() == [1, 3, 3, 5, 5, 5]
    assert arrays["members"].tolist() == [4, 3, 1, 2, 0]
    assert first_member.tolist() == [0, 0, 1, 2, 4, 5]
    assert np.diff(postfix).tolist() == [0, 2, 0, 1, 1]


def test_equal_conjunctions_are_verified_once() -> None:
    slices = csr([np.array([0, 1], np.int32)] * 1000)
    found = Tree.build(*slices, 2).match_batch(np.array([0, 2]), np.array([0, 1], np.int32))
    assert found.conjunctions.tolist() == list(range(1000))


def test_shared_prefixes_are_searched_once() -> None:
    """A thousand conjunctions that share a predicate that does not hold: no candidate."""
    slices = csr([np.array([0, p], np.int32) for p in range(1, 1000)])
    tree = Tree.build(*slices, 1000, [0.0] + [1.0] * 999)
    found = tree.match_batch(np.array([0, 999]), np.arange(1, 1000, dtype=np.int32))
    assert (len(found.conjunctions), found.candidates) == (0, 0)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-4, 3), max_size=4), max_size=20))
def test_groups_are_the_equal_slices(conjunctions: list[list[int]]) -> None:
    groups = distinct(*csr([np.array(t, np.int32) for t in conjunctions]))
    by_terms: dict[frozenset[int], list[int]] = {}
    for number, terms in enumerate(conjunctions):
        by_terms.setdefault(frozenset(terms), []).append(number)
    lists = np.split(groups.members, groups.member_offsets[1:-1]) if by_terms else []
    assert [members.tolist() for members in lists] == list(by_terms.values())
    assert groups.representatives.tolist() == [members[0] for members in by_terms.values()]
    assert groups.group.tolist() == [list(by_terms).index(frozenset(terms)) for terms in conjunctions]
