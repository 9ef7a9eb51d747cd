"""What texts a regular expression can match: a parse of our own into strands, which an index can search for.

A *strand* is a sequence without alternatives: literals, runs of characters of a set, and assertions such as ``^``. One
strand at least matches somewhere in each text that the expression matches. Where `is_exact`, the reverse holds as well,
but for texts with ``ſ`` or the Kelvin sign, which RE2 takes for an s and a k where case does not matter. Whatever the
parse does not know, it takes for any text.
"""

import re
import string
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

MAX_STRANDS = 64
"""How many strands an expression may have: long alternatives of words are common in security rules."""
VARIANTS = {"ſ": "s", "\u212a": "k"}
"""The characters beyond ASCII that are letters of ASCII where case does not matter. All other letters have one pair."""
ASCII_BITS = (1 << 128) - 1
_MOST_CHARACTERS = 4
"""A set of more characters is not multiplied into strands: 3 characters of a set in 4 places are 81 strands."""
_LONGEST = 64
_DEEPEST = 50
_ESCAPED = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_NAME = re.compile(r"\?P?<\w+>")
_INLINE = re.compile(r"\?([imsU]*)(?:-([imsU]+))?([:)])")
_COUNTED = re.compile(r"\{(\d+)(,?)(\d*)\}")
_CODE = re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|([1-7][0-7]{1,2}|0[0-7]{0,2})")
_PROPERTY = re.compile(r"[pP](?:\{\^?\w+\}|\w)")
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.S)
_POSIX = re.compile(r"\[:(\^?)(\w+):\]")
_QUOTED = re.compile(r"Q(.*?)(?:\\E|\Z)", re.S)
_PLAIN = re.compile(r"[A-Za-z0-9 _/=:,;'\"<>@#%&~!-]{2,}(?![*+?{])")
"""Characters that mean themselves, up to the last of them that is not repeated."""


def bits_of(characters: str) -> int:
    """Return characters of ASCII as a set of 128 bits."""
    bits = 0
    for character in characters:
        bits |= 1 << ord(character)
    return bits


WORD_BITS = bits_of(string.ascii_letters + string.digits + "_")
_PERL = {"d": bits_of(string.digits), "w": WORD_BITS, "s": bits_of("\t\n\f\r ")}
_POSIX_SETS = {
    "alnum": bits_of(string.ascii_letters + string.digits),
    "alpha": bits_of(string.ascii_letters),
    "ascii": ASCII_BITS,
    "blank": bits_of("\t "),
    "cntrl": bits_of("".join(map(chr, range(32)))) | 1 << 127,
    "digit": bits_of(string.digits),
    "graph": bits_of("".join(map(chr, range(33, 127)))),
    "lower": bits_of(string.ascii_lowercase),
    "print": bits_of("".join(map(chr, range(32, 127)))),
    "punct": bits_of(string.punctuation),
    "space": bits_of("\t\n\v\f\r "),
    "upper": bits_of(string.ascii_uppercase),
    "word": WORD_BITS,
    "xdigit": bits_of(string.hexdigits),
}
_UPPER, _LOWER = bits_of(string.ascii_uppercase), bits_of(string.ascii_lowercase)


class LiteralText(NamedTuple):
    """A text that stands there; with `folds` in lower case, and whatever the case of its letters."""

    text: str
    folds: bool


class Run(NamedTuple):
    """From `least` to `most` characters of a set, None: any number. `wide`: those beyond ASCII belong to it."""

    bits: int
    wide: bool
    least: int = 1
    most: int | None = 1


class Assertion(IntEnum):
    """What must be so at a place between two characters."""

    BEGIN = 0
    END = 1
    WORD_EDGE = 2
    NO_WORD_EDGE = 3
    LINE_BEGIN = 4
    LINE_END = 5


Piece = LiteralText | Run | Assertion
Strand = tuple[Piece, ...]


class Strands(NamedTuple):
    """The strands of an expression, or of a part of it."""

    strands: Sequence[Strand]
    is_exact: bool


ANY_CHARACTER = Run(ASCII_BITS, True)
ANYTHING = Run(ASCII_BITS, True, 0, None)
_EMPTY, _UNKNOWN = Strands([()], True), Strands([(ANYTHING,)], False)
_SOME_CHARACTER = Strands([(ANY_CHARACTER,)], False)


@lru_cache(maxsize=10_000)
def strands_of(expression: str, *, expand: bool) -> Strands:
    """Return the strands of an expression that RE2 can read; linear in its length but for alternatives.

    With `expand`, a small set of characters, or what may be missing, makes several strands with longer literals.

    >>> [[piece.text for piece in strand] for strand in strands_of("(ab|c)d", expand=True).strands]
    [['abd'], ['cd']]
    """
    try:
        found = _StrandParser(expression, expand).whole()
    except _Unknown:
        return _UNKNOWN
    return Strands(tuple(dict.fromkeys(map(_joined, found.strands))), found.is_exact)


def _joined(strand: Strand) -> Strand:
    """Return a strand whose neighbouring literals are one."""
    parts: list[Piece] = []
    for piece in strand:
        last = parts[-1] if parts else None
        if isinstance(piece, LiteralText) and isinstance(last, LiteralText) and _goes_with(piece, last):
            parts[-1] = LiteralText(last.text + piece.text, piece.folds or last.folds)
        else:
            parts.append(piece)
    return tuple(parts)


def _goes_with(one: LiteralText, two: LiteralText) -> bool:
    """Tell whether two literals can be one: case matters in both or in none, or one has no letters."""
    if one.folds == two.folds:
        return True
    exact = two if one.folds else one
    return exact.text.upper() == exact.text.lower()


class _Unknown(Exception):  # noqa: N818  # not an error: the expression may match any text
    """Something that the parse does not know."""


def _weight(node: Strands) -> int:
    """Return how much a node says: the characters of the strand that says least."""
    return min(sum(len(piece.text) for piece in strand if isinstance(piece, LiteralText)) for strand in node.strands)


def _then(left: Strands, right: Strands) -> Strands:
    if len(left.strands) * len(right.strands) > MAX_STRANDS:
        # The side that says less is left out.
        left, right = (left, _UNKNOWN) if _weight(left) >= _weight(right) else (_UNKNOWN, right)
    return Strands([(*a, *b) for a in left.strands for b in right.strands], left.is_exact and right.is_exact)


def _either(left: Strands, right: Strands) -> Strands:
    strands = list(dict.fromkeys([*left.strands, *right.strands]))
    return Strands(strands, left.is_exact and right.is_exact) if len(strands) <= MAX_STRANDS else _UNKNOWN


def _any_case(bits: int) -> int:
    """Return a set with both cases of each of its letters."""
    return bits | (bits & _UPPER) << 32 | (bits & _LOWER) >> 32


def _one_of(node: Strands) -> Run | None:
    """Return a node that is one character of a set as that set."""
    if len(node.strands) != 1 or len(node.strands[0]) != 1:
        return None
    [[piece]] = node.strands
    if isinstance(piece, Run) and piece.least == piece.most == 1:
        return piece
    if isinstance(piece, LiteralText) and len(piece.text) == 1 and piece.text.isascii():
        bits = bits_of(piece.text)
        return Run(_any_case(bits) if piece.folds else bits, False)
    return None


class _StrandParser:
    """Parse an expression that RE2 accepts, from left to right."""

    def __init__(self, text: str, expand: bool) -> None:
        self._text, self._place, self._depth = text, 0, 0
        self._expand = expand
        self._folds = self._dot_is_all = self._by_lines = False

    def whole(self) -> Strands:
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

    def _alternatives(self) -> Strands:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unknown
        found = self._sequence()
        while self._takes("|"):
            other = self._sequence()
            one, two = _one_of(found), _one_of(other)
            if self._expand or one is None or two is None:
                found = _either(found, other)
            else:
                # Sets of characters beyond ASCII are not known, but for none and all of them.
                node = self._set(one.bits | two.bits, one.wide or two.wide)
                found = node._replace(is_exact=found.is_exact and other.is_exact)
        self._depth -= 1
        return found

    def _sequence(self) -> Strands:
        found = _EMPTY
        while self._place < len(self._text) and self._text[self._place] not in "|)":
            found = _then(found, self._repeated())
        return found

    def _repeated(self) -> Strands:
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

    def _times(self, node: Strands, least: int, most: int | None) -> Strands:
        """Return a node repeated; behind the copies that there must be, anything is thinkable."""
        one = _one_of(node)
        if one is not None and (most is None or not self._expand):
            return Strands([(Run(one.bits, one.wide, least, most),)], node.is_exact)
        if (least, most) == (0, 1):
            return _either(node, _EMPTY)
        sizes = [
            len(piece.text) if isinstance(piece, LiteralText) else 1 for strand in node.strands for piece in strand
        ]
        copies = min(least, _LONGEST // max([1, *sizes]))
        found = _EMPTY
        for _ in range(copies):
            found = _then(found, node)
        return found if copies == most else _then(found, _UNKNOWN)

    def _atom(self) -> Strands:
        plain = self._find(_PLAIN)
        if plain is not None:
            text = plain[0]
            folds = self._folds and text.upper() != text.lower()
            return Strands([(LiteralText(text.lower() if folds else text, folds),)], True)
        sign = self._text[self._place]
        if sign == "[":
            return self._class()
        self._place += 1
        if sign == "(":
            return self._group()
        if sign == ".":
            return Strands([(ANY_CHARACTER if self._dot_is_all else Run(ASCII_BITS ^ bits_of("\n"), True),)], True)
        if sign == "^":
            return Strands([(Assertion.LINE_BEGIN if self._by_lines else Assertion.BEGIN,)], True)
        if sign == "$":
            return Strands([(Assertion.LINE_END if self._by_lines else Assertion.END,)], True)
        if sign == "\\":
            return self._escaped()
        if sign in "*+?":
            raise _Unknown
        return self._character(sign)

    def _character(self, character: str) -> Strands:
        if character in VARIANTS or (self._folds and not character.isascii()):
            return _SOME_CHARACTER
        if self._folds and character.isalpha():
            return Strands([(LiteralText(character.lower(), True),)], True)
        return Strands([(LiteralText(character, False),)], True)

    def _set(self, bits: int, wide: bool) -> Strands:
        """Return the node of one character of a set; a letter in both cases is a literal, and so is one character."""
        if not wide and bits.bit_count() <= 2 * _MOST_CHARACTERS:
            characters = [chr(code) for code in range(128) if bits >> code & 1]
            by_case = len(characters) == 2 and characters[0] == characters[1].upper() and not self._expand
            literals = {
                LiteralText(each.lower(), True)
                if (self._folds or by_case) and each.isalpha()
                else LiteralText(each, False)
                for each in characters
            }
            if len(literals) == 1 or (self._expand and 1 < len(literals) <= _MOST_CHARACTERS):
                return Strands([(literal,) for literal in sorted(literals)], True)
        return Strands([(Run(bits, wide),)], True)

    def _group(self) -> Strands:
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

    def _class(self) -> Strands:
        found = self._find(_CLASS)
        if found is None:
            raise _Unknown
        negated = found[0].startswith("[^")
        try:
            bits, wide = self._members(found[0][1 + negated : -1])
        except _Unknown:
            return _SOME_CHARACTER
        return self._set(ASCII_BITS ^ bits, not wide) if negated else self._set(bits, wide)

    def _members(self, inside: str) -> tuple[int, bool]:
        """Return the set inside a class; raise _Unknown if it names a character beyond ASCII."""
        bits, wide, place = 0, False, 0
        while place < len(inside):
            posix = _POSIX.match(inside, place)
            if posix is not None or (inside[place] == "\\" and inside[place + 1] in "dDsSwW"):
                negated = bool(posix[1]) if posix else inside[place + 1].isupper()
                named = _POSIX_SETS[posix[2]] if posix else _PERL[inside[place + 1].lower()]
                named = _any_case(named) if self._folds else named
                bits |= ASCII_BITS ^ named if negated else named
                wide |= negated
                place = posix.end() if posix else place + 2
                continue
            low, place = _member(inside, place)
            high = low
            if inside.startswith("-", place) and place + 1 < len(inside):
                high, place = _member(inside, place + 1)
            if not high.isascii():
                raise _Unknown
            members = (1 << ord(high) + 1) - (1 << ord(low))
            bits |= _any_case(members) if self._folds else members
        return bits, wide

    def _escaped(self) -> Strands:
        sign = self._text[self._place] if self._place < len(self._text) else ""
        quoted = self._find(_QUOTED)
        if quoted is not None:
            found = _EMPTY
            for character in quoted[1]:
                found = _then(found, self._character(character))
            return found
        code = self._find(_CODE)
        if code is not None:
            point = _code_point(code)
            # Half of a surrogate pair is in no text.
            return _SOME_CHARACTER if 0xD800 <= point < 0xE000 else self._character(chr(point))
        if self._find(_PROPERTY) is not None:
            return _SOME_CHARACTER
        self._place += 1
        if sign in "dDsSwW":
            bits = _PERL[sign.lower()]
            bits = _any_case(bits) if self._folds else bits
            return self._set(ASCII_BITS ^ bits, True) if sign.isupper() else self._set(bits, False)
        if sign in "bB":
            return Strands([(Assertion.WORD_EDGE if sign == "b" else Assertion.NO_WORD_EDGE,)], True)
        if sign in "Az":
            return Strands([(Assertion.BEGIN if sign == "A" else Assertion.END,)], True)
        if sign in _ESCAPED:
            return self._character(_ESCAPED[sign])
        if sign and not sign.isalnum():
            return self._character(sign)
        raise _Unknown


def _member(inside: str, place: int) -> tuple[str, int]:
    """Return a character of a class, and where the next one stands."""
    sign = inside[place]
    if sign != "\\":
        return sign, place + 1
    code = _CODE.match(inside, place + 1)
    if code is not None:
        return chr(_code_point(code)), code.end()
    sign = inside[place + 1]
    if sign in _ESCAPED or not sign.isalnum():
        return _ESCAPED.get(sign, sign), place + 2
    raise _Unknown


def _code_point(code: re.Match[str]) -> int:
    return int(code[1] or code[2], 16) if code[3] is None else int(code[3], 8)
