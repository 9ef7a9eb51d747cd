"""What several commands take: where subscriptions come from, tags, the best k."""

import contextlib
import datetime as dt
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.text import Text

from tocsin.cli.console import counted, errors
from tocsin.cli.matcher_options import MatcherOptions
from tocsin.cli.progress import stage
from tocsin.errors import OptionError, UnknownSubscriptionError

if TYPE_CHECKING:
    from tocsin.files.subscription_files import SubscriptionFile
    from tocsin.matcher import Matcher, OpenMode
    from tocsin.ranking.question import Question, ScoreBy
    from tocsin.registry import RankingName

MOST_NAMED = 10
MOST_COMPARED = 5_000
"""Ids that a wrong one is compared with: it takes 0.1 s."""
STANDARD = Path("-")
_DEFAULTS = MatcherOptions()

Subscriptions = Annotated[
    Path | None, typer.Option(help="Subscriptions: id, where[, score, weights, tags]; a file or a folder.")
]
Index = Annotated[Path | None, typer.Option(help="The folder of an index, instead of --subscriptions.")]
Where = Annotated[
    list[str] | None, typer.Option(help="A condition, instead of --subscriptions; may be given several times.")
]
WhereFile = Annotated[Path | None, typer.Option(help="A file with one condition, instead of --subscriptions.")]
Events = Annotated[Path, typer.Option(help="Events: a file, a folder of files, or - for standard input.")]
Now = Annotated[
    str | None, typer.Option(help="The time that now() means, as in 2026-01-15T12:00; that of the clock if not given.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tags", help="Only subscriptions with this tag, as in user=ada; may be repeated.")
]


class Mode(Enum):
    """Which subscriptions are ranked, and by what."""

    EXACT = "exact"
    RELAXED = "relaxed"


class IntervalRule(Enum):
    """When an interval of an event satisfies a range."""

    OVERLAPS = "overlaps"
    WITHIN = "within"


@dataclass(frozen=True)
class SubscriptionSource:
    """Where the subscriptions of a command come from, one of the three, with the options of their matcher; checked."""

    subscriptions: Path | None
    index: Path | None
    conditions: Mapping[str, str]
    """Those of --where or --where-file, by the ids that they get."""
    options: MatcherOptions


def load(
    path: Path, options: MatcherOptions = _DEFAULTS, *, quiet: bool = False, wanted: str | None = None
) -> "Matcher":
    """Build a matcher from a file of subscriptions; `rejected` also holds the lines that are not subscriptions.

    Raises UnknownSubscriptionError, before it builds, if the file has no subscription with the id that is wanted.
    """
    keywords = options.keywords()
    read = _read(path, quiet, wanted)
    from tocsin.matcher import Matcher

    matcher = Matcher(**keywords)
    _add(matcher, read, quiet)
    return matcher


def add_file(matcher: "Matcher", path: Path, *, quiet: bool = False) -> None:
    """Add the subscriptions of a file to a matcher; `rejected` also holds the lines that are not subscriptions."""
    _add(matcher, _read(path, quiet, None), quiet)


def _read(path: Path, quiet: bool, wanted: str | None) -> "SubscriptionFile":
    from tocsin.files.subscription_files import read_rows

    with stage("reading subscriptions", "rows", quiet=quiet) as progress:
        read = read_rows(path, progress)
        if wanted is not None and all(error.subscription != wanted for error in read.rejected):
            demand_id(wanted, read.ids)
        return read.as_table()


def _add(matcher: "Matcher", read: "SubscriptionFile", quiet: bool) -> None:
    with stage("indexing", "subscriptions", len(read.table), quiet=quiet) as progress:
        matcher.subscribe_many(read.table)
        progress(len(read.table))
    matcher.rejected[:0] = read.rejected
    _tell(read.unknown, "column", "left out, not of a subscription")
    _tell(read.duplicates, "id", "given several times; the last of each counts")


def demand_id(wanted: str, ids: Sequence[str]) -> None:
    """Raise UnknownSubscriptionError if an id is not among these; it names those that are like it."""
    if wanted in ids:
        return
    import difflib

    near = difflib.get_close_matches(wanted, ids[:MOST_COMPARED]) or ids[:MOST_NAMED]
    if not near:
        raise UnknownSubscriptionError(f"there is no subscription {wanted!r}", "There is none at all")
    more = "" if len(near) == len(ids) else ", …"
    raise UnknownSubscriptionError(f"there is no subscription {wanted!r}", f"There are {', '.join(near)}{more}")


def _demand_stored(index: Path, wanted: str) -> None:
    """Raise UnknownSubscriptionError if an index has no such id, before the library is loaded; not for a huge index."""
    from tocsin.index.stored_ids import stored_ids
    from tocsin.storage.folder import Folder

    # A file that the writer removes meanwhile: whoever opens the index finds the newer snapshot.
    with contextlib.suppress(FileNotFoundError):
        ids = stored_ids(Folder(index))
        if ids is not None:
            demand_id(wanted, ids)


def _tell(names: Sequence[str], noun: str, what: str) -> None:
    if names:
        more = ", …" if len(names) > MOST_NAMED else ""
        errors().print(
            Text(f"{counted(len(names), noun)} {what}: {', '.join(names[:MOST_NAMED])}{more}"), soft_wrap=True
        )


@contextlib.contextmanager
def matcher_of(
    source: SubscriptionSource, *, quiet: bool = False, mode: "OpenMode" = "copy", wanted: str | None = None
) -> Iterator["Matcher"]:
    """The matcher of the subscriptions that a command was given; the one that is wanted, if any, is there."""
    if source.subscriptions is not None:
        matcher = load(source.subscriptions, source.options, quiet=quiet, wanted=wanted)
    else:
        if source.index is not None and wanted is not None:
            _demand_stored(source.index, wanted)
        from tocsin.matcher import Matcher

        # A merge in the background would be thrown away at the end of the command.
        if source.index is not None:
            matcher = Matcher.open(source.index, mode=mode, background_merge=False)
        else:
            matcher = Matcher(**source.options.keywords(), background_merge=False)
            for id, condition in source.conditions.items():
                matcher.subscribe(id, condition)
    with matcher:
        if wanted is not None and source.subscriptions is None and wanted not in matcher:
            demand_id(wanted, list(matcher))
        yield matcher


def source_of(
    subscriptions: Path | None,
    index: Path | None,
    where: Sequence[str] | None,
    where_file: Path | None,
    options: MatcherOptions,
) -> SubscriptionSource:
    """The one source of subscriptions that is given.

    Raises OptionError if it is not one, or not there, and SubscriptionError for a wrong condition, before the library
    is loaded.
    """
    from tocsin.files.formats import data_files

    if sum(map(bool, (subscriptions, index, where, where_file))) != 1:
        raise OptionError(
            "the subscriptions are given twice or not at all",
            "Give one of --subscriptions, --index, --where and --where-file",
        )
    if subscriptions is not None:
        data_files(subscriptions, "subscriptions")
    if index is not None:
        check_index(index)
        options.refuse_for(index)
    given = list(where or ())
    if where_file is not None:
        given = [read_text(where_file, "Give a file of text with one condition").strip()]
    ids = ["where"] if len(given) == 1 else [f"where {number}" for number in range(1, len(given) + 1)]
    source = SubscriptionSource(subscriptions, index, dict(zip(ids, given, strict=True)), options)
    keywords = options.keywords()
    if given:
        # The part of the library that reads conditions; the whole takes twice as long to load.
        from tocsin.index.options import Options

        chosen = Options(**keywords)
        for id, condition in source.conditions.items():
            chosen.limits.check_text(id, condition)
            chosen.normalise_one(condition, id)
    return source


def demand_one_standard_input(*paths: Path | None) -> None:
    """Raise OptionError if several of these are standard input, which is read once."""
    if paths.count(STANDARD) > 1:
        raise OptionError("standard input is given twice, and read once", "Give the rest as files")


def check_index(path: Path) -> None:
    """Raise OptionError if there is no index in a folder: before the library is loaded."""
    from tocsin.storage.folder import Folder

    if not path.is_dir():
        raise OptionError(f"there is no folder {path}", "Give the folder of an index; tocsin index build makes one")
    Folder(path).committed()


def demand_other_columns(id: str | None, keep: Sequence[str]) -> None:
    """Raise OptionError if the column that names events is to be kept: on Spark each column of the matches is once."""
    if id in keep:
        raise OptionError(f"the matches have {id!r} already: it is called event", f"Leave out --keep {id}")


def read_text(path: Path, way_out: str) -> str:
    """The text of a file, or of standard input for -. Raises OptionError with the way out if it cannot be read."""
    try:
        if path == STANDARD:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OptionError(f"cannot read {path}: {error.strerror}", way_out) from error
    except UnicodeDecodeError as error:
        raise OptionError(f"cannot read {path}: it is not UTF-8", way_out) from error


def parse_now(text: str | None) -> dt.datetime | None:
    """The time of --now.

    >>> parse_now("2026-01-15T12:00")
    datetime.datetime(2026, 1, 15, 12, 0)
    """
    try:
        return None if text is None else dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionError(f"--now is {text!r}", "Write a time as in 2026-01-15T12:00") from error


def parse_tags(tags: Sequence[str] | None) -> dict[str, str]:
    """The tags that were given as name=value.

    >>> parse_tags(["user=ada", "team=a=b"])
    {'user': 'ada', 'team': 'a=b'}
    """
    for tag in tags or ():
        if "=" not in tag:
            raise OptionError(f"{tag!r} is not a tag", "Write name=value, as in user=ada")
    return dict(cast(tuple[str, str], tag.split("=", 1)) for tag in tags or ())


def question_of(
    k: int | None, mode: Mode, score_by: str, interval: IntervalRule, ranked_index: str = "auto"
) -> "Question | None":
    """The question for the best k; None if all matches are wanted."""
    if k is None:
        if mode is not Mode.EXACT or score_by != "sum" or ranked_index != "auto":
            raise OptionError(
                "--mode, --score-by and --ranked-index rank the best subscriptions", "Say how many with --top-k"
            )
        return None
    from tocsin.ranking.question import Question

    return Question(k, mode.value, coefficients(score_by), interval.value, cast("RankingName", ranked_index))


def coefficients(text: str) -> "ScoreBy":
    """What `--score-by` means: a word, which the question checks, or coefficients by attribute.

    >>> coefficients("max"), coefficients("price=3,age=0.5")
    ('max', {'price': 3.0, 'age': 0.5})
    """
    if "=" not in text:
        return cast("ScoreBy", text)
    numbers: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        try:
            numbers[name.strip()] = float(number)
        except ValueError as error:
            hint = "Write attribute=number, as in price=3,age=0.5"
            raise OptionError(f"{part!r} is not a coefficient", hint) from error
    return numbers
