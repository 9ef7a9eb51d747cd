"""One suite, every way to run: the answers of the matcher in process, of Spark and of DuckDB are the same."""

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from pyspark.testing import assertDataFrameEqual

import spark_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_batch_shards_history_and_stream_answer_as_the_matcher_in_process(
    spark: "SparkSession", tmp_path: Path
) -> None:
    expected = spark_cases.expected()
    assert len(expected["batch"]) > 200
    assert {name for _, name in expected["history"]} == {*spark_cases.WHERES, *spark_cases.LOOKING_BACK}
    assert spark_cases.on_spark(spark, tmp_path) == expected


def test_duckdb_agrees(spark: "SparkSession") -> None:
    columns = list(zip(*spark_cases.rows(), strict=True))
    events = pa.table(dict(zip(("key", "a", "b", "s"), map(pa.array, columns), strict=True)))
    judge = duckdb.connect()
    judge.register("events", events)
    answers = [
        (key, name)
        for name, where in spark_cases.WHERES.items()
        for (key,) in judge.execute(f"SELECT key FROM events WHERE {where}").fetchall()
    ]
    schema = "event long, subscription string"
    ours = spark.createDataFrame(spark_cases.in_process(spark_cases.WHERES), schema)
    assertDataFrameEqual(ours, spark.createDataFrame(answers, schema))
