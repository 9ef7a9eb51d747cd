"""What the commands share on the terminal: results on standard output, all the rest on standard error."""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import ParamSpec

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tocsin.errors import SubscriptionError

P = ParamSpec("P")


def output() -> Console:
    """The console for results."""
    return Console()


def errors() -> Console:
    """The console for progress, reports and errors."""
    return Console(stderr=True)


def tell_of_compilation() -> None:
    """Show on the terminal that kernels are compiled, and where their code cannot be kept."""

    class Terminal(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            errors().print(record.getMessage(), highlight=False, markup=False, soft_wrap=True)

    log = logging.getLogger("tocsin._kernel_cache")
    if not log.handlers:
        log.addHandler(Terminal())
        log.setLevel(logging.INFO)


def interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """Let a command end with exit code 130 on Ctrl-C, as shells expect."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            errors().print("interrupted")
            raise typer.Exit(130) from None

    return run


def rejected_table(rejected: Sequence[SubscriptionError]) -> Table:
    """All rejected subscriptions: which, where in its text, why, and the way out."""
    table = Table(title=f"{len(rejected):,} rejected subscriptions", show_lines=True)
    table.add_column("subscription", overflow="fold")
    table.add_column("position", justify="right")
    table.add_column("reason", overflow="fold", ratio=2)
    table.add_column("way out", overflow="fold", ratio=2)
    for error in rejected:
        position = "" if error.position is None else str(error.position)
        # Text, not str: what a user wrote may look like markup.
        table.add_row(Text(error.subscription or "?"), position, Text(error.message), Text(error.hint))
    return table


def bad_lines_table(count: int, lines: Sequence[tuple[int | None, str]], file: str) -> Table:
    """The lines of a file that are no events."""
    more = f", the first {len(lines)}" if count > len(lines) else ""
    table = Table(title=f"{count:,} malformed lines in {file}{more}")
    table.add_column("line", justify="right")
    table.add_column("text", overflow="ellipsis", no_wrap=True)
    for number, line in lines:
        table.add_row("?" if number is None else f"{number:,}", Text(line))
    return table


def facts(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Names and figures, one a line."""
    table = Table(title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, figure in rows:
        table.add_row(name, figure)
    return table
