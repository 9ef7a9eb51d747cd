"""`UTILITY(condition, number)`: what an alternative is worth, written where it stands.

The call means its condition and nothing else: it is blanked out of a text before the text is parsed, so that positions
in messages stay. The numbers are read from the text by who ranks.
"""

import math
import re
from typing import NamedTuple

from tocsin.errors import SubscriptionError

_TOKEN = re.compile(
    r"""'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*"|--[^\n]*|/\*.*?\*/
        |(?P<call>(?<![\w.$"])UTILITY\s*\()|(?P<word>\b(?:OR|CASE|END)\b)|(?P<sign>[(),])""",
    re.I | re.S | re.X,
)
_HINT = "Write UTILITY(a = 1, 2) OR UTILITY(b = 3, 1)"


class Alternative(NamedTuple):
    """A condition of the OR at the top of a text, and what it is worth; 1 if the text does not say."""

    where: str
    utility: float


class _Call(NamedTuple):
    start: int
    comma: int
    """-1: there is none."""
    end: int
    """The place of its closing parenthesis."""


def has_utility(text: str) -> bool:
    """Tell whether a text calls UTILITY, at the cost of a look at its letters for most."""
    return "UTILITY" in text.upper() and any(token["call"] for token in _TOKEN.finditer(text))


def without_utility(text: str) -> str:
    """Return a text of the same length with blanks in place of the calls and their numbers.

    >>> without_utility("UTILITY(a = 1, 2) OR b = 3")
    '       (a = 1   ) OR b = 3'
    """
    calls, _ = _read(text)
    letters = list(text)
    for call in calls:
        opening = text.index("(", call.start)
        letters[call.start : opening] = " " * (opening - call.start)
        letters[call.comma : call.end] = " " * (call.end - call.comma)
    return "".join(letters)


def alternatives_of(text: str) -> list[Alternative]:
    """Return the alternatives of a text that calls UTILITY.

    >>> alternatives_of("UTILITY(a = 1, 2) OR b = 3 AND c = 4")
    [Alternative(where='(a = 1)', utility=2.0), Alternative(where='b = 3 AND c = 4', utility=1.0)]
    >>> alternatives_of("UTILITY(a = 1, 2) AND b = 3")
    Traceback (most recent call last):
    tocsin.errors.SubscriptionError: position 0: UTILITY is not a whole alternative of the condition. \
Write UTILITY(a = 1, 2) OR UTILITY(b = 3, 1)
    """
    calls, bounds = _read(text)
    found, start = [], 0
    for end, behind in bounds:
        inside = [call for call in calls if start <= call.start < end]
        if not inside:
            found.append(Alternative(text[start:end].strip(), 1.0))
        else:
            [call] = inside
            opening = text.index("(", call.start)
            found.append(Alternative(f"{text[opening : call.comma].rstrip()})", _number(text, call)))
        start = behind
    return found


def _read(text: str) -> tuple[list[_Call], list[tuple[int, int]]]:
    """Return the calls of a text, and where each alternative ends and the next one starts."""
    calls: list[_Call] = []
    bounds: list[tuple[int, int]] = []
    depth, cases, start = 0, 0, 0
    opened: _Call | None = None
    for token in _TOKEN.finditer(text):
        if token["call"]:
            if depth or cases or text[start : token.start()].strip():
                raise _misplaced(token.start())
            opened, depth = _Call(token.start(), -1, -1), 1
        elif token["sign"] == "(":
            depth += 1
        elif token["sign"] == "," and depth == 1 and opened is not None:
            opened = opened._replace(comma=token.start())
        elif token["sign"] == ")":
            depth -= 1
            if depth == 0 and opened is not None:
                calls.append(opened._replace(end=token.start()))
                _number(text, calls[-1])
                opened = None
        elif token["word"] and depth == 0:
            word = token["word"].upper()
            cases += (word == "CASE") - (word == "END")
            if word == "OR" and not cases:
                bounds.append((token.start(), token.end()))
                start = token.end()
    if opened is not None:
        raise SubscriptionError("UTILITY is not closed", _HINT, position=opened.start)
    bounds.append((len(text), len(text)))
    for call in calls:
        end = next(end for end, _ in bounds if end > call.end)
        if text[call.end + 1 : end].strip():
            raise _misplaced(call.start)
    return calls, bounds


def _number(text: str, call: _Call) -> float:
    try:
        number = float(text[call.comma + 1 : call.end]) if call.comma >= 0 else math.nan
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise SubscriptionError("UTILITY has no number that is at least 0", _HINT, position=call.start)
    return number


def _misplaced(position: int) -> SubscriptionError:
    return SubscriptionError("UTILITY is not a whole alternative of the condition", _HINT, position=position)
