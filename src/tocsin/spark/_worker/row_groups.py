"""Read row groups of Parquet files in a Python worker. This module does not import Spark."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from tocsin.errors import EventError
from tocsin.spark._worker.batches import BYTES, EVENTS


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a file."""

    uri: str
    groups: tuple[int, ...]


@dataclass(frozen=True)
class ParquetColumn:
    """A column to read: its path through structs, and the type that Spark would send."""

    steps: tuple[str, ...]
    type: pa.DataType


def open_file(uri: str) -> pq.ParquetFile:
    """Open a Parquet file by its URI; the scheme s3a of Spark is s3 in Arrow."""
    filesystem, path = pa_fs.FileSystem.from_uri(uri.replace("s3a://", "s3://", 1))
    is_local = isinstance(filesystem, pa_fs.LocalFileSystem)
    # Spark has microseconds, also for INT96; remote files are fetched in few large reads.
    return pq.ParquetFile(path, filesystem=filesystem, coerce_int96_timestamp_unit="us", pre_buffer=not is_local)


def read_row_groups(
    pieces: Iterable[RowGroups],
    attributes: Sequence[ParquetColumn],
    id_not_null: bool = False,
    events: int = EVENTS,
    nbytes: int = BYTES,
) -> Iterator[pa.RecordBatch]:
    """Read the row groups in batches of about the same size, with a column for each attribute, named by its number.

    With `id_not_null` a NULL in the first column raises: the file has changed since it was planned.
    """
    columns = sorted({".".join(attribute.steps) for attribute in attributes})
    for piece in pieces:
        with open_file(piece.uri) as file:
            groups = [file.metadata.row_group(group) for group in piece.groups]
            rows = sum(group.num_rows for group in groups)
            parts = max(math.ceil(rows / events), math.ceil(sum(group.total_byte_size for group in groups) / nbytes), 1)
            size = max(1, math.ceil(rows / parts))
            for batch in file.iter_batches(size, row_groups=list(piece.groups), columns=columns, use_threads=False):
                arranged = arrange(batch, attributes)
                if id_not_null and arranged.column(0).null_count:
                    raise EventError(f"{piece.uri} has changed during the job", "Call match anew")
                yield arranged


def arrange(batch: pa.RecordBatch, attributes: Sequence[ParquetColumn]) -> pa.RecordBatch:
    """Return a column for each attribute, of its type; NULL if the file does not have it."""
    columns = [_column(batch, attribute) for attribute in attributes]
    return pa.RecordBatch.from_arrays(columns, [str(number) for number in range(len(columns))])


def _column(batch: pa.RecordBatch, attribute: ParquetColumn) -> pa.Array:
    first, *rest = attribute.steps
    if first not in batch.schema.names:
        return pa.nulls(batch.num_rows, attribute.type)
    column = batch.column(first)
    for step in rest:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(step) < 0:
            return pa.nulls(batch.num_rows, attribute.type)
        column = pc.struct_field(column, step)
    if column.type == attribute.type:
        return column
    # Spark passes text that is not UTF-8 on as it is, so the task must not fail here.
    return column.cast(options=pc.CastOptions(attribute.type, allow_invalid_utf8=True))
