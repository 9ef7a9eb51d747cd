"""XPath 1.0 as a syntax tree, read by recursive descent, with the type that each part of it has.

Abbreviations are written out: ``//`` is a step of its own, ``.`` is ``self::node()``, ``@x`` is ``attribute::x``. A
path outside of filters that begins with neither ``/`` nor ``//`` means anywhere in the document: `inserts` says where
``//`` belongs. XPath has static types, so that what lxml would refuse on some document is refused when it is read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, NoReturn

from tocsin.errors import SubscriptionError
from tocsin.predicates.xpath.kernels.characters import number_of

COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")
"""In the order of their codes in `kernels/filters.py`, which begin with 1."""
MAX_NESTING: Final = 40
"""Brackets inside brackets. libxml2 takes some hundreds; here each level takes several frames of Python's stack."""
XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"
ANY_NODE: Final = "node()"
TEXT_NODE: Final = "text()"
HINT: Final = "Write an XPath 1.0 expression, such as /a/b[@c = 1 and not(d)]//e"

Type = Literal["nodes", "number", "string", "boolean"]

_NODE_TYPES: Final = ("node", "text", "comment", "processing-instruction")
_AXES: Final = frozenset((
    "ancestor", "ancestor-or-self", "attribute", "child", "descendant", "descendant-or-self", "following",
    "following-sibling", "namespace", "parent", "preceding", "preceding-sibling", "self",
))  # fmt: skip
_PRECEDENCE: Final = {
    "or": 1, "and": 2, "=": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "div": 6, "mod": 6,
}  # fmt: skip
_UNION_PRECEDENCE: Final = 7


class _Function(NamedTuple):
    result: Type
    least: int
    most: int
    nodes: bool = False
    """Whether the arguments must be nodes; any other type is converted."""


_FUNCTIONS: Final = {
    "boolean": _Function("boolean", 1, 1),
    "ceiling": _Function("number", 1, 1),
    "concat": _Function("string", 2, 1000),
    "contains": _Function("boolean", 2, 2),
    "count": _Function("number", 1, 1, True),
    "false": _Function("boolean", 0, 0),
    "floor": _Function("number", 1, 1),
    "id": _Function("nodes", 1, 1),
    "lang": _Function("boolean", 1, 1),
    "last": _Function("number", 0, 0),
    "local-name": _Function("string", 0, 1, True),
    "name": _Function("string", 0, 1, True),
    "namespace-uri": _Function("string", 0, 1, True),
    "normalize-space": _Function("string", 0, 1),
    "not": _Function("boolean", 1, 1),
    "number": _Function("number", 0, 1),
    "position": _Function("number", 0, 0),
    "round": _Function("number", 1, 1),
    "starts-with": _Function("boolean", 2, 2),
    "string": _Function("string", 0, 1),
    "string-length": _Function("number", 0, 1),
    "substring": _Function("string", 2, 3),
    "substring-after": _Function("string", 2, 2),
    "substring-before": _Function("string", 2, 2),
    "sum": _Function("number", 1, 1, True),
    "translate": _Function("string", 3, 3),
    "true": _Function("boolean", 0, 0),
}

# Letters, digits, marks, and all beyond ASCII: which of those make a name is left to lxml, which reads such a text as
# well. Written as the characters that are left out, for a set of a million characters takes 15 ms to compile.
NAME: Final = r"[^\x00-@\[-^`{-\x7f][^\x00-,/:-@\[-^`{-\x7f]*"
_TOKENS: Final = re.compile(
    rf"""(?P<space>[ \t\r\n]+)
    |(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<string>"[^"]*"|'[^']*')
    |(?P<name>{NAME}(?::(?!:)(?:{NAME}|\*))?)
    |(?P<mark>//|::|\.\.|!=|<=|>=|[/@*\[\]().=<>|+\-$,])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Constant:
    """A number or a string."""

    value: float | str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of XPath and its arguments."""

    name: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """Two operands; a minus sign in front is a difference from 0."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class LocationStep:
    """An axis, a test and predicates. The test is a name in Clark notation, ``*``, ``{uri}*`` or a type of node."""

    axis: str
    test: str
    predicates: tuple["Node", ...] = ()


@dataclass(frozen=True, slots=True)
class Location:
    """Steps from the document, from nodes that an expression gives and predicates choose, or from where it stands."""

    steps: tuple[LocationStep, ...]
    absolute: bool = False
    start: "Node | None" = None
    predicates: tuple["Node", ...] = ()


Node = Constant | FunctionCall | Operation | Location

_ANYWHERE: Final = LocationStep("descendant-or-self", ANY_NODE)


def type_of(node: Node) -> Type:
    """Return the type of what an expression yields."""
    if isinstance(node, Location):
        return "nodes"
    if isinstance(node, Constant):
        return "string" if isinstance(node.value, str) else "number"
    if isinstance(node, FunctionCall):
        return _FUNCTIONS[node.name].result
    if node.operator == "|":
        return "nodes"
    return "boolean" if _PRECEDENCE[node.operator] <= _PRECEDENCE["<"] else "number"


def to_number(text: str) -> float:
    """Return the number that libxml2 reads in a text, NaN if none: no sign but minus, an exponent is allowed."""
    import numpy as np

    data = np.frombuffer(text.encode(), dtype=np.uint8)
    return float(number_of(data, len(data)))


class Token(NamedTuple):
    """A word of an expression and its place."""

    kind: str
    text: str
    position: int


class Syntax:
    """The reader of one text. `tree` is the expression, `prefixes` are the namespaces that it uses."""

    def __init__(self, text: str, namespaces: Mapping[str, str]) -> None:
        self.namespaces = namespaces
        self.prefixes: dict[str, str] = {}
        self.inserts: list[int] = []
        self.tokens = _tokens(text)
        self.place = 0
        self.depth = 0
        self.filters = 0
        self.tree = self.expression()
        if self.token.kind != "end":
            self.refuse(_construct(self.token))

    def absolute_text(self, text: str) -> str:
        """Return the text with ``//`` before each path that means anywhere."""
        for position in reversed(self.inserts):
            text = f"{text[:position]}//{text[position:]}"
        return text.strip(" \t\r\n")

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def at(self, *texts: str) -> bool:
        return self.token.kind == "mark" and self.token.text in texts

    def take(self) -> Token:
        token = self.token
        self.place += 1
        return token

    def accept(self, *texts: str) -> str:
        return self.take().text if self.at(*texts) else ""

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            self.refuse(_construct(self.token))

    def refuse(self, construct: str, token: Token | None = None) -> NoReturn:
        raise SubscriptionError(f"XPath: {construct}", HINT, position=(token or self.token).position)

    def expression(self, least: int = 1) -> Node:
        """Read an expression whose operators bind at least as strongly as `least`."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.refuse(f"brackets nested deeper than {MAX_NESTING}")
        left = self._unary()
        while True:
            operator = self.token.text if self.token.kind in ("mark", "name") else ""
            precedence = _PRECEDENCE.get(operator, 0)
            if precedence < least:
                break
            self.place += 1
            self.depth -= 1
            left = Operation(operator, left, self.expression(precedence + 1))
            self.depth += 1
        self.depth -= 1
        return left

    def _unary(self) -> Node:
        signs = 0
        while self.accept("-"):
            signs += 1
        node = self._path()
        while self.at("|"):
            token = self.take()
            node = Operation("|", self._nodes(node, token), self._nodes(self._path(), token))
        if not signs:
            return node
        if isinstance(node, Constant) and isinstance(node.value, float):
            return Constant(-node.value if signs % 2 else node.value)
        return Operation("-", Constant(0.0), node)

    def _nodes(self, node: Node, token: Token) -> Node:
        if type_of(node) != "nodes":
            self.refuse(f"a {type_of(node)} stands where nodes are needed", token)
        return node

    def _path(self) -> Node:
        token = self.token
        if self.at("/", "//"):
            return self._absolute()
        if not self._at_primary():
            if self.filters:
                return Location(self._steps())
            self.inserts.append(token.position)
            return Location((_ANYWHERE, *self._steps()), absolute=True)
        node = self._primary()
        if not self.at("[", "/", "//"):
            return node
        self._nodes(node, token)
        predicates = self._predicates()
        return Location(self._more_steps(), start=node, predicates=predicates)

    def _absolute(self) -> Location:
        if self.take().text == "//":
            return Location((_ANYWHERE, *self._steps()), absolute=True)
        alone = self.token.kind in ("end", "number", "string") or self.at(
            ")", "]", ",", "|", "=", "!=", "<", "<=", ">", ">=", "+", "-"
        )
        return Location(() if alone else self._steps(), absolute=True)

    def _at_primary(self) -> bool:
        if self.token.kind == "name":
            return self.tokens[self.place + 1].text == "(" and self.token.text not in _NODE_TYPES
        return self.token.kind in ("number", "string") or self.at("(", "$")

    def _primary(self) -> Node:
        token = self.take()
        if token.kind == "number":
            return Constant(to_number(token.text))
        if token.kind == "string":
            return Constant(token.text[1:-1])
        if token.text == "$":
            self.refuse("a variable has no value here", token)
        if token.text == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        self.place += 1
        arguments: list[Node] = []
        while not self.at(")"):
            if arguments:
                self.expect(",")
            arguments.append(self.expression())
        self.place += 1
        function = _FUNCTIONS.get(token.text)
        if function is None:
            self.refuse(f"there is no function {token.text}()", token)
        if not function.least <= len(arguments) <= function.most:
            self.refuse(f"{token.text}() does not take {len(arguments)} arguments", token)
        if function.nodes:
            for argument in arguments:
                self._nodes(argument, token)
        return FunctionCall(token.text, tuple(arguments))

    def _steps(self) -> tuple[LocationStep, ...]:
        first = self._step()
        return (first, *self._more_steps())

    def _more_steps(self) -> tuple[LocationStep, ...]:
        steps: list[LocationStep] = []
        while self.at("/", "//"):
            if self.take().text == "//":
                steps.append(_ANYWHERE)
            steps.append(self._step())
        return tuple(steps)

    def _step(self) -> LocationStep:
        # libxml2 takes no predicates behind the abbreviations . and .., and neither does the grammar.
        if self.accept("."):
            return LocationStep("self", ANY_NODE)
        if self.accept(".."):
            return LocationStep("parent", ANY_NODE)
        axis = "child"
        if self.accept("@"):
            axis = "attribute"
        elif self.token.kind == "name" and self.tokens[self.place + 1].text == "::":
            axis = self.take().text
            if axis not in _AXES:
                self.refuse(f"there is no axis {axis}::", self.tokens[self.place - 1])
            self.place += 1
        test = self._test(axis)
        return LocationStep(axis, test, self._predicates())

    def _test(self, axis: str) -> str:
        if self.accept("*"):
            return "*"
        if self.token.kind != "name":
            self.refuse(_construct(self.token))
        token = self.take()
        if self.at("("):
            if token.text not in _NODE_TYPES:
                self.refuse(f"the function {token.text}() is not a step", token)
            self.place += 1
            if token.text == "processing-instruction" and self.token.kind == "string":
                self.place += 1
            self.expect(")")
            return f"{token.text}()"
        prefix, colon, local = token.text.partition(":")
        if not colon:
            return prefix
        uri = XML_NAMESPACE if prefix == "xml" else self.namespaces.get(prefix)
        if not uri:
            known = ", ".join(sorted(self.namespaces)) or "none"
            mark = "@" if axis == "attribute" else ""
            raise SubscriptionError(
                f"XPath: the namespace prefix {prefix!r} of {mark}{token.text} is not declared",
                f"Declare it with Matcher(namespaces=...), or --namespace of a command; declared: {known}",
                position=token.position,
            )
        if prefix != "xml":
            self.prefixes[prefix] = uri
        return f"{{{uri}}}{local}"

    def _predicates(self) -> tuple[Node, ...]:
        found: list[Node] = []
        while self.accept("["):
            self.filters += 1
            found.append(self.expression())
            self.filters -= 1
            self.expect("]")
        return tuple(found)


def _tokens(text: str) -> list[Token]:
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            raise SubscriptionError(f"XPath: {text[position]!r} is not part of a path", HINT, position=position)
        if match.lastgroup != "space":
            tokens.append(Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    tokens += [Token("end", "", len(text))] * 3
    return tokens


def _construct(token: Token) -> str:
    """Return the name that an error gives to a token that cannot stand where it is."""
    return "the expression ends here" if token.kind == "end" else f"{token.text!r} cannot stand here"
