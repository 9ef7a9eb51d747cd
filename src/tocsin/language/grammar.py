"""Parse the common part of the language without sqlglot: from the pieces of a text to its condition, in one pass.

Whatever is not known here is declined, and sqlglot decides: rare syntax, odd names, and every error. The tests hold
both to one answer. A piece of code is cut into tokens once; the pieces of many texts are few.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tocsin.errors import SubscriptionError
from tocsin.language.constants import Reading, unquote
from tocsin.language.constants import number as number_of
from tocsin.language.reserved import RESERVED
from tocsin.language.shape import MAX_DEPTH, string_format
from tocsin.model.condition import (
    And,
    ArrayContains,
    AttributeComparison,
    Between,
    Comparison,
    Condition,
    HasPhrase,
    HasWords,
    InList,
    IsNull,
    IsTruth,
    Like,
    Not,
    Op,
    Or,
    RegexpMatches,
    Truth,
    Value,
    XPathExists,
)
from tocsin.model.expression_tree import AttributeValue, Call, derived_name

ReadLiteral = Callable[[int, Reading], Value]
"""Return the value of a literal, given its number in the text, or a slot for it."""
ReadLiterals = Callable[[list[str], Reading], list[Any]]
"""Return the values of literals as written, all with one reading."""

_OPS = {op.value: op for op in Op} | {"==": Op.EQ, "!=": Op.NE}
_TYPES = {"DATE": Reading.DATE, "TIMESTAMP": Reading.TIMESTAMP, "TIMESTAMPTZ": Reading.TIMESTAMP}
_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}
_KEYWORDS = {"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ILIKE", "ESCAPE", "IS", *_CONSTANTS, *_TYPES}
_TESTS = frozenset(["BETWEEN", "IN", "LIKE", "ILIKE"])
_BEHIND_TERM = frozenset(["AND", "OR", ")", ""])
SHORT_TEXT = 64
"""A comparison with a string of at most so many characters, with its quotes, is remembered."""
_NUMBER, _STRING = Reading.NUMBER, Reading.STRING
_TEXT_FUNCTIONS: dict[str, type[HasWords | HasPhrase | XPathExists]] = {
    "has_words": HasWords,
    "has_phrase": HasPhrase,
    "xpath_exists": XPathExists,
}
_OTHER_FUNCTIONS = {"array_contains", "list_contains", "regexp_matches", "ip_in"}
_DEEPEST = MAX_DEPTH // 2
"""Parentheses and NOT on one path, each at most this many, are never more than MAX_DEPTH together."""

_PART = r'(?:[^\W\d]\w*|"(?:[^"]|"")+")'
_TOKEN = re.compile(rf"[ \t\r\n]*(?:({_PART}(?:\.{_PART})*)|(<>|<=|>=|==|!=|[<>=(),]))")
_PARTS = re.compile(_PART)


class _Name:
    """The name of an attribute; one word without quotes may be that of a function too."""

    __slots__ = ("is_word", "text")

    def __init__(self, text: str, is_word: bool) -> None:
        self.text, self.is_word = text, is_word


class _Constant:
    """A literal, TRUE, FALSE or NULL where an operand may stand."""

    __slots__ = ("value",)

    def __init__(self, value: Value | None) -> None:
        self.value = value


class Declined(Exception):  # noqa: N818  # not an error: sqlglot decides
    """The text is not of the common part."""


_Token = str | int | _Name
"""A keyword or sign, a name, or the number of a literal."""
_Operand = _Name | _Constant | Condition


@lru_cache(16_384)
def _tokens(code: str) -> tuple[str | _Name, ...] | None:
    """Return the tokens of a piece of code; None if one is unknown."""
    if _TOKEN.sub("", code).strip(" \t\r\n"):
        return None
    tokens = [sign or _token(name) for name, sign in _TOKEN.findall(code)]
    return None if None in tokens else tuple(tokens)  # type: ignore[arg-type]  # none is None


@lru_cache(16_384)
def _token(word: str) -> str | _Name | None:
    """Return a keyword or a name; None if it is reserved."""
    upper = word.upper()
    if upper in _KEYWORDS:
        return upper
    parts = _PARTS.findall(word)
    if any(part[0] != '"' and part.upper() in RESERVED for part in parts):
        return None
    if len(parts) == 1 and parts[0][0] != '"':
        return _Name(word, is_word=True)
    qualified = len(parts) > 1 and parts[0].lower() == "event"
    names = [part[1:-1].replace('""', '"') if part[0] == '"' else part for part in parts[qualified:]]
    return _Name(".".join(names), is_word=False)


def read_condition(pieces: Sequence[str], read: ReadLiteral, read_all: ReadLiterals | None = None) -> Condition | None:
    """Return the condition of the pieces of a text, or None if sqlglot is to decide. Linear in the text.

    `read_all` reads the items of a list at once; without it, `read` reads one after the other.
    """
    tokens: list[_Token] = []
    known = {code: _tokens(code) for code in set(pieces[::2])}
    for place, code in enumerate(pieces[::2]):
        found = known[code]
        if found is None:
            return None
        tokens += found
        tokens.append(place)
    tokens[-1] = ""
    try:
        return _Parser(tokens, pieces, read, read_all).whole()
    except (Declined, SubscriptionError):
        return None


class _Parser:
    """The tokens of one text, read from left to right."""

    __slots__ = ("_depth", "_next", "_pieces", "_place", "_read", "_read_all", "_tokens")

    def __init__(
        self, tokens: list[_Token], pieces: Sequence[str], read: ReadLiteral, read_all: ReadLiterals | None
    ) -> None:
        self._tokens, self._pieces, self._read, self._read_all = tokens, pieces, read, read_all
        self._place = 0
        self._depth = 0
        self._next = tokens[0]

    def _advance(self) -> None:
        self._place += 1
        self._next = self._tokens[self._place]

    def _expect(self, token: str) -> None:
        if self._next != token:
            raise Declined
        self._advance()

    def _takes(self, token: str) -> bool:
        """Skip the next token if it is this one."""
        if self._next != token:
            return False
        self._advance()
        return True

    def whole(self) -> Condition:
        condition = _condition(self._any())
        if self._next != "":
            raise Declined
        return condition

    def _any(self) -> _Operand:
        """Read operands of OR."""
        first = self._all()
        if self._next != "OR":
            return first
        found: list[Condition] = []
        _extend(found, first, Or)
        while self._next == "OR":
            self._advance()
            _extend(found, self._all(), Or)
        return Or(tuple(found))

    def _all(self) -> _Operand:
        """Read operands of AND."""
        first = self._term()
        if self._next != "AND":
            return first
        found: list[Condition] = []
        _extend(found, first, And)
        while self._next == "AND":
            self._advance()
            _extend(found, self._term(), And)
        return And(tuple(found))

    def _term(self) -> _Operand:
        """Read what stands between AND and OR."""
        token = self._next
        if type(token) is _Name:
            simple = self._simple(token)
            if simple is not None:
                return simple
        elif token == "NOT":
            self._advance()
            self._deeper()
            negated = Not(_condition(self._term()))
            self._depth -= 1
            return negated
        left = self._operand()
        token = self._next
        op = _OPS.get(token)  # type: ignore[arg-type]  # only signs are found
        if op is not None:
            self._advance()
            compared = _compare(left, op, self._operand())
            if self._next in _OPS or self._next == "IS":
                raise Declined
            return compared
        if self._takes("IS"):
            return self._is(left)
        negated_test = self._takes("NOT")
        if self._next in _TESTS:
            if not isinstance(left, _Name):
                raise Declined
            test = self._test(left.text)
            return Not(test) if negated_test else test
        if negated_test:
            raise Declined
        return left

    def _simple(self, name: _Name) -> Condition | None:
        """Read a comparison with a literal, BETWEEN, IN or LIKE after the name of an attribute; None if it is neither.

        So are most terms of most texts. The general way reads them too, and takes twice as long.
        """
        tokens, place = self._tokens, self._place + 1
        token = tokens[place]
        op = _OPS.get(token)  # type: ignore[arg-type]  # only signs are found
        if op is None:
            if token not in _TESTS:
                return None
            window = tokens[place + 1 : place + 5] if token == "BETWEEN" else []
            if len(window) == 4 and window[1] == "AND" and window[3] in _BEHIND_TERM:
                low, _, high, behind = window
                if type(low) is int and type(high) is int:
                    self._place, self._next = place + 4, behind
                    return Between(name.text, self._literal(low), self._literal(high))
            self._place, self._next = place, token
            return self._test(name.text)
        literal = tokens[place + 1]
        if type(literal) is not int or tokens[place + 2] not in _BEHIND_TERM:
            return None
        self._place, self._next = place + 2, tokens[place + 2]
        written = self._pieces[2 * literal + 1]
        if written[0] == "'" and self._read_all is not None and len(written) <= SHORT_TEXT:
            return _comparison_with_word(name.text, op, written)
        return Comparison(name.text, op, self._literal(literal))

    def _is(self, tested: _Operand) -> Condition:
        negated = self._takes("NOT")
        word = self._next
        if word not in _CONSTANTS or isinstance(tested, _Constant):
            raise Declined
        self._advance()
        if word != "NULL":
            condition: Condition = IsTruth(_condition(tested), word == "TRUE", False)
        elif isinstance(tested, _Name):
            condition = IsNull(tested.text)
        else:
            raise Declined
        if self._next in _OPS or self._next == "IS":
            raise Declined
        return Not(condition) if negated else condition

    def _test(self, attribute: str) -> Condition:
        """Read BETWEEN, IN or LIKE and what follows."""
        word = self._next
        self._advance()
        if word == "BETWEEN":
            low = self._constant()
            self._expect("AND")
            high = self._constant()
            if low is None or high is None:
                raise Declined
            test: Condition = Between(attribute, low, high)
        elif word == "IN":
            self._expect("(")
            test = InList(attribute, tuple(self._constants()))
            self._expect(")")
        else:
            pattern = self._text()
            escape = self._text() if self._takes("ESCAPE") else None
            test = Like(attribute, pattern, escape, word == "ILIKE")
        if self._next in _OPS or self._next in ("IS", "ESCAPE"):
            raise Declined
        return test

    def _operand(self) -> _Operand:
        """Read an attribute, a constant, a function, or what stands in parentheses."""
        token = self._next
        if isinstance(token, _Name):
            self._advance()
            if self._next == "(":
                return self._function(token)
            return token
        if token == "(":
            self._advance()
            self._deeper()
            inside = self._any()
            self._depth -= 1
            self._expect(")")
            return inside
        return _Constant(self._constant())

    def _function(self, name: _Name) -> Condition:
        lower = name.text.lower()
        make = _TEXT_FUNCTIONS.get(lower)
        if not name.is_word or (make is None and lower not in _OTHER_FUNCTIONS):
            raise Declined
        self._advance()
        attribute = self._next
        if not isinstance(attribute, _Name):
            raise Declined
        self._advance()
        self._expect(",")
        if make is not None:
            condition: Condition = make(attribute.text, self._text())
        elif lower == "regexp_matches":
            condition = RegexpMatches(attribute.text, self._text(Reading.EXPRESSION))
        elif lower == "ip_in":
            condition = self._networks(derived_name(Call("ip_order", (AttributeValue(attribute.text),))))
        else:
            constant = self._constant()
            if constant is None:
                raise Declined
            condition = ArrayContains(attribute.text, constant)
        self._expect(")")
        return condition

    def _networks(self, address: str) -> Condition:
        """Read the networks of ip_in."""
        found: list[Condition] = []
        while True:
            network = self._string()
            bounds = (self._read(network, reading) for reading in (Reading.FIRST_ADDRESS, Reading.LAST_ADDRESS))
            found.append(Between(address, *bounds))
            if not self._takes(","):
                return Or(tuple(found)) if len(found) > 1 else found[0]

    def _constants(self) -> list[Value | None]:
        """Read constants with commas between them, up to a parenthesis: many at once, if all are numbers or strings."""
        many = None if self._read_all is None else self._many_constants(self._read_all)
        if many is not None:
            return many
        found = [self._constant()]
        while self._takes(","):
            found.append(self._constant())
        return found

    def _many_constants(self, read_all: ReadLiterals) -> list[Value | None] | None:
        """Read constants as a list, up to a parenthesis, unless they are of several types."""
        start = self._place
        try:
            end = self._tokens.index(")", start)
        except ValueError:
            raise Declined from None
        items, commas = self._tokens[start:end:2], self._tokens[start + 1 : end : 2]
        if commas.count(",") != len(commas) or len(commas) != len(items) - 1 or set(map(type, items)) != {int}:
            return None
        first: Any = items[0]
        literals = list(self._pieces[2 * first + 1 : 2 * (first + len(items)) : 2])
        strings = {literal[0] == "'" for literal in literals}
        if len(strings) > 1:
            return None
        if True in strings and any(map(string_format, literals)):
            raise Declined
        self._place, self._next = end, ")"
        return read_all(literals, Reading.STRING if True in strings else Reading.NUMBER)

    def _constant(self) -> Value | None:
        token = self._next
        if type(token) is int:
            self._advance()
            return self._literal(token)
        if token in _CONSTANTS:
            self._advance()
            return _CONSTANTS[token]
        reading = _TYPES.get(token)  # type: ignore[arg-type]  # a keyword or sign
        if reading is None:
            raise Declined
        self._advance()
        return self._read(self._string(), reading)

    def _literal(self, number: int) -> Value:
        """Return the value of a number or string."""
        literal = self._pieces[2 * number + 1]
        if literal[0] != "'":
            return self._read(number, _NUMBER) if self._read_all is None else number_of(literal)
        if string_format(literal):
            # It compares with other kinds than strings too.
            raise Declined
        return self._read(number, _STRING)

    def _text(self, reading: Reading = Reading.STRING) -> str:
        return self._read(self._string(), reading)  # type: ignore[return-value]  # a string, or a slot for one

    def _string(self) -> int:
        """Read a string literal; return its number."""
        token = self._next
        if type(token) is not int or self._pieces[2 * token + 1][0] != "'":
            raise Declined
        self._advance()
        return token

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Declined


@lru_cache(16_384)
def _comparison_with_word(attribute: str, op: Op, literal: str) -> Comparison:
    """Return the comparison with a short string: words come again in many texts."""
    if string_format(literal):
        raise Declined
    return Comparison(attribute, op, unquote(literal))


def _condition(operand: _Operand) -> Condition:
    """Return an operand as the condition that it is when it stands alone."""
    if isinstance(operand, _Name):
        return Comparison(operand.text, Op.EQ, True)
    if not isinstance(operand, _Constant):
        return operand
    if operand.value is None or isinstance(operand.value, bool):
        return Truth(operand.value)
    raise Declined


def _extend(found: list[Condition], operand: _Operand, connector: type[And | Or]) -> None:
    condition = _condition(operand) if isinstance(operand, (_Name, _Constant)) else operand
    if isinstance(condition, connector):
        found += condition.operands
    else:
        found.append(condition)


def _compare(left: _Operand, op: Op, right: _Operand) -> Condition:
    if isinstance(left, _Constant):
        left, op, right = right, op.flipped, left
    if not isinstance(left, _Name):
        raise Declined
    if isinstance(right, _Constant):
        return Truth(None) if right.value is None else Comparison(left.text, op, right.value)
    if isinstance(right, _Name):
        return AttributeComparison(left.text, op, right.text)
    raise Declined
