"""Deliver matches to subscribers: a table of inboxes without repetitions.

Subscriptions have the name of their subscriber as a tag. An inbox is the rows of the table with that name, ordered by
batch and event. Repetitions are found in the table itself, so they are known after a restart too.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from operator import and_
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.types import StringType, StructField, StructType

from tocsin.delivery.addresses import INBOX, addressed, key_names
from tocsin.errors import OptionError
from tocsin.spark._placement.plan_lifetime import keep_while_planned, planning
from tocsin.spark._placement.ship import Index, Place, place
from tocsin.spark._placement.snapshot_dir import pin
from tocsin.spark._worker.batches import open_index
from tocsin.spark.event_columns import column, index_path
from tocsin.spark.sinks import FORMATS, Batch, BatchRecord, BatchTable, running_query

DIGEST = "matches"

BY_HAND = "deliver"
"""The stream of batches that are delivered without a number."""


class Inboxes:
    """A table of inboxes, as the sink of a stream or by `deliver`; each batch is written exactly once.

    `tag` is the tag of a subscription that names its inbox; without it, its matches are not delivered. `dedupe` names
    columns of the matches, such as ``"subscription, isbn"``: an inbox gets each combination once over all batches; pass
    the `keep_columns` that it needs to `match`. With `digest`, an inbox gets one row a batch with all its `matches`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        tag: str,
        dedupe: str | Sequence[str] = (),
        digest: bool = False,
        format: str = "parquet",
        ship_index: bool | None = None,
    ) -> None:
        self.table = BatchTable(path, format)
        self.tag = tag
        self.dedupe = key_names(dedupe)
        self.digest = digest
        self._ship_index = ship_index

    def __call__(self, matches: DataFrame, batch: Batch) -> BatchRecord | None:
        """Deliver the matches of a batch, unless it is already delivered."""
        if not self.table.lacks(batch.number, batch.stream):
            return None
        return self._deliver(matches, batch.index.path, batch.number, batch.stream, batch.index.snapshot, batch)

    def deliver(
        self,
        matches: DataFrame,
        index: Index | str | Path,
        number: int | None = None,
        stream: str | None = None,
    ) -> BatchRecord | None:
        """Deliver matches as batch `number`, unless it is already delivered; by default as the next batch.

        Numbers count within a `stream`, a name that you choose. Within `foreachBatch` it is the id of the query by
        default.
        """
        if number is None:
            last = self.table.last
            number, stream = 0 if last is None else last + 1, stream or BY_HAND
        elif stream is None:
            stream = running_query(matches.sparkSession)
        if stream is None:
            raise OptionError(
                f"batch {number} of which stream?",
                "Give stream, a name that you choose for what is numbered, or leave number out",
            )
        if not self.table.lacks(number, stream):
            return None
        with planning():
            view = pin(index_path(index), required=False)
            if view.is_of_jobs:
                keep_while_planned(view.path)
            return self._deliver(matches, view.path, number, stream, view.snapshot, None)

    def read(self, session: SparkSession, inbox: str | None = None) -> DataFrame:
        """Return all that was delivered, in order; or only that of one inbox."""
        rows = session.read.format(FORMATS[self.table.format]).load(str(self.table.path))
        if inbox is not None:
            rows = rows.filter(F.col(INBOX) == inbox)
        return rows.orderBy(INBOX, "batch", *([] if self.digest else ["event", "subscription"]))

    def demand(self, columns: Sequence[str]) -> None:
        """Raise unless matches with these columns can be delivered."""
        unknown = [name for name in self.dedupe if name not in columns]
        if unknown:
            raise OptionError(
                f"the matches have no column {unknown[0]!r} to find repetitions by",
                f"They have {', '.join(columns)}; ask match for keep_columns=[{unknown[0]!r}]",
            )

    def _deliver(
        self, matches: DataFrame, index: Path, number: int, stream: str, snapshot: int, batch: Batch | None
    ) -> BatchRecord:
        self.demand(matches.columns)
        rows = self._addressed(matches, index)
        if self.dedupe:
            rows = self._news(rows)
        if self.digest:
            content = F.struct("event", *(column([name]) for name in matches.columns if name != "event"))
            rows = rows.groupBy(INBOX).agg(F.sort_array(F.collect_list(content)).alias(DIGEST))
        else:
            rows = rows.repartition(INBOX).sortWithinPartitions(INBOX, "event", "subscription")
        return self.table.write(rows, number, stream, snapshot, batch)

    def _addressed(self, matches: DataFrame, index: Path) -> DataFrame:
        """Add the inbox of each match, which workers look up in the index."""
        fields = [StructField(field.name, field.dataType) for field in matches.schema.fields]
        schema = StructType([*fields, StructField(INBOX, StringType())])
        is_text = isinstance(matches.schema["subscription"].dataType, StringType)
        # The index has ids as Spark writes them; Arrow writes 1.0 and times otherwise.
        rows = matches if is_text else matches.withColumn(INBOX, F.col("subscription").cast("string"))
        task = partial(_address, place=place(index, matches.sparkSession, self._ship_index), tag=self.tag)
        return rows.mapInArrow(task, schema).filter(F.col(INBOX).isNotNull())

    def _news(self, rows: DataFrame) -> DataFrame:
        """Drop repetitions: keep the first row of each combination, if no earlier batch has it."""
        keys = [INBOX, *self.dedupe]
        first = Window.partitionBy(*keys).orderBy("event", "subscription")
        rows = rows.withColumn("_place", F.row_number().over(first)).filter(F.col("_place") == 1).drop("_place")
        if self.table.last is None:
            return rows
        told = rows.sparkSession.read.format(FORMATS[self.table.format]).load(str(self.table.path))
        if self.digest:
            told = told.select(INBOX, F.explode(DIGEST).alias("match")).select(INBOX, "match.*")
        told = told.select(*(column([name]).alias(f"_told {name}") for name in keys)).distinct()
        # NULL is a value like any other here.
        same: list[Column] = [column([name]).eqNullSafe(column([f"_told {name}"])) for name in keys]
        return rows.join(told, reduce(and_, same), "left_anti")


def deliver(
    matches: DataFrame,
    path: str | Path,
    *,
    index: Index | str | Path,
    tag: str,
    dedupe: str | Sequence[str] = (),
    digest: bool = False,
    number: int | None = None,
    stream: str | None = None,
) -> BatchRecord | None:
    """Deliver matches to the inboxes in `path`, as batch `number` of a `stream` or as the next batch; see `Inboxes`."""
    return Inboxes(path, tag=tag, dedupe=dedupe, digest=digest).deliver(matches, index, number, stream)


def _address(batches: Iterable[pa.RecordBatch], place: Place, tag: str) -> Iterator[pa.RecordBatch]:
    matcher = open_index(place.folder(), place.fingerprint)
    for batch in batches:
        names = batch.schema.names
        if INBOX not in names:
            yield addressed(batch, matcher, tag)
            continue
        # The last column has the ids of subscriptions as texts.
        texts = pa.RecordBatch.from_arrays([batch.columns[-1]], ["subscription"])
        inboxes = addressed(texts, matcher, tag).column(INBOX)
        yield pa.RecordBatch.from_arrays([*batch.columns[:-1], inboxes], names=names)
