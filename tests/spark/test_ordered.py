"""History as a prefix scan equals the matcher in process, for any number of partitions."""

import datetime as dt
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tocsin import spark as tocsin_spark
from tocsin.errors import OptionError
from tocsin.matcher import Matcher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIMPLE = {
    "record": "price > ALL (SELECT price FROM history)",
    "cheaper": "price < ANY (SELECT price FROM history)",
    "new author": "author <> ALL (SELECT author FROM history)",
    "seen": "author = ANY (SELECT author FROM history)",
    "plain": "price > 50",
}
JOINED = {
    **SIMPLE,
    "undercut": "EXISTS (SELECT 1 FROM history h WHERE h.author = event.author AND event.price < h.price)",
    "first": "NOT EXISTS (SELECT 1 FROM history h WHERE h.author = event.author)",
}
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def rows(count: int = 120) -> list[tuple[int, dt.datetime | None, str | None, float | None]]:
    """Events whose order has ties and NULLs, in no order."""
    draw = random.Random(7)
    found: list[tuple[int, dt.datetime | None, str | None, float | None]] = []
    for key in range(count):
        at = None if key < 2 else START + dt.timedelta(minutes=draw.randrange(60))
        found.append((key, at, draw.choice(["Ada", "Bob", "Eve", None]), draw.choice([None, *map(float, range(100))])))
    draw.shuffle(found)
    return found


def frame(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame(rows(), "key long, at timestamp, author string, price double")


def in_process(wheres: dict[str, str], **options: Any) -> set[tuple[int, str]]:
    matcher = Matcher.from_table(pa.table({"id": list(wheres), "where": list(wheres.values())}), **options)
    ordered = sorted(rows(), key=lambda row: (row[1] is not None, row[1] or START, row[0]))
    events = [{"key": key, "at": at, "author": author, "price": price} for key, at, author, price in ordered]
    return {(row["event"], row["subscription"]) for row in matcher.publish_batch(events, id="key").to_pylist()}


@pytest.mark.parametrize(
    ("wheres", "partitions", "options"),
    [
        (SIMPLE, 3, {}),
        (JOINED, 1, {}),
        (JOINED, 4, {}),
        (JOINED, 3, {"retain_events": 10}),
        (JOINED, 3, {"retain_age": dt.timedelta(minutes=5), "age_attribute": "at"}),
    ],
    ids=["summaries of single comparisons", "one partition", "joins", "retained by count", "retained by age"],
)
def test_the_prefix_scan_equals_the_matcher_in_process(
    spark: "SparkSession", tmp_path: Path, wheres: dict[str, str], partitions: int, options: dict[str, Any]
) -> None:
    subscriptions = spark.createDataFrame(list(wheres.items()), "id string, where string")
    index = tocsin_spark.build(subscriptions, tmp_path / "index", **options)
    matches = tocsin_spark.match(frame(spark), index, id="key", order="at", partitions=partitions)
    found = [(row["event"], row["subscription"]) for row in matches.collect()]
    expected = in_process(wheres, **options)
    assert len(found) == len(expected)
    assert set(found) == expected
    assert {name for _, name in found} == set(wheres)


def test_an_order_that_is_no_column_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    index = tocsin_spark.build(spark.createDataFrame([("x", "a > 0")], "id string, where string"), tmp_path)
    with pytest.raises(OptionError, match="no column 'when' to order them by"):
        tocsin_spark.match(frame(spark), index, id="key", order="when")


def test_events_that_were_published_to_the_index_come_first(spark: "SparkSession", tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.subscribe("record", SIMPLE["record"], score=2.0, tags={"of": "ada"})
    matcher.subscribe("undercut", JOINED["undercut"], tags={"of": "bob"})
    matcher.publish_batch([{"author": "Ada", "price": 60.0}, {"author": None, "price": 70.0}])
    matcher.save(tmp_path)
    events = [(1, "Ada", 65.0), (2, "Bob", 80.0), (3, "Ada", 62.0), (4, "Bob", 75.0)]
    given = spark.createDataFrame(events, "key int, author string, price double")
    asked: dict[str, Any]
    for asked in ({}, {"tags": {"of": "ada"}}, {"top_k": 1}):
        expected = Matcher.open(tmp_path, mode="copy").publish_batch(
            [{"author": author, "price": price} for _, author, price in events], **asked
        )
        found = tocsin_spark.match(given, tmp_path, id="key", order="key", partitions=2, **asked).collect()
        rows = {(row["event"], row["subscription"]) for row in found}
        assert rows == {(row["event"] + 1, row["subscription"]) for row in expected.to_pylist()}
        assert rows


def test_an_order_is_for_a_whole_index(spark: "SparkSession", tmp_path: Path) -> None:
    index = tocsin_spark.build(spark.createDataFrame([("x", "a > 0")], "id string, where string"), tmp_path)
    with pytest.raises(OptionError, match="in shards has no order"):
        tocsin_spark.match(frame(spark), index, id="key", order="at", shards=2)
    with pytest.raises(OptionError, match="partitions are for events with an order"):
        tocsin_spark.match(frame(spark), index, id="key", partitions=2)
