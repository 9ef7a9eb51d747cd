"""Derived attributes of a batch: expressions over columns, vectors at a time.

`model/functions.py` defines what a function means; here the same is computed for whole columns. What a vector cannot
decide, such as a product beyond 64 bits or a value of another kind, is *undecided*, and those rows are evaluated by
the definition. An expression with a function or a column that has no vector is evaluated so in every row.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Bools, Float64s, Int64s
from tocsin.model.analyzer import WORDS, words_text
from tocsin.model.casts import Time, UndefinedError, comparable_text
from tocsin.model.civil import DAY, PARTS, add_months, boundaries, truncated, whole_units
from tocsin.model.expression_tree import AttributeValue, Call, ConstantValue, Expression, leaves
from tocsin.model.functions import FUNCTIONS, as_operand, as_value, evaluate, interval_of
from tocsin.model.ip_addresses import addresses_in_order
from tocsin.model.readable import Lost, Values, python_values
from tocsin.model.untyped import HIGHEST, untyped_text
from tocsin.model.vector import (
    BOOLEAN,
    EXACT,
    FLOAT,
    MAX_SCALE,
    TEXT,
    TIME,
    Vector,
    arrow_of,
    constant_vector,
    read_vector,
)

FEW_ROWS = 8
"""Fewer rows than this are evaluated one by one: the vectors of one function cost as much as some ten of its rows."""
_EXACT_FLOAT = 2.0**53
_SAFE_PRODUCT = 2.0**62
"""A product of two floats below this one is one of integers below 2**63."""
_FAR = 2.0**62
_SHORT = 10**15
_POWERS_OF_FLOAT = 22


_NO_TYPES: set[type] = set()
_PYTHON_TYPES: dict[int, set[type]] = {
    pa.int64().id: {int, type(None)},
    pa.float64().id: {float, type(None)},
    pa.bool_().id: {bool, type(None)},
    pa.large_string().id: {str, type(None)},
    pa.decimal128(1).id: {Decimal, int, type(None)},
}
"""The Python types whose values go into an array of Arrow as they are."""


class Columns(Protocol):
    """The columns that an expression reads: those of a batch."""

    def __len__(self) -> int: ...

    def column(self, attribute: str) -> Values | None:
        """Return the values of an attribute."""

    def values(self, attribute: str) -> list[Any] | None:
        """Return the values of an attribute as Python has them."""


def derive(expression: Expression, batch: Columns) -> tuple[Values, Lost]:
    """Return the values of an expression, and by reason for how many events it has none."""
    if len(batch) < FEW_ROWS:
        return _row_by_row(expression, batch, np.arange(len(batch)))
    vectors = _Vectors(batch)
    with np.errstate(all="ignore"):
        found = vectors.of(expression)
    if found is None:
        return _row_by_row(expression, batch, np.arange(len(batch)))
    values = arrow_of(found)
    rows = np.flatnonzero(vectors.undecided)
    if not rows.size:
        return values, {}
    patch, lost = _row_by_row(expression, batch, rows)
    return _patched(values, rows, patch), lost


def _row_by_row(expression: Expression, batch: Columns, rows: Int64s) -> tuple[list[Any], Lost]:
    names = {leaf.name for leaf in leaves(expression)}
    columns = {name: _operands(batch, name) for name in names}
    lost: Lost = {}
    values = []
    for row in rows.tolist():
        try:
            value = evaluate(expression, lambda name, row=row: columns[name][row])  # type: ignore[misc]  # bound at once
        except UndefinedError as error:
            lost[str(error)] = lost.get(str(error), 0) + 1
            value = None
        values.append(as_value(value))
    return values, lost


def _operands(batch: Columns, name: str) -> Sequence[Any]:
    column, values = batch.column(name), batch.values(name)
    is_date = column is not None and not isinstance(column, list) and pa.types.is_date(column.type)
    return [None] * len(batch) if values is None else [as_operand(value, is_date) for value in values]


def _patched(values: pa.Array, rows: Int64s, patch: list[Any]) -> Values:
    """Put Python values into an array: as one of its type if they are of it, as a list of Python values if not."""
    mask = np.zeros(len(values), bool)
    mask[rows] = True
    if all(value is None for value in patch):
        return pc.if_else(pa.array(mask), pa.nulls(len(values), values.type), values)
    mixed = python_values(values)
    for row, value in zip(rows.tolist(), patch, strict=True):
        mixed[row] = value
    # Arrow would cut a decimal to an integer.
    if not {type(value) for value in patch} <= _PYTHON_TYPES.get(values.type.id, _NO_TYPES):
        return mixed
    try:
        return pa.array(mixed, values.type)
    except (pa.ArrowException, TypeError, OverflowError):
        return mixed


class _Vectors:
    """Evaluate expressions over the columns of one batch."""

    def __init__(self, batch: Columns) -> None:
        self._batch = batch
        self._count = len(batch)
        self.undecided: Bools = np.zeros(len(batch), bool)
        """The rows that the definition must decide."""

    def of(self, expression: Expression) -> Vector | None:
        """Return the values of an expression; None if it has no vector."""
        if isinstance(expression, AttributeValue):
            return read_vector(self._batch.column(expression.name), self._count, self.undecided)
        if isinstance(expression, ConstantValue):
            operand = as_operand(expression.value)
            if isinstance(operand, Time):
                times = np.full(self._count, operand.microseconds, np.int64)
                return Vector(TIME, times, np.ones(self._count, bool), is_date=operand.is_date)
            return None if operand is None else constant_vector(operand, self._count)
        compute = _COMPUTE.get(expression.function)
        return None if compute is None else compute(self, expression)

    def lists(self, expression: Expression) -> pa.Array | None:
        """Return the lists of an attribute as Arrow has them; None if it does not have lists."""
        column = self._batch.column(expression.name) if isinstance(expression, AttributeValue) else None
        return column if isinstance(column, pa.Array) and pa.types.is_large_list(column.type) else None

    def operands(self, call: Call) -> list[Vector] | None:
        """Return the operands of a call; None if one has no vector."""
        found = [self.of(operand) for operand in call.operands]
        return None if any(vector is None for vector in found) else [v for v in found if v is not None]

    def doubt(self, rows: Bools) -> None:
        """Leave rows to the definition."""
        self.undecided |= rows

    def floats(self, vector: Vector) -> Float64s:
        """Return numbers as the nearest floats."""
        floats: Float64s = vector.data.astype(np.float64)
        if vector.scale:
            # Digits and power of ten are floats, so that one division rounds as it must.
            self.doubt(np.abs(vector.data) > _EXACT_FLOAT)
            floats /= 10.0**vector.scale
        return floats

    def scaled(self, vector: Vector, scale: int) -> Int64s:
        """Return exact numbers as integers of another scale."""
        integers: Int64s = vector.data
        if scale > vector.scale:
            power = 10 ** (scale - vector.scale)
            self.doubt(np.abs(integers) > np.iinfo(np.int64).max // power)
            integers = integers * power
        return integers

    def alike(self, vectors: Sequence[Vector]) -> list[Vector] | None:
        """Return vectors in one form, exact ones with one scale; None if they are of different kinds."""
        forms = {vector.form for vector in vectors}
        if forms == {EXACT}:
            scale = max(vector.scale for vector in vectors)
            return [Vector(EXACT, self.scaled(vector, scale), vector.known, scale) for vector in vectors]
        if forms == {EXACT, FLOAT}:
            if any(vector.scale for vector in vectors):
                return None
            for vector in vectors:
                if vector.form == EXACT:
                    self.doubt(np.abs(vector.data) > _EXACT_FLOAT)
            return [Vector(FLOAT, self.floats(vector), vector.known, loose=True) for vector in vectors]
        return list(vectors) if len(forms) == 1 else None


def _all_known(vectors: Sequence[Vector]) -> Bools:
    return reduce(np.logical_and, [vector.known for vector in vectors])


def _are_numbers(vectors: Sequence[Vector] | None) -> bool:
    return vectors is not None and all(vector.form in (EXACT, FLOAT) for vector in vectors)


def _arithmetic(vectors: _Vectors, call: Call) -> Vector | None:
    operands = vectors.operands(call)
    if operands is None or not _are_numbers(operands):
        return None if operands is None else _days(vectors, call, operands)
    left, right = operands
    known = left.known & right.known
    if left.form == right.form == EXACT:
        return _exact_arithmetic(vectors, call.function, left, right, known)
    if (left.loose or right.loose) and (left.scale or right.scale):
        return None
    a, b = vectors.floats(left), vectors.floats(right)
    data = {"+": np.add, "-": np.subtract, "*": np.multiply, "%": np.fmod}[call.function](a, b)
    loose = (left.loose or left.form == EXACT) and (right.loose or right.form == EXACT)
    if loose:
        # Both may stand for integers, of which the result is exact or an error.
        vectors.doubt(known & (np.abs(data) > _EXACT_FLOAT))
        if call.function == "%":
            vectors.doubt(known & (b == 0))
    return Vector(FLOAT, data, known & ~np.isnan(data), loose=loose)


def _exact_arithmetic(vectors: _Vectors, sign: str, left: Vector, right: Vector, known: Bools) -> Vector | None:
    if sign == "*":
        if left.scale + right.scale > MAX_SCALE:
            return None
        vectors.doubt(known & (np.abs(left.data.astype(np.float64) * right.data) >= _SAFE_PRODUCT))
        return Vector(EXACT, left.data * right.data, known, left.scale + right.scale)
    scale = max(left.scale, right.scale)
    a, b = vectors.scaled(left, scale), vectors.scaled(right, scale)
    if sign == "%":
        vectors.doubt(known & ((b == 0) | (a == np.iinfo(np.int64).min)))
        return Vector(EXACT, np.fmod(a, np.where(b == 0, 1, b)), known, scale)
    data = a + b if sign == "+" else a - b
    # The sign of a sum that overflows differs from those of both numbers.
    other = b if sign == "+" else ~b
    vectors.doubt(known & (((a ^ data) & (other ^ data)) < 0))
    return Vector(EXACT, data, known, scale)


def _days(vectors: _Vectors, call: Call, operands: list[Vector]) -> Vector | None:
    """A date plus or minus days, and the days between two dates."""
    left, right = operands
    known = left.known & right.known
    if call.function == "-" and left.is_date and right.is_date:
        return Vector(EXACT, left.data // DAY - right.data // DAY, known)
    if call.function == "+" and right.is_date:
        left, right = right, left
    if call.function not in "+-" or not left.is_date or right.form != EXACT or right.scale:
        return None
    days = right.data if call.function == "+" else -right.data
    vectors.doubt(known & (np.abs(days.astype(np.float64) * DAY + left.data) > _FAR))
    return Vector(TIME, left.data + days * DAY, known, is_date=True)


def _divide(vectors: _Vectors, call: Call) -> Vector | None:
    operands = vectors.operands(call)
    if operands is None or not _are_numbers(operands):
        return None
    data = vectors.floats(operands[0]) / vectors.floats(operands[1])
    return Vector(FLOAT, data, _all_known(operands) & ~np.isnan(data))


def _divide_whole(vectors: _Vectors, call: Call) -> Vector | None:
    operands = vectors.operands(call)
    if operands is None or any(vector.form != EXACT or vector.scale for vector in operands):
        return None
    left, right = operands
    known = left.known & right.known
    vectors.doubt(known & ((right.data == 0) | (left.data == np.iinfo(np.int64).min)))
    divisor = np.where(right.data == 0, 1, right.data)
    return Vector(EXACT, (left.data - np.fmod(left.data, divisor)) // divisor, known)


def _of_number(of_exact: Callable[..., Any], of_float: Callable[..., Any]) -> Callable[[_Vectors, Call], Vector | None]:
    def compute(vectors: _Vectors, call: Call) -> Vector | None:
        operands = vectors.operands(call)
        if operands is None or not _are_numbers(operands):
            return None
        [value] = operands
        if value.form == FLOAT:
            return Vector(FLOAT, of_float(value.data), value.known, loose=value.loose)
        # The least integer has no opposite.
        vectors.doubt(value.data == np.iinfo(np.int64).min)
        data, scale = of_exact(value.data, value.scale)
        return Vector(EXACT, data, value.known, scale)

    return compute


def _sign(vectors: _Vectors, call: Call) -> Vector | None:
    operands = vectors.operands(call)
    if operands is None or not _are_numbers(operands):
        return None
    return Vector(EXACT, np.sign(operands[0].data).astype(np.int64), operands[0].known)


def _half_away(values: Float64s) -> Float64s:
    whole = np.trunc(values)
    return whole + np.where(np.abs(values - whole) >= 0.5, np.copysign(1.0, values), 0.0)


def _round(vectors: _Vectors, call: Call) -> Vector | None:
    places = call.operands[1] if len(call.operands) > 1 else ConstantValue(0)
    value = vectors.of(call.operands[0])
    if value is None or not isinstance(places, ConstantValue) or type(places.value) is not int:
        return None
    if value.form == FLOAT and 0 <= places.value <= 15:
        scale = 10.0**places.value
        rounded = _half_away(value.data * scale) / scale
        kept = np.where(np.isfinite(value.data * scale), rounded, value.data)
        return Vector(FLOAT, kept, value.known, loose=value.loose)
    if value.form != EXACT or places.value < 0:
        return None
    if places.value >= value.scale:
        return value
    unit = 10 ** (value.scale - places.value)
    vectors.doubt(np.abs(value.data) > _SAFE_PRODUCT)
    return Vector(EXACT, np.sign(value.data) * ((np.abs(value.data) + unit // 2) // unit), value.known, places.value)


def _cast(vectors: _Vectors, call: Call) -> Vector | None:
    value = vectors.of(call.operands[0])
    if value is None:
        return None
    if call.detail == "DOUBLE" and value.form in (EXACT, FLOAT):
        return Vector(FLOAT, vectors.floats(value), value.known)
    if call.detail == "BIGINT" and value.form == EXACT and not value.scale:
        return value
    if call.detail == "VARCHAR" and value.form == TEXT:
        return value
    if value.form == TIME and call.detail in ("DATE", "TIMESTAMP"):
        is_date = call.detail == "DATE"
        return Vector(TIME, value.data // DAY * DAY if is_date else value.data, value.known, is_date=is_date)
    if value.form == BOOLEAN and call.detail == "BIGINT":
        return Vector(EXACT, value.data.astype(np.int64), value.known)
    return None


# Texts


def _text_by_definition(vectors: _Vectors, call: Call) -> Vector | None:
    """Compute a function of one text and constants for each distinct text."""
    value = vectors.of(call.operands[0])
    constants = call.operands[1:]
    if value is None or value.form != TEXT or not all(isinstance(each, ConstantValue) for each in constants):
        return None
    distinct = value.data.dictionary_encode()
    function = FUNCTIONS[call.function].call
    arguments = [each.value for each in constants if isinstance(each, ConstantValue)]
    if None in arguments:
        return None
    try:
        results = pa.array([function(text, *arguments) for text in distinct.dictionary.to_pylist()])
    except UndefinedError:
        return None
    if not len(results):
        return None
    array = results.take(distinct.indices)
    return read_vector(array, len(value), vectors.undecided)


def _lower(vectors: _Vectors, call: Call) -> Vector | None:
    """Change the case; Arrow knows a newer Unicode than Python, so that it serves ASCII alone."""
    value = vectors.of(call.operands[0])
    if value is None or value.form != TEXT:
        return None
    if not pc.all(pc.string_is_ascii(value.data)).as_py():
        return _text_by_definition(vectors, call)
    change = pc.ascii_lower if call.function == "lower" else pc.ascii_upper
    return Vector(TEXT, change(value.data), value.known)


def _length(vectors: _Vectors, call: Call) -> Vector | None:
    lists = vectors.lists(call.operands[0])
    if lists is not None:
        lengths = pc.list_value_length(lists).fill_null(0)
        return Vector(EXACT, np.asarray(lengths).astype(np.int64), np.asarray(lists.is_valid()))
    value = vectors.of(call.operands[0])
    if value is None or value.form != TEXT:
        return None
    return Vector(EXACT, np.asarray(pc.utf8_length(value.data).fill_null(0)).astype(np.int64), value.known)


def _best_element(better: str) -> Callable[[_Vectors, Call], Vector | None]:
    def choose(vectors: _Vectors, call: Call) -> Vector | None:
        lists = vectors.lists(call.operands[0])
        if lists is None:
            return None
        elements = lists.flatten()
        odd = np.zeros(len(elements), bool)
        found = read_vector(elements, len(elements), odd)
        if found is None or found.form not in (EXACT, FLOAT) or odd.any():
            return None
        rows = np.asarray(lists.value_parent_indices()).astype(np.int64)[found.known]
        data = found.data[found.known]
        known = np.zeros(len(lists), bool)
        known[rows] = True
        best = np.zeros(len(lists), data.dtype)
        # Written in this order, the best element of a list is the last one that is written.
        order = np.argsort(data)[:: 1 if better == ">" else -1]
        best[rows[order]] = data[order]
        return Vector(found.form, best, known, found.scale)

    return choose


def _list_count(vectors: _Vectors, call: Call) -> Vector | None:
    lists = vectors.lists(call.operands[0])
    if lists is None:
        return None
    elements = lists.flatten()
    missing = ~np.asarray(elements.is_valid())
    if pa.types.is_floating(elements.type):
        missing |= np.isnan(np.asarray(elements.fill_null(0.0)))
    rows = np.asarray(lists.value_parent_indices()).astype(np.int64)[~missing]
    return Vector(EXACT, np.bincount(rows, minlength=len(lists)).astype(np.int64), np.asarray(lists.is_valid()))


def _text_test(find: Callable[..., pa.Array]) -> Callable[[_Vectors, Call], Vector | None]:
    def compute(vectors: _Vectors, call: Call) -> Vector | None:
        value, wanted = vectors.of(call.operands[0]), call.operands[1]
        if value is None or value.form != TEXT or not isinstance(wanted, ConstantValue):
            return None
        if not isinstance(wanted.value, str):
            return None
        return Vector(BOOLEAN, np.asarray(find(value.data, wanted.value).fill_null(False)), value.known)

    return compute


def _ip_order(vectors: _Vectors, call: Call) -> Vector | None:
    value = vectors.of(call.operands[0])
    if value is None or value.form != TEXT:
        return None
    data, is_none = addresses_in_order(value.data)
    vectors.doubt(is_none)
    return Vector(TEXT, data, value.known & ~is_none)


def _words(vectors: _Vectors, call: Call) -> Vector | None:
    value = vectors.of(call.operands[0])
    if value is None or value.form != TEXT:
        return None
    encoded = value.data.dictionary_encode()
    texts = [words_text(text, call.detail) for text in encoded.dictionary.to_pylist()]
    return Vector(TEXT, pa.array(texts, pa.large_string()).take(encoded.indices), value.known)


def _joined(vectors: _Vectors, call: Call) -> Vector | None:
    operands = vectors.operands(call)
    if operands is None or any(vector.form != TEXT for vector in operands):
        return None
    nulls = "skip" if call.function == "concat" else "emit_null"
    empty = pa.scalar("", pa.large_string())
    data = pc.binary_join_element_wise(*(vector.data for vector in operands), empty, null_handling=nulls)
    return Vector(TEXT, data, np.asarray(data.is_valid()))


def _comparable(vectors: _Vectors, call: Call) -> Vector | None:
    value = vectors.of(call.operands[0])
    if value is None or value.form not in (TEXT, TIME):
        return None
    if value.form == TEXT:
        return value
    try:
        distinct, place = np.unique(np.where(value.known, value.data, 0), return_inverse=True)
        texts = pa.array([comparable_text(Time(time), call.detail) for time in distinct.tolist()], pa.large_string())
    except UndefinedError:
        return None
    return Vector(TEXT, texts.take(pa.array(place, mask=~value.known)), value.known)


def _untyped(vectors: _Vectors, call: Call) -> Vector | None:
    value = vectors.of(call.operands[0])
    if value is None:
        return None
    if value.form == TEXT:
        vectors.doubt(np.asarray(pc.starts_with(value.data, HIGHEST).fill_null(False)))
        return value
    known = np.where(value.known, value.data, np.zeros_like(value.data))
    distinct, place = np.unique(known, return_inverse=True)
    if value.form == TIME:
        operands: list[Any] = [Time(time) for time in distinct.tolist()]
    elif value.scale:
        operands = [Decimal(digits).scaleb(-value.scale) for digits in distinct.tolist()]
    else:
        operands = distinct.tolist()
    texts = pa.array([untyped_text(operand) for operand in operands], pa.large_string())
    return Vector(TEXT, texts.take(pa.array(place, mask=~value.known)), value.known)


# Times


def _of_time(
    kind: str, compute: Callable[[str, Any], Any], is_possible: Callable[[str], bool]
) -> Callable[[_Vectors, Call], Vector | None]:
    def derive_time(vectors: _Vectors, call: Call) -> Vector | None:
        value = vectors.of(call.operands[0])
        if value is None or value.form != TIME or not is_possible(call.detail):
            return None
        vectors.doubt(np.abs(value.data.astype(np.float64)) > _FAR)
        return Vector(kind, compute(call.detail, value.data), value.known)

    return derive_time


def _between(vectors: _Vectors, call: Call) -> Vector | None:
    operands = vectors.operands(call)
    if operands is None or any(vector.form != TIME for vector in operands):
        return None
    start, end = operands
    for vector in operands:
        vectors.doubt(np.abs(vector.data.astype(np.float64)) > _FAR / 2)
    count = boundaries if call.function == "date_diff" else whole_units
    return Vector(EXACT, count(call.detail, start.data, end.data), start.known & end.known)


def _elapsed(vectors: _Vectors, call: Call) -> Vector | None:
    return _between(vectors, Call("date_diff", call.operands, "microsecond"))


def _shift(vectors: _Vectors, call: Call) -> Vector | None:
    value = vectors.of(call.operands[0])
    if value is None or value.form != TIME:
        return None
    months, microseconds = interval_of(call.detail)
    if abs(months) > 12_000_000 or abs(microseconds) > _FAR / 4:
        return None
    vectors.doubt(np.abs(value.data.astype(np.float64)) > _FAR / 2)
    data = add_months(value.data, months, np.minimum) if months else value.data
    return Vector(TIME, data + microseconds, value.known)


# Conditions and choices


def _compare(vectors: _Vectors, call: Call) -> Vector | None:
    operands = vectors.operands(call)
    if operands is None:
        return None
    left, right = operands
    known = left.known & right.known
    a: Any
    b: Any
    if {left.form, right.form} == {EXACT, FLOAT}:
        for vector in operands:
            if vector.form == EXACT:
                # So short a decimal is the shortest one of its float, which is what the float means.
                limit = _SHORT if vector.scale else _EXACT_FLOAT
                vectors.doubt(known & (np.abs(vector.data) >= limit))
        a, b = vectors.floats(left), vectors.floats(right)
    elif left.form == right.form == EXACT:
        scale = max(left.scale, right.scale)
        a, b = vectors.scaled(left, scale), vectors.scaled(right, scale)
    elif left.form == right.form == TEXT:
        data = _ARROW_COMPARE[call.function](left.data, right.data)
        return Vector(BOOLEAN, np.asarray(data.fill_null(False)), known)
    elif left.form == right.form:
        a, b = left.data, right.data
    else:
        return Vector(BOOLEAN, np.zeros(len(left), bool), np.zeros(len(left), bool))
    return Vector(BOOLEAN, _COMPARE[call.function](a, b), known)


def _connect(decisive: bool) -> Callable[[_Vectors, Call], Vector | None]:
    def connect(vectors: _Vectors, call: Call) -> Vector | None:
        operands = vectors.operands(call)
        if operands is None or any(vector.form != BOOLEAN for vector in operands):
            return None
        decided = reduce(np.logical_or, [vector.known & (vector.data == decisive) for vector in operands])
        data = decided if decisive else ~decided
        return Vector(BOOLEAN, data, decided | _all_known(operands))

    return connect


def _not(vectors: _Vectors, call: Call) -> Vector | None:
    value = vectors.of(call.operands[0])
    return None if value is None or value.form != BOOLEAN else Vector(BOOLEAN, ~value.data, value.known)


def _is_null(vectors: _Vectors, call: Call) -> Vector | None:
    value = vectors.of(call.operands[0])
    return None if value is None else Vector(BOOLEAN, ~value.known, np.ones(len(value), bool))


def _is_truth(wanted: bool) -> Callable[[_Vectors, Call], Vector | None]:
    def compute(vectors: _Vectors, call: Call) -> Vector | None:
        value = vectors.of(call.operands[0])
        if value is None or value.form != BOOLEAN:
            return None
        return Vector(BOOLEAN, value.known & (value.data == wanted), np.ones(len(value), bool))

    return compute


def _chosen(where: Bools, then: Vector, otherwise: Vector) -> Vector:
    """Take one vector where a condition holds and another elsewhere; both are of one form and scale."""
    if then.form == TEXT:
        data = pc.if_else(pa.array(where), then.data, otherwise.data)
        return Vector(TEXT, data, np.asarray(data.is_valid()))
    return Vector(
        then.form,
        np.where(where, then.data, otherwise.data),
        np.where(where, then.known, otherwise.known),
        then.scale,
        then.is_date,
        then.loose or otherwise.loose,
    )


def _values(vectors: _Vectors, expressions: Sequence[Expression]) -> list[Vector] | None:
    """Return several values in one form; NULL among them takes the form of the others."""
    found = [None if each == ConstantValue(None) else vectors.of(each) for each in expressions]
    present = [vector for vector in found if vector is not None]
    missing = sum(each == ConstantValue(None) for each in expressions)
    if not present or len(present) + missing < len(expressions):
        return None
    if present[0].form == TIME and len({vector.is_date for vector in present}) > 1:
        return None
    like = vectors.alike(present)
    if like is None:
        return None
    nothing = np.zeros(len(like[0]), bool)
    waiting = iter(like)
    null = like[0]
    if null.form == TEXT:
        null = Vector(TEXT, pa.nulls(len(null), pa.large_string()), nothing)
    else:
        null = Vector(null.form, np.zeros_like(null.data), nothing, null.scale, null.is_date)
    return [null if vector is None else next(waiting) for vector in found]


def _coalesce(vectors: _Vectors, call: Call) -> Vector | None:
    values = _values(vectors, call.operands)
    if values is None:
        return None
    return reduce(lambda first, rest: _chosen(first.known, first, rest), values)


def _case(vectors: _Vectors, call: Call) -> Vector | None:
    *branches, otherwise = call.operands
    conditions = [vectors.of(condition) for condition in branches[::2]]
    values = _values(vectors, [*branches[1::2], otherwise])
    if values is None:
        return None
    result = values.pop()
    for condition in reversed(conditions):
        if condition is None or condition.form != BOOLEAN:
            return None
        result = _chosen(condition.known & condition.data, values.pop(), result)
    return result


def _null_if(vectors: _Vectors, call: Call) -> Vector | None:
    value = vectors.of(call.operands[0])
    equal = _compare(vectors, Call("=", call.operands))
    if value is None or equal is None:
        return None
    known = value.known & ~(equal.known & equal.data)
    if value.form == TEXT:
        data = pc.if_else(pa.array(known), value.data, pa.scalar(None, pa.large_string()))
        return Vector(TEXT, data, known)
    return Vector(value.form, value.data, known, value.scale, value.is_date, value.loose)


def _best(better: str) -> Callable[[_Vectors, Call], Vector | None]:
    def choose(vectors: _Vectors, call: Call) -> Vector | None:
        values = _values(vectors, call.operands)
        if values is None or values[0].form == TEXT:
            return None
        best = values[0]
        for value in values[1:]:
            is_better = value.known & (~best.known | _COMPARE[better](value.data, best.data))
            best = _chosen(is_better, value, best)
        return best

    return choose


_COMPARE: dict[str, Any] = {
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    "<>": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
}
_ARROW_COMPARE: dict[str, Any] = {
    "<": pc.less,
    "<=": pc.less_equal,
    "=": pc.equal,
    "<>": pc.not_equal,
    ">=": pc.greater_equal,
    ">": pc.greater,
}


def _signed_floor(values: Float64s) -> Float64s:
    return np.copysign(np.floor(values), values)


def _signed_ceil(values: Float64s) -> Float64s:
    return np.copysign(np.ceil(values), values)


_COMPUTE: dict[str, Callable[[_Vectors, Call], Vector | None]] = {
    **dict.fromkeys("+-*%", _arithmetic),
    "/": _divide,
    "//": _divide_whole,
    "negative": _of_number(lambda data, scale: (-data, scale), np.negative),
    "abs": _of_number(lambda data, scale: (np.abs(data), scale), np.abs),
    "floor": _of_number(lambda data, scale: (data // 10**scale, 0), _signed_floor),
    "ceil": _of_number(lambda data, scale: (-(-data // 10**scale), 0), _signed_ceil),
    "sign": _sign,
    "round": _round,
    "cast": _cast,
    "comparable": _comparable,
    "untyped": _untyped,
    "lower": _lower,
    "upper": _lower,
    "length": _length,
    "list_count": _list_count,
    "list_max": _best_element(">"),
    "list_min": _best_element("<"),
    **dict.fromkeys(
        ("trim", "ltrim", "rtrim", "substring", "replace", "split_part", "like", "ilike"), _text_by_definition
    ),
    "ip_order": _ip_order,
    WORDS: _words,
    "starts_with": _text_test(pc.starts_with),
    "ends_with": _text_test(pc.ends_with),
    "contains": _text_test(pc.match_substring),
    "concat": _joined,
    "||": _joined,
    "extract": _of_time(EXACT, lambda part, time: PARTS[part](time), PARTS.__contains__),
    "date_trunc": _of_time(TIME, truncated, bool),
    "date_diff": _between,
    "date_sub": _between,
    "elapsed": _elapsed,
    "shift": _shift,
    **dict.fromkeys(_COMPARE, _compare),
    "and": _connect(False),
    "or": _connect(True),
    "not": _not,
    "is_null": _is_null,
    "is_true": _is_truth(True),
    "is_false": _is_truth(False),
    "coalesce": _coalesce,
    "case": _case,
    "nullif": _null_if,
    "greatest": _best(">"),
    "least": _best("<"),
}
