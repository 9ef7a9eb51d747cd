"""Tests of one shape: the same terms, each test with its own constants."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tocsin.model.condition import Quantifier
from tocsin.predicates.history.constant_tests import Constants, Row, TermShape
from tocsin.predicates.history.latest import Latest
from tocsin.predicates.history.search import Search, some
from tocsin.predicates.history.simple import Form
from tocsin.predicates.history.store import HistoryStore

Ids = npt.NDArray[np.int32]
Slots = npt.NDArray[np.int64]

_NONE: Slots = np.empty(0, dtype=np.int64)
_SINGLE_COST = 3000
"""What one search for a single test costs, counted in old events that a scan passes over."""


class JoinFamily:
    """Tests whose terms compare with the new event.

    The old events that satisfy the terms without constants are found once for all tests; or each test is searched by
    its rarest term, if that is estimated to cost less.
    """

    def __init__(
        self, store: HistoryStore, form: Form, met: TermShape, null: TermShape | None, ids: Ids, rows: Sequence[Row]
    ) -> None:
        self._form = form
        self._met = met
        self._null = null
        self.members = BitMap(ids)
        self._ids = ids
        self._constants = Constants(store, met.constants, rows)

    def probe(self, search: Search) -> tuple[Ids, Ids]:
        """The ids of the tests that are TRUE, and of those that are NULL."""
        met = self._holding(search, self._met)
        if self._null is None:
            return self._ids[met], self._ids[_NONE]
        null = np.setdiff1d(self._holding(search, self._null), met)
        if self._form is Quantifier.ANY:
            return self._ids[met], self._ids[null]
        rest = np.ones(self._ids.size, dtype=np.bool_)
        rest[met] = rest[null] = False
        return self._ids[rest], self._ids[null]

    def _holding(self, search: Search, shape: TermShape) -> Slots:
        """The tests for which some old event satisfies all terms of `shape`."""
        store = search.store
        if not shape.constants:
            return _NONE if some(store, search.bind(shape.joins)) is None else np.arange(self._ids.size)
        if search.estimate(shape.joins) <= self._ids.size * _SINGLE_COST:
            return self._constants.holding(search.all(shape.joins))
        joins = search.bind(shape.joins)
        each = (some(store, joins + self._constants.conditions(slot)) for slot in range(self._ids.size))
        return np.flatnonzero([number is not None for number in each])


class StaticFamily:
    """EXISTS tests that say nothing of the new event: TRUE while the latest old event that satisfies them is there."""

    def __init__(self, store: HistoryStore, shape: TermShape, ids: Ids, rows: Sequence[Row]) -> None:
        self.members = BitMap(ids)
        self._ids = ids
        self._latest = Latest(store, shape, rows)

    def probe(self, _: Search) -> tuple[Ids, Ids]:
        """The ids of the tests that are TRUE; none is ever NULL."""
        return self._ids[self._latest.holding()], self._ids[_NONE]
