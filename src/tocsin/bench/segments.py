"""The workload `segments`: subscription sets that change while they are used, on disk and shared by processes."""

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tocsin.bench.attributes import Workload, generate
from tocsin.bench.runner import Report, Result, measure, timed
from tocsin.matcher import Matcher

T = TypeVar("T")

SEGMENTS = 10
ROUNDS = 5
READERS = 10
FEW = 10_000
CHANGES = 100
WINDOWS = 5
"""Matching beside changes is measured in so many turns with and without them."""
_READ = """
import sys
from tocsin import Matcher
matcher = Matcher.open(sys.argv[1], mode="read")
print("open", flush=True)
sys.stdin.readline()
for state in matcher._subscriptions.current().states:
    for array in state.segment.container().arrays.values():
        array.reshape(-1).view("u1").sum()
print("touched", flush=True)
sys.stdin.readline()
"""


def run(subscriptions: int = 1_000_000, events: int = 20_000, seed: int = 1, quick: bool = False) -> Report:
    """Compare opening with building, ten segments with one, bulk loading with subscribing, busy with quiet."""
    readers, window = READERS, 1.0
    if quick:
        subscriptions, events, readers, window = 50_000, 5_000, 3, 0.2
    report = Report("segments", {"subscriptions": subscriptions, "events": events, "seed": seed})
    workload = generate(subscriptions, events, seed)
    table = workload.subscriptions()
    build_s, one = timed(lambda: Matcher.from_table(table))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        one.save(path)
        _opening(report, path, build_s)
        _sharing(report, path, readers)
        one.close()
    _ten_segments(report, one, table, workload)
    _changing(report, one, table, build_s / subscriptions)
    _changing_while_matching(report, one, workload, window)
    return report


def _opening(report: Report, path: Path, build_s: float) -> None:
    open_s = measure(lambda: Matcher.open(path, mode="read"), repeat=5)
    size = sum(file.stat().st_size for file in path.iterdir())
    report.results.append(Result("build", build_s, extra={"seconds": build_s}))
    report.results.append(Result("open", extra={"seconds": open_s, "file_bytes": size}))
    ratio = build_s / open_s
    report.claim("building over opening", "at least 50", f"{ratio:,.0f}", ratio >= 50)


def _sharing(report: Report, path: Path, count: int) -> None:
    """Let readers open, then touch every page, and see how much more memory is theirs alone.

    A page counts as private while no other process has it mapped, so all must be at the same point.
    """
    command = [sys.executable, "-c", _READ, str(path)]
    readers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
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
        f"private share of the index in each of {count} readers", "at most 0.05", f"{share:.3f}", share <= 0.05
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
        several.subscribe_many(table.slice(start, size))
    # In turn: what else the machine does falls on both.
    turns = [
        [measure(partial(matcher.match_batch, workload.events), repeat=1) for matcher in (one, several)]
        for _ in range(ROUNDS)
    ]
    one_s, several_s = (statistics.median(seconds) for seconds in zip(*turns, strict=True))
    for name, matcher, seconds in (("one segment", one, one_s), (f"{SEGMENTS} segments", several, several_s)):
        found = matcher.match_batch(workload.events)
        rate = len(workload.events) / seconds
        report.results.append(Result(name, events_per_s=rate, matches=len(found)))
    report.expect_equal_matches()
    ratio = several_s / one_s
    report.claim(f"time on {SEGMENTS} segments over one", "at most 1.5", f"{ratio:.2f}", ratio <= 1.5)


def _changing(report: Report, one: Matcher, table: pa.Table, bulk_s: float) -> None:
    """The processor time of a change that the next match sees: changing and matching, less matching alone."""
    few = Matcher.from_table(table.slice(0, FEW), background_merge=False)
    texts = generate(CHANGES + 1, 1, seed=2).texts
    sorts: dict[str, Callable[[Matcher, int], None]] = {
        "a subscribe": lambda matcher, number: matcher.subscribe(f"new{number}", texts[number]),
        "an unsubscribe": lambda matcher, number: matcher.unsubscribe(f"s{number}"),
        "a rescore": lambda matcher, number: matcher.rescore(f"s{number + CHANGES + 1}", 2.0),
        "a replacement": lambda matcher, number: matcher.subscribe(f"s{number + 2 * CHANGES + 2}", texts[number]),
    }
    event = {f"a{number}": 0.5 for number in range(10)}
    for name, change in sorts.items():
        costs = [_visible(partial(change, matcher), partial(matcher.match, event)) for matcher in (few, one)]
        for standing, seconds in zip((FEW, len(table)), costs, strict=True):
            report.results.append(Result(f"{name}, {standing:,} standing", extra={"seconds": seconds}))
        ratio = costs[1] / costs[0]
        report.claim(f"{name} among all over one among {FEW:,}", "at most 2", f"{ratio:.2f}", ratio <= 2)
    one_by_one = Matcher(background_merge=False)
    rows = table.slice(0, 2_000).to_pylist()

    def subscribe_one_by_one() -> None:
        for row in rows:
            one_by_one.subscribe(row["id"], row["where"])

    single_s, _ = timed(subscribe_one_by_one)
    ratio = single_s / len(rows) / bulk_s
    report.claim("subscribing one by one over bulk loading", "at least 3", f"{ratio:.1f}", ratio >= 3)


def _visible(change: Callable[[int], None], match: Callable[[], object]) -> float:
    alone, both = [], []
    for number in range(CHANGES + 1):
        start = time.thread_time()
        match()
        matched = time.thread_time()
        change(number)
        match()
        if number:
            alone.append(matched - start)
            both.append(time.thread_time() - matched)
    return statistics.median(both) - statistics.median(alone)


def _changing_while_matching(report: Report, one: Matcher, workload: Workload, window: float) -> None:
    """Match for `window` seconds each in turns, with and without a thread that changes as fast as it can."""
    batches = [workload.events.slice(start, 1_000) for start in range(0, len(workload.events), 1_000)]
    singles = workload.events.slice(0, 1_000).to_pylist()
    ways: dict[str, tuple[int, Callable[[int], object]]] = {
        "batches of 1,000": (len(batches[0]), lambda number: one.match_batch(batches[number % len(batches)])),
        "single events": (1, lambda number: one.match(singles[number % len(singles)])),
    }
    changer = _Changer(one, len(workload.low))
    alone = changer.rate(lambda: time.sleep(window))[1]
    report.results.append(Result("changing alone", extra={"changes_per_s": alone}))
    for name, (events, match) in ways.items():
        quiet, busy, changes = [], [], []
        for _ in range(WINDOWS):
            quiet.append(_rate(match, window))
            beside, changed = changer.rate(lambda match=match: _rate(match, window))  # type: ignore[misc]
            busy.append(beside)
            changes.append(changed)
        ratio = statistics.median(busy) / statistics.median(quiet)
        report.results.append(Result(f"{name}, quiet", events_per_s=events * statistics.median(quiet)))
        report.results.append(
            Result(
                f"{name}, beside changes",
                events_per_s=events * statistics.median(busy),
                extra={"changes_per_s": statistics.median(changes)},
            )
        )
        report.claim(f"speed beside a thread that changes, {name}", "at least 0.5", f"{ratio:.2f}", ratio >= 0.5)


class _Changer:
    """Subscribes, rescores, unsubscribes and replaces in turn, as fast as it can, while somebody asks for its rate."""

    def __init__(self, matcher: Matcher, standing: int) -> None:
        self._matcher = matcher
        self._standing = standing
        self._texts = generate(10_000, 1, seed=3).texts
        self._made = 0

    def _change(self) -> None:
        number = self._made // 4
        text = self._texts[self._made % len(self._texts)]
        # All over the set, but for the first, some of which are gone since `_changing`.
        place = 10_000 + number * 7_919 % (self._standing - 20_000)
        match self._made % 4:
            case 0:
                self._matcher.subscribe(f"s{place}", text)
            case 1:
                self._matcher.rescore(f"s{place}", 2.0)
            case 2:
                self._matcher.unsubscribe(f"s{place}")
            case _:
                self._matcher.subscribe(f"s{place}", text, score=3.0)
        self._made += 1

    def rate(self, work: Callable[[], T]) -> tuple[T, float]:
        """What some work gives while changes are made, and how many were made in a second."""
        done = threading.Event()

        def change_until_done() -> None:
            while not done.is_set():
                self._change()

        thread = threading.Thread(target=change_until_done)
        start, made = time.perf_counter(), self._made
        thread.start()
        try:
            result = work()
        finally:
            done.set()
            thread.join()
        return result, (self._made - made) / (time.perf_counter() - start)


def _rate(match: Callable[[int], object], window: float) -> float:
    """How often a second something is matched."""
    match(0)
    start = time.perf_counter()
    number = 0
    while (seconds := time.perf_counter() - start) < window:
        match(number)
        number += 1
    return number / seconds
