"""Subscriptions beyond memory: an index of PB+trees is saved, and another process opens and matches it.

Subscriptions are `symbol = s AND price > p`, as many symbols as a tenth of them and 10,000 prices, so that an event
satisfies some 5,000 distinct predicates and few subscriptions. The matching process states the most memory that was
resident, its own in the end (anonymous pages, which cannot be read again from the file), and the pages of trees that an
event asked for.
"""

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tocsin.bench.runner import Report, Result, timed
from tocsin.matcher import Matcher

PRICES = 10_000
RESIDENT = 512 << 20
PART = 1_000_000
"""Subscriptions that are added at a time."""

_MATCH = """
import json, sys, time
from tocsin import Matcher
matcher = Matcher.open(sys.argv[1], mode="read")
events = json.loads(sys.argv[2])
found = [matcher.match(event) for event in events]
start = time.process_time()
found = [matcher.match(event) for event in events]
seconds = time.process_time() - start
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
own, most = (int(status[name].split()[0]) * 1024 for name in ("RssAnon", "VmHWM"))
pages = sum(one.evidence.evaluations for one in found)
matches = sum(map(len, found))
print(json.dumps({"own": own, "most": most, "seconds": seconds, "pages": pages, "matches": matches}))
"""


def measure(report: Report, subscriptions: int, seed: int, events: int = 20) -> None:
    """Build, save, and match in another process; add its figures to the report."""
    random = np.random.default_rng(seed)
    symbols = max(subscriptions // 10, 1)
    matcher = Matcher(index="pbtree", background_merge=False)
    with tempfile.TemporaryDirectory(prefix="tocsin-") as folder:
        build_s = 0.0
        for first in range(0, subscriptions, PART):
            count = min(PART, subscriptions - first)
            drawn = zip(
                random.integers(0, symbols, count).tolist(), random.integers(0, PRICES, count).tolist(), strict=True
            )
            texts = [f"symbol = {symbol} AND price > {price}" for symbol, price in drawn]
            ids = [f"{number:09}" for number in range(first, first + count)]
            seconds, _ = timed(partial(matcher.subscribe_many, pa.table({"id": ids, "where": texts})))
            build_s += seconds
        path = Path(folder, "index")
        matcher.save(path)
        asked = [
            {"symbol": int(symbol), "price": int(price)}
            for symbol, price in zip(
                random.integers(0, symbols, events), random.integers(0, PRICES, events), strict=True
            )
        ]
        expected = len(matcher.match_batch(asked))
        matcher.close()
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        command = [sys.executable, "-c", _MATCH, str(path), json.dumps(asked)]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if answer["matches"] != expected:
        report.disagreements.append(f"opened: {answer['matches']} matches, built: {expected}")
    report.results.append(
        Result(
            "Matcher(index='pbtree'), opened",
            build_s=build_s,
            events_per_s=events / answer["seconds"],
            matches=answer["matches"],
            bytes_per_subscription=size / subscriptions,
            extra={
                "pages_per_event": answer["pages"] / events,
                "own_megabytes": answer["own"] / 1e6,
                "most_megabytes": answer["most"] / 1e6,
            },
        )
    )
    report.claim(
        f"{subscriptions:,} subscriptions are matched from disk in {RESIDENT >> 20} MB",
        f"<= {RESIDENT / 1e6:.0f} MB",
        f"{answer['most'] / 1e6:.0f} MB at most, {answer['own'] / 1e6:.0f} of its own; files of {size / 1e6:,.0f} MB;"
        f" {answer['pages'] / events:,.0f} pages an event",
        answer["most"] <= RESIDENT,
    )
