"""`tocsin top-k`: the best subscriptions of each event, on this machine."""

import csv
import json
from collections.abc import Iterator, Mapping, Set
from contextlib import ExitStack
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tocsin.cli.console import bad_lines_table, errors, facts, rejected_table
from tocsin.cli.index import opened
from tocsin.cli.match import load
from tocsin.errors import OptionError
from tocsin.model.json_events import with_times
from tocsin.model.readable import python_rows, read_values
from tocsin.model.values import Kind

if TYPE_CHECKING:
    from tocsin.matcher import Matcher
    from tocsin.ranking.request import Question, ScoreBy

Event = dict[str, Any]
Kinds = Mapping[str, Set[Kind]]

AT_ONCE = 10_000
"""Events that are matched together."""
SHOWN = 10
"""Malformed lines that are reported with their text."""


class Mode(Enum):
    """Which subscriptions are ranked, and by what."""

    EXACT = "exact"
    RELAXED = "relaxed"


class IntervalRule(Enum):
    """When an interval of an event satisfies a range."""

    OVERLAPS = "overlaps"
    WITHIN = "within"


def top_k(
    events: Annotated[Path, typer.Option(help="Events as .jsonl, .csv or .parquet.")],
    subscriptions: Annotated[Path | None, typer.Option(help="Subscriptions as .jsonl, .csv or .parquet.")] = None,
    index: Annotated[Path | None, typer.Option(help="The folder of an index, instead of --subscriptions.")] = None,
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
    id: Annotated[str, typer.Option(help="The attribute that names an event.")] = "id",
) -> None:
    """Print the best subscriptions of each event as JSON Lines, best first: event, subscription, score.

    Subscriptions that look back at earlier events are refused: events are not remembered.
    """
    from tocsin.index.history_planner import refuse
    from tocsin.ranking.request import Question

    with ExitStack() as stack:
        if (subscriptions is None) == (index is None):
            raise OptionError("the subscriptions are given twice or not at all", "Give --subscriptions or --index")
        matcher = (
            load(subscriptions) if subscriptions is not None else stack.enter_context(opened(index or Path(), "read"))
        )
        refuse(matcher.looking_back(), "Leave them out, or call publish and top_k of a Matcher in Python")
        source = Source(events, matcher.kinds)
        question = Question(k, mode.value, coefficients(score_by), interval.value)
        waiting, count = source.read(), 0
        while some := list(islice(waiting, AT_ONCE)):
            count += rank(matcher, some, question, id)
    if matcher.rejected:
        errors().print(rejected_table(matcher.rejected))
    if source.bad:
        errors().print(bad_lines_table(source.bad, source.bad_lines, events.name))
    errors().print(facts(str(events), [("events", f"{source.good:,}"), ("subscriptions ranked", f"{count:,}")]))
    if matcher.rejected or source.bad:
        raise typer.Exit(1)


def coefficients(text: str) -> "ScoreBy":
    """What `--score-by` means: a word, which the question checks, or coefficients by attribute.

    >>> coefficients("max"), coefficients("price=3,age=0.5")
    ('max', {'price': 3.0, 'age': 0.5})
    """
    if "=" not in text:
        return cast("ScoreBy", text)
    numbers = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        try:
            numbers[name.strip()] = float(number)
        except ValueError as error:
            raise OptionError(f"{part!r} is no coefficient", "Write attribute=number, as in price=3,age=0.5") from error
    return numbers


def rank(matcher: "Matcher", events: list[Event], question: "Question", id: str) -> int:
    """Print the best subscriptions of some events; return how many there are."""
    if not any(id in event for event in events):
        names = ", ".join(sorted(set().union(*events))) or "none at all"
        raise OptionError(f"the events have no attribute {id!r} to name them by", f"Choose with --id from {names}")
    table = matcher.match_batch(
        events, top_k=question.k, mode=question.mode, score_by=question.score_by, interval=question.interval
    )
    named, _ = read_values(event.get(id) for event in events)
    for row in table.to_pylist():
        row["event"] = named[row["event"]]
        typer.echo(json.dumps(row, ensure_ascii=False, default=str))
    return len(table)


class Source:
    """A file of events, with each attribute as the kind of value it is compared with, and the lines that are none."""

    def __init__(self, path: Path, kinds: Kinds) -> None:
        readers = {
            ".jsonl": self._json_lines,
            ".ndjson": self._json_lines,
            ".csv": self._csv,
            ".parquet": self._parquet,
        }
        if not path.is_file():
            raise OptionError(f"there is no file {path}", "Give the events as JSON Lines, CSV or Parquet")
        if path.suffix not in readers:
            raise OptionError(f"the format of {path} cannot be told", f"Name it with one of {', '.join(readers)}")
        self.good = self.bad = 0
        self.bad_lines: list[tuple[int | None, str]] = []
        self._path = path
        self._kinds = kinds
        self._reader = readers[path.suffix]

    def read(self) -> Iterator[Event]:
        """The events in order."""
        for event in self._reader():
            self.good += 1
            yield event

    def _report(self, number: int, line: str) -> None:
        self.bad += 1
        if len(self.bad_lines) < SHOWN:
            # Bytes that are not UTF-8 are escaped in it, and cannot be printed so.
            shown = line.encode(errors="surrogateescape").decode(errors="replace")
            self.bad_lines.append((number, shown.rstrip("\n")))

    def _json_lines(self) -> Iterator[Event]:
        with self._path.open(encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, start=1):
                try:
                    event = json.loads(line) if line.strip() else {}
                    if "\\u" in line or not line.isascii():
                        json.dumps(event, ensure_ascii=False).encode()  # raises if it is no well-formed text
                except (ValueError, RecursionError):
                    event = None
                if not isinstance(event, dict):
                    self._report(number, line)
                elif event:
                    yield with_times(event, self._kinds)

    def _csv(self) -> Iterator[Event]:
        from tocsin.cli.files import is_text

        with self._path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            reader = csv.DictReader(file, restval=None)
            for row in reader:
                if None in row or None in row.values() or not is_text("".join(row.values())):
                    self._report(reader.line_num, ",".join(str(value) for value in row.values() if value is not None))
                else:
                    yield with_times({name: self._typed(name, text) for name, text in row.items()}, self._kinds)

    def _typed(self, name: str, text: str) -> object:
        """A field of a CSV file as what it is only compared with; else as text. What cannot be read so is NULL."""
        kinds = self._kinds.get(name, set())
        try:
            if kinds == {Kind.NUMBER}:
                return float(text)
            if kinds == {Kind.BOOLEAN}:
                return {"true": True, "false": False}[text.lower()]
        except (ValueError, KeyError):
            return None
        return text or None

    def _parquet(self) -> Iterator[Event]:
        import pyarrow as pa
        from pyarrow import parquet

        from tocsin.index.intake import malformed

        first = 1
        for batch in parquet.ParquetFile(self._path).iter_batches(AT_ONCE):
            bad = dict(malformed(batch))
            for row, reason in bad.items():
                self._report(first + row, reason)
            rows = pa.array([row for row in range(len(batch)) if row not in bad], pa.int64())
            good = batch.take(rows) if bad else batch
            yield from python_rows(good)
            first += len(batch)
