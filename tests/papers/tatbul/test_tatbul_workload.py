"""The workload of the paper's experiments is what it says."""

import numpy as np
import pytest

from tocsin.papers.tatbul import INDEXES, Interval, as_printed
from tocsin.papers.tatbul.experiments import Workload, overlap


def test_overlap_is_the_share_of_pairs_that_share_a_value() -> None:
    """Of six pairs, 0..2 meets 2..4 and 4..6 meets 2..4; 9..11 meets none."""
    low = np.array([0.0, 2.0, 4.0, 9.0])
    assert overlap(low, low + 2) == pytest.approx(2 / 6)


def test_workload_has_the_shape_of_the_paper() -> None:
    workload = Workload.random(200, 10, seed=3)
    assert len(workload.profiles) == 200
    assert len(workload.documents) == 50
    for profile in workload.profiles:
        for interval in profile.values():
            assert isinstance(interval, Interval)
            assert interval.high - interval.low == 10
    assert 0.01 < workload.overlap < 0.2
    assert Workload.random(200, 600, seed=3).overlap > 0.9


def test_evaluations_are_those_of_a_mean_document() -> None:
    workload = Workload.random(40, 10, seed=3)
    naive = workload.evaluations(as_printed("naive"))
    assert naive == 2 * 40
    assert 40 <= workload.evaluations(as_printed("lazy")) < naive
    assert all(workload.evaluations(as_printed(name)) < 40 for name in INDEXES if name not in ("naive", "lazy"))
    assert 0 < workload.cluster_once() <= workload.evaluations(as_printed("cluster"))
