"""The cost of starting: processor time of a new process up to its first answers, with an empty and a warm cache.

Every family is a process of its own. With an empty cache it interprets or compiles what it needs and nothing else; with
a warm one it interprets or loads that. A second process of each family has more subscriptions and events, so that less
is interpreted; its rows have no bars. Rows that build on others (a match after a change) time only their own part.
Single changes among many subscriptions are timed in one more process, which interprets nothing, after some that are not
counted; it also compiles relaxed `top_k`, in a row of its own, so that the first one among many subscriptions shows
what is built for it.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tocsin.bench.runner import Report, Result

_PROGRAM = """
import json, sys, tempfile, time

start = time.process_time()
taken = {}

def lap(name):
    global start
    now = time.process_time()
    taken[name] = now - start
    start = time.process_time()

from tocsin.matcher import Matcher
lap("import")
matcher = Matcher(background_merge=False)
lap("empty Matcher")
resident = int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
import os, pyarrow as pa
from tocsin.compile_ahead import events, subscriptions

count, size = map(int, sys.argv[2:])

def first_match(name):
    global start
    table, some = subscriptions(name).slice(0, count), events(size)
    start = time.process_time()
    matcher = Matcher(background_merge=False)
    matcher.subscribe_many(table)
    matcher.match_batch(some)
    matcher.match(some.slice(0, 1).to_pylist()[0])
    lap(f"first match, {name}")
    return matcher, some

family = sys.argv[1]
matcher, some = first_match("ranges")
if family != "ranges":
    first_match(family)
else:
    matcher.subscribe("new", "a < 3 AND b > 7")
    matcher.match_batch(some)
    lap("match after a live change")
    with tempfile.TemporaryDirectory() as folder:
        matcher.save(folder)
        matcher.close()
        start = time.process_time()
        reader = Matcher.open(folder, mode="read", background_merge=False)
        reader.match_batch(some)
        lap("first match on an opened index")
        writer = Matcher.open(folder, background_merge=False)
        for number in range(5):
            writer.subscribe(f"late{number}", "a > 3 AND b < 7")
            writer.commit()
        start = time.process_time()
        reader.refresh()
        reader.match_batch(some)
        lap("match after five commits and a refresh")
        writer.compact()
        writer.match_batch(some)
        lap("compact and match")
        writer.close()
        reader.close()
from tocsin import _numba
print(json.dumps({"taken": taken, "resident": resident, "compiled": len(_numba.COMPILATIONS)}))
"""

_CHANGES = """
import json, sys, tempfile, time
import numpy as np, pyarrow as pa
from tocsin.matcher import Matcher

size, ranked, count = map(int, sys.argv[2:])
random = np.random.default_rng(1)
taken, spread = {}, {}

def texts(number):
    low, names = random.random((number, 3)), np.argsort(random.random((number, 10)), axis=1)[:, :3]
    return [" AND ".join(f"a{a} BETWEEN {x:.5f} AND {x + 0.05:.5f}" for a, x in zip(*row))
            for row in zip(names.tolist(), low.tolist())]

def table(number):
    return pa.table({"id": [f"s{n}" for n in range(number)], "where": texts(number)})

def event():
    return {f"a{n}": float(x) for n, x in enumerate(random.random(10))}

def once(name, do):
    start = time.process_time()
    do()
    taken[name] = time.process_time() - start

def each(name, do, given):
    processor, wall = [], []
    for one in given:
        before, start = time.process_time(), time.perf_counter()
        do(one)
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - before)
    taken[name] = float(np.median(processor))
    spread[name] = [float(x) for x in np.percentile(wall, [50, 99, 100])]

small = Matcher(background_merge=False)
small.subscribe_many(table(100))
small.top_k(event(), 10)
once(sys.argv[1], lambda: small.top_k(event(), 10, mode="relaxed"))
best = Matcher(background_merge=False)
best.subscribe_many(table(ranked))
best.top_k(event(), 10)
for name in ("first relaxed top_k", "second relaxed top_k"):
    once(f"{name} among {ranked:,}", lambda: best.top_k(event(), 10, mode="relaxed"))
del best

given = table(size)
matcher = Matcher()
once(f"build of {size:,}", lambda: matcher.subscribe_many(given))
for n, text in enumerate(texts(50)):
    matcher.subscribe(f"first{n}", text)
    matcher.match(event())
each("match of one event", lambda _: matcher.match(event()), range(200))
each("subscribe", lambda one: matcher.subscribe(*one), [(f"n{n}", text) for n, text in enumerate(texts(count))])
each("unsubscribe", matcher.unsubscribe, [f"s{n}" for n in range(0, 500)])
each("rescore", lambda id: matcher.rescore(id, 2.0), [f"s{n}" for n in range(500, 1000)])

def change_and_match(one):
    matcher.subscribe(*one)
    matcher.match(event())

each("subscribe + match", change_and_match, [(f"m{n}", text) for n, text in enumerate(texts(200))])
with tempfile.TemporaryDirectory() as folder:
    once("save", lambda: matcher.save(folder))

    def durable(one):
        matcher.subscribe(*one)
        matcher.commit()

    durable(("c", "a1 < 0.5"))
    each("subscribe + commit", durable, [(f"c{n}", text) for n, text in enumerate(texts(50))])
    matcher.close()
print(json.dumps({"taken": taken, "spread": spread}))
"""

FEW = ("20", "100")
MANY = ("1000", "1000")
"""Subscriptions and events of a first match."""
BARS = {"ranges": 8.0, "words": 5.0, "patterns": 5.0, "xpath": 10.0}
"""The most seconds that the first match of a family may take with an empty cache, beside that of ranges."""
MOST_RESIDENT_MB = 120
MOST_SUBSCRIBE_S = 150e-6
MOST_COMMIT_S = 5e-3
COMPILED_RELAXED = "relaxed top_k, compiled"
RANKED = 100_000
"""Subscriptions among which the first relaxed top_k is timed."""
CHANGES = 2_500
"""New subscriptions one by one: the buffer is sealed twice meanwhile."""


def run(*, subscriptions: int = 1_000_000, quick: bool = False) -> Report:
    """Time the first answers of new processes, and single changes among many subscriptions."""
    if quick:
        subscriptions = 10_000
    report = Report("start", {"subscriptions": subscriptions, "quick": quick})
    families = ("ranges",) if quick else tuple(BARS)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        measured, larger = {}, {}
        for family in families:
            cache = Path(folder) / family
            measured[family] = [_process(_PROGRAM, cache, family, *FEW) for _ in ("empty", "warm")]
            larger[family] = [
                _process(_PROGRAM, Path(folder) / f"{family}-many", family, *MANY) for _ in ("empty", "warm")
            ]
        sizes = (subscriptions, min(RANKED, subscriptions), CHANGES)
        cache = Path(folder) / "ranges-many"
        changes = _process(_CHANGES, cache, COMPILED_RELAXED, *map(str, sizes), kernels="compiled")
    for family, (empty, warm) in measured.items():
        # What the ranges cost stands in their own row.
        names = [name for name in empty["taken"] if family == "ranges" or name == f"first match, {family}"]
        for name in names:
            extra = {"empty_cache_s": empty["taken"][name], "warm_cache_s": warm["taken"][name]}
            report.results.append(Result(name, extra=dict(extra)))
    for family, (empty, warm) in larger.items():
        name = f"first match, {family}"
        extra = {"empty_cache_s": empty["taken"][name], "warm_cache_s": warm["taken"][name]}
        report.results.append(Result(f"{name}, {MANY[0]} subscriptions, {MANY[1]} events", extra=dict(extra)))
    for name, seconds in changes["taken"].items():
        wall = dict(zip(("wall_p50_s", "wall_p99_s", "wall_max_s"), changes["spread"].get(name, ()), strict=False))
        state = "empty_cache_s" if name == COMPILED_RELAXED else "warm_cache_s"
        report.results.append(Result(name, extra={state: seconds, **wall}))
    for family, (empty, warm) in measured.items():
        seconds, bar = empty["taken"][f"first match, {family}"], BARS[family]
        report.claim(f"first match of {family}, empty cache", f"{bar:g} s", f"{seconds:.1f} s", seconds <= bar)
        report.claim(f"{family}: a warm cache compiles nothing", "0", str(warm["compiled"]), not warm["compiled"])
    resident = max(process["resident"] for processes in measured.values() for process in processes)
    enough = resident <= MOST_RESIDENT_MB
    report.claim("resident memory of an empty Matcher", f"{MOST_RESIDENT_MB} MB", f"{resident:.0f} MB", enough)
    for name, bar in (("subscribe", MOST_SUBSCRIBE_S), ("subscribe + commit", MOST_COMMIT_S)):
        seconds = changes["taken"][name]
        among = f"{name} among {subscriptions:,}"
        report.claim(among, f"{bar * 1e6:,.0f} µs", f"{seconds * 1e6:,.0f} µs", seconds <= bar)
    return report


def _process(program: str, cache: Path, *arguments: str, kernels: str = "auto") -> dict[str, Any]:
    search = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "TOCSIN_CACHE_DIR": str(cache), "PYTHONPATH": search, "TOCSIN_KERNELS": kernels}
    answer = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=environment
    )
    if answer.returncode:
        raise RuntimeError(f"a process of this benchmark failed: {answer.stderr[-2000:]}")
    measured: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return measured
