"""The page of measured figures: the reports of a folder, as Markdown."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tocsin.bench.runner import columns, show
from tocsin.errors import OptionError

INTRODUCTION = """# Performance

What the benchmarks measured: a table of engines and a table of claims for each workload. Absolute figures belong to the
machine that they were measured on. Rivals ran in the same process and gave the same answers, so that ratios say more.

`tocsin bench NAME --output docs/performance` measures a workload again, and `tocsin bench report docs/performance`
prints this page. The notes in [internals/](internals/) tell what stands behind the figures."""


def page(folder: Path) -> str:
    """The page of all reports in a folder, in the order of their names."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise OptionError(f"{folder} has no reports", "Write one there with tocsin bench NAME --output")
    sections = ("\n".join(_section(json.loads(file.read_text(encoding="utf-8")))) for file in files)
    return "\n\n".join([INTRODUCTION, *sections]) + "\n"


def _section(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {report['workload']}"
    yield ""
    if report["parameters"]:
        yield ", ".join(f"{name.replace('_', ' ')} {show(value)}" for name, value in report["parameters"].items()) + "."
    rows = report["results"]
    if rows:
        names = [name for name in columns(rows) if any(row.get(name) is not None for row in rows)]
        yield ""
        yield from _table(
            [name.replace("_", " ") for name in names], [[show(row.get(name)) for name in names] for row in rows]
        )
    if report["claims"]:
        yield ""
        yield from _table(
            ["claim", "expected", "measured", "holds"],
            [[*(one[name] for name in ("claim", "expected", "measured")), _verdict(one)] for one in report["claims"]],
        )
    for disagreement in report["disagreements"]:
        yield ""
        yield f"**Engines disagree:** {disagreement}"


def _verdict(claim: Mapping[str, Any]) -> str:
    return "yes" if claim["holds"] else "**no**"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---", *["---:"] * (len(head) - 1)] if head[0] == "engine" else ["---"] * len(head))
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
