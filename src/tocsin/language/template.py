"""Templates: the condition of a shape, with slots in place of constants, and its binding to literals."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tocsin.errors import SubscriptionError
from tocsin.language.constants import LiteralSource, read
from tocsin.language.shape import Shape
from tocsin.model.condition import (
    Aggregated,
    And,
    ArrayContains,
    Atom,
    Between,
    Comparison,
    Condition,
    Exists,
    HasPhrase,
    HasWords,
    HistoryTerm,
    InList,
    IsTruth,
    Like,
    Not,
    OldComparedToConstant,
    Or,
    Quantified,
    RegexpMatches,
    Slot,
    UnnestExists,
    WithinDistance,
    WithinPolygon,
    XPathExists,
)
from tocsin.model.values import Constant

Fill = Callable[[Any], Any]
"""Replaces a slot by its constant and returns every other value unchanged."""


@dataclass(frozen=True, slots=True)
class Template:
    """The condition of every text of one shape; `sources` says which literal fills which slot."""

    condition: Condition
    sources: tuple[LiteralSource, ...]
    fixed: tuple[int, ...] = ()
    """The literals, by number, that the condition contains: it is that of the texts which have the same ones."""

    def constants(self, shape: Shape) -> list[Constant]:
        """Return the constants of one text of this shape, by slot."""
        literals, constants = shape.literals, []
        for source in self.sources:
            try:
                constants.append(read(literals[source.literal], source.reading))
            except SubscriptionError as error:
                error.position = shape.literal_position(source.literal) + (error.position or 0)
                raise
        return constants

    def bind(self, shape: Shape) -> Condition:
        """Return the condition of one text of this shape."""
        return _bind(self.condition, self.constants(shape)) if self.sources else self.condition


def _bind(condition: Condition, constants: Sequence[Constant]) -> Condition:
    """Fill every slot of a condition."""

    def fill(value: object) -> object:
        return constants[value.index] if isinstance(value, Slot) else value

    return fill_condition(condition, fill)


def fill_condition(condition: Condition, fill: Fill) -> Condition:
    """Return the condition with its slots filled."""
    return map_atoms(condition, lambda atom: fill_atom(atom, fill))


def map_atoms(condition: Condition, change: Callable[[Condition], Condition]) -> Condition:
    """Return the condition with each atom changed. Linear in its size; nothing recurses on its depth."""
    waiting: list[tuple[Condition, bool]] = [(condition, False)]
    done: list[Condition] = []
    while waiting:
        node, ready = waiting.pop()
        if isinstance(node, (And, Or)):
            if ready:
                count = len(node.operands)
                done[-count:] = [type(node)(tuple(done[-count:]))]
            else:
                waiting.append((node, True))
                waiting.extend((operand, False) for operand in reversed(node.operands))
        elif isinstance(node, (Not, IsTruth)):
            if ready:
                done[-1] = replace(node, operand=done[-1])
            else:
                waiting += [(node, True), (node.operand, False)]
        else:
            done.append(change(node))
    return done.pop()


def fill_atom(atom: Condition, fill: Fill) -> Any:
    """Return the atom with its slots filled; logic has none of its own."""
    maker = _FILLERS.get(type(atom))
    return atom if maker is None else maker(atom, fill)


def _fill_terms(terms: Iterable[HistoryTerm], fill: Fill) -> tuple[HistoryTerm, ...]:
    return tuple(
        replace(term, constant=fill(term.constant)) if isinstance(term, OldComparedToConstant) else term
        for term in terms
    )


# How each family that may contain slots is filled; the others have none.
_FILLERS: dict[type, Callable[..., Atom]] = {
    Comparison: lambda a, fill: Comparison(a.attribute, a.op, fill(a.constant)),
    Between: lambda a, fill: Between(a.attribute, fill(a.low), fill(a.high)),
    InList: lambda a, fill: InList(a.attribute, tuple(map(fill, a.constants))),
    Like: lambda a, fill: Like(a.attribute, fill(a.pattern), fill(a.escape), a.ignore_case),
    RegexpMatches: lambda a, fill: replace(a, expression=fill(a.expression)),
    ArrayContains: lambda a, fill: ArrayContains(a.attribute, fill(a.constant)),
    WithinDistance: lambda a, fill: WithinDistance(a.attribute, fill(a.latitude), fill(a.longitude), fill(a.metres)),
    WithinPolygon: lambda a, fill: WithinPolygon(a.attribute, fill(a.polygon)),
    HasWords: lambda a, fill: replace(a, text=fill(a.text)),
    HasPhrase: lambda a, fill: replace(a, text=fill(a.text)),
    XPathExists: lambda a, fill: XPathExists(a.attribute, fill(a.path)),
    Exists: lambda a, fill: Exists(_fill_terms(a.terms, fill)),
    UnnestExists: lambda a, fill: UnnestExists(a.attribute, fill_condition(a.condition, fill)),
    Quantified: lambda a, fill: replace(a, terms=_fill_terms(a.terms, fill)),
    Aggregated: lambda a, fill: replace(
        a, constant=fill(a.constant), alternatives=tuple(_fill_terms(terms, fill) for terms in a.alternatives)
    ),
}
