"""The generator of the ranked benchmark keeps the parameters of the paper's Table 1."""

import itertools
import time

import numpy as np
import pytest

from tocsin.papers.ranked.experiments import SCALE, Zipfian, _seconds, generate


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_points_lie_in_regions_of_the_given_volume(dimensions: int) -> None:
    zipfian = Zipfian(dimensions)
    random = np.random.default_rng(1)
    corners = zipfian.corners(random)
    points = zipfian.points(random, corners, 2000)
    side = 100 * (1 / 20) ** (1 / dimensions)
    assert corners.shape == (10, dimensions)
    inside = (points[:, None, :] * 100 >= corners) & (points[:, None, :] * 100 < corners + round(side))
    assert inside.all(axis=2).any(axis=1).all()


def test_cells_near_the_middle_of_a_region_are_likelier() -> None:
    zipfian = Zipfian(1, regions=1, volume=0.21)
    points = zipfian.points(np.random.default_rng(2), np.zeros((1, 1)), 20_000)
    cells = np.bincount((points[:, 0] * 100).astype(int), minlength=21)
    assert cells.argmax() == 10
    assert cells[8:13].sum() > cells[:8].sum()


def test_a_larger_skew_makes_shorter_sides() -> None:
    means = []
    for skew in (0.0, 0.75, 1.5):
        boxes = generate(Zipfian(2, skew_length=skew), 5000, 10, seed=3)
        half = (boxes.hi.astype(float) - boxes.lo) / 2 / SCALE
        assert np.allclose(1 - half, boxes.weight, atol=1e-6)
        assert boxes.queries.shape == (10, 2)
        means.append(half.mean())
    assert means == sorted(means, reverse=True)


def test_a_clock_that_stands_still_for_a_while_gives_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = itertools.count()
    monkeypatch.setattr(time, "process_time", lambda: next(asked) // 5 * 0.002)
    assert _seconds(lambda: None) == pytest.approx(0.002)
