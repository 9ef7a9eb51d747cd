"""The same cases for every way to run: in process, on Spark, by shards, on a cluster; also as a program, to be killed.

python spark_cases.py suite MASTER FOLDER     all answers, as one line of JSON
python spark_cases.py rows MASTER FOLDER      a slow batch job for each line of input; executors may be killed meanwhile
python spark_cases.py files MASTER FOLDER     the same over files that workers read
python spark_cases.py stream FOLDER           a stream over the files in FOLDER, to its end; it may be killed
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tocsin.matcher import Matcher

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
LOOKING_BACK = {
    "record": "a > ALL (SELECT a FROM history)",
    "repeated": "EXISTS (SELECT 1 FROM history h WHERE h.s = event.s AND h.a > event.a)",
}
SCHEMA = "key long, a long, b double, s string"


def rows(count: int = 300) -> list[tuple[int, int | None, float, str | None]]:
    names = ["Ada", "Abe", "Bob", None]
    return [(n, None if n % 41 == 0 else n * 7 % 67, n * 13 % 50 / 2, names[n * 11 % 4]) for n in range(count)]


def table(wheres: dict[str, str]) -> pa.Table:
    return pa.table({"id": list(wheres), "where": list(wheres.values())})


def in_process(wheres: dict[str, str], remember: bool = False) -> Answer:
    """What the matcher answers, with the events in the order of their keys."""
    events = [dict(zip(("key", "a", "b", "s"), row, strict=True)) for row in rows()]
    matcher = Matcher.from_table(table(wheres))
    found = matcher.publish_batch(events, id="key") if remember else matcher.match_batch(events, id="key")
    return sorted([row["event"], row["subscription"]] for row in found.to_pylist())


def on_spark(spark: "SparkSession", folder: Path) -> dict[str, Answer]:
    """The answers of every way to match on Spark."""
    from tocsin import spark as tocsin_spark

    def frame(wheres: dict[str, str]) -> "DataFrame":
        return spark.createDataFrame(list(wheres.items()), "id string, where string")

    events = spark.createDataFrame(rows(), SCHEMA).repartition(3)
    index = tocsin_spark.build(frame(WHERES), folder / "index", segments=3)
    looking_back = tocsin_spark.build(frame({**WHERES, **LOOKING_BACK}), folder / "looking back", segments=2)
    events.write.mode("overwrite").parquet(str(folder / "events"))
    arriving = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(str(folder / "events"))
    tocsin_spark.stream(
        arriving,
        index.path,
        id="key",
        checkpoint=folder / "checkpoint",
        sink=folder / "matches",
        trigger={"availableNow": True},
    ).awaitTermination()
    matches = {
        "batch": tocsin_spark.match(events, index, id="key"),
        "files": tocsin_spark.match(folder / "events", index, id="key"),
        "shards": tocsin_spark.match(events, index, id="key", shards=2),
        "history": tocsin_spark.match(events, looking_back, id="key", order="key", partitions=3),
        "stream": spark.read.parquet(str(folder / "matches")),
    }
    return {
        name: sorted([row["event"], row["subscription"]] for row in frame.select("event", "subscription").collect())
        for name, frame in matches.items()
    }


def expected() -> dict[str, Answer]:
    plain = in_process(WHERES)
    history = in_process({**WHERES, **LOOKING_BACK}, remember=True)
    return {"batch": plain, "files": plain, "shards": plain, "history": history, "stream": plain}


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
