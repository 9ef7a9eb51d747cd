"""`tocsin check`: every error of a file of subscriptions, in one table."""

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.console import output, rejected_table
from tocsin.cli.match import load


def check(file: Annotated[Path, typer.Argument(help="Subscriptions as .jsonl, .csv or .parquet.")]) -> None:
    """Check a file of subscriptions and report all that would be rejected."""
    matcher = load(file)
    if matcher.rejected:
        output().print(rejected_table(matcher.rejected))
        raise typer.Exit(1)
    output().print(f"{len(matcher):,} subscriptions, all well")
