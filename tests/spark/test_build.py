"""An index built by the executors: the same answers, nothing left behind, one writer at a time."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tocsin import Analyzer, Limits
from tocsin import spark as tocsin_spark
from tocsin.errors import OptionError, StorageError, TenantLimitError
from tocsin.matcher import Matcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "id string, where string, score double, tags map<string,string>"


def test_executors_build_segments_and_the_driver_commits_them(spark: "SparkSession", tmp_path: Path) -> None:
    rows = [(f"s{n}", f"a BETWEEN {n} AND {n + 3}", float(n), {"parity": str(n % 2)}) for n in range(50)]
    bad = [("broken", "a >", 1.0, None), ("unknown", "frobnicate(a)", 1.0, None)]
    subscriptions = spark.createDataFrame([*rows, *bad], COLUMNS)
    index = tocsin_spark.build(subscriptions, tmp_path / "index", segments=3)
    assert {row["subscription"] for row in index.rejected.collect()} == {"broken", "unknown"}
    assert all("Write" in row["reason"] or row["reason"].count(". ") for row in index.rejected.collect())
    matcher = Matcher.open(index.path)
    assert (len(matcher), len(matcher.stats().segments)) == (50, 3)
    assert matcher.match({"a": 10}).ids == ["s10", "s7", "s8", "s9"]
    assert matcher.match({"a": 10}, tags={"parity": "0"}).scores == [10.0, 8.0]
    names = {path.name.partition("-")[0] for path in index.path.iterdir()}
    assert names == {"segment", "snapshot", "write.lock"}


def test_what_is_remembered_is_stored_and_checked(spark: "SparkSession", tmp_path: Path) -> None:
    rows = [("kept", "a > ALL (SELECT a FROM history)"), ("lost", "b > ALL (SELECT b FROM history)")]
    index = tocsin_spark.build(spark.createDataFrame(rows, "id string, where string"), tmp_path, history=["a"])
    assert ["history does not keep b" in row["reason"] for row in index.rejected.collect()] == [True]
    with Matcher.open(index.path) as matcher:
        assert matcher.publish({"a": 1, "b": 2}).ids == ["kept"]
        assert list(matcher.history.events()) == [{"a": 1}]


@pytest.mark.parametrize("in_executors", [False, True])
def test_text_that_is_not_utf_8_does_not_sink_the_others(
    spark: "SparkSession", tmp_path: Path, in_executors: bool
) -> None:
    texts = [("good", b"a > 0"), ("cafe", b"a = 'caf\xe9'")]
    frame = spark.createDataFrame(texts, "id string, where binary").selectExpr("id", "CAST(where AS string) AS where")
    index = tocsin_spark.build(frame, tmp_path if in_executors else None)
    assert [row["subscription"] for row in index.rejected.collect()] == ["cafe"]
    assert list(Matcher.open(index.path)) == ["good"]


def test_a_tenant_has_the_limits_of_all_segments_together(spark: "SparkSession", tmp_path: Path) -> None:
    rows = [(f"s{n}", f"a > {n}", 1.0, {"tenant": "acme"} if n < 6 else None) for n in range(12)]
    subscriptions = spark.createDataFrame(rows, COLUMNS)
    with pytest.raises(TenantLimitError, match=r"tenant 'acme' would have 6 subscriptions.*Limits\(subscriptions="):
        tocsin_spark.build(subscriptions, tmp_path, segments=3, limits=Limits(subscriptions=5))
    assert {path.name for path in tmp_path.iterdir()} <= {"write.lock"}
    index = tocsin_spark.build(subscriptions, tmp_path, segments=3, limits=Limits(subscriptions=6))
    assert Matcher.open(index.path).tenant_usage("acme").subscriptions == 6


def test_analyzers_reach_the_workers(spark: "SparkSession", tmp_path: Path) -> None:
    rows = [("run", "has_words(body, 'running')"), ("car", "has_phrase(body, 'fast automobile')")]
    declared = {"body": Analyzer(stem="english", synonyms=[["car", "automobile"]])}
    subscriptions = spark.createDataFrame(rows, "id string, where string")
    index = tocsin_spark.build(subscriptions, tmp_path, analyzers=declared)
    events = spark.createDataFrame([(1, "He runs"), (2, "Fast CARS"), (3, "walks")], "event long, body string")
    found = tocsin_spark.match(events, index, id="event").collect()
    assert {(row["event"], row["subscription"]) for row in found} == {(1, "run"), (2, "car")}


def test_a_build_replaces_what_stood_there_and_the_last_of_an_id_counts(spark: "SparkSession", tmp_path: Path) -> None:
    first = spark.createDataFrame([("old", "a > 0")], "id string, where string")
    second = spark.createDataFrame([("x", "a > 0"), ("x", "a > 0"), ("y", "a > 1")], "id string, where string")
    tocsin_spark.build(first, tmp_path)
    tocsin_spark.build(second, tmp_path)
    matcher = Matcher.open(tmp_path)
    assert list(matcher) == ["x", "y"]
    assert matcher.stats().snapshot == 2


def test_a_build_without_subscriptions_is_an_index(spark: "SparkSession", tmp_path: Path) -> None:
    tocsin_spark.build(spark.createDataFrame([], "id string, where string"), tmp_path)
    assert list(Matcher.open(tmp_path)) == []


def test_while_another_process_writes_nothing_is_built(spark: "SparkSession", tmp_path: Path) -> None:
    writer = Matcher()
    writer.subscribe("x", "a > 0")
    writer.save(tmp_path)
    subscriptions = spark.createDataFrame([("y", "a > 0")], "id string, where string")
    with pytest.raises(StorageError, match="is being written"):
        tocsin_spark.build(subscriptions, tmp_path)
    writer.close()
    with pytest.raises(OptionError, match="segments are built by executors"):
        tocsin_spark.build(subscriptions, segments=2)
