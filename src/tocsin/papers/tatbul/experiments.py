"""The experiments of Tatbul (2001) again: evaluations against profiles and overlap; then time and bytes at scale.

The paper gives 50 documents, two attributes, closed intervals of size 10 and a Zipfian dispersion around an origin, to
either side at random. What it leaves open is set here: whole numbers, distances up to 500 with exponent 0.7 (so that
7 percent of the pairs of intervals overlap, within its 1 to 20), documents spread evenly over the range of the
profiles, each figure the mean of `repeats` runs. Overlap is the share of pairs of an attribute's intervals that share
a value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from time import process_time

import numpy as np

from tocsin.arrays import Float64s
from tocsin.bench.runner import Figure, Report, Result
from tocsin.papers.tatbul import INDEXES, ClusterIndex, Endpoints, Interval, as_printed
from tocsin.papers.tatbul.conjunctions import Build, Condition, Conjunctions

DISTANCES, EXPONENT, SIZE, DOCUMENTS = 500, 0.7, 10, 50
SIZES = (10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600)
INDEXED = ("cluster", "interval", "hybrid", "segment-tree", "interval-tree")
ONCE = "cluster, a profile counts once"

Curves = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class Workload:
    """Profiles with the same size of interval on x and y, and documents with both."""

    profiles: list[dict[str, Condition]]
    documents: list[dict[str, float]]
    overlap: float

    @classmethod
    def random(cls, profiles: int, size: float, seed: int) -> "Workload":
        """Draw a workload as the paper describes it."""
        random = np.random.default_rng(seed)
        weights = 1 / np.arange(1, DISTANCES + 1) ** EXPONENT
        columns, values, overlaps = [], [], []
        for _ in "xy":
            distance = random.choice(DISTANCES, profiles, p=weights / weights.sum())
            low = distance * random.choice([-1.0, 1.0], profiles)
            columns.append([Interval(start, start + size) for start in low.tolist()])
            values.append(np.round(random.uniform(-DISTANCES, DISTANCES + size, DOCUMENTS)).tolist())
            overlaps.append(overlap(low, low + size))
        return cls(
            [{"x": x, "y": y} for x, y in zip(*columns, strict=True)],
            [{"x": x, "y": y} for x, y in zip(*values, strict=True)],
            float(np.mean(overlaps)),
        )

    def evaluations(self, build: Build) -> float:
        """The mean predicate evaluations of a document."""
        matcher = Conjunctions(build, self.profiles)
        for document in self.documents:
            matcher.match(document)
        return matcher.evaluations / len(self.documents)

    def cluster_once(self) -> float:
        """The same for the Cluster Index if the final check of a whole profile counts as one evaluation."""
        matcher = Conjunctions(ClusterIndex.build, self.profiles)
        checked = 0
        for document in self.documents:
            alive = matcher.everything
            for name, attribute in matcher.attributes.items():
                alive = attribute.index.narrow(int(attribute.endpoints.codes([document[name]])[0]), alive)
            checked += len(alive)
        return (matcher.evaluations + checked) / len(self.documents)


def overlap(low: Float64s, high: Float64s) -> float:
    """The share of pairs of closed intervals that have a value in common. O(n log n)."""
    apart = float(np.searchsorted(np.sort(high), low, "left").sum())
    return 1 - 2 * apart / (len(low) * (len(low) - 1))


def run(*, quick: bool = False, seed: int = 1, repeats: int = 5) -> Report:
    """Run the two experiments of the paper and the scale of a modern attribute; `quick` ends within a minute."""
    repeats = min(repeats, 2) if quick else repeats
    report = Report("tatbul", {"seed": seed, "repeats": repeats, "quick": quick})
    _against_profiles(report, seed, repeats, range(100, 1001, 300 if quick else 100))
    _against_overlap(report, seed, repeats, SIZES[::3] if quick else SIZES)
    _table_1(report, seed, (100, 1_000))
    if quick:
        _at_scale(report, seed, (10_000, 100_000), (1, 10, 100))
    else:
        _at_scale(report, seed, (10_000, 100_000, 1_000_000), (1, 10, 100, 1000))
    return report


def _curves(workloads: dict[float, list[Workload]], x: Callable[[float, list[Workload]], float]) -> Curves:
    """One point for each index and parameter: the mean over the workloads of that parameter."""
    curves: Curves = {name: [] for name in (*INDEXED, ONCE)}
    for parameter, several in workloads.items():
        at = x(parameter, several)
        for name in INDEXED:
            curves[name].append((at, float(np.mean([workload.evaluations(as_printed(name)) for workload in several]))))
        curves[ONCE].append((at, float(np.mean([workload.cluster_once() for workload in several]))))
    return curves


def _against_profiles(report: Report, seed: int, repeats: int, profiles: range) -> None:
    """Figure 7 of the paper."""
    workloads = {float(n): [Workload.random(n, SIZE, seed + i) for i in range(repeats)] for n in profiles}
    curves = _curves(workloads, lambda n, _: n)
    del curves[ONCE]
    report.figures.append(
        Figure("tatbul_figure7", "Evaluations against profiles", "profiles", "mean predicate evaluations", curves)
    )
    overlaps = [100 * workload.overlap for several in workloads.values() for workload in several]
    report.claim("overlap", "1 to 20 percent", f"{min(overlaps):.0f} to {max(overlaps):.0f}", max(overlaps) <= 20)
    naive = [workloads[n][0].evaluations(INDEXES["naive"].build) for n in workloads]
    holds = all(evaluations == 2 * n for n, evaluations in zip(workloads, naive, strict=True))
    report.claim("no index", "200 to 2,000", f"{naive[0]:,.0f} to {naive[-1]:,.0f}", holds)
    worst = [max(curve[i][1] for curve in curves.values()) for i in range(len(workloads))]
    report.claim("worst index", "18 to 47", f"{worst[0]:.0f} to {worst[-1]:.0f}", worst[0] >= 18 and worst[-1] <= 47)
    means = {name: float(np.mean([y for _, y in curve])) for name, curve in curves.items()}
    order = sorted(means, key=lambda name: means[name])
    report.claim("best two", "interval and cluster", " and ".join(order[:2]), set(order[:2]) == {"interval", "cluster"})
    behind = means["hybrid"] - means["cluster"]
    report.claim("Hybrid does not beat Cluster at low overlap", "more", f"{behind:+.1f} evaluations", behind > 0)


def _against_overlap(report: Report, seed: int, repeats: int, sizes: tuple[int, ...]) -> None:
    """Figure 8 of the paper."""
    workloads = {float(size): [Workload.random(100, size, seed + i) for i in range(repeats)] for size in sizes}
    curves = _curves(workloads, lambda _, several: 100 * float(np.mean([workload.overlap for workload in several])))
    report.figures.append(
        Figure("tatbul_figure8", "Evaluations against overlap", "percent overlap", "mean predicate evaluations", curves)
    )
    for name in ("interval", "segment-tree"):
        heights = [y for _, y in curves[name]]
        spread = max(heights) / min(heights)
        report.claim(f"{name} is flat over overlap", "steady", f"greatest / least {spread:.2f}", spread < 1.2)
    for name in ("cluster", "interval-tree"):
        rise = curves[name][-1][1] / curves[name][0][1]
        report.claim(f"{name} rises with overlap", "highly affected", f"{rise:.1f} times", rise > 2)
    better = [(x, i - c) for (x, i), (_, c) in zip(curves["interval"], curves["cluster"], strict=True) if c < i]
    measured = (
        f"Cluster by up to {max(by for _, by in better):.1f} to {better[-1][0]:.0f} percent" if better else "always"
    )
    report.claim("interval is better than the others", "always", measured, not better)
    for name in ("cluster", ONCE):
        below = [x for (x, y), (_, hybrid) in zip(curves[name], curves["hybrid"], strict=True) if hybrid < y]
        measured = f"above {min(below):.0f} percent" if below else "never"
        holds = bool(below) and min(below) > 90
        report.claim(f"Hybrid beats {name}", "above 90 percent", measured, holds)


BOUNDS = {
    "cluster": ("O(kn), Ω(k log n)", True),
    "interval": ("O(k log n), Ω(k)", False),
    "hybrid": ("Θ(k log n)", False),
    "segment-tree": ("Θ(k log n)", False),
    "interval-tree": ("O(kn), Ω(k log n)", True),
}
"""Table 1 of the paper: evaluations, and whether they grow with n if all intervals overlap."""


def _table_1(report: Report, seed: int, sizes: tuple[int, int]) -> None:
    """Table 1 measured on one attribute: mean evaluations where 1 interval holds for a value, and where all overlap."""
    for name, (bound, linear) in BOUNDS.items():
        apart: list[float] = []
        nested: list[float] = []
        for size in sizes:
            random = np.random.default_rng(seed)
            low = np.arange(size, dtype=np.int32)
            for lo, hi, means in ((2 * low, 2 * low, apart), (low, 2 * size - low, nested)):
                index = as_printed(name)(lo, hi)
                index.probe_batch(random.integers(0, 2 * size, 1000))
                means.append(index.evaluations / 1000)
        grows = nested[1] / nested[0] > 0.5 * sizes[1] / sizes[0]
        logarithmic = apart[1] / apart[0] < 3
        report.claim(
            f"Table 1, {name}",
            bound,
            f"apart {apart[0]:.0f} and {apart[1]:.0f}, all overlap {nested[0]:,.0f} and {nested[1]:,.0f}"
            f" at {sizes[0]:,} and {sizes[1]:,} intervals",
            logarithmic and grows == linear,
        )


def _processor_seconds(work: Callable[[], object]) -> float:
    begun = process_time()
    work()
    return process_time() - begun


def _at_scale(report: Report, seed: int, sizes: tuple[int, ...], overlaps: tuple[int, ...]) -> None:
    """Time and bytes of one attribute where so many predicates hold for a value.

    Time is that of the processor, which other work on the machine disturbs least; batches give the best of seven.
    """
    for size, holding in product(sizes, overlaps):
        random = np.random.default_rng(seed)
        low = random.random(size)
        high = low + random.exponential(holding / size, size)
        endpoints = Endpoints(np.unique(np.concatenate((low, high))))
        lo, hi = endpoints.codes(low), endpoints.codes(high)
        codes = endpoints.codes(random.random(4096))
        # Scans of a million, gigabytes of rows, and Hybrid's square of the overlap show nothing new.
        work = {"naive": 4096 * size, "cluster": 10 * size * holding, "interval": 10 * size * holding}
        work["hybrid"] = 50 * size * holding**2
        counts: dict[str, int] = {}
        for name in ("naive", *INDEXED):
            INDEXES[name].build(lo[:100], hi[:100]).probe_batch(codes)  # compiles
            if work.get(name, 0) > 1e9:
                continue
            begun = process_time()
            index = INDEXES[name].build(lo, hi)
            seconds = process_time() - begun
            asked = codes[:256] if name == "naive" else codes
            batch = min(_processor_seconds(partial(index.probe_batch, asked)) for _ in range(7))
            index.evaluations = 0
            counts[name] = len(index.probe_batch(codes).ids)
            report.results.append(
                Result(
                    name,
                    build_s=seconds,
                    events_per_s=len(asked) / batch,
                    bytes_per_subscription=index.nbytes / size,
                    extra={
                        "intervals": size,
                        "overlap": holding,
                        "evaluations": index.evaluations / len(codes),
                        "found": counts[name] / len(codes),
                    },
                )
            )
        if len(set(counts.values())) > 1:
            report.disagreements.append(f"{size} intervals, overlap {holding}: found {counts}")
