"""The page of measured figures: what a reader wants to know first, then the goals, then the reports of a folder."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tocsin.bench.runner import Cell, columns, show
from tocsin.errors import OptionError

INTRODUCTION = """# Performance

Figures belong to the machine that they were measured on, here one with two cores; ratios say more. Rivals ran on the
same data, and a run in which they find other matches than Tocsin fails. Times of changes are of the processor.
Workloads were measured on different days, `spark` on a day when this machine was twice as fast: compare within one."""

REPEAT = """`tocsin bench NAME --output docs/performance` measures a workload again, and
`tocsin bench report docs/performance` prints this page. The notes on the internals tell what stands behind the figures:
[access pairs](internals/pairs.md), [segments](internals/segments.md), [Spark](internals/spark.md)."""

WIDEST = 6
"""The most columns of a table that a page shows without scrolling."""

Report = Mapping[str, Any]

GOALS = {
    "times duckdb's events/s": "as fast as DuckDB's join on ranges, times",
    "times polars's events/s": "as fast as Polars' `join_where`, times",
    "time over copying the matched pairs": "time to match, over the time to copy the answer once in memory",
    "bytes of index a subscription": "bytes of memory a subscription",
    "build time over sqlglot parsing alone": "time to build, over the time that sqlglot takes to parse the conditions",
    "building over opening": "opening a saved index is faster than building it, times",
    "time on 10 segments over one": "time to match on 10 segments, over one segment",
    "subscribing one by one over bulk loading": "loading a table is faster than subscribing one by one, times",
}
"""Claims of reports in a reader's words; others say it themselves."""
for _change in ("a subscribe", "an unsubscribe", "a rescore", "a replacement"):
    GOALS[f"{_change} among all over one among 10,000"] = f"time of {_change} among 1,000,000, over 10,000 standing"

REASONS = {
    "over the time to copy": "A copy is the least that a matcher could do: this says how far that is.",
    "on 10 segments": "Each segment has tables of its own to look into; merging in tiers keeps few of one size.",
    "changes, batches": "A batch first builds a segment of what came since the batch before.",
    "of rows on": "Rows go through Spark's own format; files, which Python reads, do not.",
    "from memory": "Spark reads the events from files, and the rival has them in memory.",
}
"""Why goals are not met, by a part of their text."""


def page(folder: Path) -> str:
    """The page of all reports in a folder, in the order of their names."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise OptionError(f"{folder} has no reports", "Write one there with tocsin bench NAME --output")
    reports = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    parts = [*_summary(reports), *_goals(reports)]
    sections = ("\n".join(_section(report)) for report in reports)
    return "\n\n".join([INTRODUCTION, *parts, f"## Measured\n\n{REPEAT}", *sections]) + "\n"


def _summary(reports: Sequence[Report]) -> Iterator[str]:
    """What a reader asks first, from the reports that answer it."""
    known = {
        (report["workload"], row["engine"]): row for report in reversed(reports) for row in report["results"][::-1]
    }
    rows = []

    def ask(question: str, workload: str, engine: str, figure: str, unit: str, scale: float = 1.0) -> None:
        value = known.get((workload, engine), {}).get(figure)
        if value is not None:
            rows.append([question, f"{show(float(f'{value * scale:.3g}'))} {unit}"])

    among = "among 100,000 subscriptions"
    ask(f"Tocsin in one process, {among}", "attributes", "tocsin", "events_per_s", "events/s")
    ask("DuckDB, one join on ranges", "attributes", "duckdb", "events_per_s", "events/s")
    ask("Polars, `join_where`", "attributes", "polars", "events_per_s", "events/s")
    ask(f"Tocsin on Spark, two cores, {among}", "spark", "match of files on local[2]", "events_per_s", "events/s")
    ask("Spark SQL, bucketed range join", "spark", "Spark SQL, bucketed range join", "events_per_s", "events/s")
    ask("Spark SQL, nested loop join", "spark", "Spark SQL, nested loop join", "events_per_s", "events/s")
    ask("memory a subscription", "attributes", "tocsin", "bytes_per_subscription", "bytes")
    ask("build an index of 1,000,000 subscriptions", "segments", "build", "build_s", "s")
    ask("open it again", "segments", "open", "seconds", "ms", 1e3)
    ask("add a subscription to it", "segments", "a subscribe, 1,000,000 standing", "seconds", "ms", 1e3)
    ask("remove one", "segments", "an unsubscribe, 1,000,000 standing", "seconds", "ms", 1e3)
    if rows:
        yield "\n".join(["## In short", "", *_table(["what", "measured"], rows)])


def _goals(reports: Sequence[Report]) -> Iterator[str]:
    """All claims: first those that do not hold, with the reason."""
    claims = [{**claim, "workload": report["workload"]} for report in reports for claim in report["claims"]]
    missed = [claim for claim in claims if not claim["holds"]]
    met = [claim for claim in claims if claim["holds"]]
    head = ["goal", "wanted", "measured"]
    if missed:
        rows = [[*_goal(claim), _reason(claim)] for claim in missed]
        title = f"## Goals that are not met: {len(missed)} of {len(claims)}"
        yield "\n".join([title, "", *_table([*head, "because"], rows)])
    if met:
        title = f"## Goals that are met: {len(met)} of {len(claims)}"
        yield "\n".join([title, "", *_table(head, [_goal(claim) for claim in met])])


def _goal(claim: Mapping[str, Any]) -> list[str]:
    text = claim["claim"]
    return [GOALS.get(text, text), claim["expected"], claim["measured"]]


def _reason(claim: Mapping[str, Any]) -> str:
    text = GOALS.get(claim["claim"], claim["claim"])
    return next((reason for part, reason in REASONS.items() if part in text), "-")


def _section(report: Report) -> Iterator[str]:
    yield f"### {report['workload']}"
    yield ""
    if report["parameters"]:
        yield ", ".join(f"{_words(name)} {show(value)}" for name, value in report["parameters"].items()) + "."
    rows = report["results"]
    if rows:
        names = [name for name in columns(rows) if any(row.get(name) is not None for row in rows)]
        yield ""
        if len(names) <= WIDEST:
            yield from _table(
                [_words(name) for name in names], [[show(row.get(name)) for name in names] for row in rows]
            )
        else:
            yield from _table(
                ["engine", "measured"], [[row["engine"], _figures(row, names[1:])] for row in rows], "---"
            )
    for disagreement in report["disagreements"]:
        yield ""
        yield f"**Engines disagree:** {disagreement}"


def _figures(row: Mapping[str, Cell], names: Sequence[str]) -> str:
    """The figures of a row that it has, by name: tables with many columns are empty for the most part."""
    return ", ".join(_figure(name, row[name]) for name in names if row.get(name) is not None)


def _figure(name: str, value: Cell) -> str:
    """A figure with its name; a time has a unit that suits it.

    >>> _figure("file_bytes", 1024), _figure("seconds", 5.511e-05), _figure("seconds", 0.004), _figure("seconds", 15.02)
    ('file bytes 1,024', '55.1 µs', '4 ms', '15 s')
    """
    if name != "seconds" or not isinstance(value, float):
        return f"{_words(name)} {show(value)}"
    unit, scale = ("µs", 1e6) if value < 1e-3 else ("ms", 1e3) if value < 1 else ("s", 1.0)
    return f"{show(float(f'{value * scale:.3g}'))} {unit}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], aligned: str = "---:") -> Iterator[str]:
    yield _row(head)
    yield _row(["---", *[aligned] * (len(head) - 1)] if head[0] == "engine" else ["---"] * len(head))
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
