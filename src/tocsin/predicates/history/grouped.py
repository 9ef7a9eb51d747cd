"""`new op ANY|ALL (SELECT old FROM history h WHERE constants)`: an aggregate of the old events with those constants.

"Cheaper than ever before, product X" is one comparison with the least price of X, whatever the number of old events.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tocsin.model.condition import OldComparedToNew, OldIsNull, Op, Quantifier
from tocsin.model.values import kind_of
from tocsin.predicates.history.constant_tests import Constants, Row, TermShape
from tocsin.predicates.history.encode import LANES_OF, Lane
from tocsin.predicates.history.group_kernels import Groups, extend_groups, fill_group, groups_reaching
from tocsin.predicates.history.search import Search, every, narrowed
from tocsin.predicates.history.store import HistoryStore

Ids = npt.NDArray[np.int32]
_FEW = 64


class GroupedFamily:
    """Tests that select old events by constants alone and compare one old attribute, not for equality.

    For each test the least and greatest value of its old events, lane by lane. A new event is added to the groups it
    belongs to in O(tests); a group whose least or greatest value has expired is computed anew from the trees.
    """

    def __init__(
        self,
        store: HistoryStore,
        quantifier: Quantifier,
        met: OldComparedToNew,
        shape: TermShape,
        ids: Ids,
        rows: Sequence[Row],
    ) -> None:
        assert met.op is not Op.EQ, "equality is no comparison with an aggregate"
        self.members = BitMap(ids)
        self._store = store
        self._quantifier = quantifier
        self._met = met
        self._nulls = Search(store, {}).bind([term for term in shape.joins if isinstance(term, OldIsNull)])
        self._constants = Constants(store, shape.constants, rows)
        self._ids = ids
        self._groups = Groups(*(np.full((ids.size, len(Lane)), -1, dtype=np.int64) for _ in Groups._fields))
        self._compactions = store.compactions
        self._first = self._next = store.first

    def probe(self, search: Search) -> tuple[Ids, Ids]:
        """The ids of the tests that are TRUE, and of those that are NULL."""
        self._refresh()
        store = self._store
        old = store.encoder.old(store.columns[self._met.old])
        [(_, bounds)] = search.bind([self._met])
        met = groups_reaching(self._groups, store.first, old, bounds)
        kind = kind_of(search.value(self._met.new))
        others = [lane for lane in Lane if kind is None or lane not in LANES_OF[kind]]
        null = (self._groups.latest[:, others] >= store.first).any(axis=1) & ~met
        true = met if self._quantifier is Quantifier.ANY else ~(met | null)
        return self._ids[true], self._ids[null]

    def _refresh(self) -> None:
        """Take in what arrived and let go what left."""
        store, groups = self._store, self._groups
        arrived = store.next - max(self._next, store.first)
        if store.compactions != self._compactions or arrived > _FEW:
            self._fill(np.arange(self._ids.size))
        else:
            for number in range(store.next - arrived, store.next):
                self._extend(number - store.base)
            if self._first < store.first:
                gone = (groups.least_at < store.first) | (groups.greatest_at < store.first)
                self._fill(np.flatnonzero((gone & (groups.latest >= store.first)).any(axis=1)))
        self._compactions, self._first, self._next = store.compactions, store.first, store.next

    def _fill(self, slots: npt.NDArray[np.int64]) -> None:
        store = self._store
        for slot in slots.tolist():
            positions = every(store, self._constants.conditions(slot) + self._nulls)
            old = store.encoder.old(store.columns[self._met.old])
            fill_group(slot, positions, store.base, old, self._groups)

    def _extend(self, position: int) -> None:
        store = self._store
        alone = np.array([position], dtype=np.int32)
        if narrowed(store, alone, self._nulls).size:
            keys, lanes = self._constants.values(alone)
            old = store.encoder.old(store.columns[self._met.old])
            extend_groups(position, store.base, keys[:, 0], lanes[:, 0], self._constants.bounds(), old, self._groups)
