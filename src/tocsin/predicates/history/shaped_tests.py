"""Answer tests on the history, all tests of one shape together.

- `SimpleTests`: one comparison with all old events, from their aggregates.
- `GroupedFamily`: one comparison with the old events that satisfy constants, from the aggregates of each group.
- `StaticFamily`: tests that do not name the new event, from the latest old event that satisfies each.
- `JoinFamily`: all others, by a search among the old events.

Each has a method `probe` that returns the ids of its tests that are TRUE, and of those that are NULL.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap

from tocsin.arrays import Bools, Int32s, Int64s
from tocsin.model.condition import OldComparedToNew, OldIsNull, Op, Quantifier
from tocsin.model.lookup import lookup
from tocsin.model.values import compare_values, kind_of
from tocsin.predicates.history.constant_tests import Constants, Row, TermShape
from tocsin.predicates.history.encode import LANES_OF, Lane
from tocsin.predicates.history.kernels import Groups, extend_groups, fill_group, groups_reaching
from tocsin.predicates.history.search import Search, every, narrowed, some
from tocsin.predicates.history.store import HistoryStore

EXISTS = "EXISTS"
Form = Quantifier | str
"""How the comparison is written: `new op ANY`, `new op ALL`, or EXISTS with `new op old`, which is never NULL."""

_NO_SLOTS: Int64s = np.empty(0, dtype=np.int64)
_SINGLE_COST = 3000
"""The cost of a search for a single test, in old events that a scan passes in the same time."""
_MOST_SINGLE_EVENTS = 64
"""If more events than this have arrived, groups are filled from the trees, not extended event by event."""


class AggregateOutcome(NamedTuple):
    """Everything that the truth of a comparison with all old events depends on."""

    is_empty: bool
    """There are no old events."""
    unclear: bool
    """Some old value does not compare with the new one."""
    to_least: int | None = None
    """The sign of the new value minus the least old value of its kind; None if no old value has its kind."""
    to_greatest: int | None = None
    """The same for the greatest old value."""
    is_member: bool = False
    """Some old value equals the new one."""

    def any(self, op: Op) -> bool:
        """Tell whether `new op old` is TRUE for some old event.

        `new < old` is TRUE for some old value if it is for the greatest, `new > old` if it is for the least, and
        `new <> old` if it is for one of the two.
        """
        if self.to_least is None or self.to_greatest is None:
            return False
        return self.is_member if op is Op.EQ else op.holds(self.to_least) or op.holds(self.to_greatest)

    def truth(self, op: Op, form: Form) -> bool | None:
        """Return the truth of one comparison; ALL is the negation of ANY with the opposite operator."""
        if form is Quantifier.ALL:
            return self.is_empty or (False if self.any(op.negated) else None if self.unclear else True)
        if self.any(op):
            return True
        return None if form is Quantifier.ANY and self.unclear else False


class SimpleTests:
    """All tests that compare `new` with `old`, by operator (as in `new op old`) and form.

    A probe costs O(1), or O(log n) if equality needs the tree. There are few outcomes: the ids that are TRUE and NULL
    are cached for each.
    """

    def __init__(self, new: str, old: str) -> None:
        self.new = new
        self.old = old
        self.members = BitMap()
        self._ids: dict[tuple[Op, Form], list[int]] = {}
        self._answers: dict[AggregateOutcome, tuple[Int32s, Int32s]] = {}
        self._asks_for_equal = False
        """Whether some test needs to know that an old value is equal: the least and greatest do not tell."""

    def add(self, op: Op, form: Form, number: int) -> None:
        """Add a test before the first probe."""
        self.members.add(number)
        self._ids.setdefault((op, form), []).append(number)
        self._asks_for_equal |= (op.negated if form is Quantifier.ALL else op) is Op.EQ

    @property
    def tests(self) -> list[tuple[Op, Form, int]]:
        """Operator, form and id of each test."""
        return [(op, form, number) for (op, form), numbers in self._ids.items() for number in numbers]

    def probe(self, search: Search) -> tuple[Int32s, Int32s]:
        """Return the ids of the tests that are TRUE, and of those that are NULL."""
        outcome = self._outcome(search)
        answer = self._answers.get(outcome)
        if answer is None:
            truths = {key: outcome.truth(*key) for key in self._ids}
            true, null = (
                np.array([n for key, ids in self._ids.items() if truths[key] is truth for n in ids], dtype=np.int32)
                for truth in (True, None)
            )
            answer = self._answers[outcome] = true, null
        return answer

    def _outcome(self, search: Search) -> AggregateOutcome:
        store = search.store
        if len(store) == 0:
            return AggregateOutcome(is_empty=True, unclear=False)
        value = lookup(search.event, self.new)
        kind = kind_of(value)
        count, least, greatest = (0, None, None) if kind is None else store.aggregates(self.old).ends(kind)
        if count == 0:
            return AggregateOutcome(is_empty=False, unclear=True)
        to_least, to_greatest = compare_values(value, least), compare_values(value, greatest)
        is_member = 0 in (to_least, to_greatest) or (
            self._asks_for_equal
            and to_least == 1
            and to_greatest == -1
            and store.tree(self.old).contains(search.equal_to(self.new))
        )
        return AggregateOutcome(False, count < len(store), to_least, to_greatest, is_member)


class GroupedFamily:
    """`new op ANY|ALL (SELECT old FROM history h WHERE constants)`, where `op` is not equality.

    "Cheaper than ever before, product X" is one comparison with the least price of X, whatever the number of old
    events. A test's group is the old events with its constants; for each, the least and greatest value, lane by lane.
    A new event is added to its groups in O(tests); a group whose least or greatest value has expired is computed anew
    from the trees.
    """

    def __init__(
        self,
        store: HistoryStore,
        quantifier: Quantifier,
        met: OldComparedToNew,
        shape: TermShape,
        ids: Int32s,
        rows: Sequence[Row],
    ) -> None:
        assert met.op is not Op.EQ, "the least and greatest value do not decide equality"
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

    def probe(self, search: Search) -> tuple[Int32s, Int32s]:
        """Return the ids of the tests that are TRUE, and of those that are NULL."""
        self._refresh()
        store = self._store
        old = store.encoder.old(store.columns[self._met.old])
        [(_, bounds)] = search.bind([self._met])
        met = groups_reaching(self._groups, store.first, old, bounds)
        kind = kind_of(lookup(search.event, self._met.new))
        others = [lane for lane in Lane if kind is None or lane not in LANES_OF[kind]]
        null = (self._groups.latest[:, others] >= store.first).any(axis=1) & ~met
        true = met if self._quantifier is Quantifier.ANY else ~(met | null)
        return self._ids[true], self._ids[null]

    def _refresh(self) -> None:
        """Add the events that have arrived and remove those that have expired."""
        store, groups = self._store, self._groups
        arrived = store.next - max(self._next, store.first)
        if store.compactions != self._compactions or arrived > _MOST_SINGLE_EVENTS:
            self._fill(np.arange(self._ids.size))
        else:
            for number in range(store.next - arrived, store.next):
                self._extend(number - store.base)
            if self._first < store.first:
                gone = (groups.least_at < store.first) | (groups.greatest_at < store.first)
                self._fill(np.flatnonzero((gone & (groups.latest >= store.first)).any(axis=1)))
        self._compactions, self._first, self._next = store.compactions, store.first, store.next

    def _fill(self, slots: Int64s) -> None:
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


class Latest:
    """The latest event that satisfies each of many conditions on old events alone, kept current as events arrive.

    Events leave the history in the order in which they came, so some old event satisfies a condition exactly while the
    latest one that did is still there: nothing is searched again when events expire.
    """

    def __init__(self, store: HistoryStore, shape: TermShape, rows: Sequence[Row]) -> None:
        assert all(isinstance(term, OldIsNull) for term in shape.joins), "conditions on old events alone"
        self._store = store
        self._nulls = Search(store, {}).bind(shape.joins)
        self._constants = Constants(store, shape.constants, rows)
        self._numbers: Int64s = np.full(len(rows), -1, dtype=np.int64)
        self._seen = store.first

    def holding(self) -> Bools:
        """Tell for each condition whether some old event satisfies it. Cost: the events since the last call."""
        store = self._store
        start = max(self._seen, store.first)
        if start < store.next:
            positions = np.arange(start - store.base, store.next - store.base, dtype=np.int32)
            positions = narrowed(store, positions, self._nulls)
            if positions.size:
                found = self._constants.latest(positions)
                self._numbers = np.where(found >= 0, found + store.base, self._numbers)
            self._seen = store.next
        return self._numbers >= store.first


class StaticFamily:
    """EXISTS tests that do not name the new event: TRUE while the latest old event that satisfies them is there."""

    def __init__(self, store: HistoryStore, shape: TermShape, ids: Int32s, rows: Sequence[Row]) -> None:
        self.members = BitMap(ids)
        self._ids = ids
        self._latest = Latest(store, shape, rows)

    def probe(self, _: Search) -> tuple[Int32s, Int32s]:
        """Return the ids of the tests that are TRUE; none is ever NULL."""
        return self._ids[self._latest.holding()], self._ids[_NO_SLOTS]


class JoinFamily:
    """Tests whose terms compare with the new event.

    The old events that satisfy the terms without constants are found once for all tests; or each test is searched by
    its rarest term, if that is estimated to cost less.
    """

    def __init__(
        self, store: HistoryStore, form: Form, met: TermShape, null: TermShape | None, ids: Int32s, rows: Sequence[Row]
    ) -> None:
        self._form = form
        self._met = met
        self._null = null
        self.members = BitMap(ids)
        self._ids = ids
        self._constants = Constants(store, met.constants, rows)

    def probe(self, search: Search) -> tuple[Int32s, Int32s]:
        """Return the ids of the tests that are TRUE, and of those that are NULL."""
        met = self._holding(search, self._met)
        if self._null is None:
            return self._ids[met], self._ids[_NO_SLOTS]
        null = np.setdiff1d(self._holding(search, self._null), met)
        if self._form is Quantifier.ANY:
            return self._ids[met], self._ids[null]
        rest = np.ones(self._ids.size, dtype=np.bool_)
        rest[met] = rest[null] = False
        return self._ids[rest], self._ids[null]

    def _holding(self, search: Search, shape: TermShape) -> Int64s:
        """Return the tests for which some old event satisfies all terms of `shape`."""
        store = search.store
        if not shape.constants:
            return _NO_SLOTS if some(store, search.bind(shape.joins)) is None else np.arange(self._ids.size)
        if search.estimate(shape.joins) <= self._ids.size * _SINGLE_COST:
            return self._constants.holding(search.all(shape.joins))
        joins = search.bind(shape.joins)
        each = (some(store, joins + self._constants.conditions(slot)) for slot in range(self._ids.size))
        return np.flatnonzero([number is not None for number in each])
