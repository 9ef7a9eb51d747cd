"""`tocsin check`: every error of a file of subscriptions, in one table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.console import output, rejected_table, warnings_table
from tocsin.cli.inputs import load
from tocsin.cli.matcher_options import MatcherOptions
from tocsin.cli.progress import stage

if TYPE_CHECKING:
    from tocsin.model.schema import EventSchema

MOST_NAMED = 10


def check(
    file: Annotated[Path, typer.Argument(help="Subscriptions as .jsonl, .csv or .parquet.")],
    events: Annotated[Path | None, typer.Option(help="Events to compare names and kinds of attributes with.")] = None,
    schema: Annotated[Path | None, typer.Option(help="The same as JSON: names with their kinds.")] = None,
    *,
    options: MatcherOptions,
) -> None:
    """Check a file of subscriptions and report all that would be rejected, and what is probably not meant."""
    known = _schema(events, schema) if events is not None or schema is not None else None
    matcher = load(file, options)
    if known is not None:
        with stage("comparing with the events", "subscriptions", len(matcher)) as progress:
            warnings = matcher.check(known)
            progress(len(matcher))
        if warnings:
            output().print(warnings_table(warnings))
    stands = matcher.stats()
    _tell(stands.never_count, "can never match", stands.never)
    _tell(stands.unindexed_count, "are verified for every event", stands.unindexed)
    if matcher.rejected:
        output().print(rejected_table(matcher.rejected))
        raise typer.Exit(1)
    output().print(f"{len(matcher):,} subscriptions, all well")


def _schema(events: Path | None, schema: Path | None) -> "EventSchema":
    from tocsin.files.event_files import read_events
    from tocsin.model.schema import EventSchema

    if schema is None:
        with stage("reading events", "events") as progress:
            return EventSchema.of(read_events(str(events), progress=progress))
    try:
        named = json.loads(schema.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{schema} cannot be read: {error}") from None
    if not isinstance(named, dict):
        raise typer.BadParameter(f'{schema} is not a JSON object such as {{"price": "number"}}')
    return EventSchema.of(named)


def _tell(count: int, what: str, named: dict[str, str]) -> None:
    if count:
        reason = next(iter(named.values()))
        output().print(f"{count:,} subscriptions {what} ({reason}): {', '.join(list(named)[:MOST_NAMED])}")
