"""`tocsin stream`: match the files that are put into a folder, as they come."""

import contextlib
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.console import errors, facts
from tocsin.cli.match import Format
from tocsin.errors import OptionError
from tocsin.storage.atomic_files import check_place

if TYPE_CHECKING:
    from tocsin.spark.stream_job import Progress


SPARK_TYPES = re.compile(
    "array|bigint|binary|boolean|byte|char|character|date|dec|decimal|double|float|int|integer|interval|long|map|numeric|"
    "real|short|smallint|string|struct|timestamp|timestamp_ltz|timestamp_ntz|tinyint|varchar|variant|void",
    re.IGNORECASE,
)
"""The types that a schema of Spark's may name."""


def stream(
    index: Annotated[Path, typer.Option(help="The folder of the index; what is committed to it later counts too.")],
    events: Annotated[Path, typer.Option(help="The folder that files of events are put into: .jsonl, .csv, .parquet.")],
    output: Annotated[Path, typer.Option(help="The folder of the table of matches, written exactly once.")],
    checkpoint: Annotated[Path, typer.Option(help="The folder of Spark's own notes on what has been read.")],
    id: Annotated[str, typer.Option(help="The column that names an event.")] = "id",
    order: Annotated[
        str | None, typer.Option(help="The column that orders events, for subscriptions that look back.")
    ] = None,
    master: Annotated[str, typer.Option(help="The Spark master, as spark-submit takes it.")] = "local[*]",
    format: Annotated[Format, typer.Option(help="The format of the matches.")] = Format.PARQUET,
    schema: Annotated[str | None, typer.Option(help='Columns and types, "id long, price double"; else found.')] = None,
    files_per_batch: Annotated[int | None, typer.Option(min=1, help="The most files that one batch takes.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column of the events to keep; may be repeated.")] = None,
    inbox_tag: Annotated[
        str | None, typer.Option(help="The tag that names a subscriber: the output is a table of inboxes.")
    ] = None,
    dedupe: Annotated[
        str | None, typer.Option(help='With --inbox-tag: columns that an inbox gets once, as in "subscription, isbn".')
    ] = None,
    digest: Annotated[bool, typer.Option("--digest", help="With --inbox-tag: one row an inbox and batch.")] = False,
    until_now: Annotated[bool, typer.Option("--until-now", help="End when the files that are there are done.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark writes.")] = False,
) -> None:
    """Match event files as they come, against the subscriptions that are committed when a batch starts.

    It waits for the first file if there is none. Ctrl-C ends it after the batch under way. The same command goes on
    where it ended, however it ended.
    """
    if inbox_tag is None and (dedupe or digest):
        raise OptionError("--dedupe and --digest are for inboxes", "Name the tag of a subscriber with --inbox-tag")
    if not events.is_dir():
        raise OptionError(f"there is no folder {events}", "Give the folder that files of events are put into")
    for folder in (output, checkpoint):
        check_place(folder)
    if schema is not None:
        check_schema(schema)
    _check_index(index)
    from tocsin.spark.session import local_session
    from tocsin.spark.stream_job import Delivery, Progress, follow, stream_files, wait_for_a_file

    console = errors()
    done = Progress()

    def show(progress: Progress) -> None:
        nonlocal done
        done = progress
        status.update(", ".join(f"{name} {figure}" for name, figure in figures(progress)))

    with contextlib.ExitStack() as stack:
        status = stack.enter_context(console.status("starting Spark"))
        session = stack.enter_context(local_session(master, verbose=verbose))
        asked_to_stop = stack.enter_context(interrupts())
        status.update(f"waiting for files in {events}")
        if not wait_for_a_file(events, asked_to_stop, until_now):
            console.print(f"no file came to {events}: nothing was matched", soft_wrap=True)
            return
        query = stream_files(
            session,
            index,
            events,
            output,
            checkpoint=checkpoint,
            id=id,
            order=order,
            format=format.value,
            schema=schema,
            files_per_batch=files_per_batch,
            until_now=until_now,
            keep=keep or [],
            delivery=None if inbox_tag is None else Delivery(inbox_tag, dedupe, digest),
            progress=show,
        )
        follow(query, asked_to_stop)
    console.print(facts(str(output), figures(done)))


def check_schema(text: str) -> None:
    """Raise OptionError if a column of --schema has no type of Spark's: only Spark can tell the rest, when it runs.

    >>> check_schema("id long, price decimal(10, 2), tags array<string>")
    >>> check_schema("id wrong")
    Traceback (most recent call last):
        ...
    tocsin.errors.OptionError: --schema: 'id wrong' is not a column and its type. Write "id long, price double"
    """
    # Commas inside brackets belong to a type.
    for column in re.split(r",(?![^<(]*[>)])", text):
        found = re.fullmatch(r"\s*(?:`[^`]+`|\w+)[\s:]+(\w+).*", column, re.DOTALL)
        if found is None or SPARK_TYPES.fullmatch(found[1]) is None:
            raise OptionError(
                f"--schema: {column.strip()!r} is not a column and its type", 'Write "id long, price double"'
            )


def _check_index(path: Path) -> None:
    """Raise now, and not after Spark has started, if there is no index that can be opened."""
    from tocsin.matcher import Matcher

    Matcher.open(path, mode="read").close()


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, instead of ending the command at once; a second Ctrl-C does that."""
    asked = threading.Event()

    def ask(number: int, frame: object) -> None:  # noqa: ARG001 (as signal calls it)
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def figures(done: "Progress") -> list[tuple[str, str]]:
    """What a stream has done, for the terminal."""
    return [
        ("batch", f"{done.batch:,}" if done.batch >= 0 else "-"),
        ("snapshot", f"{done.snapshot:,}"),
        ("events", f"{done.events:,}"),
        ("malformed lines", f"{done.malformed:,}"),
        *done.evidence.unused_values(),
        ("matches", f"{done.matches:,}"),
        ("events/s", f"{done.rate:,.0f}"),
        ("lag", f"{done.lag:.1f} s"),
    ]
