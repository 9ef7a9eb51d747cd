"""`tocsin match`: the main job, on Spark."""

import contextlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.console import bad_lines_table, errors, facts, rejected_table

if TYPE_CHECKING:
    from tocsin.matcher import Matcher
    from tocsin.spark.match_job import MatchJobResult, Progress


class Format(Enum):
    """The format of the output."""

    PARQUET = "parquet"
    JSONL = "jsonl"


def match(
    subscriptions: Annotated[Path, typer.Option(help="Subscriptions: id, where[, score] as .jsonl, .csv or .parquet.")],
    events: Annotated[Path, typer.Option(help="Events as .jsonl, .csv or .parquet; a file, or a folder of files.")],
    output: Annotated[Path, typer.Option(help="The folder to write the matches to: event, subscription, score.")],
    id: Annotated[str, typer.Option(help="The column that names an event.")] = "id",
    master: Annotated[str, typer.Option(help="The Spark master, as spark-submit takes it.")] = "local[*]",
    format: Annotated[Format, typer.Option(help="The format of the matches.")] = Format.PARQUET,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an output folder that exists.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark writes.")] = False,
) -> None:
    """Match files of events against a file of subscriptions, on Spark.

    Subscriptions and event lines that cannot be read are reported and left out; then the exit code is 1. Subscriptions
    that look back at earlier events are refused: tasks have no order.
    """
    from tocsin.cli.files import whole_folder
    from tocsin.index.history_planner import refuse

    console = errors()
    with whole_folder(output, overwrite) as folder:
        matcher = load(subscriptions)
        if matcher.rejected:
            console.print(rejected_table(matcher.rejected))
        refuse(matcher.looking_back(), "Leave them out, or call tocsin.spark.match_in_order in Python")
        outcome = run(matcher, events, folder, id=id, master=master, format=format, verbose=verbose)
    if outcome.bad_events:
        console.print(bad_lines_table(outcome.bad_events, outcome.bad_lines, events.name))
    console.print(facts(str(output), summary(matcher, outcome)))
    if matcher.rejected or outcome.bad_events:
        raise typer.Exit(1)


def load(path: Path) -> "Matcher":
    """Build a matcher from a file of subscriptions; `rejected` also holds the lines that are no subscriptions."""
    from tocsin.cli.files import read_subscriptions
    from tocsin.matcher import Matcher

    with errors().status("building the index"):
        table, unread = read_subscriptions(path)
        matcher = Matcher.from_table(table)
    matcher.rejected[:0] = unread
    return matcher


def run(
    matcher: "Matcher", events: Path, output: Path, *, id: str, master: str, format: Format, verbose: bool = False
) -> "MatchJobResult":
    """Run the job on Spark with its progress on the terminal."""
    from tocsin.spark.match_job import match_files
    from tocsin.spark.session import local_session

    with contextlib.ExitStack() as stack:
        with errors().status("starting Spark"):
            session = stack.enter_context(local_session(master, verbose=verbose))
        progress = stack.enter_context(progress_bar())
        return match_files(session, matcher, events, output, id=id, format=format.value, progress=progress)


def summary(matcher: "Matcher", outcome: "MatchJobResult") -> list[tuple[str, str]]:
    """The figures at the end of a job."""
    from tocsin.spark.evidence import unused_values

    return [
        ("events", f"{outcome.events:,}"),
        ("malformed lines", f"{outcome.bad_events:,}"),
        ("subscriptions", f"{len(matcher):,}"),
        ("rejected subscriptions", f"{len(matcher.rejected):,}"),
        *unused_values(outcome.evidence),
        ("matches", f"{outcome.matches:,}"),
        ("seconds", f"{outcome.seconds:.1f}"),
        ("events/s", f"{outcome.events / outcome.seconds:,.0f}"),
    ]


@contextlib.contextmanager
def progress_bar() -> Iterator["Progress"]:
    """A bar of Spark tasks on the terminal; none if standard error is a file."""
    from rich.progress import Progress as Bar

    console = errors()
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("matching", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
