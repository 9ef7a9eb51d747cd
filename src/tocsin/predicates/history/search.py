"""Find the old events that satisfy a conjunction of conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tocsin.arrays import Int32s
from tocsin.model.condition import OldComparedToNew, OldIsNull, Op
from tocsin.model.lookup import lookup
from tocsin.model.values import kind_of
from tocsin.predicates.history.encode import IS_NOT_NULL, IS_NULL, is_empty, not_comparable
from tocsin.predicates.history.kernels import WORD, Bounds, marked_positions, narrow
from tocsin.predicates.history.store import HistoryStore

_FIRST_SCAN = 1024
"""How many of the newest events are scanned before a tree is asked."""
_SELECTIVE = 16
"""A condition is rare if at most one old event in this many satisfies it."""


@dataclass(frozen=True, slots=True)
class NotComparable:
    """The comparison of `h.old` with `event.new` is NULL."""

    old: str
    new: str


JoinTerm = OldComparedToNew | NotComparable | OldIsNull
"""A term that is the same for all tests of one shape: it has no constant."""
Condition = tuple[str, Bounds]


class Search:
    """The terms of tests, bound to the values of one new event. The bounds of each term are computed once."""

    def __init__(self, store: HistoryStore, event: Mapping[str, object]) -> None:
        self.store = store
        self.event = event
        self._bounds: dict[JoinTerm, Bounds] = {}
        self._positions: dict[tuple[JoinTerm, ...], Int32s] = {}

    def bind(self, terms: Sequence[JoinTerm]) -> list[Condition]:
        """Return the terms as conditions on old values."""
        return [(term.old, self._bind(term)) for term in terms]

    def _bind(self, term: JoinTerm) -> Bounds:
        if isinstance(term, OldIsNull):
            return IS_NOT_NULL if term.negated else IS_NULL
        bounds = self._bounds.get(term)
        if bounds is None:
            value = lookup(self.event, term.new)
            if isinstance(term, NotComparable):
                bounds = not_comparable(kind_of(value))
            else:
                bounds = self.store.encoder.condition(term.op, value)
            self._bounds[term] = bounds
        return bounds

    def equal_to(self, new: str) -> Bounds:
        """Return the condition that an old value equals the new event's value of an attribute."""
        return self._bind(OldComparedToNew("", Op.EQ, new))

    def all(self, terms: tuple[JoinTerm, ...]) -> Int32s:
        """Return the positions of all old events that satisfy the terms, unsorted."""
        positions = self._positions.get(terms)
        if positions is None:
            positions = self._positions[terms] = every(self.store, self.bind(terms))
        return positions

    def estimate(self, terms: tuple[JoinTerm, ...]) -> int:
        """Return how many old events satisfy the terms at most. Cost: O(log n) a term."""
        conditions = self.bind(terms)
        return min((self.store.tree(old).find(bounds).size for old, bounds in conditions), default=len(self.store))


def every(store: HistoryStore, conditions: Sequence[Condition]) -> Int32s:
    """Return the positions of all old events that satisfy the conditions.

    The rarest condition is looked up in its tree; the others are checked on what it finds.
    """
    if any(is_empty(bounds) for _, bounds in conditions) or len(store) == 0:
        return np.empty(0, dtype=np.int32)
    if not conditions:
        return np.arange(store.first - store.base, store.next - store.base, dtype=np.int32)
    found = [store.tree(old).find(bounds) for old, bounds in conditions]
    rarest = min(range(len(found)), key=lambda i: found[i].size)
    return narrowed(store, found[rarest].positions(), [c for i, c in enumerate(conditions) if i != rarest])


def some(store: HistoryStore, conditions: Sequence[Condition]) -> int | None:
    """Return the number of an old event that satisfies the conditions; None if there is none.

    Conditions that hold for many old events mostly hold for a recent one, so the newest are scanned first. Then the
    rarest condition is looked up in its tree; if that finds too many, the bitmaps of all are intersected.
    """
    if any(is_empty(bounds) for _, bounds in conditions) or len(store) == 0:
        return None
    first, stop = store.first - store.base, store.next - store.base
    start = max(first, stop - _FIRST_SCAN)
    kept = narrowed(store, np.arange(start, stop, dtype=np.int32), conditions)
    if kept.size or start == first:
        return int(kept[-1]) + store.base if kept.size else None
    rarest = min((store.tree(old).find(bounds) for old, bounds in conditions), key=lambda found: found.size)
    if rarest.size * _SELECTIVE <= len(store):
        kept = narrowed(store, rarest.positions(), conditions)
        return int(kept.max()) + store.base if kept.size else None
    return _some_of_many(store, conditions, first, start)


def _some_of_many(store: HistoryStore, conditions: Sequence[Condition], first: int, stop: int) -> int | None:
    """Do the same for the positions `first..stop`, by the bitmaps of the events that may satisfy each condition."""
    words = np.bitwise_and.reduce([store.tree(old).superset(bounds, stop) for old, bounds in conditions])
    size = _FIRST_SCAN // WORD
    end = words.size
    while end * WORD > first:
        begin = max(first // WORD, end - size)
        kept = narrowed(store, marked_positions(words[begin:end], begin * WORD, first, stop), conditions)
        if kept.size:
            return int(kept[-1]) + store.base
        end, size = begin, size * 4
    return None


def narrowed(store: HistoryStore, positions: Int32s, conditions: Sequence[Condition]) -> Int32s:
    """Return those of the positions whose old event satisfies the conditions."""
    for old, bounds in conditions:
        if positions.size == 0:
            break
        positions = narrow(positions, store.encoder.old(store.columns[old]), bounds)
    return positions
