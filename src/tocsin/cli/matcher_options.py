"""The options of a matcher as options of every command that makes one.

A command takes them as one parameter, `options`; `with_matcher_options` shows them to Typer one by one.
"""

import datetime as dt
import functools
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer

from tocsin.errors import OptionError
from tocsin.registry import IndexName, MatcherName, XPathName

if TYPE_CHECKING:
    from tocsin.model.analyzer import Analyzers
    from tocsin.model.limits import Limits

LIMITS = (
    "predicates",
    "attributes",
    "text_bytes",
    "string_bytes",
    "list_items",
    "id_bytes",
    "tags",
    "tag_bytes",
    "subscriptions",
    "tenant_predicates",
    "tenant_text_bytes",
    "tenant_list_items",
    "tenant_attributes",
    "tenant_always_true",
    "matches",
)
"""The limits of a matcher; the other one of `Limits` is a server's."""

_PANEL = "Matcher"
_AGE = re.compile(r"(?P<count>\d+)\s*(?P<unit>s|min|h|d)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True)
class MatcherOptions:
    """What `Matcher(...)` takes, as it is written on the command line."""

    limit: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_PANEL,
            help=f"The most of a subscription or tenant, as in predicates=200 or tags=none: {', '.join(LIMITS)}.",
        ),
    ] = None
    namespace: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=_PANEL, help="A prefix of XPath expressions, as in b=http://example.org/books."),
    ] = None
    analyzers: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_PANEL,
            help='A JSON file that says which words are the same, as in {"body": {"stem": "english"}}.',
        ),
    ] = None
    range_index: Annotated[
        IndexName, typer.Option(rich_help_panel=_PANEL, help="The index of ranges, one of the papers'.")
    ] = "auto"
    matcher: Annotated[
        MatcherName, typer.Option(rich_help_panel=_PANEL, help="The matcher of conjunctions, one of the papers'.")
    ] = "auto"
    xpath: Annotated[
        XPathName, typer.Option(rich_help_panel=_PANEL, help="The index of XPath expressions, one of the papers'.")
    ] = "auto"
    retain_events: Annotated[
        int | None, typer.Option(rich_help_panel=_PANEL, min=1, help="How many events are history; all if not given.")
    ] = None
    retain_age: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_PANEL,
            help="How much older than the newest an event of the history may be: 7d, 12h, 30min, 90s, or an integer.",
        ),
    ] = None
    age_attribute: Annotated[
        str | None, typer.Option(rich_help_panel=_PANEL, help="With --retain-age: the attribute that tells the age.")
    ] = None
    history: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_PANEL,
            help="What is remembered of events: all, none, or an attribute; may be repeated.",
        ),
    ] = None

    @property
    def given(self) -> list[str]:
        """The names of the options that were given."""
        return [f"--{one.name.replace('_', '-')}" for one in fields(self) if getattr(self, one.name) != one.default]

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of `Matcher`. Raises OptionError for what cannot be understood."""
        return {
            "limits": _limits(self.limit or ()),
            "namespaces": dict(
                _pair(text, "--namespace", "b=http://example.org/books") for text in self.namespace or ()
            ),
            "analyzers": {} if self.analyzers is None else _analyzers(self.analyzers),
            "index": self.range_index,
            "matcher": self.matcher,
            "xpath": self.xpath,
            "retain_events": self.retain_events,
            "retain_age": None if self.retain_age is None else _age(self.retain_age),
            "age_attribute": self.age_attribute,
            "history": "all" if self.history in (None, ["all"]) else None if self.history == ["none"] else self.history,
        }

    def refuse_for(self, index: object) -> None:
        """Raise OptionError if options are given for an index that stands: it has its own."""
        if self.given:
            raise OptionError(
                f"{index} is an index, which keeps the options that it was built with: {', '.join(self.given)}",
                "Give them to tocsin index build",
            )


def with_matcher_options(command: Callable[..., None]) -> Callable[..., None]:
    """Show a command whose parameter `options` is a MatcherOptions to Typer with each of them as its own option."""
    hints = get_type_hints(MatcherOptions, include_extras=True)
    shared = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(MatcherOptions)
    ]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.name != "options"
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        chosen = MatcherOptions(**{one.name: given.pop(one.name) for one in shared})
        command(**given, options=chosen)

    parameters = [*own, *shared]
    # Typer reads the options of a command from its signature and its annotations.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect looks for it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise OptionError(f"{option} is {text!r}", f"Write it as in {example}")
    return name, value


def _limits(given: Sequence[str]) -> "Limits":
    """The limits of a subscription.

    >>> _limits(["predicates=5", "tags=none"]).predicates, _limits(["tags=none"]).tags
    (5, None)
    """
    from tocsin.model.limits import Limits

    limits: dict[str, int | None] = {}
    for text in given:
        name, value = _pair(text, "--limit", "predicates=200")
        if name not in LIMITS:
            raise OptionError(f"there is no limit {name!r}", f"There are {', '.join(LIMITS)}")
        if value != "none" and not value.isdecimal():
            raise OptionError(f"the limit {name} is {value!r}", "Write a positive number, or none")
        limits[name] = None if value == "none" else int(value)
    return Limits(**cast(Any, limits))


def _analyzers(path: Path) -> "Analyzers":
    from tocsin.model.analyzer import read_analyzers

    return read_analyzers(path)


def _age(text: str) -> dt.timedelta | int:
    """A time, or an integer for an attribute that counts.

    >>> _age("36h"), _age("1000")
    (datetime.timedelta(days=1, seconds=43200), 1000)
    """
    if text.isdecimal():
        return int(text)
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise OptionError(f"--retain-age is {text!r}", "Write 7d, 12h, 30min, 90s, or an integer")
    return dt.timedelta(seconds=int(found["count"]) * _SECONDS[found["unit"]])
