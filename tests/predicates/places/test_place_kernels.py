"""The kernel of places against NumPy, all areas for all points."""

import numpy as np

from tocsin.predicates.places.kernels import NO_CIRCLE, Areas, find_areas


def test_find_areas() -> None:
    random = np.random.default_rng(1)
    north, east = np.radians(random.uniform(-80, 80, 30)), np.radians(random.uniform(-180, 180, 30))
    limit = np.sin(random.uniform(0, 0.4, 30)) ** 2
    limit[25:] = NO_CIRCLE
    square = np.array([[0.0, 0, 0, 50], [0, 50, 60, 50], [60, 50, 60, 0], [60, 0, 0, 0]])
    members = np.tile(np.arange(30, dtype=np.int32), 2)
    # All areas are in both cells of level 0.
    areas = Areas(
        np.array([0]), np.array([0, 1]), np.array([0, 30, 60]), members, north, east, np.cos(north), limit,
        np.array([0] * 26 + [4, 8, 12, 16, 20]), np.tile(square, (5, 1)),
    )  # fmt: skip
    latitude, longitude = random.uniform(-89, 89, 200), random.uniform(-180, 180, 200)
    latitude[::7] = np.nan
    starts, found, verified = find_areas(latitude, longitude, areas)
    up, along = np.radians(latitude)[:, None], np.radians(longitude)[:, None]
    haversine = np.sin((north - up) / 2) ** 2 + np.cos(north) * np.cos(up) * np.sin((east - along) / 2) ** 2
    with np.errstate(invalid="ignore"):
        inside = haversine <= limit
    box = (latitude >= 0) & (latitude < 60) & (longitude > 0) & (longitude < 50)
    inside[:, 25:] = box[:, None]
    assert [part.tolist() for part in np.split(found, starts[1:-1])] == [np.flatnonzero(row).tolist() for row in inside]
    assert verified == 30 * np.count_nonzero(~np.isnan(latitude))
