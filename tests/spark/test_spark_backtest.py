"""Back-tests on Spark equal those in process, of rows and of files, with an order and without."""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spark_cases
from tocsin import Matcher, backtest
from tocsin import spark as tocsin_spark
from tocsin.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEFORE = spark_cases.WHERES
AFTER = {**BEFORE, "in": "a IN (3, 5) OR s = 'Abe'", "range 6": "b < 6.5 AND a >= 6 AND a <= 13", "new": "a = 66"} | {
    "null": "s IS NULL AND b > 20"
}
del AFTER["not"]
SCHEMA = f"{spark_cases.SCHEMA}, at timestamp"


def rows() -> list[tuple[object, ...]]:
    first = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
    return [(*row, first + dt.timedelta(hours=number)) for number, row in enumerate(spark_cases.rows())]


def table() -> pa.Table:
    names = [field.split()[0] for field in SCHEMA.split(", ")]
    return pa.table([pa.array(column) for column in zip(*rows(), strict=True)], names=names)


def side(spark: "SparkSession", wheres: dict[str, str]) -> "DataFrame":
    return spark.createDataFrame(list(wheres.items()), "id string, where string")


def collected(changes: "DataFrame") -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in changes.collect())


def test_rows_and_files_equal_a_back_test_in_process(spark: "SparkSession", tmp_path: Path) -> None:
    events = spark.createDataFrame(rows(), SCHEMA).repartition(3)
    events.sortWithinPartitions("a").write.option("parquet.block.size", 1024).parquet(str(tmp_path / "events"))
    Matcher.from_table(spark_cases.table(AFTER)).save(tmp_path / "after")
    expected = backtest(table(), spark_cases.table(BEFORE), spark_cases.table(AFTER), id="key", time="at")
    assert {row["change"] for row in expected.changes.to_pylist()} == {"gained", "lost"}
    assert expected.subscriptions == 4, "the range is written otherwise, and is the same"
    wanted = sorted(tuple(row.values()) for row in expected.changes.to_pylist())
    for source in (events, tmp_path / "events"):
        found = tocsin_spark.backtest(source, side(spark, BEFORE), tmp_path / "after", id="key", time="at")
        assert collected(found.changes) == wanted
        assert found.summary.toArrow().to_pylist() == expected.summary.to_pylist()
        assert str(found) == str(expected)
        assert found.svg() == expected.svg()
        assert found.subscriptions == 4
        assert (found.read is None) == (source is events)
    without = tocsin_spark.backtest(events, side(spark, BEFORE), side(spark, AFTER), id="key")
    assert without.changes.columns == ["event", "subscription", "change"]
    assert without.summary.columns == ["subscription", "day", "gained", "lost"]


def test_workers_skip_row_groups(spark: "SparkSession", tmp_path: Path) -> None:
    for part in range(4):
        spark.range(part * 100, part * 100 + 100).coalesce(1).write.mode("append").parquet(str(tmp_path / "events"))
    before, after = {"a": "id < 30"}, {"a": "id < 32"}
    found = tocsin_spark.backtest(tmp_path / "events", side(spark, before), side(spark, after), id="id")
    assert collected(found.changes) == [(30, "a", "gained"), (31, "a", "gained")]
    assert found.read is not None
    assert (found.read.events, found.read.row_groups_read, found.read.row_groups_skipped) == (400, 1, 3)
    assert 0 < found.read.bytes_read < found.read.bytes_skipped
    nothing = tocsin_spark.backtest(tmp_path / "events", side(spark, before), side(spark, before), id="id")
    assert (nothing.changes.count(), nothing.subscriptions, str(nothing)) == (0, 0, "no match is gained or lost")


def test_subscriptions_that_look_back(spark: "SparkSession") -> None:
    before = {**BEFORE, "record": "a > ALL (SELECT a FROM history)"}
    after = {**AFTER, "record": "a >= ALL (SELECT a FROM history)", "repeated": spark_cases.HISTORY["repeated"]}
    events = spark.createDataFrame(rows(), SCHEMA)
    expected = backtest(table(), spark_cases.table(before), spark_cases.table(after), id="key", time="at")
    found = tocsin_spark.backtest(
        events, side(spark, before), side(spark, after), id="key", time="at", order="key", partitions=3
    )
    assert collected(found.changes) == sorted(tuple(row.values()) for row in expected.changes.to_pylist())
    with pytest.raises(OptionError, match="looks back"):
        tocsin_spark.backtest(events, side(spark, before), side(spark, after), id="key")
