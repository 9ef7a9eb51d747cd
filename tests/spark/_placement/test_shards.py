"""Shards, tags and kept columns: the answer stays the same, each task has its share."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tocsin import spark as tocsin_spark
from tocsin.errors import OptionError
from tocsin.matcher import Matcher
from tocsin.ranking.question import Mode
from tocsin.spark._placement.shards import shard
from tocsin.spark._placement.snapshot_dir import pin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Four segments of 40, 30, 20 and 10 subscriptions, and one subscription in the snapshot itself."""
    matcher = Matcher(background_merge=False)
    matcher.save(tmp_path)
    for segment, size in enumerate((40, 30, 20, 10)):
        matcher.subscribe_many(
            [{"id": f"{segment}-{n}", "where": f"a >= {n}", "tags": {"segment": str(segment)}} for n in range(size)]
        )
    matcher.subscribe("4-0", "a >= 0", tags={"segment": "4"})
    matcher.commit()
    matcher.close()
    return tmp_path


def test_shards_divide_the_segments_evenly(index: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        paths = [view.path for view in shard(pin(index), 2)]
    assert sorted(len(Matcher.open(path)) for path in paths) == [50, 51]
    assert "plan: 2 shards" in caplog.text
    assert {id for path in paths for id in Matcher.open(path)} == set(Matcher.open(index))
    with caplog.at_level("INFO"):
        assert len(shard(pin(index), 99)) == 4
    assert "99 were asked for, the index has 4 segments" in caplog.text
    with pytest.raises(OptionError, match="at least 1"):
        shard(pin(index), 0)


def test_sharded_matches_are_the_same(spark: "SparkSession", index: Path) -> None:
    events = spark.createDataFrame([(n, n, f"note {n}") for n in range(5)], "key long, a long, note string")
    whole = {tuple(row) for row in tocsin_spark.match(events, index, id="key", keep_columns=["note"]).collect()}
    matches = tocsin_spark.match(events, index, id="key", keep_columns=["note"], shards=3)
    assert matches.columns == ["event", "subscription", "score", "note"]
    rows = [tuple(row) for row in matches.collect()]
    assert set(rows) == whole
    # An event matches n + 1 of each of the four large segments, and all of the fifth.
    assert len(rows) == sum(4 * (n + 1) + 1 for n in range(5))
    tagged = tocsin_spark.match(events, index, id="key", tags={"segment": "4"}, shards=2)
    assert {row["subscription"] for row in tagged.collect()} == {"4-0"}


@pytest.mark.parametrize("mode", ["exact", "relaxed"])
def test_the_best_of_all_shards_are_the_best(spark: "SparkSession", tmp_path: Path, mode: Mode) -> None:
    rows = [(f"s{n}", f"a >= {n} AND b > {n % 3}", float(n % 7)) for n in range(40)]
    subscriptions = spark.createDataFrame(rows, "id string, where string, score double")
    index = tocsin_spark.build(subscriptions, tmp_path / "index", segments=3)
    events = spark.createDataFrame([(n, 4 * n, n % 4) for n in range(10)], "key long, a long, b long")
    matcher = Matcher.open(index.path)
    expected = {
        (row["key"], id, score)
        for row in events.collect()
        for id, score in matcher.top_k({"a": row["a"], "b": row["b"]}, 5, mode=mode)
    }
    assert len(expected) >= 25
    for shards in (None, 3):
        found = tocsin_spark.match(events, index, id="key", top_k=5, mode=mode, shards=shards).collect()
        assert {tuple(row) for row in found} == expected


def test_a_column_that_cannot_be_kept_is_named(spark: "SparkSession", index: Path) -> None:
    events = spark.createDataFrame([(1, 2, 3.0)], "key long, a long, score double")
    with pytest.raises(OptionError, match=r"no column 'nothing' to keep\. Choose from key, a, score"):
        tocsin_spark.match(events, index, id="key", keep_columns=["nothing"])
    with pytest.raises(OptionError, match="'score' is already a column of the matches"):
        tocsin_spark.match(events, index, id="key", keep_columns=["score"])
