"""100,000 circles and as many points, against NumPy's haversine and DuckDB's join.

Circles lie around towns, as saved searches do: most of 2 to 50 km, some of 500. Points lie around the same towns. NumPy
computes the distance of a point to all centres. DuckDB joins by latitudes and longitudes of boxes, then by distance.
Both are timed on some points and scaled. All seconds are processor time; DuckDB has one thread.
"""

import numpy as np
import pyarrow as pa

from tocsin.arrays import Float64s
from tocsin.bench.runner import Report, Result, processor_timed
from tocsin.matcher import Matcher
from tocsin.model.places import EARTH_RADIUS

TOWNS = 2_000
RIVAL_POINTS = 200
_KILOMETRES = np.array([2, 5, 10, 10, 20, 50, 500])
_DISTANCE = (
    "2 * asin(sqrt(pow(sin(radians(p.lat - c.lat) / 2), 2)"
    " + cos(radians(c.lat)) * cos(radians(p.lat)) * pow(sin(radians(p.lon - c.lon) / 2), 2)))"
)


def around_towns(random: np.random.Generator, towns: Float64s, count: int, spread: float) -> Float64s:
    """Places around towns, large ones first: rows of latitude and longitude."""
    town = towns[(TOWNS * random.random(count) ** 2).astype(np.int64)]
    places: Float64s = np.round(town + random.normal(0, spread, (count, 2)), 5)
    return places


def _by_numpy(centres: Float64s, metres: Float64s, points: Float64s) -> int:
    north, east = np.radians(centres).T
    cosine, found = np.cos(north), 0
    for latitude, longitude in np.radians(points):
        half = np.sin((north - latitude) / 2) ** 2 + cosine * np.cos(latitude) * np.sin((east - longitude) / 2) ** 2
        found += int(np.count_nonzero(2 * EARTH_RADIUS * np.arcsin(np.sqrt(half)) <= metres))
    return found


def run(*, quick: bool = False, seed: int = 1, repeats: int = 3) -> Report:
    """Points a second of a matcher, of NumPy and of DuckDB."""
    import duckdb

    random = np.random.default_rng(seed)
    count = 5_000 if quick else 100_000
    towns = np.stack([random.uniform(-55, 65, TOWNS), random.uniform(-170, 170, TOWNS)], axis=1)
    centres, points = (around_towns(random, towns, count, spread) for spread in (0.1, 0.3))
    kilometres = _KILOMETRES[random.choice(len(_KILOMETRES), count, p=[0.2, 0.25, 0.15, 0.15, 0.15, 0.09, 0.01])]
    report = Report("distance", {"circles": count, "points": count, "seed": seed})
    wheres = [
        f"within_distance(lat, lon, {north!r}, {east!r}, '{reach} km')"
        for (north, east), reach in zip(centres.tolist(), kilometres.tolist(), strict=True)
    ]
    table = pa.table({"lat": points[:, 0].copy(), "lon": points[:, 1].copy()})
    with Matcher() as few:
        few.subscribe_many(pa.table({"id": [str(n) for n in range(500)], "where": wheres[:500]}))
        few.match_batch(table.slice(0, 500))

    matcher = Matcher()
    subscriptions = pa.table({"id": [str(n) for n in range(count)], "where": wheres})
    build_s, rejected = processor_timed(
        lambda: (matcher.subscribe_many(subscriptions), matcher.match_batch(table[:2]))[0]
    )
    for bad in rejected:
        report.disagreements.append(f"a circle was refused: {bad}")
    runs = [processor_timed(lambda: matcher.match_batch(table)) for _ in range(repeats)]
    ours, found = min(seconds for seconds, _ in runs), runs[0][1]
    report.results.append(
        Result(
            "tocsin", build_s=build_s, events_per_s=count / ours, extra={"matches_per_point": found.num_rows / count}
        )
    )

    expected = matcher.match_batch(table[:RIVAL_POINTS]).num_rows
    metres = kilometres * 1000.0
    numpy_s, by_numpy = processor_timed(lambda: _by_numpy(centres, metres, points[:RIVAL_POINTS]))
    reach = metres / EARTH_RADIUS
    wide = np.degrees(np.arcsin(np.sin(reach) / np.cos(np.radians(centres[:, 0]))))
    circles = {"lat": centres[:, 0], "lon": centres[:, 1], "high": np.degrees(reach), "wide": wide, "reach": reach}
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("given", pa.table({name: values.copy() for name, values in circles.items()}))
        connection.register("few", table[:RIVAL_POINTS])
        connection.execute("CREATE TABLE c AS SELECT * FROM given; CREATE TABLE p AS SELECT * FROM few")
        query = (
            "SELECT count(*) FROM p JOIN c ON p.lat BETWEEN c.lat - c.high AND c.lat + c.high"
            f" AND p.lon BETWEEN c.lon - c.wide AND c.lon + c.wide WHERE {_DISTANCE} <= c.reach"
        )
        duckdb_s, by_duckdb = processor_timed(lambda: connection.execute(query).fetchall()[0][0])
    for name, matches, seconds in (("NumPy, all centres", by_numpy, numpy_s), ("DuckDB, a join", by_duckdb, duckdb_s)):
        if matches != expected:
            report.disagreements.append(f"{name}: {matches} matches, not {expected}")
        report.results.append(Result(f"{name} (some points)", events_per_s=RIVAL_POINTS / seconds))
    ratio = (count / ours) / (RIVAL_POINTS / min(numpy_s, duckdb_s))
    report.claim("at least 50 times the faster of both", "50", f"{ratio:,.0f}", ratio >= 50)
    return report
