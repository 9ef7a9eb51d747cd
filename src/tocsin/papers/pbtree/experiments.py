"""The PB+tree on disk: pages of a search against n and L, costs of insertion and deletion, size of the file.

The workload lets L be chosen: constants of ``>`` and ``>=`` lie above 1, those of ``<`` and ``<=`` below 1, so the
value 1 satisfies next to nothing, and a value at distance x from 1 satisfies a share x of one side.
"""

import math
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s
from tocsin.bench.runner import Figure, Report, Result, timed
from tocsin.papers.pbtree import PBPlusTree
from tocsin.papers.pbtree.beyond_memory import measure
from tocsin.papers.pbtree.pages import HEADER
from tocsin.papers.pbtree.tree import Statistics

OPS = np.array(["<", "<=", "=", ">=", ">"])
UNEQUAL = 100  # `!=` predicates hold for nearly every value, so they are few
RAW_BYTES = 8 + 8 + 1  # key, id, operator
ITEM_BYTES = 8 + 2 + 8  # key, word, one entry: a key of a list in its page
FILL = 0.9
CHANGES = 2_000
GROWN = 20_000
SPARSE = 100_000

Series = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class Workload:
    """Predicates as columns."""

    ops: npt.NDArray[np.str_]
    keys: Float64s

    @classmethod
    def of(cls, count: int, seed: int) -> "Workload":
        rng = np.random.default_rng(seed)
        ops = rng.choice(OPS, count)
        keys = rng.random(count)
        keys[np.char.startswith(ops, ">")] += 1
        keys[ops == "="] *= 2
        ops[:UNEQUAL] = "!="
        return cls(ops, keys)

    def holding(self, value: float) -> int:
        """How many predicates hold, by evaluating each."""
        keys, ops = self.keys, self.ops
        return int(
            np.count_nonzero(
                ((ops == "<") & (value < keys))
                | ((ops == "<=") & (value <= keys))
                | ((ops == "=") & (value == keys))
                | ((ops == "!=") & (value != keys))
                | ((ops == ">=") & (value >= keys))
                | ((ops == ">") & (value > keys))
            )
        )


def run(
    *,
    predicates: int = 10_000_000,
    subscriptions: int = 10_000_000,
    cache_bytes: int = 64 << 20,
    page_size: int = 4096,
    seed: int = 0,
    quick: bool = False,
) -> Report:
    """Build trees up to `predicates`, search, insert and delete, and compare the pages with log_B n + L / B."""
    if quick:
        predicates, cache_bytes = min(predicates, 300_000), min(cache_bytes, 2 << 20)
        subscriptions = min(subscriptions, 100_000)
    report = Report(
        "pbtree",
        {"predicates": predicates, "cache_bytes": cache_bytes, "page_size": page_size, "fill": FILL, "seed": seed},
    )
    measure(report, subscriptions, seed)
    per_page = int(FILL * (page_size - HEADER.size)) // ITEM_BYTES
    by_n: Series = {"search, L about 1,000": [], "insert, mean": [], "delete, mean": [], "height": []}
    by_size: Series = {"built": []}
    by_held: Series = {}
    worst = 0.0
    for count in [predicates // share for share in (1000, 100, 10, 1) if predicates // share >= 10 * UNEQUAL]:
        with tempfile.TemporaryDirectory() as folder:
            workload = Workload.of(count, seed)
            path = Path(folder) / "tree.pbt"
            with PBPlusTree.create(path, "float", page_size=page_size, cache_bytes=cache_bytes) as tree:
                seconds, _ = timed(partial(_build, tree, workload))
                built = tree.statistics
                searches = _searches(report, tree, workload, per_page)
                by_held[f"n = {count:,}"] = [(held, pages) for held, pages, _, _ in searches]
                worst = max(worst, *(pages - expected for _, pages, _, expected in searches))
                near = min(searches, key=lambda each: abs(each[0] - 1000))
                inserts, deletes, most = _changes(tree, count, seed)
                for name, pages in zip(by_n, (near[1], inserts.mean, deletes.mean, built.height), strict=True):
                    by_n[name].append((count, pages))
                by_size["built"].append((count, _share_of_raw(built)))
                report.results.append(
                    Result(
                        f"PB+tree, n = {count:,}",
                        build_s=seconds,
                        bytes_per_subscription=built.bytes / count,
                        extra={
                            "height": built.height,
                            "file / raw": _share_of_raw(built),
                            "file / cache": built.bytes / cache_bytes,
                            "pages of a search, L": f"{near[1]}, {near[0]:,}",
                            "pages read of them": near[2],
                            "insert pages": inserts.mean,
                            "insert pages at most": most,
                            "delete pages": deletes.mean,
                            "pages written a change": inserts.written,
                        },
                    )
                )
    by_held["expected"] = [(held, _expected(built.height, held, per_page)) for held, *_ in searches]
    report.claim("a search reads log_B n + L / B pages", f"at most 4 more, B = {per_page}", f"{worst:+.1f}", worst <= 4)
    by_size["grown one by one"] = _grow(page_size, seed)
    for how, points in by_size.items():
        size = points[-1][1]
        report.claim(f"the file, {how}, is at most 3 times the raw predicates", "3", f"{size:.2f}", size <= 3)
    sparse = _sparse(page_size, seed)
    report.results.append(sparse)
    report.claim(
        "a split of a list page visits few leaves, even where 1 key in 100 is in the list",
        "far fewer than all leaves",
        f"{sparse.extra['insert pages at most']} of {sparse.extra['leaves']}",
        int(str(sparse.extra["insert pages at most"])) * 4 < int(str(sparse.extra["leaves"])),
    )
    mean = by_n["insert, mean"]
    report.claim(
        "an insertion costs O(log n) pages, splits included",
        "at most 4 times the height",
        f"{max(pages for _, pages in mean):.1f}",
        all(pages <= 4 * high for (_, pages), (_, high) in zip(mean, by_n["height"], strict=True)),
    )
    report.figures = [
        Figure("pbtree_search", "Pages of a search", "predicates that hold, L", "pages", by_held, True, True),
        Figure("pbtree_changes", "Pages of a search and of a change", "predicates, n", "pages", by_n, True),
        Figure("pbtree_size", "Size of the file", "predicates, n", "bytes / raw bytes", by_size, True),
    ]
    return report


def _build(tree: PBPlusTree, workload: Workload) -> None:
    tree.insert_many(workload.ops, workload.keys, np.arange(len(workload.keys)), fill=FILL)
    tree.commit()


def _share_of_raw(statistics: Statistics) -> float:
    return statistics.bytes / (RAW_BYTES * statistics.predicates)


def _grow(page_size: int, seed: int) -> list[tuple[float, float]]:
    """Size of the file of a tree that took its predicates one by one, in random order."""
    workload = Workload.of(GROWN, seed)
    points: list[tuple[float, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        PBPlusTree.create(Path(folder) / "tree.pbt", "float", page_size=page_size) as tree,
    ):
        for sid, (op, key) in enumerate(zip(workload.ops.tolist(), workload.keys.tolist(), strict=True), start=1):
            tree.insert(op, key, sid)
            if sid in (GROWN // 4, GROWN // 2, GROWN):
                points.append((sid, _share_of_raw(tree.statistics)))
    return points


def _sparse(page_size: int, seed: int) -> Result:
    """Insertions into a list that few keys are in, so that many leaves point to each of its pages."""
    rng = np.random.default_rng(seed)
    ops = np.where(rng.random(SPARSE) < 0.01, ">", "=")
    with (
        tempfile.TemporaryDirectory() as folder,
        PBPlusTree.create(Path(folder) / "tree.pbt", "float", page_size=page_size) as tree,
    ):
        tree.insert_many(ops, rng.random(SPARSE), np.arange(SPARSE), fill=FILL)
        leaves = _leaves(tree)
        accesses = []
        for sid, key in enumerate(rng.random(CHANGES).tolist(), start=SPARSE):
            before = tree.statistics.page_accesses
            tree.insert(">", key, sid)
            accesses.append(tree.statistics.page_accesses - before)
        extra = {"insert pages": sum(accesses) / CHANGES, "insert pages at most": max(accesses), "leaves": leaves}
        return Result(f"1 key in 100 in a list, n = {SPARSE:,}", extra={**extra, "height": tree.statistics.height})


def _leaves(tree: PBPlusTree) -> int:
    level = [tree.outline(depth=tree.statistics.height)]
    while level[0].level:
        level = [child for page in level for child in page.children]
    return len(level)


def _expected(height: int, held: float, per_page: int) -> float:
    return height + held / per_page


def _searches(report: Report, tree: PBPlusTree, workload: Workload, per_page: int) -> list[tuple[int, int, int, float]]:
    """L, pages accessed, pages read from disk, and pages expected, for values nearer and farther from 1."""
    found: list[tuple[int, int, int, float]] = []
    for share in [0.0, *np.geomspace(1e-5, 1, 11)]:
        value = 1 + float(share if len(found) % 2 else -share)
        before = tree.statistics
        held = len(tree.search(value))
        after = tree.statistics
        if held != workload.holding(value):
            report.disagreements.append(f"n = {len(tree)}, value {value}: {held} ids, not {workload.holding(value)}")
        pages, read = after.page_accesses - before.page_accesses, after.page_reads - before.page_reads
        found.append((held, pages, read, _expected(after.height, held, per_page)))
    return found


@dataclass(frozen=True)
class _Cost:
    """Pages a change: accessed on average, and written."""

    mean: float
    written: float

    @classmethod
    def between(cls, before: Statistics, after: Statistics, changes: int) -> "_Cost":
        accessed = (after.page_accesses - before.page_accesses) / changes
        return cls(accessed, (after.page_writes - before.page_writes) / changes)


def _changes(tree: PBPlusTree, count: int, seed: int) -> tuple[_Cost, _Cost, int]:
    """Insert and delete as many predicates as split some pages; a commit after every 100."""
    more = Workload.of(CHANGES + UNEQUAL, seed + 1)
    rows = list(zip(more.ops.tolist(), more.keys.tolist(), range(count, count + CHANGES), strict=False))
    start, most, accesses = tree.statistics, 0, tree.statistics.page_accesses
    for number, row in enumerate(rows, start=1):
        tree.insert(*row)
        now = tree.statistics.page_accesses
        most, accesses = max(most, now - accesses), now
        if number % 100 == 0:
            tree.commit()
    middle = tree.statistics
    for number, row in enumerate(rows[: math.ceil(CHANGES / 2)], start=1):
        tree.delete(*row)
        if number % 100 == 0:
            tree.commit()
    end = tree.statistics
    deletes = _Cost.between(middle, end, math.ceil(CHANGES / 2))
    return _Cost.between(start, middle, CHANGES), deletes, most
