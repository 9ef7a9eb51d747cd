"""The score-optimal arrangement: its graph by definition, its guarantee, and the paper's ten intervals."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.papers.ranked import RANKED, RankedIndex, SOPTRTree
from tocsin.papers.ranked.rtree import RTreeIterator
from tocsin.papers.ranked.sopt import constraint_graph


class NarrowTree(SOPTRTree):
    """With two entries a node, small sets have several levels."""

    fanout = 2


rows = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 6), st.integers(0, 5)), max_size=30)


Columns = tuple[list[int], list[int], list[float]]


def columns_of(rows: list[tuple[int, int, int]]) -> Columns:
    return [lo for lo, _, _ in rows], [lo + width for lo, width, _ in rows], [float(score) for _, _, score in rows]


def precedence(columns: Columns) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """All pairs that share a point, better one first; and those that share one with none ranked between them there."""
    lo, hi, scores = columns
    ranked = sorted(range(len(lo)), key=lambda i: (-scores[i], i))
    pairs, adjacent = set(), set()
    for point in range(min(lo, default=0), max(hi, default=0) + 1):
        over = [i for i in ranked if lo[i] <= point <= hi[i]]
        pairs |= set(itertools.combinations(over, 2))
        adjacent |= set(itertools.pairwise(over))
    return pairs, adjacent


@settings(max_examples=200, deadline=None)
@given(rows)
def test_the_graph_is_the_one_defined_and_has_at_most_3n_edges(rows: list[tuple[int, int, int]]) -> None:
    columns = columns_of(rows)
    source, target = constraint_graph(*columns)
    edges = set(zip(source.tolist(), target.tolist(), strict=True))
    pairs, adjacent = precedence(columns)
    assert adjacent <= edges <= pairs
    assert source.size <= 3 * len(rows)


@settings(max_examples=200, deadline=None)
@given(rows)
def test_the_arrangement_takes_the_leftmost_free_interval(rows: list[tuple[int, int, int]]) -> None:
    columns = columns_of(rows)
    index = NarrowTree.build(*columns)
    pairs, _ = precedence(columns)
    lo, _, scores = columns
    left = set(range(len(rows)))
    for chosen in index.ids.tolist():
        free = [i for i in left if not any((other, i) in pairs for other in left)]
        assert chosen in free
        assert chosen == min(free, key=lambda i: (lo[i], -scores[i], i))
        left.remove(chosen)


@settings(max_examples=300, deadline=None)
@given(rows, st.integers(0, 20), st.integers(1, 8))
def test_a_query_explores_at_most_2k_nodes_a_level(rows: list[tuple[int, int, int]], value: int, k: int) -> None:
    index = NarrowTree.build(*columns_of(rows))
    iterator = index.iterate(value)
    assert isinstance(iterator, RTreeIterator)
    for taken in range(1, k + 1):
        if iterator.next() is None:
            break
        assert iterator.explored.max() <= 2 * taken


def test_a_large_random_set_keeps_the_guarantee() -> None:
    random = np.random.default_rng(1)
    lo = random.integers(0, 10**6, 30_000)
    hi = lo + random.zipf(1.5, 30_000).clip(max=10**5)
    index = SOPTRTree.build(lo, hi, -(hi - lo).astype(float))
    index.check()
    for value in random.integers(0, 10**6, 200).tolist():
        iterator = index.iterate(value)
        assert isinstance(iterator, RTreeIterator)
        found = iterator.take(20).size
        assert iterator.explored.max() <= 2 * (found + 1)


# The paper's running example, ten intervals ranked by number. Its text gives 1, 3, 6, 7 and 9 whole, for the others
# what they contain and that all endpoints are these nine; touching ends do not count as shared there.
ENDPOINTS = (0, 10, 30, 45, 55, 65, 75, 90, 100)
GIVEN = {1: [(30, 55)], 3: [(45, 55)], 6: [(0, 30)], 7: [(75, 100)], 9: [(10, 45)]}
CHOICES = {
    **GIVEN,
    2: [(65, 90), (65, 100), (75, 90), (75, 100)],
    4: [(65, 90), (65, 100)],
    5: [(0, 30), (10, 30)],
    8: [(55, 90), (55, 100), (65, 90), (65, 100), (75, 90), (75, 100)],
    10: [(0, 90), (0, 100), (10, 90), (10, 100), (30, 90), (30, 100)],
}
EXAMPLES = [
    chosen
    for chosen in itertools.product(*(CHOICES[number] for number in range(1, 11)))
    if {end for interval in chosen for end in interval} == set(ENDPOINTS)
]


def example(intervals: tuple[tuple[int, int], ...]) -> Columns:
    lo = [first for first, _ in intervals]
    hi = [last - 1 for _, last in intervals]
    return lo, hi, [-float(number) for number in range(1, 11)]


@pytest.mark.parametrize("cls", RANKED.values(), ids=RANKED.keys())
def test_the_papers_example_is_ranked_as_its_text_says(cls: type[RankedIndex]) -> None:
    assert len(EXAMPLES) > 100
    for intervals in EXAMPLES[:: len(EXAMPLES) // 25]:
        index = cls.build(*example(intervals))
        assert [number + 1 for number in index.iterate(50).take(10).tolist()] == [1, 3, 10]
        assert [number + 1 for number in index.iterate(80).take(10).tolist()] == [2, 4, 7, 8, 10]


def test_the_papers_example_has_the_edges_its_text_names() -> None:
    for intervals in EXAMPLES:
        pairs, adjacent = precedence(example(intervals))
        assert {after + 1 for before, after in adjacent if before == 0} == {3, 9}
        assert (2, 9) in adjacent, "interval 3 precedes 10, so that 1 precedes 10 by a path and needs no edge"
        source, target = constraint_graph(*example(intervals))
        edges = set(zip(source.tolist(), target.tolist(), strict=True))
        assert adjacent <= edges <= pairs
