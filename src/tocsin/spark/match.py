"""Match a DataFrame or files of events: one narrow stage, lazy, no shuffle."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.types import DataType, DoubleType, StringType, StructField, StructType

from tocsin.errors import OptionError, StorageError
from tocsin.index.history_planner import refuse
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence
from tocsin.ranking.request import Interval, Mode, ScoreBy
from tocsin.spark._placement.shards import shard
from tocsin.spark._placement.ship import Index, Place, place
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot, pin
from tocsin.spark._worker.batches import COLUMNS, MatchOptions, match_batches
from tocsin.spark._worker.row_groups import read_row_groups
from tocsin.spark.build import build
from tocsin.spark.evidence import MatchEvidence, Reporter
from tocsin.spark.parquet import RowGroupPlan, plan, read_parquet


def match(
    events: DataFrame | str | Path,
    subscriptions: DataFrame | Index | str | Path,
    *,
    id: str,
    keep_columns: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    top_k: int | None = None,
    mode: Mode = "exact",
    score_by: ScoreBy = "sum",
    interval: Interval = "overlaps",
    shards: int | None = None,
    ship_index: bool | None = None,
    evidence: MatchEvidence | None = None,
) -> DataFrame:
    """Return the matches of the events as a lazy DataFrame `event, subscription, score` and the `keep_columns`.

    `events` is a DataFrame; or a folder, a file or a glob of Parquet files, which are listed now. Workers read them by
    themselves, which costs less than to have Spark read them. So they do if a DataFrame is nothing but such files.

    `subscriptions` is a DataFrame `id, where[, score]`, of which an index is built now; or an index that `build` or
    `Matcher.save` made. Events are named by their column `id`; of the others only those that a subscription names are
    read and moved. Struct fields are dotted names. Also a step of a chain: ``events.transform(match, index, id="id")``.

    With `tags`, only subscriptions that have all of them count. With `top_k`, each event has its best matches only, as
    `Matcher.top_k` has them by this `mode`, `score_by` and `interval`. With `shards`, the index is divided into
    so many groups of segments, and each task maps only one: for an index that does not fit a host. The events are then
    read once for each, and for `top_k` the best of all shards are found by a shuffle on `event`, which must name an
    event.

    Workers map the index in place if they run on this machine; otherwise it is shipped to each executor once. With
    ``ship_index=False`` it must be on storage that all of them mount at the same path. The subscriptions are those of
    the snapshot that is the newest now, for all tasks and whenever they run. If some of them look back at earlier
    events, call `match_in_order`: here events have no order.

    Values that a subscription cannot be compared with, or that cannot be read, count as NULL, and the log says so. With
    `evidence` they are counted, and the work and time of all tasks.
    """
    options = MatchOptions(dict(tags or {}), top_k, mode, score_by, interval)
    if isinstance(events, (str, Path)):
        events = read_parquet(events, subscriptions.sparkSession if isinstance(subscriptions, DataFrame) else None)
    view = pin(index_path(subscriptions), required=shards is not None)
    refuse(Matcher.open(view.path, mode="read").looking_back(tags), "Leave them out, or call match_in_order")
    return match_view(
        events,
        view,
        options,
        evidence or MatchEvidence(),
        id=id,
        keep_columns=keep_columns,
        shards=shards,
        ship_index=ship_index,
    )


def match_view(
    events: DataFrame,
    view: PinnedSnapshot,
    options: MatchOptions,
    evidence: MatchEvidence,
    *,
    id: str,
    keep_columns: Sequence[str],
    shards: int | None,
    ship_index: bool | None,
) -> DataFrame:
    """Match against a view of an index; see `match`."""
    leading = leading_columns(events, id, keep_columns)
    parts = [view.path] if shards is None else shard(view, shards)
    frames = [
        _match_on(events, leading, part, number, ship_index, options, evidence) for number, part in enumerate(parts)
    ]
    if shards is None:
        return frames[0]
    united = reduce(DataFrame.unionAll, frames)
    return united if options.top_k is None else _best(united, options.top_k)


def index_path(subscriptions: DataFrame | Index | str | Path) -> Path:
    """The folder of the index of the subscriptions; built now if they are a DataFrame."""
    if isinstance(subscriptions, DataFrame):
        subscriptions = build(subscriptions)
    path = Path(subscriptions.path if isinstance(subscriptions, Index) else subscriptions).absolute()
    if not path.is_dir():
        raise StorageError(f"there is no index in {path}", "Make one with tocsin.spark.build or Matcher.save")
    return path


def leading_columns(events: DataFrame, id: str, keep_columns: Sequence[str]) -> dict[str, Column]:
    """The columns that go with each match: the one that names the event, then those to keep."""
    for name, purpose in [(id, "to name them by"), *((name, "to keep") for name in keep_columns)]:
        if name not in events.columns:
            raise OptionError(
                f"the events have no column {name!r} {purpose}", f"Choose from {', '.join(events.columns)}"
            )
    taken = [name for name in keep_columns if name in (*COLUMNS, id)]
    if taken:
        raise OptionError(
            f"{taken[0]!r} is a column of the matches already", "Rename it, or leave it out of keep_columns"
        )
    return {name: column([name]) for name in (id, *keep_columns)}


def match_schema(events: DataFrame, leading: Sequence[str], all_named: bool = False) -> StructType:
    """The columns of the matches; `event` is never NULL if all events are named."""
    id, *kept = leading
    # What is never NULL is not asked for it, row by row: that was a third of what the JVM did with matches.
    return StructType(
        [
            StructField("event", events.schema[id].dataType, nullable=not all_named),
            StructField("subscription", StringType(), nullable=False),
            StructField("score", DoubleType(), nullable=False),
            *(StructField(name, events.schema[name].dataType) for name in kept),
        ]
    )


def numbered(events: DataFrame, columns: Iterable[Column]) -> DataFrame:
    """The columns under numbers: mapInArrow takes no names with dots, so workers get the names beside."""
    return events.select(*(source.alias(str(number)) for number, source in enumerate(columns)))


def _match_on(
    events: DataFrame,
    leading: dict[str, Column],
    path: Path,
    number: int,
    ship_index: bool | None,
    options: MatchOptions,
    evidence: MatchEvidence,
) -> DataFrame:
    attributes = event_steps(events.schema, Matcher.open(path, mode="read").attributes - leading.keys())
    work = plan(events, {name: [name] for name in leading} | attributes)
    columns = leading | {name: column(steps) for name, steps in attributes.items()}
    schema = match_schema(events, list(leading), all_named=work is not None and work.all_named)
    reporter = evidence.reporter(events, schema, number)
    task = partial(
        _match_partition,
        place=place(path, events.sparkSession, ship_index),
        names=tuple(columns),
        keep=len(leading),
        options=options,
        work=work,
        reporter=reporter,
    )
    if work is None:
        rows = numbered(events, columns.values())
    else:
        rows = events.sparkSession.range(0, len(work.tasks), numPartitions=max(len(work.tasks), 1))
    return evidence.observe(rows.mapInArrow(task, schema), reporter)


def _best(matches: DataFrame, k: int) -> DataFrame:
    """The best k matches of each event; of equal scores the lesser ids, as everywhere."""
    ranked = Window.partitionBy("event").orderBy(F.col("score").desc(), "subscription")
    return matches.withColumn("_rank", F.row_number().over(ranked)).filter(F.col("_rank") <= k).drop("_rank")


def event_columns(schema: StructType, attributes: Iterable[str]) -> dict[str, Column]:
    """The columns of the events that some attribute names, by its dotted name; the rest is never read."""
    return {attribute: column(steps) for attribute, steps in event_steps(schema, attributes).items()}


def event_steps(schema: StructType, attributes: Iterable[str]) -> dict[str, list[str]]:
    """The names that lead to the columns that some attribute names."""
    found = {name: [name] if name in schema.names else _steps(schema, name) for name in sorted(attributes)}
    return {name: steps for name, steps in found.items() if steps}


def _steps(schema: StructType, attribute: str) -> list[str]:
    """The names that lead to a dotted attribute through structs; none if it is not there."""
    steps = attribute.split(".")
    type_: DataType = schema
    for step in steps:
        if not isinstance(type_, StructType) or step not in type_.names:
            return []
        type_ = type_[step].dataType
    return steps


def column(steps: list[str]) -> Column:
    """The column that these names lead to, whatever characters they have."""
    return F.col(".".join("`" + step.replace("`", "``") + "`" for step in steps))


def _match_partition(
    batches: Iterable[pa.RecordBatch],
    place: Place,
    names: tuple[str, ...],
    keep: int,
    options: MatchOptions,
    work: RowGroupPlan | None,
    reporter: Reporter,
) -> Iterator[pa.RecordBatch]:
    """Match what comes: events, or the numbers of tasks to read."""
    if work is not None:
        tasks = (work.tasks[number] for batch in batches for number in batch.column(0).to_pylist())
        batches = (events for pieces in tasks for events in read_row_groups(pieces, work.attributes, work.all_named))
    evidence = Evidence()
    matches = match_batches(batches, place.folder(), place.fingerprint, names, options, keep, evidence=evidence)
    return reporter.report(map(_named, matches) if work is not None and work.all_named else matches, evidence)


def _named(matches: pa.RecordBatch) -> pa.RecordBatch:
    """The matches, with a schema that says that their events have names."""
    schema = matches.schema.set(0, matches.schema.field(0).with_nullable(False))
    return pa.RecordBatch.from_arrays(matches.columns, schema=schema)
