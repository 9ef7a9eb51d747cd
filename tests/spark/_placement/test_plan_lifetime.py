"""What lazy DataFrames read stays as long as any plan of theirs does, and then goes."""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tocsin import spark as tocsin_spark
from tocsin.matcher import Matcher
from tocsin.spark._placement.plan_lifetime import planning, release
from tocsin.spark._placement.ship import scratch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def index(tmp_path: Path) -> Path:
    matcher = Matcher(background_merge=False)
    for low in (1, 2):
        matcher.subscribe(f"above {low}", f"a > {low}")
    matcher.save(tmp_path / "index")
    matcher.close()
    return tmp_path / "index"


@pytest.fixture
def events(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([(1, 1), (2, 2), (3, 3)], "key int, a int")


def views(index: Path) -> list[str]:
    return sorted(path.name.partition("-")[2] for path in (index / "views").glob("*-*"))


def collect_garbage(spark: "SparkSession") -> None:
    """Let Python and the JVM forget what nobody refers to."""
    jvm: Any = spark.sparkContext._jvm
    for _ in range(3):
        gc.collect()
        jvm.System.gc()
        time.sleep(0.1)
    release()


def goes(spark: "SparkSession", is_gone: Callable[[], bool]) -> bool:
    """Tell whether it goes once nobody refers to it. Spark's own threads let go of a plan a while after its job."""
    deadline = time.monotonic() + 60
    while not is_gone() and time.monotonic() < deadline:
        collect_garbage(spark)
    return is_gone()


def kept_by_a_step(matches: "DataFrame") -> Callable[[], int]:
    return matches.filter("event > 2").select("subscription").distinct().count


def kept_by_a_view(matches: "DataFrame") -> Callable[[], int]:
    session = matches.sparkSession
    matches.filter("event > 2").createOrReplaceTempView("kept")

    def count() -> int:
        found = session.table("kept").count()
        session.catalog.dropTempView("kept")
        return found

    return count


def kept_by_a_cache(matches: "DataFrame") -> Callable[[], int]:
    cached = matches.filter("event > 2").persist()

    def count() -> int:
        found = cached.count()
        cached.unpersist(blocking=True)
        return found

    return count


@pytest.mark.parametrize(
    ("keep", "options"),
    [(kept_by_a_step, {}), (kept_by_a_view, {"shards": 2}), (kept_by_a_cache, {"order": "key"})],
)
def test_a_snapshot_is_kept_while_a_derived_dataframe_needs_it(
    spark: "SparkSession",
    events: "DataFrame",
    index: Path,
    keep: Callable[["DataFrame"], Callable[[], int]],
    options: dict[str, Any],
) -> None:
    matches = tocsin_spark.match(events, index, id="key", **options)
    count = keep(matches)
    del matches
    collect_garbage(spark)
    kept = views(index)
    assert kept
    assert all("of1" in name for name in kept) == ("shards" in options)
    assert count() == 2
    del count
    assert goes(spark, lambda: not views(index))


def test_of_two_dataframes_over_one_snapshot_the_second_goes_on(
    spark: "SparkSession", events: "DataFrame", index: Path
) -> None:
    first, second = (tocsin_spark.match(events, index, id="key") for _ in range(2))
    assert len(views(index)) == 1
    assert first.count() == 3
    del first
    collect_garbage(spark)
    assert len(views(index)) == 1
    assert second.count() == 3


def test_nothing_goes_while_a_call_may_need_it(spark: "SparkSession", events: "DataFrame", index: Path) -> None:
    tocsin_spark.match(events, index, id="key")
    with planning():
        collect_garbage(spark)
        assert len(views(index)) == 1
    assert goes(spark, lambda: not views(index))


def test_what_was_built_or_summarised_for_one_job_goes_with_it(spark: "SparkSession", events: "DataFrame") -> None:
    def folders() -> set[Path]:
        return {path for path in scratch().iterdir() if path.is_dir()}

    collect_garbage(spark)
    before = folders()
    subscriptions = spark.createDataFrame([("record", "a > ALL (SELECT a FROM history)")], "id string, where string")
    matches = tocsin_spark.match(events, subscriptions, id="key", order="key")
    changed = spark.createDataFrame([("record", "a > 2")], "id string, where string")
    tested = tocsin_spark.backtest(events, changed, subscriptions, id="key", order="key")
    assert len(folders() - before) == 4, "two indexes, and the prefixes of each"
    assert (matches.count(), tested.changes.count()) == (3, 2)
    del matches, tested
    assert goes(spark, lambda: not folders() - before)


def test_what_was_shipped_is_not_needed_any_more(events: "DataFrame", index: Path) -> None:
    matches = tocsin_spark.match(events, index, id="key", ship_index=True)
    release()
    assert views(index) == []
    assert matches.count() == 3
