"""Define the kinds of values, and how values of one kind compare.

A *kind* is a set of values that compare with each other: all numbers, all strings, both booleans, all points in time.
A comparison of two kinds is NULL. Within a kind, values compare exactly:

- numbers by value, whatever their type: ``1 == 1.0 == Decimal(1)``, and 2**53 + 1 is not a float. The value of a
  float64 with a fraction is the shortest decimal that reads as it: 19.99 is the decimal 19.99, which keeps the order of
  floats and makes every comparison with a literal agree with every other;
- strings by code point;
- dates are their midnight, timestamps with a zone are converted to UTC, those without one are taken as UTC. Literals
  are whole microseconds; an event's timestamp may be finer, and then lies between two of them.
"""

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import total_ordering

Constant = bool | int | float | Decimal | str | dt.date | dt.datetime
"""What a user may write as a literal in a condition."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as tables have it: finer than a datetime, and with years beyond 9999."""

    microseconds: int
    """Since 1970 in UTC."""
    nanoseconds: int = 0
    """Those beyond the microseconds."""


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_EXACT_DIGITS = 15
"""Every decimal of so many digits, and no exponent, is the shortest that reads as its float64."""


class Kind(Enum):
    """A set of values that compare with each other."""

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    TIME = "time"
    ANY = "any"
    """Presence alone: every value that is not NULL. No constant has this kind."""

    # Kinds are keys wherever predicates are merged, and the hash of an Enum is a function in Python.
    __hash__ = object.__hash__

    def __lt__(self, other: "Kind") -> bool:
        return self.value < other.value


@total_ordering
class Number:
    """A number constant: a float64 that means its shortest decimal, or an integer or decimal that is not a float64.

    Compared with a float it is `nearest`, if `is_float`; in every other comparison it is `exact`.
    """

    __slots__ = ("exact", "nearest")

    def __init__(self, literal: int | float | Decimal) -> None:
        self.nearest = nearest = nearest_float(literal)
        self.exact: int | Decimal
        if isinstance(literal, Decimal):
            # Only what is nearest to a whole number, or beyond all floats, can be one.
            may_be_whole = nearest.is_integer() or math.isinf(nearest)
            self.exact = int(literal) if may_be_whole and literal == literal.to_integral_value() else literal
        elif isinstance(literal, float):
            self.exact = int(literal) if literal.is_integer() else Decimal(repr(literal))
        else:
            self.exact = literal

    @property
    def is_float(self) -> bool:
        """Whether `nearest` stands for this number in a comparison with a float."""
        if isinstance(self.exact, int):
            return self.nearest == self.exact
        digits = str(self.exact)
        if len(digits) <= _EXACT_DIGITS and "E" not in digits:
            return True
        return not math.isinf(self.nearest) and Decimal(repr(self.nearest)) == self.exact

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.exact == other.exact

    def __lt__(self, other: "Number") -> bool:
        return self.exact < other.exact

    def __hash__(self) -> int:
        return hash(self.exact)

    def __repr__(self) -> str:
        return f"Number({self.exact})"


def nearest_float(number: int | float | Decimal) -> float:
    """Return the float64 nearest to a number; infinity beyond all of them."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


Scalar = Number | str | bool | int
"""A constant in the form in which it is compared: a Number, a string, a boolean, or microseconds since 1970 in UTC."""


def kind_of(value: object) -> Kind | None:
    """Return the kind of a Python value; None for NULL, NaN and values that do not compare (lists, bytes, dicts)."""
    if isinstance(value, str):
        return Kind.STRING
    if isinstance(value, Decimal):
        return None if value.is_nan() else Kind.NUMBER
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, int):
        return Kind.NUMBER
    if isinstance(value, float):
        return None if math.isnan(value) else Kind.NUMBER
    if isinstance(value, (dt.date, Moment)):
        return None if is_null(value) else Kind.TIME
    return None


def is_null(value: object) -> bool:
    """Tell whether an event's value counts as missing: None, NaN, and the NaT of pandas, which is a datetime."""
    return (
        value is None
        or (isinstance(value, dt.date) and value != value)
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, Decimal) and value.is_nan())
    )


def microseconds(value: dt.date | Moment) -> int:
    """Return a date or timestamp as microseconds since 1970 in UTC.

    >>> microseconds(dt.date(1970, 1, 2))
    86400000000
    """
    if isinstance(value, Moment):
        return value.microseconds
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    return (value - _EPOCH) // _MICROSECOND


def moment(value: dt.date | Moment) -> tuple[int, int]:
    """Return a date or timestamp as microseconds since 1970 in UTC, and the nanoseconds beyond (of pandas)."""
    if isinstance(value, Moment):
        return value.microseconds, value.nanoseconds
    return microseconds(value), getattr(value, "nanosecond", 0)


def scalar(constant: Constant) -> Scalar:
    """Return a literal in the form in which it is compared."""
    if isinstance(constant, (bool, str)):
        return constant
    if isinstance(constant, (int, float, Decimal)):
        return Number(constant)
    return microseconds(constant)


def identity(value: object) -> object:
    """Return a key that is equal for two constants exactly if every value compares with both in the same way.

    Python's own equality cannot serve: 1 equals True there, and 0.1 differs from Decimal("0.1"). A tuple is one of
    identities; what is not a constant is returned as it is.

    >>> identity(1) == identity(True), identity(0.1) == identity(Decimal("0.1"))
    (False, True)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return Number(value).exact
    if isinstance(value, (bool, dt.date)):
        # As scalars both are integers, and so are numbers.
        return kind_of(value), scalar(value)
    return tuple(map(identity, value)) if isinstance(value, tuple) else value


def compare_to_constant(value: object, constant: Constant) -> int | None:
    """Return -1, 0 or 1 as the event's value is less than, equal to or greater than the constant, or None.

    It is None if they do not compare.

    >>> compare_to_constant(19.99, Decimal("19.99")), compare_to_constant(2**53 + 1, float(2**53))
    (0, 1)
    """
    kind = kind_of(value)
    if kind is None or kind is not kind_of(constant):
        return None
    if kind is Kind.NUMBER:
        number = Number(constant)  # type: ignore[arg-type]  # the kind says so
        if isinstance(value, float):
            return _sign(value, number.nearest) if number.is_float else _sign(Number(value).exact, number.exact)
        return _sign(value, number.exact)
    if kind is Kind.TIME:
        return _sign(moment(value), moment(constant))  # type: ignore[arg-type]  # the kind says so
    return _sign(value, constant)


def compare_values(left: object, right: object) -> int | None:
    """Return -1, 0 or 1 as two values of events compare; None if they do not.

    >>> compare_values(1, 1.0), compare_values("a", 1)
    (0, None)
    """
    if type(left) is float and type(right) is float and left == left and right == right:
        return _sign(left, right)
    kind = kind_of(left)
    if kind is None or kind is not kind_of(right):
        return None
    if kind is Kind.TIME:
        return _sign(moment(left), moment(right))  # type: ignore[arg-type]  # the kind says so
    if isinstance(left, float) and isinstance(right, Decimal):
        left = Number(left).exact
    elif isinstance(left, Decimal) and isinstance(right, float):
        right = Number(right).exact
    return _sign(left, right)


def _sign(left: object, right: object) -> int:
    if left == right:
        return 0
    return -1 if left < right else 1  # type: ignore[operator]  # values of one kind have an order
