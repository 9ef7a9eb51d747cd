"""Match a DataFrame of events: one narrow stage, lazy, no shuffle."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.types import DataType, DoubleType, StringType, StructField, StructType

from tocsin.engine.matcher import Matcher
from tocsin.errors import OptionError, StorageError
from tocsin.spark.index import Index, Place, build, place
from tocsin.spark.worker import match_batches


def match(
    events: DataFrame, subscriptions: DataFrame | Index | str | Path, *, id: str, ship: bool | None = None
) -> DataFrame:
    """Return the matches of the events as a lazy DataFrame `event, subscription, score`.

    `subscriptions` is a DataFrame `id, where[, score]`, of which an index is built now; or an index that `build` or
    `Matcher.save` made. Events are named by their column `id`; of the others only those that a subscription names are
    read and moved. Struct fields are dotted names. Also a step of a chain: ``events.transform(match, index, id="id")``.

    Workers map the index in place if they run on this machine; otherwise it is shipped to each executor once. With
    ``ship=False`` it must be on storage that all of them mount at the same path.
    """
    if isinstance(subscriptions, DataFrame):
        subscriptions = build(subscriptions)
    path = Path(subscriptions.path if isinstance(subscriptions, Index) else subscriptions)
    if not path.is_dir():
        raise StorageError(f"there is no index in {path}", "Make one with tocsin.spark.build or Matcher.save")
    if id not in events.columns:
        raise OptionError(
            f"the events have no column {id!r} to name them by", f"Choose from {', '.join(events.columns)}"
        )
    columns = {id: column([id])} | event_columns(events.schema, Matcher.open(path).attributes - {id})
    where = place(path, events.sparkSession, ship)
    schema = StructType(
        [
            StructField("event", events.schema[id].dataType),
            StructField("subscription", StringType()),
            StructField("score", DoubleType()),
        ]
    )
    # mapInArrow takes no names with dots: columns travel by number and get their names back in the worker.
    numbered = events.select(*(source.alias(str(number)) for number, source in enumerate(columns.values())))
    return numbered.mapInArrow(partial(_match_partition, place=where, names=tuple(columns)), schema)


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
    batches: Iterable[pa.RecordBatch], place: Place, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    return match_batches(batches, place.folder(), place.fingerprint, names)
