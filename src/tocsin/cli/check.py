"""`tocsin check`: every error of a file of subscriptions, in one table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.console import AsJson, complaints, leave_pandas_out, output, print_json, print_rejected, print_warnings
from tocsin.cli.inputs import load, read_text
from tocsin.cli.matcher_options import MatcherOptions
from tocsin.cli.progress import stage
from tocsin.errors import OptionError

if TYPE_CHECKING:
    from tocsin.model.schema import EventSchema
    from tocsin.model.subscription import SubscriptionWarning

MOST_NAMED = 10


def check(
    file: Annotated[Path, typer.Argument(help="Subscriptions as .jsonl, .csv or .parquet.")],
    events: Annotated[Path | None, typer.Option(help="Events to compare names and kinds of attributes with.")] = None,
    schema: Annotated[Path | None, typer.Option(help="The same as JSON: names with their kinds.")] = None,
    as_json: AsJson = False,
    *,
    options: MatcherOptions,
) -> None:
    """Check a file of subscriptions and report all that would be rejected, and what is probably not meant."""
    from tocsin.files.event_files import read_events
    from tocsin.files.formats import data_files
    from tocsin.model.schema import EventSchema

    data_files(file, "subscriptions")
    if events is not None:
        data_files(events, "events")
    known = None if schema is None else _schema(schema)
    leave_pandas_out()
    matcher = load(file, options)
    if events is not None and schema is None:
        with stage("reading events", "events") as progress:
            known = EventSchema.of(read_events(events, matcher, progress=progress))
    warnings: list[SubscriptionWarning] = []
    if known is not None:
        with stage("comparing with the events", "subscriptions", len(matcher)) as progress:
            warnings = matcher.check(known)
            progress(len(matcher))
    stands = matcher.stats()
    if as_json:
        report = {"subscriptions": len(matcher), "never": stands.never, "unindexed": stands.unindexed}
        print_json(report | complaints(warnings, "warnings") | complaints(matcher.rejected))
    else:
        if warnings:
            print_warnings(output(), warnings)
        _tell(stands.never_count, "can never match", stands.never)
        _tell(stands.unindexed_count, "are verified for every event", stands.unindexed)
        if matcher.rejected:
            print_rejected(output(), matcher.rejected)
        else:
            output().print(f"{len(matcher):,} subscriptions, all well")
    if matcher.rejected:
        raise typer.Exit(1)


def _schema(schema: Path) -> "EventSchema":
    from tocsin.model.schema import EventSchema

    way_out = 'Give a JSON object such as {"price": "number"}'
    text = read_text(schema, way_out)
    try:
        named = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{schema} is not JSON: {error}", way_out) from error
    if not isinstance(named, dict):
        raise OptionError(f"{schema} is not a JSON object", way_out)
    return EventSchema.of(named)


def _tell(count: int, what: str, named: dict[str, str]) -> None:
    if count:
        reason = next(iter(named.values()))
        output().print(f"{count:,} subscriptions {what} ({reason}): {', '.join(list(named)[:MOST_NAMED])}")
