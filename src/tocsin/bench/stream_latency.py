"""The workload `stream-latency`: how long it takes from a file to its matches, while subscriptions change.

A file of events appears every `interval` seconds. A stream on `local[2]` takes what there is as soon as it has written
the batch before, and writes matches to a table, exactly once. Every `change_every` seconds another process would commit
changes: here a thread takes back some subscriptions and adds as many. The latency of a file is the time from the rename
that makes it appear to that which makes its batch appear in the table.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.bench.attributes import Workload, generate
from tocsin.bench.runner import Report, Result
from tocsin.matcher import Matcher

CHANGED = 10
"""Subscriptions that each commit takes back, and adds."""
WARM_UP = 25
"""Files that do not count, by default: while workers start and the JVM compiles. A slow machine needs more for that."""


def run(
    subscriptions: int = 100_000,
    files: int = 150,
    events_per_file: int = 100,
    interval: float = 0.2,
    change_every: float = 1.0,
    warm_up: int = WARM_UP,
    seed: int = 1,
    quick: bool = False,
) -> Report:
    """Drop files, commit changes, and report the latency of files but the first `warm_up`, and what it consists of."""
    from tocsin import spark as tocsin_spark

    if quick:
        subscriptions, files = 10_000, 30
    total = warm_up + files
    workload = generate(subscriptions, total * events_per_file, seed)
    pace = {"files": files, "events_per_file": events_per_file, "interval": interval, "change_every": change_every}
    report = Report("stream-latency", {"subscriptions": subscriptions, **pace, "warm_up": warm_up, "seed": seed})
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
        folder = Path(name)
        writer = Matcher.from_table(workload.subscriptions())
        writer.save(folder / "index")
        (folder / "events").mkdir()
        written: dict[int, float] = {}
        seconds: dict[int, float] = {}

        def listen(record: tocsin_spark.BatchRecord, taken: float) -> None:
            written[record.batch], seconds[record.batch] = time.time(), taken

        with tocsin_spark.local_session("local[2]", {"spark.driver.memory": "2g"}) as session:
            schema = ", ".join(["key long", *(f"{name} double" for name in workload.events.schema.names)])
            arriving = session.readStream.schema(schema).parquet(str(folder / "events"))
            query = tocsin_spark.stream(
                arriving, folder / "index", id="key", checkpoint=folder / "notes", sink=folder / "out", listener=listen
            )
            done = threading.Event()
            committer = threading.Thread(target=_change, args=(writer, workload, change_every, done))
            committer.start()
            appeared = [_drop(folder, workload, number, events_per_file) for number in _paced(total, interval)]
            query.processAllAvailable()
            done.set()
            committer.join()
            query.stop()
        writer.close()
        table = tocsin_spark.BatchTable(folder / "out")
        batch_of: dict[int, int] = {}
        for record in table.records():
            found = pq.read_table(folder / "out" / f"batch={record.batch:06}", columns=["event"])
            batch_of |= dict.fromkeys(np.unique(found["event"].to_numpy() // events_per_file).tolist(), record.batch)
        counted = range(warm_up, total)
        missing = [number for number in counted if number not in batch_of]
        if missing:
            report.disagreements.append(f"{len(missing)} files have no matches in the table")
        latencies = np.array([written[batch_of[number]] - appeared[number] for number in counted if number in batch_of])
        batches = sorted({batch_of[number] for number in counted if number in batch_of})
        snapshots = {record.snapshot for record in table.records() if record.batch in batches}
        p50, p90, p99 = (float(q) for q in np.percentile(latencies, [50, 90, 99]))
        facts = {"p50_ms": p50 * 1e3, "p90_ms": p90 * 1e3, "p99_ms": p99 * 1e3, "batches": len(batches)}
        inside = {"batch_ms": 1e3 * float(np.median([seconds[batch] for batch in batches]))}
        # In turn: Spark lists the files and plans, `stream` pins, matches and writes, Spark notes the batch.
        report.results.append(Result("files to a table", extra={**facts, **inside, "snapshots": len(snapshots)}))
    return report


def _paced(count: int, interval: float) -> Iterator[int]:
    start = time.time()
    for number in range(count):
        time.sleep(max(0.0, start + number * interval - time.time()))
        yield number


def _drop(folder: Path, workload: Workload, number: int, count: int) -> float:
    """Let a file appear among the events; return when."""
    events = workload.events.slice(number * count, count)
    hidden = folder / f"{number}.parquet"
    pq.write_table(events.append_column("key", pa.array(range(number * count, (number + 1) * count))), hidden)
    hidden.rename(folder / "events" / hidden.name)
    return time.time()


def _change(writer: Matcher, workload: Workload, every: float, done: threading.Event) -> None:
    texts, turn = workload.texts, 0
    while not done.wait(every):
        for number in range(turn * CHANGED, (turn + 1) * CHANGED):
            old = number % len(texts)
            writer.unsubscribe(f"s{old}" if number < len(texts) else f"s{old} again")
            writer.subscribe(f"s{old} again", texts[old])
        writer.commit()
        turn += 1
