"""A standalone cluster, and what is killed in the middle: nothing is lost, nothing is doubled.

`FAULT_RUNS=20 make test-cluster` is the long run that docs/spark.md records.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it has no stubs
import pyarrow.parquet as pq
import pytest

import spark_cases
from tocsin.matcher import Matcher
from tocsin.spark.cluster import standalone_cluster
from tocsin.spark.sinks import BatchTable

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("spark")]

RUNS = int(os.environ.get("FAULT_RUNS", "2"))
PER_FILE = 3
PROGRAM = [sys.executable, spark_cases.__file__]


@pytest.fixture(scope="module")
def master() -> Iterator[str]:
    with standalone_cluster(workers=2, cores=1) as address:
        yield address


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a driver, in a group of its own with its JVM."""
    with (folder / "stderr").open("a") as errors:
        return subprocess.Popen(
            [*PROGRAM, *arguments, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def said(process: subprocess.Popen[str], word: str, folder: Path) -> str:
    """Wait for a line that starts with the word; return the rest of it."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return line.removeprefix(word)
    raise AssertionError((folder / "stderr").read_text()[-3000:])


def answer_of(process: subprocess.Popen[str], folder: Path) -> Any:
    answer = json.loads(said(process, "ANSWER", folder))
    process.communicate(timeout=60)
    return answer


def save(path: Path, wheres: dict[str, str]) -> None:
    """Save an index and let other processes write it."""
    matcher = Matcher.from_table(spark_cases.table(wheres))
    matcher.save(path)
    matcher.close()


def executors() -> list[psutil.Process]:
    """The executors of the cluster that this process has started."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                found.append(process)
    return found


def add_file(folder: Path, number: int) -> None:
    """Add a file of events, the next in the order of their keys."""
    lines = (
        json.dumps(dict(zip(("key", "a", "b", "s"), row, strict=True)))
        for row in spark_cases.rows(PER_FILE * (number + 1))[PER_FILE * number :]
    )
    file = folder / f"{number}.json"
    file.write_text("\n".join(lines))
    os.utime(file, (number, number))


def test_the_cluster_answers_as_the_matcher_in_process(master: str, tmp_path: Path) -> None:
    answers, expected = answer_of(start(tmp_path, "suite", master), tmp_path), spark_cases.expected()
    assert [way for way in expected if answers[way] != expected[way]] == []


def test_sigterm_ends_a_cluster_with_all_that_it_started() -> None:
    command = [sys.executable, "-m", "tocsin.spark.cluster", "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        assert cluster.stdout.readline().startswith("spark://")
        started = psutil.Process(cluster.pid).children(recursive=True)
        assert len(started) >= 2
        cluster.terminate()
        assert cluster.wait(60) == 128 + signal.SIGTERM
    assert not psutil.wait_procs(started, timeout=20)[1]


@pytest.mark.parametrize("events", ["rows", "files"])
def test_an_executor_is_killed_in_the_middle_of_a_batch(master: str, tmp_path: Path, events: str) -> None:
    save(tmp_path / "index", spark_cases.WHERES)
    expected = spark_cases.few_in_process()
    draw = random.Random(time.time_ns())
    driver = start(tmp_path, events, master)
    assert driver.stdin is not None
    for _ in range(RUNS):
        driver.stdin.write("go\n")
        driver.stdin.flush()
        said(driver, "RUNNING", tmp_path)
        time.sleep(draw.uniform(0, 3))
        while not (running := executors()):
            time.sleep(0.05)
        draw.choice(running).kill()
        assert json.loads(said(driver, "ANSWER", tmp_path)) == expected
    driver.communicate(timeout=60)


def test_the_driver_is_killed_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    """Every event is in one batch, once; and each batch has what the snapshot that it records says."""
    save(tmp_path / "index", {"all": "a IS NULL OR a >= 0"})
    (tmp_path / "events").mkdir()
    draw = random.Random(time.time_ns())
    table = BatchTable(tmp_path / "matches")
    files = 0
    for _ in range(RUNS):
        before = table.records()
        # A run always has files enough to be killed in the middle of them.
        while PER_FILE * files < sum(record.events or 0 for record in before) + PER_FILE * 10:
            add_file(tmp_path / "events", files)
            files += 1
        driver = start(tmp_path, "stream")
        said(driver, "RUNNING", tmp_path)
        enough = len(before) + draw.randrange(3)
        while len(table.records()) < enough:
            assert driver.poll() is None, (tmp_path / "stderr").read_text()[-3000:]
            time.sleep(0.05)
        time.sleep(draw.uniform(0, 2))
        assert driver.poll() is None, "it had files enough"
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
    assert answer_of(start(tmp_path, "stream"), tmp_path) == "done"
    records = table.records()
    # Spark may put two files into the batch that was begun when it was killed.
    assert [record.batch for record in records] == list(range(len(records)))
    snapshots = [record.snapshot for record in records]
    assert snapshots == sorted(snapshots)
    assert snapshots[-1] > snapshots[0]
    is_null = {row[0]: row[1] is None for row in spark_cases.rows(PER_FILE * files)}
    matched = []
    for record in records:
        found = pq.read_table(tmp_path / "matches" / f"batch={record.batch:06}").select(["event", "subscription"])
        pairs = [(row["event"], row["subscription"]) for row in found.to_pylist()]
        events = [event for event, name in pairs if name == "all"]
        # Snapshot 1 is the first; each later one has one subscription more, which matches where `a` is not NULL.
        later = (record.snapshot - 1) * sum(not is_null[event] for event in events)
        assert len(pairs) == len(set(pairs)) == record.matches == len(events) + later
        assert record.events == len(events)
        matched += events
    assert sorted(matched) == sorted(is_null)
