"""`tocsin demo`: a made-up market day through the main job, with a look at what it found."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.console import facts, output
from tocsin.cli.inputs import load
from tocsin.cli.match import Format, run_on_spark, summary

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.matcher import Matcher


def demo(
    folder: Annotated[Path, typer.Option(help="Where the data and the matches go.")] = Path("demo"),
    events: Annotated[int, typer.Option(min=1, help="How many events to make.")] = 20_000,
    subscriptions: Annotated[int, typer.Option(min=1, help="How many subscriptions to make.")] = 50_000,
    seed: Annotated[int, typer.Option(help="The same seed makes the same data.")] = 1,
    master: Annotated[str, typer.Option(help="The Spark master.")] = "local[*]",
) -> None:
    """Make stock quotes, news and alerts; match them on Spark; show what rang and why."""
    from pyarrow import parquet

    from tocsin.bench.stocks import write
    from tocsin.files.job import MatchJob
    from tocsin.storage.atomic_files import whole_folder

    console = output()
    event_file, subscription_file = write(folder, events, subscriptions, seed)
    console.print(f"{events:,} events in {event_file}, {subscriptions:,} subscriptions in {subscription_file}")
    matcher = load(subscription_file)
    target = folder / "matches"
    with whole_folder(target, overwrite=True) as new:
        outcome = run_on_spark(matcher, event_file, new, MatchJob("id"), master=master, format=Format.PARQUET)
    matches = parquet.read_table(target)
    console.print(busiest(matches))
    explain_some(matches, event_file, matcher)
    console.print(facts(f"matches in {target}", summary(matcher, outcome)))


def busiest(matches: "pa.Table", count: int = 10) -> "object":
    """The subscriptions that rang most often."""
    counted = matches.group_by("subscription").aggregate([("event", "count")])
    top = counted.sort_by([("event_count", "descending"), ("subscription", "ascending")]).slice(0, count)
    return facts("busiest subscriptions", [(row["subscription"], f"{row['event_count']:,}") for row in top.to_pylist()])


def explain_some(matches: "pa.Table", event_file: Path, matcher: "Matcher", count: int = 3) -> None:
    """Explain some matches, spread over the output."""
    from tocsin.files.event_files import conversions_of_json, converted

    conversions = conversions_of_json(matcher.kinds)
    step = max(1, matches.num_rows // count)
    chosen = [matches.slice(start, 1).to_pylist()[0] for start in range(0, matches.num_rows, step)][:count]
    wanted = {row["event"] for row in chosen}
    with event_file.open(encoding="utf-8") as file:
        found = {event["id"]: event for event in map(json.loads, file) if event["id"] in wanted}
    for row in chosen:
        event = found[row["event"]]
        output().rule(f"{row['subscription']} rang for {row['event']}", align="left")
        output().print(json.dumps(event), highlight=False, markup=False, soft_wrap=True)
        explanation = matcher.explain(converted(event, conversions), row["subscription"])
        output().print(str(explanation), highlight=False, markup=False, soft_wrap=True)
