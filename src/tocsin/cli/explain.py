"""`tocsin explain`: why a subscription matches an event, or does not."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.console import output
from tocsin.cli.match import load
from tocsin.errors import EventError
from tocsin.model.json_events import with_times


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
