"""The canonical form of a path expression.

Wildcard steps without filters carry no condition but a distance, so they are folded into the next step: ``a/*/b`` is
the step ``b`` at distance exactly 2 below ``a``, and both ``a/*//b`` and ``a//*/b`` are ``b`` at distance 2 or more.
What a filter compares stands at the element that owns it: ``[b/@x > 3]`` is ``[b[@x > 3]]``. Equal canonical forms hold
on the same documents, so equal expressions share one representative.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from lxml import etree

ANY = "*"
FilterKind = Literal["attribute", "text", "string", "path", "tag"]


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one element: an attribute, a text child, its string value, or a path that starts below it.

    One of kind "tag" exists only while an expression is parsed: it becomes the tag of its step.
    """

    kind: FilterKind
    name: str = ""
    operator: str = ""
    value: float | str | None = None
    path: tuple["Step", ...] = ()

    def __str__(self) -> str:
        if self.kind == "path":
            return f"[{_relative(self.path)}]"
        named = {"attribute": f"@{self.name}", "tag": f"self::{self.name}", "text": "text()", "string": "."}
        subject = named[self.kind]
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
class Rest:
    """An expression that no index knows in full: lxml evaluates it where a guard holds. Its paths are absolute."""

    text: str
    namespaces: tuple[tuple[str, str], ...] = ()

    def holds(self, root: etree._Element) -> bool:
        """Tell whether the expression is true, or selects anything, in the document of an element."""
        return bool(_compiled(self)(root))


@lru_cache(maxsize=20_000)
def _compiled(rest: Rest) -> etree.XPath:
    # Without the regular expressions of EXSLT, which Python would run and which may take for ever.
    return etree.XPath(f"boolean({rest.text})", namespaces=dict(rest.namespaces), regexp=False)


# As in `oracle.py`: a child must not wait for what another thread of its parent was evaluating.
os.register_at_fork(after_in_child=_compiled.cache_clear)


Steps = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class XPath:
    """An expression in canonical form; tags and attributes are in Clark notation, ``{namespace}name``.

    It holds where one of its `paths` does, or one of its `guards` and the `rest`. Most expressions are one path.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> parse_xpath("a/*//b") == parse_xpath("//a//*/b")
    True
    >>> str(parse_xpath("a/*//b"))
    '//a/*//b'
    >>> parsed = parse_xpath("/a/b[c or @d][last()]")
    >>> [str(XPath((guard,))) for guard in parsed.guards], parsed.rest.text
    (['/a/b/c', '/a/b[@d]'], '/a/b[c or @d][last()]')
    """

    paths: tuple[Steps, ...]
    guards: tuple[Steps, ...] = ()
    rest: Rest | None = None

    def __str__(self) -> str:
        if self.rest is not None:
            return self.rest.text
        return " | ".join("".join(map(str, path)) for path in self.paths)


def trunk_first(steps: Steps, shared: Mapping[tuple[str, Filter], int] | None = None) -> Steps:
    """Return an equal path that goes along the branch of its tree pattern with the best constant to look up.

    ``/a[b = 3]/c`` selects something where ``/a[c]/b[. = 3]`` does, and the latter is found by its constant. One filter
    that is a path, on the last step, becomes part of the path. `shared` says how many paths have a filter on a tag:
    of two constants, the rarer one is better.
    """
    if not has_branches(steps):
        return steps
    done: list[Step] = []
    while steps:
        step, *following = steps
        branches = [condition.path for condition in step.filters if condition.kind == "path"]
        if following:
            branches.insert(0, tuple(following))
        best = max(branches, key=lambda branch: selectivity(branch, shared), default=())
        if best:
            branches.remove(best)
        own = {condition for condition in step.filters if condition.kind != "path"}
        own |= {Filter("path", path=trunk_first(branch, shared)) for branch in branches}
        done.append(replace(step, filters=tuple(sorted(own, key=Filter.sort_key))))
        steps = best
    return tuple(done)


def selectivity(path: Steps, shared: Mapping[tuple[str, Filter], int] | None = None) -> tuple[int, int]:
    """Return how few elements the best filter of a path lets through: more for an equality, and the rarer it is."""
    best = (0, 0)
    for tag, condition in values_of(path):
        rarity = 0 if shared is None else -shared.get((tag, condition), 0)
        best = max(best, (2 if condition.operator == "=" else 1, rarity))
    return best


def values_of(path: Steps) -> Iterator[tuple[str, Filter]]:
    """Yield the filters of a tree pattern that are not paths, each with the tag of its element."""
    for step in path:
        for condition in step.filters:
            if condition.kind == "path":
                yield from values_of(condition.path)
            else:
                yield step.tag, condition


def has_branches(path: Steps) -> bool:
    """Tell whether a path has filters that are paths."""
    return any(condition.kind == "path" for step in path for condition in step.filters)


def _relative(path: tuple[Step, ...]) -> str:
    text = "".join(map(str, path))
    return "." + text if text.startswith("//") else text[1:]


def _literal(value: float | str | None) -> str:
    if isinstance(value, str):
        return f"'{value}'" if "'" not in value else f'"{value}"'
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)
