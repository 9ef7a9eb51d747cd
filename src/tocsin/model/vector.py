"""Columns of values as expressions compute with them: from Arrow or Python and back.

A vector has one *form*: exact numbers as 64-bit integers with a common power of ten, floats, booleans, texts, or times
in microseconds. A column that is of none of them, such as one of values of several kinds, has no vector.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.arrays import Bools, Int64s
from tocsin.model.readable import Values, decoded, moments

EXACT, FLOAT, BOOLEAN, TEXT, TIME = "exact", "float", "boolean", "text", "time"
MAX_SCALE = 18
"""The most decimal places of an exact vector: 10**18 is the largest power of ten of 64 bits."""
SHORT_DIGITS = 15
"""Decimals of so many digits are compared as floats; see `predicates/ranges/domain.py`."""


@dataclass(slots=True)
class Vector:
    """The values of a column, or of an expression."""

    form: str
    data: Any
    """An array of NumPy, an Arrow array of large strings for texts; anything where a value is not known."""
    known: Bools
    """Where there is a value."""
    scale: int = 0
    """An exact number is its integer divided by this power of ten."""
    is_date: bool = False
    loose: bool = False
    """Whether some of the floats stand for integers: then sums and products must stay below 2**53."""

    def __len__(self) -> int:
        return self.known.size


def read_vector(values: Values | None, count: int, undecided: Bools) -> Vector | None:
    """Return a column as a vector; None if it has no form. Marks the rows whose values do not fit as `undecided`."""
    if values is None:
        return None
    if isinstance(values, list):
        arrow = _arrow_of(values)
        return None if arrow is None else read_vector(arrow, count, undecided)
    array, types = decoded(values), pa.types
    kind = array.type
    known = np.asarray(array.is_valid())
    if types.is_uint64(kind):
        data = np.asarray(array.fill_null(0))
        undecided |= known & (data > np.iinfo(np.int64).max)
        return Vector(EXACT, data.astype(np.int64), known)
    if types.is_integer(kind):
        return Vector(EXACT, np.asarray(array.fill_null(0)).astype(np.int64), known)
    if types.is_floating(kind):
        data = np.asarray(array.cast(pa.float64()).fill_null(0.0))
        return Vector(FLOAT, data, known & ~np.isnan(data))
    if types.is_decimal128(kind) and 0 <= kind.scale <= MAX_SCALE and len(array):
        words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
        undecided |= known & (words[:, 1] != words[:, 0] >> 63)
        return Vector(EXACT, np.where(known, words[:, 0], 0), known, kind.scale)
    if types.is_boolean(kind):
        return Vector(BOOLEAN, np.asarray(array.fill_null(False)), known)
    if types.is_string(kind) or types.is_large_string(kind):
        return Vector(TEXT, _from_zero(array.cast(pa.large_string())), known)
    if types.is_timestamp(kind) or types.is_date(kind):
        times, beyond = moments(array)
        undecided |= known & (beyond != 0)
        return Vector(TIME, times, known, is_date=bool(types.is_date(kind)))
    return None


def _from_zero(texts: pa.Array) -> pa.Array:
    """Return texts whose first byte is the first of their buffer: the cast of a slice may keep those before it.

    Arrow 26 then changes the case of other bytes: pc.ascii_lower and pc.ascii_upper read such texts wrongly.
    """
    offsets = texts.buffers()[1]
    is_at_zero = not len(texts) or np.frombuffer(offsets, np.int64)[texts.offset] == 0
    return texts if is_at_zero else pa.concat_arrays([texts])


_ARROW_TYPES: dict[type, Any] = {int: pa.int64(), float: pa.float64(), str: pa.large_string(), bool: pa.bool_()}
_ARROW_TYPES |= {dt.date: pa.date32(), dt.datetime: pa.timestamp("us")}


def _arrow_of(values: list[Any]) -> pa.Array | None:
    """Return Python values of one simple type as an Arrow array; None for all others."""
    types = set(map(type, values)) - {type(None)}
    if len(types) != 1:
        return None
    [kind] = types
    type_ = _ARROW_TYPES.get(kind)
    if kind is dt.datetime and any(value is not None and value.tzinfo is not None for value in values):
        return None
    try:
        return None if type_ is None else pa.array(values, type_)
    except (pa.ArrowException, OverflowError):
        return None


def constant_vector(value: Any, count: int) -> Vector | None:
    """Return a constant number or boolean, or a `Time`, for every row; None if it has no form."""
    known = np.ones(count, bool)
    if isinstance(value, bool):
        return Vector(BOOLEAN, np.full(count, value), known)
    if isinstance(value, float):
        return Vector(FLOAT, np.full(count, value), known)
    if isinstance(value, str):
        return Vector(TEXT, pa.repeat(pa.scalar(value, pa.large_string()), count), known)
    unscaled, scale = value, 0
    if not isinstance(value, int):
        _, digits, exponent = value.as_tuple()
        scale = max(-exponent, 0)
        unscaled = int(value.scaleb(scale)) if len(digits) + abs(exponent) < MAX_SCALE else None
    if unscaled is None or abs(unscaled) >= 1 << 63:
        return None
    return Vector(EXACT, np.full(count, unscaled, np.int64), known, scale)


def arrow_of(vector: Vector) -> pa.Array:
    """Return a vector as an Arrow array."""
    unknown = ~vector.known
    if vector.form == TEXT:
        text: pa.Array = vector.data
        return text
    if vector.form == TIME:
        return pa.array(vector.data, pa.int64(), mask=unknown).cast(pa.timestamp("us"))
    if vector.form == EXACT and vector.scale:
        return _decimals(vector.data, unknown, vector.scale)
    return pa.array(vector.data, mask=unknown)


def _decimals(unscaled: Int64s, unknown: Bools, scale: int) -> pa.Array:
    words: npt.NDArray[np.int64] = np.empty((unscaled.size, 2), np.int64)
    words[:, 0] = np.where(unknown, 0, unscaled)
    words[:, 1] = words[:, 0] >> 63
    is_short = np.abs(words[:, 0]).max(initial=0) < 10**SHORT_DIGITS
    type_ = pa.decimal128(max(SHORT_DIGITS if is_short else 19, scale), scale)
    validity = pa.array(~unknown).buffers()[1]
    return pa.Array.from_buffers(type_, unscaled.size, [validity, pa.py_buffer(words.tobytes())])
