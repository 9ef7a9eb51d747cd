"""Values of events as three integers that compare as the values do: kind, major, minor.

Two values of one kind compare as their pairs (major, minor). A number is the key of the nearest float and what an
integer is beyond it; a string is the label of the greatest string of the history that is not above it, and 1 if it is
above. Values of the exact lane, decimals and integers beyond 64 bits, have no such form: `is_exact` says so.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.arrays import Int64s, UInt8s
from tocsin.model.events import EventBatch
from tocsin.model.readable import Values, decoded, moments, present, python_values
from tocsin.predicates.history.encode import Encoder, Lane, float_key, float_keys
from tocsin.predicates.history.kernels import OldValues, keys_at

_BEFORE_ALL = -(1 << 63)
_INTEGER, _FLOAT, _STRING, _EXACT = int(Lane.INTEGER), int(Lane.FLOAT), int(Lane.STRING), int(Lane.EXACT)


class Comparables(NamedTuple):
    """Values by place; the kind of a number is the lane of integers, that of all others their lane."""

    kinds: UInt8s
    majors: Int64s
    minors: Int64s

    def at(self, place: int) -> tuple[int, int, int]:
        """Return the value at a place."""
        return int(self.kinds[place]), int(self.majors[place]), int(self.minors[place])


def of_lanes(lanes: UInt8s, payloads: Int64s, encoder: Encoder) -> tuple[Comparables, Int64s]:
    """Return old values in comparable form, and their keys."""
    old = OldValues(payloads, lanes, encoder.strings.labels, encoder.exacts.labels)
    keys = keys_at(np.arange(lanes.size, dtype=np.int32), old)
    integers = lanes == _INTEGER
    majors, minors = keys.copy(), np.zeros(keys.size, np.int64)
    if integers.any():
        majors[integers], minors[integers] = _of_integers(keys[integers])
    return Comparables(np.where(lanes == _FLOAT, np.uint8(_INTEGER), lanes), majors, minors), keys


def of_lane(lane: int, payload: int, encoder: Encoder) -> tuple[int, int, int, int]:
    """Return the key of an old value, and its kind, major and minor.

    >>> of_lane(Lane.FLOAT, 0, Encoder()), of_lane(Lane.INTEGER, 0, Encoder())
    ((0, 3, 0, 0), (0, 3, 0, 0))
    """
    if lane == _INTEGER:
        return _of_integer(payload)
    if lane == _STRING:
        payload = int(encoder.strings.labels[payload])
    elif lane == _EXACT:
        payload = int(encoder.exacts.labels[payload])
    return payload, _INTEGER if lane == _FLOAT else lane, payload, 0


@lru_cache(maxsize=4096)
def _of_integer(integer: int) -> tuple[int, int, int, int]:
    near = float(integer)
    return integer, _INTEGER, float_key(near), integer - int(near)


class EncodedEvent:
    """The values of a single event that will be history: without arrays of one value, and each compared but once.

    >>> event = EncodedEvent(EventBatch([{"price": 7}]), ["price", "author"], Encoder())
    >>> event.values["author"], event.comparable("price")[:3]
    ((<Lane.NULL: 0>, 0), (3, 7, 3))
    """

    def __init__(self, batch: EventBatch, attributes: Iterable[str], encoder: Encoder) -> None:
        self._encoder = encoder
        self.values = {name: encoder.encode(batch.value(name)) for name in attributes}
        """Lane and payload by attribute."""
        self._comparable: dict[str, tuple[int, int, int, int, int]] = {}

    def comparable(self, attribute: str) -> tuple[int, int, int, int, int]:
        """Return lane, key, kind, major and minor of a value; those of a text until its dictionary is relabelled."""
        found = self._comparable.get(attribute)
        if found is None:
            lane, payload = self.values[attribute]
            of_value = _of_integer(payload) if lane is Lane.INTEGER else of_lane(int(lane), payload, self._encoder)
            found = self._comparable[attribute] = (int(lane), *of_value)
        return found


def of_new(values: Values | None, count: int, encoder: Encoder) -> Comparables:
    """Return the values of new events in comparable form; the history's dictionaries stay as they are."""
    if values is None:
        return Comparables(np.zeros(count, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64))
    array = None if isinstance(values, list) else decoded(values)
    is_plain = array is not None and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type))
    if array is not None and is_plain and array.type != pa.uint64():
        return _of_array(array)
    if array is not None and (pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)):
        there = present(array)
        micros, beyond = moments(array)
        kinds = np.where(there, np.uint8(Lane.TIME), np.uint8(Lane.NULL))
        return Comparables(kinds, np.where(there, micros, 0), np.where(there, beyond, 0))
    known: dict[object, tuple[int, int, int]] = {}
    found = np.zeros((3, count), np.int64)
    for row, value in enumerate(python_values(values)):
        if isinstance(value, str):
            one = known.get(value)
            if one is None:
                one = known[value] = _of_text(value, encoder)
        else:
            one = _of_value(value, encoder)
        found[:, row] = one
    return Comparables(found[0].astype(np.uint8), found[1], found[2])


def is_exact(values: Comparables) -> bool:
    """Tell whether some value has no comparable form."""
    return bool((values.kinds == _EXACT).any())


def _of_array(array: pa.Array) -> Comparables:
    there = present(array)
    kinds = np.where(there, np.uint8(Lane.INTEGER), np.uint8(Lane.NULL))
    numbers = np.asarray(array.fill_null(0))
    if pa.types.is_integer(array.type):
        majors, minors = _of_integers(numbers.astype(np.int64))
    else:
        majors, minors = float_keys(np.where(there, numbers, 0.0).astype(np.float64)), np.zeros(len(array), np.int64)
    return Comparables(kinds, np.where(there, majors, 0), np.where(there, minors, 0))


def _of_integers(integers: Int64s) -> tuple[Int64s, Int64s]:
    near = integers.astype(np.float64)
    # The nearest float may be 2**63, which wraps to -2**63, and the difference wraps back.
    whole = np.where(near < 2.0**63, near, -(2.0**63)).astype(np.int64)
    return float_keys(near), integers - whole


def _of_value(value: object, encoder: Encoder) -> tuple[int, int, int]:
    # Texts are not here: they would get a code.
    return of_lane(*encoder.encode(value), encoder)[1:]


def _of_text(text: str, encoder: Encoder) -> tuple[int, int, int]:
    label, equal = encoder.strings.floor(text)
    return _STRING, _BEFORE_ALL if label is None else label, int(not equal)
