"""Segments that match together, with real quantizers: events on the very ends of ranges are told apart."""

import numpy as np
import pyarrow as pa
import pytest

from tocsin import Matcher
from tocsin.tuning import TUNING

SUBSCRIPTIONS, COLUMNS, SEGMENTS = 9_000, 3, 3


@pytest.fixture(scope="module", params=["evenly", "with a long tail"])
def workload(request: pytest.FixtureRequest) -> tuple[pa.Table, pa.Table, set[tuple[int, int]]]:
    """Subscriptions with two ranges, events of which half lie on constants, and who matches whom."""
    random = np.random.default_rng(11)

    def numbers(count: int) -> np.ndarray:
        drawn = random.random(count) if request.param == "evenly" else np.exp(random.normal(2, 1.5, count))
        return drawn.round(5)

    count = TUNING.shared_layout_min_events + 76
    events = [numbers(count) for _ in range(COLUMNS)]
    column = np.array([random.choice(COLUMNS, 2, replace=False) for _ in range(SUBSCRIPTIONS)])
    low = numbers(2 * SUBSCRIPTIONS).reshape(-1, 2)
    # Narrow enough for access pairs.
    high = (low * (1 + random.random(low.shape) / 20)).round(5)
    closed = random.random((SUBSCRIPTIONS, 2, 2)) < 0.5
    for number in range(COLUMNS):
        events[number][: count // 2] = random.choice(np.concatenate([low.ravel(), high.ravel()]), count // 2)
        events[number][-20:-10], events[number][-5:] = np.nan, np.inf
    texts, matches = [], set()
    for row in range(SUBSCRIPTIONS):
        parts, holds = [], np.ones(count, bool)
        for side in range(2):
            name, first, last = column[row, side], float(low[row, side]), float(high[row, side])
            more, less = (">=" if closed[row, side, 0] else ">"), ("<=" if closed[row, side, 1] else "<")
            parts.append(f"x{name} {more} {first!r} AND x{name} {less} {last!r}")
            values = events[name]
            holds &= (values >= first) if closed[row, side, 0] else (values > first)
            holds &= (values <= last) if closed[row, side, 1] else (values < last)
        texts.append(" AND ".join(parts))
        matches |= {(int(event), row) for event in np.flatnonzero(holds)}
    table = pa.table({"id": list(map(str, range(SUBSCRIPTIONS))), "where": texts})
    return table, pa.table({f"x{number}": values for number, values in enumerate(events)}), matches


@pytest.mark.parametrize("segments", [1, SEGMENTS])
def test_ends_of_ranges(workload: tuple[pa.Table, pa.Table, set[tuple[int, int]]], segments: int) -> None:
    subscriptions, events, expected = workload
    matcher = Matcher(background_merge=False)
    for start in range(0, SUBSCRIPTIONS, SUBSCRIPTIONS // segments):
        matcher.subscribe_many(subscriptions.slice(start, SUBSCRIPTIONS // segments))
    found = matcher.match_batch(events)
    pairs = set(zip(found["event"].to_pylist(), map(int, found["subscription"].to_pylist()), strict=True))
    assert len(pairs) == len(found)
    assert pairs == expected
    for row in range(0, len(events), 97):
        ids = matcher.match(events.slice(row, 1).to_pylist()[0]).ids
        assert set(map(int, ids)) == {number for event, number in expected if event == row}


def test_many_ranges_with_the_same_end_are_decided_one_by_one() -> None:
    """Otherwise an event on that end would leave all of them undecided until the end of the batch."""
    # With rare matches: conjunctions that match often are filed in bitmaps, which read full codes anyway.
    texts = [f"x >= 0 AND x < {number + 0.5} AND y BETWEEN {number} AND {number + 9}" for number in range(6_000)]
    matcher = Matcher.from_table(pa.table({"id": list(map(str, range(len(texts)))), "where": texts}))
    (state,) = matcher._subscriptions.current().states
    assert state.segment.columns[0].quantizer is not None
    assert state.segment.needs_codes
    expected = [
        [number for number in range(2_991, 3_001) if 0 <= x < number + 0.5] for x in (-0.001, 0, 2_995.5, 3_000.5)
    ]
    found = [matcher.match({"x": x, "y": 3_000}).ids for x in (-0.001, 0, 2_995.5, 3_000.5)]
    assert [sorted(map(int, ids)) for ids in found] == expected


def test_the_workload_has_quantizers(workload: tuple[pa.Table, pa.Table, set[tuple[int, int]]]) -> None:
    matcher = Matcher.from_table(workload[0])
    (state,) = matcher._subscriptions.current().states
    assert all(column.quantizer is not None for column in state.segment.columns)
    assert all(len(column.domain.constants) > TUNING.min_even_codes for column in state.segment.columns)
    assert not state.segment.needs_codes
