"""Parse the text of a path expression into its canonical form, or raise an error that names the construct and place."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, NoReturn

from tocsin.errors import SubscriptionError
from tocsin.predicates.xpath.expression import ANY, Filter, Step, XPath
from tocsin.predicates.xpath.kernels.characters import number_of

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
"""In the order of their codes in `kernels/filters.py`, which begin with 1."""
MAX_LENGTH = 10_000
MAX_NESTING = 16
XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"
_SUPPORTED = (
    "Write location paths of /, //, names and *, "
    "with filters [@a], [@a op value], [text() op value], [. op value] or [path]"
)

_TOKENS = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<string>"[^"]*"|'[^']*')
    |(?P<name>[^\W\d][\w.\-\u00b7]*(?::(?!:)(?:[^\W\d][\w.\-\u00b7]*|\*))?)
    |(?P<mark>//|::|\.\.|!=|<=|>=|[/@*\[\]().=<>|+\-$,])""",
    re.VERBOSE,
)


# Most expressions have neither filters nor prefixes. Read without tokens, 41,000 of them take 0.25 s instead of 1.66.
_PLAIN_STEP = r"(/{0,2})([^\W\d][\w.\-\u00b7]*|\*)"
_PLAIN = re.compile(rf"{_PLAIN_STEP}(?:(?=/){_PLAIN_STEP})*")
_PLAIN_STEPS = re.compile(_PLAIN_STEP)


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse_xpath(text: str, namespaces: Mapping[str, str] | None = None) -> XPath:
    """Parse a path expression; a relative path means anywhere in the document. Cost: linear in the text.

    >>> str(parse_xpath("nitf//p[@lede = 'true']"))
    "//nitf//p[@lede = 'true']"
    >>> parse_xpath("/a[1]")
    Traceback (most recent call last):
    tocsin.errors.SubscriptionError: position 3: XPath: a position in a filter is not supported. ...
    """
    if len(text) > MAX_LENGTH:
        raise SubscriptionError(
            f"XPath: the expression has {len(text)} characters", f"Keep it within {MAX_LENGTH}", position=MAX_LENGTH
        )
    if _PLAIN.fullmatch(text):
        return XPath(_plain_steps(text))
    parser = _Parser(text, namespaces or {})
    steps = parser.path(nested=False, depth=0)
    parser.expect_end()
    first = steps[0]
    if first.distance == 0:
        if first.exact:
            raise SubscriptionError("XPath: the document itself has no attribute and no text", _SUPPORTED, position=0)
        steps = (replace(first, distance=1), *steps[1:])
    return XPath(steps)


def _plain_steps(text: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    exact, distance = True, 0
    for axis, tag in _PLAIN_STEPS.findall(text):
        exact = exact and axis == "/"
        distance += 1
        if tag != ANY:
            steps.append(_plain_step(tag, exact, distance))
            exact, distance = True, 0
    if distance:
        steps.append(_plain_step(ANY, False, distance))
    return tuple(steps)


@lru_cache(maxsize=10_000)
def _plain_step(tag: str, exact: bool, distance: int) -> Step:
    return Step(tag, exact, distance)


def to_number(text: str) -> float:
    """Return the number that libxml2 reads in a text, NaN if none: no sign but minus, an exponent is allowed."""
    import numpy as np

    data = np.frombuffer(text.encode(), dtype=np.uint8)
    return float(number_of(data, len(data)))


class _Parser:
    def __init__(self, text: str, namespaces: Mapping[str, str]) -> None:
        self.namespaces = namespaces
        self.tokens = _tokens(text)
        self.place = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.place]

    def at(self, *texts: str) -> bool:
        return self.token.kind == "mark" and self.token.text in texts

    def take(self) -> _Token:
        token = self.token
        self.place += 1
        return token

    def accept(self, *texts: str) -> str:
        return self.take().text if self.at(*texts) else ""

    def refuse(self, construct: str, token: _Token | None = None) -> NoReturn:
        raise SubscriptionError(
            f"XPath: {construct} is not supported", _SUPPORTED, position=(token or self.token).position
        )

    def expect_end(self) -> None:
        if self.token.kind != "end":
            self.refuse(_construct(self.token))

    def path(self, *, nested: bool, depth: int) -> tuple[Step, ...]:
        """Parse a location path up to its end; `depth` counts the filters around it."""
        if depth > MAX_NESTING:
            self.refuse(f"a filter nested deeper than {MAX_NESTING}")
        steps: list[Step] = []
        exact, distance = True, 0
        first = True
        while True:
            descendant = self._axis(first, nested)
            if self.at("@") or self._at_text():
                return _attach(steps, exact and not descendant, distance, self._terminal(), direct=not descendant)
            exact = exact and not descendant
            tag = self._tag()
            distance += 1
            filters = self._filters(depth)
            if tag != ANY or filters:
                steps.append(Step(tag, exact, distance, filters))
                exact, distance = True, 0
            first = False
            if not self.at("/", "//"):
                break
        operator, value = self._comparison() if nested else ("", None)
        if operator:
            owner = Filter("string", "", operator, value)
            return _attach(steps, exact, distance, owner, direct=True)
        if distance:
            steps.append(Step(ANY, False, distance))
        return tuple(steps)

    def _axis(self, first: bool, nested: bool) -> bool:
        """Read what stands before a step; return True if it is a descendant step."""
        if not first:
            return self.take().text == "//"
        if nested:
            if self.at("/", "//"):
                self.refuse("an absolute path in a filter")
            if self.accept("."):
                if not self.at("/", "//"):
                    self.refuse("the filter [.]")
                return self.take().text == "//"
            return False
        if self.at("/", "//"):
            return self.take().text == "//"
        return True

    def _at_text(self) -> bool:
        return self.token.kind == "name" and self.token.text == "text" and self.tokens[self.place + 1].text == "("

    def _tag(self) -> str:
        if self.accept("*"):
            return ANY
        if self.token.kind != "name":
            self.refuse(_construct(self.token))
        following = self.tokens[self.place + 1].text
        if following == "(":
            self.refuse(f"the function or node test {self.token.text}()")
        if following == "::":
            self.refuse(f"the axis {self.token.text}::")
        return self._name(attribute=False)

    def _name(self, *, attribute: bool) -> str:
        if self.at("*"):
            self.refuse("the attribute wildcard @*")
        if self.token.kind != "name":
            self.refuse(_construct(self.token))
        token = self.take()
        prefix, colon, local = token.text.partition(":")
        if not colon:
            return prefix
        if local == "*":
            self.refuse("a wildcard in a namespace", token)
        uri = XML_NAMESPACE if prefix == "xml" else self.namespaces.get(prefix)
        if not uri:
            known = ", ".join(sorted(self.namespaces)) or "none"
            raise SubscriptionError(
                f"XPath: the namespace prefix {prefix!r} of {'@' * attribute}{token.text} is not declared",
                f"Declare it with the subscriptions; declared: {known}",
                position=token.position,
            )
        return f"{{{uri}}}{local}"

    def _terminal(self) -> Filter:
        """Parse ``@name`` or ``text()`` with an optional comparison: the end of a path."""
        if self.accept("@"):
            subject = Filter("attribute", self._name(attribute=True))
        else:
            self.place += 2
            if not self.accept(")"):
                self.refuse("an argument of text()")
            subject = Filter("text")
        operator, value = self._comparison()
        return replace(subject, operator=operator, value=value)

    def _filters(self, depth: int) -> tuple[Filter, ...]:
        found: list[Filter] = []
        while self.accept("["):
            found.append(self._filter(depth))
            if not self.accept("]"):
                self.refuse(_construct(self.token))
        return tuple(sorted(set(found), key=Filter.sort_key))

    def _filter(self, depth: int) -> Filter:
        if self.token.kind == "number":
            self.refuse("a position in a filter")
        if self.token.kind == "string":
            self.refuse("a constant on the left")
        if self.at("@") or self._at_text():
            return self._terminal()
        if self.at(".") and self.tokens[self.place + 1].text in OPERATORS:
            self.take()
            operator, value = self._comparison()
            return Filter("string", "", operator, value)
        steps = self.path(nested=True, depth=depth + 1)
        only = steps[0]
        if len(steps) == 1 and only.tag == ANY and only.exact and only.distance == 0:
            return only.filters[0]
        return Filter("path", path=steps)

    def _comparison(self) -> tuple[str, float | str | None]:
        operator = self.accept(*OPERATORS)
        if not operator:
            return "", None
        minus = bool(self.accept("-"))
        token = self.take()
        if token.kind == "number":
            number = to_number(token.text)
            return operator, -number if minus else number
        if token.kind != "string" or minus:
            self.refuse(f"a comparison with {_construct(token)}", token)
        literal = token.text[1:-1]
        number = to_number(literal)
        if operator in ("=", "!=") or number != number:
            return operator, literal
        return operator, number


def _attach(steps: list[Step], exact: bool, distance: int, owner: Filter, *, direct: bool) -> tuple[Step, ...]:
    """Return the path whose last element carries `owner`; with no step since the last element, that element itself.

    `direct` says that the owner's element is the last step itself, and not that step or one below it.
    """
    if direct and distance == 0 and steps:
        last = steps[-1]
        filters = tuple(sorted({*last.filters, owner}, key=Filter.sort_key))
        return (*steps[:-1], replace(last, filters=filters))
    return (*steps, Step(ANY, exact, distance, (owner,)))


def _tokens(text: str) -> list[_Token]:
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            raise SubscriptionError(f"XPath: {text[position]!r} is not part of a path", _SUPPORTED, position=position)
        if match.lastgroup != "space":
            tokens.append(_Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    tokens += [_Token("end", "", len(text))] * 3
    return tokens


def _construct(token: _Token) -> str:
    """Return the name that an error gives to a token that cannot stand where it is."""
    if token.kind == "end":
        return "an expression that ends here"
    known = {
        "..": "the parent step ..",
        ".": "the step .",
        "|": "the union |",
        "$": "a variable",
        "::": "an axis",
        "(": "a parenthesis",
        "+": "arithmetic",
        "-": "arithmetic",
    }
    if token.text in ("and", "or", "div", "mod"):
        return f"the operator {token.text!r}"
    return known.get(token.text, f"{token.text!r} here")
