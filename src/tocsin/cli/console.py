"""What the commands share on the terminal: results on standard output, all the rest on standard error."""

import functools
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import ParamSpec, TextIO

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tocsin.errors import SubscriptionError
from tocsin.model.subscription import SubscriptionWarning

P = ParamSpec("P")


WIDTH_OF_FILES = 500
"""Columns of a line where there is no terminal: nothing is cut that a person or `grep` looks for."""


def output() -> Console:
    """The console for results."""
    return Console(width=_width(sys.stdout))


def errors() -> Console:
    """The console for progress, reports and errors."""
    return Console(stderr=True, width=_width(sys.stderr))


def _width(stream: TextIO) -> int | None:
    return None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_OF_FILES


def counted(count: int, noun: str) -> str:
    """A number with its noun, as in `1 event` and `2 events`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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


def rejected_table(rejected: Sequence[SubscriptionError]) -> Group:
    """All rejected subscriptions: which, where in its text, why, and the way out."""
    return _complaints(rejected, "rejected subscription")


def warnings_table(warnings: Sequence[SubscriptionWarning]) -> Group:
    """What is probably not meant: in which subscription, where in its text, and the way out."""
    return _complaints(warnings, "warning")


def _complaints(found: Sequence[SubscriptionError | SubscriptionWarning], title: str) -> Group:
    table = Table(show_lines=True)
    table.add_column("subscription", overflow="fold")
    table.add_column("position", justify="right")
    table.add_column("reason", overflow="fold", ratio=2)
    table.add_column("way out", overflow="fold", ratio=2)
    for error in found:
        position = "" if error.position is None else str(error.position)
        # Text, not str: what a user wrote may look like markup.
        table.add_row(Text(error.subscription or "?"), position, Text(error.message), Text(error.hint))
    return titled(counted(len(found), title), table)


def bad_lines_table(count: int, lines: Sequence[tuple[int | None, str]], file: str) -> Group:
    """The lines of a file that are no events."""
    more = f", the first {len(lines)}" if count > len(lines) else ""
    table = Table()
    table.add_column("line", justify="right")
    table.add_column("text", overflow="ellipsis", no_wrap=True)
    for number, line in lines:
        table.add_row("?" if number is None else f"{number:,}", Text(line))
    return titled(f"{counted(count, 'malformed line')} in {file}{more}", table)


def facts(title: str, rows: Sequence[tuple[str, str]]) -> Group:
    """Names and figures, one a line."""
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, figure in rows:
        table.add_row(name, figure)
    return titled(title, table)


def titled(title: str, table: Table) -> Group:
    """A table below its title. A title of the table's own would be broken to the width of the table."""
    return Group(Text(title, style="bold"), table)
