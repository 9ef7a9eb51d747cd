"""Circles and polygons: the index equals the definition, and the definition a plain haversine in NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.parse import parse
from tocsin.model.condition import WithinDistance, WithinPolygon
from tocsin.model.places import EARTH_RADIUS, encloses, rings
from tocsin.predicates.places.index import Places
from tocsin.reference import evaluate

LATITUDES = st.sampled_from([-90.0, -89.9999, 0.0, 45.0, 89.0, 90.0]) | st.floats(-90, 90)
LONGITUDES = st.sampled_from([-180.0, -179.9999, 0.0, 2.35, 179.9999]) | st.floats(-180, 179.999999)
METRES = st.sampled_from([0.0, 1.0, 1e3, 1e5, 1e6, 1.0007e7, 2.1e7, 1e9]) | st.floats(0, 2.2e7)
CIRCLES = st.tuples(LATITUDES, LONGITUDES, METRES)
POINTS = st.tuples(LATITUDES, LONGITUDES)
TIE = 1e-6
"""Metres: how near to a distance sines are not told apart."""


def distances(centre: tuple[float, float], latitude: Any, longitude: Any) -> Any:
    """The plain haversine."""
    north, east, up, along = map(np.radians, (*centre, latitude, longitude))
    half = np.sin((up - north) / 2) ** 2 + np.cos(north) * np.cos(up) * np.sin((along - east) / 2) ** 2
    return 2 * EARTH_RADIUS * np.arcsin(np.minimum(1, np.sqrt(half)))


@settings(max_examples=150, deadline=None)
@given(st.lists(CIRCLES, min_size=1, max_size=8), st.lists(POINTS, min_size=1, max_size=12))
@example([(90.0, 0.0, 5e5), (-17.0, 179.99, 1e5), (0.0, 0.0, 0.0)], [(88.0, 135.0), (-17.0, -179.9), (0.0, 0.0)])
@example([(60.0, 10.0, 1e6), (89.9, 0.0, 2e4)], [(66.0, 27.9), (89.9, 180 - 1e-9)])
def test_circles_equal_numpy(circles: list[tuple[float, float, float]], points: list[tuple[float, float]]) -> None:
    index = Places.build([WithinDistance("p", *circle) for circle in circles])
    index.check()
    latitude, longitude = np.array(points).T.copy()
    starts, found = Places(index.arrays()).probe(latitude, longitude)
    rows = np.split(found, starts[1:-1])
    for number, (north, east, metres) in enumerate(circles):
        away = distances((north, east), latitude, longitude)
        # The arc sine of a half turn is known to a few metres alone.
        clear = np.abs(away - metres) > (TIE if metres < 1.9e7 else 100)
        holds = np.array([number in row for row in rows])
        assert (holds == (away <= metres))[clear].all()
        test = parse(f"within_distance(a, b, {north!r}, {east!r}, '{metres:f} m')")
        by_reference = np.array([evaluate(test, {"a": a, "b": b}) for a, b in points])
        assert (by_reference == holds)[np.abs(away - float(f"{metres:f}")) > TIE].all() or not clear.all()


@st.composite
def polygons(draw: st.DrawFn) -> str:
    """Polygons of a few corners, some across the date line, some with a hole."""
    east, north = draw(st.sampled_from([-180.0, -10.0, 100.0, 175.0])), draw(st.sampled_from([-80.0, 0.0, 40.0]))
    offsets = st.tuples(st.integers(0, 20), st.integers(0, 20))

    def ring() -> str:
        corners = draw(st.lists(offsets, min_size=3, max_size=6))
        return "(" + ", ".join(f"{east + x} {north + y}" for x, y in [*corners, corners[0]]) + ")"

    return f"POLYGON ({', '.join(ring() for _ in range(draw(st.integers(1, 2))))})"


@settings(max_examples=100, deadline=None)
@given(st.lists(polygons(), min_size=1, max_size=4), st.lists(POINTS, min_size=1, max_size=12))
@example(
    ["POLYGON ((170 -20, 190 -20, 190 -10, 170 -10, 170 -20))"], [(-15.0, -175.0), (-15.0, 175.0), (-15.0, -165.0)]
)
def test_polygons_equal_the_definition(texts: list[str], points: list[tuple[float, float]]) -> None:
    index = Places.build([WithinPolygon("p", text) for text in texts])
    index.check()
    starts, found = index.probe(*np.array(points).T.copy())
    wanted = [[n for n, text in enumerate(texts) if encloses(rings(text), [*point])] for point in points]
    assert [row.tolist() for row in np.split(found, starts[1:-1])] == wanted


def test_a_polygon_by_hand() -> None:
    holed = rings("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (4 4, 6 4, 6 6, 4 6, 4 4))")
    assert [encloses(holed, [5.0, x]) for x in (-1.0, 1.0, 5.0, 9.0, 11.0)] == [False, True, False, True, False]
    two = rings("MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))")
    assert [encloses(two, [y, x]) for y, x in ((0.5, 0.9), (5.5, 5.9), (3.0, 3.0))] == [True, True, False]


def test_few_circles_are_verified() -> None:
    random = np.random.default_rng(1)
    centres = random.uniform(-60, 60, (10_000, 2))
    index = Places.build([WithinDistance("p", a, b, 10_000.0) for a, b in centres.tolist()])
    _, found, verified = index.search(centres[:100, 0].copy(), centres[:100, 1].copy())
    assert 100 <= len(found) <= verified < 1_000


WHERES = {
    "paris": "within_distance(lat, lon, 48.85, 2.35, '10 km')",
    "not paris": "NOT within_distance(lat, lon, 48.85, 2.35, '10 km')",
    "unknown": "(within_distance(lat, lon, 48.85, 2.35, '10 km')) IS NULL",
    "box": "within_box(lat, lon, 48, 2, 49, 3) AND n > 1",
    "polygon": "within_polygon(lat, lon, 'POLYGON ((2 48, 3 48, 3 49, 2 49, 2 48))')",
    "either": "within_distance(lat, lon, -17, 179.99, '100 km') OR within_distance(lat + 0, lon, 0, 0, '1 km')",
}
EVENTS: list[dict[str, Any]] = [
    {"lat": 48.86, "lon": 2.29, "n": 2},
    {"lat": 48.1, "lon": 2.9, "n": 1},
    {"lat": -17, "lon": 180.5},
    {"lat": 0, "lon": 360},
    {"lat": 48.86},
    {"lat": 91, "lon": 0},
    {"lat": float("nan"), "lon": 2.0},
    {"lat": "48.86", "lon": 2.29},
    {},
]


def test_matcher_equals_the_reference_through_changes(tmp_path: Path) -> None:
    def check(matcher: Matcher) -> None:
        wanted = [[id for id in sorted(matcher) if evaluate(parse(WHERES[id]), event)] for event in EVENTS]
        assert [sorted(matcher.match(event).ids) for event in EVENTS] == wanted
        found = matcher.match_batch(EVENTS)
        pairs = zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True)
        assert sorted(pairs) == [(row, id) for row, ids in enumerate(wanted) for id in ids]
        for event, ids in zip(EVENTS, wanted, strict=True):
            assert [id for id in sorted(matcher) if matcher.explain(event, id).matches] == ids

    ids = list(WHERES)
    with Matcher() as matcher:
        matcher.subscribe_many(pa.table({"id": ids[:4], "where": [WHERES[id] for id in ids[:4]]}))
        check(matcher)
        for id in ids[4:]:
            matcher.subscribe(id, WHERES[id])
        check(matcher)
        matcher.compact()
        matcher.unsubscribe("not paris")
        check(matcher)
        matcher.save(tmp_path / "index")
    with Matcher.open(tmp_path / "index", mode="read") as reader:
        check(reader)
        floats = pa.table({"lat": [48.86, None, 50.0], "lon": [2.29, 2.29, 2.29], "n": [2, 2, 2]})
        assert reader.match_batch(floats)["subscription"].to_pylist() == ["box", "paris", "polygon", "unknown"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("within_distance(lat, lon, 48.85, 2.35, '10 parsecs')", "is not a distance"),
        ("within_distance(lat, lon, 98.85, 2.35, '10 km')", "is not a circle on the Earth"),
        ("within_distance(lat, lon, 48.85, 2.35)", "takes 5 arguments"),
        ("within_distance(lat, lon, 48.85, x, '10 km')", "a number must stand here"),
        ("within_box(lat, lon, 49, 2, 48, 3)", "no box on the Earth"),
        ("within_polygon(lat, lon, 'POLYGON ((1 2, 3 4))')", "at least four corners"),
        ("within_polygon(lat, lon, 'POLYGON ((170 0, -170 0, -170 9, 170 0))')", "write 190 for -170"),
        ("within_polygon(lat, lon, 'CIRCLE (1 2)')", "does not begin with POLYGON"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with Matcher() as matcher, pytest.raises(SubscriptionError, match=message):
        matcher.subscribe("x", text)
