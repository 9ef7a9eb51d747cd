"""Bind one leaf of many texts of a shape: each distinct combination of its literals once."""

from collections.abc import Callable
from typing import Any

from tocsin.errors import SubscriptionError
from tocsin.language.columns import Columns, Unreadable
from tocsin.language.constants import read
from tocsin.language.normalise import always, never
from tocsin.language.rewrite import VALUES, All, Goal, Some, rewrite
from tocsin.language.shape_plan import slots
from tocsin.model.condition import Slot
from tocsin.model.predicate import Predicate, Ranges

Outcome = tuple[Predicate, ...] | None
"""The predicates that a leaf has become; None if it can never hold."""

_Key = tuple[str, ...]


def bind_leaf(goal: Goal, columns: Columns, check: Callable[[Predicate], None]) -> list[Outcome]:
    """The outcome of a leaf for each text; raises Unreadable for those that need the general way.

    So do those with a predicate for which `check` raises SubscriptionError.
    """
    sources = columns.sources
    found = [slot.index for slot in slots(goal)]
    keys: list[_Key] = list(zip(*(columns.literals(sources[index].literal) for index in found), strict=True))
    known: dict[_Key, Outcome] = {}
    general: set[_Key] = set()
    for key in set(keys):
        constants = dict(zip(found, key, strict=True))

        def fill(value: Any, constants: dict[int, str] = constants) -> Any:
            return read(constants[value.index], sources[value.index].reading) if isinstance(value, Slot) else value

        try:
            node = rewrite(goal, VALUES, fill)
            parts = node.children if isinstance(node, All) else (node,)
            predicates = [part for part in parts if not isinstance(part, (All, Some, Goal))]
            for predicate in predicates:
                check(predicate)
        except SubscriptionError:
            general.add(key)
            continue
        if len(predicates) < len(parts) or (len(parts) > 1 and any(isinstance(p, Ranges) for p in predicates)):
            general.add(key)
        elif any(map(never, predicates)):
            known[key] = None
        else:
            known[key] = tuple(predicate for predicate in predicates if not always(predicate))
    if general:
        raise Unreadable({row for row, key in enumerate(keys) if key in general})
    return [known[key] for key in keys]
