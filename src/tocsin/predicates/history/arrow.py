"""Arrow columns as lanes and payloads, whole columns at a time where the type allows."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.predicates.history.encode import Encoder, Lane, float_keys

Encoded = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def find_column(table: pa.Table, attribute: str) -> "pa.ChunkedArray | None":
    """The column of an attribute, None if there is none: the one of that name, or the nested one a dot leads to."""
    if attribute in table.column_names:
        return table.column(attribute)
    head, dot, rest = attribute.partition(".")
    if not dot or head not in table.column_names:
        return None
    struct = table.column(head)
    if not pa.types.is_struct(struct.type):
        return None
    chunks = [pa.Table.from_arrays(chunk.flatten(), names=chunk.type.names) for chunk in struct.chunks]
    fields = pa.concat_tables(chunks) if chunks else pa.table({})
    return find_column(fields, rest)


def encode_column(column: "pa.ChunkedArray | pa.Array", encoder: Encoder) -> Encoded:
    """Lanes and payloads of an Arrow column: the same as of its Python values, one by one."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    present = _present(column)
    if pa.types.is_boolean(kind):
        return _filled(Lane.BOOLEAN, present, _numbers(column, False).astype(np.int64))
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return _filled(Lane.INTEGER, present, _numbers(column, 0).astype(np.int64))
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        values = _numbers(column, 0.0).astype(np.float64)
        return _filled(Lane.FLOAT, present & ~np.isnan(values), float_keys(values))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        distinct = column.dictionary_encode()
        codes = encoder.strings.intern_all(distinct.dictionary.to_pylist())
        if codes.size == 0:
            codes = np.zeros(1, dtype=np.int64)
        return _filled(Lane.STRING, present, codes[_numbers(distinct.indices, 0)])
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _filled(Lane.TIME, present, _microseconds(column))
    encoded = [encoder.encode(value) for value in column.to_pylist()]
    lanes = np.fromiter((lane for lane, _ in encoded), dtype=np.uint8, count=len(encoded))
    return lanes, np.fromiter((payload for _, payload in encoded), dtype=np.int64, count=len(encoded))


def _present(column: pa.Array) -> npt.NDArray[np.bool_]:
    present: npt.NDArray[np.bool_] = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), dtype=np.bool_)
    return present


def _numbers(column: pa.Array, missing: bool | int | float) -> npt.NDArray[np.generic]:
    numbers: npt.NDArray[np.generic] = pc.fill_null(column, missing).to_numpy(zero_copy_only=False)
    return numbers


def _filled(lane: Lane, present: npt.NDArray[np.bool_], payloads: npt.NDArray[np.int64]) -> Encoded:
    return np.where(present, np.uint8(lane), np.uint8(Lane.NULL)), np.where(present, payloads, np.int64(0))


def _microseconds(column: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"))
    ticks = _numbers(column.cast(pa.int64()), 0).astype(np.int64)
    if column.type.unit == "ns":
        return ticks // 1000
    return ticks * {"s": 1_000_000, "ms": 1_000, "us": 1}[column.type.unit]
