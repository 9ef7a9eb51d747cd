"""The workload `attributes`: ranges on float attributes, against DuckDB, Polars and the reference.

Ten attributes; each subscription constrains three of them to an interval whose centre is uniform in [0, 1) and whose
half-width is uniform in [0, 0.05); events are uniform in [0, 1).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.arrays import Float64s, Int64s
from tocsin.bench.runner import Report, Result, measure, timed
from tocsin.language.parse import parse
from tocsin.matcher import Matcher
from tocsin.reference import evaluate

ATTRIBUTES = 10
CONSTRAINED = 3
HALF_WIDTH = 0.05


@dataclass(frozen=True)
class Workload:
    """Subscriptions as intervals and as texts, and events as a table with columns a0 to a9."""

    column: Int64s
    low: Float64s
    high: Float64s
    events: pa.Table

    @property
    def texts(self) -> list[str]:
        """The condition of each subscription."""
        rows = zip(self.column.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        return [" AND ".join(f"a{c} BETWEEN {a!r} AND {b!r}" for c, a, b in zip(*row, strict=True)) for row in rows]

    def subscriptions(self) -> pa.Table:
        """The subscriptions as a table `id, where`."""
        return pa.table({"id": [f"s{number}" for number in range(len(self.low))], "where": self.texts})


def generate(subscriptions: int, events: int, seed: int, half_width: float = HALF_WIDTH) -> Workload:
    """Make the workload; the same seed gives the same workload."""
    random = np.random.default_rng(seed)
    column = np.sort(np.argsort(random.random((subscriptions, ATTRIBUTES)), axis=1)[:, :CONSTRAINED], axis=1)
    centre = random.random((subscriptions, CONSTRAINED))
    half = random.random((subscriptions, CONSTRAINED)) * half_width
    low, high = (centre - half).round(6), (centre + half).round(6)
    values = random.random((ATTRIBUTES, events))
    table = pa.table({f"a{number}": row for number, row in enumerate(values)})
    return Workload(column, low, high, table)


def run(
    subscriptions: int = 100_000,
    events: int = 5_000,
    seed: int = 1,
    quick: bool = False,
    dump: Path | None = None,
    rivals: bool = True,
) -> Report:
    """Match the workload with Tocsin, the reference (on a sample), DuckDB and Polars, and compare."""
    if quick:
        subscriptions, events = 20_000, 1_000
    workload = generate(subscriptions, events, seed)
    report = Report("attributes", {"subscriptions": subscriptions, "events": events, "seed": seed})
    table = workload.subscriptions()
    if dump is not None:
        dump.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, dump / "subscriptions.parquet")
        pq.write_table(workload.events, dump / "events.parquet")
    build_s, matcher = timed(lambda: Matcher.from_table(table))
    seconds = measure(lambda: matcher.match_batch(workload.events), repeat=5)
    matches = matcher.match_batch(workload.events)
    columns = _pairs(matches)
    copy_s = measure(lambda: [np.copy(column) for column in columns], repeat=7)
    report.results.append(
        Result("tocsin", build_s, events / seconds, len(matches), matcher.nbytes / subscriptions, {"ratio": 1.0})
    )
    single_s = _single_event_seconds(matcher, workload)
    parse_s = _parse_seconds(workload.texts[:2_000]) * subscriptions / min(2_000, subscriptions)
    if rivals:
        sample = min(20, events)
        for name, engine, size in (("duckdb", _duckdb, events), ("polars", _polars, min(events, 1_000))):
            part = workload.events.slice(0, size)
            rival_s, found = timed(lambda engine=engine, part=part: engine(workload, part))  # type: ignore[misc]
            expected = len(matches.filter(pa.compute.less(matches["event"], size)))
            if found != expected:
                report.disagreements.append(f"{name} finds {found} matches, tocsin {expected}")
            ratio = (rival_s / size) / (seconds / events)
            rate = size / rival_s
            report.results.append(Result(name, None, rate, found, None, {"ratio": ratio, "events": size}))
        reference_s, found = timed(lambda: _reference(workload, sample))
        expected = len(matches.filter(pa.compute.less(matches["event"], sample)))
        if found != expected:
            report.disagreements.append(f"the reference finds {found} matches, tocsin {expected}")
        ratio = (reference_s / sample) / (seconds / events)
        report.results.append(
            Result("reference", None, sample / reference_s, found, None, {"ratio": ratio, "events": sample})
        )
        for name, least in (("duckdb", 150), ("polars", 300)):
            ratio = next(float(str(r.extra["ratio"])) for r in report.results if r.engine == name)
            report.claim(f"times {name}'s events/s", f"at least {least}", f"{ratio:,.0f}", ratio >= least)
    report.parameters["microseconds_an_event"] = 1e6 * seconds / events
    report.parameters["microseconds_single_event"] = 1e6 * single_s
    copies = seconds / copy_s
    report.claim("time over copying the matched pairs", "at most 8", f"{copies:.1f}", copies <= 8)
    each = matcher.nbytes / subscriptions
    report.claim("bytes of index a subscription", "at most 300", f"{each:.0f}", each <= 300)
    share = build_s / parse_s
    report.claim("build time over sqlglot parsing alone", "at most 0.33", f"{share:.2f}", share <= 1 / 3)
    return report


def _pairs(matches: pa.Table) -> list[npt.NDArray[Any]]:
    """The matches as three arrays: event, subscription by its number, score."""
    numbers = np.concatenate([np.asarray(chunk.indices) for chunk in matches["subscription"].chunks])
    return [matches["event"].to_numpy(), numbers, matches["score"].to_numpy()]


def _single_event_seconds(matcher: Matcher, workload: Workload) -> float:
    events = workload.events.slice(0, 200).to_pylist()
    return measure(lambda: [matcher.match(event) for event in events]) / len(events)


def _parse_seconds(texts: list[str]) -> float:
    import sqlglot

    return measure(lambda: [sqlglot.parse_one(text, dialect="duckdb") for text in texts], repeat=1)


def _bounds(workload: Workload) -> pa.Table:
    """Each subscription as a row of bounds on all attributes, infinite where it has none."""
    count = len(workload.low)
    low = np.full((count, ATTRIBUTES), -np.inf)
    high = np.full((count, ATTRIBUTES), np.inf)
    rows = np.arange(count)[:, None]
    low[rows, workload.column], high[rows, workload.column] = workload.low, workload.high
    return pa.table({f"{end}{n}": bound[:, n] for end, bound in (("l", low), ("h", high)) for n in range(ATTRIBUTES)})


def _duckdb(workload: Workload, events: pa.Table) -> int:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.register("events", events)
    connection.register("bounds", _bounds(workload))
    join = " AND ".join(f"a{n} BETWEEN l{n} AND h{n}" for n in range(ATTRIBUTES))
    answer = connection.execute(f"SELECT count(*) FROM events JOIN bounds ON {join}").fetchone()
    assert answer is not None
    return int(answer[0])


def _polars(workload: Workload, events: pa.Table) -> int:
    import polars

    left, right = polars.DataFrame(events), polars.DataFrame(_bounds(workload))
    conditions = []
    for n in range(ATTRIBUTES):
        conditions += [polars.col(f"a{n}") >= polars.col(f"l{n}"), polars.col(f"a{n}") <= polars.col(f"h{n}")]
    return int(left.lazy().join_where(right.lazy(), *conditions).select(polars.len()).collect().item())


def _reference(workload: Workload, sample: int) -> int:
    conditions = [parse(text) for text in workload.texts]
    events = workload.events.slice(0, sample).to_pylist()
    return sum(evaluate(condition, event) is True for event in events for condition in conditions)
