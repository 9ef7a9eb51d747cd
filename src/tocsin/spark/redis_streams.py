"""A Spark data source for Redis Streams: a broker whose entries a stream can read again, in order, as often as it must.

    spark.dataSource.register(RedisStreams)
    entries = spark.readStream.format("redis_streams").options(url="redis://localhost", streams="orders").load()
    events = entries.selectExpr("entry", "CAST(fields['price'] AS double) AS price")

An offset is the id of the last entry read of each stream. Entries never change, so a batch that is replayed after a
crash has the same ones, and `tocsin.spark.stream` writes them to a table exactly once. It needs PySpark 4.2 and the
package `redis` (``pip install 'tocsin[spark,redis]'``), and Redis 7, which counts the entries of a stream.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tocsin.errors import EventError, MissingDependencyError, OptionError

SCHEMA = pa.schema([("stream", pa.string()), ("entry", pa.string()), ("fields", pa.map_(pa.string(), pa.string()))])
PAGE = 10_000
"""The entries of one request to Redis, and of one record batch."""

Position = dict[str, str | int]
"""The `id` of the last entry read of a stream, and how many `entries` it had been given up to that one."""
Offsets = dict[str, Position]
"""The position in each stream."""


class RedisStreams(DataSource):
    """Rows `stream, entry, fields` of the entries of Redis Streams: their names, ids and fields, which are texts.

    Options: `url` (``redis://…``, ``rediss://…``, ``unix://…``); `streams`, names joined by commas, a task each;
    `maxEntriesPerTrigger`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "redis_streams"

    def schema(self) -> str:
        """Return the columns."""
        return "stream string, entry string, fields map<string, string>"

    def streamReader(self, schema: StructType) -> "EntryReader":  # noqa: N802, ARG002 (as Spark calls it)
        """Return the reader of a query."""
        return EntryReader(self.options)


@dataclass(frozen=True)
class Entries(InputPartition):
    """The entries of a stream after one id, up to another, and how many they are."""

    stream: str
    after: str
    last: str
    count: int


class EntryReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Say which entries there are, in the driver, and read them, in tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        missing = [name for name in ("url", "streams") if name not in options]
        if missing:
            raise OptionError(f"the option {missing[0]} is missing", 'Give .options(url="redis://…", streams="orders")')
        self.url = options["url"]
        self.streams = [name.strip() for name in options["streams"].split(",")]
        self.limit = int(options["maxEntriesPerTrigger"]) if "maxEntriesPerTrigger" in options else None
        self.until: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802 (this and the names below are Spark's)
        """Return the position before the oldest entry that there is."""
        return {
            name: {"id": "0-0", "entries": facts["entries-added"] - facts["length"]} for name, facts in self._facts()
        }

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how many entries a batch may have."""
        return ReadAllAvailable() if self.limit is None else ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note where a query ends that takes only what is there now."""
        self.until = self._newest()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """Return the position after the next batch."""
        before, until = {**self.initialOffset(), **start}, self.until or self._newest()
        each = limit.max_rows // len(self.streams) or 1 if isinstance(limit, ReadMaxRows) else None
        found = {}
        with connected(self.url) as redis:
            for name, at in before.items():
                end = max(at, until[name], key=_order)
                page = [] if each is None else redis.xrange(name, f"({at['id']}", str(end["id"]), count=each)
                is_cut = each is not None and len(page) == each
                found[name] = {"id": page[-1][0], "entries": int(at["entries"]) + len(page)} if is_cut else end
        return found

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return what tasks read: the new entries of each stream."""
        before = {**self.initialOffset(), **start}
        return [
            Entries(name, str(at["id"]), str(end[name]["id"]), int(end[name]["entries"]) - int(at["entries"]))
            for name, at in before.items()
            if end[name] != at
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a partition; raise if some are gone."""
        assert isinstance(partition, Entries), "this is what partitions() made"
        after, count = partition.after, 0
        with connected(self.url) as redis:
            while page := redis.xrange(partition.stream, f"({after}", partition.last, count=PAGE):
                after, count = page[-1][0], count + len(page)
                ids, fields = zip(*page, strict=True)
                columns = [[partition.stream] * len(page), list(ids), [list(entry.items()) for entry in fields]]
                arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        if count != partition.count:
            raise EventError(
                f"of {partition.count} entries of the stream {partition.stream} after {partition.after}, "
                f"{partition.count - count} were deleted before they were matched",
                "Trim only what the checkpoint has left behind; or start with a new checkpoint",
            )

    def _newest(self) -> Offsets:
        """Return the position after the newest entry of each stream."""
        return {
            name: {"id": facts["last-generated-id"], "entries": facts["entries-added"]} for name, facts in self._facts()
        }

    def _facts(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what Redis knows of each stream; one that is not there yet is empty."""
        empty = {"last-generated-id": "0-0", "entries-added": 0, "length": 0}
        with connected(self.url) as redis:
            return [(name, redis.xinfo_stream(name) if redis.exists(name) else empty) for name in self.streams]


def connected(url: str) -> Any:
    """Return a client of Redis, which is closed at the end of the context."""
    try:
        from redis import Redis
    except ImportError as error:
        raise MissingDependencyError("this source needs redis", "Run pip install 'tocsin[spark,redis]'") from error
    return Redis.from_url(url, decode_responses=True)


def _order(position: Position) -> tuple[int, ...]:
    """Return the milliseconds and the number of an id, which order entries."""
    return tuple(map(int, str(position["id"]).split("-")))
