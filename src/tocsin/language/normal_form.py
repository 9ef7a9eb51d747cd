"""Hold the normal form of many subscriptions as columns: what an index is built from.

Conjunctions are numbered densely, in the order of their texts. Every range of every conjunction is one row of the
column of its attribute and kind; several rows of one conjunction in one column are a union. Of most texts one
conjunction must hold; those of the others are the leaves of a tree.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Int32s, Int64s, UInt8s
from tocsin.errors import SubscriptionError
from tocsin.language.normalise import Expression, check_path
from tocsin.model.condition import XPathExists
from tocsin.model.predicate import EXACT_FLOAT, Conjunction, Points, Predicate, Range, Ranges, Tested
from tocsin.model.values import Kind, Number, Scalar

Values = npt.NDArray[Any]
ColumnKey = tuple[str, Kind]

_DTYPES = {
    Kind.TIME: np.int64,
    Kind.BOOLEAN: np.bool_,
    Kind.STRING: np.object_,
    Kind.NUMBER: np.float64,
    Kind.ANY: np.bool_,
}

MANY_SINGLES = 50_000
"""Rows of a column that were added one at a time become arrays from this number on."""
_ENDS = ("low", "high", "has_low", "low_closed", "has_high", "high_closed")


@dataclass(slots=True)
class RangeColumn:
    """Ranges on one attribute and kind, sorted by conjunction.

    `low` and `high` hold float64 for numbers, if every constant is one and at most 2**53, else `Number`s; microseconds
    for times, bools for booleans, `str` for strings. Where `has_low` is False, `low` is meaningless.
    """

    conjunction: Int32s
    low: Values
    high: Values
    has_low: Bools
    low_closed: Bools
    has_high: Bools
    high_closed: Bools
    null: Int32s = field(default_factory=lambda: np.empty(0, np.int32))
    """The conjunctions whose predicate on this column holds for NULL as well; some have no row."""

    def renumbered(self, number: Int32s) -> "RangeColumn":
        """Return the rows of the conjunctions that have a new number, not -1, sorted by it."""
        conjunction, null = number[self.conjunction], number[self.null]
        rows = np.flatnonzero(conjunction >= 0)
        rows = rows[np.argsort(conjunction[rows], kind="stable")]
        ends = {name: getattr(self, name)[rows] for name in _ENDS}
        return RangeColumn(conjunction=conjunction[rows], null=np.sort(null[null >= 0]), **ends)


class Nesting(NamedTuple):
    """How the conjunctions of some texts form trees; all conjunctions of such a text are leaves, in order.

    In front of conjunction `leaf[i]` begin `opens[i]` nodes of its tree, and behind it end `closes[i]`. The outermost
    node is an OR; ANDs and ORs alternate inward.
    """

    leaf: Int32s = np.empty(0, np.int32)
    """Ascending."""
    opens: UInt8s = np.empty(0, np.uint8)
    closes: UInt8s = np.empty(0, np.uint8)

    def renumbered(self, number: Int32s) -> "Nesting":
        """Return the leaves that have a new number, not -1, sorted by it."""
        leaf = number[self.leaf]
        rows = np.flatnonzero(leaf >= 0)
        rows = rows[np.argsort(leaf[rows], kind="stable")]
        return Nesting(leaf[rows], self.opens[rows], self.closes[rows])

    @classmethod
    def joined(cls, several: Sequence["Nesting"], first: Sequence[int]) -> "Nesting":
        """Return the leaves of several forms, whose conjunctions are numbered from `first` on."""
        moved = [nesting._replace(leaf=nesting.leaf + start) for nesting, start in zip(several, first, strict=True)]
        none = cls()
        return cls(*(np.concatenate([empty, *parts]) for empty, *parts in zip(none, *moved, strict=True)))


@dataclass(slots=True)
class NormalForm:
    """The conjunctions of many texts, by columns."""

    texts: int
    """How many texts there are."""
    owner: Int32s
    """The text of each conjunction: its place among the texts given."""
    columns: dict[ColumnKey, RangeColumn]
    tests: list[Tested]
    """The distinct predicates that are not ranges."""
    test_conjunction: Int32s
    test_id: Int32s
    """Conjunction `test_conjunction[i]` demands `tests[test_id[i]]`; sorted by conjunction."""
    errors: dict[int, SubscriptionError]
    never: list[int]
    """The texts that can never match."""
    nesting: Nesting = field(default_factory=Nesting)

    @property
    def size(self) -> int:
        """How many texts, ranges and tests there are."""
        return self.texts + sum(column.conjunction.size for column in self.columns.values()) + self.test_id.size

    def select(self, texts: Int64s) -> "NormalForm":
        """Return the normal form of some of the texts, each once, in this order; errors are left behind."""
        place = np.full(self.texts, -1, np.int32)
        place[texts] = np.arange(len(texts), dtype=np.int32)
        owner = place[self.owner]
        chosen = np.flatnonzero(owner >= 0)
        chosen = chosen[np.argsort(owner[chosen], kind="stable")]
        number = np.full(self.owner.size, -1, np.int32)
        number[chosen] = np.arange(chosen.size, dtype=np.int32)
        columns = {key: column.renumbered(number) for key, column in self.columns.items()}
        test_conjunction = number[self.test_conjunction]
        demands = np.flatnonzero(test_conjunction >= 0)
        demands = demands[np.argsort(test_conjunction[demands], kind="stable")]
        used, test_id = np.unique(self.test_id[demands], return_inverse=True)
        return NormalForm(
            texts=len(texts),
            owner=owner[chosen],
            columns={key: column for key, column in columns.items() if column.conjunction.size or column.null.size},
            tests=[self.tests[test] for test in used.tolist()],
            test_conjunction=test_conjunction[demands],
            test_id=test_id.astype(np.int32),
            errors={},
            never=sorted(place[self.never][place[self.never] >= 0].tolist()),
            nesting=self.nesting.renumbered(number),
        )

    @classmethod
    def joined(cls, forms: Sequence["NormalForm"]) -> "NormalForm":
        """Return the normal form of the texts of several, one after the other."""
        first_text = np.cumsum([0, *(form.texts for form in forms)]).tolist()
        first = np.cumsum([0, *(form.owner.size for form in forms)]).astype(np.int32)
        parts: dict[ColumnKey, list[RangeColumn]] = {}
        tests: dict[Tested, int] = {}
        test_ids = []
        for form, start in zip(forms, first, strict=False):
            for key, column in form.columns.items():
                moved = replace(column, conjunction=column.conjunction + start, null=column.null + start)
                parts.setdefault(key, []).append(moved)
            numbers = [tests.setdefault(test, len(tests)) for test in form.tests]
            test_ids.append(np.array(numbers, np.int32)[form.test_id])
        return cls(
            texts=first_text[-1],
            owner=_one([form.owner + start for form, start in zip(forms, first_text, strict=False)]),
            columns={key: _joined(parts[key]) for key in sorted(parts)},
            tests=list(tests),
            test_conjunction=_one([form.test_conjunction + start for form, start in zip(forms, first, strict=False)]),
            test_id=_one(test_ids),
            errors={},
            never=[start + text for form, start in zip(forms, first_text, strict=False) for text in form.never],
            nesting=Nesting.joined([form.nesting for form in forms], first[:-1].tolist()),
        )

    def conjunctions(self) -> list[Conjunction]:
        """Return each conjunction as predicates: slow, for tests and for looking at one."""
        found: list[list[Ranges | Tested]] = [[] for _ in self.owner]
        for (attribute, kind), column in self.columns.items():
            ranges: dict[int, list[Range]] = {int(c): [] for c in column.null}
            for row, conjunction in enumerate(column.conjunction):
                ranges.setdefault(int(conjunction), []).append(_range(column, kind, row))
            null = set(column.null.tolist())
            for conjunction, several in ranges.items():
                found[conjunction].append(Ranges(attribute, kind, tuple(several), conjunction in null))
        for conjunction, test in zip(self.test_conjunction, self.test_id, strict=True):
            found[conjunction].append(self.tests[test])
        return [tuple(predicates) for predicates in found]


def _one(arrays: Sequence[npt.NDArray[Any]]) -> Int32s:
    return np.concatenate([np.empty(0, np.int32), *arrays]).astype(np.int32)


def _joined(columns: Sequence[RangeColumn]) -> RangeColumn:
    """Return the rows of one column in several forms, one after the other."""
    if len(columns) == 1:
        return columns[0]
    if any(column.low.dtype == object for column in columns):
        columns = [
            replace(column, low=_objects(column.low, column.has_low), high=_objects(column.high, column.has_high))
            for column in columns
        ]
    fields = ("conjunction", *_ENDS, "null")
    return RangeColumn(*(np.concatenate([getattr(column, name) for column in columns]) for name in fields))


def _range(column: RangeColumn, kind: Kind, row: int) -> Range:
    def end(values: Values, has: Bools) -> Scalar | None:
        if not has[row]:
            return None
        value = values[row]
        value = value.item() if isinstance(value, np.generic) else value
        return Number(value) if kind is Kind.NUMBER and not isinstance(value, Number) else value

    low, high = end(column.low, column.has_low), end(column.high, column.has_high)
    return Range(low, bool(column.low_closed[row]), high, bool(column.high_closed[row]))


@dataclass
class Builder:
    """Collect conjunctions, by batches of arrays or one at a time, in any order of texts."""

    check_xpath: Callable[[str], None] | None = None
    errors: dict[int, SubscriptionError] = field(default_factory=dict)
    never: list[int] = field(default_factory=list)
    _owners: list[Int32s] = field(default_factory=list)
    _size: int = 0
    _single_owners: "array[int]" = field(default_factory=lambda: array("i"))
    _batches: dict[ColumnKey, list[RangeColumn]] = field(default_factory=dict)
    _singles: dict[ColumnKey, list[tuple[int, Range]]] = field(default_factory=dict)
    _single_null: "dict[ColumnKey, array[int]]" = field(default_factory=dict)
    _tests: dict[Tested, int] = field(default_factory=dict)
    _test_rows: list[tuple[Int32s, Int32s]] = field(default_factory=list)
    _single_tests: "array[int]" = field(default_factory=lambda: array("i"))
    """Conjunction and test, in turn."""
    _nesting: "array[int]" = field(default_factory=lambda: array("i"))
    """Leaf, opens and closes, in turn."""

    def add(self, owner: int, expression: Expression) -> None:
        """Add one text."""
        # Check every test first, so that nothing of a refused text is added.
        for conjunction in expression.leaves:
            for predicate in conjunction:
                if isinstance(predicate, Tested):
                    self.check(predicate)
        if not expression.leaves:
            self.never.append(owner)
        for place, (opens, closes) in enumerate(expression.nesting, len(self._single_owners) + 1):
            self._nesting.extend((-place, opens, closes))
        for conjunction in expression.leaves:
            # Numbered from -1 downwards until the batches, which come first, are counted.
            self._single_owners.append(owner)
            number = -len(self._single_owners)
            for predicate in conjunction:
                self.add_predicate(number, predicate)

    def check(self, predicate: Predicate) -> None:
        """Refuse a test that cannot be added."""
        if isinstance(predicate, Tested):
            self.test_id(predicate)

    def add_predicate(self, number: int, predicate: Predicate) -> None:
        """Add one predicate to one conjunction."""
        if isinstance(predicate, Tested):
            self.add_test(number, self.test_id(predicate))
            return
        key = predicate.attribute, predicate.kind
        if predicate.or_null:
            self._single_null.setdefault(key, array("i")).append(number)
        if isinstance(predicate.ranges, Points):
            self.add_rows(key, _rows_of_points(number, predicate.ranges))
            return
        rows = self._singles.get(key)
        if rows is None:
            rows = self._singles[key] = []
        rows += [(number, candidate) for candidate in predicate.ranges]
        if len(rows) >= MANY_SINGLES:
            self._add_singles(key)

    def add_test(self, number: int, test: int) -> None:
        """Add one test, by its number, to one conjunction."""
        self._single_tests.extend((number, test))

    def test_id(self, predicate: Tested) -> int:
        """Return the number of a test; a new one with an XPath is checked first."""
        number = self._tests.get(predicate)
        if number is None:
            if self.check_xpath is not None and isinstance(predicate.test, XPathExists):
                check_path(self.check_xpath, predicate.test)
            number = self._tests[predicate] = len(self._tests)
        return number

    def new_conjunctions(self, owners: Int32s) -> Int32s:
        """Number one new conjunction for each owner."""
        numbers = np.arange(self._size, self._size + len(owners), dtype=np.int32)
        self._owners.append(owners)
        self._size += len(owners)
        return numbers

    def add_rows(self, key: ColumnKey, rows: RangeColumn) -> None:
        """Add rows whose conjunctions were numbered by `new_conjunctions`."""
        self._batches.setdefault(key, []).append(rows)

    def add_constant(self, numbers: Int32s, predicate: Predicate) -> None:
        """Add one predicate to many conjunctions."""
        if isinstance(predicate, Tested):
            self._test_rows.append((numbers, np.full(len(numbers), self.test_id(predicate), np.int32)))
            return
        key = predicate.attribute, predicate.kind
        batches = self._batches.setdefault(key, [])
        if predicate.or_null:
            batches.append(replace(_rows(predicate.kind, []), null=numbers))
        for candidate in predicate.ranges:
            one = _rows(predicate.kind, [(0, candidate)])
            batches.append(RangeColumn(numbers, *(np.repeat(getattr(one, name), len(numbers)) for name in _ENDS)))

    def _add_singles(self, key: ColumnKey) -> None:
        """Add the rows of a column that were added one at a time, as arrays: as objects they take ten times as much."""
        rows = _rows(key[1], self._singles.pop(key))
        if key[1] is Kind.STRING:
            known: dict[str | None, str | None] = {}
            rows.low[:] = [known.setdefault(text, text) for text in rows.low]
            rows.high[:] = [known.setdefault(text, text) for text in rows.high]
        self.add_rows(key, rows)

    def finish(self, texts: int) -> NormalForm:
        """Return the normal form of `texts` texts: conjunctions in the order of the texts, rows in that order."""
        for key in list(self._singles):
            self._add_singles(key)
        owners = np.concatenate([*self._owners, np.array(self._single_owners, np.int32)]).astype(np.int32)
        order = np.argsort(owners, kind="stable")
        final = np.empty(len(owners), np.int32)
        final[order] = np.arange(len(owners), dtype=np.int32)
        # Conjunctions that were added one at a time are numbered -1, -2, …: turned round, they are found from the end.
        number = np.concatenate([final[: self._size], final[self._size :][::-1]])
        columns: dict[ColumnKey, RangeColumn] = {}
        for key in sorted({*self._batches, *self._single_null}):
            null = replace(_rows(key[1], []), null=np.array(self._single_null.get(key, ()), np.int32))
            columns[key] = _joined([*self._batches.pop(key, []), null]).renumbered(number)
        single_tests = np.array(self._single_tests, np.int32).reshape(-1, 2)
        conjunction = number[np.concatenate([*(rows[0] for rows in self._test_rows), single_tests[:, 0]])]
        ids = np.concatenate([*(rows[1] for rows in self._test_rows), single_tests[:, 1]])
        by_conjunction = np.argsort(conjunction, kind="stable")
        nesting = np.array(self._nesting, np.int32).reshape(-1, 3)
        trees = Nesting(nesting[:, 0], nesting[:, 1].astype(np.uint8), nesting[:, 2].astype(np.uint8))
        return NormalForm(
            texts,
            owners[order],
            columns,
            list(self._tests),
            conjunction[by_conjunction],
            ids[by_conjunction],
            dict(sorted(self.errors.items())),
            sorted(self.never),
            trees.renumbered(number),
        )


def form_of(texts: Sequence[Expression]) -> NormalForm:
    """Return the normal form of texts, given the expression of each."""
    builder = Builder()
    for number, found in enumerate(texts):
        builder.add(number, found)
    return builder.finish(len(texts))


def _objects(values: Values, has: Bools) -> Values:
    """Return floats as Numbers; objects stay as they are."""
    if values.dtype == object:
        return values
    converted = np.empty(len(values), object)
    converted[:] = [
        Number(value) if present else None for value, present in zip(values.tolist(), has.tolist(), strict=True)
    ]
    return converted


def _rows(kind: Kind, singles: list[tuple[int, Range]]) -> RangeColumn:
    """Return the rows of ranges that were added one at a time."""
    ranges = [candidate for _, candidate in singles]
    low, high = [r.low for r in ranges], [r.high for r in ranges]
    return RangeColumn(
        np.array([number for number, _ in singles], np.int32),
        *_values(kind, low, high),
        np.array([value is not None for value in low], np.bool_),
        np.array([r.low_closed for r in ranges], np.bool_),
        np.array([value is not None for value in high], np.bool_),
        np.array([r.high_closed for r in ranges], np.bool_),
    )


def _rows_of_points(number: int, points: Points) -> RangeColumn:
    """Return the rows of the many single values of one conjunction."""
    values: Values | None = points.floats
    if values is None:
        constants = list(map(points.scalar, points.values))
        values, _ = _values(points.kind, constants, constants)
    true = np.ones(len(points), np.bool_)
    return RangeColumn(np.full(len(points), number, np.int32), values, values, true, true, true, true)


def _values(kind: Kind, low: list[Any], high: list[Any]) -> tuple[Values, Values]:
    if kind is Kind.NUMBER:
        if all(v is None or (-EXACT_FLOAT <= v.nearest <= EXACT_FLOAT and v.is_float) for v in (*low, *high)):
            return tuple(np.array([0.0 if v is None else v.nearest for v in ends]) for ends in (low, high))  # type: ignore[return-value]  # a pair
    elif kind is not Kind.STRING:
        return tuple(np.array([v or 0 for v in ends], _DTYPES[kind]) for ends in (low, high))  # type: ignore[return-value]  # a pair
    arrays = np.empty(len(low), object), np.empty(len(high), object)
    arrays[0][:], arrays[1][:] = low, high
    return arrays
