"""The workload `spark`: ranges on ten attributes, on Spark against the matcher in process and Spark SQL's own joins.

The events and subscriptions are those of the workload `attributes`. A job reads the events from Parquet, finds the
matches, hands them over to Spark, and counts them there.
"""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.bench.attributes import ATTRIBUTES, Workload, generate
from tocsin.bench.runner import Report, Result, timed
from tocsin.engine.matcher import Matcher

Session = Any
"""A SparkSession; only `tocsin.spark` imports PySpark."""

CORES = 2
BUCKETS = 20
"""Into which the hand-written join cuts an attribute: about the mean width of a range."""

NEAR = " AND ".join(f"e.a{n} BETWEEN s.low{n} AND s.high{n}" for n in range(ATTRIBUTES))

NESTED_LOOP = f"SELECT /*+ BROADCAST(s) */ e.key, s.id FROM few e JOIN ranges s ON {NEAR}"
BUCKETED = f"""
WITH cut AS (SELECT *, explode(sequence(int(least(greatest(first_low, 0), 1) * {BUCKETS}),
                                        int(least(greatest(first_high, 0), 1) * {BUCKETS}))) AS bucket FROM ranges),
     placed AS (SELECT *, posexplode(transform(array({", ".join(f"a{n}" for n in range(ATTRIBUTES))}),
                                               a -> int(a * {BUCKETS}))) AS (attribute, place) FROM few)
SELECT e.key, s.id FROM placed e JOIN cut s ON e.attribute = s.first AND e.place = s.bucket AND {NEAR}
"""
"""The range join that people write by hand: events and ranges meet in the buckets of a range's first attribute."""


def run(
    subscriptions: int = 100_000,
    events: int = 1_000_000,
    few: int = 1_000,
    seed: int = 1,
    cluster: bool = True,
    quick: bool = False,
) -> Report:
    """Match on `local[2]` and on a standalone cluster; `few` events go to Spark SQL's joins."""
    from tocsin.spark import local_session
    from tocsin.spark.cluster import SETTINGS, standalone_cluster

    if quick:
        subscriptions, events, few, cluster = 10_000, 50_000, 500, False
    report = Report("spark", {"subscriptions": subscriptions, "events": events, "few": few, "seed": seed})
    workload = generate(subscriptions, events, seed)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
        folder = Path(name)
        matcher = _write(workload, folder, few)
        one_core = _in_process(report, matcher, workload)
        with local_session(f"local[{CORES}]", {"spark.driver.memory": "2g"}) as session:
            rate = _on_spark(report, session, folder, f"spark local[{CORES}]", events)
            _joins(report, session, folder, few, rate, matcher, workload)
        report.claim(
            "match on Spark, a core, against the matcher in process",
            "at least 60%",
            f"{rate / CORES / one_core:.0%}",
            rate / CORES / one_core >= 0.6,
        )
        if cluster:
            with standalone_cluster(CORES) as address, local_session(address, SETTINGS) as session:
                _on_spark(report, session, folder, f"spark standalone, {CORES} workers", events)
    return report


def _write(workload: Workload, folder: Path, few: int) -> Matcher:
    """Write the index, the events in eight files, and the ranges as the joins want them."""
    matcher = Matcher.from_table(workload.subscriptions())
    matcher.save(folder / "index")
    matcher.close()
    keyed = workload.events.append_column("key", pa.array(range(len(workload.events))))
    (folder / "events").mkdir()
    step = -(-len(keyed) // (4 * CORES))
    for number in range(4 * CORES):
        pq.write_table(keyed.slice(number * step, step), folder / "events" / f"{number}.parquet")
    pq.write_table(keyed.slice(0, few), folder / "few.parquet")
    rows: list[dict[str, Any]] = []
    for number, (columns, lows, highs) in enumerate(zip(workload.column, workload.low, workload.high, strict=True)):
        row: dict[str, Any] = {"id": f"s{number}", "first": int(columns[0])}
        row |= {"first_low": float(lows[0]), "first_high": float(highs[0])}
        for attribute in range(ATTRIBUTES):
            row |= {f"low{attribute}": -1.0, f"high{attribute}": 2.0}
        for attribute, low, high in zip(columns, lows, highs, strict=True):
            row |= {f"low{attribute}": float(low), f"high{attribute}": float(high)}
        rows.append(row)
    pq.write_table(pa.Table.from_pylist(rows), folder / "ranges.parquet")
    return matcher


def _in_process(report: Report, matcher: Matcher, workload: Workload) -> float:
    """Events a second of one core, slice by slice as a worker does."""
    from tocsin.spark.worker import match_slices

    batches = workload.events.append_column("key", pa.array(range(len(workload.events)))).to_batches(50_000)
    sum(part.num_rows for part in match_slices(matcher, batches[:1]))
    seconds, count = timed(lambda: sum(part.num_rows for part in match_slices(matcher, batches)))
    rate = len(workload.events) / seconds
    report.results.append(Result("in process, one core", None, rate, count))
    return rate


def _on_spark(report: Report, session: Session, folder: Path, engine: str, events: int) -> float:
    from tocsin import spark as tocsin_spark

    frame = session.read.parquet(str(folder / "events"))
    matches = tocsin_spark.match(frame, folder / "index", id="key")
    first_s, _ = timed(lambda: matches.limit(1).collect())
    again_s, _ = timed(lambda: matches.limit(1).collect())
    # Every core has a worker before the job is timed.
    tocsin_spark.match(frame.limit(1000).repartition(4 * CORES), folder / "index", id="key").count()
    seconds, count = timed(matches.count)
    extra = {"first_result_s": first_s, "worker_start_s": first_s - again_s}
    report.results.append(Result(engine, None, events / seconds, count, extra={**extra}))
    return events / seconds


def _joins(
    report: Report,
    session: Session,
    folder: Path,
    few: int,
    rate: float,
    matcher: Matcher,
    workload: Workload,
) -> None:
    for view in ("few", "ranges"):
        session.read.parquet(str(folder / f"{view}.parquet")).createOrReplaceTempView(view)
    expected = matcher.match_batch(workload.events.slice(0, few)).num_rows
    for engine, query in (("nested loop join", NESTED_LOOP), ("bucketed range join", BUCKETED)):
        joined = session.sql(query)
        seconds, count = timed(joined.count)
        report.results.append(Result(f"Spark SQL, {engine}", None, few / seconds, extra={"few_matches": count}))
        if count != expected:
            report.disagreements.append(f"{engine}: {count} matches of the few events, not {expected}")
        ratio = rate / (few / seconds)
        report.claim(f"match against Spark SQL's {engine}", "at least 100 times", f"{ratio:.0f} times", ratio >= 100)
