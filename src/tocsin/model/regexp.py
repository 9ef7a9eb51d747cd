"""Regular expressions: what they mean is what the RE2 that Arrow contains says, and DuckDB means the same.

No expression costs more than linear time. What an expression says that LIKE patterns say as well becomes such patterns;
the index searches for the others by their strands (`regexp_strands.py`).
"""

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from tocsin.errors import SubscriptionError
from tocsin.model.predicate import Pattern, Wildcard
from tocsin.model.regexp_strands import ANYTHING, Assertion, LiteralText, Run, Strand, strands_of

FLAGS = {"i": "i", "c": "-i", "s": "s", "m": "-s", "n": "-s", "p": "-s"}
"""DuckDB's flags, and how they are written inside an expression. The last of two that contradict each other counts."""
_NO_LOOKAROUND = "RE2 has no lookaround and no backreferences, which would cost exponential time; write it without them"
_GLOB_CLASS = re.compile(r"(!?)(\]?[^\]]*)\]", re.S)
_GLOB_MEMBER = re.compile(r"(.)(?:-(.))?", re.S)
_A_TEXT = pa.nulls(1, pa.large_string())
"""Not made of a Python list: for that, Arrow imports pandas where it is installed, which takes 45 MB."""


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


@lru_cache(maxsize=10_000)
def as_patterns(expression: str) -> tuple[Pattern, ...] | None:
    """Return the LIKE patterns one of which matches exactly the texts that an expression matches; None if none do.

    >>> from tocsin.model.text import pattern_text
    >>> [pattern_text(pattern) for pattern in as_patterns("^GET /|error")], as_patterns("GET +/")
    (['GET /%', '%error%'], None)
    """
    strands, is_exact = strands_of(expression, expand=True)
    patterns = [_pattern(strand) for strand in strands] if is_exact else [None]
    return None if None in patterns else tuple(dict.fromkeys(pattern for pattern in patterns if pattern is not None))


def _pattern(strand: Strand) -> Pattern | None:
    """Return the pattern of a strand that may lie anywhere in a text, None if LIKE cannot say it."""
    inner, begins, ends = list(strand), False, False
    while inner and inner[0] is Assertion.BEGIN:
        begins = inner.pop(0) is Assertion.BEGIN
    while inner and inner[-1] is Assertion.END:
        ends = inner.pop() is Assertion.END
    parts: list[str | Wildcard] = []
    for piece in [*([] if begins else [ANYTHING]), *inner, *([] if ends else [ANYTHING])]:
        part: str | Wildcard
        if isinstance(piece, LiteralText) and not piece.folds:
            part = piece.text
        elif isinstance(piece, Run) and piece[:2] == ANYTHING[:2] and piece.most in (piece.least, None):
            part = Wildcard(piece.least, piece.most is None)
        else:
            return None
        last = parts[-1] if parts else None
        if isinstance(part, Wildcard) and isinstance(last, Wildcard):
            parts[-1] = Wildcard(last.least + part.least, last.many or part.many)
        else:
            parts.append(part)
    return Pattern(tuple(parts) or ("",))
