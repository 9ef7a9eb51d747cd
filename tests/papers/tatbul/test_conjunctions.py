"""Attributes combined: every index gives the definition's answer, and the unindexed ones do the work they promise."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.papers.tatbul import INDEXES, HybridIndex, Interval, LazyIndex, NaiveIndex, not_equal, one_of, point
from tocsin.papers.tatbul.conjunctions import Build, Condition, Conjunctions

numbers = st.integers(0, 9).map(float)
ranges = st.tuples(numbers, numbers).map(lambda ends: Interval(min(ends), max(ends)))
conditions = st.one_of(ranges, numbers.map(point), numbers.map(not_equal), st.lists(numbers, max_size=3).map(one_of))
conjunctions = st.lists(st.dictionaries(st.sampled_from("xyz"), conditions), max_size=12)
events = st.lists(st.dictionaries(st.sampled_from("xyzu"), numbers), min_size=1, max_size=5)
builds: list[Build] = [*(index.build for index in INDEXES.values()), partial(HybridIndex.build, minimum=1)]


def intervals_of(condition: Condition) -> list[Interval]:
    return [condition] if isinstance(condition, Interval) else list(condition)


def contains(interval: Interval, value: float) -> bool:
    """The strict ends of not_equal are the only open ones here."""
    low = interval.low <= value if interval.low_closed else interval.low < value
    return low and (value <= interval.high if interval.high_closed else value < interval.high)


def holds(condition: Condition, value: float) -> bool:
    return any(contains(interval, value) for interval in intervals_of(condition))


@pytest.mark.parametrize("build", builds)
@settings(max_examples=60, deadline=None)
@given(conjunctions=conjunctions, events=events)
def test_equals_the_definition(
    build: Build, conjunctions: list[dict[str, Condition]], events: list[dict[str, float]]
) -> None:
    matcher = Conjunctions(build, conjunctions)
    for event in events:
        expected = [
            number
            for number, conjunction in enumerate(conjunctions)
            if all(name in event and holds(condition, event[name]) for name, condition in conjunction.items())
        ]
        assert list(matcher.match(event)) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries({"x": ranges, "y": ranges, "z": ranges}), min_size=1), numbers, numbers, numbers)
def test_lazy_stops_each_conjunction_at_its_first_failure(
    conjunctions: list[dict[str, Interval]], x: float, y: float, z: float
) -> None:
    event = {"x": x, "y": y, "z": z}
    lazy, naive = Conjunctions(LazyIndex.build, conjunctions), Conjunctions(NaiveIndex.build, conjunctions)
    evaluations = 0
    for conjunction in conjunctions:
        for name in lazy.attributes:
            evaluations += 1
            if not holds(conjunction[name], event[name]):
                break
    lazy.match(event)
    naive.match(event)
    assert lazy.evaluations == evaluations
    assert naive.evaluations == 3 * len(conjunctions)


def test_cluster_verifies_only_what_every_attribute_left() -> None:
    """The pairs at x share a cluster, the pairs at y another: no conjunction is in both, so none is evaluated."""
    conjunctions = [
        {"x": Interval(0, 2), "y": point(5)},
        {"x": Interval(0, 3), "y": point(5)},
        {"x": point(9), "y": Interval(0, 2)},
        {"x": point(9), "y": Interval(0, 3)},
    ]
    matcher = Conjunctions(INDEXES["cluster"].build, conjunctions)
    assert list(matcher.match({"x": 1, "y": 1})) == []
    assert matcher.evaluations == 1 + 1
    assert list(matcher.match({"x": 3, "y": 5})) == [1]
    assert matcher.evaluations == 2 + (1 + 1) + (2 + 1)


def test_cluster_narrows_with_a_buffer_and_the_dead() -> None:
    index = INDEXES["cluster"].build([0, 0, 9], [2, 3, 9])
    index.delete(0)
    index.insert(7, 1, 4)
    everything = type(index.probe_bitmap(0))(range(10))
    near = index.narrow(1, everything)
    assert set(near) == {1, 7}
    assert set(index.verify(1, near)) == {1, 7}
    assert not index.narrow(-1, everything)
