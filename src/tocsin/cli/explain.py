"""`tocsin explain`: why a subscription matches an event, or does not."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.console import AsJson, leave_pandas_out, output, print_json
from tocsin.cli.inputs import (
    STANDARD,
    Index,
    Now,
    Subscriptions,
    Where,
    WhereFile,
    demand_one_standard_input,
    matcher_of,
    parse_now,
    read_text,
    source_of,
)
from tocsin.cli.matcher_options import MatcherOptions
from tocsin.errors import EventError, OptionError


def explain(
    subscription: Annotated[str | None, typer.Argument(help="The id of the subscription; not with --where.")] = None,
    event: Annotated[str, typer.Option(help="The event as a JSON object; - is standard input.")] = "{}",
    subscriptions: Subscriptions = None,
    index: Index = None,
    where: Where = None,
    where_file: WhereFile = None,
    details: Annotated[
        bool, typer.Option("--details", help="Show every predicate, also of a condition with very many.")
    ] = False,
    now: Now = None,
    as_json: AsJson = False,
    *,
    options: MatcherOptions,
) -> None:
    """Show which predicates of a subscription hold for an event and which fail.

    Subscriptions that look back see the history of an index, and an empty one otherwise.
    """
    demand_one_standard_input(subscriptions, where_file, Path(event))
    at, given = parse_now(now), read_event(event)
    if subscription is None and not (where or where_file):
        raise OptionError("no subscription is named", "Name one: tocsin explain ID …, or give --where")
    source = source_of(subscriptions, index, where, where_file, options)
    leave_pandas_out()
    from tocsin.files.event_files import conversions_of_json, converted

    with matcher_of(source, wanted=subscription) as matcher:
        # A subscription that was rejected is explained by its error.
        for error in matcher.rejected:
            if error.subscription == subscription:
                raise error
        read = converted(given, conversions_of_json(matcher.kinds))
        for id in [subscription] if subscription is not None else list(matcher):
            explanation = matcher.explain(read, id, now=at, given=given)
            on_empty_history = index is None and id in matcher.looking_back()
            if as_json:
                print_json(explanation.as_dict() | {"history_is_empty": on_empty_history})
                continue
            text = explanation.details() if details else str(explanation)
            output().print(text, highlight=False, markup=False, soft_wrap=True)
            if on_empty_history:
                said = "    the history is empty: so it is for a first event, and may be otherwise for a later one"
                output().print(said, soft_wrap=True)


def read_event(text: str) -> dict[str, object]:
    """An event from JSON; - is standard input."""
    from tocsin.files.formats import NO_TEXT, is_text

    way_out = """Write it as '{"author": "Smith"}'"""
    if text == str(STANDARD):
        text = read_text(STANDARD, way_out)
    try:
        event = json.loads(text)
    except ValueError as error:
        raise EventError(f"the event is not JSON: {error}", way_out) from error
    if not is_text(json.dumps(event, ensure_ascii=False)):
        raise EventError(f"the event is {NO_TEXT}", "Write it as UTF-8")
    if not isinstance(event, dict):
        raise EventError("the event is not a JSON object", way_out)
    return event
