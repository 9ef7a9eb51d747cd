"""`tocsin top-k`: the best subscriptions of each event, on this machine."""

from typing import Annotated

import typer

from tocsin.cli.console import AsJson, Quiet
from tocsin.cli.inputs import STANDARD, Events, Index, IntervalRule, Mode, Now, Subscriptions
from tocsin.cli.match import Format, match
from tocsin.cli.matcher_options import MatcherOptions


def top_k(
    events: Events,
    subscriptions: Subscriptions = None,
    index: Index = None,
    k: Annotated[int, typer.Option("-k", min=0, help="How many subscriptions an event gets at most.")] = 20,
    mode: Annotated[
        Mode, typer.Option(help="exact: matches by score; relaxed: by the weights of what holds.")
    ] = Mode.EXACT,
    score_by: Annotated[
        str,
        typer.Option(help="What scores: sum, max, price=3,age=0.5, or an expression such as score * event.x."),
    ] = "sum",
    interval: Annotated[
        IntervalRule,
        typer.Option(help="Which ranges an interval of an event satisfies: those it overlaps, or lies within."),
    ] = IntervalRule.OVERLAPS,
    ranked_index: Annotated[str, typer.Option(help="The ranked index to use, such as ir-tree.")] = "auto",
    id: Annotated[str | None, typer.Option(help="The column that names an event; id if not given.")] = None,
    order: Annotated[
        str | None, typer.Option(help="The column that orders events, for subscriptions that look back.")
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    *,
    options: MatcherOptions,
) -> None:
    """Print the best subscriptions of each event as JSON Lines, best first: `tocsin match --top-k` has more options."""
    match(
        events,
        subscriptions,
        index,
        output=STANDARD,
        format=Format.JSONL,
        id=id,
        top_k=k,
        mode=mode,
        score_by=score_by,
        interval=interval,
        ranked_index=ranked_index,
        order=order,
        now=now,
        as_json=as_json,
        quiet=quiet,
        options=options,
    )
