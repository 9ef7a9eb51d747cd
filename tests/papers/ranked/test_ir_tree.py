"""The updates of the IR-tree, each checked against the plain list of what it should hold."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tocsin.errors import OptionError
from tocsin.papers.ranked import IRTree

ends = st.integers(0, 40)
scores = st.integers(0, 4).map(float)


class Updates(RuleBasedStateMachine):
    """Inserts, deletes and new scores in any order, on a tree that began with some intervals."""

    @initialize(rows=st.lists(st.tuples(ends, ends, scores), max_size=80))
    def begin(self, rows: list[tuple[int, int, float]]) -> None:
        self.held = {i: (min(a, b), max(a, b), score) for i, (a, b, score) in enumerate(rows)}
        lo, hi, given_scores = zip(*self.held.values(), strict=True) if rows else ((), (), ())
        self.index = IRTree.build(lo, hi, given_scores)
        self.inserted = len(rows)

    @rule(one=ends, other=ends, score=scores, times=st.integers(1, 40))
    def insert(self, one: int, other: int, score: float, times: int) -> None:
        for _ in range(times):
            assert self.index.insert(min(one, other), max(one, other), score) == self.inserted
            self.held[self.inserted] = (min(one, other), max(one, other), score)
            self.inserted += 1

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        interval = data.draw(st.sampled_from(sorted(self.held)))
        self.index.delete(interval)
        del self.held[interval]
        with pytest.raises(OptionError, match=f"no interval {interval}"):
            self.index.delete(interval)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), score=scores)
    def rescore(self, data: st.DataObject, score: float) -> None:
        interval = data.draw(st.sampled_from(sorted(self.held)))
        self.index.rescore(interval, np.full(self.inserted, score))
        self.held[interval] = (*self.held[interval][:2], score)

    @rule(value=ends)
    def iterate(self, value: int) -> None:
        over = [i for i, (lo, hi, _) in self.held.items() if lo <= value <= hi]
        expected = sorted(over, key=lambda i: (-self.held[i][2], i))
        assert self.index.iterate(value).take(len(over) + 1).tolist() == expected

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "index"):
            self.index.check()
            assert len(self.index) == len(self.held)


TestUpdates = Updates.TestCase
TestUpdates.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)


def test_thousands_of_inserts_and_deletes_keep_the_order() -> None:
    random = np.random.default_rng(5)
    lo = random.integers(0, 500, 6000)
    hi = lo + random.integers(0, 300, 6000)
    points = random.integers(0, 1000, 6000).astype(float)
    index = IRTree.build(lo[:1000], hi[:1000], points[:1000])
    for interval in range(1000, 6000):
        assert index.insert(int(lo[interval]), int(hi[interval]), points[interval]) == interval
    index.check()
    gone = random.choice(6000, 3000, replace=False)
    for interval in gone.tolist():
        index.delete(interval)
    index.check()
    left = np.setdiff1d(np.arange(6000), gone)
    for value in (0, 100, 499, 700):
        over = left[(lo[left] <= value) & (hi[left] >= value)]
        expected = over[np.lexsort((over, -points[over]))]
        assert np.array_equal(index.iterate(value).take(6000), expected)


def test_an_iterator_does_not_outlive_a_change() -> None:
    index = IRTree.build([0, 0], [9, 9], [1.0, 2.0])
    iterator = index.iterate(5)
    index.rescore(0, np.array([3.0, 2.0]))
    with pytest.raises(OptionError, match="Iterate again"):
        iterator.take(1)


def test_the_callers_scores_are_not_changed() -> None:
    scores = np.array([1.0, 2.0])
    IRTree.build([0, 0], [9, 9], scores).rescore(0, np.array([3.0, 2.0]))
    assert scores.tolist() == [1.0, 2.0]


def test_more_nodes_than_16_bits_can_number_are_told_apart() -> None:
    lo = 4 * np.arange(2_200_000)
    index = IRTree.build(lo, lo + 1, np.ones(lo.size))
    assert index.arrays.center.size > 1 << 16
    last = index.insert(400_002, 400_003, 2.0)
    index.delete(lo.size - 1)
    assert index.iterate(400_002).take(2).tolist() == [last]
    assert index.iterate(int(lo[-1])).take(2).tolist() == []
    assert index.iterate(int(lo[-2])).take(2).tolist() == [lo.size - 2]
