"""Match a DataFrame of events: one narrow stage, lazy, no shuffle."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.types import DataType, DoubleType, StringType, StructField, StructType

from tocsin.engine.matcher import Matcher
from tocsin.errors import OptionError, StorageError
from tocsin.spark.build import build
from tocsin.spark.index import Index, Place, place
from tocsin.spark.shards import shard
from tocsin.spark.views import View, pin
from tocsin.spark.worker import COLUMNS, match_batches


def match(
    events: DataFrame,
    subscriptions: DataFrame | Index | str | Path,
    *,
    id: str,
    keep: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    top_k: int | None = None,
    mode: str = "exact",
    shards: int | None = None,
    ship: bool | None = None,
) -> DataFrame:
    """Return the matches of the events as a lazy DataFrame `event, subscription, score` and the columns in `keep`.

    `subscriptions` is a DataFrame `id, where[, score]`, of which an index is built now; or an index that `build` or
    `Matcher.save` made. Events are named by their column `id`; of the others only those that a subscription names are
    read and moved. Struct fields are dotted names. Also a step of a chain: ``events.transform(match, index, id="id")``.

    With `tags`, only subscriptions that have all of them count. With `top_k`, each event has its best matches only, as
    `Matcher.top_k` has them in this `mode`. With `shards`, the index is divided into so many groups of segments, and
    each task maps only one: for an index that does not fit a host. The events are then read once for each, and for
    `top_k` the best of all shards are found by a shuffle on `event`, which must name an event.

    Workers map the index in place if they run on this machine; otherwise it is shipped to each executor once. With
    ``ship=False`` it must be on storage that all of them mount at the same path. The subscriptions are those of the
    snapshot that is the newest now, for all tasks and whenever they run.
    """
    view = pin(index_path(subscriptions), required=shards is not None)
    return match_view(events, view, id=id, keep=keep, tags=tags, top_k=top_k, mode=mode, shards=shards, ship=ship)


def match_view(
    events: DataFrame,
    view: View,
    *,
    id: str,
    keep: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    top_k: int | None = None,
    mode: str = "exact",
    shards: int | None = None,
    ship: bool | None = None,
) -> DataFrame:
    """Match against a view of an index; see `match`."""
    columns = leading_columns(events, id, keep)
    options: dict[str, Any] = {"where_tags": dict(tags)} if tags else {}
    if top_k is not None or mode != "exact":
        options |= {"top_k": top_k, "mode": mode}
    if shards is None:
        return _match_on(events, columns, view.path, ship, options)
    frames = [_match_on(events, columns, part, ship, options) for part in shard(view, shards)]
    united = reduce(DataFrame.unionAll, frames)
    return united if top_k is None else _best(united, top_k)


def index_path(subscriptions: DataFrame | Index | str | Path) -> Path:
    """The folder of the index of the subscriptions; built now if they are a DataFrame."""
    if isinstance(subscriptions, DataFrame):
        subscriptions = build(subscriptions)
    path = Path(subscriptions.path if isinstance(subscriptions, Index) else subscriptions).absolute()
    if not path.is_dir():
        raise StorageError(f"there is no index in {path}", "Make one with tocsin.spark.build or Matcher.save")
    return path


def leading_columns(events: DataFrame, id: str, keep: Sequence[str]) -> dict[str, Column]:
    """The columns that go with each match: the one that names the event, then those to keep."""
    for name, purpose in [(id, "to name them by"), *((name, "to keep") for name in keep)]:
        if name not in events.columns:
            raise OptionError(
                f"the events have no column {name!r} {purpose}", f"Choose from {', '.join(events.columns)}"
            )
    taken = [name for name in keep if name in (*COLUMNS, id)]
    if taken:
        raise OptionError(f"{taken[0]!r} is a column of the matches already", "Rename it, or leave it out of keep")
    return {name: column([name]) for name in (id, *keep)}


def match_schema(events: DataFrame, leading: Sequence[str]) -> StructType:
    """The columns of the matches."""
    id, *kept = leading
    # What is never NULL is not asked for it, row by row: that was a fifth of what the JVM did with matches.
    return StructType(
        [
            StructField("event", events.schema[id].dataType),
            StructField("subscription", StringType(), nullable=False),
            StructField("score", DoubleType(), nullable=False),
            *(StructField(name, events.schema[name].dataType) for name in kept),
        ]
    )


def numbered(events: DataFrame, columns: Iterable[Column]) -> DataFrame:
    """The columns under numbers: mapInArrow takes no names with dots, so workers get the names beside."""
    return events.select(*(source.alias(str(number)) for number, source in enumerate(columns)))


def _match_on(
    events: DataFrame, leading: dict[str, Column], path: Path, ship: bool | None, options: dict[str, Any]
) -> DataFrame:
    columns = leading | event_columns(events.schema, Matcher.open(path).attributes - leading.keys())
    task = partial(
        _match_partition,
        place=place(path, events.sparkSession, ship),
        names=tuple(columns),
        keep=len(leading),
        options=options,
    )
    return numbered(events, columns.values()).mapInArrow(task, match_schema(events, list(leading)))


def _best(matches: DataFrame, k: int) -> DataFrame:
    """The best k matches of each event; of equal scores the lesser ids, as everywhere."""
    ranked = Window.partitionBy("event").orderBy(F.col("score").desc(), "subscription")
    return matches.withColumn("_rank", F.row_number().over(ranked)).filter(F.col("_rank") <= k).drop("_rank")


def event_columns(schema: StructType, attributes: Iterable[str]) -> dict[str, Column]:
    """The columns of the events that some attribute names, by its dotted name; the rest is never read."""
    columns = {}
    for attribute in sorted(attributes):
        steps = [attribute] if attribute in schema.names else _steps(schema, attribute)
        if steps:
            columns[attribute] = column(steps)
    return columns


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
    batches: Iterable[pa.RecordBatch], place: Place, names: tuple[str, ...], keep: int, options: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    return match_batches(batches, place.folder(), place.fingerprint, names, keep, **options)
