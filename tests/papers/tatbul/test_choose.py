"""The choice of an index from statistics, and whether the bytes it counts on are right."""

from dataclasses import replace

import numpy as np
import pytest

from tocsin.papers.tatbul import INDEXES
from tocsin.papers.tatbul.choose import Statistics, bytes_of, choose

MANY = Statistics(intervals=1_000_000, constants=2_000_000, overlap=10, equality=0, memory=10**9)


@pytest.mark.parametrize(
    ("statistics", "name", "reason"),
    [
        (replace(MANY, intervals=64), "naive", "64 intervals"),
        (MANY, "interval", "157 MB fit"),
        (replace(MANY, overlap=200), "interval-tree", "43 MB"),
        (replace(MANY, overlap=1000), "segment-tree", "8,077 MB where 1,000 predicates hold"),
        (replace(MANY, overlap=1000, memory=10**8), "interval-tree", "8,077 MB"),
        (replace(MANY, overlap=1000, memory=10**7), "naive", "even the interval tree 43 MB"),
        (replace(MANY, overlap=62_500, memory=10**10), "naive", "a scan is as fast as a tree"),
        (replace(MANY, constants=1000, equality=1, overlap=500), "interval", "17 MB fit"),
    ],
)
def test_choice(statistics: Statistics, name: str, reason: str) -> None:
    chosen, why = choose(statistics)
    assert chosen == name
    assert reason in why
    assert chosen in INDEXES


@pytest.mark.parametrize("overlap", [0, 1, 10, 100])
@pytest.mark.parametrize("name", ["interval", "segment-tree", "interval-tree", "naive"])
def test_estimated_bytes_are_near(overlap: int, name: str) -> None:
    """4,000 intervals with distinct ends, or points of which ten are the same."""
    random = np.random.default_rng(3)
    if overlap:
        starts = random.permutation(8000)[:4000] * 8 + 1
        widths = random.permutation(4000) * 4 * overlap // 250 * 2
    else:
        starts, widths = random.integers(0, 400, 4000) * 2 + 1, np.zeros(4000, np.int64)
    lo, hi = starts.astype(np.int32), (starts + widths).astype(np.int32)
    index = INDEXES[name].build(lo, hi)
    estimate = bytes_of(Statistics.of(lo, hi, int(hi.max()) + 2, 0))[name]
    assert estimate == pytest.approx(index.nbytes, rel=0.5 if name == "interval-tree" else 0.3)


def test_statistics_of_nothing() -> None:
    empty = np.empty(0, np.int32)
    assert Statistics.of(empty, empty, 1, 5) == Statistics(0, 0, 0.0, 0.0, 5)
    assert choose(Statistics.of(empty, empty, 1, 5))[0] == "naive"
