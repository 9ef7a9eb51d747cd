"""Normalise one text by the plans of its clauses, if these were met before: three ranges take a fifth of the time."""

import math

from tocsin.errors import SubscriptionError
from tocsin.language.constants import read
from tocsin.language.normalise import Expression
from tocsin.language.ranges import canonical, compared, intersection, is_empty
from tocsin.language.shape_plan import Part, plans_of
from tocsin.model.analyzer import NO_ANALYZERS, Analyzers
from tocsin.model.condition import Op
from tocsin.model.predicate import Range, Ranges
from tocsin.model.values import scalar

OFTEN = 3
"""A clause is planned when it is met so often: to plan it takes longer than to normalise it once."""
BETWEEN = [Op.GE, Op.LE]


def normalise_clauses(
    pieces: list[str],
    limit: float = math.inf,
    analyzers: Analyzers = NO_ANALYZERS,
    most_attributes: float = math.inf,
) -> Expression | None:
    """Return the normal form of the pieces of a text that is comparisons joined by AND; None of all others.

    None also if its clauses were not met often, or if it can never match or is in error: then `normalise` tells.
    """
    parts = plans_of(analyzers).of_text(pieces, OFTEN)
    if parts is None:
        return None
    if sum(len(part.bounds) for part, _, _ in parts) > limit or len(parts) > most_attributes:
        return None
    predicates = []
    for part, places, first in parts:
        if part.column is None or part.points:
            return None
        try:
            held = _range_of(part, [pieces[2 * (first + place) + 1] for place in places])
        except SubscriptionError:
            return None
        if held is None:
            return None
        attribute, kind = part.column
        predicates.append(Ranges(attribute, kind, canonical(kind, (held,)), or_null=False))
    return Expression((tuple(predicates),))


def _range_of(part: Part, literals: list[str]) -> Range | None:
    """Return the values that satisfy all bounds of a part; None if there are none."""
    constants = [scalar(read(literals[slot.index], part.readings[slot.index])) for _, slot in part.bounds]
    operators = [op for op, _ in part.bounds]
    if operators == BETWEEN:
        held = Range(constants[0], True, constants[1], True)
        return None if is_empty(held) else held
    within = compared(operators[0], constants[0])
    for op, constant in zip(operators[1:], constants[1:], strict=True):
        within = intersection(within, compared(op, constant))
    return within[0] if within else None
