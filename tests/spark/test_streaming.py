"""Streams: exactly once into tables, live subscriptions, functions as sinks, what is refused."""

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from children import kill_while_resharding
from tocsin.errors import OptionError, StorageError
from tocsin.matcher import Matcher
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot
from tocsin.spark.sinks import Batch, BatchRecord, BatchTable
from tocsin.spark.streaming import stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "key long, price double"
NOW = {"availableNow": True}


class Place:
    """A folder of event files, an index and everything that a stream over them needs."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.spark, self.folder = spark, folder
        (folder / "events").mkdir()
        self.matcher = Matcher(background_merge=False)
        self.matcher.subscribe("low", "price < 10")
        self.matcher.save(folder / "index")
        self.files = 0

    def add(self, *prices: float) -> None:
        """Add a file of events; one micro-batch takes one file, in this order."""
        rows = [{"key": 100 * self.files + n, "price": price} for n, price in enumerate(prices)]
        file = self.folder / "events" / f"{self.files}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(file, (self.files, self.files))
        self.files += 1

    @property
    def identity(self) -> str:
        """The identity of the stream, as Spark notes it in the checkpoint."""
        return str(json.loads((self.folder / "checkpoint" / "metadata").read_text())["id"])

    def lose_the_checkpoint(self) -> str:
        """Let the next run be another stream; return the identity of the old one."""
        lost = self.identity
        shutil.rmtree(self.folder / "checkpoint")
        return lost

    def run(self, sink: Any, **options: Any) -> None:
        """Match what has come since the last run, to the end."""
        events = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.folder / "events"))
        where: dict[str, Any] = {"id": "key", "checkpoint": self.folder / "checkpoint", "trigger": NOW}
        stream(events, self.folder / "index", sink=sink, **where, **options).awaitTermination()

    def rows(self, format: str = "parquet") -> list[tuple[int, int, str]]:
        reader = self.spark.read.format({"jsonl": "json"}.get(format, format))
        matches = reader.load(str(self.folder / "matches"))
        return sorted(tuple(row) for row in matches.select("batch", "event", "subscription").collect())


@pytest.fixture
def place(spark: "SparkSession", tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_each_batch_takes_the_newest_snapshot_and_records_it(place: Place, format: str) -> None:
    table = BatchTable(place.folder / "matches", format)
    heard: list[BatchRecord] = []

    def listen(record: BatchRecord, seconds: float) -> None:
        assert seconds > 0
        heard.append(record)
        if record.batch == 0:
            # Committed before the next batch starts: in effect for it.
            place.matcher.subscribe("high", "price > 10")
            place.matcher.commit()

    place.add(5, 15)
    place.add(5, 15, 10)
    place.run(table, listener=listen)
    assert place.rows(format) == [(0, 0, "low"), (1, 100, "low"), (1, 101, "high")]
    stream = place.identity
    assert table.records() == heard == [BatchRecord(0, 1, 2, 1, stream), BatchRecord(1, 2, 3, 2, stream)]


def test_a_stream_over_shards_counts_each_event_once(place: Place) -> None:
    place.matcher.subscribe("high", "price > 10")
    place.matcher.commit()
    table = BatchTable(place.folder / "matches")
    place.add(5, 15)
    place.run(table, shards=2)
    assert place.rows() == [(0, 0, "low"), (0, 1, "high")]
    assert table.records() == [BatchRecord(0, snapshot=2, events=2, matches=2, stream=place.identity)]


def test_a_batch_that_is_replayed_is_not_written_twice(place: Place) -> None:
    """The driver dies after the table took batch 1 and before Spark has noted it; meanwhile subscriptions change."""

    def die(record: BatchRecord, _: float) -> None:
        if record.batch == 1:
            raise RuntimeError("killed")

    place.add(5)
    place.add(6, 7)
    with pytest.raises(Exception, match="killed"):
        place.run(place.folder / "matches", listener=die)
    place.matcher.subscribe("also", "price < 10")
    place.matcher.commit()
    place.add(8)
    place.run(place.folder / "matches")
    assert place.rows() == [(0, 0, "low"), (1, 100, "low"), (1, 101, "low"), (2, 200, "also"), (2, 200, "low")]


def test_a_batch_that_was_half_written_is_written_anew(place: Place) -> None:
    table = BatchTable(place.folder / "matches")
    ruin = table.path / "_writing-000000" / "part-of-a-killed-task.parquet"
    ruin.parent.mkdir(parents=True)
    ruin.write_bytes(b"half a fi")
    place.add(5, 15)
    place.run(table)
    assert place.rows() == [(0, 0, "low")]


def test_a_stream_that_lost_its_checkpoint_is_foreign_to_its_table(place: Place) -> None:
    """It would begin again with batch 0, which the table has: nothing that came meanwhile would be written."""
    place.add(5)
    place.run(place.folder / "matches")
    lost = place.lose_the_checkpoint()
    place.add(6)
    with pytest.raises(StorageError) as refused:
        place.run(place.folder / "matches")
    for word in (str(place.folder / "matches"), lost, place.identity, "another folder", "checkpoint"):
        assert word in str(refused.value)
    assert place.rows() == [(0, 0, "low")]
    place.run(place.folder / "anew")
    assert {record.matches for record in BatchTable(place.folder / "anew").records()} == {1}


def test_a_foreign_batch_is_refused_whatever_its_number(place: Place) -> None:
    """A sink of the user's own may hand its batches to a table: batch 1 is not there, and still it is another's."""
    table = BatchTable(place.folder / "matches")
    place.add(5)
    place.run(table)
    place.add(6)

    def sink(matches: "DataFrame", batch: Batch) -> None:
        table(matches, replace(batch, stream="another"))

    with pytest.raises(Exception, match=f"(?s)belongs to the stream {place.identity}.*the stream another"):
        place.run(sink)
    assert place.rows() == [(0, 0, "low")]


def test_a_stream_that_is_asked_for_old_batches_has_an_old_checkpoint(place: Place) -> None:
    """Its batch 1 now may be other events than its batch 1 then."""
    old = place.folder / "of yesterday"
    place.add(5)
    place.run(place.folder / "matches")
    shutil.copytree(place.folder / "checkpoint", old)
    for price in (6, 7):
        place.add(price)
        place.run(place.folder / "matches")
    shutil.rmtree(place.folder / "checkpoint")
    old.rename(place.folder / "checkpoint")
    place.add(8)
    with pytest.raises(Exception, match=r"batch 1, and .*matches has batch 2 already.*Remove the folders"):
        place.run(place.folder / "matches")
    assert len(place.rows()) == 3
    for number in (1, 2):
        shutil.rmtree(place.folder / "matches" / f"batch=00000{number}")
    place.run(place.folder / "matches")
    assert [event for _, event, _ in place.rows()] == [0, 100, 200, 300]


def without_identity(table: Path) -> None:
    """Make a table as it was before batches carried the identity of their stream."""
    shutil.rmtree(table / "_stream")
    for file in table.glob("batch=*/_batch.json"):
        record = json.loads(file.read_text())
        record.pop("stream", None)
        file.write_text(json.dumps(record))


def test_a_table_without_an_identity_is_taken_by_the_stream_that_goes_on_with_it(place: Place) -> None:
    for price in (5, 6):
        place.add(price)
        place.run(place.folder / "matches")
        without_identity(place.folder / "matches")
    assert [(record.batch, record.stream) for record in BatchTable(place.folder / "matches").records()] == [
        (0, None),
        (1, None),
    ]
    place.add(7)
    place.run(place.folder / "matches")
    assert [event for _, event, _ in place.rows()] == [0, 100, 200]
    place.lose_the_checkpoint()
    with pytest.raises(StorageError, match="belongs to the stream"):
        place.run(place.folder / "matches")


def test_a_table_without_an_identity_is_not_taken_by_a_stream_that_begins(place: Place) -> None:
    place.add(5)
    place.run(place.folder / "matches")
    without_identity(place.folder / "matches")
    place.lose_the_checkpoint()
    place.add(6)
    with pytest.raises(Exception, match=r"does not say which stream wrote it") as refused:
        place.run(place.folder / "matches")
    assert place.identity in str(refused.value)
    # The way out for who knows better: this stream is the one, and batch 0 is done.
    (place.folder / "matches" / "_stream").mkdir()
    (place.folder / "matches" / "_stream" / "id").write_text(place.identity)
    place.run(place.folder / "matches")
    assert [event for _, event, _ in place.rows()] == [0, 100]


def test_of_streams_that_take_a_table_at_once_one_does(tmp_path: Path) -> None:
    table = BatchTable(tmp_path / "matches")
    names = [f"stream {n}" for n in range(8)]
    ready = threading.Barrier(len(names))

    def take(name: str) -> str:
        ready.wait()
        try:
            table.take(name)
        except StorageError as error:
            return error.hint
        return name

    with ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(take, names))
    assert table.stream in names
    refused = "Write to another folder; or remove this one, which has no batches"
    assert sorted(answers) == sorted([table.stream, *[refused] * 7])
    assert [path.name for path in table.path.iterdir()] == ["_stream"]


def test_a_stream_looks_back_over_all_batches_and_over_a_crash(place: Place) -> None:
    """Prices in the order of their keys, cut into batches; the driver dies once a batch is in the table."""
    place.matcher.subscribe("record", "price > ALL (SELECT price FROM history)")
    place.matcher.subscribe("again", "EXISTS (SELECT 1 FROM history h WHERE h.price = event.price AND h.key > 1)")
    place.matcher.commit()

    def die(record: BatchRecord, _: float) -> None:
        if record.batch == 1:
            raise RuntimeError("killed")

    prices = [[12.0, 11.0, 30.0], [30.0, 12.0], [11.0, 40.0, 40.0]]
    for part in prices:
        place.add(*part)
    with pytest.raises(Exception, match="killed"):
        place.run(place.folder / "matches", order="key", listener=die)
    place.run(place.folder / "matches", order="key")
    in_process = Matcher(background_merge=False)
    for subscription in place.matcher.subscriptions():
        in_process.subscribe(subscription.id, subscription.where)
    expected = []
    for batch, part in enumerate(prices):
        for n, price in enumerate(part):
            key = 100 * batch + n
            expected += [(batch, key, name) for name in in_process.publish({"key": key, "price": price}).ids]
    assert expected == [(0, 0, "record"), (0, 2, "record"), (1, 100, "again"), (2, 201, "record"), (2, 202, "again")]
    assert place.rows() == sorted(expected)
    assert len(list((place.folder / "matches").glob("batch=*/_history"))) == 1


def test_a_stream_without_order_refuses_subscriptions_that_look_back(place: Place) -> None:
    """Those that are there at its start, and those that come later."""
    place.add(5)
    place.run(place.folder / "matches")
    place.matcher.subscribe("record", "price > ALL (SELECT price FROM history)")
    place.matcher.commit()
    with pytest.raises(OptionError, match=r"1 subscriptions look back.*: record\..*order"):
        place.run(place.folder / "matches")
    place.matcher.unsubscribe("record")
    place.matcher.commit()

    def subscribe(record: BatchRecord, _: float) -> None:
        place.matcher.subscribe(f"record {record.batch}", "price > ALL (SELECT price FROM history)")
        place.matcher.commit()

    place.add(6)
    place.add(7)
    with pytest.raises(Exception, match="look back"):
        place.run(place.folder / "matches", listener=subscribe)
    assert place.rows() == [(0, 0, "low"), (1, 100, "low")]


def test_a_subscription_that_comes_later_sees_what_was_remembered_for_others(place: Place) -> None:
    place.matcher.subscribe("record", "price > ALL (SELECT price FROM history)")
    place.matcher.commit()
    place.add(12, 30, 20)
    place.run(place.folder / "matches", order="key")
    place.matcher.subscribe("again", "price = ANY (SELECT price FROM history)")
    place.matcher.commit()
    place.add(20, 21)
    place.run(place.folder / "matches", order="key")
    assert place.rows() == [(0, 0, "record"), (0, 1, "record"), (1, 100, "again")]


def test_a_function_gets_the_matches_with_the_number_of_the_batch(place: Place) -> None:
    seen: list[tuple[str, int, int, int, list[Any]]] = []

    def sink(matches: "DataFrame", batch: Batch) -> None:
        rows = [tuple(row) for row in matches.collect()]
        seen.append((batch.stream, batch.number, batch.index.snapshot, batch.events.get["rows"], rows))

    place.add(5, 15)
    place.run(sink)
    assert seen == [(place.identity, 0, 1, 2, [(0, "low", 1.0)])]


def test_the_console_shows_the_matches(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.add(5)
    place.run("console")
    out = capsys.readouterr().out
    assert "batch 0, snapshot 1" in out
    assert "|0    |low         |1.0  |" in out


def test_what_cannot_be_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"not a stream.*readStream"):
        stream(spark.range(1), tmp_path, id="id", checkpoint=tmp_path, sink="console")
    rate = spark.readStream.format("rate").load()
    with pytest.raises(OptionError, match="keeps its history in a table"):
        stream(rate, tmp_path, id="value", order="value", checkpoint=tmp_path, sink="console")
    whole: list[dict[str, Any]] = [{"tags": {"a": "b"}}, {"top_k": 3}, {"shards": 2}]
    for options in whole:
        with pytest.raises(OptionError, match="with an order finds all matches of all subscriptions"):
            stream(rate, tmp_path, id="value", order="value", checkpoint=tmp_path, sink=tmp_path / "table", **options)
    with pytest.raises(OptionError, match=r"mode is 'relaxed', and all matches are wanted\. Give top_k"):
        stream(rate, tmp_path, id="value", checkpoint=tmp_path, sink="console", mode="relaxed")
    with pytest.raises(OptionError, match="is mounted, not s3://"):
        BatchTable("s3://bucket/matches")
    with pytest.raises(OptionError, match=r"no format 'xml'\. Choose from parquet, jsonl"):
        BatchTable(tmp_path, "xml")


def test_a_stream_goes_on_while_its_index_gets_other_shards(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Batch 0 in 4 shards, resharded while it runs; batches 1 and 2 in 8: a process is killed meanwhile."""
    place.matcher.subscribe_many([{"id": f"s{n:02}", "where": f"price < {n}"} for n in range(47)])
    place.matcher.reshard(4)
    place.matcher.commit()
    place.matcher.close()
    index = place.folder / "index"
    seen: list[int] = []

    def reshard(events: "DataFrame", view: PinnedSnapshot) -> "DataFrame":
        """After the batch has pinned its snapshot, and before it matches."""
        batch = len(seen)
        seen.append(view.snapshot)
        if batch == 1:
            kill_while_resharding(index, 3, shards=16)
        else:
            with Matcher.open(index, background_merge=False) as matcher:
                matcher.reshard((8, 0, 2)[batch])
                matcher.commit()
        return events

    prices = (5, 46, 20.5)
    for price in prices:
        place.add(price, 50)
    with caplog.at_level("INFO"):
        place.run(place.folder / "matches", prepare=reshard)
    plans = [record.message for record in caplog.records if record.message.startswith("plan: ")]
    assert [plan.partition(" shards")[0] for plan in plans] == ["plan: 4", "plan: 8", "plan: 8"]
    assert [(record.snapshot, record.events) for record in BatchTable(place.folder / "matches").records()] == [
        (2, 2),
        (3, 2),
        (3, 2),
    ]
    expected = [
        (batch, 100 * batch, id)
        for batch, price in enumerate(prices)
        for id in [*["low"][: price < 10], *(f"s{n:02}" for n in range(47) if price < n)]
    ]
    assert place.rows() == sorted(expected)
