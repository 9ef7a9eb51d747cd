"""The workload `spark`: ranges on ten attributes, on Spark against the matcher in process and Spark SQL's own joins.

The events and subscriptions are those of the workload `attributes`. A job on Spark reads the events from Parquet, finds
the matches and hands every one over to Spark as a row, which is thrown away (the sink `noop`). Workers read the files
themselves, or get the rows of a DataFrame that has a further step. In process, as many processes as cores match the
same events: from memory to Arrow tables with ids as dictionaries, which is what `Matcher.match_batch` does; or from the
same files, by the same reader, to the columns that Spark gets.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.bench.attributes import ATTRIBUTES, Workload, generate
from tocsin.bench.runner import Report, Result, timed
from tocsin.matcher import Matcher

if TYPE_CHECKING:
    from tocsin.bench.spark_processes import InProcess

Session = Any
"""A SparkSession; only `tocsin.spark` imports PySpark."""

CORES = 2
WARM_UP = 12
"""Jobs of each kind that do not count: until the JVM has compiled what is hot, which took a quarter of it after 4."""
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
    rounds: int = 5,
    seed: int = 1,
    cluster: bool = True,
    quick: bool = False,
) -> Report:
    """Match on `local[2]` and on a standalone cluster, in turn with processes; `few` events go to Spark SQL's joins."""
    from tocsin.bench.spark_processes import InProcess
    from tocsin.spark import local_session
    from tocsin.spark.cluster import SETTINGS, standalone_cluster
    from tocsin.spark.session import ARROW_OPTIONS

    if quick:
        subscriptions, events, few, rounds, cluster = 10_000, 50_000, 500, 1, False
    report = Report("spark", {"subscriptions": subscriptions, "events": events, "few": few, "seed": seed})
    workload = generate(subscriptions, events, seed)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        matcher = _write(workload, folder, few)
        in_process = InProcess(folder / "index", sorted((folder / "events").iterdir()), CORES)
        stack.callback(in_process.stop)
        with local_session(f"local[{CORES}]", {"spark.driver.memory": "2g"}) as session:
            rate = _compare(report, session, folder, f"local[{CORES}]", in_process, events, rounds)
            _stages(report, session, folder, events, rounds)
            _small_job(report, session, rounds, seed)
            _joins(report, session, folder, few, rate, matcher, workload)
        if cluster:
            settings = {**SETTINGS, "spark.executor.extraJavaOptions": ARROW_OPTIONS}
            with standalone_cluster(CORES) as address, local_session(address, settings) as session:
                _compare(report, session, folder, f"standalone, {CORES} workers", in_process, events, rounds)
    report.expect_equal_matches()
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
        # Plain, as Spark itself writes numbers that hardly repeat.
        part = keyed.slice(number * step, step)
        pq.write_table(part, folder / "events" / f"{number}.parquet", use_dictionary=False)
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


def _compare(
    report: Report, session: Session, folder: Path, master: str, in_process: "InProcess", events: int, rounds: int
) -> float:
    """Time the job on Spark in turn with the matcher in process; return the events a second of Spark."""
    from tocsin import spark as tocsin_spark
    from tocsin.bench.spark_processes import Use, memory, processor_seconds

    frame = session.read.parquet(str(folder / "events"))
    start_s = _worker_start(frame)
    by_files = tocsin_spark.match(frame, folder / "index", id="key", reader="workers")
    by_rows = tocsin_spark.match(frame, folder / "index", id="key")
    first_s, _ = timed(lambda: by_files.limit(1).collect())
    on_spark = {f"match of files on {master}": by_files, f"match of rows on {master}": by_rows}
    counts = {name: matches.count() for name, matches in on_spark.items()}

    def job(name: str) -> Use:
        before = processor_seconds()
        wall, _ = timed(on_spark[name].write.format("noop").mode("overwrite").save)
        return Use(wall, processor_seconds() - before, counts[name])

    works: dict[str, Callable[[], Use]] = {name: partial(job, name) for name in on_spark}
    for _ in range(WARM_UP if rounds > 1 else 1):
        for work in works.values():
            work()
    in_processes = {
        f"in process, {CORES} cores, from memory": in_process.match_memory,
        f"in process, {CORES} cores, from files": in_process.match_files,
    }
    for work in in_processes.values():
        work()
    works |= in_processes
    uses: dict[str, list[Use]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            uses[name].append(work())
    walls = {name: statistics.median(use.wall for use in taken) for name, taken in uses.items()}
    processor = {name: statistics.median(use.processor for use in taken) for name, taken in uses.items()}
    for name, taken in uses.items():
        extra = {"events_per_processor_s": events / processor[name]}
        if on_spark.get(name) is by_files:
            extra |= {"first_result_s": first_s, "worker_start_s": start_s, **memory()}
        report.results.append(Result(name, None, events / walls[name], taken[0].matches, extra={**extra}))
    for name in on_spark:
        for rival in in_processes:
            share = processor[rival] / processor[name]
            said = f"{share:.0%}; by the clock {walls[rival] / walls[name]:.0%}"
            report.claim(f"{name}, a core, against {rival}", "at least 60%", said, share >= 0.6)
    return events / walls[next(iter(on_spark))]


def _stages(report: Report, session: Session, folder: Path, events: int, rounds: int) -> None:
    """Measure jobs that leave stages out: the processor time of Java and of Python, an event."""
    from tocsin import spark as tocsin_spark
    from tocsin.bench.spark_processes import processor_by_program

    frame = session.read.parquet(str(folder / "events"))
    files = [str(file) for file in sorted((folder / "events").iterdir())]
    tasks = session.range(0, len(files), numPartitions=len(files))
    matches = tocsin_spark.match(frame, folder / "index", id="key", reader="workers")
    ready = matches.limit(1 << 16).toArrow().combine_chunks().to_batches()[0]
    batches = round(next(result.matches for result in report.results if result.matches) / ready.num_rows / len(files))
    (folder / "ready.arrow").write_bytes(_as_stream(ready))
    jobs = {
        "Parquet to rows": frame,
        "Parquet to rows, to Python; nothing back": frame.mapInArrow(_drop, "key long"),
        "files read by workers; nothing back": tasks.mapInArrow(partial(_read_only, files=files), "key long"),
        "ready matches from Python to rows": tasks.mapInArrow(
            partial(_send, file=str(folder / "ready.arrow"), times=batches), matches.schema
        ),
        "match of files": matches,
        "match of rows": tocsin_spark.match(frame, folder / "index", id="key"),
    }
    for name, job in jobs.items():
        taken = []
        for _ in range(rounds + WARM_UP // 2 if rounds > 1 else 1):
            before = processor_by_program()
            job.write.format("noop").mode("overwrite").save()
            taken.append({kind: seconds - before[kind] for kind, seconds in processor_by_program().items()})
        cost = {kind: statistics.median(use[kind] for use in taken[-rounds:]) / events * 1e6 for kind in taken[0]}
        report.results.append(
            Result(f"stages: {name}", extra={f"{kind}_us_per_event": each for kind, each in cost.items()})
        )


def _small_job(report: Report, session: Session, rounds: int, seed: int) -> None:
    """Time a job of 1,000 events and as many subscriptions, from DataFrames of both to its first result."""
    from tocsin import spark as tocsin_spark
    from tocsin.bench.spark_processes import processor_seconds

    workload = generate(1_000, 1_000, seed)
    keyed = workload.events.append_column("key", pa.array(range(len(workload.events))))
    frame, subscriptions = (session.createDataFrame(table) for table in (keyed, workload.subscriptions()))
    walls, used = [], []
    for _ in range(rounds + 2):
        before, own = processor_seconds(), time.process_time()
        wall, _ = timed(lambda: tocsin_spark.match(frame, subscriptions, id="key").collect())
        walls.append(wall)
        used.append(processor_seconds() - before + time.process_time() - own)
    result_s, processor_s = (statistics.median(values[-rounds:]) for values in (walls, used))
    extra = {"first_result_s": result_s, "processor_s": processor_s}
    report.results.append(Result("small job: 1,000 events, 1,000 subscriptions", extra={**extra}))
    said = f"{result_s:.2f} s; processor time {processor_s:.2f} s"
    report.claim("first result of a small job, warm", "at most 1 s", said, result_s <= 1)


def _as_stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(["key"]).slice(0, 0)


def _read_only(batches: Iterator[pa.RecordBatch], files: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            table = pq.read_table(files[number], use_threads=False)
            yield from table.select(["key"]).slice(0, 0).combine_chunks().to_batches()


def _send(batches: Iterator[pa.RecordBatch], file: str, times: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for _ in range(batch.num_rows):
            ready = pa.ipc.open_stream(file).read_next_batch()
            yield from [ready] * times


def _worker_start(frame: Any) -> float:
    """The seconds until Python workers run, over those of the same job when they do."""
    job = frame.limit(1).mapInArrow(_nothing, "a0 double")
    frame.limit(1).collect()
    first, _ = timed(job.collect)
    again, _ = timed(job.collect)
    return first - again


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch.select(["a0"]) for batch in batches)


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
