"""The functions of expressions, one row at a time: the definition that vectors are tested against, and DuckDB judges.

A value is an int, a Decimal, a float, a string, a boolean, a `Time`, a list, or None for NULL; `...` is one that is
there and of no kind. Integers and decimals are exact: a result of more than 38 digits is an overflow. As soon as a
float takes part, the result is a float. `/` always divides floats, so that 1 / 2 is 0.5 and 1 / 0 is infinite; a result
that is not a number is NULL.

What has no value (an overflow, a remainder by zero, a text that is not the number that it is cast to, a value of
another kind than the function takes) raises `UndefinedError`: then the whole expression is NULL, and it is counted.
"""

import datetime as dt
import math
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any

from tocsin.model.analyzer import WORDS, words_text
from tocsin.model.casts import (
    BOUND,
    DIGITS,
    Time,
    UndefinedError,
    cast,
    comparable_text,
    half_away,
    kind_name,
    rounded_to,
    to_text,
    try_cast,
)
from tocsin.model.civil import DAY, PARTS, SECOND, add_months, boundaries, truncated, whole_units
from tocsin.model.expression_tree import NOW, AttributeValue, Call, ConstantValue, Expression
from tocsin.model.ip_addresses import address_order
from tocsin.model.places import point
from tocsin.model.text import like, lower
from tocsin.model.untyped import untyped_text
from tocsin.model.values import Kind, Moment, compare_values, kind_of, moment, nearest_float

_EXACT = Context(prec=DIGITS, traps=[Inexact, InvalidOperation])
_GREATEST_TIME = (1 << 63) - 1


def as_operand(value: object, is_date: bool = False) -> Any:
    """Return a value of an event as functions take it."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, Decimal):
        return None if value.is_nan() else value if value.is_finite() else float(value)
    if isinstance(value, (dt.date, Moment)):
        if value != value:
            return None
        return Time(*moment(value), is_date or (isinstance(value, dt.date) and not isinstance(value, dt.datetime)))
    return list(value) if isinstance(value, (list, tuple)) else ...


def as_value(value: Any) -> Any:
    """Return the result of a function as events have it."""
    if isinstance(value, Time):
        return Moment(value.microseconds, value.nanoseconds)
    return None if isinstance(value, float) and math.isnan(value) else value


def evaluate(expression: Expression, value_of: Callable[[str], Any]) -> Any:
    """Return the value of an expression as functions have it, given those of attributes; or raise UndefinedError.

    >>> evaluate(Call("+", (AttributeValue("a"), ConstantValue(Decimal("0.5")))), {"a": 1}.get)
    Decimal('1.5')
    """
    if isinstance(expression, AttributeValue):
        return value_of(expression.name)
    if isinstance(expression, ConstantValue):
        return as_operand(expression.value)
    function = FUNCTIONS[expression.function]
    if function.lazy:
        return function.call(expression, value_of)
    operands = [evaluate(operand, value_of) for operand in expression.operands]
    if None in operands and not function.takes_null:
        return None
    result = function.call(*operands, expression.detail) if function.detailed else function.call(*operands)
    return None if isinstance(result, float) and math.isnan(result) else result


# Numbers


def _number(value: Any, function: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise UndefinedError(f"{function} of {kind_name(value)}")
    return value


def _whole(value: Any, function: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UndefinedError(f"{function} wants an integer")
    return value


def _bounded(value: int) -> int:
    if not -BOUND < value < BOUND:
        raise UndefinedError("overflow")
    return value


def _arithmetic(
    sign: str, of_integers: Callable[[int, int], int], of_decimals: Any, of_floats: Callable[[float, float], float]
) -> Callable[[Any, Any], Any]:
    def compute(left: Any, right: Any) -> Any:
        if isinstance(left, Time) or isinstance(right, Time):
            return _with_days(sign, left, right)
        _number(left, sign)
        _number(right, sign)
        if isinstance(left, float) or isinstance(right, float):
            return of_floats(nearest_float(left), nearest_float(right))
        if isinstance(left, Decimal) or isinstance(right, Decimal):
            try:
                return of_decimals(Decimal(left), Decimal(right))
            except DecimalException:
                raise UndefinedError("overflow") from None
        return _bounded(of_integers(left, right))

    return compute


def _with_days(sign: str, left: Any, right: Any) -> Any:
    """A date plus or minus whole days, and the days between two dates."""
    if sign == "-" and isinstance(left, Time) and isinstance(right, Time) and left.is_date and right.is_date:
        return left.microseconds // DAY - right.microseconds // DAY
    if sign == "+" and isinstance(right, Time):
        left, right = right, left
    if sign in "+-" and isinstance(left, Time) and left.is_date and isinstance(right, int) and right is not True:
        return _time(left.microseconds + (right if sign == "+" else -right) * DAY, 0, True)
    raise UndefinedError(f"{sign} of a time")


def _time(microseconds: int, nanoseconds: int = 0, is_date: bool = False) -> Time:
    if not -_GREATEST_TIME <= microseconds <= _GREATEST_TIME:
        raise UndefinedError("overflow")
    return Time(microseconds, nanoseconds, is_date)


def _float_product(left: float, right: float) -> float:
    return left * right


def divide(left: Any, right: Any) -> float:
    """Divide as floats do: by zero is infinite, and NaN for zero."""
    dividend, divisor = nearest_float(_number(left, "/")), nearest_float(_number(right, "/"))
    if divisor:
        return dividend / divisor
    if not dividend:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def _divide_whole(left: Any, right: Any) -> int | float:
    """Divide integers without a rest, towards zero; all other numbers as floats."""
    if _number(right, "//") == 0:
        raise UndefinedError("a division by zero")
    if type(_number(left, "//")) is not int or type(right) is not int:
        return divide(left, right)
    quotient: int = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _integer_remainder(left: int, right: int) -> int:
    if right == 0:
        raise UndefinedError("a remainder by zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _decimal_remainder(left: Decimal, right: Decimal) -> Decimal:
    if not right:
        raise UndefinedError("a remainder by zero")
    return _EXACT.remainder(left, right)


def _float_remainder(left: float, right: float) -> float:
    try:
        return math.fmod(left, right)
    except ValueError:
        return math.nan


def _negative(value: Any) -> Any:
    return _EXACT.minus(value) if isinstance(_number(value, "-"), Decimal) else -value


def _absolute(value: Any) -> Any:
    return value.copy_abs() if isinstance(_number(value, "abs"), Decimal) else abs(value)


def _sign(value: Any) -> int:
    number = _number(value, "sign")
    return int(number > 0) - int(number < 0)


def _floor(value: Any) -> Any:
    return _integral(_number(value, "floor"), ROUND_FLOOR, math.floor)


def _ceil(value: Any) -> Any:
    return _integral(_number(value, "ceil"), ROUND_CEILING, math.ceil)


def _integral(value: Any, rounding: str, of_float: Callable[[float], int]) -> Any:
    if isinstance(value, Decimal):
        return int(value.to_integral_value(rounding))
    if isinstance(value, float) and math.isfinite(value):
        return math.copysign(float(of_float(value)), value)
    return value


def _round(value: Any, places: Any = 0) -> Any:
    _number(value, "round")
    places = _whole(places, "round")
    if isinstance(value, float):
        return round_float(value, places)
    if places < -2 * DIGITS:
        return 0
    if isinstance(value, int):
        return value if places >= 0 else _bounded(int(rounded_to(Decimal(value), places)))
    return value if -value.as_tuple().exponent <= places else rounded_to(value, places)


def round_float(value: float, places: int) -> float:
    """Round a float to decimal places as DuckDB does: scaled, rounded, and scaled back."""
    scale = math.pow(10.0, abs(places)) if abs(places) <= 308 else math.inf
    scaled = half_away(value * scale if places >= 0 else value / scale)
    rounded = scaled / scale if places >= 0 else scaled * scale
    if math.isfinite(rounded):
        return rounded
    return value if places >= 0 else 0.0


# Texts

_SPACES = "".join(c for c in map(chr, range(0x10000)) if unicodedata.category(c) == "Zs")
_UPPER = {
    "ß": "ẞ",
    **{chr(code): chr(code + 8) for first in (0x1F80, 0x1F90, 0x1FA0) for code in range(first, first + 8)},
    **{chr(code): chr(code + 9) for code in (0x1FB3, 0x1FC3, 0x1FF3)},
}


def _text(value: Any, function: str) -> str:
    if not isinstance(value, str):
        raise UndefinedError(f"{function} of {kind_name(value)}")
    return value


def upper(text: str) -> str:
    """Return `text` in upper case, code point by code point, as DuckDB's upper() does: none becomes several.

    >>> upper("straße ﬁt")
    'STRAẞE ﬁT'
    """
    if text.isascii():
        return text.upper()
    return "".join(
        _UPPER.get(character) or (character.upper() if len(character.upper()) == 1 else character) for character in text
    )


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else len(_text(value, "length"))


def _substring(value: Any, start: Any, length: Any = ...) -> str:
    text, start = _text(value, "substring"), _whole(start, "substring")
    first = start - 1 if start >= 0 else len(text) + start
    last = len(text) if length is ... else first + _whole(length, "substring")
    if last < first:
        first, last = last, first
        if length is ...:
            return ""
    return text[max(first, 0) : max(last, 0)]


def _split_part(value: Any, separator: Any, number: Any) -> str:
    text, by, number = _text(value, "split_part"), _text(separator, "split_part"), _whole(number, "split_part")
    parts = text.split(by) if by else list(text)
    place = number - 1 if number > 0 else number
    return parts[place] if number and -len(parts) <= place < len(parts) else ""


def _replace(value: Any, old: Any, new: Any) -> str:
    text, old, new = (_text(each, "replace") for each in (value, old, new))
    return text.replace(old, new) if old else text


def _trimmer(trim: Callable[[str, str], str], name: str) -> Callable[..., str]:
    return lambda value, characters=_SPACES: trim(_text(value, name), _text(characters, name))


def _concat(*values: Any) -> str:
    return "".join(to_text(value) for value in values if value is not None)


def _like(value: Any, pattern: Any, escape: Any = None) -> bool:
    return like(_text(pattern, "LIKE"), escape)(_text(value, "LIKE"))


def _ilike(value: Any, pattern: Any, escape: Any = None) -> bool:
    return like(_text(pattern, "ILIKE"), escape, ignore_case=True)(_text(value, "ILIKE"))


def _test(name: str, test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, other: test(_text(value, name), _text(other, name))


# Times


def _part(value: Any, part: str) -> Any:
    if not isinstance(value, Time):
        raise UndefinedError(f"{part} of {kind_name(value)}")
    if part == "epoch":
        return value.microseconds / SECOND
    return PARTS[part](value.microseconds)


def _truncate(value: Any, unit: str) -> Time:
    if not isinstance(value, Time):
        raise UndefinedError(f"date_trunc of {kind_name(value)}")
    return _time(truncated(unit, value.microseconds))


def _boundaries(start: Any, end: Any, unit: str) -> int:
    if not isinstance(start, Time) or not isinstance(end, Time):
        raise UndefinedError(f"date_diff of {kind_name(end if isinstance(start, Time) else start)}")
    count: int = boundaries(unit, start.microseconds, end.microseconds)
    return count


def _whole_units(start: Any, end: Any, unit: str) -> int:
    if not isinstance(start, Time) or not isinstance(end, Time):
        raise UndefinedError(f"date_sub of {kind_name(end if isinstance(start, Time) else start)}")
    count: int = whole_units(unit, start.microseconds, end.microseconds)
    return count


def _elapsed(start: Any, end: Any) -> int | Decimal:
    """The microseconds between two times, with a fraction where one is finer."""
    if not isinstance(start, Time) or not isinstance(end, Time):
        raise UndefinedError(f"a time is compared with {kind_name(end if isinstance(start, Time) else start)}")
    whole, beyond = end.microseconds - start.microseconds, end.nanoseconds - start.nanoseconds
    return whole + Decimal(beyond).scaleb(-3) if beyond else whole


def interval_of(detail: str) -> tuple[int, int]:
    """Return the months and the microseconds of an interval, as `Call.detail` has it."""
    months, microseconds = map(int, detail.split())
    return months, microseconds


def _shift(value: Any, detail: str) -> Time:
    if not isinstance(value, Time):
        raise UndefinedError(f"{kind_name(value)} plus an interval")
    months, microseconds = interval_of(detail)
    time = add_months(value.microseconds, months) if months else value.microseconds
    return _time(time + microseconds, value.nanoseconds)


# Conditions and choices


def sign_of(left: Any, right: Any) -> int | None:
    """Compare two values as conditions do: None if they are of different kinds."""
    return compare_values(as_value(left), as_value(right))


def _comparison(signs: set[int]) -> Callable[[Any, Any], bool | None]:
    def compare(left: Any, right: Any) -> bool | None:
        sign = sign_of(left, right)
        return None if sign is None else sign in signs

    return compare


def _best(wanted: int, name: str) -> Callable[..., Any]:
    def best(*values: Any) -> Any:
        chosen = None
        for value in values:
            if value is None:
                continue
            if chosen is not None:
                sign = sign_of(value, chosen)
                if sign is None:
                    raise UndefinedError(f"{name} of values of different kinds")
                if sign != wanted:
                    continue
            chosen = value
        return chosen

    return best


def _elements(value: Any, function: str) -> list[Any]:
    """The elements of a list that are not NULL."""
    if not isinstance(value, list):
        raise UndefinedError(f"{function} of {kind_name(value)}")
    return [element for element in map(as_operand, value) if element is not None]


def _best_element(wanted: int, name: str) -> Callable[[Any], Any]:
    best = _best(wanted, name)
    return lambda value: best(*_elements(value, name))


def _null_if(value: Any, other: Any) -> Any:
    return None if value is not None and other is not None and sign_of(value, other) == 0 else value


def _truth(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise UndefinedError(f"{kind_name(value)} for a condition")
    return value


def _coalesce(call: Call, value_of: Callable[[str], Any]) -> Any:
    for operand in call.operands:
        value = evaluate(operand, value_of)
        if value is not None:
            return value
    return None


def _case(call: Call, value_of: Callable[[str], Any]) -> Any:
    *branches, otherwise = call.operands
    for condition, value in zip(branches[::2], branches[1::2], strict=True):
        if _truth(evaluate(condition, value_of)):
            return evaluate(value, value_of)
    return evaluate(otherwise, value_of)


def _connect(decisive: bool) -> Callable[[Call, Callable[[str], Any]], bool | None]:
    def connect(call: Call, value_of: Callable[[str], Any]) -> bool | None:
        result: bool | None = not decisive
        for operand in call.operands:
            truth = _truth(evaluate(operand, value_of))
            if truth is decisive:
                return decisive
            result = None if truth is None else result
        return result

    return connect


def _not(value: Any) -> bool:
    return not _truth(value)


@dataclass(frozen=True, slots=True)
class Function:
    """How a function is computed, the kind of its result (None: that of its operands) and that of its operands."""

    call: Callable[..., Any]
    kind: Kind | None
    takes: Kind | None = None
    detailed: bool = False
    """Whether it takes the detail of the call."""
    takes_null: bool = False
    """Whether it is called with NULL; for all others one NULL makes the result NULL."""
    lazy: bool = False
    """Whether it evaluates its operands itself, and not all of them."""


_N, _S, _B, _T = Kind.NUMBER, Kind.STRING, Kind.BOOLEAN, Kind.TIME

FUNCTIONS: dict[str, Function] = {
    "+": Function(_arithmetic("+", lambda a, b: a + b, _EXACT.add, lambda a, b: a + b), None, _N),
    "-": Function(_arithmetic("-", lambda a, b: a - b, _EXACT.subtract, lambda a, b: a - b), None, _N),
    "*": Function(_arithmetic("*", lambda a, b: a * b, _EXACT.multiply, _float_product), _N, _N),
    "/": Function(divide, _N, _N),
    "//": Function(_divide_whole, _N, _N),
    "%": Function(_arithmetic("%", _integer_remainder, _decimal_remainder, _float_remainder), _N, _N),
    "negative": Function(_negative, _N, _N),
    "abs": Function(_absolute, _N, _N),
    "sign": Function(_sign, _N, _N),
    "floor": Function(_floor, _N, _N),
    "ceil": Function(_ceil, _N, _N),
    "round": Function(_round, _N, _N),
    "cast": Function(cast, None, None, detailed=True),
    "try_cast": Function(try_cast, None, None, detailed=True),
    "comparable": Function(comparable_text, _S, None, detailed=True),
    "untyped": Function(untyped_text, _S, None),
    "lower": Function(lambda value: lower(_text(value, "lower")), _S, _S),
    "upper": Function(lambda value: upper(_text(value, "upper")), _S, _S),
    "length": Function(_length, _N),
    "list_count": Function(lambda value: len(_elements(value, "list_count")), _N),
    "list_max": Function(_best_element(1, "list_max"), None),
    "list_min": Function(_best_element(-1, "list_min"), None),
    "trim": Function(_trimmer(str.strip, "trim"), _S, _S),
    "ltrim": Function(_trimmer(str.lstrip, "ltrim"), _S, _S),
    "rtrim": Function(_trimmer(str.rstrip, "rtrim"), _S, _S),
    "substring": Function(_substring, _S, _S),
    "replace": Function(_replace, _S, _S),
    WORDS: Function(words_text, _S, _S, detailed=True),
    "concat": Function(_concat, _S, None, takes_null=True),
    "||": Function(_concat, _S, None),
    "split_part": Function(_split_part, _S, _S),
    "ip_order": Function(lambda value: address_order(_text(value, "ip_order")), _S, _S),
    "point": Function(point, None, _N),
    "starts_with": Function(_test("starts_with", str.startswith), _B, _S),
    "ends_with": Function(_test("ends_with", str.endswith), _B, _S),
    "contains": Function(_test("contains", str.__contains__), _B, _S),
    "like": Function(_like, _B, _S),
    "ilike": Function(_ilike, _B, _S),
    "extract": Function(_part, _N, _T, detailed=True),
    "date_trunc": Function(_truncate, _T, _T, detailed=True),
    "date_diff": Function(_boundaries, _N, _T, detailed=True),
    "date_sub": Function(_whole_units, _N, _T, detailed=True),
    "elapsed": Function(_elapsed, _N, _T),
    "shift": Function(_shift, _T, _T, detailed=True),
    "<": Function(_comparison({-1}), _B),
    "<=": Function(_comparison({-1, 0}), _B),
    "=": Function(_comparison({0}), _B),
    "<>": Function(_comparison({-1, 1}), _B),
    ">=": Function(_comparison({0, 1}), _B),
    ">": Function(_comparison({1}), _B),
    "and": Function(_connect(False), _B, _B, lazy=True),
    "or": Function(_connect(True), _B, _B, lazy=True),
    "not": Function(_not, _B, _B),
    "is_null": Function(lambda value: value is None, _B, takes_null=True),
    "is_true": Function(lambda value: _truth(value) is True, _B, _B, takes_null=True),
    "is_false": Function(lambda value: _truth(value) is False, _B, _B, takes_null=True),
    "coalesce": Function(_coalesce, None, lazy=True),
    "nullif": Function(_null_if, None, takes_null=True),
    "greatest": Function(_best(1, "greatest"), None, takes_null=True),
    "least": Function(_best(-1, "least"), None, takes_null=True),
    "case": Function(_case, None, lazy=True),
}
"""Every function of expressions by its name in `Call`."""

_KINDS_OF_TYPES = {"VARCHAR": _S, "BOOLEAN": _B, "DATE": _T, "TIMESTAMP": _T}


def result_kind(expression: Expression) -> Kind | None:
    """Return the kind of every value of an expression, if it is known before there is an event."""
    if isinstance(expression, ConstantValue):
        return kind_of(expression.value)
    if isinstance(expression, AttributeValue):
        return None
    if expression.function in ("cast", "try_cast"):
        return _KINDS_OF_TYPES.get(expression.detail, _N)
    kind = FUNCTIONS[expression.function].kind
    if kind is not None or expression.function in ("+", "-", "list_max", "list_min"):
        return kind
    values = expression.operands
    if expression.function == "case":
        values = (*values[1:-1:2], values[-1])
    elif expression.function == "nullif":
        values = values[:1]
    kinds = {result_kind(value) for value in values if value != ConstantValue(None)}
    return kinds.pop() if len(kinds) == 1 else None


def is_strict(expression: Expression) -> bool:
    """Tell whether an expression is NULL, and no error, if all its attributes are."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call):
            function = FUNCTIONS[node.function]
            if function.takes_null or function.lazy:
                return False
            waiting += node.operands
    return True


def operand_kinds(expression: Expression) -> dict[str, set[Kind]]:
    """Return the kinds that functions want of the attributes in an expression."""
    found: dict[str, set[Kind]] = {}
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call):
            takes = FUNCTIONS[node.function].takes
            for operand in node.operands:
                if isinstance(operand, AttributeValue) and takes is not None and operand.name != NOW:
                    found.setdefault(operand.name, set()).add(takes)
                waiting.append(operand)
    return found
