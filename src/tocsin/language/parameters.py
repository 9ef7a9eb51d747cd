"""Put the values of named parameters into the text of a condition, as literals of their types."""

import datetime as dt
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tocsin.errors import SubscriptionError
from tocsin.model.sql_text import constant, typed_constant

_TOKEN = re.compile(
    r"""'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*"|--[^\n]*|/\*.*?\*/|::|(?P<minus>-?)(?<![\w:]):(?P<name>[A-Za-z_]\w*)""",
    re.S,
)


def bind_parameters(text: str, params: Mapping[str, Any]) -> str:
    """Return the text with each `:name` replaced by the literal of its value; a list is several, for IN.

    >>> bind_parameters("author = :name AND price < :most", {"name": "O'Brien", "most": 10})
    "author = 'O''Brien' AND price < 10"
    >>> bind_parameters("symbol IN (:symbols) AND day::DATE > ':day'", {"symbols": ["IBM", "SAP"]})
    "symbol IN ('IBM', 'SAP') AND day::DATE > ':day'"
    """
    used: set[str] = set()

    def literal(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None:
            return found.group()
        if name not in params:
            raise SubscriptionError(
                f"the parameter :{name} has no value", f"Give params={{{name!r}: …}}", position=found.start()
            )
        used.add(name)
        value = params[name]
        values = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
        written = ", ".join(_literal(name, each, found.start()) for each in values)
        # Two minus signs would begin a comment.
        return f"{found['minus']} {written}" if found["minus"] else written

    bound = _TOKEN.sub(literal, text)
    unused = sorted(params.keys() - used)
    if unused:
        raise SubscriptionError(
            f"the condition has no parameter :{unused[0]}", f"Write :{unused[0]} where its value belongs, or drop it"
        )
    return bound


def _literal(name: str, value: Any, position: int) -> str:
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and math.isnan(value):
        value = None
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        raise SubscriptionError(f"the parameter :{name} is {value}", "Give a finite number", position=position)
    if isinstance(value, (float, Decimal)):
        return typed_constant(value).strip("()")
    if value is None or isinstance(value, (bool, int, str, dt.date)):
        return constant(value)
    raise SubscriptionError(
        f"the parameter :{name} is a {type(value).__name__}",
        "Give a number, a text, a boolean, a date, a list of these, or None",
        position=position,
    )
