"""What several commands take: where subscriptions come from, tags, the best k."""

import contextlib
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.text import Text

from tocsin.cli.console import errors
from tocsin.errors import OptionError

if TYPE_CHECKING:
    from tocsin.matcher import Matcher, OpenMode
    from tocsin.ranking.request import Question, ScoreBy
    from tocsin.registry import RankingName

MOST_NAMED = 10

Subscriptions = Annotated[
    Path | None, typer.Option(help="Subscriptions: id, where[, score, weights, tags]; a file or a folder.")
]
Index = Annotated[Path | None, typer.Option(help="The folder of an index, instead of --subscriptions.")]
Where = Annotated[
    list[str] | None, typer.Option(help="A condition, instead of --subscriptions; may be given several times.")
]
WhereFile = Annotated[Path | None, typer.Option(help="A file with one condition, instead of --subscriptions.")]
Events = Annotated[Path, typer.Option(help="Events: a file, a folder of files, or - for standard input.")]
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


def load(path: Path) -> "Matcher":
    """Build a matcher from a file of subscriptions; `rejected` also holds the lines that are not subscriptions."""
    from tocsin.files.subscription_files import read_subscriptions
    from tocsin.matcher import Matcher

    with errors().status("reading subscriptions") as status:
        read = read_subscriptions(path)
        status.update(f"building the index of {len(read.table):,} subscriptions")
        matcher = Matcher.from_table(read.table)
    matcher.rejected[:0] = read.rejected
    _tell(read.unknown, "columns that are not of a subscription are left out")
    _tell(read.duplicates, "ids stand several times; the last of each counts")
    return matcher


def _tell(names: Sequence[str], what: str) -> None:
    if names:
        more = ", …" if len(names) > MOST_NAMED else ""
        errors().print(Text(f"{len(names):,} {what}: {', '.join(names[:MOST_NAMED])}{more}"), soft_wrap=True)


@contextlib.contextmanager
def matcher_of(
    subscriptions: Path | None = None,
    index: Path | None = None,
    where: Sequence[str] | None = None,
    where_file: Path | None = None,
    *,
    mode: "OpenMode" = "copy",
) -> Iterator["Matcher"]:
    """The matcher of the subscriptions that a command was given, in one of four ways."""
    from tocsin.matcher import Matcher

    given = [option for option in (subscriptions, index, where, where_file) if option]
    if len(given) != 1:
        raise OptionError(
            "the subscriptions are given twice or not at all",
            "Give one of --subscriptions, --index, --where and --where-file",
        )
    if subscriptions is not None:
        matcher = load(subscriptions)
    elif index is not None:
        # A merge in the background would be thrown away at the end of the command.
        matcher = Matcher.open(index, mode=mode, background_merge=False)
    else:
        matcher = Matcher(background_merge=False)
        conditions = [_read_text(where_file)] if where_file else list(where or ())
        for number, condition in enumerate(conditions, start=1):
            matcher.subscribe("where" if len(conditions) == 1 else f"where {number}", condition)
    with matcher:
        yield matcher


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read {path}: {error}", "Give a file of text with one condition") from error


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
    from tocsin.ranking.request import Question

    if k is None:
        if mode is not Mode.EXACT or score_by != "sum" or ranked_index != "auto":
            raise OptionError(
                "--mode, --score-by and --ranked-index rank the best subscriptions", "Say how many with --top-k"
            )
        return None
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
            raise OptionError(f"{part!r} is no coefficient", "Write attribute=number, as in price=3,age=0.5") from error
    return numbers
