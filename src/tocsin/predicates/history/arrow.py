"""Columns of events as lanes and payloads, whole columns at a time where the type allows."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.readable import Values, decoded, moments, present, python_values
from tocsin.predicates.history.encode import Encoder, Lane, float_keys

Encoded = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def encode_column(column: Values, encoder: Encoder) -> Encoded:
    """Lanes and payloads of a column of events: the same as of its Python values, one by one."""
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


def _filled(lane: Lane, present: npt.NDArray[np.bool_], payloads: npt.NDArray[np.int64]) -> Encoded:
    return np.where(present, np.uint8(lane), np.uint8(Lane.NULL)), np.where(present, payloads, np.int64(0))
