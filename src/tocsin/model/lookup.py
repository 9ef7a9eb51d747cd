"""Find the value of an attribute in an event."""

from collections.abc import Mapping


def lookup(event: Mapping[str, object], attribute: str) -> object:
    """Return the value of an attribute: of the key of that name, or else of nested keys, by its dots; None if missing.

    >>> lookup({"user": {"name": "Ada"}, "user.age": 36}, "user.name"), lookup({"user.age": 36}, "user.age")
    ('Ada', 36)
    """
    level: object = event
    while isinstance(level, Mapping):
        if attribute in level:
            return level[attribute]
        head, dot, rest = attribute.partition(".")
        while dot and head not in level:
            part, dot, rest = rest.partition(".")
            head = f"{head}.{part}"
        if not dot:
            return None
        level, attribute = level[head], rest
    return None
