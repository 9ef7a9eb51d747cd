"""Events that come as JSON, which has no dates."""

import datetime as dt
from collections.abc import Mapping, Set
from typing import cast

from tocsin.model.values import Kind


def with_times(event: Mapping[str, object], kinds: Mapping[str, Set[Kind]], prefix: str = "") -> dict[str, object]:
    """Return the event with dates in place of the texts that are only compared with dates.

    >>> with_times({"at": "2026-03-01", "by": "Ada"}, {"at": {Kind.TIME}, "by": {Kind.STRING}})
    {'at': datetime.datetime(2026, 3, 1, 0, 0), 'by': 'Ada'}
    """
    converted = dict(event)
    for name, value in event.items():
        attribute = prefix + name
        if isinstance(value, dict):
            converted[name] = with_times(cast(dict[str, object], value), kinds, f"{attribute}.")
        elif isinstance(value, str) and kinds.get(attribute, set()) - {Kind.ANY} == {Kind.TIME}:
            try:
                converted[name] = dt.datetime.fromisoformat(value)
            except ValueError:
                converted[name] = None
    return converted
