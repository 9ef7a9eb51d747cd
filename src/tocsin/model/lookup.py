"""Find the value of an attribute in an event."""

import datetime as dt
from collections.abc import Iterable, Mapping

from tocsin.model.casts import UndefinedError
from tocsin.model.expression_tree import NOW, expression_of, is_derived
from tocsin.model.functions import as_operand, as_value, evaluate


def lookup(event: Mapping[str, object], attribute: str) -> object:
    """Return the value of an attribute: of the key of that name, or else of nested keys, by its dots; None if missing.

    >>> lookup({"user": {"name": "Ada"}, "user.age": 36}, "user.name"), lookup({"user.age": 36}, "user.age")
    ('Ada', 36)
    """
    level: object = event
    while isinstance(level, Mapping):
        if attribute in level:
            return level[attribute]
        if is_derived(attribute) or attribute == NOW:
            return _derived(level, attribute)
        head, dot, rest = attribute.partition(".")
        while dot and head not in level:
            part, dot, rest = rest.partition(".")
            head = f"{head}.{part}"
        if not dot:
            return None
        level, attribute = level[head], rest
    return None


def names_below(attributes: Iterable[str]) -> dict[str, list[str]]:
    """Return the attributes that a nested value may have, by the name of the value: all that go on behind its dots.

    >>> names_below(["user.name", "user.home.city", "price"])
    {'user': ['user.name', 'user.home.city'], 'user.home': ['user.home.city']}
    """
    below: dict[str, list[str]] = {}
    for attribute in attributes:
        head, dot, rest = attribute.partition(".")
        while dot:
            below.setdefault(head, []).append(attribute)
            part, dot, rest = rest.partition(".")
            head = f"{head}.{part}"
    return below


def _derived(event: Mapping[str, object], attribute: str) -> object:
    """Return the value of a derived attribute, by the definition of its functions; None if it has none."""
    if attribute == NOW:
        return dt.datetime.now(dt.UTC)
    try:
        return as_value(evaluate(expression_of(attribute), lambda name: as_operand(lookup(event, name))))
    except UndefinedError:
        return None
