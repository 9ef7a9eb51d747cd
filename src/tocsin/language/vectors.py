"""Bind one part of many texts at once: literals are columns, and bounds a few comparisons of columns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.arrays import Bools, Float64s, Int32s
from tocsin.errors import SubscriptionError
from tocsin.language.constants import Reading, number, read, unquote
from tocsin.language.normal_form import Builder, RangeColumn, Values
from tocsin.language.normalise import always, never
from tocsin.language.rewrite import VALUES, All, Goal, Some, rewrite
from tocsin.language.shape_plan import Part
from tocsin.model.condition import Op, Slot
from tocsin.model.predicate import EXACT_FLOAT, Ranges, Tested
from tocsin.model.untyped import SPANS, is_untyped, untyped_constants
from tocsin.model.values import Kind, Number, Scalar, scalar

_SAFE_LENGTH = 15
"""A decimal of at most this many digits is the shortest one that reads as its float64."""


class _BoundLeaf(NamedTuple):
    """The predicates of a leaf whose slots are filled: tests as the builder numbers them, and ranges."""

    tests: list[int]
    ranges: list[Ranges]


class Unreadable(Exception):  # noqa: N818  # tells the caller to bind these rows one by one; not an error of the user
    """Some rows hold literals that do not mean a constant, or that must be bound one by one."""

    def __init__(self, rows: set[int]) -> None:
        super().__init__()
        self.rows = rows


class Columns:
    """The literals of one part in many texts, by slot."""

    def __init__(self, readings: Sequence[Reading], literals: Sequence[Sequence[str]]) -> None:
        self.readings = readings
        self.literals = literals
        self._read: dict[int, Values] = {}

    def __getitem__(self, slot: Slot) -> Values:
        """Return the constants of a slot: float64, microseconds, or objects."""
        if slot.index not in self._read:
            self._read[slot.index] = _column(self.literals[slot.index], self.readings[slot.index])
        return self._read[slot.index]

    def alike(self, slots: Sequence[Slot]) -> list[Values]:
        """Return the constants of slots of one kind in one representation: all float64, or all `Number`s."""
        arrays = [self[slot] for slot in slots]
        if len({array.dtype for array in arrays}) == 1:
            return arrays
        return [array if array.dtype == object else _objects([Number(v) for v in array.tolist()]) for array in arrays]


def _column(literals: Sequence[str], reading: Reading) -> Values:
    if reading is Reading.STRING:
        return _objects([unquote(literal) for literal in literals])
    if reading in (Reading.NUMBER, Reading.NEGATIVE):
        floats = _floats(literals)
        if floats is not None:
            return -floats if reading is Reading.NEGATIVE else floats
        return _objects(_each(literals, reading))
    if reading.kind is Kind.STRING:
        return _objects(_each(literals, reading))
    return np.array(_each(literals, reading), np.int64)


def _floats(literals: Sequence[str]) -> Float64s | None:
    """Return the literals as float64, or None unless each means exactly that. Arrow does it faster than Python."""
    # Loaded here: it takes 0.1 s, which a command that refuses a condition does not have.
    import pyarrow.compute as pc

    texts = pa.array(literals, pa.string())
    try:
        read_back = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    floats: Float64s = read_back.to_numpy()
    if not bool((np.abs(floats) <= EXACT_FLOAT).all()):
        return None
    if pc.max(pc.binary_length(texts)).as_py() > _SAFE_LENGTH:
        differing = np.flatnonzero(~pc.equal(texts, read_back.cast(pa.string())).to_numpy(zero_copy_only=False))
        if not all(len(literals[row]) <= _SAFE_LENGTH or _is_float(literals[row]) for row in differing.tolist()):
            return None
    return floats


def _is_float(literal: str) -> bool:
    try:
        return Number(number(literal)).is_float
    except SubscriptionError:
        return False


def _each(literals: Sequence[str], reading: Reading) -> list[Scalar]:
    """Read each distinct literal once, in Python."""
    known: dict[str, Scalar | None] = {}
    for literal in set(literals):
        try:
            known[literal] = scalar(read(literal, reading))
        except SubscriptionError:
            known[literal] = None
    values = [known[literal] for literal in literals]
    unreadable = {row for row, value in enumerate(values) if value is None}
    if unreadable:
        raise Unreadable(unreadable)
    return [value for value in values if value is not None]


def _objects(values: Sequence[Any]) -> Values:
    array = np.empty(len(values), object)
    array[:] = values
    return array


class PartRows(NamedTuple):
    """What one part demands of its texts, which are numbered from 0."""

    alive: Bools
    """Whether the part can hold."""
    ranges: RangeColumn | None = None
    """Of the part's column."""
    bound: Sequence[_BoundLeaf | None] = ()
    """The part's leaf for each text."""

    def add_to(self, builder: Builder, part: Part, number: Int32s) -> None:
        """Add the rows to the conjunctions of the texts; those that have none are numbered -1."""
        if self.ranges is not None and part.column is not None:
            builder.add_rows(part.column, self.ranges.renumbered(number))
        if part.constant is not None:
            builder.add_constant(number[number >= 0], part.constant)
        for conjunction, leaf in zip(number.tolist() if self.bound else (), self.bound, strict=True):
            if conjunction >= 0 and leaf is not None:
                for test in leaf.tests:
                    builder.add_test(conjunction, test)
                for predicate in leaf.ranges:
                    builder.add_predicate(conjunction, predicate)


def part_rows(part: Part, literals: Sequence[Sequence[str]], size: int, builder: Builder) -> PartRows:
    """Return what a part demands of `size` texts with these literals. Raises Unreadable."""
    columns = Columns(part.readings, literals)
    every = np.ones(size, np.bool_)
    if part.leaf is not None:
        bound = _bind_leaf(part.leaf, columns, builder)
        return PartRows(np.fromiter((leaf is not None for leaf in bound), np.bool_, size), bound=bound)
    if part.points:
        values = columns.alike(part.points)
        is_open = part.column is not None and is_untyped(part.column[0])
        return PartRows(every, _points(_of_every_kind(values) if is_open else values))
    if part.bounds:
        rows = _intersect(part.bounds, columns)
        return PartRows(_inhabited(rows), rows)
    return PartRows(every)


def _intersect(bounds: Sequence[tuple[Op, Slot]], columns: Columns) -> RangeColumn:
    """Return the intersection of the comparisons: one range for each text, numbered as the texts are."""
    ends: dict[int, tuple[Values, Bools]] = {}
    for (op, _), values in zip(bounds, columns.alike([slot for _, slot in bounds]), strict=True):
        closed = np.full(len(values), op in (Op.GE, Op.LE, Op.EQ))
        for side, ops in ((+1, (Op.GE, Op.GT, Op.EQ)), (-1, (Op.LE, Op.LT, Op.EQ))):
            if op in ops:
                ends[side] = _stricter(*ends[side], values, closed, side) if side in ends else (values, closed)
    size = len(values)
    blank = np.zeros(size, values.dtype), np.zeros(size, np.bool_)
    low, low_closed = ends.get(+1, blank)
    high, high_closed = ends.get(-1, blank)
    present = np.full(size, +1 in ends), np.full(size, -1 in ends)
    return RangeColumn(np.arange(size, dtype=np.int32), low, high, present[0], low_closed, present[1], high_closed)


def _stricter(values: Values, closed: Bools, others: Values, others_closed: Bools, side: int) -> tuple[Values, Bools]:
    """Return the stricter of two ends, text by text: the greater for side +1, the lesser for side -1."""
    stricter = (others > values) if side > 0 else (others < values)
    kept = np.where(stricter, others, values)
    return kept, np.where(others == values, closed & others_closed, np.where(stricter, others_closed, closed))


def _inhabited(rows: RangeColumn) -> Bools:
    """Tell which of the ranges contain a value."""
    if not (rows.has_low & rows.has_high).all():
        return np.ones(len(rows.conjunction), np.bool_)
    point = np.asarray(rows.low == rows.high, np.bool_) & rows.low_closed & rows.high_closed
    return point | np.asarray(rows.low < rows.high, np.bool_)


def _points(values: list[Values]) -> RangeColumn:
    """Return one row for each distinct constant of each text, in order."""
    table = np.sort(np.stack(values, axis=1), axis=1)
    first = np.ones(table.shape, np.bool_)
    first[:, 1:] = table[:, 1:] != table[:, :-1]
    points = table[first]
    true = np.ones(len(points), np.bool_)
    text = np.repeat(np.arange(len(table), dtype=np.int32), first.sum(axis=1))
    return RangeColumn(text, points, points, true, true, true, true)


def _of_every_kind(columns: list[Values]) -> list[Values]:
    """Return the texts that strings stand for in an untyped attribute, by kind; itself again where it has no such."""
    texts = [[untyped_constants(string) for string in strings.tolist()] for strings in columns]
    return [_objects([text.get(kind, text[Kind.STRING]) for text in column]) for column in texts for kind in SPANS]


def _bind_leaf(goal: Goal, columns: Columns, builder: Builder) -> list[_BoundLeaf | None]:
    """Bind a leaf for each text, each distinct combination of its literals once; None where it can never hold.

    Raises Unreadable for the texts that must be bound one by one: those whose leaf does not become a conjunction or
    always holds, and those with a predicate that the builder refuses.
    """
    keys = list(zip(*columns.literals, strict=True))
    known: dict[tuple[str, ...], _BoundLeaf | None] = {}
    general: set[tuple[str, ...]] = set()
    for key in set(keys):

        def fill(value: Any, key: tuple[str, ...] = key) -> Any:
            return read(key[value.index], columns.readings[value.index]) if isinstance(value, Slot) else value

        try:
            node = rewrite(goal, VALUES, fill)
            parts = node.children if isinstance(node, All) else (node,)
            predicates = [part for part in parts if not isinstance(part, (All, Some, Goal))]
            tests = [part for part in predicates if isinstance(part, Tested) and not always(part)]
            ranges = [part for part in predicates if isinstance(part, Ranges) and not always(part)]
            numbers = [builder.test_id(test) for test in tests]
        except SubscriptionError:
            general.add(key)
            continue
        holds_always = not tests and not ranges
        if len(predicates) < len(parts) or (ranges and len(parts) > 1) or holds_always:
            general.add(key)
        else:
            known[key] = None if any(map(never, predicates)) else _BoundLeaf(numbers, ranges)
    if general:
        raise Unreadable({row for row, key in enumerate(keys) if key in general})
    return [known[key] for key in keys]
