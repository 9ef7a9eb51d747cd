"""The same cases for every way to run: in process, on Spark, by shards, on a cluster; also as a program, to be killed.

`FAMILIES` has every family of predicates, `WHERES` a few subscriptions for the runs in which processes are killed.

python spark_cases.py suite MASTER FOLDER     all answers, as one line of JSON
python spark_cases.py rows MASTER FOLDER      a slow batch job for each line of input; executors may be killed meanwhile
python spark_cases.py files MASTER FOLDER     the same over files that workers read
python spark_cases.py stream FOLDER           a stream over the files in FOLDER, to its end; it may be killed
"""

import datetime as dt
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tocsin.matcher import Matcher
from tocsin.registry import MatcherName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answer = list[list[Any]]

WHERES = {
    **{f"range {n}": f"a BETWEEN {n} AND {n + 7} AND b < {n}.5" for n in range(6, 60, 6)},
    "in": "a IN (3, 5, 7) OR s = 'Ada'",
    "like": "s LIKE 'A%' AND b > 2",
    "null": "s IS NULL",
    "not": "NOT (a > 10 OR b > 20)",
    "two attributes": "a < b",
}
SCHEMA = "key long, a long, b double, s string"


def rows(count: int = 300) -> list[tuple[int, int | None, float, str | None]]:
    names = ["Ada", "Abe", "Bob", None]
    return [(n, None if n % 41 == 0 else n * 7 % 67, n * 13 % 50 / 2, names[n * 11 % 4]) for n in range(count)]


def table(wheres: dict[str, str]) -> pa.Table:
    return pa.table({"id": list(wheres), "where": list(wheres.values())})


FAMILIES = {
    "ranges": {
        **{f"range {n}": f"a BETWEEN {n} AND {n + 9} AND b < {n}.5" for n in range(6, 60, 6)},
        **{f"wide {n}": f"a > {n} AND b > {n} AND c < {60 - n} AND price >= {n}.25" for n in range(0, 9, 3)},
        "in": "a IN (3, 5, 7) OR s = 'Ada'",
        "decimal": "price = 12.25 OR price > 16.4",
        "time": "at >= TIMESTAMP '2020-01-02 12:00:00' AND day < DATE '2020-01-05'",
        "flag": "flag AND s <> 'Bob'",
        "nested": "place.city = 'Rome' AND a < 40",
    },
    "logic": {
        "null": "s IS NULL",
        "not": "NOT (a > 10 OR b > 20)",
        "not true": "(a > 10 AND s = 'Ada') IS NOT TRUE",
        "tree": " AND ".join(f"(a = {n} OR b < {n + 8} OR s = 'Abe' OR flag)" for n in range(1, 7)),
        "always": "TRUE",
    },
    "attributes": {"less": "a < b", "between": "b BETWEEN c AND a", "distinct": "a IS DISTINCT FROM c"},
    "expressions": {
        "product": "a * 2 + c > 70",
        "text": "upper(s) = 'ADA' AND length(text) > 20",
        "case": "CASE WHEN flag THEN a ELSE b END > 15",
        "hour": "hour(at) BETWEEN 3 AND 7",
        "old": "at < now() - INTERVAL 7 DAYS AND a % 5 = 0",
    },
    "patterns": {
        "prefix": "s LIKE 'A%' AND b > 2",
        "inside": "text LIKE '%bike%'",
        "any case": "text ILIKE '%STOLEN%red%'",
        "glob": "text GLOB '*[rs]ed*'",
        "any": "text LIKE ANY ('A %', '%station')",
    },
    "regexps": {"expression": "text ~ 'b[io]ke?\\b'", "whole": "s SIMILAR TO 'A[bd].'"},
    "words": {
        "words": "has_words(text, 'red bike')",
        "beginning": "has_words(text, 'stat* new')",
        "phrase": "has_phrase(text, 'new york')",
    },
    "windows": {
        "near": "has_words(text, 'bike stolen', near => 3)",
        "some": "has_words(text, 'red bike york', min_words => 2)",
        "slop": "has_phrase(text, 'stolen bike', slop => 2)",
        "case": "has_words(text, 'Stolen', exact_case => TRUE)",
    },
    "addresses": {"network": "ip_in(ip, '10.0.0.0/28', '2001:db8::/32')", "other": "NOT ip_in(ip, '10.0.0.0/30')"},
    "places": {
        "circle": "within_distance(lat, lon, 48.85, 2.35, '200 km')",
        "box": "within_box(lat, lon, 48, 2, 49.5, 3)",
        "polygon": "within_polygon(lat, lon, 'POLYGON ((2 47, 4 47, 4 49, 2 47))')",
    },
    "lists": {
        "contains": "array_contains(tags, 'x')",
        "all": "list_has_all(tags, ['x', 'y'])",
        "length": "len(tags) = 2",
        "element": "EXISTS (SELECT 1 FROM UNNEST(items) i WHERE i.sku = 'x' AND i.qty > 1)",
    },
    "xpath": {
        "path": "xpath_exists(doc, '/nitf//p[@lede=\"true\"]')",
        "value": "xpath_exists(doc, '//p = \"two\"')",
        "second": "xpath_exists(doc, '/nitf/p[2]')",
    },
}
"""Subscriptions of every family of predicates."""
HISTORY = {
    "record": "a > ALL (SELECT a FROM history WHERE a IS NOT NULL)",
    "seen": "s IN (SELECT s FROM history)",
    "repeated": "EXISTS (SELECT 1 FROM history h WHERE h.s = event.s AND h.a > event.a)",
    "window": "NOT EXISTS (SELECT 1 FROM history h WHERE h.s = event.s AND h.at >= event.at - INTERVAL 9 HOURS)",
    "average": "b > (SELECT avg(b) FROM history h WHERE h.s = event.s)",
}
"""Subscriptions that look back, which only ways with an order take."""
ALL = {f"{family}: {id}": where for family, wheres in FAMILIES.items() for id, where in wheres.items()}
IN_ORDER = {**ALL, **{f"history: {id}": where for id, where in HISTORY.items()}}
COLUMNS = (
    "key long, a long, b double, c int, price decimal(10,2), s string, flag boolean, at timestamp, day date, "
    "place struct<city:string>, text string, ip string, lat double, lon double, tags array<string>, "
    "items array<struct<sku:string,qty:int>>, doc string"
)
NAMES = [column.split()[0] for column in COLUMNS.split(", ")]
START = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
TEXTS = [
    "Stolen: a red bike",
    "A red station in New York",
    "the bike",
    "new books, bok, used",
    "one stolen bike station",
]
DOCUMENTS = [
    "<nitf><b><p lede='true'/></b></nitf>",
    "<nitf><p>one</p><p>two</p></nitf>",
    "<nitf>broken",
    "<other><p>two</p></other>",
]
ADDRESSES = ["10.0.0.{n}", "2001:db8::{n}", "nowhere", "192.168.0.{n}"]


def suite_rows(count: int = 150) -> list[tuple[Any, ...]]:
    """Events with an attribute for every family, each NULL now and then."""
    found = []
    for n in range(count):
        row: list[Any] = [n * 7 % 67, n * 13 % 50 / 2, n * 5 % 31, Decimal(n * 11 % 70) / 4]
        row += [["Ada", "Abe", "Bob"][n * 11 % 3], n % 3 == 0, START + dt.timedelta(hours=n)]
        row += [(START + dt.timedelta(hours=n)).date(), {"city": ["Rome", "Milos", None][n % 3]}, TEXTS[n * 3 % 5]]
        row += [ADDRESSES[n % 4].format(n=n % 40), 46 + n % 17 / 5, 1 + n % 13 / 4, ["x", "y", "z"][: n % 4]]
        row += [[{"sku": "xyz"[n % 3], "qty": q} for q in range(n % 6)], DOCUMENTS[n % 4]]
        found.append((n, *(None if (n + 3 * place) % 23 == 0 else value for place, value in enumerate(row))))
    return found


def few_in_process() -> Answer:
    """What the matcher answers to the few subscriptions."""
    return in_process(WHERES, events=[dict(zip(("key", "a", "b", "s"), row, strict=True)) for row in rows()])


def in_process(
    wheres: dict[str, str],
    remember: bool = False,
    matcher: MatcherName = "auto",
    events: Sequence[dict[str, Any]] | None = None,
) -> Answer:
    """What the matcher answers, with the events in the order of their keys."""
    events = events or [dict(zip(NAMES, row, strict=True)) for row in suite_rows()]
    subscribed = Matcher.from_table(table(wheres), matcher=matcher)
    found = subscribed.publish_batch(events, id="key") if remember else subscribed.match_batch(events, id="key")
    return sorted([row["event"], row["subscription"]] for row in found.to_pylist())


def on_spark(spark: "SparkSession", folder: Path) -> dict[str, Answer]:
    """The answers of every way to match on Spark."""
    from tocsin import spark as tocsin_spark

    def frame(wheres: dict[str, str]) -> "DataFrame":
        return spark.createDataFrame(list(wheres.items()), "id string, where string")

    def stream(wheres: "tocsin_spark.Index", name: str, **options: Any) -> "DataFrame":
        arriving = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 2).parquet(str(folder / "events"))
        where: dict[str, Any] = {"checkpoint": folder / f"checkpoint of {name}", "sink": folder / name, **options}
        for trial in range(10):
            try:
                query = tocsin_spark.stream(arriving, wheres.path, id="key", trigger={"availableNow": True}, **where)
                break
            except Exception as error:
                # A Spark Connect server waits 10 seconds for the Python process of foreachBatch, whatever is set.
                if trial == 9 or "Python worker" not in str(error):
                    raise
        query.awaitTermination()
        return spark.read.parquet(str(folder / name))

    events = spark.createDataFrame(suite_rows(), COLUMNS)
    # Files in the order of keys, so that a stream meets the events in it.
    events.repartitionByRange(3, "key").sortWithinPartitions("key").write.mode("overwrite").parquet(
        str(folder / "events")
    )
    for number, file in enumerate(sorted((folder / "events").glob("*.parquet"))):
        os.utime(file, (number, number))
    events = events.repartition(3)
    index = tocsin_spark.build(frame(ALL), folder / "index", segments=3)
    in_order = tocsin_spark.build(frame(IN_ORDER), folder / "index in order", segments=2)
    matches = {
        "rows": tocsin_spark.match(events, index, id="key"),
        "files": tocsin_spark.match(folder / "events", index, id="key"),
        "shards": tocsin_spark.match(events, index, id="key", shards=2),
        "shipped": tocsin_spark.match(events, index, id="key", ship_index=True),
        "stream": stream(index, "matches"),
        "in order": tocsin_spark.match(events, in_order, id="key", order="key", partitions=3),
        "stream in order": stream(in_order, "matches in order", order="key"),
    }
    return {
        name: sorted([row["event"], row["subscription"]] for row in frame.select("event", "subscription").collect())
        for name, frame in matches.items()
    }


WAYS = "rows", "files", "shards", "shipped", "stream"
WAYS_IN_ORDER = "in order", "stream in order"


def expected() -> dict[str, Answer]:
    """What each way must answer: what the matcher does in process."""
    plain, in_order = in_process(ALL), in_process(IN_ORDER, remember=True)
    return dict.fromkeys(WAYS, plain) | dict.fromkeys(WAYS_IN_ORDER, in_order)


def slow(batches: Iterator[pa.RecordBatch], seconds: float) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(seconds)
        yield batch


def slow_rows(spark: "SparkSession", folder: Path) -> "DataFrame":
    """Matches by 30 tasks that get their events slowly."""
    from tocsin import spark as tocsin_spark

    events = spark.createDataFrame(rows(), SCHEMA).repartition(30).mapInArrow(partial(slow, seconds=0.2), SCHEMA)
    return tocsin_spark.match(events, folder / "index", id="key")


def slow_files(spark: "SparkSession", folder: Path) -> "DataFrame":
    """Matches by 4 tasks that read files and give what they found slowly."""
    from tocsin import spark as tocsin_spark

    spark.createDataFrame(rows(), SCHEMA).repartition(30).write.mode("overwrite").parquet(str(folder / "events"))
    found = tocsin_spark.match(folder / "events", folder / "index", id="key")
    return found.mapInArrow(partial(slow, seconds=0.8), found.schema)


def slow_batches(found: "DataFrame") -> None:
    """A job for each line of the input."""
    for _ in sys.stdin:
        print("RUNNING", flush=True)
        answer = sorted([row["event"], row["subscription"]] for row in found.collect())
        print("ANSWER" + json.dumps(answer), flush=True)


def stream_files(spark: "SparkSession", folder: Path) -> None:
    """Match a file a batch, and commit a subscription after every second batch."""
    from tocsin import spark as tocsin_spark

    writer = Matcher.open(folder / "index", background_merge=False)

    def commit(record: tocsin_spark.BatchRecord, _: float) -> None:
        if record.batch % 2:
            writer.subscribe(f"after {record.batch}", "a >= 0")
            writer.commit()

    arriving = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "events"))
    query = tocsin_spark.stream(
        arriving,
        folder / "index",
        id="key",
        checkpoint=folder / "checkpoint",
        sink=folder / "matches",
        trigger={"availableNow": True},
        listener=commit,
    )
    print("RUNNING", flush=True)
    query.awaitTermination()


def main(mode: str, *arguments: str) -> None:
    from tocsin.spark.cluster import SETTINGS
    from tocsin.spark.session import local_session

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    master = "local[2]" if mode == "stream" else arguments[0]
    folder = Path(arguments[-1])
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.driver.memory": "512m"}
    with local_session(master, {**SETTINGS, **quick, "spark.sql.shuffle.partitions": "2"}) as spark:
        if mode == "suite":
            print("ANSWER" + json.dumps(on_spark(spark, folder)), flush=True)
        elif mode == "rows":
            slow_batches(slow_rows(spark, folder))
        elif mode == "files":
            slow_batches(slow_files(spark, folder))
        else:
            stream_files(spark, folder)
            print('ANSWER"done"', flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
