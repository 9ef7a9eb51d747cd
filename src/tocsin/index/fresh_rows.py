"""New subscriptions as plain rows, which a single event is compared with one by one: nothing is built after a change.

Each range of a conjunction is a row (slot, low, high) over floats. A slot is an attribute as one kind sees it: a number
is itself, a string the number of a constant that it equals, a boolean 0 or 1, and presence is 1; NULL is NaN. A
subscription that rows cannot express, a tree or one with words or patterns or ranges of strings, is judged by its
definition, and so are all of them for an event with a number that is not a float. Rows are only ever appended, so that
a view of the first n of them stays as it is.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tocsin._compile import AddressTable, bytes_at, floats_at, int32s_at, integers_at, kernel
from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.errors import EventError
from tocsin.index.fresh_tests import FreshTests
from tocsin.language.normalise import Expression
from tocsin.language.utility import has_utility
from tocsin.model.condition import HistoryTest, XPathExists
from tocsin.model.events import Event, EventBatch
from tocsin.model.expression_tree import is_derived
from tocsin.model.lookup import lookup
from tocsin.model.predicate import EXACT_FLOAT, Conjunction, Range, Ranges
from tocsin.model.result import Evidence
from tocsin.model.sql_text import shown_name
from tocsin.model.subscription import Subscription
from tocsin.model.values import Kind, Number, Scalar, is_null, kind_of
from tocsin.predicates.evaluate import holds

LATELY = 16
"""Over about so many events it is counted how many predicates an event judges."""
FEW_POINTS = 64
"""A longer list is no rows: a value is looked for in it by its definition, in 2 µs however long it is."""
_NEVER = np.iinfo(np.int64).max
_NO_CONSTANT = -1.0
"""The value of a string that equals no constant."""


class _Slots(NamedTuple):
    """The slot of an attribute for each of the KINDS, -1 if there is none, and the kinds that it is compared with."""

    of_kind: tuple[int, ...]
    compared: frozenset[Kind]


KINDS = (Kind.NUMBER, Kind.STRING, Kind.BOOLEAN, Kind.ANY)
"""The kinds that rows can express."""
_NO_SLOTS = _Slots((-1,) * len(KINDS), frozenset())


class _Rows(NamedTuple):
    """The rows of one predicate: what all have, or one entry for each."""

    slot: int
    low: Sequence[float] | Float64s
    high: Sequence[float] | Float64s
    or_null: bool
    """Whether NULL will do."""
    first: float
    """The lowest value that it accepts."""
    last: float
    """The highest."""

    @property
    def width(self) -> float:
        """The distance of its ends; infinite if it does not bound what it accepts."""
        return math.inf if self.or_null else self.last - self.first


_ALWAYS = 0
"""The slot that is 0 for all events: the guard of a conjunction that has no other."""
GUARDS = 3
"""Guards of each conjunction. 2,500 of 10 ranges of width 0.4 take 24 µs with one and 18 with three."""

(
    _STARTS,
    _OWNER,
    _GONE_AT,
    _SLOT,
    _GUARD_SLOT,
    _LOW,
    _HIGH,
    _GUARD_LOW,
    _GUARD_HIGH,
    _OR_NULL,
    _GOES_ON,
) = range(11)
"""The rows of the table of addresses."""


@kernel(keeps_lock=True)
def match_rows(table: Int64s, conjunctions: int, changes: int, values: Float64s) -> Int32s:
    """Return the owners of conjunctions that hold for an event with a value for each slot, NaN for NULL.

    The first `conjunctions` are looked at. Those whose owner was gone after so many `changes` are left out. The guards
    of a conjunction are its narrowest predicates: to ask those of all in loops without branches takes a third of the
    time.
    """
    starts = integers_at(table[_STARTS, 0], table[_STARTS, 1])
    owner = integers_at(table[_OWNER, 0], table[_OWNER, 1])
    gone_at = integers_at(table[_GONE_AT, 0], table[_GONE_AT, 1])
    slot = int32s_at(table[_SLOT, 0], table[_SLOT, 1])
    guard_slot = int32s_at(table[_GUARD_SLOT, 0], table[_GUARD_SLOT, 1])
    low, high = floats_at(table[_LOW, 0], table[_LOW, 1]), floats_at(table[_HIGH, 0], table[_HIGH, 1])
    guard_low = floats_at(table[_GUARD_LOW, 0], table[_GUARD_LOW, 1])
    guard_high = floats_at(table[_GUARD_HIGH, 0], table[_GUARD_HIGH, 1])
    or_null, goes_on = (
        bytes_at(table[_OR_NULL, 0], table[_OR_NULL, 1]),
        bytes_at(table[_GOES_ON, 0], table[_GOES_ON, 1]),
    )
    found, passing = np.empty(conjunctions, np.int32), conjunctions
    for conjunction in range(conjunctions):
        found[conjunction] = conjunction
    for number in range(GUARDS):
        kept = 0
        for place in range(passing):
            guard = GUARDS * found[place] + number
            value = values[guard_slot[guard]]
            found[kept] = found[place]
            kept += (guard_low[guard] <= value) & (value <= guard_high[guard])
        passing = kept
    used = 0
    for place in range(passing):
        conjunction = found[place]
        row, end = starts[conjunction], starts[conjunction + 1]
        holding = gone_at[owner[conjunction]] > changes
        while holding and row < end:
            value = values[slot[row]]
            holding = (low[row] <= value) & (value <= high[row])
            holding |= (or_null[row] != 0) & (value != value)
            while goes_on[row] != 0:
                row += 1
                holding |= (low[row] <= value) & (value <= high[row])
            row += 1
        found[used] = owner[conjunction]
        used += holding
    return found[:used].copy()


class FreshRows:
    """New subscriptions, numbered as they come; one that is dropped or replaced is `gone`."""

    def __init__(self) -> None:
        self.subscriptions: list[Subscription] = []
        self.expressions: list[Expression] = []
        self.gone = 0
        """How many are gone."""
        self.changes = 0
        """How often one went."""
        self.complex: dict[int, int] = {}
        """Those that rows cannot express and that are not gone: how many predicates each has, by number."""
        self.unfiled: dict[int, int] = {}
        """Those of them that are judged for each event."""
        self.tests = FreshTests()
        """Where the others are filed."""
        self.judged = 0.0
        """How many predicates of these an event judges, lately."""
        self.conjunctions = 0
        """How many conjunctions are in rows."""
        self.slots: dict[str, _Slots] = {}
        self.dotted: list[str] = []
        """Attributes that may be nested."""
        self.derived: list[str] = []
        """Attributes that are computed from others."""
        self.documents: set[str] = set()
        """Attributes that are read as XML."""
        self.slot_count = 1
        self.needs_segment = False
        """Whether one compares events with the history, or says what its alternatives are worth."""
        self.strings: dict[str, float] = {}
        self._by_subscription: dict[int, Any] = {_GONE_AT: np.full(1, _NEVER)}
        """When each subscription was gone: the number of changes."""
        self._by_conjunction: dict[int, Any] = {
            _STARTS: np.zeros(2, np.int64),
            _OWNER: np.zeros(1, np.int64),
        }
        """Where the rows of each start, with one more entry behind the last; and its subscription."""
        self._by_guard: dict[int, Any] = {
            _GUARD_SLOT: np.zeros(GUARDS, np.int32),
            _GUARD_LOW: np.zeros(GUARDS),
            _GUARD_HIGH: np.zeros(GUARDS),
        }
        """The guards, GUARDS for each conjunction."""
        self._by_row: dict[int, Any] = {
            _SLOT: np.zeros(1, np.int32),
            _LOW: np.zeros(1),
            _HIGH: np.zeros(1),
            _OR_NULL: np.zeros(1, np.bool_),
            _GOES_ON: np.zeros(1, np.bool_),
        }
        """The fields of rows, and whether the next row is another range of the same predicate."""
        self._addresses: AddressTable | None = None

    @property
    def gone_at(self) -> Int64s:
        """After how many changes each subscription was gone."""
        gone_at: Int64s = self._by_subscription[_GONE_AT]
        return gone_at

    @property
    def addresses(self) -> AddressTable:
        """All arrays, for the kernel; they grow by taking the place of others."""
        if self._addresses is None:
            arrays = self._by_subscription | self._by_conjunction | self._by_guard | self._by_row
            self._addresses = AddressTable(*(arrays[place] for place in range(len(arrays))))
        return self._addresses

    def _make_room(self, arrays: dict[int, Any], size: int) -> None:
        """Let arrays have room for so many entries."""
        for place, array in arrays.items():
            if array.size < size:
                more = np.zeros(max(size, array.size), array.dtype)
                arrays[place] = np.concatenate([array, more + _NEVER if place == _GONE_AT else more])
                self._addresses = None

    def add(self, subscription: Subscription, expression: Expression) -> int:
        """Add a subscription and return its number. O(its predicates)."""
        number = len(self.subscriptions)
        self.subscriptions.append(subscription)
        self.expressions.append(expression)
        self.needs_segment |= has_utility(subscription.where)
        is_plain = not expression.nesting
        conjunctions = []
        for conjunction in expression.leaves:
            of_conjunction: list[_Rows] = []
            conjunctions.append(of_conjunction)
            for predicate in conjunction:
                if isinstance(predicate, Ranges):
                    slots = self._open_slot(predicate.attribute, predicate.kind)
                    rows = self._rows_of(predicate, slots) if is_plain else None
                    if rows is not None:
                        of_conjunction.append(rows)
                    is_plain = rows is not None
                    continue
                self.needs_segment |= isinstance(predicate.test, HistoryTest)
                if isinstance(predicate.test, XPathExists):
                    self.documents.add(predicate.test.attribute)
                is_plain = False
        self._make_room(self._by_subscription, number + 1)
        if not is_plain:
            self.complex[number] = sum(map(len, expression.leaves))
            if not self.tests.file(number, expression):
                self.unfiled[number] = self.complex[number]
            return number
        for of_conjunction in conjunctions:
            self._append(number, of_conjunction)
        return number

    def leave(self, number: int) -> None:
        """Let a subscription be gone for views that come."""
        self.gone += 1
        self.changes += 1
        self.gone_at[number] = self.changes
        self.complex.pop(number, None)
        self.unfiled.pop(number, None)

    def _open_slot(self, attribute: str, kind: Kind) -> _Slots:
        slots = self.slots.get(attribute, _NO_SLOTS)
        if kind in slots.compared:
            return slots
        if slots is _NO_SLOTS and is_derived(attribute):
            self.derived.append(attribute)
        elif slots is _NO_SLOTS and "." in attribute:
            self.dotted.append(attribute)
        if kind in KINDS and slots.of_kind[KINDS.index(kind)] < 0:
            places = [self.slot_count if one is kind else old for one, old in zip(KINDS, slots.of_kind, strict=True)]
            slots = slots._replace(of_kind=tuple(places))
            self.slot_count += 1
        if kind is not Kind.ANY:
            slots = slots._replace(compared=slots.compared | {kind})
        self.slots[attribute] = slots
        return slots

    def _rows_of(self, predicate: Ranges, slots: _Slots) -> _Rows | None:
        """The rows of floats, strings that equal a constant, booleans and presence; None of other predicates."""
        ranges, kind, or_null = predicate.ranges, predicate.kind, predicate.or_null
        if kind not in KINDS:
            return None
        slot = slots.of_kind[KINDS.index(kind)]
        if not isinstance(ranges, tuple):
            floats = ranges.floats if len(ranges) <= FEW_POINTS else None
            if floats is not None:
                return _Rows(slot, floats, floats, or_null, float(floats.min()), float(floats.max()))
            if len(ranges) > FEW_POINTS or kind is not Kind.STRING:
                return None
            numbers = [self._number_of(value) for value in ranges.values]
            return _Rows(slot, numbers, numbers, or_null, min(numbers), max(numbers))
        if not ranges:
            return _Rows(slot, [math.inf], [-math.inf], or_null, math.inf, -math.inf)
        low, high = [], []
        for one in ranges:
            ends = self._ends(kind, one)
            if ends is None:
                return None
            low.append(ends[0])
            high.append(ends[1])
        return _Rows(slot, low, high, or_null, min(low), max(high))

    def _ends(self, kind: Kind, one: Range) -> tuple[float, float] | None:
        """A range as closed ends; None if floats do not say what it accepts."""
        if kind is Kind.STRING:
            if one.low is None or one.low != one.high or not one.low_closed:
                return None
            constant = self._number_of(one.low)
            return constant, constant
        low, high = -math.inf, math.inf
        if one.low is not None:
            if not _is_exact_float(one.low):
                return None
            low = _as_float(one.low)
            low = low if one.low_closed else math.nextafter(low, math.inf)
        if one.high is not None:
            if not _is_exact_float(one.high):
                return None
            high = _as_float(one.high)
            high = high if one.high_closed else math.nextafter(high, -math.inf)
        return low, high

    def _number_of(self, constant: Any) -> float:
        """The number of a string that some subscription compares with."""
        return self.strings.setdefault(str(constant), float(len(self.strings)))

    def _append(self, number: int, predicates: Sequence[_Rows]) -> None:
        place = self.conjunctions
        start = int(self._by_conjunction[_STARTS][place])
        last = start + sum([len(rows.low) for rows in predicates])
        self._make_room(self._by_conjunction, place + 2)
        self._make_room(self._by_row, last)
        slot, low, high, or_null, goes_on = self._by_row.values()
        for rows in predicates:
            end = start + len(rows.low)
            if end == start + 1:
                # Nearly all: to set one entry takes a quarter of the time of a slice.
                slot[start], low[start], high[start] = rows.slot, rows.low[0], rows.high[0]
                or_null[start] = rows.or_null
            else:
                slot[start:end], low[start:end], high[start:end] = rows.slot, rows.low, rows.high
                or_null[start:end], goes_on[start : end - 1] = rows.or_null, True
            start = end
        self._make_room(self._by_guard, GUARDS * (place + 1))
        by_width = sorted([(rows.width, which) for which, rows in enumerate(predicates)])
        guards = [predicates[which] for width, which in by_width[:GUARDS] if width < math.inf]
        guard_slot, guard_low, guard_high = self._by_guard.values()
        first, end = GUARDS * place, GUARDS * (place + 1)
        guard_slot[first:end], guard_low[first:end], guard_high[first:end] = _ALWAYS, -math.inf, math.inf
        for at, rows in enumerate(guards, first):
            guard_slot[at] = rows.slot
            guard_low[at], guard_high[at] = rows.first, rows.last
        starts, owner = self._by_conjunction.values()
        starts[place + 1], owner[place] = last, number
        self.conjunctions += 1


def _is_exact_float(end: Scalar | None) -> bool:
    """Whether an end is a float that stands for its number in every comparison; no end is infinity."""
    return not isinstance(end, Number) or (-EXACT_FLOAT <= end.nearest <= EXACT_FLOAT and end.is_float)


def _as_float(end: Scalar) -> float:
    return end.nearest if isinstance(end, Number) else float(end)


class FreshView:
    """The new subscriptions at one moment. Never changed, whatever is added to the rows."""

    def __init__(self, rows: FreshRows) -> None:
        self._rows, self._addresses, self._gone_at = rows, rows.addresses, rows.gone_at
        self._count, self._conjunctions, self._changes = len(rows.subscriptions), rows.conjunctions, rows.changes
        self._slot_count, self._dotted, self._derived = rows.slot_count, tuple(rows.dotted), tuple(rows.derived)
        self._documents, self._unfiled = tuple(rows.documents), tuple(rows.unfiled)
        self._has_filed = len(rows.complex) > len(rows.unfiled)

    def match(
        self, event: Event, batch: EventBatch, namespaces: Mapping[str, str], evidence: Evidence
    ) -> list[Subscription]:
        """Return the subscriptions that hold for an event, in no order."""
        values = self._values(event, batch, evidence)
        found: set[int] = set()
        judged: Iterable[int] = self._unfiled
        if values is None:
            judged = [number for number in range(self._count) if self._has(number)]
        else:
            if self._conjunctions:
                table = self._addresses.rows
                found = set(match_rows(table, self._conjunctions, self._changes, values).tolist())
                evidence.candidates += self._conjunctions
            if self._has_filed:
                holding, possible = self._rows.tests.search(event, batch)
                found.update(filter(self._has, holding))
                judged = [*judged, *filter(self._has, possible - holding)]

        def conjunction_holds(conjunction: Conjunction) -> bool:
            return all(holds(predicate, batch.event(0), (), namespaces) for predicate in conjunction)

        predicates = 0
        for number in judged:
            evidence.candidates += 1
            expression = self._rows.expressions[number]
            predicates += len(expression.leaves)
            if expression.is_true(conjunction_holds):
                found.add(number)
        self._rows.judged += (predicates - self._rows.judged) / LATELY
        for attribute in self._documents:
            _report_unreadable(attribute, lookup(event, attribute), evidence)
        evidence.matches += len(found)
        return [self._rows.subscriptions[number] for number in found]

    def _has(self, number: int) -> bool:
        """Whether a subscription had come and was not gone."""
        return number < self._count and bool(self._gone_at[number] > self._changes)

    def _values(self, event: Event, batch: EventBatch, evidence: Evidence) -> Float64s | None:
        """The value of each slot; None if there is a number that is not a float."""
        values, slots_of, strings = np.full(self._slot_count, np.nan), self._rows.slots, self._rows.strings
        values[_ALWAYS] = 0.0
        given: Iterable[tuple[str, Any]] = event.items()
        if self._dotted:
            given = [*given, *((name, lookup(event, name)) for name in self._dotted if name not in event)]
        if self._derived:
            given = [*given, *((name, (batch.values(name) or [None])[0]) for name in self._derived)]
        view: Any = values.data
        for name, raw in given:
            slots, value = slots_of.get(name), raw
            if slots is None or value is None:
                continue
            if type(value) is float and 0 <= slots.of_kind[0] < self._slot_count:
                # Most values are of this kind, and NaN is NULL as it is.
                view[slots.of_kind[0]] = value
                if value == value and 0 <= slots.of_kind[-1] < self._slot_count:
                    view[slots.of_kind[-1]] = 1.0
                continue
            if type(value) not in (float, int, bool) and not (type(value) is str and value.isascii()):
                value = (batch.values(name) or [None])[0]
            if is_null(value):
                continue
            kind = kind_of(value)
            number, string, boolean, presence = slots.of_kind
            place = -1
            if kind is Kind.NUMBER:
                place = number
                is_exact = isinstance(value, float) or (isinstance(value, int) and abs(value) <= EXACT_FLOAT)
                if place >= 0 and not is_exact:
                    return None
            elif kind is Kind.STRING:
                place, value = string, strings.get(str(value), _NO_CONSTANT)
            elif kind is Kind.BOOLEAN:
                place = boolean
            if 0 <= place < self._slot_count:
                view[place] = value
            if 0 <= presence < self._slot_count:
                view[presence] = 1.0
            if slots.compared and kind not in slots.compared:
                evidence.mismatches[shown_name(name)] = 1
        return values


def _report_unreadable(attribute: str, value: object, evidence: Evidence) -> None:
    """Count a document that is not well-formed: for its definition it is NULL, without a word."""
    # lxml is loaded only when there is XML.
    from tocsin.predicates.xpath.document import read_document

    if isinstance(value, (str, bytes)):
        try:
            read_document(value)
        except EventError as error:
            evidence.errors[f"{attribute}: {error.message}"] = 1
