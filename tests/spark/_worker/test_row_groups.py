"""What a worker reads of Parquet files, without Spark: the named columns, as Spark's types, in even batches."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tocsin.errors import EventError
from tocsin.spark._worker.row_groups import ParquetColumn, RowGroups, read_row_groups

KEY = ParquetColumn(("key",), pa.int64())


def write(path: Path, table: pa.Table, **options: object) -> str:
    parquet.write_table(table, path, **options)
    return path.as_uri()


def test_row_groups_come_in_batches_of_about_the_same_size(tmp_path: Path) -> None:
    uri = write(tmp_path / "a b%20ü.parquet", pa.table({"key": range(100), "other": ["x"] * 100}), row_group_size=10)
    piece = RowGroups(uri, (1, 2, 5))
    batches = list(read_row_groups([piece], [KEY], events=25))
    assert [batch.num_rows for batch in batches] == [15, 15]
    assert [key for batch in batches for key in batch.column("0").to_pylist()] == [*range(10, 30), *range(50, 60)]
    assert max(batch.num_rows for batch in read_row_groups([piece], [KEY], nbytes=100)) < 10
    assert list(read_row_groups([RowGroups(uri, ())], [KEY])) == []


def test_text_that_is_not_utf_8_passes_as_it_is(tmp_path: Path) -> None:
    """Spark reads it so, and one value shall not fail the task again and again."""
    values = [b"caf\xe9", b"caf\xc3\xa9", None]
    binary = pa.array(values, pa.binary())
    for column in (binary, binary.view(pa.string()), binary.dictionary_encode()):
        uri = write(tmp_path / "x.parquet", pa.table({"key": [1, 2, 3], "name": column}))
        (batch,) = read_row_groups([RowGroups(uri, (0,))], [KEY, ParquetColumn(("name",), pa.string())])
        assert batch.column(1).type == pa.string()
        assert batch.column(1).view(pa.binary()).to_pylist() == values


def test_only_what_is_named_is_read_and_dots_lead_into_structs(tmp_path: Path) -> None:
    shops = pa.array([{"city": "Rome", "size": 1}, None, {"city": None, "size": 3}])
    table = pa.table({"key": [1, 2, 3], "shop": shops, "shop.city": ["dotted"] * 3, "a": [1] * 3})
    uri = write(tmp_path / "x.parquet", table)
    paths = [("shop", "city"), ("shop.city",), ("shop", "street"), ("a", "b"), ("nothing",)]
    (batch,) = read_row_groups([RowGroups(uri, (0,))], [KEY, *(ParquetColumn(path, pa.string()) for path in paths)])
    assert batch.to_pydict() == {
        "0": [1, 2, 3],
        "1": ["Rome", None, None],
        "2": ["dotted"] * 3,
        "3": [None] * 3,
        "4": [None] * 3,
        "5": [None] * 3,
    }
    assert batch.schema.types[1:] == [pa.string()] * 5


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (pa.array(["x", None, "x"]).dictionary_encode(), pa.string()),
        (pa.array(["x", None], pa.large_string()), pa.string()),
        (pa.array([1, None, 2**31], pa.uint32()), pa.int64()),
        (pa.array([5, None], pa.duration("ms")), pa.int64()),
        (pa.array([[1], None], pa.large_list(pa.int32())), pa.list_(pa.int32())),
        (pa.array([1_000, None], pa.timestamp("ms")), pa.timestamp("us", "UTC")),
    ],
)
def test_columns_have_the_types_that_spark_would_send(tmp_path: Path, values: pa.Array, type_: pa.DataType) -> None:
    uri = write(tmp_path / "x.parquet", pa.table({"key": range(len(values)), "a": values}))
    (batch,) = read_row_groups([RowGroups(uri, (0,))], [KEY, ParquetColumn(("a",), type_)])
    assert batch.column("1").type == type_
    assert batch.column("1").to_pylist() == values.cast(type_).to_pylist()


def test_a_file_that_has_changed_since_it_was_planned_for_is_named(tmp_path: Path) -> None:
    uri = write(tmp_path / "x.parquet", pa.table({"key": [1, None]}))
    with pytest.raises(EventError, match=r"x\.parquet has changed"):
        list(read_row_groups([RowGroups(uri, (0,))], [KEY], id_not_null=True))
    assert [batch.num_rows for batch in read_row_groups([RowGroups(uri, (0,))], [KEY])] == [2]


def test_times_of_old_files_are_points_in_time(tmp_path: Path) -> None:
    """INT96 counts nanoseconds, which end in 2262 as Arrow has them; the years beyond must survive."""
    times = pa.array([0, 10**16], pa.timestamp("us"))
    uri = write(tmp_path / "x.parquet", pa.table({"key": times}), use_deprecated_int96_timestamps=True)
    (batch,) = read_row_groups([RowGroups(uri, (0,))], [ParquetColumn(("key",), pa.timestamp("us", "UTC"))])
    assert batch.column("0").cast(pa.int64()).to_pylist() == [0, 10**16]
