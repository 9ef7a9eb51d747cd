"""The kernel that compares an event with new subscriptions row by row, against NumPy."""

from typing import Any

import numpy as np
import pytest

from tocsin.index.fresh_rows import match_rows


@pytest.mark.parametrize("conjunctions", [0, 1, 60])
def test_match_rows(conjunctions: int) -> None:
    random = np.random.default_rng(conjunctions)
    rows: list[tuple[int, float, float, bool, bool]] = []
    starts, expected = [0], []
    values = np.array([0.5, np.nan, -2.0, np.inf])
    for number in range(conjunctions):
        holds = True
        for _ in range(random.integers(0, 4)):
            slot, or_null, ranges = int(random.integers(0, 4)), bool(random.random() < 0.4), int(random.integers(1, 4))
            low = np.sort(random.integers(-3, 3, ranges)).astype(float)
            high = low + random.integers(0, 3, ranges)
            high[-1] = np.inf if random.random() < 0.3 else high[-1]
            inside = ((low <= values[slot]) & (values[slot] <= high)).any()
            holds &= bool(inside or (or_null and np.isnan(values[slot])))
            ends = zip(low.tolist(), high.tolist(), strict=True)
            rows += [(slot, a, b, or_null, place < ranges) for place, (a, b) in enumerate(ends, 1)]
        starts.append(len(rows))
        expected += [number] * holds
    types: tuple[Any, ...] = np.int32, np.float64, np.float64, np.bool_, np.bool_
    columns: list[Any] = [np.array([row[place] for row in rows], of) for place, of in enumerate(types)]
    slots, lows, highs, with_null, going_on = columns
    found = match_rows(np.array(starts), slots, lows, highs, with_null, going_on, values)
    assert found.tolist() == expected
