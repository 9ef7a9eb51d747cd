"""Write conditions: names, constants, and how they are joined."""

import datetime as dt
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any

from tocsin.errors import SubscriptionError
from tocsin.importers.imported import UntranslatableError
from tocsin.model.regexp import check_expression

ELEMENT = "element"
"""What an element of a list is called."""

# A text, or a name with its dots: the odd ones of what `split` gives.
_NAMES = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*"(?:\."(?:[^"]|"")*")*)""")
_TRIVIAL = {"TRUE": True, "FALSE": False}


def name(attribute: str) -> str:
    """An attribute, quoted; dots lead into nested events.

    >>> name("user.first name")
    '"user"."first name"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in attribute.split("."))


def literal(value: Any) -> str:
    """A constant.

    >>> [literal(value) for value in (True, 3, 2.5, "O'Brien")]
    ['TRUE', '3', '2.5', "'O''Brien'"]
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return "'" + str(value).replace("'", "''") + "'"


def is_in(attribute: str, values: Sequence[Any]) -> str:
    """An attribute is one of some values; FALSE if there are none."""
    return f"{name(attribute)} IN ({', '.join(map(literal, values))})" if values else "FALSE"


def on_element(condition: str, path: str) -> str | None:
    """Write a condition on fields below a list as one on an element of it; None if it names another attribute.

    >>> print(on_element('"items"."name" = "items"."brand"', "items"))
    element."name" = element."brand"
    >>> on_element('"price" > 5', "items")
    """
    pieces = _NAMES.split(condition)
    for place, found in enumerate(pieces):
        if place % 2 and found.startswith('"'):
            below = found.removeprefix(f"{name(path)}.")
            if below == found:
                return None
            pieces[place] = f"{ELEMENT}.{below}"
    return "".join(pieces)


class Wildcard(Enum):
    """A sign of a pattern."""

    ANY = "%"
    ONE = "_"


def is_like(attribute: str, pieces: Sequence[str | Wildcard], *, any_case: bool = False) -> str:
    """An attribute looks like a pattern of texts and wildcards.

    >>> is_like("name", ["50%_off", Wildcard.ANY])
    '"name" LIKE \\'50$%$_off%\\' ESCAPE \\'$\\''
    """
    texts = [piece.value if isinstance(piece, Wildcard) else re.sub(r"([%_$])", r"$\1", piece) for piece in pieces]
    escape = " ESCAPE '$'" if any("$" in text for text in texts) else ""
    return f"{name(attribute)} {'ILIKE' if any_case else 'LIKE'} {literal(''.join(texts))}{escape}"


def has_expression(attribute: str, expression: str, flags: str = "", *, whole: bool = False) -> str:
    """An attribute is matched by a regular expression; raises UntranslatableError where RE2 cannot read it.

    >>> print(has_expression("path", "it's [0-9]+", "i"))
    regexp_matches("path", 'it''s [0-9]+', 'i')
    """
    try:
        check_expression(expression)
    except SubscriptionError as error:
        raise UntranslatableError("regular expression", f"{error.message}. {error.hint}") from None
    function = "regexp_full_match" if whole else "regexp_matches"
    arguments = [name(attribute), literal(expression), *([literal(flags)] if flags else [])]
    return f"{function}({', '.join(arguments)})"


def in_networks(attribute: str, networks: Sequence[str]) -> str:
    """An address lies in one of some networks.

    >>> print(in_networks("ip", ["10.0.0.0/8", "::1"]))
    ip_in("ip", '10.0.0.0/8', '::1')
    """
    return f"ip_in({', '.join([name(attribute), *map(literal, networks)])})" if networks else "FALSE"


def all_of(conditions: Sequence[str]) -> str:
    """All of the conditions. AND binds more tightly than OR, and `any_of` writes its own parentheses."""
    kept = [condition for condition in dict.fromkeys(conditions) if condition != "TRUE"]
    if "FALSE" in kept:
        return "FALSE"
    if len(kept) < 2:
        return kept[0] if kept else "TRUE"
    return " AND ".join(kept)


def any_of(conditions: Sequence[str]) -> str:
    """One of the conditions."""
    kept = [condition for condition in dict.fromkeys(conditions) if condition != "FALSE"]
    if "TRUE" in kept:
        return "TRUE"
    if len(kept) < 2:
        return kept[0] if kept else "FALSE"
    return f"({' OR '.join(kept)})"


def not_true(condition: str) -> str:
    """A condition is FALSE or NULL."""
    if condition in _TRIVIAL:
        return "FALSE" if condition == "TRUE" else "TRUE"
    return f"({condition}) IS NOT TRUE"
