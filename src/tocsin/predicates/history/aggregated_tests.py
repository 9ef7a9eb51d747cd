"""Answer tests that compare with a count, a sum or an average of old events.

The old events that are equal to the new one, or to constants, in some attributes are a group, whose total is kept
current (see `running_totals`). Any other WHERE, such as a window of time or an OR, is searched in the trees.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from pyroaring import BitMap

from tocsin.arrays import Int32s
from tocsin.model.condition import (
    Aggregate,
    Aggregated,
    HistoryTerm,
    OldComparedToConstant,
    OldComparedToNew,
    OldIsNull,
    Op,
)
from tocsin.model.lookup import lookup
from tocsin.model.totals import Exact, Total, compare_to_total
from tocsin.model.values import Number
from tocsin.predicates.history.running_totals import Grouping, Key, Where, key_of, running_totals, total_at
from tocsin.predicates.history.search import Search, every
from tocsin.predicates.history.store import HistoryStore

_NO_IDS: Int32s = np.empty(0, dtype=np.int32)


_Equal = str | Key
"""What an attribute of a group is equal to: an attribute of the new event, or a constant."""


class _Grouped:
    """The total of one group, which the new event or constants name."""

    def __init__(self, grouping: Grouping, equal: tuple[_Equal, ...], store: HistoryStore) -> None:
        self._running = running_totals(grouping, store)
        self._equal = equal

    def total(self, search: Search) -> Total:
        """Return the total for a new event."""
        parts = [key_of([lookup(search.event, one)]) if isinstance(one, str) else one for one in self._equal]
        return self._running.of(None if None in parts else tuple(part for one in parts if one for part in one))


class _Searched:
    """The total of the old events that satisfy some alternative."""

    def __init__(self, test: Aggregated, store: HistoryStore) -> None:
        self._old = test.old
        self._alternatives = [Where(store, terms) for terms in test.alternatives]

    def total(self, search: Search) -> Total:
        """Return the total for a new event. Cost: what the rarest term of each alternative finds."""
        found = [every(search.store, where.conditions(search)) for where in self._alternatives]
        positions = found[0] if len(found) == 1 else np.unique(np.concatenate([_NO_IDS, *found]))
        return total_at(positions, self._old, search.store)


class _Comparisons:
    """All tests that compare with one aggregate of one total; constants are sorted, so that one search finds them."""

    def __init__(self, tests: Iterable[tuple[int, Aggregated]]) -> None:
        self.members = BitMap()
        self._by_attribute: dict[str, dict[Op, list[int]]] = {}
        constants: dict[Op, list[tuple[Exact, int]]] = {}
        for number, test in tests:
            self.members.add(number)
            if test.attribute is not None:
                self._by_attribute.setdefault(test.attribute, {}).setdefault(test.op, []).append(number)
            else:
                constants.setdefault(test.op, []).append((_exact(test.constant), number))
        self._constants = {
            op: ([constant for constant, _ in found], np.array([number for _, number in found], np.int32))
            for op, found in ((op, sorted(found)) for op, found in constants.items())
        }
        self._all_constant = np.concatenate([_NO_IDS, *(numbers for _, numbers in self._constants.values())])

    def judge(self, total: Exact | None, event: Mapping[str, object]) -> tuple[list[Int32s], list[Int32s]]:
        """Return the tests that are TRUE and those that are NULL."""
        true: list[Int32s] = []
        null = [self._all_constant] if total is None else []
        for attribute, by_op in self._by_attribute.items():
            sign = compare_to_total(lookup(event, attribute), total)
            for op, numbers in by_op.items():
                if sign is None or op.holds(sign):
                    (null if sign is None else true).append(np.array(numbers, np.int32))
        if total is not None:
            for op, (constants, sorted_numbers) in self._constants.items():
                left, right = bisect_left(constants, total), bisect_right(constants, total)
                parts = (sorted_numbers[:left], sorted_numbers[left:right], sorted_numbers[right:])
                true += [part for sign, part in zip((-1, 0, 1), parts, strict=True) if op.holds(sign)]
        return true, null


class AggregatedTests:
    """Tests that compare a value with a count, a sum or an average of old events."""

    def __init__(self, tests: Mapping[int, Aggregated], store: HistoryStore) -> None:
        self.members = BitMap(tests)
        sources: dict[object, _Grouped | _Searched] = {}
        compared: dict[tuple[object, Aggregate], list[tuple[int, Aggregated]]] = {}
        for number, test in tests.items():
            group = _group_of(test)
            source: object = group or (frozenset(map(frozenset, test.alternatives)), test.old)
            if source not in sources:
                sources[source] = _Grouped(*group, store) if group else _Searched(test, store)
            compared.setdefault((source, test.aggregate), []).append((number, test))
        self._cells = [
            (sources[source], aggregate, _Comparisons(found)) for (source, aggregate), found in compared.items()
        ]

    @property
    def groups(self) -> int:
        """How many totals a probe asks for."""
        return len(self._cells)

    def probe(self, search: Search, wanted: BitMap | None = None) -> tuple[Int32s, Int32s]:
        """Return the ids of the tests that are TRUE, and of those that are NULL; of the wanted ones at least."""
        true, null = [_NO_IDS], [_NO_IDS]
        totals: dict[int, Total] = {}
        for source, aggregate, comparisons in self._cells:
            if wanted is None or wanted.intersect(comparisons.members):
                total = totals.get(id(source))
                if total is None:
                    total = totals[id(source)] = source.total(search)
                found = comparisons.judge(total.value(aggregate), search.event)
                true += found[0]
                null += found[1]
        return np.concatenate(true), np.concatenate(null)


def total_of(test: Aggregated, store: HistoryStore, event: Mapping[str, object]) -> Total:
    """Return what a test compares with, for a new event."""
    return _Searched(test, store).total(Search(store, event))


def _group_of(test: Aggregated) -> tuple[Grouping, tuple[_Equal, ...]] | None:
    """Return the group whose total a test needs; None if its WHERE is more than equalities and filters."""
    if len(test.alternatives) != 1:
        return None
    equal: dict[str, _Equal] = {}
    filters: list[OldComparedToConstant | OldIsNull] = []
    for term in sorted(set(test.alternatives[0]), key=repr):
        named = _equality(term)
        if named is not None and term.old not in equal:
            equal[term.old] = named
        elif isinstance(term, OldComparedToNew):
            return None
        else:
            filters.append(term)
    names = sorted(equal)
    return Grouping(tuple(names), tuple(filters), test.old), tuple(equal[name] for name in names)


def _equality(term: HistoryTerm) -> _Equal | None:
    if isinstance(term, OldIsNull) or term.op is not Op.EQ:
        return None
    return term.new if isinstance(term, OldComparedToNew) else key_of([term.constant])


def _exact(constant: Any) -> Exact:
    if isinstance(constant, (float, Decimal)) and not -float("inf") < constant < float("inf"):
        return float(constant)
    exact = Number(constant).exact
    return exact if isinstance(exact, int) else Fraction(exact)
