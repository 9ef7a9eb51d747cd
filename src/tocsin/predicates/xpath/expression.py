"""The canonical form of a path expression.

Wildcard steps without filters carry no condition but a distance, so they are folded into the next step: ``a/*/b`` is
the step ``b`` at distance exactly 2 below ``a``, and both ``a/*//b`` and ``a//*/b`` are ``b`` at distance 2 or more.
What a filter compares stands at the element that owns it: ``[b/@x > 3]`` is ``[b[@x > 3]]``. Equal canonical forms hold
on the same documents, so equal expressions share one representative.
"""

from dataclasses import dataclass
from typing import Literal

ANY = "*"
FilterKind = Literal["attribute", "text", "string", "path"]


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one element: an attribute, a text child, its string value, or a path that starts below it."""

    kind: FilterKind
    name: str = ""
    operator: str = ""
    value: float | str | None = None
    path: tuple["Step", ...] = ()

    def __str__(self) -> str:
        if self.kind == "path":
            return f"[{_relative(self.path)}]"
        subject = {"attribute": f"@{self.name}", "text": "text()", "string": "."}[self.kind]
        if not self.operator:
            return f"[{subject}]"
        return f"[{subject} {self.operator} {_literal(self.value)}]"

    def sort_key(self) -> str:
        """Return what orders the filters of one step: any total order would do, this one is stable across runs."""
        return f"{self.kind}\0{self}"


@dataclass(frozen=True, slots=True)
class Step:
    """An element at a distance below the one before it: exactly `distance` levels, or that many or more."""

    tag: str
    exact: bool
    distance: int
    filters: tuple[Filter, ...] = ()

    @property
    def place(self) -> str:
        """What stands before the tag: the axis, and a wildcard step for each level between."""
        if self.distance == 0:
            return "/descendant-or-self::"
        return "/*" * (self.distance - 1) + ("/" if self.exact else "//")

    def __str__(self) -> str:
        return self.place + self.tag + "".join(map(str, self.filters))


@dataclass(frozen=True, slots=True)
class XPath:
    """A path expression in canonical form; tags and attributes are in Clark notation, ``{namespace}name``.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> parse_xpath("a/*//b") == parse_xpath("//a//*/b")
    True
    >>> str(parse_xpath("a/*//b"))
    '//a/*//b'
    """

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.steps))


def _relative(path: tuple[Step, ...]) -> str:
    text = "".join(map(str, path))
    return "." + text if text.startswith("//") else text[1:]


def _literal(value: float | str | None) -> str:
    if isinstance(value, str):
        return f"'{value}'" if "'" not in value else f'"{value}"'
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)
