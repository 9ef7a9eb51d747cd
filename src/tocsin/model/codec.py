"""Tests and conditions as JSON text and back, for files."""

import datetime as dt
import json
from decimal import Decimal
from enum import Enum
from typing import Any, get_args

from tocsin.model import condition, predicate
from tocsin.model.predicate import Test

_TYPES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        predicate.AnyWord,
        predicate.Phrase,
        predicate.AnyPattern,
        predicate.Word,
        predicate.Pattern,
        predicate.Wildcard,
        condition.ArrayContains,
        *get_args(condition.Condition),
        condition.RegexpMatches,
        condition.WithinDistance,
        condition.WithinPolygon,
        condition.AttributeComparison,
        condition.XPathExists,
        condition.Exists,
        condition.Quantified,
        condition.OldComparedToNew,
        condition.OldComparedToConstant,
        condition.OldIsNull,
    )
}
_ENUMS: dict[str, Any] = {"Op": condition.Op, "Quantifier": condition.Quantifier}


def encode_test(test: Test) -> str:
    """Return a test as JSON text.

    >>> test = condition.AttributeComparison("high", condition.Op.GT, "open")
    >>> decode_test(encode_test(test)) == test
    True
    """
    return json.dumps(_encode(test), ensure_ascii=False)


def decode_test(text: str) -> Test:
    """Return the test that `encode_test` made the text from."""
    test: Test = _decode(json.loads(text))
    return test


def encode_value(value: Any) -> Any:
    """Return a value of an event as JSON has it; what JSON cannot have at all is a text."""
    if isinstance(value, (list, tuple)):
        return [encode_value(item) for item in value]
    if isinstance(value, dict):
        return {"event": {str(name): encode_value(item) for name, item in value.items()}}
    if value is None or isinstance(value, (bool, str, int, float, Decimal, dt.date)):
        return _encode(value)
    return str(value)


def decode_value(value: Any) -> Any:
    """Return the value that `encode_value` wrote.

    >>> decode_value(encode_value([1, Decimal("1.5"), {"on": dt.date(2026, 1, 2)}]))
    [1, Decimal('1.5'), {'on': datetime.date(2026, 1, 2)}]
    """
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if isinstance(value, dict) and "event" in value:
        return {name: decode_value(item) for name, item in value["event"].items()}
    return _decode(value)


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str, int, float)):
        return value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, Enum):
        return {"enum": type(value).__name__, "value": value.value}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, dt.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    return {"type": type(value).__name__, **{name: _encode(getattr(value, name)) for name in value.__slots__}}


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "enum" in value:
        return _ENUMS[value["enum"]](value["value"])
    if "decimal" in value:
        return Decimal(value["decimal"])
    if "timestamp" in value:
        return dt.datetime.fromisoformat(value["timestamp"])
    if "date" in value:
        return dt.date.fromisoformat(value["date"])
    kind = _TYPES[value["type"]]
    return kind(**{name: _decode(item) for name, item in value.items() if name != "type"})
