"""Conversions between numbers, texts, booleans and times, as `CAST` makes them."""

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException, InvalidOperation
from typing import Any, NamedTuple

from tocsin.model.civil import DAY, HOUR, MINUTE, SECOND, civil, days_of
from tocsin.model.values import nearest_float

DIGITS = 38
"""The most digits of an exact result."""
BOUND = 10**DIGITS
_WIDE = Context(prec=400, traps=[InvalidOperation])


_YEAR_1, _YEAR_10000 = days_of(1, 1, 1) * DAY, days_of(10_000, 1, 1) * DAY


class UndefinedError(ArithmeticError):
    """An expression has no value for this event; the message says why."""


class Time(NamedTuple):
    """A point in time, which remembers whether it was a date."""

    microseconds: int
    nanoseconds: int = 0
    is_date: bool = False


def kind_name(value: Any) -> str:
    """Return what kind of a value it is, for messages."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, Time):
        return "a time"
    return "a number" if isinstance(value, (int, float, Decimal)) else "a value of no kind"


def half_away(value: float) -> float:
    """Round to the nearest whole number, halves away from zero.

    >>> half_away(2.5), half_away(-0.5), half_away(0.49999999999999994)
    (3.0, -1.0, 0.0)
    """
    if not math.isfinite(value):
        return value
    whole = math.trunc(value)
    return float(whole) + (math.copysign(1.0, value) if abs(value - whole) >= 0.5 else 0.0)


def rounded_to(value: Decimal, places: int) -> Decimal:
    """Round to decimal places, halves away from zero."""
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _WIDE)


_INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (1 - BOUND, BOUND - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
}
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "1", "yes", "y"), True),
    **dict.fromkeys(("false", "f", "0", "no", "n"), False),
}
_NUMBER_TEXT = re.compile(r"[+-]?([0-9]+(_[0-9]+)*\.?([0-9]+(_[0-9]+)*)?|\.[0-9]+)([eE][+-]?[0-9]{1,5})?")
_TIME_TEXT = re.compile(
    r"(\d{1,6})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d{1,2}(?::?\d{2})?)?)?",
    re.A,
)
TYPES = (*_INTEGERS, "DOUBLE", "DECIMAL", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP")
"""The types that a value can be cast to."""


def cast(value: Any, type_: str) -> Any:
    """Convert a value to another type, or raise UndefinedError.

    >>> cast("12.5", "INTEGER"), cast(2.5, "INTEGER"), cast(True, "VARCHAR"), cast(1.255, "DECIMAL(5,2)")
    (13, 2, 'true', Decimal('1.25'))
    """
    try:
        if type_ in _INTEGERS:
            return _to_integer(value, type_)
        if type_.startswith("DECIMAL"):
            width, scale = map(int, type_[8:-1].split(","))
            return _to_decimal(value, width, scale, type_)
        return _CASTS[type_](value)
    except (DecimalException, OverflowError, ValueError):
        raise _no_cast(value, type_) from None


def _no_cast(value: Any, type_: str) -> UndefinedError:
    return UndefinedError(f"{kind_name(value)} that is no {type_}")


def _to_integer(value: Any, type_: str) -> int:
    if isinstance(value, str):
        number = int(rounded_to(read_number(value, type_), 0))
    elif isinstance(value, Decimal):
        number = int(rounded_to(value, 0))
    elif isinstance(value, (int, float)):
        # Halves of floats go to the even number, as processors round.
        number = round(value)
    else:
        raise _no_cast(value, type_)
    low, high = _INTEGERS[type_]
    if not low <= number <= high:
        raise _no_cast(value, type_)
    return int(number)


def read_number(text: str, type_: str) -> Decimal:
    """Return the number that a text means, or raise UndefinedError."""
    stripped = text.strip(" \t\n\v\f\r")
    if not _NUMBER_TEXT.fullmatch(stripped):
        raise _no_cast(text, type_)
    return Decimal(stripped)


def _to_decimal(value: Any, width: int, scale: int, type_: str) -> Decimal:
    if isinstance(value, str):
        exact = read_number(value, type_)
    elif isinstance(value, float):
        exact = Decimal(half_away(value * 10.0**scale)).scaleb(-scale, _WIDE)
    elif isinstance(value, (int, Decimal)):
        exact = Decimal(value)
    else:
        raise _no_cast(value, type_)
    rounded = rounded_to(exact, scale)
    if abs(rounded) >= Decimal(10) ** (width - scale):
        raise _no_cast(value, type_)
    return rounded


def _to_double(value: Any) -> float:
    if isinstance(value, str):
        text = value.strip(" \t\n\v\f\r").lower()
        if text.lstrip("+-") in ("inf", "infinity", "nan"):
            return float(text)
        return float(read_number(value, "DOUBLE"))
    if isinstance(value, (int, float, Decimal)):
        return nearest_float(value)
    raise _no_cast(value, "DOUBLE")


def to_text(value: Any) -> str:
    """Return a value as the text that it is cast to."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Time):
        return _time_text(value)
    raise _no_cast(value, "VARCHAR")


def _time_text(value: Time) -> str:
    year, month, day = civil(value.microseconds // DAY)
    era = ""
    if year < 1:
        year, era = 1 - year, " (BC)"
    text = f"{year:04}-{month:02}-{day:02}{era}"
    if value.is_date:
        return text
    time = value.microseconds % DAY
    fraction = f".{time % SECOND:06}{value.nanoseconds:03}".rstrip("0").rstrip(".")
    clock = f"{time // HOUR:02}:{time // MINUTE % 60:02}:{time // SECOND % 60:02}{fraction}"
    return f"{text.removesuffix(era)} {clock}{era}"


def comparable_text(value: Any, format_: str) -> str:
    """Return a string as it is, and a time as a text that compares with texts of a format as the times do.

    >>> comparable_text(Time(0), "date"), comparable_text(Time(1), "date"), comparable_text(Time(0), "timestamp")
    ('1970-01-01', '1970-01-01 00:00:00.000001', '1970-01-01 00:00:00')
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, Time) or not _YEAR_1 <= value.microseconds < _YEAR_10000:
        raise UndefinedError(f"{kind_name(value)} is compared with a text")
    is_midnight = not value.microseconds % DAY and not value.nanoseconds
    return _time_text(value._replace(is_date=is_midnight and format_ == "date"))


def _to_boolean(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    if isinstance(value, (int, float, Decimal)):
        return bool(value)
    raise _no_cast(value, "BOOLEAN")


def _to_date(value: Any) -> Time:
    time = read_time(value) if isinstance(value, str) else value
    if not isinstance(time, Time):
        raise _no_cast(value, "DATE")
    return Time(time.microseconds // DAY * DAY, 0, True)


def _to_timestamp(value: Any) -> Time:
    time = read_time(value) if isinstance(value, str) else value
    if not isinstance(time, Time):
        raise _no_cast(value, "TIMESTAMP")
    return Time(time.microseconds, time.nanoseconds)


def read_time(text: str) -> Time | None:
    """Return the time that a text means, as ISO 8601 and SQL write it; UTC if no zone is given. None: it means none.

    >>> read_time("1970-01-01 01:00+01:00"), read_time("no time")
    (Time(microseconds=0, nanoseconds=0, is_date=False), None)
    """
    found = _TIME_TEXT.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day = map(int, found.group(1, 2, 3))
    if not (1 <= month <= 12 and day >= 1 and civil(days_of(year, month, day)) == (year, month, day)):
        return None
    microseconds = days_of(year, month, day) * DAY
    if found[4] is None:
        return Time(microseconds, 0, True)
    hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = (found[7] or "").ljust(9, "0")
    microseconds += hour * HOUR + minute * MINUTE + second * SECOND + int(fraction[:6])
    if found[8] and found[8] != "Z":
        hours, minutes = int(found[8][1:3].rstrip(":")), int(found[8][3:].strip(":") or 0)
        microseconds -= (hours * HOUR + minutes * MINUTE) * (-1 if found[8][0] == "-" else 1)
    return Time(microseconds, int(fraction[6:]))


_CASTS: dict[str, Callable[[Any], Any]] = {
    "DOUBLE": _to_double,
    "VARCHAR": to_text,
    "BOOLEAN": _to_boolean,
    "DATE": _to_date,
    "TIMESTAMP": _to_timestamp,
}


def try_cast(value: Any, type_: str) -> Any:
    """Convert a value to another type; NULL if that is not possible."""
    try:
        return cast(value, type_)
    except UndefinedError:
        return None
