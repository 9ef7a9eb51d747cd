"""What all benchmarks share: timing, the report with its one JSON shape, tables on the terminal, CSV and plots."""

import csv
import gc
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from rich.console import Console
from rich.table import Table

T = TypeVar("T")
Cell = str | int | float | bool | None


@dataclass
class Result:
    """What one engine did on a workload. `extra` holds columns that only this benchmark has."""

    engine: str
    build_s: float | None = None
    events_per_s: float | None = None
    matches: int | None = None
    bytes_per_subscription: float | None = None
    extra: dict[str, Cell] = field(default_factory=dict)

    def row(self) -> dict[str, Cell]:
        """The result as one flat record."""
        return {
            "engine": self.engine,
            "build_s": self.build_s,
            "events_per_s": self.events_per_s,
            "matches": self.matches,
            "bytes_per_subscription": self.bytes_per_subscription,
            **self.extra,
        }


@dataclass
class Claim:
    """A statement with the value it expects, the value that was measured, and whether it holds."""

    claim: str
    expected: str
    measured: str
    holds: bool


@dataclass
class Figure:
    """The curves of one figure: for each series, its points (x, y)."""

    name: str
    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[str] = ()
    """What x = 0, 1 and so on stand for, if they are no numbers."""


@dataclass
class Report:
    """The outcome of one benchmark run."""

    workload: str
    parameters: dict[str, Cell]
    results: list[Result] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)
    """Engines whose answers differ; a run with any of them has failed."""

    latest: ClassVar["Report | None"] = None
    """The report of the benchmark under way, for its progress on the terminal."""

    def __post_init__(self) -> None:
        Report.latest = self

    def claim(self, claim: str, expected: str, measured: str, holds: bool) -> None:
        """Add one claim with its verdict."""
        self.claims.append(Claim(claim, expected, measured, bool(holds)))

    def expect_equal_matches(self) -> None:
        """Record a disagreement if the results of this run do not all have the same number of matches."""
        counts = {result.engine: result.matches for result in self.results if result.matches is not None}
        if len(set(counts.values())) > 1:
            self.disagreements.append(f"match counts differ: {counts}")

    def to_json(self) -> str:
        """The report in the one JSON shape of all benchmarks."""
        document = {
            "workload": self.workload,
            "parameters": self.parameters,
            "results": [result.row() for result in self.results],
            "claims": [vars(claim) for claim in self.claims],
            "disagreements": self.disagreements,
        }
        return json.dumps(document, indent=2)

    def print(self, console: Console) -> None:
        """Show results and claims as tables."""
        parameters = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        if self.results:
            rows = [result.row() for result in self.results]
            names = [name for name in columns(rows) if any(row.get(name) is not None for row in rows)]
            table = Table(title=f"{self.workload} ({parameters})")
            for name in names:
                table.add_column(name.replace("_", " "), justify="left" if name == "engine" else "right")
            for row in rows:
                table.add_row(*(show(row.get(name)) for name in names))
            console.print(table)
        if self.claims:
            table = Table("claim", "expected", "measured", "holds", title="claims")
            for claim in self.claims:
                table.add_row(claim.claim, claim.expected, claim.measured, "yes" if claim.holds else "NO")
            console.print(table)
        for disagreement in self.disagreements:
            console.print(f"[bold red]engines disagree:[/] {disagreement}")

    def write(self, folder: Path) -> list[Path]:
        """Write the report as JSON and each figure as CSV and SVG into `folder`; return the files."""
        folder.mkdir(parents=True, exist_ok=True)
        report = folder / f"{self.workload}.json"
        report.write_text(self.to_json() + "\n")
        files = [report]
        for figure in self.figures:
            files += [write_csv(figure, folder), plot(figure, folder)]
        return files


def measure(work: Callable[[], object], repeat: int = 3, warm_up: bool = True) -> float:
    """The median seconds of `repeat` runs of `work`, after one run that does not count."""
    if warm_up:
        work()
    seconds = []
    for _ in range(repeat):
        gc.collect()
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def processor_timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the processor seconds that some work took, which a busy machine does not change much, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """The seconds that one run of `work` takes, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def write_csv(figure: Figure, folder: Path) -> Path:
    """Write the points of a figure as `series, x, y` rows."""
    path = folder / f"{figure.name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["series", figure.x, figure.y])
        for name, points in figure.series.items():
            writer.writerows([name, x, y] for x, y in points)
    return path


def plot(figure: Figure, folder: Path) -> Path:
    """Draw a figure as SVG, the same bytes for the same points."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tocsin"
    # Text as text: the outlines of its letters are two thirds of a small figure's bytes.
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    canvas, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    markers = "osD^vP*X<>"
    for number, (name, points) in enumerate(figure.series.items()):
        xs, ys = zip(*points, strict=True) if points else ((), ())
        axes.plot(xs, ys, marker=markers[number % len(markers)], markersize=4, linewidth=1.4, label=name)
    axes.set(title=figure.title, xlabel=figure.x, ylabel=figure.y)
    if figure.ticks:
        axes.set_xticks(range(len(figure.ticks)), figure.ticks, rotation=90, fontsize=8)
    if figure.log_x:
        axes.set_xscale("log")
    if figure.log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if figure.ticks:
        # Many points leave no room for a legend among them.
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    else:
        axes.legend(fontsize=8)
    path = folder / f"{figure.name}.svg"
    canvas.savefig(path, metadata={"Date": None})
    pyplot.close(canvas)
    return path


def columns(rows: Sequence[Mapping[str, Cell]]) -> list[str]:
    """The names of all columns that some row has."""
    return list(dict.fromkeys(name for row in rows for name in row))


def show(value: Cell) -> str:
    """A cell of a table, with numbers as a reader wants them."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
