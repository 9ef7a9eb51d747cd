"""Answer tests on the history for a whole batch of new events at once.

Two ways, both without a step in Python for each event:

- A test that is one comparison with all old events: the least and greatest old value, carried along the batch.
- Any other: one kernel looks for an old event, newest first. The conjunctions that tests look for are shared: `< ANY`
  and `>= ALL` look for the same old event, and so do tests of any shape whose terms are the same.

The second way passes over the history, so it is for histories of at most `MOST_EVENTS`, and for shapes with few tests:
of many that differ in a constant, `join_table` answers all by one search. Values that have no comparable form, such as
decimals with a fraction, are left to `join_table` too.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tocsin.arrays import Bools, Int8s, Int32s, Int64s, Ragged, UInt8s
from tocsin.model.condition import OldComparedToConstant, OldComparedToNew, OldIsNull, Op, Quantifier
from tocsin.model.events import EventBatch
from tocsin.predicates.history.batch_kernels import (
    BUCKETS,
    IS_NULL,
    IS_TRUE,
    IS_UNKNOWN,
    NOT_COMPARABLE,
    TO_CONSTANT,
    TO_NEW,
    Chains,
    Extremes,
    NewTable,
    OldTable,
    Terms,
    Tests,
    add_old,
    judge_event,
    judge_tests,
    running_outcomes,
)
from tocsin.predicates.history.comparable_values import Comparables, EncodedEvent, is_exact, of_lanes, of_new
from tocsin.predicates.history.constant_tests import Constants, split
from tocsin.predicates.history.encode import Encoded, Lane, float_of
from tocsin.predicates.history.kernels import LANES, Bounds
from tocsin.predicates.history.search import JoinTerm, NotComparable
from tocsin.predicates.history.shaped_tests import AggregateOutcome, Form
from tocsin.predicates.history.store import HistoryStore

MOST_EVENTS = 131_072
"""Old events that are passed over. 100 shapes of tests take 0.5 ms an event with 30,000 old events, 0.9 with 120,000,
in trees 18 and 25: most searches are ruled out or find one of the newest. One that finds nothing is slower than there:
34 µs for 16,384 events, where trees take 64 whatever their number. Takes 30 bytes an event and attribute."""
_MOST_EXPIRED = 4096
"""Expired events that are kept in comparable form until there are more than of the others."""
FEW_ROWS = 13
"""A comparison with all old events takes 20 µs for a single event, and 259 to 294 µs for a batch."""
_SIGNS = {Op.LT: 1, Op.LE: 3, Op.EQ: 2, Op.NE: 5, Op.GE: 6, Op.GT: 4}
_EXACT = int(Lane.EXACT)
_NO_CHAINS = Chains(np.empty((0, 0), np.int32), np.empty((0, 0), np.int32))
_NO_EVENT = np.empty((0, 5), np.int64)
_NO_VALUES = NewTable(np.empty((1, 0), np.uint8), np.empty((1, 0), np.int64), np.empty((1, 0), np.int64))

BatchTerm = JoinTerm | OldComparedToConstant
Columns = Mapping[str, Encoded]
"""The values of a batch that will be history, by attribute."""
ToRemember = Columns | EncodedEvent
"""The same, or the only event of a batch of one."""


class Look(NamedTuple):
    """A test as searches: number, form, the search that decides it, and the one that makes it NULL, or None."""

    number: int
    form: Form
    met: tuple[BatchTerm, ...]
    null: tuple[BatchTerm, ...] | None


class BatchTruths(NamedTuple):
    """The tests that are TRUE and NULL by row."""

    true: Ragged
    null: Ragged


class NewValues:
    """The new values of a batch in comparable form, each attribute once.

    `event` is that of a batch of one, if it will be history: its values have codes already.
    """

    def __init__(self, batch: EventBatch, store: HistoryStore, event: EncodedEvent | None = None) -> None:
        self.batch = batch
        self._store = store
        self._event = event
        self._values: dict[str, Comparables] = {}

    def of(self, attribute: str) -> Comparables:
        """Return the values of an attribute."""
        found = self._values.get(attribute)
        if found is None:
            values = self.batch.column(attribute)
            found = self._values[attribute] = of_new(values, len(self.batch), self._store.encoder)
        return found

    def table(self, attributes: Sequence[str]) -> NewTable | None:
        """Return the values of some attributes for a kernel; None if one of them has no comparable form."""
        columns = [self.of(name) for name in attributes]
        return None if any(map(is_exact, columns)) else _stacked(columns)

    def of_one(self, attributes: Sequence[str]) -> Int64s | None:
        """Return lane, key, kind, major and minor of each attribute of a single event; None as `table` does.

        Lane and key are 0 if it will not be history.
        """
        event, values = self._event, []
        for name in attributes:
            if event is not None and name in event.values:
                values.append(event.comparable(name))
            else:
                values.append((0, 0, *of_new([self.batch.value(name)], 1, self._store.encoder).at(0)))
        return _rows(values)


class BatchSearches:
    """Tests of any shape, for histories that can be passed over."""

    def __init__(self, tests: Iterable[Look], store: HistoryStore) -> None:
        self._store = store
        looks = list(tests)
        searches: dict[frozenset[BatchTerm], int] = {}
        self.numbers: Int32s = np.array([look.number for look in looks], np.int32)
        met = [searches.setdefault(frozenset(look.met), len(searches)) for look in looks]
        null = [-1 if look.null is None else searches.setdefault(frozenset(look.null), len(searches)) for look in looks]
        is_all = [look.form is Quantifier.ALL for look in looks]
        self._tests = Tests(np.array(met, np.int64), np.array(null, np.int64), np.array(is_all, np.bool_))
        assert frozenset() not in searches, "a search has terms"
        self._old = sorted({term.old for search in searches for term in search})
        self._new = sorted({term.new for s in searches for term in s if not isinstance(term, _WITHOUT_NEW)})
        self._constants: list[Constants] = []
        rows: list[tuple[int, int, int, int]] = []
        starts, equalities = [0], []
        slots: dict[tuple[int, int, int, int], int] = {}
        for search in searches:
            first, *others = (self._row(term) for term in sorted(search, key=_rank))
            rows += [first, *others]
            starts.append(len(rows))
            is_equality = first[0] == TO_NEW and first[3] == _SIGNS[Op.EQ]
            equalities.append(slots.setdefault(first, len(slots)) if is_equality else -1)
        form, old, new, what = (np.ascontiguousarray(column) for column in np.array(rows, np.int64).reshape(-1, 4).T)
        self._terms = Terms(np.array(starts, np.int64), form, old, new, what, np.array(equalities, np.int64))
        self._recent = _Recent(store, self._old)
        self._bound: tuple[tuple[int, int], Bounds] | None = None

    def _row(self, term: BatchTerm) -> tuple[int, int, int, int]:
        old = self._old.index(term.old)
        if isinstance(term, OldComparedToConstant):
            shape, row = split([term])
            self._constants.append(Constants(self._store, shape.constants, [row]))
            return TO_CONSTANT, old, 0, len(self._constants) - 1
        if isinstance(term, OldIsNull):
            return IS_NULL, old, 0, int(term.negated)
        new = self._new.index(term.new)
        return (NOT_COMPARABLE, old, new, 0) if isinstance(term, NotComparable) else (TO_NEW, old, new, _SIGNS[term.op])

    def judge(self, new: NewValues, columns: Columns | None, firsts: Int64s) -> BatchTruths | None:
        """Judge all tests for all rows; with `columns` each row sees those before it. None if it cannot be done.

        Row r sees the events from the place `firsts[r]` of the history on.
        """
        store, rows = self._store, len(new.batch)
        if len(store) + rows > MOST_EVENTS:
            return None
        bounds = self._bounds()
        if rows == 1:
            return self._judge_one(new, int(firsts[0]), bounds)
        old = self._recent.table(columns, rows)
        values = new.table(self._new)
        if old is None or values is None:
            return None
        start = store.first - self._recent.origin
        stop = start + len(store)
        stops = np.full(rows, stop, np.int64) + (0 if columns is None else np.arange(rows))
        truths = judge_tests(firsts + start, stops, self._terms, self._tests, *old, values, bounds, _NO_CHAINS)
        return BatchTruths(_lists(truths == IS_TRUE, self.numbers), _lists(truths == IS_UNKNOWN, self.numbers))

    def _judge_one(self, new: NewValues, gone: int, bounds: Bounds) -> BatchTruths | None:
        """Do the same for a single event, which sees no row before it."""
        values = new.of_one(self._new)
        if values is None:
            return None
        old = self._recent.table_and_newest()
        if old is None:
            return None
        table, extremes, newest = old
        start = self._store.first - self._recent.origin
        stop = start + len(self._store)
        terms, tests, (chains, linked) = self._terms, self._tests, self._recent.chains(stop)
        found = judge_event(
            newest, start + gone, stop, terms, tests, self.numbers, table, extremes, values, bounds, chains, linked
        )
        return BatchTruths(*(Ragged(np.array([0, one.size]), one) for one in found))

    def _bounds(self) -> Bounds:
        """Return the bounds of the constants, made anew when the labels of a dictionary have changed."""
        while self._bound is None or self._bound[0] != self._store.epoch:
            # Binding gives codes to constants, which may change all labels.
            self._bound = self._store.epoch, self._bind()
        return self._bound[1]

    def _bind(self) -> Bounds:
        if not self._constants:
            return Bounds(
                np.zeros((1, LANES), np.int64), np.zeros((1, LANES), np.int64), np.zeros((1, LANES), np.bool_)
            )
        each = [constants.bounds() for constants in self._constants]
        low, high = (np.concatenate([bounds[end][0] for bounds in each]) for end in (0, 1))
        return Bounds(low, high, np.concatenate([bounds.outside[0] for bounds in each]))


_WITHOUT_NEW = (OldIsNull, OldComparedToConstant)


def _rank(term: BatchTerm) -> tuple[int, str]:
    """Put the terms first that few old events satisfy, and among them those that searches share."""
    if isinstance(term, (OldComparedToNew, OldComparedToConstant)) and term.op is Op.EQ:
        return 0 if isinstance(term, OldComparedToNew) else 1, repr(term)
    return 3 if isinstance(term, OldIsNull) else 2, repr(term)


class _Recent:
    """The history in comparable form, in arrays that grow with it; made anew if positions or labels have changed."""

    def __init__(self, store: HistoryStore, attributes: Sequence[str]) -> None:
        self._store = store
        self._attributes = attributes
        self._epoch: tuple[int, int] | None = None
        self.origin = self._next = 0
        """The number of the event at place 0."""
        self._is_exact = False
        self._table = self._empty(0)
        self._extremes = self._no_extremes()
        self._chains = self._no_chains()
        self._linked = 0
        """The place behind the last that is in the chains."""

    def _empty(self, size: int) -> OldTable:
        shape = len(self._attributes), size
        kinds = (np.uint8, np.int64, np.uint8, np.int64, np.int64)
        return OldTable(*(np.zeros(shape, kind) for kind in kinds))

    def _no_extremes(self) -> Extremes:
        shape = len(self._attributes), LANES
        return Extremes(np.zeros(shape, np.bool_), np.zeros((*shape, 2), np.int64), np.zeros((*shape, 2), np.int64))

    def _no_chains(self) -> Chains:
        count = len(self._attributes)
        return Chains(np.full((count, BUCKETS), -1, np.int32), np.empty((count, self._table.lanes.shape[1]), np.int32))

    def chains(self, stop: int) -> tuple[Chains, int]:
        """Return the chains, and from which place on events are to be added to them, before `stop`."""
        linked, self._linked = self._linked, stop
        return self._chains, linked

    def table(self, columns: Columns | None, rows: int) -> tuple[OldTable, Extremes] | None:
        """Return the history and behind it the rows of a batch; None if some value has no comparable form."""
        store = self._store
        if not self._is_current():
            self._epoch, self.origin, self._next, self._is_exact = store.epoch, store.first, store.first, False
            self._table, self._extremes = self._empty(0), self._no_extremes()
            self._chains, self._linked = self._no_chains(), 0
        known, held = self._next - self.origin, store.next - self.origin
        added = 0 if columns is None else rows
        self._reserve(held + rows)
        if held - known + added:
            start, stop = self._next - store.base, store.next - store.base
            lanes = np.zeros((len(self._attributes), held - known + added), np.uint8)
            payloads = np.zeros(lanes.shape, np.int64)
            for place, name in enumerate(self._attributes):
                column = store.columns[name]
                lanes[place, : held - known] = column.lanes[start:stop]
                payloads[place, : held - known] = column.payloads[start:stop]
                if columns is not None and name in columns:
                    lanes[place, held - known :], payloads[place, held - known :] = columns[name]
            self._write(known, lanes, payloads)
        self._next = store.next
        return None if self._is_exact else (self._table, self._extremes)

    def table_and_newest(self) -> tuple[OldTable, Extremes, Int64s] | None:
        """Return the history for a single event, and the newest event of it if that is still to be written."""
        newest = self._store.newest
        if newest is None or self._next + 1 != self._store.next or not self._is_current():
            found = self.table(None, 1)
            return None if found is None else (*found, _NO_EVENT)
        self._reserve(self._store.next - self.origin)
        values = _rows([newest.comparable(name) for name in self._attributes])
        self._next, self._is_exact = self._store.next, self._is_exact or values is None
        return None if self._is_exact or values is None else (self._table, self._extremes, values)

    def _is_current(self) -> bool:
        """Tell whether what is written here is still where it was, and not mostly expired."""
        store = self._store
        is_mostly_gone = store.first - self.origin > max(_MOST_EXPIRED, len(store))
        return self._epoch == store.epoch and not is_mostly_gone and self._next <= store.next

    def _reserve(self, size: int) -> None:
        if size > self._table.lanes.shape[1]:
            grown = self._empty(size + size // 2 + 64)
            for field, array in grown._asdict().items():
                array[:, : self._table.lanes.shape[1]] = getattr(self._table, field)
            older = np.empty(grown.lanes.shape, np.int32)
            older[:, : self._table.lanes.shape[1]] = self._chains.older
            self._table, self._chains = grown, self._chains._replace(older=older)

    def _write(self, start: int, lanes: UInt8s, payloads: Int64s) -> None:
        values, keys = of_lanes(lanes.ravel(), payloads.ravel(), self._store.encoder)
        self._is_exact = self._is_exact or is_exact(values)
        stacked = np.stack([lanes.ravel().astype(np.int64), keys, *values], axis=1).astype(np.int64)
        add_old(start, stacked.reshape(*lanes.shape, 5), self._table, self._extremes)


class BatchComparison:
    """All tests that compare `new` with all old values of `old`, by operator (as in `new op old`) and form."""

    def __init__(self, new: str, old: str, tests: Sequence[tuple[Op, Form, int]], store: HistoryStore) -> None:
        self._new, self._old, self._tests, self._store = new, old, tests, store
        self._needs_members = any((op.negated if form is Quantifier.ALL else op) is Op.EQ for op, form, _ in tests)
        self._answers: dict[AggregateOutcome, tuple[Int32s, Int32s]] = {}

    def judge(self, new: NewValues, columns: Columns | None, firsts: Int64s) -> BatchTruths | None:
        """Judge all tests for all rows, as `BatchSearches` does. None if it cannot be done, or if events expire.

        For a few events alone it is not worth it.
        """
        if firsts.any() or firsts.size < FEW_ROWS:
            return None
        store, values, rows = self._store, new.of(self._new), len(new.batch)
        encoded = None if columns is None else columns.get(self._old, (np.zeros(rows, np.uint8), np.zeros(rows, int)))
        added = None if encoded is None else of_lanes(*encoded, store.encoder)[0]
        ends = self._ends()
        if ends is None or is_exact(values) or (added is not None and is_exact(added)):
            return None
        table = _NO_VALUES if added is None else _stacked([added])
        outcomes = running_outcomes(_stacked([values]), table, len(store), *ends)
        members = self._members(values, added, outcomes) if self._needs_members else np.zeros(rows, np.bool_)
        # Each is -1 to 3: three bits. Sorting 16 bits takes a 34th of the time of sorting rows.
        shifted = [outcomes[:, 0] + 1, outcomes[:, 1] + 1, outcomes[:, 2], members]
        packed = sum(part.astype(np.int16) << 3 * place for place, part in enumerate(shifted))
        codes, row_of = np.unique(packed, return_inverse=True)
        answers = [self._answer((c & 7) - 1, (c >> 3 & 7) - 1, c >> 6 & 7, c >> 9) for c in codes.tolist()]
        return BatchTruths(*(_gathered([answer[which] for answer in answers], row_of) for which in (0, 1)))

    def _ends(self) -> tuple[Int64s, Int64s, Int64s] | None:
        """Return the count, least and greatest old value of each kind; None if some have no comparable form."""
        counts, least, greatest = self._store.aggregates(self._old).by_lane
        if counts[Lane.EXACT]:
            return None
        lanes = np.arange(LANES, dtype=np.uint8)
        ends = []
        for payloads, sign in ((least, 1), (greatest, -1)):
            there = np.where(counts > 0, payloads, 0)
            values, _ = of_lanes(np.where(counts > 0, lanes, np.uint8(0)), there, self._store.encoder)
            ends.append(np.column_stack([values.majors, values.minors]))
            of_float = tuple(ends[-1][Lane.FLOAT]), tuple(ends[-1][Lane.INTEGER])
            is_beyond = (of_float[0] < of_float[1]) if sign > 0 else (of_float[0] > of_float[1])
            if counts[Lane.FLOAT] and (not counts[Lane.INTEGER] or is_beyond):
                ends[-1][Lane.INTEGER] = ends[-1][Lane.FLOAT]
        of_kind = counts.copy()
        of_kind[Lane.INTEGER] += counts[Lane.FLOAT]
        return of_kind, np.ascontiguousarray(ends[0]), np.ascontiguousarray(ends[1])

    def _members(self, values: Comparables, added: Comparables | None, outcomes: Int8s) -> Bools:
        """Tell for each row whether an old value equals the new one."""
        members: Bools = (outcomes[:, :2] == 0).any(axis=1)
        inside = (outcomes[:, 0] == 1) & (outcomes[:, 1] == -1)
        before = {added.at(row): row for row in range(added.kinds.size - 1, -1, -1)} if added is not None else {}
        is_old: dict[tuple[int, int, int], bool] = {}
        for row in np.flatnonzero(inside).tolist():
            value = values.at(row)
            if before.get(value, row) < row:
                members[row] = True
                continue
            if value not in is_old:
                is_old[value] = self._is_old(value)
            members[row] = is_old[value]
        return members

    def _is_old(self, value: tuple[int, int, int]) -> bool:
        return self._store.tree(self._old).contains(equality_of(value))

    def _answer(self, to_least: int, to_greatest: int, unclear: int, member: int) -> tuple[Int32s, Int32s]:
        if to_least == 3:
            outcome = AggregateOutcome(is_empty=True, unclear=False)
        elif to_least == 2:
            outcome = AggregateOutcome(is_empty=False, unclear=True)
        else:
            outcome = AggregateOutcome(False, bool(unclear), to_least, to_greatest, bool(member))
        answer = self._answers.get(outcome)
        if answer is None:
            truths = [(outcome.truth(op, form), number) for op, form, number in self._tests]
            true, null = (np.array(sorted(n for t, n in truths if t is truth), np.int32) for truth in (True, None))
            answer = self._answers[outcome] = true, null
        return answer


def equality_of(value: tuple[int, int, int]) -> Bounds:
    """Return the condition that an old value equals a value in comparable form."""
    kind, major, minor = value
    bounds = Bounds(np.ones(LANES, np.int64), np.zeros(LANES, np.int64), np.zeros(LANES, np.bool_))
    if kind == Lane.INTEGER:
        if minor == 0:
            bounds.low[Lane.FLOAT] = bounds.high[Lane.FLOAT] = major
        whole = _integer_of(major, minor)
        if whole is not None:
            bounds.low[Lane.INTEGER] = bounds.high[Lane.INTEGER] = whole
    elif minor == 0:
        bounds.low[kind] = bounds.high[kind] = major
    return bounds


def _integer_of(major: int, minor: int) -> int | None:
    near = float_of(major)
    if not near.is_integer() or abs(near) > 2.0**63:
        return None
    whole = int(near) + minor
    return whole if -(1 << 63) <= whole < 1 << 63 else None


def _rows(values: Sequence[tuple[int, ...]]) -> Int64s | None:
    """Return lane, key, kind, major and minor of values as an array; None if one of them has no comparable form."""
    if any(value[2] == _EXACT for value in values):
        return None
    return np.array(values, np.int64) if values else _NO_EVENT


def _stacked(values: Sequence[Comparables]) -> NewTable:
    if not values:
        return NewTable(np.zeros((1, 1), np.uint8), np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64))
    return NewTable(*(np.stack(arrays) for arrays in zip(*values, strict=True)))


def _lists(truths: Bools, numbers: Int32s) -> Ragged:
    """Return the tests that are marked in each row."""
    if truths.shape[0] == 1:
        marked = numbers[truths[0]]
        return Ragged(np.array([0, marked.size]), marked)
    counts = truths.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Ragged(starts, numbers[np.nonzero(truths)[1]])


def _gathered(lists: Sequence[Int32s], row_of: Int64s) -> Ragged:
    """Return for each row the list that it has."""
    sizes = np.array([one.size for one in lists], np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes[row_of])]).astype(np.int64)
    first = np.cumsum(sizes) - sizes
    places = np.repeat(first[row_of] - starts[:-1], sizes[row_of]) + np.arange(starts[-1])
    return Ragged(starts, np.concatenate([np.empty(0, np.int32), *lists])[places])


def united(parts: Sequence[Ragged], rows: int) -> Ragged:
    """Return for each row the numbers of all parts, sorted; each part has them sorted."""
    parts = [part for part in parts if part.values.size]
    if not parts:
        return Ragged(np.zeros(rows + 1, np.int64), np.empty(0, np.int32))
    if len(parts) == 1:
        return parts[0]
    row = np.concatenate([np.repeat(np.arange(rows), np.diff(part.starts)) for part in parts])
    numbers = np.concatenate([part.values for part in parts])
    order = np.lexsort((numbers, row))
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
    return Ragged(starts, numbers[order].astype(np.int32))
