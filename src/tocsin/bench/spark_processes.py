"""Processes of the workload `spark`: what those below this one use, and the matcher in processes of its own.

Other jobs may be using the machine. So processor time counts, besides the time on the wall: what a process gets done in
a second of it does not depend on how many others wait.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.matcher import BATCH
from tocsin.spark._worker.batches import match_batches, open_index
from tocsin.spark._worker.row_groups import ParquetColumn, RowGroups, read_row_groups

PROC = Path("/proc")
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Use:
    """What one run took, in seconds, and how many matches it found."""

    wall: float
    processor: float
    matches: int


def below(parent: int) -> dict[int, str]:
    """The processes that a process has started, and those that they have; each with its name. Linux only."""
    parents, names = {}, {}
    for folder in PROC.glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended
        parents[int(folder.name)], names[int(folder.name)] = int(rest.split()[1]), name
    found: dict[int, str] = {}
    wave = [parent]
    while wave:
        wave = [process for process, above in parents.items() if above in wave]
        found |= {process: names[process] for process in wave}
    return found


def processor_seconds(prefix: str = "") -> float:
    """Processor time of the processes below this one whose names start so, with those that they have seen end."""
    ticks = 0
    for process in (process for process, name in below(os.getpid()).items() if name.startswith(prefix)):
        try:
            fields = (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def processor_by_program() -> dict[str, float]:
    """Processor time of Java, and of the other processes below this one, which are Python."""
    java = processor_seconds("java")
    return {"java": java, "python": processor_seconds() - java}


def memory() -> dict[str, float]:
    """Megabytes of Java and of Python workers below this process; a page that several share counts once in all."""
    sizes = {"java_mb": 0.0, "python_mb": 0.0}
    for process, name in below(os.getpid()).items():
        try:
            is_worker = b"pyspark.worker" in (PROC / str(process) / "cmdline").read_bytes()
            lines = (PROC / str(process) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        if name != "java" and not is_worker:
            continue
        kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        sizes["java_mb" if name == "java" else "python_mb"] += kilobytes * 1024 / MEGABYTE
    return sizes


class InProcess:
    """The matcher in processes of its own, one a core, each with its share of the files of events."""

    def __init__(self, index: Path, files: Sequence[Path], cores: int) -> None:
        self._index = str(index)
        self._shares = [tuple(map(str, files[core::cores])) for core in range(cores)]
        self._pools = [ProcessPoolExecutor(1, get_context("spawn")) for _ in range(cores)]

    def match_memory(self) -> Use:
        """Match events that are in memory, by `Matcher.match_batch`."""
        return self._run(_match_memory)

    def match_files(self) -> Use:
        """Read the files and match, to the same columns as on Spark."""
        return self._run(_match_files)

    def stop(self) -> None:
        """End the processes."""
        for pool in self._pools:
            pool.shutdown()

    def _run(self, work: Callable[[str, tuple[str, ...]], tuple[float, int]]) -> Use:
        start = time.perf_counter()
        running = [pool.submit(work, self._index, share) for pool, share in zip(self._pools, self._shares, strict=True)]
        parts = [future.result() for future in running]
        return Use(time.perf_counter() - start, sum(part[0] for part in parts), sum(part[1] for part in parts))


@lru_cache
def _in_memory(files: tuple[str, ...]) -> list[pa.RecordBatch]:
    return [batch for file in files for batch in pq.read_table(file).combine_chunks().to_batches(BATCH)]


def _match_memory(index: str, files: tuple[str, ...]) -> tuple[float, int]:
    matcher, batches = open_index(index, ""), _in_memory(files)
    start = time.process_time()
    matches = sum(matcher.match_batch(batch, id="key").num_rows for batch in batches)
    return time.process_time() - start, matches


def _match_files(index: str, files: tuple[str, ...]) -> tuple[float, int]:
    start = time.process_time()
    matches = 0
    for file in files:
        with pq.ParquetFile(file) as opened:
            types = {field.name: field.type for field in opened.schema_arrow}
            pieces = [RowGroups(file, tuple(range(opened.num_row_groups)))]
        names = ["key", *(name for name in types if name != "key")]
        events = read_row_groups(pieces, [ParquetColumn((name,), types[name]) for name in names])
        matches += sum(batch.num_rows for batch in match_batches(events, index, "", names))
    return time.process_time() - start, matches
