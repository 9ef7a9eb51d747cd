"""`tocsin check`: every error of a file of subscriptions, in one table."""

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.console import output, rejected_table
from tocsin.cli.inputs import load

MOST_NAMED = 10


def check(file: Annotated[Path, typer.Argument(help="Subscriptions as .jsonl, .csv or .parquet.")]) -> None:
    """Check a file of subscriptions and report all that would be rejected, and those that would be of no use."""
    matcher = load(file)
    stands = matcher.stats()
    _tell(stands.never_count, "can never match", stands.never)
    _tell(stands.unindexed_count, "are verified for every event", stands.unindexed)
    if matcher.rejected:
        output().print(rejected_table(matcher.rejected))
        raise typer.Exit(1)
    output().print(f"{len(matcher):,} subscriptions, all well")


def _tell(count: int, what: str, named: dict[str, str]) -> None:
    if count:
        reason = next(iter(named.values()))
        output().print(f"{count:,} subscriptions {what} ({reason}): {', '.join(list(named)[:MOST_NAMED])}")
