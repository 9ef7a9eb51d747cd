"""Parse the text of an expression into its canonical form, or raise an error that names the construct and the place."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from lxml import etree

from tocsin.errors import SubscriptionError
from tocsin.predicates.xpath.expression import ANY, Filter, Rest, Step, XPath
from tocsin.predicates.xpath.fragment import to_paths
from tocsin.predicates.xpath.syntax import HINT, NAME, Syntax

MAX_LENGTH: Final = 10_000

# Most expressions have no prefixes, and no filters but comparisons of attributes with constants. Read without tokens,
# 41,000 without filters take 0.25 s instead of 1.66. Other numbers, and strings in an order, need the rules of XPath.
_PLAIN_FILTER = rf"""\[@{NAME} ?(?:(?:[<>]=?|!?=) ?[0-9]{{1,15}}|!?= ?(?:'[^'\]]*'|"[^"\]]*"))\]"""
_PLAIN_STEP = rf"(/{{0,2}})({NAME}|\*)((?:{_PLAIN_FILTER})*)"
_PLAIN = re.compile(rf"{_PLAIN_STEP}(?:(?=/){_PLAIN_STEP})*")
_PLAIN_STEPS = re.compile(_PLAIN_STEP)
_FILTER_PARTS = re.compile(rf"\[@({NAME}) ?([<>=!]+) ?([^\]]*)\]")


def parse_xpath(text: str, namespaces: Mapping[str, str] | None = None) -> XPath:
    """Parse an expression of XPath 1.0; a relative path means anywhere in the document. Cost: linear in the text.

    >>> str(parse_xpath("nitf//p[@lede = 'true']"))
    "//nitf//p[@lede = 'true']"
    >>> str(parse_xpath("/a/b[1]/c | d[not(e)]"))
    '/a/b[1]/c | //d[not(e)]'
    >>> parse_xpath("/a[upper(b)]")
    Traceback (most recent call last):
    tocsin.errors.SubscriptionError: position 3: XPath: there is no function upper(). ...
    """
    if len(text) > MAX_LENGTH:
        raise SubscriptionError(
            f"XPath: the expression has {len(text)} characters", f"Keep it within {MAX_LENGTH}", position=MAX_LENGTH
        )
    if _PLAIN.fullmatch(text):
        if not text.isascii():
            _check_by_lxml(Rest(text))
        return XPath((_plain_steps(text),))
    syntax = Syntax(text, namespaces or {})
    rest = Rest(syntax.absolute_text(text), tuple(sorted(syntax.prefixes.items())))
    parsed = to_paths(syntax.tree, rest)
    if parsed.rest is not None or not text.isascii():
        _check_by_lxml(rest)
    return parsed


def _check_by_lxml(rest: Rest) -> None:
    """Raise SubscriptionError if lxml does not take the expression: names beyond ASCII are for it to judge."""
    try:
        etree.XPath(rest.text, namespaces=dict(rest.namespaces))
    except etree.XPathSyntaxError as error:
        raise SubscriptionError(f"XPath: lxml refuses the expression: {error}", HINT, position=0) from error


def _plain_steps(text: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    exact, distance = True, 0
    for axis, tag, filters in _PLAIN_STEPS.findall(text):
        exact = exact and axis == "/"
        distance += 1
        if tag != ANY or filters:
            steps.append(_plain_step(tag, exact, distance, filters))
            exact, distance = True, 0
    if distance:
        steps.append(_plain_step(ANY, False, distance, ""))
    return tuple(steps)


@lru_cache(maxsize=10_000)
def _plain_step(tag: str, exact: bool, distance: int, filters: str) -> Step:
    read = {_plain_filter(*parts) for parts in _FILTER_PARTS.findall(filters)}
    return Step(tag, exact, distance, tuple(sorted(read, key=Filter.sort_key)))


@lru_cache(maxsize=10_000)
def _plain_filter(name: str, operator: str, constant: str) -> Filter:
    return Filter("attribute", name, operator, float(constant) if constant.isdigit() else constant[1:-1])
