"""Parameters of a condition: `price < :limit` with `{"limit": 10}`, bound as literals before it is parsed."""

import math
import re
from collections.abc import Mapping
from typing import Any

from tocsin.errors import SubscriptionError

# A text or a quoted name is passed over; so is the `::` of a cast.
_TOKENS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|::|:([A-Za-z_][A-Za-z0-9_]*)")


def bind(where: str, params: Mapping[str, Any]) -> str:
    """Return the condition with a literal in place of each `:name`.

    >>> bind("author = :who AND note <> ':who' AND price IN :prices", {"who": "O'Hara", "prices": [1, 2.5]})
    "author = 'O''Hara' AND note <> ':who' AND price IN (1, 2.5)"

    Raises SubscriptionError if a parameter has no value, or a value no parameter.
    """
    used = set()

    def literal_of(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0]
        if name not in params:
            raise SubscriptionError(
                f"the parameter :{name} has no value", f'Give params such as {{"{name}": 1}}', position=found.start()
            )
        used.add(name)
        return literal(params[name])

    bound = _TOKENS.sub(literal_of, where)
    unused = sorted(set(params) - used)
    if unused:
        raise SubscriptionError(f"the condition has no parameter :{unused[0]}", "Name it, or leave its value out")
    return bound


def literal(value: Any) -> str:
    """Return a value of JSON as a literal of SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, (int, float)) and math.isfinite(value):
        return repr(value)
    if isinstance(value, list) and value and not any(isinstance(item, (list, dict)) for item in value):
        return f"({', '.join(map(literal, value))})"
    raise SubscriptionError(f"the parameter value {value!r} is not a literal", "Give texts, numbers, or lists of them")
