"""What a back-test of 1 percent changed subscriptions takes, against two full runs over the same Parquet files.

Both cases have 1,000,000 subscriptions. `scattered`: the ranges of the workload `attributes`, of which every hundredth
has another bound; the changed conditions are everywhere, so that every row group is read. `one customer`: each
subscription names one of 200 customers, whose events lie together in the files, as logs by customer do; two customers
have changed all of theirs. Full runs read the columns that a subscription names and match; both sides are indexes that
are open. All seconds are processor time.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.bench.attributes import generate
from tocsin.bench.runner import Report, Result, processor_timed
from tocsin.files.backtest import backtest
from tocsin.matcher import Matcher

CUSTOMERS = 200
ROW_GROUPS = 400
EVERY = 100


def run(
    subscriptions: int = 1_000_000, events: int = 400_000, sample: int = 8, seed: int = 1, quick: bool = False
) -> Report:
    """Time a back-test, and two full runs over every `sample`-th row group, scaled."""
    if quick:
        subscriptions, events, sample = 20_000, 40_000, 2
    parameters = {"subscriptions": subscriptions, "events": events, "sample": sample, "seed": seed}
    report = Report("backtest", {**parameters})
    workload = generate(subscriptions, events, seed)
    texts = workload.texts
    changed = [f"a9 < 0.5 AND {text}" if n % EVERY == 0 else text for n, text in enumerate(texts)]
    _compare(report, "scattered", workload.events, texts, changed, sample)
    customers = np.sort(np.random.default_rng(seed).integers(0, CUSTOMERS, events))
    log = workload.events.append_column("customer", pa.array(customers))
    of_customer = [f"customer = {n % CUSTOMERS} AND {text}" for n, text in enumerate(texts)]
    edited = [
        f"a9 < 0.5 AND {text}" if n % CUSTOMERS < CUSTOMERS // EVERY else text for n, text in enumerate(of_customer)
    ]
    ratio = _compare(report, "one customer", log, of_customer, edited, sample)
    report.claim(
        "at 1 percent changed, in few row groups: times the speed of two full runs",
        "at least 50",
        f"{ratio:,.0f}",
        ratio >= 50,
    )
    return report


def _compare(report: Report, case: str, log: pa.Table, old: list[str], new: list[str], sample: int) -> float:
    """Add the results of a case; return how many times faster the back-test is."""
    ids = [f"s{number}" for number in range(len(old))]
    before, after = (Matcher.from_table(pa.table({"id": ids, "where": texts})) for texts in (old, new))
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        path = Path(folder) / "events.parquet"
        pq.write_table(log, path, row_group_size=-(-len(log) // ROW_GROUPS), use_dictionary=False)
        few = list(range(0, ROW_GROUPS, sample))

        def full() -> list[pa.Table]:
            tables = []
            for matcher in (before, after):
                with pq.ParquetFile(path) as file:
                    batches = file.iter_batches(131_072, row_groups=few, columns=sorted(matcher.attributes))
                    tables += [matcher.match_batch(pa.table(batch), ordered=False) for batch in batches]
            return tables

        full()
        backtest(path, before, after)
        full_s, tables = processor_timed(full)
        backtest_s, found = processor_timed(lambda: backtest(path, before, after))
    difference = sum(map(len, tables[len(tables) // 2 :])) - sum(map(len, tables[: len(tables) // 2]))
    lost = found.changes.filter(pa.compute.equal(found.changes["change"], "lost"))
    groups = np.asarray(lost["event"]) // -(-len(log) // ROW_GROUPS)
    in_sample = int(np.isin(groups, few).sum())
    if difference != -in_sample:
        report.disagreements.append(f"{case}: two runs differ by {difference} matches, the back-test by {-in_sample}")
    scaled = full_s * ROW_GROUPS / len(few)
    size = found.read.bytes_read + found.read.bytes_skipped
    report.results.append(Result(f"{case}: two full runs (scaled)", events_per_s=len(log) / scaled))
    report.results.append(
        Result(
            f"{case}: back-test",
            events_per_s=len(log) / backtest_s,
            matches=len(found.changes),
            extra={
                "times": scaled / backtest_s,
                "changed": found.subscriptions,
                "share_of_bytes_read": found.read.bytes_read / size,
                "seconds": backtest_s,
            },
        )
    )
    return scaled / backtest_s
