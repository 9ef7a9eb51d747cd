"""Progress on the terminal: the stage of a command, how much of it is done, how fast, and for how long."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.text import Text

from tocsin.cli.console import errors, rate

TOLD_FROM = 1.0
"""Seconds from which on a stage leaves a line that says how long it took."""


class Stage:
    """A stage under way: call it with what is done so far."""

    def __init__(self, name: str, noun: str, total: int | None, detail: Callable[[], str]) -> None:
        self._name = name
        self._noun = noun
        self._total = total
        self._detail = detail
        self._count = 0
        self._start = time.perf_counter()
        self._end: float | None = None

    def __call__(self, count: int) -> None:
        """Say how much is done."""
        self._count = count

    @property
    def seconds(self) -> float:
        """The seconds that it took, or takes already."""
        return (self._end or time.perf_counter()) - self._start

    def end(self) -> None:
        """Stop the clock."""
        self._end = time.perf_counter()

    def __rich__(self) -> Text:
        """The line of now, which the terminal asks for several times a second."""
        return Text(self.line())

    def line(self) -> str:
        """What is done, the rate, the time."""
        seconds = self.seconds
        total = "" if self._total is None else f" of {self._total:,}"
        said = [f"{self._count:,}{total} {self._noun}"] if self._count or total else []
        if self._count:
            said.append(f"{rate(self._count / max(seconds, 1e-9))} {self._noun}/s")
        return f"{self._name}: {', '.join([*said, *filter(None, [self._detail()]), f'{seconds:.1f} s'])}"


@contextlib.contextmanager
def stage(
    name: str,
    noun: str = "",
    total: int | None = None,
    *,
    quiet: bool = False,
    told: bool = True,
    detail: Callable[[], str] = str,
) -> Iterator[Stage]:
    """Show a stage while it runs; if it was long and is to be told of, leave its line.

    `noun` is what is counted, `total` how many there are if known, and `detail` more to say at the moment. Where
    standard error is not a terminal, only the lines of long stages appear.
    """
    running = Stage(name, noun, total, detail)
    console = errors()
    with contextlib.nullcontext() if quiet else console.status(running):
        yield running
    running.end()
    if told and not quiet and running.seconds >= TOLD_FROM:
        console.print(running.line(), highlight=False, markup=False, soft_wrap=True)
