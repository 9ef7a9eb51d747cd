"""`tocsin stream`: match the files that are put into a folder, as they come."""

import contextlib
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.console import AsJson, Quiet, errors, facts, print_json, rate
from tocsin.cli.inputs import check_index, demand_other_columns
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
    as_json: AsJson = False,
    quiet: Quiet = False,
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
    _check_columns(events, schema, {"--id": [id], "--keep": keep or [], "--order": [order]})
    demand_other_columns(id, keep or [])
    matched = ["event", "subscription", "score", *(keep or [])]
    for name in filter(None, map(str.strip, (dedupe or "").split(","))):
        if name not in matched:
            way = f"{name} is called event there" if name == id else f"--keep {name} adds it"
            raise OptionError(
                f"the matches have no column {name!r} to find repetitions by", f"They have {', '.join(matched)}; {way}"
            )
    _check_index(index)
    from tocsin.spark.session import local_session
    from tocsin.spark.stream_job import Delivery, Progress, follow, has_files, stream_files, wait_for_a_file

    console = errors()
    done = Progress()

    def show(progress: Progress) -> None:
        nonlocal done
        done = progress
        status.update(", ".join(f"{name} {figure}" for name, figure in figures(progress)))

    def tell_that_no_file_came() -> None:
        if as_json:
            print_json(done.as_dict())
        elif not quiet:
            console.print(f"no file came to {events}: nothing was matched", soft_wrap=True)

    if until_now and not has_files(events):
        tell_that_no_file_came()
        return
    with contextlib.ExitStack() as stack:
        status = console.status("starting Spark")
        if not quiet:
            stack.enter_context(status)
        session = stack.enter_context(local_session(master, verbose=verbose))
        asked_to_stop = stack.enter_context(interrupts())
        status.update(f"waiting for files in {events}")
        if not wait_for_a_file(events, asked_to_stop):
            tell_that_no_file_came()
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
    if as_json:
        print_json(done.as_dict())
    elif not quiet:
        console.print(facts(str(output), figures(done)))


def _check_columns(events: Path, schema: str | None, wanted: Mapping[str, Sequence[str | None]]) -> None:
    """Raise OptionError if neither the schema nor a file that is there has a column that an option asks for."""
    from tocsin.files.event_files import check_columns, demand_columns
    from tocsin.files.formats import data_files

    if schema is not None:
        demand_columns(wanted, set(columns_of(schema)))
    elif data_files(events, "events"):
        check_columns(events, wanted)


def columns_of(schema: str) -> list[str]:
    """The columns of --schema. Raises OptionError if one has no type of Spark's: only Spark can tell the rest.

    >>> columns_of("id long, price decimal(10, 2), `a b` array<string>")
    ['id', 'price', 'a b']
    >>> columns_of("id wrong")
    Traceback (most recent call last):
        ...
    tocsin.errors.OptionError: --schema: 'id wrong' is not a column and its type. Write "id long, price double"
    """
    # Commas inside brackets belong to a type.
    names = []
    for column in re.split(r",(?![^<(]*[>)])", schema):
        found = re.fullmatch(r"\s*(`[^`]+`|\w+)[\s:]+(\w+).*", column, re.DOTALL)
        if found is None or SPARK_TYPES.fullmatch(found[2]) is None:
            raise OptionError(
                f"--schema: {column.strip()!r} is not a column and its type", 'Write "id long, price double"'
            )
        names.append(found[1].strip("`"))
    return names


def _check_index(path: Path) -> None:
    """Raise now, and not after Spark has started, if there is no index that can be opened."""
    check_index(path)
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
        ("events/s", rate(done.rate)),
        ("lag", f"{done.lag:.1f} s"),
    ]
