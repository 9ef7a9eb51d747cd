"""`tocsin explain`: why a subscription matches an event, or does not."""

import datetime as dt
import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Annotated, cast

import typer

from tocsin.cli.console import output
from tocsin.cli.match import load
from tocsin.errors import EventError
from tocsin.model.values import Kind


def explain(
    subscription: Annotated[str, typer.Argument(help="The id of the subscription.")],
    subscriptions: Annotated[Path, typer.Option(help="Subscriptions as .jsonl, .csv or .parquet.")],
    event: Annotated[str, typer.Option(help="The event as a JSON object.")],
) -> None:
    """Show which predicates of a subscription hold for an event and which fail; the history is empty."""
    matcher = load(subscriptions)
    # A subscription that was rejected is explained by its error.
    for error in matcher.rejected:
        if error.subscription == subscription:
            raise error
    explanation = matcher.explain(with_times(read_event(event), matcher.kinds), subscription)
    output().print(str(explanation), highlight=False, markup=False, soft_wrap=True)
    if subscription in matcher.looking_back():
        output().print("    the history is empty: so it is for a first event, and may be otherwise for a later one")


def read_event(text: str) -> dict[str, object]:
    """An event from JSON."""
    from tocsin.cli.files import NO_TEXT, is_text

    try:
        event = json.loads(text)
    except ValueError as error:
        raise EventError(f"the event is not JSON: {error}", """Write it as '{"author": "Smith"}'""") from error
    if not is_text(json.dumps(event, ensure_ascii=False)):
        raise EventError(f"the event is {NO_TEXT}", "Write it as UTF-8")
    if not isinstance(event, dict):
        raise EventError("the event is not a JSON object", """Write it as '{"author": "Smith"}'""")
    return event


def with_times(event: Mapping[str, object], kinds: Mapping[str, Set[Kind]], prefix: str = "") -> dict[str, object]:
    """The event with dates in place of the texts that are only compared with dates: JSON has none."""
    converted = dict(event)
    for name, value in event.items():
        attribute = prefix + name
        if isinstance(value, dict):
            converted[name] = with_times(cast(dict[str, object], value), kinds, f"{attribute}.")
        elif isinstance(value, str) and kinds.get(attribute, set()) - {Kind.ANY} == {Kind.TIME}:
            try:
                converted[name] = dt.datetime.fromisoformat(value)
            except ValueError:
                converted[name] = None
    return converted
