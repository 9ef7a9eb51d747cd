"""`tocsin index …`: build, look into, change, check and export an index folder."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from tocsin.cli.console import (
    AsJson,
    Quiet,
    errors,
    facts,
    interruptible,
    leave_pandas_out,
    output,
    print_json,
    print_rejected,
    report,
    titled,
)
from tocsin.cli.inputs import check_index
from tocsin.cli.matcher_options import MatcherOptions, with_matcher_options
from tocsin.cli.progress import stage
from tocsin.errors import OptionError, StorageError, UnknownSubscriptionError

if TYPE_CHECKING:
    from tocsin.index.stats import Statistics
    from tocsin.matcher import Matcher

app = typer.Typer(no_args_is_help=True, help="Keep subscriptions in an index folder, which opens at once.")

Index = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the index.")]
Source = Annotated[Path, typer.Argument(metavar="FILE", help="Subscriptions as .jsonl, .csv or .parquet.")]


def build(
    file: Source,
    output: Annotated[Path, typer.Option(help="The folder of the index; it must not exist yet.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an index that exists.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    *,
    options: MatcherOptions,
) -> None:
    """Build an index from a file of subscriptions; the folder appears when the index is whole."""
    from tocsin.cli.inputs import load
    from tocsin.storage.atomic_files import whole_folder

    with contextlib.ExitStack() as stack:
        if overwrite and output.exists():
            stack.enter_context(replaceable(output))
        folder = stack.enter_context(whole_folder(output, overwrite))
        leave_pandas_out()
        matcher = load(file, options, quiet=quiet)
        with stage("writing the index", quiet=quiet):
            matcher.save(folder)
        matcher.close()
    _report(output, matcher, as_json, quiet)


def info(index: Index, as_json: AsJson = False) -> None:
    """Show what an index holds: counts, segments, bytes, and the subscriptions that are expensive or useless."""
    with opened(index, "read") as matcher, stage("reading the index"):
        stats = matcher.stats()
    if as_json:
        print_json(dataclasses.asdict(stats))
        return
    for table in statistics_tables(index, stats):
        output().print(table)


def plan(
    index: Index,
    details: Annotated[bool, typer.Option("--details", help="Show every step, however many are alike.")] = False,
    as_json: AsJson = False,
    events: Annotated[
        Path | None, typer.Option("--events", help="Match these first, and name the most expensive subscriptions.")
    ] = None,
) -> None:
    """Show how the subscriptions of an index are matched, step by step, and why."""
    from tocsin.files.event_files import read_events

    with opened(index, "read") as matcher, stage("reading the index"):
        if events is not None:
            matcher.match_batch(read_events(events, matcher))
        found = matcher.plan()
    if as_json:
        print_json([dataclasses.asdict(step) for step in found.steps])
    else:
        output().print(found.details() if details else str(found), highlight=False, markup=False, soft_wrap=True)


def add(index: Index, file: Source, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Add the subscriptions of a file; one with an id that stands already replaces it."""
    from tocsin.cli.inputs import add_file

    with opened(index) as matcher:
        add_file(matcher, file, quiet=quiet)
        with stage("writing the index", quiet=quiet):
            matcher.commit()
    _report(index, matcher, as_json, quiet)


def remove(
    index: Index,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of subscriptions.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Remove subscriptions by their ids; unknown ids are reported."""
    unknown = []
    with opened(index) as matcher:
        before = len(matcher)
        for id_ in dict.fromkeys(ids):
            try:
                matcher.unsubscribe(id_)
            except UnknownSubscriptionError:
                unknown.append(id_)
        matcher.commit()
    removed = before - len(matcher)
    if as_json:
        print_json({"removed": removed, "subscriptions": len(matcher), "unknown": unknown})
    else:
        report(str(index), {"removed": removed, "subscriptions": len(matcher)}, quiet=quiet)
    if unknown:
        if not as_json:
            errors().print(Text(f"there is no subscription {', '.join(map(repr, unknown))}"))
        raise typer.Exit(1)


def compact(index: Index, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Merge all segments into one, or one for each shard, without the subscriptions that were removed."""
    with opened(index) as matcher:
        before = len(matcher.stats().segments)
        with stage(
            "merging", "subscriptions", len(matcher), quiet=quiet, detail=lambda: f"{before:,} segments"
        ) as progress:
            matcher.compact()
            progress(len(matcher))
        with stage("writing the index", quiet=quiet):
            matcher.commit()
        after = len(matcher.stats().segments)
    report(str(index), {"segments before": before, "segments now": after}, as_json=as_json, quiet=quiet)


def reshard(
    index: Index,
    shards: Annotated[int, typer.Option(help="The shards to divide the index into.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Divide an index into shards for Spark, without building it anew; streams over it go on."""
    from tocsin.index.reshard import shards_of

    with opened(index) as matcher:
        before = len(matcher.stats().segments)
        with stage("cutting segments", "subscriptions", len(matcher), quiet=quiet) as progress:
            matcher.reshard(shards)
            progress(len(matcher))
        with stage("writing the index", quiet=quiet):
            matcher.commit()
        sizes = matcher.stats().segments
    totals = [sum(sizes[number] for number in group) for group in shards_of(sizes, shards)]
    figures = {"shards": len(totals), "smallest shard": min(totals), "largest shard": max(totals)}
    figures |= {"segments before": before, "segments now": len(sizes)}
    report(str(index), figures, as_json=as_json, quiet=quiet)


def verify(index: Index, as_json: AsJson = False) -> None:
    """Read every file of an index and its history and compare checksums; damage is named, with exit code 2."""
    from tocsin.index import commit as store
    from tocsin.index.history import History
    from tocsin.index.options import Options
    from tocsin.storage.folder import Folder

    folder = Folder(index)
    with stage("comparing checksums"):
        sizes = {name: (index / name).stat().st_size for name in store.verify(folder)}
    history, events = folder.history(folder.committed()), None
    if history.exists():
        with stage("comparing checksums of the history"):
            # As a reader: a check changes nothing, and the writer may be at work.
            stored = History.of_reader(lambda: history, Options())
            stored.check_files()
        events = len(stored)
    if as_json:
        print_json({"files": sizes, "history_events": events})
        return
    table = Table("file", "bytes")
    table.columns[1].justify = "right"
    for name, size in sizes.items():
        table.add_row(name, f"{size:,}")
    if events is not None:
        table.add_row(f"history, {events:,} events", "")
    output().print(titled(f"{index}: all is well", table))


def upgrade(
    index: Index,
    drop_rejected: Annotated[
        bool, typer.Option("--drop-rejected", help="Leave out subscriptions that this Tocsin cannot read.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Bring an index that an older Tocsin wrote up to date, in place, with its history."""
    from tocsin.index.upgrade import upgrade as upgrade_folder
    from tocsin.storage.container import VERSION

    with stage("upgrading", quiet=quiet):
        done = upgrade_folder(index, drop_rejected=drop_rejected)
    if done.rejected and not done.is_committed:
        print_rejected(errors(), done.rejected)
        raise StorageError(
            f"{index} stays at version {done.version}: {len(done.rejected):,} subscriptions cannot be read",
            "Change them with the Tocsin that wrote them, or leave them out with --drop-rejected",
        )
    figures = {"version before": done.version, "version now": VERSION, "subscriptions": done.subscriptions}
    report(str(index), figures, done.rejected, as_json=as_json, quiet=quiet)


def export(
    index: Index,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write: .jsonl, .csv or .parquet.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the subscriptions of an index as the texts they were, with their scores of now, sorted by id."""
    from tocsin.files.formats import format_of
    from tocsin.files.subscription_files import write_subscriptions
    from tocsin.storage.atomic_files import whole_file

    format_of(file)
    with whole_file(file, overwrite) as target:
        with (
            opened(index, "read") as matcher,
            stage("reading the index", "subscriptions", quiet=quiet) as progress,
        ):
            subscriptions = sorted(matcher.subscriptions(), key=lambda subscription: subscription.id)
            progress(len(subscriptions))
        with stage("writing the file", "subscriptions", quiet=quiet) as progress:
            write_subscriptions(subscriptions, target, file)
            progress(len(subscriptions))
    report(str(file), {"subscriptions": len(subscriptions)}, as_json=as_json, quiet=quiet)


for _command in (with_matcher_options(build), info, plan, add, remove, compact, reshard, verify, upgrade, export):
    app.command()(interruptible(_command))


@contextlib.contextmanager
def opened(index: Path, mode: Literal["read", "write"] = "write") -> Iterator["Matcher"]:
    """The matcher of an index folder."""
    check_index(index)
    from tocsin.matcher import Matcher

    # A merge in the background would be thrown away at the end of the command.
    matcher = Matcher.open(index, mode=mode, background_merge=False)
    try:
        yield matcher
    finally:
        matcher.close()


@contextlib.contextmanager
def replaceable(output: Path) -> Iterator[None]:
    """Hold the lock of an index that is to be replaced. Raises if it is none, or another process writes it."""
    from tocsin.storage.folder import Folder

    folder = Folder(output)
    if folder.newest() is None:
        raise OptionError(f"{output} exists and is not an index", "Choose another folder")
    folder.lock()
    try:
        yield
    finally:
        folder.unlock()


def _report(index: Path, matcher: "Matcher", as_json: bool, quiet: bool) -> None:
    figures = {"subscriptions": len(matcher), "rejected subscriptions": len(matcher.rejected)}
    report(str(index), figures, matcher.rejected, as_json=as_json, quiet=quiet)


def statistics_tables(index: Path, stats: "Statistics") -> Iterator[Group]:
    """The state of an index for the terminal."""
    yield facts(
        str(index),
        [
            ("subscriptions", f"{stats.subscriptions:,}"),
            ("conjunctions", f"{stats.conjunctions:,}"),
            ("segments", f"{len(stats.segments):,}"),
            ("largest segment", f"{max(stats.segments, default=0):,}"),
            ("removed, not yet merged away", f"{stats.dropped:,}"),
            ("snapshot", f"{stats.snapshot:,}"),
            ("bytes", f"{sum(stats.bytes.values()):,}"),
        ],
    )
    if stats.bytes:
        largest = sorted(stats.bytes.items(), key=lambda item: -item[1])
        yield facts("bytes", [(name, f"{size:,}") for name, size in largest])
    if stats.tests:
        yield facts("distinct tests", [(name, f"{count:,}") for name, count in sorted(stats.tests.items())])
    yield from _named("can never match", stats.never, stats.never_count)
    yield from _named("verified for every event", stats.unindexed, stats.unindexed_count)


def _named(title: str, reasons: dict[str, str], count: int) -> Iterator[Group]:
    if count:
        more = f", the first {len(reasons):,}" if count > len(reasons) else ""
        table = Table("subscription", "reason")
        for id_, reason in reasons.items():
            table.add_row(Text(id_), reason)
        yield titled(f"{count:,} {title}{more}", table)
