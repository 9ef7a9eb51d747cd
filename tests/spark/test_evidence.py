"""Evidence of workers in the driver: nothing that a task could not use is silent, and every task counts."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tocsin import spark as tocsin_spark
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence
from tocsin.spark.evidence import MAX_KEPT, _EvidenceSum, describe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHERES = {"cheap": "price < 5", "shelf": "xpath_exists(doc, '/shelf/book')", "smith": "author = 'Smith'"}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An index of several segments."""
    matcher = Matcher()
    for name, where in WHERES.items():
        matcher.subscribe(name, where)
        matcher.save(tmp_path / "index")
    return tmp_path / "index"


def bad_events(spark: "SparkSession", partitions: int = 4) -> "DataFrame":
    """100 events in partitions of which only the first has a match; each has prices as text and broken documents."""
    columns = (
        "id AS key",
        "CAST(id AS string) AS price",
        "IF(id % 10 = 0, '<shelf>', '<shelf/>') AS doc",
        "IF(id = 1, 'Smith', 'Jones') AS author",
    )
    return spark.range(100, numPartitions=partitions).selectExpr(*columns)


def test_tasks_without_matches_count(spark: "SparkSession", index: Path, caplog: pytest.LogCaptureFixture) -> None:
    evidence = tocsin_spark.MatchEvidence()
    matches = tocsin_spark.match(bad_events(spark), index, id="key", evidence=evidence)
    assert evidence.get() == Evidence()
    with caplog.at_level(logging.WARNING, "tocsin.spark.evidence"):
        assert [row.subscription for row in matches.collect()] == ["smith"]
    found = evidence.get()
    assert (found.events, found.matches, found.mismatches) == (100, 1, {"price": 100})
    [(error, count)] = found.errors.items()
    assert error.startswith("doc: ")
    assert count == 10
    assert found.encode_s > 0
    in_process = Matcher.open(index, mode="read").match_batch(bad_events(spark).toArrow())

    judge = Evidence(**json.loads(in_process.schema.metadata[b"tocsin"]))
    assert (found.candidates, found.errors) == (judge.candidates, judge.errors)
    # Each is said once, however many tasks meet it.
    said = [record.getMessage() for record in caplog.records if record.name == "tocsin.spark.evidence"]
    assert sorted(message.partition(" count")[0] for message in said) == ["unreadable values", "values of another type"]


def test_events_count_once_in_all_shards_and_in_order(spark: "SparkSession", index: Path) -> None:
    sharded, ordered = tocsin_spark.MatchEvidence(), tocsin_spark.MatchEvidence()
    tocsin_spark.match(bad_events(spark), index, id="key", shards=2, evidence=sharded).collect()
    frame = tocsin_spark.match(bad_events(spark), index, id="key", order="key", partitions=3, evidence=ordered)
    frame.collect()
    for found in (sharded.get(), ordered.get()):
        assert (found.events, found.matches, found.mismatches, sum(found.errors.values())) == (
            100,
            1,
            {"price": 100},
            10,
        )


def test_workers_that_read_files_report_as_well(spark: "SparkSession", index: Path, tmp_path: Path) -> None:
    bad_events(spark).write.parquet(str(tmp_path / "events"))
    evidence = tocsin_spark.MatchEvidence()
    tocsin_spark.match(tmp_path / "events", index, id="key", evidence=evidence).collect()
    assert (evidence.get().events, evidence.get().mismatches) == (100, {"price": 100})


def test_a_batch_record_has_the_evidence(
    spark: "SparkSession", index: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad_events(spark).write.parquet(str(tmp_path / "events"))
    arriving = spark.readStream.schema(bad_events(spark).schema).parquet(str(tmp_path / "events"))
    with caplog.at_level(logging.INFO, "tocsin.spark.streaming"):
        tocsin_spark.stream(
            arriving,
            index,
            id="key",
            checkpoint=tmp_path / "checkpoint",
            sink=tmp_path / "table",
            trigger={"availableNow": True},
        ).awaitTermination()
    [record] = tocsin_spark.BatchTable(tmp_path / "table").records()
    assert record.evidence is not None
    assert (record.evidence.events, record.evidence.matches, record.evidence.mismatches) == (100, 1, {"price": 100})
    [line] = [record.getMessage() for record in caplog.records if record.name == "tocsin.spark.streaming"]
    assert line.startswith("batch 0, snapshot 3: 100 events, ")
    assert "values of another type: price (100)" in line


def test_the_driver_keeps_the_newest_only() -> None:
    kept = _EvidenceSum().addInPlace({}, {(str(number), 0): Evidence(events=1) for number in range(MAX_KEPT + 2)})
    assert len(kept) == MAX_KEPT
    assert ("1", 0) not in kept
    assert ("2", 0) in kept
    assert kept[("2", 0)].events == 1


def test_the_summary_names_what_was_not_used() -> None:
    evidence = Evidence(events=1200, matches=3, match_s=0.5, mismatches={"price": 1000}, errors={"doc: not XML": 2})
    assert evidence.unused_values() == [
        ("values of another type", "price (1,000)"),
        ("unreadable values", "doc: not XML (2)"),
    ]
    assert describe(evidence) == (
        "1,200 events, 0 candidates, 3 matches; encode 0.00 s, match 0.50 s, history 0.00 s, rank 0.00 s; "
        "values of another type: price (1,000); unreadable values: doc: not XML (2)"
    )
    assert Evidence(events=5).unused_values() == []
