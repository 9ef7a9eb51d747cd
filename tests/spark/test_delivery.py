"""Inboxes: who gets what, in which order, and nothing twice."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tocsin import spark as tocsin_spark
from tocsin.delivery.addresses import inboxes_of
from tocsin.delivery.inboxes import InboxStore
from tocsin.delivery.policy import Settings
from tocsin.errors import OptionError, StorageError
from tocsin.matcher import Matcher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "key long, isbn string, price double"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    matcher = Matcher()
    matcher.subscribe("low", "price < 10", tags={"user": "ada"})
    matcher.subscribe("any", "price > 0", tags={"user": "007"})
    matcher.subscribe("nobody", "price > 0")
    matcher.save(tmp_path / "index")
    matcher.close()
    return tmp_path / "index"


def matches(spark: "SparkSession", index: Path, *events: tuple[int, str | None, float]) -> "DataFrame":
    return tocsin_spark.match(spark.createDataFrame(events, SCHEMA), index, id="key", keep_columns=["isbn"])


@pytest.mark.parametrize("digest", [False, True])
def test_an_event_that_comes_again_alerts_once(
    spark: "SparkSession", index: Path, tmp_path: Path, digest: bool
) -> None:
    inboxes = tocsin_spark.Inboxes(tmp_path / "inboxes", tag="user", dedupe="subscription, isbn", digest=digest)
    first = matches(spark, index, (2, "x", 5.0), (1, "x", 4.0), (3, None, 20.0))
    again = matches(spark, index, (4, "x", 3.0), (5, "y", 3.0), (6, None, 3.0))
    assert inboxes.deliver(first, index, number=0, stream="mine")
    for _ in range(2):
        inboxes.deliver(again, index, number=1, stream="mine")
    rows = inboxes.read(spark).collect()
    if digest:
        assert len(rows) == 4
        told = [(row["inbox"], row["batch"], match["event"]) for row in rows for match in row["matches"]]
    else:
        told = [(row["inbox"], row["batch"], row["event"]) for row in rows]
    # Of equal keys the first event counts; batch 1 brings only what is new to the inbox, and only once.
    assert told == [("007", 0, 1), ("007", 0, 3), ("007", 1, 5), ("ada", 0, 1), ("ada", 1, 5), ("ada", 1, 6)]
    assert inboxes.read(spark, "ada").count() == (2 if digest else 3)


@pytest.mark.parametrize("digest", [False, True])
def test_spark_and_the_server_tell_the_same(spark: "SparkSession", index: Path, tmp_path: Path, digest: bool) -> None:
    """The same matches in the same batches: to the same inboxes, without the same repetitions, in the same digests."""
    dedupe = "subscription, isbn"
    batches: list[list[tuple[int, str | None, float]]] = [
        [(1, "x", 4.0), (2, "x", 5.0), (3, None, 20.0)],
        [(4, "x", 3.0), (5, "y", 3.0), (6, None, 3.0), (7, None, 2.0)],
        [(8, "y", 30.0), (9, "", 3.0)],
    ]
    in_spark = tocsin_spark.Inboxes(tmp_path / "inboxes", tag="user", dedupe=dedupe, digest=digest)
    in_server = InboxStore(tmp_path / "inboxes.sqlite")
    settings = Settings.of({"dedupe": dedupe} | ({"digest": {"seconds": 1}} if digest else {}))
    with Matcher.open(index, mode="read") as matcher, in_server.transaction():
        for number, events in enumerate(batches):
            in_spark.deliver(matches(spark, index, *events), index, number=number, stream="mine")
            by_inbox: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
            for key, isbn, price in events:
                found = matcher.match({"isbn": isbn, "price": price}).ids
                for id, inbox in zip(found, inboxes_of(matcher, found, "user"), strict=True):
                    if inbox is not None:
                        match, event = {"subscription": id, "score": 1.0}, {"key": key, "isbn": isbn}
                        by_inbox.setdefault(inbox, []).append((match, event))
            for inbox, found_now in by_inbox.items():
                in_server.set(inbox, settings)
                in_server.tell(inbox, found_now, now=10.0 * number)
            in_server.release(10.0 * number + 5)
    for inbox in ("ada", "007"):
        rows = in_spark.read(spark, inbox).collect()
        by_spark = [[match["event"] for match in row["matches"]] if digest else [row["event"]] for row in rows]
        entries = [entry.body for entry in in_server.read(inbox, 0, 100)]
        told = [match for entry in entries for match in entry.get("digest", [entry])]
        by_server = [[one["event"]["key"] for one in entry.get("digest", [entry])] for entry in entries]
        if digest:
            assert by_server == by_spark
        assert [one["event"]["key"] for one in told] == [event for row in by_spark for event in row]
    in_server.close()


def test_deliver_numbers_batches_and_names_a_missing_column(spark: "SparkSession", index: Path, tmp_path: Path) -> None:
    found = matches(spark, index, (1, "x", 5.0))
    for number in range(2):
        record = tocsin_spark.deliver(found, tmp_path / "inboxes", index=index, tag="user")
        assert record is not None
        assert (record.batch, record.matches) == (number, 2)
    with pytest.raises(OptionError, match=r"no column 'title' to find repetitions by.*keep_columns=\['title'\]"):
        tocsin_spark.deliver(found, tmp_path / "inboxes", index=index, tag="user", dedupe="title")


def test_a_number_of_another_is_not_taken_for_one_that_has_been(
    spark: "SparkSession", index: Path, tmp_path: Path
) -> None:
    inboxes = tocsin_spark.Inboxes(tmp_path / "inboxes", tag="user")
    found = matches(spark, index, (1, "x", 5.0))
    with pytest.raises(OptionError, match="batch 0 of which stream"):
        inboxes.deliver(found, index, number=0)
    assert inboxes.deliver(found, index, number=0, stream="nightly")
    assert inboxes.deliver(found, index, number=0, stream="nightly") is None
    for number, stream in ((0, "hourly"), (1, "hourly"), (None, None)):
        with pytest.raises(StorageError, match="belongs to the stream nightly"):
            inboxes.deliver(found, index, number, stream)
    assert [record.batch for record in inboxes.table.records()] == [0]


@pytest.mark.parametrize("own_function", [False, True])
def test_a_stream_that_lost_its_checkpoint_is_foreign_to_its_inboxes(
    spark: "SparkSession", index: Path, tmp_path: Path, own_function: bool
) -> None:
    inboxes = tocsin_spark.Inboxes(tmp_path / "inboxes", tag="user")

    def deliver_batch(frame: "DataFrame", number: int) -> None:
        found = tocsin_spark.match(frame, index, id="key")
        tocsin_spark.deliver(found, tmp_path / "inboxes", index=index, tag="user", number=number)

    def run(checkpoint: str) -> None:
        arriving = spark.readStream.schema(SCHEMA).json(str(tmp_path / "events"))
        notes = str(tmp_path / checkpoint)
        if own_function:
            writer = arriving.writeStream.foreachBatch(deliver_batch).option("checkpointLocation", notes)
            query = writer.trigger(availableNow=True).start()
        else:
            now = {"availableNow": True}
            query = tocsin_spark.stream(arriving, index, id="key", checkpoint=notes, sink=inboxes, trigger=now)
        query.awaitTermination()

    for key in range(2):
        spark.createDataFrame([(key, "x", 5.0)], SCHEMA).write.mode("append").json(str(tmp_path / "events"))
        run("checkpoint")
    assert [record.batch for record in inboxes.table.records()] == [0, 1]
    with pytest.raises(Exception, match="belongs to the stream"):
        run("another")
    assert inboxes.read(spark).count() == 4


def test_inboxes_are_the_sink_of_a_stream(spark: "SparkSession", index: Path, tmp_path: Path) -> None:
    spark.createDataFrame([(1, "x", 5.0), (2, "x", 6.0)], SCHEMA).write.json(str(tmp_path / "events"))
    inboxes = tocsin_spark.Inboxes(tmp_path / "inboxes", tag="user", dedupe="subscription, isbn")
    tocsin_spark.stream(
        spark.readStream.schema(SCHEMA).json(str(tmp_path / "events")),
        index,
        id="key",
        keep_columns=["isbn"],
        checkpoint=tmp_path / "checkpoint",
        sink=inboxes,
        trigger={"availableNow": True},
    ).awaitTermination()
    assert [(row["inbox"], row["event"]) for row in inboxes.read(spark).collect()] == [("007", 1), ("ada", 1)]
    assert [(record.events, record.matches) for record in inboxes.table.records()] == [(2, 2)]


def test_ids_of_any_type_find_their_inboxes(spark: "SparkSession", tmp_path: Path) -> None:
    rules = spark.createDataFrame(
        [(1.0, "price > 0", {"user": "ada"}), (2.5, "price > 0", {"user": "bob"})],
        "id double, where string, tags map<string,string>",
    )
    index = tocsin_spark.build(rules)
    events = spark.createDataFrame([(1, "x", 5.0)], SCHEMA)
    inboxes = tocsin_spark.Inboxes(tmp_path / "inboxes", tag="user")
    inboxes.deliver(tocsin_spark.match(events, index, id="key"), index)
    assert [(row["inbox"], row["subscription"]) for row in inboxes.read(spark).collect()] == [
        ("ada", 1.0),
        ("bob", 2.5),
    ]
