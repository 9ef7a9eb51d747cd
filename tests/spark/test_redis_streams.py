"""Redis Streams as a source, against a real server: every entry is matched and written exactly once."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadMaxRows

from tocsin.errors import EventError, OptionError
from tocsin.matcher import Matcher
from tocsin.spark.redis_streams import EntryReader, RedisStreams, connected
from tocsin.spark.sinks import BatchRecord, BatchTable
from tocsin.spark.streaming import stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Any]:
    """A client of a server of its own."""
    socket = tmp_path / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 60
            while not socket.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            with connected(f"unix://{socket}") as client:
                yield client
        finally:
            server.terminate()


def url(redis: Any) -> str:
    return f"unix://{redis.get_connection_kwargs()['path']}"


def add(redis: Any, stream: str, *prices: float) -> None:
    for price in prices:
        redis.xadd(stream, {"price": price})


def run(spark: "SparkSession", redis: Any, folder: Path, **options: Any) -> list[tuple[str, float, str]]:
    """Match what is in the streams and not yet in the table; return all matches of the table."""
    spark.dataSource.register(RedisStreams)
    source = spark.readStream.format("redis_streams").options(url=url(redis), streams="a, b", maxEntriesPerTrigger=4)
    events = source.load().selectExpr("concat(stream, ' ', entry) AS key", "CAST(fields['price'] AS double) AS price")
    where: dict[str, Any] = {"checkpoint": folder / "checkpoint", "sink": folder / "matches"}
    for trial in range(5):
        try:
            stream(
                events,
                folder / "index",
                id="key",
                trigger={"availableNow": True},
                keep_columns=["price"],
                **where,
                **options,
            ).awaitTermination()
            break
        except StreamingQueryException as error:
            # Spark waits 10 seconds for the Python process of a source, whatever is set; a stream may start again.
            if trial == 4 or "Python worker failed to connect back" not in str(error):
                raise
    found = spark.read.parquet(str(folder / "matches")).select("event", "price", "subscription").collect()
    return sorted((row["event"].partition(" ")[0], row["price"], row["subscription"]) for row in found)


def test_entries_are_matched_exactly_once_though_the_stream_dies(
    spark: "SparkSession", redis: Any, tmp_path: Path
) -> None:
    matcher = Matcher(background_merge=False)
    matcher.subscribe("low", "price < 10")
    matcher.save(tmp_path / "index")
    matcher.close()
    add(redis, "a", *range(11))
    add(redis, "b", 9)

    def die(record: BatchRecord, _: float) -> None:
        if record.batch == 1:
            raise RuntimeError("killed")

    with pytest.raises(Exception, match="killed"):
        run(spark, redis, tmp_path, listener=die)
    add(redis, "b", 1, 20)
    expected = [*(("a", float(price), "low") for price in range(10)), ("b", 1.0, "low"), ("b", 9.0, "low")]
    assert run(spark, redis, tmp_path) == expected
    records = BatchTable(tmp_path / "matches").records()
    assert sum(record.events or 0 for record in records) == 14
    assert all((record.events or 0) <= 4 for record in records)
    assert run(spark, redis, tmp_path) == expected
    assert len(BatchTable(tmp_path / "matches").records()) == len(records)


def test_the_reader_begins_where_the_stream_does_and_says_what_is_lost(redis: Any) -> None:
    reader = EntryReader({"url": url(redis), "streams": "a,none"})
    start = reader.initialOffset()
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    add(redis, "a", *range(7))
    redis.xtrim("a", maxlen=5, approximate=False)
    assert start != reader.initialOffset(), "two entries were gone before there was a stream"
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    (partition,) = reader.partitions(start, end)
    (batch,) = reader.read(partition)
    assert [dict(fields)["price"] for fields in batch.column("fields").to_pylist()] == ["2", "3", "4", "5", "6"]
    two = reader.latestOffset(start, ReadMaxRows(4))
    redis.xtrim("a", maxlen=3, approximate=False)
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end, "it does not go back"
    assert not reader.partitions(end, end)
    (rest,) = reader.partitions(two, end)
    assert [batch.num_rows for batch in reader.read(rest)] == [3]
    with pytest.raises(EventError, match="of 5 entries of the stream a after 0-0, 2 were deleted before"):
        list(reader.read(partition))


def test_options_that_are_missing_are_named() -> None:
    with pytest.raises(OptionError, match="streams is missing"):
        EntryReader({"url": "redis://localhost"})
