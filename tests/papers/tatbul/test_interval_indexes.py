"""The seven in-memory indexes under the contract of their protocol, and what each promises besides."""

import numpy as np
import pytest

from contracts.interval_index_contract import IntervalIndexContract
from tocsin.errors import OptionError
from tocsin.papers.tatbul import (
    INDEXES,
    ClusterIndex,
    HybridIndex,
    IntervalIndex,
    IntervalTreeIndex,
    LazyIndex,
    NaiveIndex,
    PredicateIndex,
    SegmentTreeIndex,
)
from tocsin.papers.tatbul.structure import Entries, Structure


class TestNaive(IntervalIndexContract):
    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        return NaiveIndex.build(lo, hi, predicate)


class TestLazy(IntervalIndexContract):
    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        return LazyIndex.build(lo, hi, predicate)


class TestCluster(IntervalIndexContract):
    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        return ClusterIndex.build(lo, hi, predicate)


class TestInterval(IntervalIndexContract):
    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        return IntervalIndex.build(lo, hi, predicate)


class TestHybrid(IntervalIndexContract):
    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        return HybridIndex.build(lo, hi, predicate)


class TestHybridOnEveryCluster(IntervalIndexContract):
    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        return HybridIndex.build(lo, hi, predicate, minimum=1)


class TestSegmentTree(IntervalIndexContract):
    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        return SegmentTreeIndex.build(lo, hi, predicate)


class TestIntervalTree(IntervalIndexContract):
    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        return IntervalTreeIndex.build(lo, hi, predicate)


def test_every_index_is_under_the_contract() -> None:
    tested = {NaiveIndex, LazyIndex, ClusterIndex, IntervalIndex, HybridIndex, SegmentTreeIndex, IntervalTreeIndex}
    assert set(INDEXES.values()) == tested


def test_a_clique_is_one_cluster() -> None:
    """Where all intervals share a value no key parts them: one leaf, and every predicate is evaluated."""
    index = ClusterIndex.build(list(range(20)), [40 - number for number in range(20)])
    assert index.nodes == 1
    index.probe(20)
    assert index.evaluations == 20


def test_disjoint_intervals_halve_at_each_key() -> None:
    """Sixteen points: four keys on every path, and one predicate evaluated at the end."""
    index = ClusterIndex.build(range(16), range(16))
    for code in range(16):
        index.evaluations = 0
        assert index.probe(code).tolist() == [code]
        assert index.evaluations == 4 + 1


def test_interval_index_leaves_out_empty_elementary_intervals() -> None:
    """Ends 2, 4, 8 and 9 cut out [2], 3, [4], 5 to 7, [8] and [9]; the gap from 5 to 7 is in no interval."""
    assert IntervalIndex.build([2, 8], [4, 9]).nodes == 5


def test_interval_index_can_answer_at_the_root() -> None:
    index = IntervalIndex.build(range(15), range(15))
    assert index.probe(7).tolist() == [7]
    assert index.evaluations == 1


def test_segment_tree_always_walks_to_a_leaf() -> None:
    """Seven points and the rest of the codes are eight leaves: three comparisons for every value."""
    index = SegmentTreeIndex.build(range(7), range(7))
    for code in range(9):
        index.evaluations = 0
        index.probe(code)
        assert index.evaluations == 3


def test_segment_tree_stores_what_covers_everything_at_the_root() -> None:
    index = SegmentTreeIndex.build([0, 1, 3, 5], [2**31 - 1, 2, 3, 9])
    assert index.drawing().bits == "1000"


def test_interval_tree_stops_at_its_key() -> None:
    """The ends are 0, 4, 5 and 6; the upper middle is 5, and nothing at or below it is compared with the value 5."""
    index = IntervalTreeIndex.build([0, 0, 0], [4, 5, 6])
    assert index.probe(5).tolist() == [1, 2]
    assert index.evaluations == 1


def test_hybrid_splits_down_to_its_minimum() -> None:
    lo, hi = np.arange(64), np.arange(64)
    nodes = [HybridIndex.build(lo, hi, minimum=minimum).nodes for minimum in (1, 4, 64)]
    assert nodes == [127, (2 * 16 - 1) + 64, 1 + 64]


def test_hybrid_keeps_its_minimum_in_new_layers() -> None:
    index = HybridIndex.build([], [], minimum=64)
    for number in range(33):
        index.insert(number, number, number)
    assert index.nodes == 1 + 33


def test_hybrid_refuses_a_minimum_below_one() -> None:
    with pytest.raises(OptionError, match="minimum cluster size of 0"):
        HybridIndex.build([1], [2], minimum=0)


@pytest.mark.parametrize("name", INDEXES)
def test_insertion_rebuilds_little(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,024 insertions into 4,096 predicates: each entry is rebuilt a few times, and the large layer not once."""
    index = INDEXES[name].build(range(4096), range(4096))
    rebuilt: list[int] = []
    freeze = index._freeze

    def counted(entries: Entries) -> Structure:
        rebuilt.append(len(entries.lo))
        return freeze(entries)

    monkeypatch.setattr(index, "_freeze", counted)
    for number in range(1024):
        index.insert(5000 + number, number, number + 3)
    assert max(rebuilt) < 2048
    assert sum(rebuilt) < 1024 * np.log(1024 / 32) / np.log(1.5)


@pytest.mark.parametrize("name", ["cluster", "interval", "hybrid", "segment-tree", "interval-tree"])
def test_check_finds_damage(name: str) -> None:
    """One number of any array changed, and an invariant breaks."""
    index = INDEXES[name].build([1, 3, 7, 0, 0, 8, 20], [5, 9, 7, 2, 6, 10, 30], [0, 1, 2, 3, 4, 4, 5])
    structure = index._layers[0].structure
    structure.check()
    unnoticed = []
    for number, array in enumerate(structure.arrays):
        for position in range(len(array)):
            kept = array[position].item()
            array[position] = kept + 1 if kept < 2**31 - 1 else 0
            try:
                structure.check()
                unnoticed.append((number, position))
            except (AssertionError, IndexError):
                array[position] = kept
    assert unnoticed == []
    structure.check()
