"""Bind all texts of a regular shape: each conjunction of the shape is a few comparisons of whole columns."""

from dataclasses import dataclass

import numpy as np

from tocsin.language.columns import Columns, together
from tocsin.language.leaves import bind_leaf
from tocsin.language.normal_form import Bools, Builder, ColumnKey, ColumnRows, Int32s, Values
from tocsin.language.shape_plan import VectorConjunction
from tocsin.model.condition import Op, Slot


@dataclass(slots=True)
class _Ends:
    """One range for each text; an end that is None is missing in all of them."""

    low: Values | None = None
    low_closed: Bools | None = None
    high: Values | None = None
    high_closed: Bools | None = None


def add_vectors(builder: Builder, vectors: list[VectorConjunction], owners: Int32s, columns: Columns) -> None:
    """Add the conjunctions of all texts; `owners` are their numbers."""
    # Read before anything is added, so that nothing is added twice if a literal cannot be read.
    prepared = [
        (
            vector,
            {key: _intersect(bounds, columns) for key, bounds in vector.bounds.items()},
            {key: together([columns[slot] for slot in slots]) for key, slots in vector.points.items()},
            [bind_leaf(leaf, columns, builder.check) for leaf in vector.leaves],
        )
        for vector in vectors
    ]
    matchable = np.zeros(len(owners), np.bool_)
    for vector, ends, points, leaves in prepared:
        alive = np.ones(len(owners), np.bool_)
        for end in ends.values():
            alive &= _inhabited(end, len(owners))
        for outcomes in leaves:
            alive &= np.fromiter((outcome is not None for outcome in outcomes), np.bool_, len(owners))
        matchable |= alive
        numbers = builder.new_conjunctions(owners[alive])
        for key, end in ends.items():
            builder.add_rows(key, _rows(end, numbers, alive))
        for key, values in points.items():
            _add_points(builder, key, numbers, [array[alive] for array in values])
        rows = np.flatnonzero(alive).tolist()
        for outcomes in leaves:
            for number, row in zip(numbers.tolist(), rows, strict=True):
                for predicate in outcomes[row] or ():
                    builder.add_predicate(number, predicate)
        for predicate in vector.constant:
            builder.add_constant(numbers, predicate)
    builder.never.extend(owners[~matchable].tolist())


def _intersect(bounds: list[tuple[Op, Slot]], columns: Columns) -> _Ends:
    ends = _Ends()
    for (op, _), values in zip(bounds, together([columns[slot] for _, slot in bounds]), strict=True):
        closed = np.full(len(values), op in (Op.GE, Op.LE, Op.EQ))
        if op in (Op.GE, Op.GT, Op.EQ):
            ends.low, ends.low_closed = _inner(ends.low, ends.low_closed, values, closed, +1)
        if op in (Op.LE, Op.LT, Op.EQ):
            ends.high, ends.high_closed = _inner(ends.high, ends.high_closed, values, closed, -1)
    return ends


def _inner(
    values: Values | None, closed: Bools | None, others: Values, others_closed: Bools, side: int
) -> tuple[Values, Bools]:
    """The stricter of two ends, text by text: the greater for side +1, the lesser for side -1."""
    if values is None or closed is None:
        return others, others_closed
    stricter = (others > values) if side > 0 else (others < values)
    equal = others == values
    kept = np.where(stricter, others, values)
    return kept, np.where(equal, closed & others_closed, np.where(stricter, others_closed, closed))


def _inhabited(ends: _Ends, size: int) -> Bools:
    """Which of the ranges contain a value."""
    if ends.low is None or ends.low_closed is None or ends.high is None or ends.high_closed is None:
        return np.ones(size, np.bool_)
    inhabited = np.asarray(ends.low < ends.high, np.bool_)
    return inhabited | (np.asarray(ends.low == ends.high, np.bool_) & ends.low_closed & ends.high_closed)


def _rows(ends: _Ends, numbers: Int32s, alive: Bools) -> ColumnRows:
    absent = np.zeros(len(numbers), np.bool_)
    present = ends.low if ends.low is not None else ends.high
    assert present is not None, "a column has a comparison"
    blank = np.zeros(len(numbers), present.dtype)
    if ends.low is None or ends.low_closed is None:
        low, low_closed = blank, absent
    else:
        low, low_closed = ends.low[alive], ends.low_closed[alive]
    if ends.high is None or ends.high_closed is None:
        high, high_closed = blank, absent
    else:
        high, high_closed = ends.high[alive], ends.high_closed[alive]
    return ColumnRows(
        numbers,
        low,
        high,
        np.full(len(numbers), ends.low is not None),
        low_closed,
        np.full(len(numbers), ends.high is not None),
        high_closed,
    )


def _add_points(builder: Builder, key: ColumnKey, numbers: Int32s, values: list[Values]) -> None:
    """Add one row for each distinct constant of each text, in order."""
    table = np.sort(np.stack(values, axis=1), axis=1)
    first = np.ones(table.shape, np.bool_)
    first[:, 1:] = table[:, 1:] != table[:, :-1]
    points = table[first]
    true = np.ones(len(points), np.bool_)
    conjunction = np.repeat(numbers, first.sum(axis=1)).astype(np.int32)
    builder.add_rows(key, ColumnRows(conjunction, points, points, true, true, true, true))
