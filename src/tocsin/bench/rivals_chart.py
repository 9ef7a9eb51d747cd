"""The bar chart of the README: events a second of Tocsin and of what people use instead, from measured reports."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tocsin.errors import OptionError

WIDTH, NAME_WIDTH, BAR_WIDTH, ROW_HEIGHT = 760, 260, 380, 26


class _Bar(NamedTuple):
    report: str
    engine: str
    """The name of the engine in the report."""
    label: str
    is_ours: bool


BARS = [
    _Bar("attributes", "tocsin", "Tocsin, in process", True),
    _Bar("attributes", "duckdb", "DuckDB, range join", False),
    _Bar("attributes", "polars", "Polars, join_where", False),
    _Bar("spark", "match of files on local[2]", "Tocsin on Spark", True),
    _Bar("spark", "Spark SQL, bucketed range join", "Spark SQL, range join", False),
    _Bar("spark", "Spark SQL, nested loop join", "Spark SQL, nested-loop join", False),
]


def rivals_chart(folder: Path) -> str:
    """Return the chart as SVG, from the reports `attributes` and `spark` of a folder."""
    rates = [_rate(folder, bar) for bar in BARS]
    return "\n".join(_lines(rates)) + "\n"


def _rate(folder: Path, bar: _Bar) -> float:
    file = folder / f"{bar.report}.json"
    if not file.is_file():
        raise OptionError(f"{folder} has no report {file.name}", f"Write it with tocsin bench {bar.report} --output")
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    # The engine is measured several times where there are several masters; the first is local.
    return next(float(result["events_per_s"]) for result in results if result["engine"] == bar.engine)


def _lines(rates: list[float]) -> Iterator[str]:
    height = ROW_HEIGHT * (len(rates) + 1) + 8
    highest = math.log10(max(rates))
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Events a second among 100,000 subscriptions">'
    )
    yield "  <style>text { font: 14px sans-serif; fill: #6b7280 }"
    yield "    .ours { fill: #b45309 } .rival { fill: #9ca3af }</style>"
    title = "Events a second among 100,000 subscriptions, 2 cores; each step is ten times the last"
    yield f'  <text x="0" y="18">{title}</text>'
    for place, (bar, rate) in enumerate(zip(BARS, rates, strict=True), 1):
        top = ROW_HEIGHT * place + 4
        width = BAR_WIDTH * math.log10(rate) / highest
        yield f'  <text x="{NAME_WIDTH - 10}" y="{top + 16}" text-anchor="end">{bar.label}</text>'
        kind = "ours" if bar.is_ours else "rival"
        yield f'  <rect class="{kind}" x="{NAME_WIDTH}" y="{top + 2}" width="{width:.0f}" height="{ROW_HEIGHT - 8}"/>'
        yield f'  <text x="{NAME_WIDTH + width + 8:.0f}" y="{top + 16}">{rate:,.0f}</text>'
    for power in range(1, int(highest) + 1):
        x = NAME_WIDTH + BAR_WIDTH * power / highest
        yield f'  <path d="M{x:.0f} {ROW_HEIGHT + 4} V{height - 4}" stroke="#fff" stroke-opacity="0.7"/>'
    yield "</svg>"
