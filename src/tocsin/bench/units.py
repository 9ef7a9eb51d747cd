"""Unit costs of the capacity model: bytes a subscription, microseconds an event, a candidate, a match, and more.

Each cost is the slope between two sizes, or a fit over several, so that what is there for any size does not count.
Events come in batches of 8,192. All times are processor time, the best of the repeats: the machine may be shared.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.bench.attributes import generate
from tocsin.bench.runner import Figure, Report, Result, processor_timed
from tocsin.bench.words import spell
from tocsin.capacity import RATES, Demand, Host, Units, plan_capacity
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence

BATCH = 8_192
HALF_WIDTHS = (0.05, 0.03)
"""Of ranges: the narrower ones have more candidates for each match."""
_PEAK = """
import sys
from tocsin.bench.units import peak_of_build
print(peak_of_build(int(sys.argv[1])))
"""


def run(
    subscriptions: int = 400_000,
    of_family: int = 10_000,
    repeats: int = 5,
    seed: int = 1,
    spark: bool = True,
    units: Path | None = None,
    quick: bool = False,
) -> Report:
    """Measure all units; `units` is the file to write them to, for `tocsin plan-capacity --units`."""
    if quick:
        subscriptions, of_family, repeats, spark = 20_000, 500, 1, False
    report = Report("units", {"subscriptions": subscriptions, "of_family": of_family, "seed": seed})
    words = spell(np.random.default_rng(seed), 5_000)
    index_bytes, event_us = {}, {}
    for name, make in FAMILIES.items():
        index_bytes[name], event_us[name] = _family(name, make, of_family, words, repeats, seed)
    sizes = [subscriptions // 16, subscriptions // 4, subscriptions]
    measured = [_match(size, width, repeats, seed) for size in sizes for width in HALF_WIDTHS]
    event_us["ranges"], candidate_us, match_us = fitted(measured)
    small, large = (_build(size, seed) for size in (subscriptions // 4, subscriptions))
    per = subscriptions - subscriptions // 4
    index_bytes["ranges"] = (large["bytes"] - small["bytes"]) / per
    open_us = max(large["open_s"] - small["open_s"], 0.0) / per * 1e6
    peaks = [_peak(size) for size in (1_000, subscriptions // 4)]
    found = Units(
        index_bytes=index_bytes,
        event_us=event_us,
        candidate_us=candidate_us,
        match_us=match_us,
        build_us=(large["build_s"] - small["build_s"]) / per * 1e6,
        build_bytes=(peaks[1] - peaks[0]) / (subscriptions // 4 - 1_000),
        process_bytes=peaks[0],
        commit_ms=large["commit_s"] * 1e3,
        open_ms=max(large["open_s"] * 1e3 - open_us * subscriptions / 1e3, 0.0),
        open_us=open_us,
        ship_s=large["pack_s"] / large["bytes"] * 1e9,
        shard_ms=_shard_ms(seed) if spark else Units.read().shard_ms,
        candidates_a_match=measured[-len(HALF_WIDTHS)][1] / measured[-len(HALF_WIDTHS)][2],
    )
    for name, value in vars(found).items():
        for of, figure in value.items() if isinstance(value, Mapping) else [("", value)]:
            report.results.append(Result(f"{name} {of}".strip(), extra={"measured": figure}))
    worst = max(abs(_predicted(found, one) / one[3] - 1) for one in measured)
    report.claim("the fit of an event's time, at its worst", "within 25%", f"{worst:.0%}", worst <= 0.25)
    sizes_of_plot = [10.0 ** (power / 4) for power in range(24, 37)]
    hosts = {
        f"{rate:,.0f} events a second": [
            (n, plan_capacity(Demand(n, rate), Host(), found).hosts) for n in sizes_of_plot
        ]
        for rate in RATES
    }
    title = "Hosts of 16 cores and 64 GB, 100 matches an event"
    report.figures.append(Figure("capacity", title, "subscriptions", "hosts", hosts, log_x=True, log_y=True))
    if units is not None:
        units.write_text(found.to_json(), encoding="utf-8")
    return report


FAMILIES: dict[str, Callable[[random.Random, Sequence[str]], str]] = {
    "equality": lambda draw, words: f"name = '{draw.choice(words)}{draw.randrange(1000)}'",
    "words": lambda draw, words: f"has_words(body, '{draw.choice(words)} {draw.choice(words)}')",
    "patterns": lambda draw, words: f"body LIKE '%{draw.choice(words)} {draw.choice(words)}%'",
    "regexps": lambda draw, words: f"regexp_matches(body, '{draw.choice(words)}[a-z]* {draw.choice(words)}')",
    "lists": lambda draw, words: f"array_contains(tags, '{draw.choice(words)}') AND a0 < {draw.random():.4f}",
    "xpath": lambda draw, words: (
        f"xpath_exists(doc, '/{draw.choice(words)}//{draw.choice(words)}[@{draw.choice(words)}]')"
    ),
}
"""A condition of each family of predicates but ranges, which are those of the workload `attributes`."""


def events_of(family: str, count: int, words: Sequence[str], seed: int) -> pa.Table:
    """Make events for a family: a name, a text of 100 words, three tags, or a document of ten elements."""
    draw = random.Random(seed)
    made: dict[str, Callable[[], Any]] = {
        "name": lambda: draw.choice(words) + str(draw.randrange(1000)),
        "body": lambda: " ".join(draw.choices(words, k=100)),
        "tags": lambda: draw.choices(words, k=3),
        "doc": lambda: _document(draw.choices(words, k=10)),
        "a0": draw.random,
    }
    used = {"equality": ["name"], "lists": ["tags", "a0"], "xpath": ["doc"]}.get(family, ["body"])
    return pa.table({name: [made[name]() for _ in range(count)] for name in used})


def _document(names: Sequence[str]) -> str:
    inner = "".join(f"<{name} {names[0]}='1'/>" for name in names[1:])
    return f"<{names[0]}>{inner}</{names[0]}>"


def _family(
    family: str,
    make: Callable[[random.Random, Sequence[str]], str],
    count: int,
    words: Sequence[str],
    repeats: int,
    seed: int,
) -> tuple[float, float]:
    """Return the bytes of a subscription of a family, and the microseconds of an event among so many of them."""
    draw = random.Random(seed)

    def built(size: int) -> tuple[Matcher, int]:
        rows = pa.table({"id": [f"s{n:010}" for n in range(size)], "where": [make(draw, words) for _ in range(size)]})
        matcher = Matcher.from_table(rows)
        with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
            matcher.save(folder)
            matcher.close()
            return matcher, _bytes(Path(folder))

    matcher, size = built(count)
    events = events_of(family, BATCH // 8, words, seed)
    seconds = _best(lambda: matcher.match_batch(events, ordered=False), repeats)
    return (built(2 * count)[1] - size) / count, 1e6 * seconds / len(events)


def _match(size: int, width: float, repeats: int, seed: int) -> tuple[int, float, float, float]:
    """Return the size, and candidates, matches and microseconds of an event."""
    workload = generate(size, BATCH, seed, width)
    matcher = Matcher.from_table(workload.subscriptions())
    found = evidence_of(matcher.match_batch(workload.events, ordered=False))
    seconds = _best(lambda: matcher.match_batch(workload.events, ordered=False), repeats)
    return size, found.candidates / BATCH, found.matches / BATCH, 1e6 * seconds / BATCH


def evidence_of(matches: pa.Table) -> Evidence:
    """Return how matches were found."""
    return Evidence(**json.loads(matches.schema.metadata[b"tocsin"]))


def fitted(measured: Sequence[tuple[int, float, float, float]]) -> tuple[float, float, float]:
    """Fit the microseconds of an event, a candidate and a match; none is below 0, and relative errors count.

    >>> events = [(0, 100.0, 5.0, 1.0 + 0.2 + 0.05), (0, 50.0, 20.0, 1.0 + 0.1 + 0.2), (0, 10.0, 1.0, 1.03)]
    >>> [round(one, 6) for one in fitted(events)]
    [1.0, 0.002, 0.01]
    """
    rows = np.array([[1.0, candidates, matches] for _, candidates, matches, _ in measured])
    seconds = np.array([us for *_, us in measured])
    used = [0, 1, 2]
    while True:
        costs = np.zeros(3)
        costs[used] = np.linalg.lstsq(rows[:, used] / seconds[:, None], np.ones(len(measured)), rcond=None)[0]
        if (costs >= 0).all():
            return float(costs[0]), float(costs[1]), float(costs[2])
        used.remove(int(np.argmin(costs)))


def _predicted(units: Units, measured: tuple[int, float, float, float]) -> float:
    return units.event_us["ranges"] + measured[1] * units.candidate_us + measured[2] * units.match_us


def _build(size: int, seed: int) -> dict[str, float]:
    """Build, save, open, pack and commit an index of ranges."""
    from tarfile import open as open_tar

    table = generate(size, 1, seed).subscriptions()
    build_s, matcher = processor_timed(lambda: Matcher.from_table(table))
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        path = Path(folder) / "index"
        saved_s, _ = processor_timed(lambda: matcher.save(path))
        size_of = _bytes(path)
        open_s = _best(lambda: Matcher.open(path, mode="read"), 5)

        def pack() -> None:
            with open_tar(Path(folder) / "index.tar", "w") as tar:
                tar.add(path)

        pack_s = _best(pack, 1)

        def change() -> None:
            matcher.subscribe(f"new {time.monotonic_ns()}", "a0 < 0.5 AND a1 > 0.5")
            matcher.commit()

        commit_s = _best(change, 9)
        matcher.close()
    return {"build_s": build_s + saved_s, "bytes": size_of, "open_s": open_s, "pack_s": pack_s, "commit_s": commit_s}


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _best(work: Callable[[], object], repeats: int) -> float:
    """Return the least processor time of some runs, after one that does not count."""
    work()
    return min(processor_timed(work)[0] for _ in range(repeats))


def _peak(size: int) -> int:
    """Return the most memory of a process that builds an index of so many subscriptions and matches."""
    done = subprocess.run([sys.executable, "-c", _PEAK, str(size)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def peak_of_build(size: int) -> int:
    """Build an index, as a task on Spark does, match a batch, and return the most bytes that this process has had."""
    workload = generate(size, BATCH, seed=1)
    Matcher.from_table(workload.subscriptions()).match_batch(workload.events, ordered=False)
    return peak_of(os.getpid())


def peak_of(process: int) -> int:
    """Return the most bytes that a process has had in memory; by getrusage a child would start with its parent's."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return max([int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")], default=0)


def _shard_ms(seed: int) -> float:
    """Return the milliseconds by the clock that a small batch on Spark takes more for each shard."""
    from tocsin import spark as tocsin_spark

    workload = generate(8_000, 1_000, seed)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        index = Path(folder) / "index"
        matcher = Matcher.from_table(workload.subscriptions())
        matcher.reshard(8)
        matcher.save(index)
        matcher.close()
        rows = workload.events.append_column("key", pa.array(range(1_000)))
        with tocsin_spark.local_session("local[1]") as session:
            frame = session.createDataFrame(rows)
            jobs = {count: tocsin_spark.match(frame, index, id="key", shards=count) for count in (1, 8)}
            for job in jobs.values():
                job.count()
            times: dict[int, list[float]] = {count: [] for count in jobs}
            for _ in range(5):
                for count, job in jobs.items():
                    start = time.perf_counter()
                    job.count()
                    times[count].append(time.perf_counter() - start)
    return 1e3 * (min(times[8]) - min(times[1])) / 7
