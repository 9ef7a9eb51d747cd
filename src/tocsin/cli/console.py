"""What the commands share on the terminal: results on standard output, all the rest on standard error."""

import functools
import inspect
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ParamSpec, TextIO

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tocsin.errors import SubscriptionError
from tocsin.model.subscription import SubscriptionWarning

P = ParamSpec("P")

AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no report and no progress.")]

WIDTH_OF_FILES = 500
"""Columns of a line where there is no terminal: nothing is cut that a person or `grep` looks for."""

MOST_COMPLAINTS = 100
"""Rows of a table of what is wrong, on a terminal: a wrong file may have a million."""


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


def rate(per_second: float) -> str:
    """A rate for the terminal: with a decimal if it is small, as for the first few events.

    >>> rate(123456.7), rate(0.31)
    ('123,457', '0.3')
    """
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}"


def tell_of_compilation(*, is_wanted: bool) -> None:
    """Show on the terminal that kernels are compiled, and where their code cannot be kept; or only the latter."""

    class Terminal(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            errors().print(record.getMessage(), highlight=False, markup=False, soft_wrap=True)

    log = logging.getLogger("tocsin._kernel_cache")
    if not log.handlers:
        log.addHandler(Terminal())
    log.setLevel(logging.INFO if is_wanted else logging.WARNING)


def leave_out_py4j() -> None:
    """Print nothing of what py4j logs when Ctrl-C breaks into a call of Java; the command tells of errors itself."""
    logging.getLogger().addFilter(lambda record: f"{os.sep}py4j{os.sep}" not in record.pathname)


class Process:
    """What this process is, beside running a command: nothing if it was started by `tocsin`."""

    is_ours = False


class _NoPandas:
    """A finder of modules that finds no pandas."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Raise for pandas; let others look for what else is imported."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)


def leave_pandas_out() -> None:
    """Let pyarrow find no pandas in a process of ours: it loads it for any list, in 0.3 s, to see if it is a Series."""
    if Process.is_ours and "pandas" not in sys.modules:
        import pyarrow as pa

        finder = _NoPandas()
        sys.meta_path.insert(0, finder)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(finder)


def interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """Let a command end with exit code 130 on Ctrl-C, as shells expect."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            errors().print("interrupted")
            raise typer.Exit(130) from None

    # Typer would break the lines of a paragraph where the source does.
    run.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.__doc__ or ""))
    return run


def print_rejected(console: Console, rejected: Sequence[SubscriptionError]) -> None:
    """Print rejected subscriptions: which, where in its text, why, and the way out; on a terminal the first of them."""
    _print_complaints(console, rejected, "rejected subscription")


def print_warnings(console: Console, warnings: Sequence[SubscriptionWarning]) -> None:
    """Print what is probably not meant: in which subscription, where in its text, and the way out."""
    _print_complaints(console, warnings, "warning")


def _print_complaints(console: Console, found: Sequence[SubscriptionError | SubscriptionWarning], title: str) -> None:
    table = Table(show_lines=True)
    table.add_column("subscription", overflow="fold")
    table.add_column("position", justify="right")
    table.add_column("reason", overflow="fold", ratio=2)
    table.add_column("way out", overflow="fold", ratio=2)
    shown = found[:MOST_COMPLAINTS] if console.is_terminal else found
    for error in shown:
        position = "" if error.position is None else str(error.position)
        # Text, not str: what a user wrote may look like markup.
        table.add_row(Text(error.subscription or "?"), position, Text(error.message), Text(error.hint))
    more = f", the first {len(shown)}; a file or a pipe gets all" if len(shown) < len(found) else ""
    console.print(titled(counted(len(found), title) + more, table))


def bad_lines_table(count: int, lines: Sequence[tuple[int | None, str]], file: str) -> Group:
    """The lines of a file that are not events."""
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


def report(
    title: str,
    figures: Mapping[str, int | str],
    rejected: Sequence[SubscriptionError] = (),
    *,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Say at the end of a command what was done and what was rejected; exit with 1 if something was.

    As JSON on standard output, or as tables on standard error; `quiet` leaves out the figures.
    """
    if as_json:
        print_json({name.replace(" ", "_"): figure for name, figure in figures.items()} | complaints(rejected))
    else:
        if rejected:
            print_rejected(errors(), rejected)
        if not quiet:
            rows = [(name, figure if isinstance(figure, str) else f"{figure:,}") for name, figure in figures.items()]
            errors().print(facts(title, rows))
    if rejected:
        raise typer.Exit(1)


def complaints(
    found: Sequence[SubscriptionError | SubscriptionWarning], name: str = "rejected"
) -> dict[str, list[dict[str, object]]]:
    """What was rejected, or warned of, for JSON."""
    return {
        name: [
            {"subscription": one.subscription, "position": one.position, "reason": one.message, "way_out": one.hint}
            for one in found
        ]
    }


def print_json(value: object, *, err: bool = False) -> None:
    """Print a report as one line of JSON, on standard output if nothing else is said."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=str), err=err)


def titled(title: str, table: Table) -> Group:
    """A table below its title. A title of the table's own would be broken to the width of the table."""
    return Group(Text(title, style="bold"), table)
