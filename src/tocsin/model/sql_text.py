"""Names, constants and expressions as SQL."""

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tocsin.model.analyzer import WORDS
from tocsin.model.civil import TICKS
from tocsin.model.expression_tree import (
    NOW,
    AttributeValue,
    ConstantValue,
    Expression,
    expression_of,
    is_derived,
    is_of_element,
)
from tocsin.model.functions import interval_of
from tocsin.model.values import microseconds

_EPOCH = dt.datetime(1970, 1, 1)
_WIDEST_OFFSET = dt.timedelta(hours=23, minutes=59)
_INFIX = {"+", "-", "*", "/", "//", "%", "||", "<", "<=", "=", "<>", ">=", ">", "and", "or"}
_POSTFIX = {"is_null": "IS NULL", "is_true": "IS TRUE", "is_false": "IS FALSE"}
_PREFIX = {"negative": "-", "not": "NOT "}
ELEMENT_NAME = "element"
"""What the element of a list is called."""


def name(attribute: str) -> str:
    """Return an attribute as a quoted name; a derived one as its expression.

    >>> name('user-agent')
    '"user-agent"'
    """
    if attribute == NOW:
        return "now()"
    if is_of_element(attribute):
        return ".".join([ELEMENT_NAME, *map(name, attribute.split(".")[1:])])
    return (
        expression_sql(expression_of(attribute)) if is_derived(attribute) else '"' + attribute.replace('"', '""') + '"'
    )


def shown_name(attribute: str) -> str:
    """Return an attribute as a report names it: as it is, or the expression that it is derived from."""
    return name(attribute) if is_derived(attribute) else attribute


def constant(value: Any) -> str:
    """Return a constant as a literal; times are converted to UTC."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return timestamp(microseconds(value))
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


def timestamp(time: int) -> str:
    """Return a time, in microseconds since 1970 in UTC, as a literal.

    A time whose year in UTC is before 1 or after 9999 is written in a zone in which it has a date.

    >>> timestamp(0)
    "TIMESTAMP '1970-01-01 00:00:00'"
    """
    moment = dt.timedelta(microseconds=time)
    zone, offset = "", dt.timedelta()
    if not dt.datetime.min - _EPOCH <= moment <= dt.datetime.max - _EPOCH:
        zone, offset = ("+23:59", _WIDEST_OFFSET) if time < 0 else ("-23:59", -_WIDEST_OFFSET)
    return f"TIMESTAMP '{_EPOCH + (moment + offset)}{zone}'"


def expression_sql(expression: Expression, name_of: Callable[[str], str] = name) -> str:
    """Return an expression as SQL, in parentheses where it is an operator.

    >>> from tocsin.model.expression_tree import Call
    >>> expression_sql(Call("*", (AttributeValue("price"), ConstantValue(-2))), str)
    '(price * (-2))'
    """
    if isinstance(expression, AttributeValue):
        return name(NOW) if expression.name == NOW else name_of(expression.name)
    if isinstance(expression, ConstantValue):
        return typed_constant(expression.value)
    function, detail = expression.function, expression.detail
    operands = [expression_sql(operand, name_of) for operand in expression.operands]
    if function in _INFIX:
        return f"({f' {function.upper()} '.join(operands)})"
    if function in _POSTFIX:
        return f"({operands[0]} {_POSTFIX[function]})"
    if function in _PREFIX:
        return f"({_PREFIX[function]}{operands[0]})"
    if function in ("comparable", "untyped", WORDS):
        return operands[0]
    if function in ("cast", "try_cast"):
        return f"{function.upper()}({operands[0]} AS {detail})"
    if function == "shift":
        months, rest = interval_of(detail)
        unit = next(unit for unit in ("day", "hour", "minute", "second", "microsecond") if rest % TICKS[unit] == 0)
        steps = [(months, "MONTHS"), (rest // TICKS[unit], f"{unit.upper()}S")]
        return f"({operands[0]}{''.join(f' + INTERVAL ({count}) {unit}' for count, unit in steps if count)})"
    if function == "elapsed":
        return f"date_diff('microsecond', {', '.join(operands)})"
    if function == "case":
        *branches, otherwise = operands
        whens = zip(branches[::2], branches[1::2], strict=True)
        return f"CASE {' '.join(f'WHEN {when} THEN {then}' for when, then in whens)} ELSE {otherwise} END"
    if function == "extract":
        return f"EXTRACT({detail} FROM {operands[0]})"
    if function in ("like", "ilike"):
        escape = f" ESCAPE {operands[2]}" if len(operands) > 2 else ""
        return f"({operands[0]} {function.upper()} {operands[1]}{escape})"
    return f"{function}({', '.join([constant(detail), *operands] if detail else operands)})"


def typed_constant(value: Any) -> str:
    """Return a constant as a literal of its own type: a float has an exponent, a decimal a point."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE)"
        text = repr(value) if "e" in repr(value) else f"{value!r}e0"
    elif isinstance(value, Decimal):
        text = format(value, "f") if "." in format(value, "f") else f"{value:f}."
    else:
        text = constant(value)
    return f"({text})" if text[0] == "-" else text
