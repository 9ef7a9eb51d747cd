"""Bind all texts of a regular shape at once: literals are columns, conjunctions a few comparisons of columns."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Bools, Float64s, Int32s
from tocsin.errors import SubscriptionError
from tocsin.language.constants import LiteralSource, Reading, number, read, unquote
from tocsin.language.normal_form import EXACT_FLOAT, Builder, ColumnKey, RangeColumn, Values
from tocsin.language.normalise import always, never
from tocsin.language.rewrite import VALUES, All, Goal, Some, rewrite
from tocsin.language.shape_plan import VectorConjunction, slots
from tocsin.model.condition import Op, Slot
from tocsin.model.predicate import Predicate, Ranges
from tocsin.model.values import Number, Scalar, scalar

_SAFE_LENGTH = 15
"""A decimal of at most this many digits is the shortest one that reads as its float64."""

_BoundLeaf = tuple[Predicate, ...] | None
"""The predicates of a leaf whose slots are filled; None if it can never hold."""


class Unreadable(Exception):  # noqa: N818  # tells the caller to bind these rows one by one; not an error of the user
    """Some rows hold literals that do not mean a constant, or that must be bound one by one."""

    def __init__(self, rows: set[int]) -> None:
        super().__init__()
        self.rows = rows


class Columns:
    """The literals of the texts of one shape, by slot."""

    def __init__(self, sources: Sequence[LiteralSource], literals: list[list[str]]) -> None:
        self.sources = sources
        self._literals = list(zip(*literals, strict=True))
        self._read: dict[int, Values] = {}

    def __getitem__(self, slot: Slot) -> Values:
        """Return the constants of a slot: float64, microseconds, or objects."""
        if slot.index not in self._read:
            source = self.sources[slot.index]
            self._read[slot.index] = _column(self._literals[source.literal], source.reading)
        return self._read[slot.index]

    def alike(self, slots: Sequence[Slot]) -> list[Values]:
        """Return the constants of slots of one kind in one representation: all float64, or all `Number`s."""
        arrays = [self[slot] for slot in slots]
        if len({array.dtype for array in arrays}) == 1:
            return arrays
        return [array if array.dtype == object else _objects([Number(v) for v in array.tolist()]) for array in arrays]

    def literals(self, slot: Slot) -> Sequence[str]:
        """Return the literal of a slot in every text, as written."""
        return self._literals[self.sources[slot.index].literal]


def _column(literals: Sequence[str], reading: Reading) -> Values:
    if reading is Reading.STRING:
        return _objects([unquote(literal) for literal in literals])
    if reading in (Reading.NUMBER, Reading.NEGATIVE):
        floats = _floats(literals)
        if floats is not None:
            return -floats if reading is Reading.NEGATIVE else floats
        return _objects(_each(literals, reading))
    return np.array(_each(literals, reading), np.int64)


def _floats(literals: Sequence[str]) -> Float64s | None:
    """Return the literals as float64, or None unless each means exactly that. Arrow does it faster than Python."""
    texts = pa.array(literals, pa.string())
    try:
        read_back = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    floats: Float64s = read_back.to_numpy()
    if not bool((np.abs(floats) <= EXACT_FLOAT).all()):
        return None
    if max(map(len, literals)) > _SAFE_LENGTH:
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


def add_vectors(builder: Builder, vectors: list[VectorConjunction], owners: Int32s, columns: Columns) -> None:
    """Add the conjunctions of all texts; `owners` are the numbers of the texts."""
    # Read before anything is added, so that nothing is added twice if a literal cannot be read.
    prepared = [
        (
            vector,
            {key: _intersect(bounds, columns) for key, bounds in vector.bounds.items()},
            {key: columns.alike(slots) for key, slots in vector.points.items()},
            [_bind_leaf(leaf, columns, builder.check) for leaf in vector.leaves],
        )
        for vector in vectors
    ]
    matchable = np.zeros(len(owners), np.bool_)
    for vector, ranges, points, leaves in prepared:
        alive = np.ones(len(owners), np.bool_)
        for rows in ranges.values():
            alive &= _inhabited(rows)
        for bound in leaves:
            alive &= np.fromiter((predicates is not None for predicates in bound), np.bool_, len(owners))
        matchable |= alive
        numbers = builder.new_conjunctions(owners[alive])
        number_of = np.full(len(owners), -1, np.int32)
        number_of[alive] = numbers
        for key, rows in ranges.items():
            builder.add_rows(key, rows.renumbered(number_of))
        for key, values in points.items():
            _add_points(builder, key, numbers, [array[alive] for array in values])
        texts = np.flatnonzero(alive).tolist()
        for bound in leaves:
            for conjunction, text in zip(numbers.tolist(), texts, strict=True):
                for predicate in bound[text] or ():
                    builder.add_predicate(conjunction, predicate)
        for predicate in vector.constant:
            builder.add_constant(numbers, predicate)
    builder.never.extend(owners[~matchable].tolist())


def _intersect(bounds: list[tuple[Op, Slot]], columns: Columns) -> RangeColumn:
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


def _add_points(builder: Builder, key: ColumnKey, numbers: Int32s, values: list[Values]) -> None:
    """Add one row for each distinct constant of each text, in order."""
    table = np.sort(np.stack(values, axis=1), axis=1)
    first = np.ones(table.shape, np.bool_)
    first[:, 1:] = table[:, 1:] != table[:, :-1]
    points = table[first]
    true = np.ones(len(points), np.bool_)
    conjunction = np.repeat(numbers, first.sum(axis=1)).astype(np.int32)
    builder.add_rows(key, RangeColumn(conjunction, points, points, true, true, true, true))


def _bind_leaf(goal: Goal, columns: Columns, check: Callable[[Predicate], None]) -> list[_BoundLeaf]:
    """Bind a leaf for each text, each distinct combination of its literals once.

    Raises Unreadable for the texts that must be bound one by one: those whose leaf does not become a conjunction, and
    those with a predicate for which `check` raises SubscriptionError.
    """
    found = slots(goal)
    keys = list(zip(*(columns.literals(slot) for slot in found), strict=True))
    known: dict[tuple[str, ...], _BoundLeaf] = {}
    general: set[tuple[str, ...]] = set()
    for key in set(keys):
        constants = {slot.index: literal for slot, literal in zip(found, key, strict=True)}

        def fill(value: Any, constants: dict[int, str] = constants) -> Any:
            if not isinstance(value, Slot):
                return value
            return read(constants[value.index], columns.sources[value.index].reading)

        try:
            node = rewrite(goal, VALUES, fill)
            parts = node.children if isinstance(node, All) else (node,)
            predicates = [part for part in parts if not isinstance(part, (All, Some, Goal))]
            for predicate in predicates:
                check(predicate)
        except SubscriptionError:
            general.add(key)
            continue
        if len(predicates) < len(parts) or (len(parts) > 1 and any(isinstance(p, Ranges) for p in predicates)):
            general.add(key)
        elif any(map(never, predicates)):
            known[key] = None
        else:
            known[key] = tuple(predicate for predicate in predicates if not always(predicate))
    if general:
        raise Unreadable({row for row, key in enumerate(keys) if key in general})
    return [known[key] for key in keys]
