"""`tocsin explain`: why a subscription matches an event, or does not."""

import json
from typing import Annotated

import typer

from tocsin.cli.console import output
from tocsin.cli.inputs import Index, Now, Subscriptions, Where, WhereFile, matcher_of, parse_now
from tocsin.cli.matcher_options import MatcherOptions
from tocsin.errors import EventError, OptionError


def explain(
    subscription: Annotated[str | None, typer.Argument(help="The id of the subscription; not with --where.")] = None,
    event: Annotated[str, typer.Option(help="The event as a JSON object.")] = "{}",
    subscriptions: Subscriptions = None,
    index: Index = None,
    where: Where = None,
    where_file: WhereFile = None,
    details: Annotated[
        bool, typer.Option("--details", help="Show every predicate, also of a condition with very many.")
    ] = False,
    now: Now = None,
    *,
    options: MatcherOptions,
) -> None:
    """Show which predicates of a subscription hold for an event and which fail.

    Subscriptions that look back see the history of an index, and an empty one otherwise.
    """
    from tocsin.files.event_files import conversions_of_json, converted, unread

    at = parse_now(now)
    with matcher_of(subscriptions, index, where, where_file, options) as matcher:
        # A subscription that was rejected is explained by its error.
        for error in matcher.rejected:
            if error.subscription == subscription:
                raise error
        ids = [subscription] if subscription is not None else list(matcher) if where or where_file else []
        if not ids:
            raise OptionError("no subscription is named", "Name one: tocsin explain ID …, or give --where")
        given = read_event(event)
        read = converted(given, conversions_of_json(matcher.kinds))
        for id in ids:
            explanation = matcher.explain(read, id, now=at)
            text = explanation.details() if details else str(explanation)
            output().print(text, highlight=False, markup=False, soft_wrap=True)
            for name, value in unread(given, read):
                said = f"    {name} is {value!r}, which is not of the kind it is compared with: it counts as NULL"
                output().print(said, highlight=False, markup=False, soft_wrap=True)
            if index is None and id in matcher.looking_back():
                output().print(
                    "    the history is empty: so it is for a first event, and may be otherwise for a later one"
                )


def read_event(text: str) -> dict[str, object]:
    """An event from JSON."""
    from tocsin.files.subscription_files import NO_TEXT, is_text

    try:
        event = json.loads(text)
    except ValueError as error:
        raise EventError(f"the event is not JSON: {error}", """Write it as '{"author": "Smith"}'""") from error
    if not is_text(json.dumps(event, ensure_ascii=False)):
        raise EventError(f"the event is {NO_TEXT}", "Write it as UTF-8")
    if not isinstance(event, dict):
        raise EventError("the event is not a JSON object", """Write it as '{"author": "Smith"}'""")
    return event
