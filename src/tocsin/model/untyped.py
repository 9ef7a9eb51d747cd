"""Compare a string constant that reads as a number, a boolean or a time with values of every kind it reads as.

SQL leaves the type of a string constant open until it knows what stands beside it: `zip = '10115'` is meant for a zip
that is a text and for one that is a number. An index cannot wait: texts and numbers are columns of their own. So the
attribute is mapped into one order of texts, in which each kind has its own span, and the constant becomes one range in
the span of each kind that it reads as. Texts are mapped to themselves, since they are the common case.
"""

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tocsin.model.casts import Time, UndefinedError, cast, read_number, read_time
from tocsin.model.expression_tree import MARK, Call, Expression, derived_name, expression_of
from tocsin.model.values import Constant, Kind, Moment, Number, Scalar, compare_to_constant, kind_of, moment

HIGHEST = "\U0010ffff"
"""Begins the texts that stand for other values than texts."""
_TEXT, _BOOLEAN, _NUMBER, _TIME = "z", "b", "n", "t"
_UNTYPED = f'{MARK}["untyped",'
_EXPONENT = 10**19
"""Beyond every exponent of a decimal."""
_ZERO_TIME = 10**22
LONGEST_NUMBER = 1000
"""The most characters of a number; longer ones would cost quadratic time."""
_OPPOSITE_DIGITS = str.maketrans("0123456789", "9876543210")

SPANS: Mapping[Kind, tuple[tuple[str | None, str | None], ...]] = {
    Kind.STRING: ((None, HIGHEST), (HIGHEST + _TEXT, None)),
    Kind.BOOLEAN: ((HIGHEST + _BOOLEAN, HIGHEST + chr(ord(_BOOLEAN) + 1)),),
    Kind.NUMBER: ((HIGHEST + _NUMBER, HIGHEST + chr(ord(_NUMBER) + 1)),),
    Kind.TIME: ((HIGHEST + _TIME, HIGHEST + chr(ord(_TIME) + 1)),),
}
"""Where the texts of each kind lie: from the first, up to and without the second."""


def untyped_name(expression: Expression) -> str:
    """Return the derived attribute that has the values of an expression in one order of texts."""
    return derived_name(Call("untyped", (expression,)))


def is_untyped(attribute: str) -> bool:
    """Tell whether an attribute has values of all kinds in one order of texts."""
    return attribute.startswith(_UNTYPED)


def untyped_text(value: Any) -> str | None:
    """Return the text that stands for a value, as functions have it; None for a value of no kind.

    >>> untyped_text("10"), untyped_text(9) < untyped_text(10.5) < untyped_text(Decimal(11))
    ('10', True)
    """
    if isinstance(value, str):
        return HIGHEST + _TEXT + value if value[:1] == HIGHEST else value
    if isinstance(value, bool):
        return f"{HIGHEST}{_BOOLEAN}{value:d}"
    if isinstance(value, (int, float, Decimal)):
        return f"{HIGHEST}{_NUMBER}{_ordered(value)}"
    if isinstance(value, Time):
        return f"{HIGHEST}{_TIME}{value.microseconds + _ZERO_TIME:023}{value.nanoseconds:03}"
    return None


def _ordered(number: int | float | Decimal) -> str:
    """Return a text of a number: texts have the order of the numbers, and equal numbers one text."""
    if isinstance(number, float) and math.isinf(number):
        return "E" if number > 0 else "A"
    exact = Decimal(Number(number).exact)
    sign, digits, _ = exact.as_tuple()
    if not exact:
        return "C"
    text = f"{exact.adjusted() + _EXPONENT:020}" + "".join(map(str, digits)).rstrip("0")
    # A longer run of digits is farther from zero: the end of a negative one is greater than any digit.
    return f"B{text.translate(_OPPOSITE_DIGITS)}~" if sign else f"D{text}"


def typed_scalar(text: str) -> Scalar:
    """Return the string, number, boolean or time that a text stands for.

    >>> typed_scalar(untyped_text(Decimal("-10.50"))), typed_scalar(untyped_text(True))
    (Number(-10.5), True)
    """
    if text[:1] != HIGHEST or text == HIGHEST:
        return text
    kind, rest = text[1], text[2:]
    if kind == _TEXT:
        # The beginning of the span stands for the least of its strings.
        return rest or HIGHEST
    if kind == _BOOLEAN:
        return rest == "1"
    if kind == _TIME:
        return int(rest[:23]) - _ZERO_TIME
    if rest == "C":
        return Number(0)
    digits = rest[1:] if rest[0] == "D" else rest[1:-1].translate(_OPPOSITE_DIGITS)
    exact = Decimal(f"{'' if rest[0] == 'D' else '-'}{digits[20]}.{digits[21:]}e{int(digits[:20]) - _EXPONENT}")
    return Number(exact)


def readings(constant: Constant) -> dict[Kind, Constant]:
    """Return what a constant reads as, by kind: a string may read as a number, a boolean or a time too.

    >>> readings("1"), list(readings(1).values())
    ({<Kind.STRING: 'string'>: '1', <Kind.NUMBER: 'number'>: 1, <Kind.BOOLEAN: 'boolean'>: True}, [1])
    """
    kind = kind_of(constant)
    assert kind is not None, "a constant has a kind"
    found = {kind: constant}
    if isinstance(constant, str):
        for other in (Kind.NUMBER, Kind.BOOLEAN, Kind.TIME):
            value = read_as(constant, other)
            if value is not None:
                found[other] = value
    return found


def read_as(text: str, kind: Kind) -> Constant | None:
    """Return the constant of a kind that a string reads as, as SQL casts it; None if it reads as none.

    >>> read_as("2026-01-31", Kind.TIME), read_as(" 10 ", Kind.NUMBER), read_as("ten", Kind.NUMBER)
    (datetime.datetime(2026, 1, 31, 0, 0), 10, None)
    """
    if kind is Kind.STRING:
        return text
    try:
        if kind is Kind.NUMBER:
            return _read_number(text)
        if kind is Kind.BOOLEAN:
            return bool(cast(text, "BOOLEAN"))
        time = read_time(text)
        return None if time is None else dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=time.microseconds)
    except (UndefinedError, OverflowError):
        return None


def _read_number(text: str) -> Constant | None:
    if len(text) > LONGEST_NUMBER:
        return None
    exact = read_number(text, "DOUBLE")
    if "e" in text or "E" in text:
        nearest = float(exact)
        return None if math.isinf(nearest) else nearest
    return int(exact) if exact == exact.to_integral_value() else exact


def untyped_constants(constant: Constant) -> dict[Kind, str]:
    """Return the texts that stand for a constant, by kind."""
    return {
        kind: str(untyped_text(Time(*moment(value)) if isinstance(value, (dt.date, Moment)) else value))
        for kind, value in readings(constant).items()
    }


def compare_untyped(value: object, constant: Constant) -> int | None:
    """Compare a value with a constant as `compare_to_constant` does, with what the constant reads as for its kind.

    >>> compare_untyped(9, "10"), compare_untyped("9", "10"), compare_untyped(True, "10")
    (-1, 1, None)
    """
    kind = kind_of(value)
    if kind is not None and isinstance(constant, str):
        read = read_as(constant, kind)
        return None if read is None else compare_to_constant(value, read)
    return compare_to_constant(value, constant)


def source_of(attribute: str) -> str:
    """Return the attribute whose values an untyped attribute has in one order of texts."""
    expression = expression_of(attribute)
    assert isinstance(expression, Call), "it is derived"
    return derived_name(expression.operands[0])
