"""The workload `field`: every way of ours finds the same."""

import pytest

from tocsin.bench.field import build_segment, by_one_way, generate, points
from tocsin.model.events import EventBatch


@pytest.mark.parametrize("in_bitmaps", [False, True])
def test_one_way_finds_what_all_ways_find_beside_rare_attributes(in_bitmaps: bool) -> None:
    """Few ranges name each of 80 attributes: 16 of them have no column of codes but by one way."""
    point = next(point for point in points(900, 2, 100) if point.sweep == "event size")
    workload = generate(point, 100, seed=1)
    segment = build_segment(workload)
    assert len(segment.rare.columns) == 16
    found = [of.match(EventBatch(workload.events(0, 100)))[0] for of in (segment, by_one_way(segment, in_bitmaps))]
    assert found[0].values.size > 0
    lists = [[sorted(each.values[a:b]) for a, b in zip(each.starts, each.starts[1:], strict=False)] for each in found]
    assert lists[0] == lists[1]
