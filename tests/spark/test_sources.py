"""What events may come from and be: other sources of a stream, XML as text and as bytes, times with zones."""

import datetime as dt
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.java_gateway import ensure_callback_server_started

from tocsin import spark as tocsin_spark
from tocsin.matcher import Matcher
from tocsin.spark.sinks import EVENTS, MATCHES, BatchRecord, BatchTable
from tocsin.spark.streaming import stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def save(path: Path, wheres: dict[str, str]) -> Path:
    matcher = Matcher(background_merge=False)
    for id, where in wheres.items():
        matcher.subscribe(id, where)
    matcher.save(path)
    matcher.close()
    return path


@pytest.fixture
def lines() -> Iterator[int]:
    """The port of a server that sends prices, a line each, to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall("".join(f"{price}\n" for price in range(20)).encode())
                done.wait()

        done = threading.Event()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        done.set()
        thread.join()


def until(query: Any, met: threading.Event) -> None:
    """Wait until a listener has seen enough, then stop the query."""
    try:
        assert met.wait(120), query.exception()
    finally:
        query.stop()


def test_a_socket_is_a_source(spark: "SparkSession", tmp_path: Path, lines: int) -> None:
    index = save(tmp_path / "index", {"low": "price < 5", "high": "price >= 18"})
    events = spark.readStream.format("socket").options(host="127.0.0.1", port=lines).load()
    table, enough = BatchTable(tmp_path / "matches"), threading.Event()

    def listen(_: BatchRecord, __: float) -> None:
        if sum(record.events or 0 for record in table.records()) == 20:
            enough.set()

    prices = events.selectExpr("value AS key", "CAST(value AS int) AS price")
    query = stream(prices, index, id="key", checkpoint=tmp_path / "notes", sink=table, listener=listen)
    until(query, enough)
    found = spark.read.parquet(str(table.path)).select("event", "subscription").collect()
    assert sorted((int(event), name) for event, name in found) == [
        *((price, "low") for price in range(5)),
        (18, "high"),
        (19, "high"),
    ]


def test_rate_is_a_source_and_sparks_own_listeners_see_the_counts(spark: "SparkSession", tmp_path: Path) -> None:
    index = save(tmp_path / "index", {"even": "parity = 0", "all": "parity >= 0"})
    table, enough = BatchTable(tmp_path / "matches", "jsonl"), threading.Event()
    seen: list[dict[str, int]] = []

    class Listener:
        """A QueryExecutionListener, as a program in Java or Scala would have one."""

        class Java:
            implements = ("org.apache.spark.sql.util.QueryExecutionListener",)

        def onSuccess(self, name: str, execution: Any, nanoseconds: int) -> None:  # noqa: N802, ARG002
            metrics = execution.observedMetrics()
            names = [name for name in (EVENTS, MATCHES) if metrics.contains(name)]
            if names:
                seen.append({name: metrics.apply(name).getLong(0) for name in names})

        def onFailure(self, name: str, execution: Any, error: Any) -> None:  # noqa: N802
            """Nothing is expected to fail."""

    def listen(_: BatchRecord, __: float) -> None:
        if sum(record.events or 0 for record in table.records()) >= 100 and len(table.records()) >= 2:
            enough.set()

    rate = spark.readStream.format("rate").options(rowsPerSecond=100, numPartitions=2).load()
    events = rate.selectExpr("value AS key", "value % 2 AS parity")
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]  # as PySpark has it
    # A query has the listeners that its session has when it starts.
    manager, listener = spark._jsparkSession.listenerManager(), Listener()
    manager.register(listener)
    try:
        until(
            stream(events, index, id="key", checkpoint=tmp_path / "notes", sink=table, listener=listen),
            enough,
        )
    finally:
        manager.unregister(listener)
    rows = spark.read.json(str(table.path)).select("event", "subscription").collect()
    keys = {row["event"] for row in rows}
    assert keys == set(range(len(keys)))
    assert sorted(map(tuple, rows)) == sorted(
        (key, name) for key in keys for name in (("all", "even") if key % 2 == 0 else ("all",))
    )
    recorded = [{EVENTS: record.events, MATCHES: record.matches} for record in table.records()]
    # Listeners are told a little later, and of the batch that was stopped not at all.
    assert seen
    assert seen == recorded[: len(seen)]


@pytest.mark.parametrize("type_", ["string", "binary"])
def test_xml_comes_as_text_or_as_bytes(spark: "SparkSession", tmp_path: Path, type_: str) -> None:
    documents = [
        '<?xml version="1.0" encoding="ISO-8859-1"?><nitf><p lede="true">Übung</p></nitf>',
        "<nitf><body><p>two</p></body></nitf>",
        "no xml",
        None,
    ]
    values = [text if text is None or type_ == "string" else bytearray(text.encode("iso-8859-1")) for text in documents]
    wheres = {"lede": "xpath_exists(doc, '/nitf/p[@lede=\"true\"]')", "deep": "xpath_exists(doc, '//body/p')"}
    events = spark.createDataFrame(list(enumerate(values)), f"key int, doc {type_}")
    found = tocsin_spark.match(events, save(tmp_path / "index", wheres), id="key").collect()
    assert {(row["event"], row["subscription"]) for row in found} == {(0, "lede"), (1, "deep")}


def test_times_mean_the_same_in_every_time_zone(spark: "SparkSession", tmp_path: Path) -> None:
    index = save(tmp_path / "index", {"noon": "at = TIMESTAMP '2026-07-01 12:00:00'"})
    noon = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)
    events = spark.createDataFrame(
        [(1, noon), (2, noon.astimezone(dt.timezone(dt.timedelta(hours=5))))], "k int, at timestamp"
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone == "UTC"
    try:
        for other in ("Asia/Kolkata", "America/New_York"):
            spark.conf.set("spark.sql.session.timeZone", other)
            assert sorted(row["event"] for row in tocsin_spark.match(events, index, id="k").collect()) == [1, 2]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_job_keeps_the_snapshot_that_it_was_made_for(spark: "SparkSession", tmp_path: Path) -> None:
    matcher = Matcher(background_merge=False)
    matcher.subscribe("first", "a > 0")
    matcher.save(tmp_path / "index")
    events = spark.createDataFrame([(1, 2)], "key int, a int")
    before = tocsin_spark.match(events, tmp_path / "index", id="key")
    sharded = tocsin_spark.match(events, tmp_path / "index", id="key", shards=1)
    matcher.unsubscribe("first")
    matcher.subscribe("second", "a > 0")
    matcher.compact()
    matcher.commit()
    after = tocsin_spark.match(events, tmp_path / "index", id="key")
    assert [[row["subscription"] for row in frame.collect()] for frame in (before, sharded, after)] == [
        ["first"],
        ["first"],
        ["second"],
    ]
