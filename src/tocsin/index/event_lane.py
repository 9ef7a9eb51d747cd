"""Phase 1 for a single event: its values to codes without columns of a table, in one compiled call.

A batch has columns, and every column of a segment is read from it. A single event is read the other way round: each of
its values is looked up among the attributes that the segment knows, so that it pays for the attributes it has. Numbers
and texts are written into arrays that are used again for the next event, and a kernel finds their codes. What is not a
plain number, text or boolean is encoded as in a batch.
"""

import datetime as dt
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import AddressTable
from tocsin.arrays import Int32s, Strings
from tocsin.conjunctions.coded import Events
from tocsin.index.combined_tests import CombinedTests
from tocsin.index.encoding import Column
from tocsin.index.rare_attributes import RareRanges
from tocsin.model.casts import UndefinedError
from tocsin.model.events import Event, EventBatch
from tocsin.model.expression_tree import NOW, Expression, expression_of, is_derived, leaves
from tocsin.model.functions import as_operand, as_value, evaluate, is_strict
from tocsin.model.lookup import lookup, names_below
from tocsin.model.readable import NO_UNICODE, read_values
from tocsin.model.result import Evidence
from tocsin.model.sql_text import name as sql_name
from tocsin.model.sql_text import shown_name
from tocsin.model.values import Kind, is_null, microseconds
from tocsin.predicates.families import Family, Probed
from tocsin.predicates.ranges.domain import Domain
from tocsin.predicates.ranges.kernels import (
    LOGARITHMIC,
    NO_LINE,
    NULL_CODE,
    NUMBER_GIVEN,
    STRAIGHT,
    TEXT_GIVEN,
    TIME_GIVEN,
    ColumnCoders,
    encode_event_at,
)
from tocsin.predicates.ranges.quantize import LAST_SHORT, nearest_number, shifts_by_rank
from tocsin.predicates.texts import TextIndex

_EXACT_AS_FLOAT = 2**53
_NOTHING = np.empty(0, np.int32)
_NO_TEXT = np.frombuffer(b" ", np.uint8)
"""Read-only, as texts are: kernels are compiled for each kind of array."""
_NO_STARTS = np.zeros(2, np.int64)


class _Known(NamedTuple):
    """What a segment does with the values of one attribute; columns by place, -1 if there is none of that kind."""

    number: int
    text: int
    boolean: int
    time: int
    any: int
    columns: tuple[tuple[int, Column], ...]
    """All columns of the attribute."""
    exact: Domain | None
    """The domain of numbers, if some constants are not floats."""
    doubtful: frozenset[float]
    """The floats nearest to those constants: `exact` tells on which side of them a number lies."""
    booleans: Mapping[bool, int]
    """The codes of both booleans."""
    compares: bool
    """Whether the attribute is compared with constants of some kind."""
    families: tuple[tuple[int, TextIndex | None], ...]
    """The families on the attribute, by place, with the index of one that judges texts."""
    rare: tuple[tuple[int, Column], ...]
    """The columns of the attribute, by place among the rare ones, if it is rare."""
    rare_numbers: list[float] | None
    """The constants of a rare attribute that is compared with numbers alone, all of them floats: Python finds a number
    among these few in an eighth of the time that `Domain.code` takes."""


class _Derived(NamedTuple):
    """A derived attribute, and the names of which an event must have one for it to have a value."""

    attribute: str
    expression: Expression
    wanted: frozenset[str] | None
    """None: it may have a value, or is nested, whatever names there are."""

    @classmethod
    def of(cls, attribute: str) -> "_Derived":
        """Read a derived attribute from its name."""
        expression = expression_of(attribute)
        names = frozenset(leaf.name for leaf in leaves(expression))
        is_plain = is_strict(expression) and NOW not in names and not any("." in name for name in names)
        return cls(attribute, expression, names if is_plain else None)


class _Scratch:
    """Arrays for the event that is being encoded, and views of them that Python writes to quickly."""

    def __init__(self, rows: int) -> None:
        self.codes = np.full((rows, 1), NULL_CODE, np.int32)
        self.short = np.zeros((rows, 1), np.uint16)
        # The last column is ANYTHING's.
        self.codes[-1], self.short[-1] = 0, 1
        self.row_of = np.arange(rows, dtype=np.int32)
        self.before = np.zeros(rows + 1, np.int32)
        self.columns, self.given = np.empty(rows, np.int32), np.empty(rows, np.int32)
        self.numbers, self.text_ends = np.empty(rows, np.float64), np.empty(rows, np.int64)
        self.bits = self.numbers.view(np.int64)
        views: list[Any] = [self.columns, self.given, self.numbers, self.bits, self.text_ends]
        self.views: tuple[memoryview[Any], ...] = tuple(memoryview(view) for view in views)
        self.plain = self.events(_NOTHING, _NOTHING)
        self.addresses = AddressTable(
            self.before,
            self.columns,
            self.given,
            self.numbers,
            self.bits,
            self.text_ends,
            self.codes,
            self.short,
        )

    def events(self, true: Int32s, null: Int32s) -> Events:
        """The event as a batch of one, with the tests that are TRUE and those that are NULL."""
        starts = _NO_STARTS if not true.size else np.array([0, true.size])
        null_starts = _NO_STARTS if not null.size else np.array([0, null.size])
        return Events(self.codes, starts, true, null_starts, null, self.short, self.row_of)


class EventLane:
    """What a segment prepares to encode single events. Threads may share it."""

    def __init__(
        self,
        columns: Sequence[Column],
        families: Sequence[tuple[str, str, Family]],
        rare: RareRanges,
        combined: CombinedTests,
    ) -> None:
        self._rare, self._combined = rare, combined
        self._families = [family for _, _, family in families]
        self._first_test = np.cumsum([0, *(family.count for family in self._families)]).tolist()
        self._first_family = len(columns)
        self._rows = len(columns) + len(families) + 1
        self._unattributed = tuple(place for place, (_, attribute, _) in enumerate(families) if not attribute)
        self._known = _known(columns, families, rare)
        self._derived = tuple(_Derived.of(name) for name in self._known if is_derived(name))
        self._below = names_below(name for name in self._known if not is_derived(name))
        self._coders, self._kept = _coders(columns, self._rows)
        self._spare: list[_Scratch] = []

    def encode(self, event: Event, batch: EventBatch, judged: Mapping[int, Probed], evidence: Evidence) -> "_Encoded":
        """Encode the event of a batch of one. `judged` has families, by place, that were judged elsewhere."""
        try:
            scratch = self._spare.pop()
        except IndexError:
            scratch = _Scratch(self._rows)
        columns, given, numbers, bits, text_ends = scratch.views
        count, length = 0, 0
        texts: list[bytes] = []
        held: dict[int, Int32s] = {}
        probed: dict[int, Probed] = dict(judged)
        known = self._known
        rare: list[tuple[int, int]] = []
        for name, value in self._values(event, batch) if self._below or self._derived else event.items():
            attribute = known.get(name)
            if attribute is None or value is None:
                continue
            kind = type(value)
            is_float = kind is float or (kind is int and -_EXACT_AS_FLOAT <= value <= _EXACT_AS_FLOAT)
            if attribute.rare:
                if is_float and attribute.rare_numbers is not None:
                    if value == value:
                        rare.append((attribute.rare[0][0], _code_of_number(attribute.rare_numbers, value)))
                else:
                    rare += _rare_codes(name, value, attribute.rare, evidence)
            if is_float:
                if value != value:
                    continue
                if attribute.number >= 0:
                    columns[count], numbers[count] = attribute.number, value
                    given[count] = NUMBER_GIVEN
                    if attribute.exact is not None and value in attribute.doubtful:
                        given[count] = attribute.exact.code(value)
                    count += 1
                elif attribute.compares:
                    evidence.mismatches[shown_name(name)] = 1
            elif kind is str:
                try:
                    encoded = value.encode()
                except UnicodeEncodeError:
                    evidence.errors[f"{name}: {NO_UNICODE}"] = 1
                    continue
                if attribute.text >= 0:
                    length += len(encoded)
                    columns[count], given[count], text_ends[len(texts)] = attribute.text, TEXT_GIVEN, length
                    texts.append(encoded)
                    count += 1
                elif attribute.compares:
                    evidence.mismatches[shown_name(name)] = 1
                for place, index in attribute.families:
                    if index is None:
                        probed[place] = self._families[place].probe(batch)
                    else:
                        if (tests := index.probe_text(value)).size:
                            held[place] = tests
                        columns[count], given[count] = self._first_family + place, 0
                        count += 1
            elif kind is bool:
                if attribute.boolean >= 0:
                    columns[count], given[count] = attribute.boolean, attribute.booleans[value]
                    count += 1
                elif attribute.compares:
                    evidence.mismatches[shown_name(name)] = 1
            elif kind is dt.datetime and attribute.time >= 0 and not attribute.families:
                columns[count], given[count], bits[count] = attribute.time, TIME_GIVEN, microseconds(value)
                count += 1
            else:
                [read], lost = read_values([value])
                for reason, times in lost.items():
                    evidence.errors[f"{name}: {reason}"] = times
                if is_null(read):
                    continue
                missed = attribute.compares
                for place, column in attribute.columns:
                    code = column.domain.code(read)
                    if code != NULL_CODE:
                        columns[count], given[count], numbers[count] = place, code, nearest_number(read)
                        missed &= column.kind is Kind.ANY
                        count += 1
                if missed:
                    evidence.mismatches[shown_name(name)] = 1
                for place, _ in attribute.families:
                    probed[place] = self._families[place].probe(batch)
                continue
            if attribute.any >= 0:
                columns[count], given[count] = attribute.any, 0
                count += 1
        for place in self._unattributed:
            if place not in judged:
                probed[place] = self._families[place].probe(batch)
        if rare and (tests := self._rare.true_for(rare)).size:
            held[len(self._families)] = tests
        null: list[Int32s] = []
        for place, found in probed.items():
            if found.true.values.size:
                held[place] = found.true.values
            if found.errors:
                evidence.errors |= found.errors
            if found.null is not None and found.null.values.size:
                null.append(found.null.values + np.int32(self._first_test[place]))
            if found.present is None or found.present[0] == 0:
                columns[count], given[count] = self._first_family + place, 0
                count += 1
        encode_event_at(
            self._coders.rows,
            scratch.addresses.rows,
            LAST_SHORT,
            count,
            np.frombuffer(b"".join(texts), np.uint8) if texts else _NO_TEXT,
        )
        if not held and not null:
            return _Encoded(scratch.plain, scratch)
        true = _NOTHING
        if held:
            parts = [held[place] + np.int32(self._first_test[place]) for place in sorted(held)]
            true = parts[0] if len(parts) == 1 else np.concatenate(parts)
            if len(self._combined):
                true = self._combined.added_to_one(true)
        return _Encoded(scratch.events(true, np.sort(np.concatenate(null)) if null else _NOTHING), scratch)

    def give_back(self, encoded: "_Encoded") -> None:
        """Take the arrays of an event that was matched for the next one."""
        self._spare.append(encoded.scratch)

    def _values(self, event: Event, batch: EventBatch) -> Iterator[tuple[str, Any]]:
        """The attributes of an event, nested ones by their dotted names, and what is derived from them."""
        below: dict[str, Any] = {}
        for name, value in event.items():
            yield name, value
            if isinstance(value, Mapping):
                for attribute in self._below.get(name, ()):
                    if attribute not in event:
                        below[attribute] = lookup(event, attribute)
        yield from below.items()
        if self._derived:
            yield from self._computed(event, batch)

    def _computed(self, event: Event, batch: EventBatch) -> Iterator[tuple[str, Any]]:
        """The derived attributes of an event: computed from its values without columns of a batch."""
        operands: dict[str, Any] = {}

        def operand(name: str) -> Any:
            if name not in operands:
                value: Any = event.get(name)
                kind = type(value)
                is_plain = kind is int or kind is bool or (kind is float and value == value)
                if kind is str:
                    is_plain = value.isascii()
                elif value is None:
                    is_plain = "." not in name and name != NOW
                if not is_plain:
                    # Nested, or to be read and counted first.
                    value = as_operand((batch.values(name) or [None])[0])
                operands[name] = value
            return operands[name]

        for attribute, expression, wanted in self._derived:
            if wanted is not None and wanted.isdisjoint(event):
                continue
            try:
                yield attribute, as_value(evaluate(expression, operand))
            except UndefinedError as error:
                batch.unreadable[f"{sql_name(attribute)}: {error}"] = 1


class _Encoded(NamedTuple):
    events: Events
    scratch: _Scratch


def _code_of_number(constants: list[float], value: float) -> int:
    """The code of a number among the constants of its domain."""
    place = bisect_left(constants, value)
    return 2 * place + (place < len(constants) and constants[place] == value)


def _rare_codes(
    name: str, value: object, columns: tuple[tuple[int, Column], ...], evidence: Evidence
) -> list[tuple[int, int]]:
    """The places and codes of a value in the columns of a rare attribute, where it has a code."""
    [read], lost = read_values([value])
    for reason, times in lost.items():
        evidence.errors[f"{name}: {reason}"] = times
    codes = [(place, column, column.domain.code(read)) for place, column in columns]
    of_a_kind = [code for _, column, code in codes if column.kind is not Kind.ANY]
    if of_a_kind and max(of_a_kind) == NULL_CODE and not is_null(read):
        evidence.mismatches[shown_name(name)] = 1
    return [(place, code) for place, _, code in codes if code != NULL_CODE]


def _known(
    columns: Sequence[Column], families: Sequence[tuple[str, str, Family]], rare: RareRanges
) -> dict[str, _Known]:
    """What is known of each attribute, by its name."""
    columns_of: dict[str, list[tuple[int, Column]]] = {}
    families_of: dict[str, list[int]] = {}
    rare_of: dict[str, list[tuple[int, Column]]] = {}
    for place, column in enumerate(columns):
        columns_of.setdefault(column.attribute, []).append((place, column))
    for place, column in enumerate(rare.columns):
        rare_of.setdefault(column.attribute, []).append((place, column))
    for place, (_, attribute, _) in enumerate(families):
        if attribute:
            families_of.setdefault(attribute, []).append(place)
    known = {}
    for attribute in {*columns_of, *families_of, *rare_of}:
        own = tuple(columns_of.get(attribute, ()))
        place_of = {column.kind: place for place, column in own}
        domains = {column.kind: column.domain for _, column in own}
        numbers, booleans = domains.get(Kind.NUMBER), domains.get(Kind.BOOLEAN)
        known[attribute] = _Known(
            number=place_of.get(Kind.NUMBER, -1),
            text=place_of.get(Kind.STRING, -1),
            boolean=place_of.get(Kind.BOOLEAN, -1),
            time=place_of.get(Kind.TIME, -1),
            any=place_of.get(Kind.ANY, -1),
            columns=own,
            exact=numbers if numbers is not None and numbers.exact else None,
            doubtful=frozenset(numbers.nearest_to_exact.tolist() if numbers is not None and numbers.exact else ()),
            booleans={} if booleans is None else {value: booleans.code(value) for value in (False, True)},
            compares=any(kind is not Kind.ANY for kind in domains),
            families=tuple((place, families[place][2].texts) for place in families_of.get(attribute, ())),
            rare=tuple(rare_of.get(attribute, ())),
            rare_numbers=_numbers_alone([column.domain for _, column in rare_of.get(attribute, ())]),
        )
    return known


def _numbers_alone(domains: Sequence[Domain]) -> list[float] | None:
    """The constants of the domains of an attribute, if it is one of numbers that are floats."""
    if len(domains) != 1 or domains[0].kind is not Kind.NUMBER or domains[0].exact:
        return None
    constants: Any = domains[0].constants
    numbers: list[float] = constants.tolist()
    return numbers


def _coders(columns: Sequence[Column], rows: int) -> tuple[AddressTable, list[npt.NDArray[Any]]]:
    """The addresses of how a kernel makes codes, and the arrays that it is told the addresses of there."""
    coders = ColumnCoders(
        constants=np.zeros(rows, np.int64),
        offsets=np.zeros(rows, np.int64),
        size=np.zeros(rows, np.int64),
        shift=np.zeros(rows, np.int32),
        line=np.full(rows, NO_LINE, np.uint8),
        origin=np.zeros(rows),
        steps_per_unit=np.zeros(rows),
    )
    kept: list[npt.NDArray[Any]] = []

    def address(array: npt.NDArray[Any]) -> int:
        kept.append(np.ascontiguousarray(array))
        return int(kept[-1].ctypes.data)

    for place, column in enumerate(columns):
        constants, quantizer = column.domain.constants, column.quantizer
        coders.size[place] = len(constants)
        if isinstance(constants, Strings):
            coders.offsets[place], coders.constants[place] = address(constants.offsets), address(constants.data)
        else:
            coders.constants[place] = address(constants)
        if quantizer is not None:
            coders.line[place] = LOGARITHMIC if quantizer.logarithmic else STRAIGHT
            coders.origin[place], coders.steps_per_unit[place] = quantizer.origin, quantizer.steps_per_unit
    coders.shift[: len(columns)] = shifts_by_rank(np.array([column.domain.last for column in columns], np.int32))
    return AddressTable(*coders), kept
