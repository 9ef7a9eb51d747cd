"""Expressions over the attributes of an event: the tree, its name as a derived attribute, and that name read back.

An expression such as `price * quantity` is an attribute that no event has but every event yields: a *derived
attribute*. Its name is the expression as JSON behind a character that no condition can contain, so that it meets no
name of a user, and whoever has the name has the expression. Everything that knows attributes by name (codes, segments,
files) therefore takes derived ones as they are.
"""

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tocsin.model.values import identity

MARK = "\0"
"""Begins the name of every derived attribute. A condition with this character is refused."""

NOW = f"{MARK}now"
"""The attribute that has the time of the match for every event."""

ELEMENT = f"{MARK}element"
"""The attribute that has the element of a list, inside EXISTS on its elements; its fields are below it."""


_DERIVED = {f"{MARK}[", f"{MARK}{{"}
"""An expression as JSON is a list or an object."""


def is_of_element(attribute: str) -> bool:
    """Tell whether an attribute is the element of a list, or below it."""
    return attribute.startswith(ELEMENT)


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """The value of an attribute of the event."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class ConstantValue:
    """A constant; None is NULL."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantValue) and encode(self) == encode(other)

    def __hash__(self) -> int:
        return hash(identity(self.value))


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function, as `model/functions.py` names it, of expressions."""

    function: str
    operands: tuple["Expression", ...]
    detail: str = ""
    """What else the function needs to know: the type of a cast, a part of a date, the length of an interval."""


Expression = AttributeValue | ConstantValue | Call


def derived_name(expression: Expression) -> str:
    """Return the name of the attribute that has the value of an expression.

    >>> doubled = Call("*", (AttributeValue("price"), ConstantValue(2)))
    >>> expression_of(derived_name(doubled)) == doubled, derived_name(AttributeValue("price"))
    (True, 'price')
    """
    return expression.name if isinstance(expression, AttributeValue) else MARK + encode(expression)


def is_derived(attribute: str) -> bool:
    """Tell whether an attribute is derived from others."""
    return attribute[:2] in _DERIVED


@lru_cache(maxsize=10_000)
def expression_of(attribute: str) -> Expression:
    """Return the expression that a derived attribute is named after."""
    return _decode(json.loads(attribute[1:])) if is_derived(attribute) else AttributeValue(attribute)


def given_attributes(attributes: Iterator[str] | set[str]) -> set[str]:
    """Return the attributes that events must have for these, derived ones among them, to have a value.

    >>> name = derived_name(Call("+", (AttributeValue("a"), AttributeValue("b"))))
    >>> sorted(given_attributes({name, "c"}))
    ['a', 'b', 'c']
    """
    return {leaf.name for name in attributes for leaf in leaves(expression_of(name)) if leaf.name != NOW}


def leaves(expression: Expression) -> Iterator[AttributeValue]:
    """Return the attributes in an expression, from left to right, repeated ones repeated."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, AttributeValue):
            yield node
        elif isinstance(node, Call):
            waiting += reversed(node.operands)


def encode(expression: Expression) -> str:
    """Return an expression as JSON text, the same text for the same expression."""
    return json.dumps(_encode(expression), ensure_ascii=False, separators=(",", ":"))


_READERS: dict[str, Any] = {
    "decimal": Decimal,
    "float": float,
    "timestamp": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
}


def _encode(node: Expression) -> Any:
    if isinstance(node, AttributeValue):
        return {"attribute": node.name}
    if isinstance(node, Call):
        return [node.function, node.detail, *map(_encode, node.operands)]
    value = node.value
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, dt.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    return {"constant": value}


def _decode(node: Any) -> Expression:
    if isinstance(node, list):
        return Call(node[0], tuple(map(_decode, node[2:])), node[1])
    [(form, value)] = node.items()
    if form == "attribute":
        return AttributeValue(value)
    return ConstantValue(_READERS[form](value) if form in _READERS else value)
