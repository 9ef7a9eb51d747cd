"""Turn a literal as written into the constant it means."""

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from enum import Enum

from tocsin.errors import SubscriptionError
from tocsin.model.untyped import LONGEST_NUMBER
from tocsin.model.values import Constant, Kind

_REFUSING = Context(traps=[InvalidOperation])
"""Raises for a text that is not a decimal, whatever the context of the process is. Reading never rounds."""


class Reading(Enum):
    """How to read a literal."""

    STRING = "string"
    NUMBER = "number"
    NEGATIVE = "negative number"
    DATE = "date"
    TIMESTAMP = "timestamp"

    @property
    def kind(self) -> Kind:
        """The kind of the constant that is read."""
        return _KINDS[self]


_KINDS = {
    Reading.STRING: Kind.STRING,
    Reading.NUMBER: Kind.NUMBER,
    Reading.NEGATIVE: Kind.NUMBER,
    Reading.DATE: Kind.TIME,
    Reading.TIMESTAMP: Kind.TIME,
}


@dataclass(frozen=True, slots=True)
class LiteralSource:
    """Where the value of a slot comes from: the number of a literal of the text, and how to read it."""

    literal: int
    reading: Reading


def unquote(literal: str) -> str:
    """Return the string that a string literal means.

    >>> unquote("'O''Brien'")
    "O'Brien"
    """
    return literal[1:-1].replace("''", "'")


def number(literal: str) -> int | Decimal | float:
    """Return the number that a number literal means: exact, unless it has an exponent.

    >>> number("10"), number("2.5"), number("1e3")
    (10, Decimal('2.5'), 1000.0)
    """
    if len(literal) > LONGEST_NUMBER:
        raise SubscriptionError(f"a number has {len(literal)} characters", f"The longest may have {LONGEST_NUMBER}")
    try:
        if literal.isdigit():
            return int(literal)
        if "e" in literal or "E" in literal:
            value = float(literal)
            if math.isinf(value):
                raise SubscriptionError(f"{literal} is beyond every float64", "Write a finite number")
            return value
        return Decimal(literal, _REFUSING) if "." in literal else int(literal)
    except (ValueError, InvalidOperation):
        raise SubscriptionError(
            f"{literal!r} is not a number", "Write it as 10, 2.5 or 1e3, with a space after it"
        ) from None


def read(literal: str, reading: Reading) -> Constant:
    """Return the constant that a literal means under a reading.

    >>> read("'2026-01-31'", Reading.DATE)
    datetime.date(2026, 1, 31)
    """
    if reading is Reading.STRING:
        return unquote(literal)
    if reading is Reading.NUMBER:
        return number(literal)
    if reading is Reading.NEGATIVE:
        value = number(literal)
        # A minus sign before a Decimal would round it.
        return value.copy_negate() if isinstance(value, Decimal) else -value
    text = unquote(literal).strip()
    try:
        return dt.date.fromisoformat(text) if reading is Reading.DATE else dt.datetime.fromisoformat(text)
    except ValueError:
        example = "2026-01-31" if reading is Reading.DATE else "2026-01-31 12:00:00+00:00"
        raise SubscriptionError(f"{literal} is not a {reading.value}", f"Write it as '{example}'") from None
