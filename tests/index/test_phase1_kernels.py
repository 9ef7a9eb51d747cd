"""The kernels that find tests that hold, of rare attributes and of combinations, against NumPy and sets."""

import numpy as np
import pytest

from tocsin.index.phase1_kernels import true_combinations, true_tests


@pytest.mark.parametrize("events", [0, 1, 50])
def test_true_tests(events: int) -> None:
    random = np.random.default_rng(events)
    tests = np.append(0, np.cumsum(random.integers(0, 4, 6))).astype(np.int32)
    starts = np.append(0, np.cumsum(random.integers(0, 3, tests[-1]))).astype(np.int64)
    low = random.integers(0, 6, starts[-1]).astype(np.int32)
    high = low + random.integers(0, 3, starts[-1]).astype(np.int32)
    places = np.array([0, 2, 5], np.int32)
    codes = random.integers(-1, 8, (3, events)).astype(np.int32)
    offsets, found = true_tests(codes, places, tests, starts, low, high)
    for event in range(events):
        expected = [
            test
            for row, place in enumerate(places)
            for test in range(tests[place], tests[place + 1])
            if codes[row, event] >= 0
            and any(low[i] <= codes[row, event] <= high[i] for i in range(starts[test], starts[test + 1]))
        ]
        assert found[offsets[event] : offsets[event + 1]].tolist() == expected
    assert offsets[-1] == found.size


@pytest.mark.parametrize("events", [0, 1, 40])
def test_true_combinations(events: int) -> None:
    random = np.random.default_rng(events)
    true = [np.flatnonzero(random.random(8) < 0.6).astype(np.int32) for _ in range(events)]
    members = [random.choice(8, random.integers(2, 4), replace=False).astype(np.int32) for _ in range(5)]
    offsets, found = true_combinations(
        np.cumsum([0, *map(len, true)]),
        np.concatenate([np.empty(0, np.int32), *true]),
        np.cumsum([0, *map(len, members)]),
        np.concatenate(members),
    )
    expected = [
        [number for number, tests in enumerate(members) if set(tests.tolist()) <= set(of_event.tolist())]
        for of_event in true
    ]
    assert [found[offsets[row] : offsets[row + 1]].tolist() for row in range(events)] == expected
