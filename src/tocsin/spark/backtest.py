"""Back-tests on Spark: the matches that events of the past gain and lose if subscriptions change."""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.types import DateType, StringType, StructField, StructType

from tocsin.errors import OptionError, SubscriptionError
from tocsin.files.backtest import GAINED, LOST, Contrast, Source, changes_of, days
from tocsin.files.backtest_plot import as_svg, as_text
from tocsin.files.parquet_scan import ReadCounts
from tocsin.files.row_group_filter import RowGroupFilter
from tocsin.spark._placement.plan_lifetime import keep_while_planned
from tocsin.spark._placement.ship import Index, Place, place, scratch
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot, newest
from tocsin.spark._worker.batches import ALL_MATCHES, match_slices, open_index, united
from tocsin.spark._worker.row_groups import read_row_groups
from tocsin.spark.event_columns import event_steps, leading_columns, numbered_paths
from tocsin.spark.evidence import MatchEvidence
from tocsin.spark.ordered import match_in_order
from tocsin.spark.parquet import Reader, RowGroupPlan, check_reader, plan, read_parquet
from tocsin.spark.read_files import MALFORMED, read_events

_CHANGE_FIELDS = [pa.field(name, pa.string(), nullable=False) for name in ("subscription", "change")]


@dataclass(frozen=True)
class SparkBacktest:
    """A back-test on Spark; `str()` of it runs it and is a small plot."""

    changes: DataFrame
    """Lazy: `event`, `subscription`, `change` (gained or lost), and `day` if there is a time."""
    subscriptions: int
    """The ids that have changed, come or gone."""
    read: ReadCounts | None
    """What workers read and skip of Parquet files; None if Spark reads the events."""
    rejected: list[SubscriptionError] = field(default_factory=list)
    """The changed subscriptions that cannot be understood, and why."""

    @property
    def summary(self) -> DataFrame:
        """The counts `subscription, day, gained, lost`; `day` is NULL if there is no time."""
        rows = (
            self.changes if "day" in self.changes.columns else self.changes.withColumn("day", F.lit(None).cast("date"))
        )
        counts = [F.count_if(F.col("change") == change).alias(change) for change in (GAINED, LOST)]
        return rows.groupBy("subscription", "day").agg(*counts).orderBy("subscription", "day")

    def __str__(self) -> str:
        return as_text(self.summary.toArrow())

    def svg(self) -> str:
        """Run the back-test and draw the changes by day, or by subscription if there is no time."""
        return as_svg(self.summary.toArrow())


def backtest(
    events: DataFrame | str | Path,
    before: DataFrame | Index | str | Path,
    after: DataFrame | Index | str | Path,
    *,
    id: str,
    time: str | None = None,
    order: str | None = None,
    partitions: int | None = None,
    reader: Reader | None = None,
    ship_index: bool | None = None,
) -> SparkBacktest:
    """Return the matches that events of the past gain and lose if the subscriptions `before` become those `after`.

    The subscriptions of each side are a DataFrame `id, where`, an index, or a file of subscriptions. The driver finds
    those that differ, by id and by meaning; only these are matched, lazily. `events`, `id` and `reader` are those of
    `match`; of Parquet files that workers read, row groups in which no changed condition can hold are skipped. The
    column `time` gives the day of an event, in UTC.

    If a changed subscription looks back, `order` is the column that orders events; those of the back-test alone are the
    history, a first pass runs now, and the values of `id` must be unique.
    """
    check_reader(reader)
    if isinstance(events, DataFrame):
        reader = reader or "spark"
    else:
        events = read_parquet(events, next((s.sparkSession for s in (before, after) if isinstance(s, DataFrame)), None))
    return _contrasted(
        events, Contrast.of(_side(before), _side(after)), id, time, order, partitions, reader, ship_index
    )


def _side(side: DataFrame | Index | str | Path) -> Source:
    if isinstance(side, DataFrame):
        return side.toArrow()
    return side.path if isinstance(side, Index) else side


def _contrasted(
    events: DataFrame,
    contrast: Contrast,
    id: str,
    time: str | None,
    order: str | None = None,
    partitions: int | None = None,
    reader: Reader | None = None,
    ship_index: bool | None = None,
) -> SparkBacktest:
    kept = [time] if time is not None and time != id else []
    leading = leading_columns(events, id, kept)
    folder = Path(tempfile.mkdtemp(prefix="changes-", dir=scratch()))
    contrast.matcher.save(folder)
    fields = [
        StructField("event", events.schema[id].dataType),
        StructField("subscription", StringType(), nullable=False),
        StructField("change", StringType(), nullable=False),
        *([StructField("day", DateType())] if time is not None else []),
    ]
    if contrast.looks_back or order is not None:
        if order is None:
            raise OptionError("a changed subscription looks back", 'Give the order of events: order="column"')
        index = (folder, PinnedSnapshot(folder, newest(folder), is_of_jobs=True))
        found = match_in_order(
            events, index, ALL_MATCHES, MatchEvidence(), id, order, (kept, ()), partitions, ship_index
        ).withColumn("score", F.when(F.startswith(F.col("subscription"), F.lit("+")), 1.0).otherwise(-1.0))
        name = F.substring("subscription", 2, 1 << 30).alias("subscription")
        netted = found.groupBy("event", name, *kept).agg(F.sum("score").alias("score")).filter("score <> 0")
        ordered = netted.select("event", "subscription", "score", *kept)
        changes = ordered.mapInArrow(partial(_worded, time=time), StructType(fields))
        return SparkBacktest(changes, len(contrast.names), None, contrast.rejected)
    columns = leading | event_steps(events.schema, contrast.matcher.attributes - leading.keys())
    work = plan(events, columns, reader, RowGroupFilter(contrast.matcher.forms))
    placed = place(folder, events.sparkSession, ship_index)
    task = partial(
        _change_partition,
        place=placed,
        names=tuple(columns),
        keep=len(leading),
        time=time,
        work=work,
    )
    if work is None:
        rows = numbered_paths(events, columns.values())
    else:
        rows = events.sparkSession.range(0, len(work.tasks), numPartitions=max(len(work.tasks), 1))
    changes = rows.mapInArrow(task, StructType(fields))
    keep_while_planned(folder, None if placed.is_artifact else changes)
    return SparkBacktest(changes, len(contrast.names), None if work is None else work.read, contrast.rejected)


def backtest_files(
    session: SparkSession,
    contrast: Contrast,
    events: Path,
    output: Path,
    format: str,
    id: str,
    time: str | None,
    order: str | None,
) -> tuple[pa.Table, ReadCounts]:
    """Write the changes to a folder; return their summary and what was read."""
    kinds = {
        name: contrast.matcher.kinds.get(name, set()) for name in (*contrast.matcher.attributes, time, order) if name
    }
    source = read_events(session, events, kinds, id)
    frame = session.read.parquet(str(source.path)) if source.format == "parquet" else source.events
    if source.can_be_malformed:
        frame = frame.filter(F.col(MALFORMED).isNull())
    found = _contrasted(frame, contrast, id, time, order)
    found.changes.write.format("json" if format == "jsonl" else format).save(str(output))
    written = session.read.schema(found.changes.schema).format("json" if format == "jsonl" else format)
    done = SparkBacktest(written.load(str(output)), found.subscriptions, found.read)
    return done.summary.toArrow(), found.read or ReadCounts(events=frame.count())


@lru_cache(maxsize=2)
def _contrast(path: str, fingerprint: str) -> Contrast:
    return Contrast(open_index(path, fingerprint))


def _change_partition(
    batches: Iterable[pa.RecordBatch],
    place: Place,
    names: tuple[str, ...],
    keep: int,
    time: str | None,
    work: RowGroupPlan | None,
) -> Iterator[pa.RecordBatch]:
    """Find the changes of a partition; with `work` its rows are numbers of tasks, whose row groups are read here."""
    if work is not None:
        tasks = (work.tasks[number] for batch in batches for number in batch.column(0).to_pylist())
        batches = (events for pieces in tasks for events in read_row_groups(pieces, work.attributes))
    named = (batch.rename_columns(names) for batch in united(batches))
    contrast = _contrast(place.folder(), place.fingerprint)
    return _worded(match_slices(contrast.changes, named, keep), time)


def _worded(changes: Iterable[pa.RecordBatch], time: str | None) -> Iterator[pa.RecordBatch]:
    """Replace scores by the words for them, and times by days."""
    for batch in changes:
        event = batch.column("event")
        columns = [event, batch.column("subscription"), changes_of(batch.column("score"))]
        fields = [pa.field("event", event.type), *_CHANGE_FIELDS]
        if time is not None:
            columns.append(days(batch.column(time) if time in batch.schema.names else event, time))
            fields.append(pa.field("day", pa.date32()))
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
