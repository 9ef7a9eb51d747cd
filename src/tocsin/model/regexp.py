"""Regular expressions: RE2 judges them, and a parse of our own says which texts they can match at all.

The engine is the RE2 that Arrow contains, so that no expression costs more than linear time, and DuckDB means the same.
An expression is *covered* by LIKE patterns: every text that it matches, one of the patterns matches too. An index
searches for the literals of all patterns at once, and RE2 verifies the few expressions that are left. Where cover and
expression mean the same, RE2 is not needed. Whatever the parse does not know, it covers by ``%``.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from tocsin.errors import SubscriptionError
from tocsin.model.predicate import Pattern, Wildcard

MAX_PATTERNS = 64
"""How many patterns may cover an expression: long alternatives of words are common in security rules."""
_MOST_CHARACTERS = 4
"""A class of more characters than this is covered by ``_``: 3 characters of a class in 4 places are 81 patterns."""
_LONGEST = 64
_DEEPEST = 50
FLAGS = {"i": "i", "c": "-i", "s": "s", "m": "-s", "n": "-s", "p": "-s"}
"""DuckDB's flags, and how they are written inside an expression. The last of two that contradict each other counts."""
LONG_S = "ſ"
"""An ``s`` whatever its case is this letter too; all other letters of ASCII have their variants in lower case."""
_NO_LOOKAROUND = "RE2 has no lookaround and no backreferences, which would cost exponential time; write it without them"
_ESCAPED = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_NAME = re.compile(r"\?P?<\w+>")
_INLINE = re.compile(r"\?([imsU]*)(?:-([imsU]+))?([:)])")
_COUNTED = re.compile(r"\{(\d+)(,?)(\d*)\}")
_CODE = re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|([1-7][0-7]{1,2}|0[0-7]{0,2})")
_PROPERTY = re.compile(r"[pP](?:\{\^?\w+\}|\w)")
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.S)
_PLAIN_CLASS = re.compile(r"[^\]\[\\^-]+")
_QUOTED = re.compile(r"Q(.*?)(?:\\E|\Z)", re.S)
_GLOB_CLASS = re.compile(r"(!?)(\]?[^\]]*)\]", re.S)
_GLOB_MEMBER = re.compile(r"(.)(?:-(.))?", re.S)
_A_TEXT = pa.nulls(1, pa.large_string())
"""Not made of a Python list: for that, Arrow imports pandas where it is installed, which takes 45 MB."""
ONE, ANYTHING = Wildcard(1, False), Wildcard(0, True)


def check_expression(expression: str) -> None:
    """Raise SubscriptionError, with the position in the expression, if RE2 cannot read it."""
    # Loaded here: it takes 0.1 s, which a command that refuses a condition does not have.
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(_A_TEXT, pattern=expression)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        culprit = reason.partition(": ")[2]
        hint = "Write it in RE2's syntax; \\ before a sign means the sign itself"
        if re.fullmatch(r"\(\?<?[=!]|\\[1-9]", culprit):
            hint = _NO_LOOKAROUND
        place = max(expression.find(culprit), 0)
        raise SubscriptionError(f"{reason!r} in a regular expression", hint, position=place) from None


def canonical(expression: str, flags: str, whole: bool) -> str:
    """Return the expression that finds in a text what this one matches under flags, in the whole text if `whole`.

    >>> canonical("a|b", "i", whole=True)
    '(?i)\\\\A(?:a|b)\\\\z'
    """
    case = next((FLAGS[flag] for flag in reversed(flags) if flag in "ic"), "-i")
    lines = next((FLAGS[flag] for flag in reversed(flags) if flag in "smnp"), "-s")
    prefix = "".join(each for each in (case, lines) if each[0] != "-")
    inner = f"\\A(?:{expression})\\z" if whole else expression
    return f"(?{prefix}){inner}" if prefix else inner


def glob_expression(pattern: str) -> str:
    """Return the expression of a GLOB pattern: ``*``, ``?``, ``[ab]``, ``[a-z]``, ``[!a]``, and a backslash to escape.

    >>> glob_expression("a*[!b-d]?")
    '(?s)\\\\Aa.*[^b-d].\\\\z'
    """
    made, place = [], 0
    while place < len(pattern):
        sign, place = pattern[place], place + 1
        if sign == "[":
            found = _GLOB_CLASS.match(pattern, place)
            if found is None:
                raise SubscriptionError("'[' is not closed in a GLOB", "Write [[] for the sign", position=place - 1)
            if found[2].startswith("^"):
                raise SubscriptionError(
                    "[^…] means different things in SQLite and DuckDB",
                    "Write [!…], or ^ behind another",
                    position=place,
                )
            made.append(_glob_class(found[2], bool(found[1])))
            place = found.end()
        elif sign == "\\":
            if place == len(pattern):
                raise SubscriptionError("a GLOB ends with its escape", "Write \\\\ for it", position=place - 1)
            made.append(re.escape(pattern[place]))
            place += 1
        else:
            made.append({"*": ".*", "?": "."}.get(sign) or re.escape(sign))
    return f"(?s)\\A{''.join(made)}\\z"


def _glob_class(inside: str, negated: bool) -> str:
    parts = []
    for one in _GLOB_MEMBER.finditer(inside):
        low, high = one[1], one[2] or one[1]
        if low <= high:
            parts.append(re.escape(low) if low == high else f"{re.escape(low)}-{re.escape(high)}")
    if not parts:
        # A range that is written backwards has no character.
        return r"." if negated else r"[^\x{0}-\x{10FFFF}]"
    return f"[{'^' if negated else ''}{''.join(parts)}]"


@lru_cache(maxsize=10_000)
def finder(expression: str) -> Callable[[str], bool]:
    """Return the test whether an expression matches somewhere in a text; about 20 microseconds, and linear in the text.

    >>> finder("b+$")("abb"), finder("b+$")("bba")
    (True, False)
    """

    import pyarrow.compute as pc

    def finds(text: str) -> bool:
        return bool(pc.match_substring_regex(pa.array([text], pa.large_string()), pattern=expression)[0].as_py())

    return finds


class Cover(NamedTuple):
    """Patterns of which one matches every text that an expression matches; `is_exact`: and no other text."""

    patterns: tuple[Pattern, ...]
    is_exact: bool


@lru_cache(maxsize=10_000)
def cover(expression: str) -> Cover:
    """Return the cover of an expression that RE2 can read; linear in its length but for alternatives.

    >>> from tocsin.model.text import pattern_text
    >>> [pattern_text(pattern) for pattern in cover(r"^GET /(a|b)[0-9]+\\.php").patterns]
    ['GET /a_%.php%', 'GET /b_%.php%']
    """
    parser = _Parser(expression)
    try:
        found, is_exact = parser.whole()
    except _Unknown:
        return Cover((Pattern((ANYTHING,)),), False)
    ignore_case = parser.ignores_case
    patterns = [_pattern(strand, ignore_case) for strand in found]
    kept = dict.fromkeys(pattern for pattern, _ in patterns)
    return Cover(tuple(kept), is_exact and not ignore_case and all(exact for _, exact in patterns))


class _Unknown(Exception):  # noqa: N818  # not an error: the expression is covered by %
    """Something that the parse does not know."""


class _Anchor:
    """The beginning or the end of the text."""


_BEGIN, _END = _Anchor(), _Anchor()
_Piece = str | Wildcard | _Anchor
_Strand = tuple[_Piece, ...]
"""What an alternative consists of, one after the other."""


class _Node(NamedTuple):
    """A part of an expression: a text is matched by one of the strands."""

    strands: Sequence[_Strand]
    is_exact: bool


_EMPTY, _UNKNOWN = _Node([()], True), _Node([(ANYTHING,)], False)
_ANY_CHARACTER = _Node([(ONE,)], False)


def _pattern(strand: _Strand, ignore_case: bool) -> tuple[Pattern, bool]:
    """Return the pattern of a strand that may lie anywhere in a text, and whether all its anchors were understood."""
    inner, begins, ends = list(strand), False, False
    while inner and inner[0] is _BEGIN:
        begins = bool(inner.pop(0))
    while inner and inner[-1] is _END:
        ends = bool(inner.pop())
    understood = not any(isinstance(piece, _Anchor) for piece in inner)
    parts: list[str | Wildcard] = []
    for piece in [*([] if begins else [ANYTHING]), *inner, *([] if ends else [ANYTHING])]:
        last = parts[-1] if parts else None
        if isinstance(piece, _Anchor):
            continue
        if isinstance(piece, str) and isinstance(last, str):
            parts[-1] = last + piece
        elif isinstance(piece, Wildcard) and isinstance(last, Wildcard):
            parts[-1] = Wildcard(last.least + piece.least, last.many or piece.many)
        else:
            parts.append(piece)
    return Pattern(tuple(parts) or ("",), ignore_case), understood


def _weight(node: _Node) -> int:
    """Return how much a node says: the characters of the strand that says least."""
    return min(sum(len(piece) for piece in strand if isinstance(piece, str)) for strand in node.strands)


def _then(left: _Node, right: _Node) -> _Node:
    if len(left.strands) * len(right.strands) > MAX_PATTERNS:
        # The side that says less is left out.
        left, right = (left, _UNKNOWN) if _weight(left) >= _weight(right) else (_UNKNOWN, right)
    return _Node([(*a, *b) for a in left.strands for b in right.strands], left.is_exact and right.is_exact)


def _either(left: _Node, right: _Node) -> _Node:
    strands = list(dict.fromkeys([*left.strands, *right.strands]))
    return _Node(strands, left.is_exact and right.is_exact) if len(strands) <= MAX_PATTERNS else _UNKNOWN


class _Parser:
    """Parse an expression that RE2 accepts, from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._place, self._depth = text, 0, 0
        self._folds = self._dot_is_all = self._by_lines = False
        self.ignores_case = False
        """Whether case does not matter somewhere."""

    def whole(self) -> _Node:
        found = self._alternatives()
        if self._place < len(self._text):
            raise _Unknown
        return found

    def _takes(self, sign: str) -> bool:
        found = self._text.startswith(sign, self._place)
        self._place += len(sign) if found else 0
        return found

    def _find(self, what: re.Pattern[str]) -> re.Match[str] | None:
        found = what.match(self._text, self._place)
        if found is not None:
            self._place = found.end()
        return found

    def _alternatives(self) -> _Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unknown
        found = self._sequence()
        while self._takes("|"):
            found = _either(found, self._sequence())
        self._depth -= 1
        return found

    def _sequence(self) -> _Node:
        found = _EMPTY
        while self._place < len(self._text) and self._text[self._place] not in "|)":
            found = _then(found, self._repeated())
        return found

    def _repeated(self) -> _Node:
        node = self._atom()
        while True:
            counted = self._find(_COUNTED)
            if counted is not None:
                least = int(counted[1])
                node = self._times(node, least, least if not counted[2] else int(counted[3]) if counted[3] else None)
            elif self._takes("*"):
                node = self._times(node, 0, None)
            elif self._takes("+"):
                node = self._times(node, 1, None)
            elif self._takes("?"):
                node = self._times(node, 0, 1)
            else:
                return node
            self._takes("?")

    def _times(self, node: _Node, least: int, most: int | None) -> _Node:
        """Return a node repeated; behind the copies that there must be, anything is thinkable."""
        if most is None and list(node.strands) == [(ONE,)]:
            return _Node([(Wildcard(least, True),)], node.is_exact)
        if (least, most) == (0, 1):
            return _either(node, _EMPTY)
        size = max(
            (len(piece) if isinstance(piece, str) else 1 for strand in node.strands for piece in strand), default=1
        )
        copies = min(least, _LONGEST // max(size, 1))
        found = _EMPTY
        for _ in range(copies):
            found = _then(found, node)
        return found if copies == most else _then(found, _UNKNOWN)

    def _atom(self) -> _Node:
        sign = self._text[self._place]
        if sign == "[":
            return self._class()
        self._place += 1
        if sign == "(":
            return self._group()
        if sign == ".":
            return _ANY_CHARACTER._replace(is_exact=self._dot_is_all)
        if sign in "^$":
            if self._by_lines:
                return _EMPTY._replace(is_exact=False)
            return _Node([(_BEGIN if sign == "^" else _END,)], True)
        if sign == "\\":
            return self._escaped()
        if sign in "*+?":
            raise _Unknown
        return self._character(sign)

    def _character(self, character: str) -> _Node:
        if self._folds:
            self.ignores_case = True
            return _Node([(character.lower(),)], True) if character.isascii() else _ANY_CHARACTER
        return _ANY_CHARACTER if character == LONG_S else _Node([(character,)], True)

    def _group(self) -> _Node:
        outside = self._folds, self._dot_is_all, self._by_lines
        inline = self._find(_INLINE)
        if inline is not None:
            for names, value in ((inline[1], True), (inline[2] or "", False)):
                self._folds = value if "i" in names else self._folds
                self._dot_is_all = value if "s" in names else self._dot_is_all
                self._by_lines = value if "m" in names else self._by_lines
            if inline[3] == ")":
                return _EMPTY
        elif self._text.startswith("?", self._place) and self._find(_NAME) is None:
            raise _Unknown
        found = self._alternatives()
        if not self._takes(")"):
            raise _Unknown
        self._folds, self._dot_is_all, self._by_lines = outside
        return found

    def _class(self) -> _Node:
        found = self._find(_CLASS)
        if found is None:
            raise _Unknown
        inside = found[0][1:-1]
        if len(inside) > _MOST_CHARACTERS or not _PLAIN_CLASS.fullmatch(inside):
            return _ANY_CHARACTER
        node = self._character(inside[0])
        for character in inside[1:]:
            node = _either(node, self._character(character))
        return node

    def _escaped(self) -> _Node:
        sign = self._text[self._place] if self._place < len(self._text) else ""
        quoted = self._find(_QUOTED)
        if quoted is not None:
            found = _EMPTY
            for character in quoted[1]:
                found = _then(found, self._character(character))
            return found
        code = self._find(_CODE)
        if code is not None:
            point = int(code[1] or code[2], 16) if code[3] is None else int(code[3], 8)
            # Half of a surrogate pair is in no text.
            return _ANY_CHARACTER if 0xD800 <= point < 0xE000 else self._character(chr(point))
        if self._find(_PROPERTY) is not None:
            return _ANY_CHARACTER
        self._place += 1
        if sign in "dDsSwW":
            return _ANY_CHARACTER
        if sign in "bB":
            return _EMPTY._replace(is_exact=False)
        if sign in "Az":
            return _Node([(_BEGIN if sign == "A" else _END,)], True)
        if sign in _ESCAPED:
            return self._character(_ESCAPED[sign])
        if sign and not sign.isalnum():
            return self._character(sign)
        raise _Unknown
