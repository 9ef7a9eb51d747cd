"""Split a text into its shape and its literals.

Millions of subscriptions are written in few *shapes*: texts that differ in their literals alone. The pieces of a text
alternate: code, literal, code, …, code. Texts with equal code and equal types of literals share one parse.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from tocsin.errors import SubscriptionError
from tocsin.language.utility import has_utility, without_utility
from tocsin.model.casts import read_time

MAX_DEPTH = 32
"""How deep parentheses and NOT may nest. sqlglot spends some twenty Python calls on each level."""

# Every alternative begins with a set of characters, which lets `re` skip to the next candidate. A number takes along
# every character that could belong to it, so that "12ab" is one bad number and not a number and a name; and its sign,
# where what stands before it shows that nothing is subtracted. Any other sign stays in the code, where it is parsed.
_STRING = r"'[^']*(?:''[^']*)*'"
_BEFORE_SIGN = "|".join(
    f"(?<={before}-)"
    for before in ("^", r"[=<>(,*/%|]", r"[=<>(,*/%|]\s", r"\s[Aa][Nn][Dd]\s", r"\s[Bb][Ee][Tt][Ww][Ee][Ee][Nn]\s")
)
_REST = r"[\w.]*(?:(?<=[0-9.][eE])[+-][0-9]+)?"
_NUMBER = (
    rf"[0-9](?<![\w.][0-9]){_REST}|\.[0-9](?<![\w.)\]\"]\.[0-9]){_REST}|-(?:{_BEFORE_SIGN})(?:[0-9]|\.[0-9]){_REST}"
)
_LITERAL = re.compile(f"({_STRING}|{_NUMBER})")
_TOKEN = re.compile(
    rf"""(?P<name>"[^"]*(?:""[^"]*)*")|(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<literal>{_STRING}|{_NUMBER})""", re.S
)
_NAME = re.compile(r'"[^"]*(?:""[^"]*)*"')
_BAD = re.compile("[\0\ud800-\udfff]")
_NESTING = re.compile(
    r"""[()\[\]{}]|\bNOT\b(?!\s+(?:NULL|TRUE|FALSE|BETWEEN|I?LIKE|IN)\b)|[-+~](?=[-+~\s(]*[-+~(])|'""", re.I
)
_CLOSING = {")": "(", "]": "[", "}": "{"}


def split(text: object) -> list[str]:
    """Return the pieces of a text: code at even places, literals as written at odd ones. Linear in the text.

    >>> split("price < 10 AND author = 'O''Brien'")
    ['price < ', '10', ' AND author = ', "'O''Brien'", '']
    """
    if not isinstance(text, str):
        raise SubscriptionError(f"the condition is a {type(text).__name__}", "Give it as text, such as 'price < 10'")
    # NUL separates the pieces of known shapes.
    bad = _BAD.search(text) if not text.isascii() or "\0" in text else None
    if bad is not None:
        if bad.group() == "\0":
            raise SubscriptionError("the condition contains the character NUL", "Remove it", position=bad.start())
        raise SubscriptionError(
            "the condition contains half a surrogate pair", "Give well-formed Unicode text", position=bad.start()
        )
    if has_utility(text):
        text = without_utility(text)
    if '"' in text or "--" in text or "/*" in text:
        return _split_around_names(text)
    return _LITERAL.split(text)


def _split_around_names(text: str) -> list[str]:
    """Split a text in which digits and quotes may be part of quoted names or comments; comments become blanks."""
    pieces, code, end = [], "", 0
    for token in _TOKEN.finditer(text):
        code += text[end : token.start()]
        end = token.end()
        if token["literal"] is not None:
            pieces += [code, token["literal"]]
            code = ""
        else:
            code += token["name"] or " " * len(token["comment"])
    return [*pieces, code + text[end:]]


_TIME = re.compile(r"'\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{0,5}[1-9])?)?'", re.A)
_UNTYPED = re.compile(
    r"""'(?:true|t|yes|y|false|f|no|n|\s*(?:[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+)(?:e[+-]?\d{1,5})?
        |(?P<time>\d{1,6}-\d\d?-\d\d?(?:[T ][\d:.]+\s*[Z+-]?[\d:]*)?))\s*)'""",
    re.A | re.I | re.X,
)


_SHORT = 40
"""Longer literals are not remembered."""
_UNTYPED_START = frozenset("tTyYfFnN+-.0123456789 \t\n\r\f\v")
"""How the text of such a literal begins."""


def string_format(literal: str) -> str:
    """Return the format of a string literal that reads as another kind of value too; "" if it reads as none.

    It is "date" or "timestamp" for times whose texts have the order of the times, else "untyped".

    >>> string_format("'2026-01-31'"), string_format("'2026-01-31 12:00:00'"), string_format("'x'")
    ('date', 'timestamp', '')
    >>> string_format("'10'"), string_format("'True'"), string_format("'2026-01-31T12:00:00Z'")
    ('untyped', 'untyped', 'untyped')
    """
    if literal[1] not in _UNTYPED_START:
        return ""
    return _format_of(literal) if len(literal) <= _SHORT else _format_of.__wrapped__(literal)


@lru_cache(maxsize=1 << 13)
def _format_of(literal: str) -> str:
    """Do the same for a literal that may be of another kind, and remember it: dates and flags recur."""
    found = _UNTYPED.fullmatch(literal)
    if found is None or (found["time"] is not None and read_time(literal[1:-1]) is None):
        return ""
    ordered = None if found["time"] is None else _TIME.fullmatch(literal)
    return "untyped" if ordered is None else "timestamp" if ordered[1] else "date"


def literal_types(literals: list[str]) -> tuple[bool | str, ...]:
    """Tell which of the literals are strings, and the format of those that read as other kinds; others are numbers."""
    return tuple([literal[0] == "'" and (string_format(literal) or True) for literal in literals])


@dataclass(frozen=True, slots=True)
class Shape:
    """What sqlglot parses for a text: each literal is replaced by its number, quoted if it is a string."""

    pieces: list[str]

    @property
    def text(self) -> str:
        return "".join(self._numbered())

    @property
    def literals(self) -> list[str]:
        return self.pieces[1::2]

    def _numbered(self) -> list[str]:
        numbered = list(self.pieces)
        for place in range(1, len(numbered), 2):
            number = place // 2
            numbered[place] = f"'{number}'" if numbered[place][0] == "'" else str(number)
        return numbered

    def position(self, offset: int) -> int:
        """Return the place in the user's text of an offset in the shape's text."""
        starts = list(accumulate(map(len, self._numbered()), initial=0))
        piece = min(bisect_right(starts, offset) - 1, len(self.pieces) - 1)
        inside = offset - starts[piece] if piece % 2 == 0 else 0
        return sum(map(len, self.pieces[:piece])) + inside

    def literal_position(self, number: int) -> int:
        """Return the place in the user's text of a literal."""
        return sum(map(len, self.pieces[: 2 * number + 1]))

    def culprit(self, position: int) -> str:
        """Return the word, literal or sign at a place in the user's text."""
        text = "".join(self.pieces)
        found = re.compile(rf"{_STRING}|{_NAME.pattern}|\w+|\S").match(text, position)
        return found.group()[:60] if found else "the end"

    def has_sign(self, sign: str) -> bool:
        """Tell whether a sign occurs in the code, outside quoted names."""
        return any(sign in _NAME.sub("", code) for code in self.pieces[::2])

    def check(self) -> None:
        """Refuse what sqlglot does not handle: no code, open quotes, unbalanced or too many parentheses."""
        if not any(piece.strip() for piece in self.pieces):
            raise SubscriptionError("the condition is empty", "Write TRUE to match every event", position=0)
        text = "".join(self.pieces)
        opened: list[tuple[str, int]] = []
        nots, end, position = 0, 0, 0
        for place, piece in enumerate(self.pieces):
            if place % 2 == 0:
                code = _NAME.sub(lambda name: " " * len(name.group()), piece)
                if '"' in code:
                    raise SubscriptionError(
                        "a quoted name is not closed", 'Add the missing "', position=position + code.index('"')
                    )
                for found in _NESTING.finditer(code):
                    sign, here = found.group(), position + found.start()
                    if sign == "'":
                        raise SubscriptionError(
                            "a string is not closed",
                            "Add the missing quote; a quote inside is written ''",
                            position=here,
                        )
                    if sign in _CLOSING:
                        if not opened or opened.pop()[0] != _CLOSING[sign]:
                            raise SubscriptionError(f"{sign!r} closes nothing", "Remove it or open it", position=here)
                        continue
                    if sign in "([{":
                        opened.append((sign, here))
                    else:
                        # Prefix operators nest as long as they follow each other.
                        nots = nots + 1 if not text[end:here].strip("( \t\r\n") else 1
                        end = here + len(sign)
                    if len(opened) + nots > MAX_DEPTH:
                        raise SubscriptionError(
                            f"the condition is nested more than {MAX_DEPTH} levels deep",
                            "Remove parentheses that enclose the whole, or split the condition into subscriptions",
                            position=here,
                        )
            position += len(piece)
        if opened:
            raise SubscriptionError(f"{opened[-1][0]!r} is not closed", "Close it", position=opened[-1][1])
