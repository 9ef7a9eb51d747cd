"""Answer many conditions that differ in their constants alone, together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tocsin.arrays import Int32s, Int64s, UInt8s
from tocsin.model.condition import OldComparedToConstant, Op, Slot
from tocsin.model.predicate import Range
from tocsin.model.values import Kind
from tocsin.predicates.history.encode import comparable
from tocsin.predicates.history.kernels import LANES, Bounds, any_satisfying, any_within, keys_at, last_satisfying
from tocsin.predicates.history.search import Condition, JoinTerm
from tocsin.predicates.history.store import HistoryStore

_BLOCK = 4096
"""How many positions are searched at a time for the latest that satisfies a test."""


@dataclass(frozen=True, slots=True)
class Required:
    """`h.old` is of this kind and in the range; or it is not, if `negated`."""

    old: str
    kind: Kind
    range: Range
    negated: bool = False


Row = tuple[OldComparedToConstant | Required, ...]
"""The terms of one test that hold its constants: unlike bare constants, `= 1` and `= TRUE` are different."""


class ConstantTerm(NamedTuple):
    """`h.old op …`: a term without its constant. Without an operator it is a `Required`."""

    old: str
    op: Op | None


@dataclass(frozen=True, slots=True)
class TermShape:
    """A conjunction of terms without its constants; both parts sorted, so that equal conjunctions have equal shapes."""

    joins: tuple[JoinTerm, ...]
    constants: tuple[ConstantTerm, ...]


def split(terms: Iterable[JoinTerm | OldComparedToConstant | Required]) -> tuple[TermShape, Row]:
    """Return the shape of a conjunction and its terms with constants."""
    joins: list[JoinTerm] = []
    constants: list[tuple[ConstantTerm, OldComparedToConstant | Required]] = []
    for term in sorted(set(terms), key=repr):
        if isinstance(term, OldComparedToConstant):
            constants.append((ConstantTerm(term.old, term.op), term))
        elif isinstance(term, Required):
            constants.append((ConstantTerm(term.old, None), term))
        else:
            joins.append(term)
    constants.sort(key=lambda constant: (constant[0].old, "" if constant[0].op is None else constant[0].op.value))
    return TermShape(tuple(joins), tuple(term for term, _ in constants)), tuple(constant for _, constant in constants)


class Constants:
    """`terms` with one tuple of constants per test: bounds as arrays over (term, test, lane).

    Bounds of strings and decimals are labels of the history's dictionaries, and are made anew when those change.
    """

    def __init__(self, store: HistoryStore, terms: tuple[ConstantTerm, ...], rows: Sequence[Row]) -> None:
        self.terms = terms
        self._store = store
        self._rows = rows
        self._epoch: tuple[int, int] | None = None
        self._bounds: Bounds
        self._ends: list[tuple[Int64s, Int64s]] = []

    def bounds(self) -> Bounds:
        """Return the bounds of all terms of all tests, for the dictionaries as they are now."""
        if self._epoch != self._store.epoch:
            for row in self._rows:
                for term in row:
                    self._intern(term)
            made = [[self._bind(row[t]) for row in self._rows] for t in range(len(self.terms))]
            shape = (len(self.terms), len(self._rows), LANES)
            # Of no terms at all an array would be of floats.
            types = {"low": np.int64, "high": np.int64, "outside": np.bool_}
            self._bounds = Bounds(
                *(
                    np.array([[getattr(b, end) for b in row] for row in made], types[end]).reshape(shape)
                    for end in Bounds._fields
                )
            )
            self._epoch = self._store.epoch
            self._sort_ends()
        return self._bounds

    def _intern(self, term: OldComparedToConstant | Required) -> None:
        if isinstance(term, OldComparedToConstant):
            self._store.encoder.intern(comparable(term.constant))
        else:
            for end in (term.range.low, term.range.high):
                if end is not None:
                    self._store.encoder.intern(comparable(end))

    def _bind(self, term: OldComparedToConstant | Required) -> Bounds:
        encoder = self._store.encoder
        if isinstance(term, OldComparedToConstant):
            assert not isinstance(term.constant, Slot), "tests on history are bound to their constants"
            return encoder.condition(term.op, term.constant)
        bounds = encoder.range_condition(term.kind, term.range)
        return bounds._replace(outside=~bounds.outside) if term.negated else bounds

    def conditions(self, test: int) -> list[Condition]:
        """Return the terms of one test."""
        bounds = self.bounds()
        return [(term.old, Bounds(*(array[t, test] for array in bounds))) for t, term in enumerate(self.terms)]

    def holding(self, positions: Int32s) -> Int64s:
        """Return the tests whose terms some old event at `positions` satisfies.

        Cost: one pass over the positions and O(log tests) for one `<`, `<=`, `>` or `>=`; O(tests log positions) for
        one other term; else what one term of each test leaves of the positions.
        """
        bounds = self.bounds()
        if positions.size == 0:
            return np.empty(0, dtype=np.int64)
        if len(self.terms) == 1 and self._ends:
            return self._beyond(positions)
        if len(self.terms) == 1:
            keys, starts = self._sorted_keys(0, positions)
            return np.flatnonzero(any_within(keys, starts, Bounds(*(array[0] for array in bounds))))
        pivot = next((t for t, term in enumerate(self.terms) if term.op is Op.EQ), 0)
        keys, lanes = self.values(positions)
        order = np.lexsort((keys[pivot], lanes[pivot]))
        starts = np.searchsorted(lanes[pivot][order], np.arange(LANES + 1))
        keys, lanes = keys.take(order, axis=1), lanes.take(order, axis=1)
        return np.flatnonzero(any_satisfying(keys, lanes, starts, pivot, bounds))

    def latest(self, positions: Int32s) -> Int64s:
        """Return for each test the last of the ascending positions that satisfies its terms; -1 if none does."""
        bounds = self.bounds()
        latest = np.full(len(self._rows), -1, dtype=np.int64)
        for stop in range(positions.size, 0, -_BLOCK):
            block = positions[max(0, stop - _BLOCK) : stop]
            wanted = latest < 0
            for t in range(len(self.terms) if block.size > 1 else 0):
                keys, starts = self._sorted_keys(t, block)
                wanted &= any_within(keys, starts, Bounds(*(array[t] for array in bounds)))
            if wanted.any():
                found = last_satisfying(*self.values(block), bounds, wanted)
                latest = np.where(found >= 0, block[found], latest)
        return latest

    def values(self, positions: Int32s) -> tuple[Int64s, UInt8s]:
        """Return keys and lanes of all terms at the positions."""
        keys = np.empty((len(self.terms), positions.size), dtype=np.int64)
        lanes = np.empty((len(self.terms), positions.size), dtype=np.uint8)
        for t, term in enumerate(self.terms):
            column = self._store.columns[term.old]
            keys[t], lanes[t] = keys_at(positions, self._store.encoder.old(column)), column.lanes[positions]
        return keys, lanes

    def _sorted_keys(self, term: int, positions: Int32s) -> tuple[Int64s, Int64s]:
        column = self._store.columns[self.terms[term].old]
        keys, lanes = keys_at(positions, self._store.encoder.old(column)), column.lanes[positions]
        order = np.argsort(keys) if (lanes == lanes[0]).all() else np.lexsort((keys, lanes))
        return keys[order], np.searchsorted(lanes[order], np.arange(LANES + 1))

    def _sort_ends(self) -> None:
        """Sort the tests of one term that is open to one side by their other end, lane by lane; `~` reverses order."""
        self._ends = []
        if len(self.terms) == 1 and self.terms[0].op in (Op.LT, Op.LE, Op.GT, Op.GE):
            upwards = self.terms[0].op in (Op.GT, Op.GE)
            for lane in range(LANES):
                low, high = self._bounds.low[0, :, lane], self._bounds.high[0, :, lane]
                tests = np.flatnonzero(low <= high)
                ends = low[tests] if upwards else ~high[tests]
                order = np.argsort(ends, kind="stable")
                self._ends.append((tests[order], ends[order]))

    def _beyond(self, positions: Int32s) -> Int64s:
        """Return the tests whose open interval the greatest or least key reaches."""
        column = self._store.columns[self.terms[0].old]
        keys, lanes = keys_at(positions, self._store.encoder.old(column)), column.lanes[positions]
        if self.terms[0].op in (Op.LT, Op.LE):
            keys = ~keys
        found = []
        for lane in np.flatnonzero(np.bincount(lanes, minlength=LANES)):
            tests, ends = self._ends[lane]
            found.append(tests[: np.searchsorted(ends, keys[lanes == lane].max(), side="right")])
        return found[0] if len(found) == 1 else np.unique(np.concatenate(found))
