"""A large index in shards on a Spark cluster of this machine, against what the capacity model predicts.

The subscriptions are those of the workload `attributes`. Executors write them to files, build the index from the files,
a segment in each task, and match events in shards; then the shards are matched in process, one after the other. The
model has the unit costs of `tocsin bench units`, and knows candidates and matches of an event from a sample of the
subscriptions. All seconds are processor time of Python processes.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.bench.attributes import generate
from tocsin.bench.runner import Report, Result, processor_timed
from tocsin.bench.units import BATCH, evidence_of, peak_of
from tocsin.capacity import Units
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence

WORKERS = 2
PART = 250_000
"""Subscriptions that a task writes at a time."""
TOLERANCE = 0.25

Session = Any
"""A SparkSession; only `tocsin.spark` imports PySpark."""


def run(
    subscriptions: int = 1_000_000,
    shards: int = 4,
    segments: int = 4,
    events: int = 16_384,
    sample: int = 100_000,
    seed: int = 1,
    units: Path | None = None,
    quick: bool = False,
) -> Report:
    """Build on a standalone cluster, match in shards, and compare with the prediction of these unit costs."""
    from tocsin.spark import local_session
    from tocsin.spark.cluster import SETTINGS, standalone_cluster
    from tocsin.spark.session import ARROW_OPTIONS

    if quick:
        subscriptions, events, sample = 20_000, BATCH, 10_000
    costs = Units.read() if units is None else Units.read(units)
    parameters = {"subscriptions": subscriptions, "shards": shards, "segments": segments, "events": events}
    report = Report("scale", {**parameters, "sample": sample, "seed": seed})
    settings = {**SETTINGS, "spark.executor.extraJavaOptions": ARROW_OPTIONS}
    with (
        tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name,
        standalone_cluster(WORKERS) as address,
        local_session(address, settings) as session,
    ):
        measured = measure_run(session, Path(name), subscriptions, segments, shards, events, seed)
    few = generate(sample, BATCH, seed)
    found = evidence_of(Matcher.from_table(few.subscriptions()).match_batch(few.events, ordered=False))
    share = subscriptions / sample / BATCH
    work_us = share * (found.candidates * costs.candidate_us + found.matches * costs.match_us)
    predicted = {
        "index_bytes": subscriptions * costs.index_bytes["ranges"],
        "build_s": subscriptions * costs.build_us / 1e6,
        "event_us": shards * costs.event_us["ranges"] + work_us,
        "open_s": (segments * costs.open_ms + subscriptions * costs.open_us / 1e3) / 1e3,
        "matches": share * found.matches,
    }
    for name, value in measured.items():
        expected = predicted.get(name)
        report.results.append(Result(name, extra={"measured": value, "predicted": expected}))
        if expected is not None and name != "open_s":
            off = expected / value - 1
            report.claim(f"{name} as predicted", f"within {TOLERANCE:.0%}", f"{off:+.0%}", abs(off) <= TOLERANCE)
    return report


def measure_run(
    session: Session, folder: Path, subscriptions: int, segments: int, shards: int, events: int, seed: int
) -> dict[str, float]:
    """Build and match in `folder`; return what it took."""
    from tocsin import spark as tocsin_spark
    from tocsin.bench.spark_processes import processor_seconds
    from tocsin.spark._placement.shards import shard
    from tocsin.spark._placement.snapshot_dir import pin

    def used(work: Callable[[], object]) -> float:
        before = processor_seconds("python")
        work()
        return processor_seconds("python") - before

    files, index, log = folder / "subscriptions", folder / "index", folder / "events.parquet"
    files.mkdir()
    size = min(PART, subscriptions)
    parts = session.range(0, subscriptions // size, numPartitions=subscriptions // size)
    parts.mapInArrow(partial(write_part, folder=str(files), size=size, seed=seed), "id long").count()
    rows = session.read.parquet(str(files))
    tocsin_spark.build(rows.limit(1_000), folder / "first", segments=WORKERS)  # workers load their kernels
    build_s = used(lambda: tocsin_spark.build(rows, index, segments=segments))
    peak = _most_memory()
    made = generate(1, events, seed).events.append_column("key", pa.array(range(events)))
    pq.write_table(made, log, use_dictionary=False, row_group_size=BATCH)
    folders = [part.path for part in shard(pin(index), shards)]
    open_s, opened = processor_timed(lambda: [Matcher.open(part, mode="read") for part in folders])
    batches = [made.slice(first, BATCH) for first in range(0, events, BATCH)]
    evidence, seconds = Evidence(), 0.0
    for matcher in opened:
        matcher.match_batch(batches[0], ordered=False)
        for batch in batches:
            spent, matches = processor_timed(partial(matcher.match_batch, batch, ordered=False))
            evidence.add_events(evidence_of(matches))
            seconds += spent
    job = tocsin_spark.match(
        session.read.parquet(str(log)), index, id="key", shards=shards, reader="workers", ship_index=False
    )
    save = job.write.format("noop").mode("overwrite").save
    save()
    spark_s = used(save)
    return {
        "index_bytes": sum(file.stat().st_size for file in index.iterdir() if file.is_file()),
        "build_s": build_s,
        "build_peak_bytes": peak,
        "open_s": open_s,
        "matches": evidence.matches / events,
        "candidates": evidence.candidates / events,
        "event_us": 1e6 * seconds / events,
        "spark_event_us": 1e6 * spark_s / events,
    }


def write_part(batches: Iterator[pa.RecordBatch], folder: str, size: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Write the subscriptions of each part, whose numbers come in, as a file."""
    for batch in batches:
        for part in batch.column(0).to_pylist():
            texts = generate(size, 1, seed + 1 + part).texts
            ids = [f"s{number:010}" for number in range(part * size, (part + 1) * size)]
            pq.write_table(pa.table({"id": ids, "where": texts}), f"{folder}/{part:06}.parquet")
        yield batch


def _most_memory() -> int:
    """Return the most bytes that one of the Python processes below this one has had."""
    from tocsin.bench.spark_processes import below

    most = 0
    for process in (process for process, name in below(os.getpid()).items() if name.startswith("python")):
        with contextlib.suppress(OSError):  # it may have ended
            most = max(most, peak_of(process))
    return most
