"""Places on the Earth: points, distances along great circles, polygons, and what a subscription writes for them.

A point is a latitude of -90 to 90 degrees and a longitude, of which 360 degrees are a full turn. The Earth is a sphere
of its mean radius, which is wrong by at most 0.5 percent of a distance. The edges of a polygon are straight on a map
whose axes are longitude and latitude, as in DuckDB's spatial extension. A polygon across the date line has longitudes
beyond 180.
"""

import itertools
import math
import re
from functools import lru_cache
from typing import Any

from tocsin.model.casts import UndefinedError

EARTH_RADIUS = 6_371_008.8
"""Metres: the mean radius of the Earth."""
UNITS = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "nmi": 1852.0, "yd": 0.9144, "ft": 0.3048}
_DISTANCE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*", re.I)
_POLYGON = re.compile(r"\s*(?:POLYGON|MULTIPOLYGON)\s*(\(.*\))\s*", re.I | re.S)
_RING = re.compile(r"\(([^()]*)\)")
Ring = tuple[tuple[float, float], ...]
"""The corners of a polygon or of a hole in it, the first one repeated at the end: latitude and longitude."""


def point(latitude: Any, longitude: Any) -> list[float]:
    """Return a point as latitude and longitude; or raise UndefinedError.

    >>> point(10, 190)
    [10.0, -170.0]
    """
    for value in (latitude, longitude):
        if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
            raise UndefinedError("a place whose latitude or longitude is not a number")
    north, east = float(latitude), float(longitude)
    if not abs(north) <= 90 or not math.isfinite(east):
        raise UndefinedError("a place with a latitude beyond 90 degrees, or an infinite longitude")
    return [north, turned(east)]


def turned(longitude: float) -> float:
    """Return a longitude from -180 up to, and without, 180 degrees."""
    if -180 <= longitude < 180:
        return longitude
    rest = (longitude + 180.0) % 360.0 - 180.0
    # The remainder of a tiny negative number is rounded to the whole turn.
    return rest if rest < 180 else -180.0


def metres(text: str) -> float:
    """Return a distance in metres; or raise ValueError.

    >>> metres("10 km"), metres("1.5mi")
    (10000.0, 2414.016)
    """
    found = _DISTANCE.fullmatch(text)
    if found is None or found[2].lower() not in UNITS:
        raise ValueError(text)
    return float(found[1]) * UNITS[found[2].lower()]


def haversine(a: list[float], b: list[float]) -> float:
    """Return the square of the sine of half the angle between two points; it grows with their distance."""
    (north_a, east_a), (north_b, east_b) = ([math.radians(degrees) for degrees in place] for place in (a, b))
    across = math.sin((east_b - east_a) / 2) ** 2
    return math.sin((north_b - north_a) / 2) ** 2 + math.cos(north_a) * math.cos(north_b) * across


def haversine_of(distance: float) -> float:
    """Return the same of a distance in metres; 2 for one that no two points have."""
    half = distance / EARTH_RADIUS / 2
    return 2.0 if half >= math.pi / 2 else math.sin(half) ** 2


@lru_cache(maxsize=10_000)
def rings(text: str) -> tuple[Ring, ...]:
    """Return the rings of a polygon, or of several, as OGC's text has them: longitude before latitude.

    >>> rings("POLYGON ((2 48, 3 48, 3 49, 2 48))")
    (((48.0, 2.0), (48.0, 3.0), (49.0, 3.0), (48.0, 2.0)),)

    Raises ValueError with the reason.
    """
    whole = _POLYGON.fullmatch(text)
    if whole is None:
        raise ValueError("it does not begin with POLYGON")
    found = []
    for inside in _RING.findall(whole[1]):
        corners = []
        for corner in inside.split(","):
            east, north = map(float, corner.split())
            if not abs(north) <= 90 or not abs(east) <= 540:
                raise ValueError(f"{corner.strip()!r} is not a longitude and a latitude")
            corners.append((north, east))
        if len(corners) < 4 or corners[0] != corners[-1]:
            raise ValueError("a ring has at least four corners, the last of which is the first")
        if any(abs(a[1] - b[1]) > 180 for a, b in itertools.pairwise(corners)):
            raise ValueError("an edge is longer than half a turn: write 190 for -170 across the date line")
        found.append(tuple(corners))
    if not found:
        raise ValueError("it has no ring")
    return tuple(found)


def encloses(polygon: tuple[Ring, ...], place: list[float]) -> bool:
    """Tell whether a point lies in a polygon: a line from it to the north crosses an odd number of edges."""
    return any(_crossings(polygon, place[0], place[1] + turn) % 2 for turn in (-360.0, 0.0, 360.0))


def _crossings(polygon: tuple[Ring, ...], north: float, east: float) -> int:
    count = 0
    for ring in polygon:
        for (north_a, east_a), (north_b, east_b) in itertools.pairwise(ring):
            if (east_a > east) != (east_b > east):
                count += north < (north_b - north_a) * (east - east_a) / (east_b - east_a) + north_a
    return count
