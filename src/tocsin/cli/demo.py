"""`tocsin demo`: a made-up market day, on Spark and in this process, stage by stage, with a look at what was found."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tocsin.cli.console import facts, output
from tocsin.cli.inputs import load
from tocsin.cli.progress import Stage, stage

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.matcher import Matcher


def demo(
    folder: Annotated[Path, typer.Option(help="Where the data and the matches go.")] = Path("demo"),
    events: Annotated[int, typer.Option(min=1, help="How many events to make.")] = 200_000,
    subscriptions: Annotated[int, typer.Option(min=1, help="How many subscriptions to make.")] = 50_000,
    seed: Annotated[int, typer.Option(help="The same seed makes the same data.")] = 1,
    master: Annotated[str, typer.Option(help="The Spark master.")] = "local[*]",
) -> None:
    """Make stock quotes, news and alerts; match them on Spark and in this process; show what rang and why."""
    from pyarrow import parquet

    from tocsin.bench.stocks import write
    from tocsin.compile_ahead import compile_for
    from tocsin.spark.match import match
    from tocsin.spark.read_files import read_events
    from tocsin.spark.session import local_session
    from tocsin.storage.atomic_files import whole_folder

    console = output()
    clock = Clock()
    with clock.stage("make the data"):
        event_file, subscription_file = write(folder, events, subscriptions, seed)
    console.print(f"{events:,} events, {subscriptions:,} subscriptions in {folder}/", soft_wrap=True)
    with clock.stage("build the index"):
        matcher = load(subscription_file)
    with clock.stage("compile, or load what is compiled"):
        compile_for(matcher)
    with contextlib.ExitStack() as stack:
        with clock.stage("start Spark"):
            session = stack.enter_context(local_session(master))
        index, read = folder / "index", folder / "events.parquet"
        for old in (index, read):
            shutil.rmtree(old, ignore_errors=True)
        matcher.save(index)
        with clock.stage("read the events, on Spark"):
            kinds = {name: matcher.kinds.get(name, set()) for name in matcher.attributes}
            read_events(session, event_file, kinds, "id").events.write.parquet(str(read))
        with clock.stage("start the workers, on Spark"):
            # Some events of every file, so that all workers start and load the index.
            some = session.read.parquet(str(read)).sample(fraction=0.001, seed=seed)
            match(some, index, id="id").write.format("noop").mode("overwrite").save()
        with clock.stage("match, on Spark") as on_spark:
            match(read, index, id="id").write.format("noop").mode("overwrite").save()
        target = folder / "matches"
        with clock.stage("match and write, on Spark"), whole_folder(target, overwrite=True) as new:
            match(read, index, id="id").write.parquet(str(new))
    table = parquet.read_table(read)
    with clock.stage("match, in this process") as in_process:
        found = matcher.match_batch(table, id="id", ordered=False)
    matches = parquet.read_table(target)
    console.print(busiest(matches))
    explain_some(matches, event_file, matcher)
    console.print(facts("stages, in seconds", [(name, f"{seconds:.1f}") for name, seconds in clock.stages]))
    figures = [
        ("events", f"{events:,}"),
        ("subscriptions", f"{len(matcher):,}"),
        ("rejected subscriptions", f"{len(matcher.rejected):,}"),
        ("matches on Spark", f"{matches.num_rows:,}"),
        ("matches in this process", f"{found.num_rows:,}"),
        ("events/s of the match stage on Spark", f"{events / on_spark.seconds:,.0f}"),
        ("events/s in this process", f"{events / in_process.seconds:,.0f}"),
    ]
    console.print(facts(f"matches in {target}", figures))
    if matches.num_rows != found.num_rows:
        raise typer.Exit(1)


class Clock:
    """The stages of the demo, with their wall-clock times."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, float]] = []

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Show and time one stage."""
        with stage(name, told=False) as running:  # a table at the end tells of all
            yield running
        self.stages.append((name, running.seconds))


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
        output().print(Text(f"{row['subscription']} rang for {row['event']}", style="bold"))
        output().print(json.dumps(event), highlight=False, markup=False)
        explanation = matcher.explain(converted(event, conversions), row["subscription"])
        output().print(str(explanation), highlight=False, markup=False)
