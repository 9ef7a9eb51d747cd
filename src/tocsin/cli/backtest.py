"""`tocsin backtest`: the matches that events of the past gain and lose if subscriptions change."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tocsin.cli.console import errors, facts, rejected_table
from tocsin.cli.inputs import Events
from tocsin.cli.match import STANDARD, Format, destination, show_rows
from tocsin.cli.progress import stage
from tocsin.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.files.backtest import Contrast
    from tocsin.files.parquet_scan import ReadCounts


class EventColumns(NamedTuple):
    """The columns of the events that have a part of their own."""

    id: str | None
    time: str | None
    order: str | None


def backtest(
    events: Events,
    before: Annotated[Path, typer.Option(help="The subscriptions as they are: the folder of an index, or a file.")],
    after: Annotated[Path, typer.Option(help="The subscriptions as they may become: the same.")],
    output: Annotated[
        Path, typer.Option(help="A file, or a folder for a name without a suffix; - is standard output.")
    ] = STANDARD,
    format: Annotated[
        Format | None, typer.Option(help="Told by the name of the output if not given; a table on a terminal.")
    ] = None,
    id: Annotated[str | None, typer.Option(help="The column that names an event; its number if not given.")] = None,
    time: Annotated[str | None, typer.Option(help="The column with the time of an event, for counts by day.")] = None,
    order: Annotated[
        str | None, typer.Option(help="The column that orders events, for subscriptions that look back.")
    ] = None,
    summary: Annotated[Path | None, typer.Option(help="Write the counts by subscription and day to this file.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the plot to this file, as SVG.")] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Match on Spark.")] = False,
    master: Annotated[str | None, typer.Option(help="The Spark master; means --spark.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no report and no plot.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark writes.")] = False,
) -> None:
    """Show the matches that past events gain and lose if the subscriptions change.

    Only subscriptions that differ are matched, and only row groups of Parquet files are read in which they may hold.
    """
    from tocsin.files.backtest import GAINED, LOST, Contrast
    from tocsin.files.backtest_plot import as_svg, as_text
    from tocsin.files.match_writer import MatchWriter

    contrast = Contrast.of(before, after)
    if contrast.rejected:
        errors().print(rejected_table(contrast.rejected))
    columns = EventColumns(id, time, order)
    if spark or master is not None:
        counts, read = _on_spark(contrast, events, output, format, columns, master, overwrite, verbose)
    else:
        counts, read = _here(contrast, events, output, format, columns, overwrite, quiet)
    if summary is not None:
        with destination(summary, None, overwrite) as (file, chosen):
            writer = MatchWriter(file, chosen, counts.column_names, show_rows)
            writer.write(counts)
            writer.close()
    if svg is not None:
        svg.write_text(as_svg(counts), encoding="utf-8")
    totals = {name: sum(counts[name].to_pylist()) for name in (GAINED, LOST)}
    report = {"subscriptions": len(contrast.names), **totals, **dataclasses.asdict(read)}
    if as_json:
        typer.echo(json.dumps(report), err=output == STANDARD)
    elif not quiet:
        errors().print(as_text(counts), highlight=False, markup=False, soft_wrap=True)
        rows = [(name.replace("_", " "), f"{count:,}") for name, count in report.items()]
        errors().print(facts("standard output" if output == STANDARD else str(output), rows))
    if contrast.rejected:
        raise typer.Exit(1)


def _here(
    contrast: "Contrast",
    events: Path,
    target: Path,
    format: Format | None,
    columns: EventColumns,
    overwrite: bool,
    quiet: bool,
) -> tuple["pa.Table", "ReadCounts"]:
    from tocsin.files.backtest import EventScan
    from tocsin.files.match_writer import MatchWriter

    scan = EventScan(contrast, **columns._asdict())
    with destination(target, format, overwrite) as (file, chosen), stage("matching", "events", quiet=quiet) as progress:
        writer = MatchWriter(file, chosen, scan.no_changes.column_names, show_rows)
        for found in scan.changes(events):
            writer.write(found)
            progress(scan.read.events)
        writer.close()
    return scan.summary, scan.read


def _on_spark(
    contrast: "Contrast",
    events: Path,
    target: Path,
    format: Format | None,
    columns: EventColumns,
    master: str | None,
    overwrite: bool,
    verbose: bool,
) -> tuple["pa.Table", "ReadCounts"]:
    from tocsin.spark.backtest import backtest_files
    from tocsin.spark.session import local_session
    from tocsin.storage.atomic_files import whole_folder

    if STANDARD in (events, target) or format not in (None, Format.PARQUET, Format.JSONL):
        raise OptionError("Spark reads files and writes a folder", "Give --output, of Parquet or JSON Lines")
    if columns.id is None:
        raise OptionError("on Spark events have no numbers", "Name the column that names an event with --id")
    with whole_folder(target, overwrite) as folder, local_session(master or "local[*]", verbose=verbose) as session:
        written = (format or Format.PARQUET).value
        return backtest_files(session, contrast, events, folder, written, columns.id, columns.time, columns.order)
