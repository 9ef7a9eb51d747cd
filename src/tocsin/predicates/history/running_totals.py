"""Keep the count and the sum of old values current as events arrive and expire, for each group of old events."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.arrays import Int32s
from tocsin.model.condition import Aggregate, OldComparedToConstant, OldIsNull
from tocsin.model.totals import Total
from tocsin.model.values import Kind, kind_of, moment
from tocsin.predicates.history.column import OldColumn
from tocsin.predicates.history.constant_tests import Constants, split
from tocsin.predicates.history.encode import Lane, comparable
from tocsin.predicates.history.search import Condition, JoinTerm, Search, narrowed
from tocsin.predicates.history.store import HistoryStore

Key = tuple[tuple[Kind, Any], ...]
NOTHING = Total()
"""The total of no old event."""
_SMALL = 1 << 31
"""Sums of fewer integers than this, each less than this, fit in 64 bits."""


@dataclass(frozen=True)
class Grouping:
    """Which old events are counted, in which groups, and whose values are added."""

    by: tuple[str, ...]
    """A group is the old events that are equal in these attributes, none of which is NULL."""
    filters: tuple[OldComparedToConstant | OldIsNull, ...]
    old: str | None
    """None: events are counted, whatever they have."""


class Where:
    """Terms of a subquery as conditions on old values, for one new event after the other."""

    def __init__(self, store: HistoryStore, terms: Iterable[JoinTerm | OldComparedToConstant]) -> None:
        self._shape, row = split(terms)
        self._constants = Constants(store, self._shape.constants, [row])
        self._constants.bounds()  # Constants get codes before the values of a new event are looked up.

    def conditions(self, search: Search) -> list[Condition]:
        """Return the terms bound to a new event."""
        constants = self._constants.conditions(0) if self._shape.constants else []
        return [*search.bind(self._shape.joins), *constants]


class RunningTotals:
    """The totals of all groups. An event that arrives or expires costs O(1) for each grouping."""

    def __init__(self, grouping: Grouping, store: HistoryStore) -> None:
        self.grouping = grouping
        self._store = store
        self._filters = Where(store, grouping.filters)
        self._totals: dict[Key, Total] = {}
        self._reset()

    def _reset(self) -> None:
        store = self._store
        self._totals = {}
        self._columns = self._used()
        self._compactions = store.compactions
        self._first = self._next = store.first

    def _used(self) -> list[OldColumn]:
        names = [*self.grouping.by, *([] if self.grouping.old is None else [self.grouping.old])]
        return [self._store.columns[name] for name in names]

    def of(self, key: Key | None) -> Total:
        """Return the total of a group, for the history as it is now; None stands for no group."""
        self._refresh()
        return NOTHING if key is None else self._totals.get(key, NOTHING)

    def _refresh(self) -> None:
        store = self._store
        moved = self._compactions != store.compactions or any(
            old is not new for old, new in zip(self._columns, self._used(), strict=True)
        )
        if moved:
            self._reset()
        if (self._first, self._next) != (store.first, store.next):
            self._count(self._first, min(store.first, self._next), -1)
            self._count(max(self._next, store.first), store.next, 1)
            self._first, self._next = store.first, store.next

    def _count(self, first: int, stop: int, times: int) -> None:
        """Add the events `first <= number < stop` to their groups, or take them away."""
        store, totals = self._store, self._totals
        positions = np.arange(first - store.base, stop - store.base, dtype=np.int32)
        positions = narrowed(store, positions, self._filters.conditions(Search(store, {})))
        columns = [self._values(column, positions) for column in self._columns]
        if self.grouping.old is None:
            columns.append([...] * positions.size)
        for *values, value in zip(*columns, strict=True):
            key = key_of(values)
            if key is not None and value is not None:
                total = totals.get(key)
                if total is None:
                    total = totals[key] = Total()
                total.add(value, times)
                if not total.values:
                    del totals[key]

    def _values(self, column: OldColumn, positions: Int32s) -> list[object]:
        decode = self._store.encoder.decode
        lanes, payloads = column.lanes[positions].tolist(), column.payloads[positions].tolist()
        return [decode(lane, payload) for lane, payload in zip(lanes, payloads, strict=True)]

    def check(self) -> None:
        """Assert the invariants."""
        fresh = RunningTotals(self.grouping, self._store)
        fresh._refresh()
        self._refresh()
        assert fresh._totals.keys() == self._totals.keys(), "a group is there while it has an event"
        for key, total in fresh._totals.items():
            for aggregate in Aggregate:
                assert total.value(aggregate) == self._totals[key].value(aggregate), "what expired was taken away"


def running_totals(grouping: Grouping, store: HistoryStore) -> RunningTotals:
    """Return the totals of a grouping, which all tests share that compare with them."""
    found = store.totals.get(grouping)
    if found is None:
        found = store.totals[grouping] = RunningTotals(grouping, store)
    return found


def key_of(values: Sequence[object]) -> Key | None:
    """Return what is equal for equal values; None if one of them equals nothing."""
    key = []
    for value in values:
        kind = kind_of(value)
        if kind is None:
            return None
        key.append((kind, moment(value) if kind is Kind.TIME else comparable(value)))  # type: ignore[arg-type]
    return tuple(key)


def total_at(positions: Int32s, old: str | None, store: HistoryStore) -> Total:
    """Return the total of the old values at positions; each distinct value is decoded once."""
    total = Total()
    if old is None:
        total.values = positions.size
        return total
    column = store.columns[old]
    lanes, payloads = column.lanes[positions], column.payloads[positions]
    integers = payloads[lanes == Lane.INTEGER]
    if integers.size and integers.size < _SMALL and np.abs(integers).max() < _SMALL and integers.min() > -_SMALL:
        total.add(int(integers.sum()))
        total.values, total.numbers = integers.size, integers.size
    else:
        integers = integers[:0]
    for lane in np.unique(lanes).tolist():
        if lane == Lane.NULL or (lane == Lane.INTEGER and integers.size):
            continue
        distinct, counts = np.unique(payloads[lanes == lane], return_counts=True)
        for payload, times in zip(distinct.tolist(), counts.tolist(), strict=True):
            total.add(store.encoder.decode(lane, payload), times)
    return total
