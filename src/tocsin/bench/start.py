"""The cost of starting: processor time of a new process up to its first answers, with an empty and a warm cache.

Every row is a process of its own. With an empty cache it compiles what it needs and nothing else; with a warm one it
loads that. Rows that build on others (a match after a change) time only their own part.
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

def first_match(name, count=20):
    global start
    table, some = subscriptions(name).slice(0, count), events(100)
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

BARS = {"ranges": 8.0, "words": 5.0, "patterns": 5.0, "xpath": 10.0}
"""The most seconds that the first match of a family may take with an empty cache, beside that of ranges."""
MOST_RESIDENT_MB = 120


def run(*, quick: bool = False) -> Report:
    """Time the first answers of new processes, with an empty cache and with a warm one."""
    report = Report("start", {"quick": quick})
    families = ("ranges",) if quick else tuple(BARS)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        measured = {}
        for family in families:
            cache = Path(folder) / family
            measured[family] = [_process(family, cache) for _ in ("empty", "warm")]
    for family, (empty, warm) in measured.items():
        # What the ranges cost stands in their own row.
        names = [name for name in empty["taken"] if family == "ranges" or name == f"first match, {family}"]
        for name in names:
            extra = {"empty_cache_s": empty["taken"][name], "warm_cache_s": warm["taken"][name]}
            report.results.append(Result(name, extra=dict(extra)))
    for family, (empty, warm) in measured.items():
        seconds, bar = empty["taken"][f"first match, {family}"], BARS[family]
        report.claim(f"first match of {family}, empty cache", f"{bar:g} s", f"{seconds:.1f} s", seconds <= bar)
        report.claim(f"{family}: a warm cache compiles nothing", "0", str(warm["compiled"]), not warm["compiled"])
    resident = max(process["resident"] for processes in measured.values() for process in processes)
    enough = resident <= MOST_RESIDENT_MB
    report.claim("resident memory of an empty Matcher", f"{MOST_RESIDENT_MB} MB", f"{resident:.0f} MB", enough)
    return report


def _process(family: str, cache: Path) -> dict[str, Any]:
    search = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "TOCSIN_CACHE_DIR": str(cache), "PYTHONPATH": search}
    command = [sys.executable, "-c", _PROGRAM, family]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    measured: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return measured
