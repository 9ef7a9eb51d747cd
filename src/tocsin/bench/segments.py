"""The workload `segments`: subscription sets that change while they are used, on disk and shared by processes."""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa

from tocsin.bench.attributes import Workload, generate
from tocsin.bench.runner import Report, Result, measure, timed
from tocsin.engine.matcher import Matcher

SEGMENTS = 10
READERS = 10
_READ = """
import sys
from tocsin import Matcher
matcher = Matcher.open(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
for view in matcher._current().views:
    for array in view.segment.container().arrays.values():
        array.reshape(-1).view("u1").sum()
print("touched", flush=True)
sys.stdin.readline()
"""


def run(subscriptions: int = 1_000_000, events: int = 20_000, seed: int = 1, quick: bool = False) -> Report:
    """Compare opening with building, ten segments with one, bulk loading with subscribing, busy with quiet."""
    if quick:
        subscriptions, events = 50_000, 5_000
    report = Report("segments", {"subscriptions": subscriptions, "events": events, "seed": seed})
    workload = generate(subscriptions, events, seed)
    table = workload.subscriptions()
    build_s, one = timed(lambda: Matcher.from_table(table))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        one.save(path)
        _opening(report, path, build_s)
        _sharing(report, path)
        one.close()
    _ten_segments(report, one, table, workload)
    _subscribing(report, one, table, build_s / subscriptions)
    _changing_while_matching(report, one, workload)
    return report


def _opening(report: Report, path: Path, build_s: float) -> None:
    open_s = measure(lambda: Matcher.open(path), repeat=5)
    size = sum(file.stat().st_size for file in path.iterdir())
    report.results.append(Result("build", build_s, extra={"seconds": build_s}))
    report.results.append(Result("open", extra={"seconds": open_s, "file_bytes": size}))
    ratio = build_s / open_s
    report.claim("building over opening", "at least 50", f"{ratio:,.0f}", ratio >= 50)


def _sharing(report: Report, path: Path) -> None:
    """Let readers open, then touch every page, and see how much more memory is theirs alone.

    A page counts as private while no other process has it mapped, so all must be at the same point.
    """
    command = [sys.executable, "-c", _READ, str(path)]
    readers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(READERS)
    ]
    opened = [_private_bytes(reader) for reader in _told(readers, "open")]
    for reader in readers:
        assert reader.stdin is not None
        reader.stdin.write("\n")
        reader.stdin.flush()
    touched = [_private_bytes(reader) for reader in _told(readers, "touched")]
    for reader in readers:
        reader.communicate("\n")
    own = np.subtract(touched, opened)
    size = sum(file.stat().st_size for file in path.iterdir())
    share = float(np.mean(own)) / size
    report.results.append(Result("reader", extra={"private_bytes": float(np.mean(own)), "file_bytes": size}))
    report.claim(
        f"private share of the index in each of {READERS} readers", "at most 0.05", f"{share:.3f}", share <= 0.05
    )


def _told(readers: list["subprocess.Popen[str]"], word: str) -> list["subprocess.Popen[str]"]:
    """Wait until every reader has said the word."""
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == f"{word}\n", "a reader failed"
    return readers


def _private_bytes(process: "subprocess.Popen[str]") -> int:
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private"))


def _ten_segments(report: Report, one: Matcher, table: pa.Table, workload: Workload) -> None:
    several = Matcher(background_merge=False)
    size = -(-len(table) // SEGMENTS)
    for start in range(0, len(table), size):
        several.load(table.slice(start, size))
    one_s = measure(lambda: one.match_batch(workload.events))
    several_s = measure(lambda: several.match_batch(workload.events))
    for name, matcher, seconds in (("one segment", one, one_s), (f"{SEGMENTS} segments", several, several_s)):
        found = matcher.match_batch(workload.events)
        rate = len(workload.events) / seconds
        report.results.append(Result(name, events_per_s=rate, matches=len(found)))
    report.expect_equal_matches()
    ratio = several_s / one_s
    report.claim(f"time on {SEGMENTS} segments over one", "at most 1.5", f"{ratio:.2f}", ratio <= 1.5)


def _subscribing(report: Report, one: Matcher, table: pa.Table, bulk_s: float) -> None:
    """The cost of a subscribe that the next match sees: subscribing and matching, less matching alone."""
    few = Matcher.from_table(table.slice(0, 10_000))
    event = {f"a{number}": 0.5 for number in range(10)}
    costs = {}
    for name, matcher in (("few", few), ("many", one)):
        matching = np.median([timed(lambda matcher=matcher: matcher.match(event))[0] for _ in range(60)])  # type: ignore[misc]
        both = []
        for number in range(120):
            where = f"a{number % 10} BETWEEN 0.1{number} AND 0.2{number} AND a9 > 0.5"

            def subscribe_and_match(matcher: Matcher = matcher, id: str = f"new{number}", where: str = where) -> None:
                matcher.subscribe(id, where)
                matcher.match(event)

            both.append(timed(subscribe_and_match)[0])
        costs[name] = float(np.median(both) - matching)
    ratio = costs["many"] / costs["few"]
    report.results.append(Result("subscribe, 10,000 standing", extra={"seconds": costs["few"]}))
    report.results.append(Result(f"subscribe, {len(table):,} standing", extra={"seconds": costs["many"]}))
    report.claim("a subscribe among all over one among 10,000", "at most 2", f"{ratio:.2f}", ratio <= 2)
    one_by_one = Matcher(background_merge=False)
    rows = table.slice(0, 2_000).to_pylist()

    def subscribe_one_by_one() -> None:
        for row in rows:
            one_by_one.subscribe(row["id"], row["where"])

    single_s, _ = timed(subscribe_one_by_one)
    ratio = single_s / len(rows) / bulk_s
    report.claim("subscribing one by one over bulk loading", "at least 3", f"{ratio:.1f}", ratio >= 3)


def _changing_while_matching(report: Report, one: Matcher, workload: Workload) -> None:
    quiet_s = measure(lambda: one.match_batch(workload.events))
    done = threading.Event()
    changes = [0]

    def change() -> None:
        while not done.is_set():
            number = changes[0]
            one.subscribe(f"busy{number % 5_000}", f"a{number % 10} BETWEEN 0.{number % 900} AND 0.95")
            changes[0] += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        busy_s = measure(lambda: one.match_batch(workload.events))
    finally:
        done.set()
        thread.join()
    ratio = quiet_s / busy_s
    report.results.append(Result("quiet", events_per_s=len(workload.events) / quiet_s))
    report.results.append(
        Result(
            "while another thread subscribes", events_per_s=len(workload.events) / busy_s, extra={"changes": changes[0]}
        )
    )
    report.claim("speed while another thread subscribes", "at least 0.5", f"{ratio:.2f}", ratio >= 0.5)
