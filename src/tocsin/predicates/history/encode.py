"""Encode old values in 9 bytes, and conditions on them as intervals.

A value is a *lane* (one byte) and a 64-bit payload. Values of one kind may lie in several lanes: an integer of 64 bits
and a float are kept as they are; decimals and longer integers, like strings, are codes of a dictionary. In each lane
the keys are ordered as the values are, so that `op value` is one interval of keys per lane, found from the greatest
key that is not above the value. The comparison is exact, as `tocsin.model.values` defines it.
"""

import datetime as dt
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Bools, Float64s, Int64s, UInt8s
from tocsin.model.condition import Op
from tocsin.model.predicate import Range
from tocsin.model.readable import Values, decoded, moments, present, python_values
from tocsin.model.values import Kind, Moment, Number, is_null, kind_of, microseconds
from tocsin.predicates.history.column import OldColumn
from tocsin.predicates.history.dictionary import OrderedDictionary
from tocsin.predicates.history.kernels import EXACT, LANES, STRING, Bounds, OldValues

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1

Encoded = tuple[UInt8s, Int64s]
"""The lane and the payload of each value of a column."""


class Lane(IntEnum):
    """The representation of a value. OTHER is a value that does not compare with any, such as a list or bytes."""

    NULL = 0
    OTHER = 1
    BOOLEAN = 2
    INTEGER = 3
    FLOAT = 4
    EXACT = EXACT
    STRING = STRING
    TIME = 7


_INTEGER, _STRING = Lane.INTEGER, Lane.STRING
LANES_OF: dict[Kind, tuple[Lane, ...]] = {
    Kind.BOOLEAN: (Lane.BOOLEAN,),
    Kind.NUMBER: (Lane.INTEGER, Lane.FLOAT, Lane.EXACT),
    Kind.STRING: (Lane.STRING,),
    Kind.TIME: (Lane.TIME,),
}


def is_empty(bounds: Bounds) -> bool:
    """Tell whether no value at all satisfies the condition."""
    return not bounds.outside.any() and bool((bounds.low > bounds.high).all())


def nothing() -> Bounds:
    """Return the condition that no value satisfies."""
    return Bounds(np.ones(LANES, dtype=np.int64), np.zeros(LANES, dtype=np.int64), np.zeros(LANES, dtype=np.bool_))


def _set(bounds: Bounds, op: Op, lane: Lane, floor: int | None, equal: bool) -> None:
    """Let `bounds` accept the keys of a lane that are `op` a value, given its floor as `Encoder._floor` returns it."""
    low, high = 1, 0
    if floor is None:
        if op in (Op.GT, Op.GE):
            low, high = _LEAST, _GREATEST
    elif op in (Op.EQ, Op.NE):
        if equal:
            low, high = floor, floor
    elif op in (Op.LT, Op.LE):
        if op is Op.LE or not equal:
            low, high = _LEAST, floor
        elif floor > _LEAST:
            low, high = _LEAST, floor - 1
    elif op is Op.GE and equal:
        low, high = floor, _GREATEST
    elif floor < _GREATEST:
        low, high = floor + 1, _GREATEST
    bounds.low[lane], bounds.high[lane], bounds.outside[lane] = low, high, op is Op.NE


def intersection(left: Bounds, right: Bounds) -> Bounds:
    """Return what satisfies both conditions: the second has intervals only, the first intervals or whole lanes."""
    whole = left.outside & (left.low > left.high)
    low = np.where(whole, right.low, np.maximum(left.low, right.low))
    high = np.where(whole, right.high, np.minimum(left.high, right.high))
    return Bounds(low, high, np.zeros_like(left.outside))


def in_lanes(lanes: tuple[Lane, ...]) -> Bounds:
    """Return the condition that the value is in one of the lanes."""
    bounds = nothing()
    bounds.outside[list(lanes)] = True
    return bounds


def not_comparable(kind: Kind | None) -> Bounds:
    """Return the condition that the old value does not compare with a value of `kind`; None compares with none."""
    inside = LANES_OF[kind] if kind is not None else ()
    return in_lanes(tuple(lane for lane in Lane if lane not in inside))


IS_NULL = in_lanes((Lane.NULL,))
IS_NOT_NULL = in_lanes(tuple(lane for lane in Lane if lane is not Lane.NULL))


def float_key(value: float) -> int:
    """Return an integer in the order of floats. Both zeros are 0."""
    if value == 0:
        return 0
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else bits ^ _GREATEST


def float_keys(values: Float64s) -> Int64s:
    """Return `float_key` of many values."""
    bits = (values + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, bits ^ _GREATEST)


def float_of(key: int) -> float:
    """Return the float of a key."""
    value: float = struct.unpack("<d", struct.pack("<q", key if key >= 0 else key ^ _GREATEST))[0]
    return value


@dataclass
class Encoder:
    """The two dictionaries of a history; encodes and decodes its values."""

    strings: OrderedDictionary = field(default_factory=OrderedDictionary)
    exacts: OrderedDictionary = field(default_factory=OrderedDictionary)

    @property
    def relabellings(self) -> int:
        """A counter that grows when intervals over dictionary labels that were made before have become wrong."""
        return self.strings.relabellings + self.exacts.relabellings

    def old(self, column: OldColumn) -> OldValues:
        """Return the values of a column in the form that kernels take."""
        return OldValues(column.payloads, column.lanes, self.strings.labels, self.exacts.labels)

    def encode(self, value: object) -> tuple[Lane, int]:
        """Return lane and payload of an event's value.

        >>> Encoder().encode(7), Encoder().encode("seven"), Encoder().encode(None)
        ((<Lane.INTEGER: 3>, 7), (<Lane.STRING: 6>, 0), (<Lane.NULL: 0>, 0))
        """
        if type(value) is int and _LEAST <= value <= _GREATEST:
            return _INTEGER, value
        if type(value) is str:
            return _STRING, self.strings.intern(value)
        kind = kind_of(value)
        if kind is Kind.NUMBER:
            return self._encode_number(value)  # type: ignore[arg-type]  # the kind says so
        if kind is Kind.STRING:
            return Lane.STRING, self.strings.intern(value)
        if kind is Kind.TIME:
            return Lane.TIME, microseconds(value)  # type: ignore[arg-type]  # the kind says so
        if kind is Kind.BOOLEAN:
            return Lane.BOOLEAN, int(value is True)
        return (Lane.NULL if is_null(value) else Lane.OTHER), 0

    def _encode_number(self, value: int | float | Decimal) -> tuple[Lane, int]:
        if isinstance(value, float):
            return Lane.FLOAT, float_key(value)
        if isinstance(value, Decimal) and value.is_infinite():
            return Lane.FLOAT, float_key(float(value))
        if _LEAST <= value <= _GREATEST and (isinstance(value, int) or value == value.to_integral_value()):
            return Lane.INTEGER, int(value)
        return Lane.EXACT, self.exacts.intern(value)

    def recode(self, lanes: UInt8s, payloads: Int64s, source: "Encoder") -> Int64s:
        """Replace the codes of `source` in payloads by codes of this encoder."""
        recoded = payloads.copy()
        for lane, old, new in ((Lane.STRING, source.strings, self.strings), (Lane.EXACT, source.exacts, self.exacts)):
            coded = lanes == lane
            distinct, inverse = np.unique(payloads[coded], return_inverse=True)
            recoded[coded] = new.intern_all(old.values[code] for code in distinct)[inverse]
        return recoded

    def condition(self, op: Op, value: object) -> Bounds:
        """Return the condition `old op value`, for the dictionaries as they are now."""
        kind = kind_of(value)
        if kind is None:
            return nothing()
        bounds = nothing()
        exact = comparable(value)
        for lane in LANES_OF[kind]:
            own = lane is Lane.FLOAT and isinstance(value, float)
            floor, equal = (float_key(value), True) if own else self._floor(lane, exact)  # type: ignore[arg-type]  # own
            _set(bounds, op, lane, floor, equal)
        return bounds

    def range_condition(self, kind: Kind, wanted: Range) -> Bounds:
        """Return the condition that `old` is of this kind and in the range."""
        bounds = in_lanes(LANES_OF[kind])
        for end, op in (
            (wanted.low, Op.GE if wanted.low_closed else Op.GT),
            (wanted.high, Op.LE if wanted.high_closed else Op.LT),
        ):
            if end is not None:
                half = nothing()
                for lane in LANES_OF[kind]:
                    _set(half, op, lane, *self._floor(lane, comparable(end)))
                bounds = intersection(bounds, half)
        return bounds

    def intern(self, constant: Any) -> None:
        """Give a constant a code if its kind has codes: its conditions are then valid until a relabelling."""
        if isinstance(constant, str):
            self.strings.intern(constant)
        elif not isinstance(constant, bool):
            self.exacts.intern(constant)

    def _floor(self, lane: Lane, value: Any) -> tuple[int | None, bool]:
        """Return the greatest key of the lane that is not above the value, None if all are; and whether it is equal."""
        if lane is Lane.STRING:
            return self.strings.floor(value)
        if lane is Lane.EXACT:
            return self.exacts.floor(value)
        if lane is Lane.FLOAT:
            return _float_floor(value)
        if lane is Lane.INTEGER:
            return _integer_floor(value)
        return int(value), True

    def decode(self, lane: int, payload: int) -> object:
        """Return the old value: times in UTC, far ones as a Moment; `...` stands for a value that does not compare."""
        return _DECODERS[Lane(lane)](self, payload)


def comparable(value: object) -> Any:
    """Return a value or constant in the form that compares with all others of its kind."""
    if isinstance(value, Number):
        return value.exact
    if isinstance(value, float):
        return Number(value).exact
    return microseconds(value) if isinstance(value, (dt.date, Moment)) else value


def _float_floor(value: int | Decimal) -> tuple[int, bool]:
    try:
        near = float(value)
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    if comparable(near) > value:
        near = math.nextafter(near, -math.inf)
    return float_key(near), bool(comparable(near) == value)


def _integer_floor(value: int | Decimal) -> tuple[int | None, bool]:
    if value > _GREATEST:
        return _GREATEST, False
    if value < _LEAST:
        return None, False
    floor = math.floor(value)
    return floor, floor == value


def _time(_: Encoder, payload: int) -> object:
    try:
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=payload)
    except OverflowError:
        return Moment(payload)


_DECODERS: dict[Lane, Callable[[Encoder, int], object]] = {
    Lane.NULL: lambda _, payload: None,  # noqa: ARG005  # one signature for all lanes
    Lane.OTHER: lambda _, payload: ...,  # noqa: ARG005  # one signature for all lanes
    Lane.BOOLEAN: lambda _, payload: bool(payload),
    Lane.INTEGER: lambda _, payload: payload,
    Lane.FLOAT: lambda _, payload: float_of(payload),
    Lane.EXACT: lambda encoder, payload: encoder.exacts.values[payload],
    Lane.STRING: lambda encoder, payload: encoder.strings.values[payload],
    Lane.TIME: _time,
}


def encode_column(column: Values, encoder: Encoder) -> Encoded:
    """Encode a column of events, as a whole where its type allows it; the result is that of `encoder.encode`."""
    array = None if isinstance(column, list) else decoded(column)
    if array is None or array.type == pa.uint64() or pa.types.is_decimal(array.type):
        encoded = [encoder.encode(value) for value in python_values(column)]
        lanes = np.fromiter((lane for lane, _ in encoded), dtype=np.uint8, count=len(encoded))
        return lanes, np.fromiter((payload for _, payload in encoded), dtype=np.int64, count=len(encoded))
    kind, there = array.type, present(array)
    if pa.types.is_boolean(kind):
        return _filled(Lane.BOOLEAN, there, _numbers(array, False).astype(np.int64))
    if pa.types.is_integer(kind):
        return _filled(Lane.INTEGER, there, _numbers(array, 0).astype(np.int64))
    if pa.types.is_floating(kind):
        return _filled(Lane.FLOAT, there, float_keys(_numbers(array, 0.0).astype(np.float64)))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        distinct = array.dictionary_encode()
        codes = encoder.strings.intern_all(distinct.dictionary.to_pylist())
        if codes.size == 0:
            codes = np.zeros(1, dtype=np.int64)
        return _filled(Lane.STRING, there, codes[_numbers(distinct.indices, 0)])
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _filled(Lane.TIME, there, moments(array)[0])
    return _filled(Lane.OTHER, there, np.zeros(len(array), np.int64))


def _numbers(column: pa.Array, missing: bool | int | float) -> npt.NDArray[np.generic]:
    numbers: npt.NDArray[np.generic] = pc.fill_null(column, missing).to_numpy(zero_copy_only=False)
    return numbers


def _filled(lane: Lane, present: Bools, payloads: Int64s) -> Encoded:
    return np.where(present, np.uint8(lane), np.uint8(Lane.NULL)), np.where(present, payloads, np.int64(0))
