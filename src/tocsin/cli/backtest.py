"""`tocsin backtest`: the matches that events of the past gain and lose if subscriptions change."""

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import typer

from tocsin.cli.console import AsJson, Quiet, errors, facts, print_json, print_rejected
from tocsin.cli.inputs import STANDARD, Events, demand_one_standard_input
from tocsin.cli.match import Format, destination, show_rows
from tocsin.cli.matcher_options import MatcherOptions
from tocsin.cli.progress import stage
from tocsin.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.files.backtest import Contrast
    from tocsin.files.match_writer import OutputFormat
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
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark writes.")] = False,
    *,
    options: MatcherOptions,
) -> None:
    """Show the matches that past events gain and lose if the subscriptions change.

    Only subscriptions that differ are matched, and only row groups of Parquet files are read in which they may hold.
    The options of the matcher are for files of subscriptions; an index has its own.
    """
    keywords = _check_sides(before, after, options)
    demand_one_standard_input(events, before, after)
    on_spark = spark or master is not None
    if on_spark:
        _check_for_spark(events, output, format, id)
    from tocsin.files.event_files import check_columns
    from tocsin.storage.atomic_files import whole_file, whole_folder

    columns = EventColumns(id, time, order)
    check_columns(events, {f"--{name}": [column] for name, column in columns._asdict().items()})
    with contextlib.ExitStack() as stack:
        # Before the library is loaded: an output that cannot be written is told at once.
        counts_file = None if summary is None else stack.enter_context(destination(summary, None, overwrite))
        plot_file = None if svg is None else stack.enter_context(whole_file(svg, overwrite))
        from tocsin.files.backtest import GAINED, LOST, Contrast
        from tocsin.files.backtest_plot import as_svg, as_text
        from tocsin.files.match_writer import MatchWriter

        if on_spark:
            folder = stack.enter_context(whole_folder(output, overwrite))
        else:
            target = stack.enter_context(destination(output, format, overwrite))
        with stage("comparing the subscriptions", quiet=quiet):
            contrast = Contrast.of(before, after, keywords)
        if contrast.rejected:
            print_rejected(errors(), contrast.rejected)
        if on_spark:
            counts, read = _on_spark(contrast, events, folder, format, columns, master, verbose)
        else:
            counts, read = _here(contrast, events, *target, columns, quiet)
        if counts_file is not None:
            writer = MatchWriter(*counts_file, counts.column_names, show_rows)
            writer.write(counts)
            writer.close()
        if plot_file is not None:
            plot_file.write(as_svg(counts).encode())
    totals = {name: sum(counts[name].to_pylist()) for name in (GAINED, LOST)}
    report = {"subscriptions": len(contrast.names), **totals, **dataclasses.asdict(read)}
    if as_json:
        print_json(report, err=output == STANDARD)
    elif not quiet:
        errors().print(as_text(counts), highlight=False, markup=False, soft_wrap=True)
        rows = [(name.replace("_", " "), f"{count:,}") for name, count in report.items()]
        errors().print(facts("standard output" if output == STANDARD else str(output), rows))
    if contrast.rejected:
        raise typer.Exit(1)


def _check_sides(before: Path, after: Path, options: MatcherOptions) -> dict[str, Any] | None:
    """The options for files of subscriptions, if there are any; raise what is wrong before the library is loaded."""
    from tocsin.files.formats import data_files
    from tocsin.storage.folder import Folder

    keywords = options.keywords() if options.given else None
    indexes = [side for side in (before, after) if side.is_dir() and Folder(side).newest() is not None]
    if len(indexes) == 2:
        options.refuse_for(before)
    for side in (before, after):
        if side not in indexes:
            data_files(side, "subscriptions")
    return keywords


def _check_for_spark(events: Path, target: Path, format: Format | None, id: str | None) -> None:
    if STANDARD in (events, target) or format not in (None, Format.PARQUET, Format.JSONL):
        raise OptionError("Spark reads files and writes a folder", "Give --output, of Parquet or JSON Lines")
    if id is None:
        raise OptionError("on Spark events have no numbers", "Name the column that names an event with --id")


def _here(
    contrast: "Contrast",
    events: Path,
    file: BinaryIO,
    format: "OutputFormat",
    columns: EventColumns,
    quiet: bool,
) -> tuple["pa.Table", "ReadCounts"]:
    from tocsin.files.backtest import EventScan
    from tocsin.files.match_writer import MatchWriter

    scan = EventScan(contrast, **columns._asdict())
    with stage("matching", "events", quiet=quiet) as progress:
        writer = MatchWriter(file, format, scan.no_changes.column_names, show_rows)
        for found in scan.changes(events):
            writer.write(found)
            progress(scan.read.events)
        writer.close()
    return scan.summary, scan.read


def _on_spark(
    contrast: "Contrast",
    events: Path,
    folder: Path,
    format: Format | None,
    columns: EventColumns,
    master: str | None,
    verbose: bool,
) -> tuple["pa.Table", "ReadCounts"]:
    from tocsin.spark.backtest import backtest_files
    from tocsin.spark.session import local_session

    assert columns.id is not None, "checked before"
    with local_session(master or "local[*]", verbose=verbose) as session:
        written = (format or Format.PARQUET).value
        return backtest_files(session, contrast, events, folder, written, columns.id, columns.time, columns.order)
