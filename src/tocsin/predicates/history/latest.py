"""Conditions on old events alone: for each, the latest old event that satisfies it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tocsin.model.condition import OldIsNull
from tocsin.predicates.history.constant_tests import Constants, Row, TermShape
from tocsin.predicates.history.search import Search, narrowed
from tocsin.predicates.history.store import HistoryStore


class Latest:
    """The number of the latest event that satisfies each condition, kept current as events arrive.

    Events leave the history in the order in which they came, so a condition is satisfied by some old event exactly
    while the latest that did is still there: nothing is searched again when events expire.
    """

    def __init__(self, store: HistoryStore, shape: TermShape, rows: Sequence[Row]) -> None:
        assert all(isinstance(term, OldIsNull) for term in shape.joins), "conditions on old events alone"
        self._store = store
        self._search = Search(store, {})
        self._shape = shape
        self._constants = Constants(store, shape.constants, rows)
        self._numbers: npt.NDArray[np.int64] = np.full(len(rows), -1, dtype=np.int64)
        self._seen = store.first

    def numbers(self) -> npt.NDArray[np.int64]:
        """The number of the latest event for each condition, -1 if there was none. Cost: the events since last time."""
        store = self._store
        start = max(self._seen, store.first)
        if start < store.next:
            positions = np.arange(start - store.base, store.next - store.base, dtype=np.int32)
            positions = narrowed(store, positions, self._search.bind(self._shape.joins))
            if positions.size:
                found = self._constants.latest(positions)
                self._numbers = np.where(found >= 0, found + store.base, self._numbers)
            self._seen = store.next
        return self._numbers

    def holding(self) -> npt.NDArray[np.bool_]:
        """For each condition whether some event of the history satisfies it."""
        return self.numbers() >= self._store.first
