"""`tocsin top-k`: the best subscriptions of each event, on this machine."""

from typing import Annotated

import typer

from tocsin.cli.inputs import Events, Index, IntervalRule, Mode, Now, Subscriptions
from tocsin.cli.match import STANDARD, Format, match
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
        typer.Option(help="How relaxed weights become a score: sum, max, or coefficients such as price=3,age=0.5."),
    ] = "sum",
    interval: Annotated[
        IntervalRule,
        typer.Option(help="Which ranges an interval of an event satisfies: those it overlaps, or lies within."),
    ] = IntervalRule.OVERLAPS,
    id: Annotated[str | None, typer.Option(help="The column that names an event; id if not given.")] = None,
    order: Annotated[
        str | None, typer.Option(help="The column that orders events, for subscriptions that look back.")
    ] = None,
    now: Now = None,
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
        order=order,
        now=now,
        options=options,
    )
