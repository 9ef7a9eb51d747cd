"""`tocsin match`: files of events against subscriptions, on this machine or on Spark."""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer
from rich.table import Table
from rich.text import Text

from tocsin.cli.console import (
    AsJson,
    Quiet,
    bad_lines_table,
    errors,
    facts,
    leave_pandas_out,
    output,
    print_json,
    print_rejected,
    rate,
)
from tocsin.cli.inputs import (
    STANDARD,
    Events,
    Index,
    IntervalRule,
    Mode,
    Now,
    Subscriptions,
    Tags,
    Where,
    WhereFile,
    demand_one_standard_input,
    demand_other_columns,
    matcher_of,
    parse_now,
    parse_tags,
    question_of,
    source_of,
)
from tocsin.cli.matcher_options import MatcherOptions
from tocsin.cli.progress import stage
from tocsin.errors import OptionError
from tocsin.sigterm import unwound_by_sigterm

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.files.event_files import EventFiles
    from tocsin.files.formats import DataFile
    from tocsin.files.job import MatchJob, MatchJobResult
    from tocsin.files.match_writer import OutputFormat
    from tocsin.matcher import Matcher
    from tocsin.spark.match_job import Progress

ON_SPARK_FROM = 4 << 30
"""Bytes of events from which on Spark is used if it is installed: some minutes of work for one process."""
MOST_SHOWN = 1_000
"""Rows of a table on the terminal."""
MOST_WARNINGS = 10
"""Attributes that no event has, on the terminal."""


class Format(Enum):
    """The format of the output."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


def match(
    events: Events,
    subscriptions: Subscriptions = None,
    index: Index = None,
    where: Where = None,
    where_file: WhereFile = None,
    output: Annotated[
        Path, typer.Option(help="A file, or a folder for a name without a suffix; - is standard output.")
    ] = STANDARD,
    format: Annotated[
        Format | None, typer.Option(help="Told by the name of the output if not given; a table on a terminal.")
    ] = None,
    id: Annotated[str | None, typer.Option(help="The column that names an event; id if not given.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column of the events to keep; may be repeated.")] = None,
    tags: Tags = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Only the best matches of each event, best first.")] = None,
    mode: Annotated[
        Mode, typer.Option(help="With --top-k. exact: matches by score; relaxed: by the weights of what holds.")
    ] = Mode.EXACT,
    score_by: Annotated[
        str, typer.Option(help="What scores: sum, max, price=3,age=0.5, or an expression such as score * event.x.")
    ] = "sum",
    interval: Annotated[
        IntervalRule, typer.Option(help="Which ranges an interval of an event satisfies.")
    ] = IntervalRule.OVERLAPS,
    ranked_index: Annotated[str, typer.Option(help="The ranked index to use, such as ir-tree.")] = "auto",
    order: Annotated[
        str | None, typer.Option(help="The column that orders events, for subscriptions that look back.")
    ] = None,
    now: Now = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say of each match which predicates held.")] = False,
    spark: Annotated[
        bool | None,
        typer.Option("--spark/--no-spark", help="On Spark, or not; by the size of the events if not given."),
    ] = None,
    master: Annotated[str | None, typer.Option(help="The Spark master, as spark-submit takes it.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark writes.")] = False,
    *,
    options: MatcherOptions,
) -> None:
    """Match files of events against subscriptions: on this machine, or on Spark.

    Subscriptions and event lines that cannot be read are reported and left out; then the exit code is 1. Subscriptions
    that look back see events in the order of the files, or by --order; on Spark they need --order.
    """
    from tocsin.files.formats import data_files
    from tocsin.storage.atomic_files import whole_folder

    # Whatever can be wrong is found before the library is loaded, an index built and Spark started, in this order.
    demand_one_standard_input(events, subscriptions, where_file)
    source = source_of(subscriptions, index, where, where_file, options)
    files = data_files(events, "events")
    on_spark = spark if spark is not None else master is not None or _is_large(files)
    at, chosen = parse_now(now), parse_tags(tags)
    question = question_of(top_k, mode, score_by, interval, ranked_index)
    with unwound_by_sigterm(), contextlib.ExitStack() as stack:
        if on_spark:
            _check_for_spark(events, output, format, {"--explain": explain, "--now": now is not None})
            demand_other_columns(id, keep or [])
            folder = stack.enter_context(whole_folder(output, overwrite))
        else:
            leave_pandas_out()
            target = stack.enter_context(destination(output, format, overwrite))
        from tocsin.files.event_files import EventFiles, check_columns
        from tocsin.files.job import MatchJob

        job = MatchJob(id, keep or [], chosen, question, explain, order, at)
        check_columns(events, job.event_columns)
        matcher = stack.enter_context(matcher_of(source, quiet=quiet))
        if matcher.rejected:
            print_rejected(errors(), matcher.rejected)
        if on_spark:
            outcome = _match_on_spark(matcher, events, folder, format, job, master, quiet, verbose)
        else:
            reader = EventFiles(events, matcher.kinds, order=order, keep_given=explain)
            outcome = _match_here(matcher, reader, *target, job, quiet)
    if outcome.bad_events:
        errors().print(bad_lines_table(outcome.bad_events, outcome.bad_lines, events.name))
    _report(str(output), matcher, outcome, as_json, quiet)
    if matcher.rejected or outcome.bad_events:
        raise typer.Exit(1)


def _is_large(files: "Sequence[DataFile]") -> bool:
    """Whether Spark is the better way, and there; the terminal is told."""
    import importlib.util

    total = sum(file.path.stat().st_size for file in files if file.path != STANDARD)
    if total < ON_SPARK_FROM or importlib.util.find_spec("pyspark") is None:
        return False
    errors().print(f"{total / 2**30:.1f} GiB of events: matching on Spark (--no-spark does it in this process)")
    return True


def _match_here(
    matcher: "Matcher",
    source: "EventFiles",
    file: BinaryIO,
    format: "OutputFormat",
    job: "MatchJob",
    quiet: bool,
) -> "MatchJobResult":
    from tocsin.files.local_match import match_locally
    from tocsin.files.match_writer import MatchWriter

    looking_back = matcher.looking_back(job.tags)
    if looking_back and job.explain:
        raise OptionError(
            "a match that looked back cannot be explained later: its history has grown", "Leave out --explain"
        )
    if looking_back and job.order is None and not quiet:
        looks = "1 subscription looks" if len(looking_back) == 1 else f"{len(looking_back):,} subscriptions look"
        errors().print(f"{looks} back: events count in the order of the files")
    writer = MatchWriter(file, format, job.columns, show_rows)
    # The report that follows has the time and the rate.
    with stage("matching", "events", quiet=quiet, told=False, detail=lambda: f"{writer.rows:,} matches") as progress:
        source.progress = progress
        return match_locally(job, matcher, source, writer)


@contextlib.contextmanager
def destination(target: Path, format: Format | None, overwrite: bool) -> Iterator[tuple[BinaryIO, "OutputFormat"]]:
    """The file to write to and its format: standard output, a file, or a part of a new folder.

    What is there is replaced at the end, and after an error it is as it was.
    """
    from tocsin.files.formats import compressed, format_of
    from tocsin.storage.atomic_files import whole_file, whole_folder

    if target == STANDARD:
        default = "table" if sys.stdout.isatty() else "jsonl"
        yield sys.stdout.buffer, cast("OutputFormat", format.value if format else default)
        sys.stdout.flush()
        return
    if format is Format.TABLE:
        raise OptionError("a table is for the terminal", "Choose another --format, or leave out --output")
    if target.suffix:
        chosen = format.value if format else format_of(target)
        with whole_file(target, overwrite) as file, compressed(file, target) as written:
            yield written, chosen
        return
    chosen = format.value if format else "parquet"
    with whole_folder(target, overwrite) as folder:
        folder.mkdir()
        with (folder / f"part-00000.{chosen}").open("wb") as file:
            yield file, chosen


def show_rows(matches: "pa.Table") -> None:
    """Print matches as a table."""
    table = Table(*matches.column_names)
    for row in matches.slice(0, MOST_SHOWN).to_pylist():
        table.add_row(*(Text("" if value is None else str(value)) for value in row.values()))
    output().print(table)
    if len(matches) > MOST_SHOWN:
        output().print(f"… and {len(matches) - MOST_SHOWN:,} more; --format jsonl shows all")


def _check_for_spark(events: Path, output: Path, format: Format | None, others: dict[str, bool]) -> None:
    """Raise OptionError for what Spark does not do; `others` are options that are not for it, if they were given."""
    if STANDARD in (events, output):
        raise OptionError("Spark reads and writes files", "Give --events and --output as paths, or leave out --spark")
    for option, is_given in others.items():
        if is_given:
            raise OptionError(f"{option} is not for Spark", "Leave out --spark, or the option")
    if format not in (None, Format.PARQUET, Format.JSONL):
        raise OptionError(f"Spark does not write {format.value} here", "Choose --format parquet or jsonl")


def _match_on_spark(
    matcher: "Matcher",
    events: Path,
    folder: Path,
    format: Format | None,
    job: "MatchJob",
    master: str | None,
    quiet: bool,
    verbose: bool,
) -> "MatchJobResult":
    from tocsin.index.history_planner import refuse

    if job.order is None:
        refuse(matcher.looking_back(job.tags), "Give the column that orders events with --order")
    with contextlib.ExitStack() as stack:
        from tocsin.spark.match_job import match_files
        from tocsin.spark.session import local_session

        with stage("starting Spark", quiet=quiet):
            session = stack.enter_context(local_session(master or "local[*]", verbose=verbose))
        progress = stack.enter_context(_bar(quiet))
        chosen = (format or Format.PARQUET).value
        return match_files(session, matcher, events, folder, job, format=chosen, progress=progress)


@contextlib.contextmanager
def _bar(quiet: bool) -> Iterator["Progress"]:
    """A bar of Spark tasks on the terminal; none if standard error is a file."""
    from rich.progress import Progress as Bar

    console = errors()
    with Bar(console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("matching", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _report(target: str, matcher: "Matcher", outcome: "MatchJobResult", as_json: bool, quiet: bool) -> None:
    """Print the figures at the end: as JSON on standard output, unless the matches are there."""
    if as_json:
        report = {
            "events": outcome.events,
            "malformed_lines": outcome.bad_events,
            "subscriptions": len(matcher),
            "rejected_subscriptions": len(matcher.rejected),
            "matches": outcome.matches,
            "seconds": outcome.seconds,
            "warnings": [str(warning) for warning in outcome.warnings],
            "evidence": dataclasses.asdict(outcome.evidence),
        }
        print_json(report, err=target == str(STANDARD))
    elif not quiet:
        for warning in outcome.warnings[:MOST_WARNINGS]:
            errors().print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)
        if len(outcome.warnings) > MOST_WARNINGS:
            errors().print(f"{len(outcome.warnings) - MOST_WARNINGS:,} more attributes like these")
        errors().print(facts("standard output" if target == str(STANDARD) else target, summary(matcher, outcome)))


def summary(matcher: "Matcher", outcome: "MatchJobResult") -> list[tuple[str, str]]:
    """The figures at the end of a job."""
    return [
        ("events", f"{outcome.events:,}"),
        ("malformed lines", f"{outcome.bad_events:,}"),
        ("subscriptions", f"{len(matcher):,}"),
        ("rejected subscriptions", f"{len(matcher.rejected):,}"),
        *outcome.evidence.unused_values(),
        ("matches", f"{outcome.matches:,}"),
        ("seconds", f"{outcome.seconds:.1f}"),
        ("events/s", rate(outcome.events / outcome.seconds)),
    ]
