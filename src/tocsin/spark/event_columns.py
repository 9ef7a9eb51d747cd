"""The columns of events on Spark: those that a job reads, those that go with each match, and where the index is."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.types import DataType, DoubleType, StringType, StructField, StructType

from tocsin.errors import OptionError
from tocsin.spark._placement.ship import Index
from tocsin.spark._worker.batches import COLUMNS
from tocsin.spark.build import build


def index_path(subscriptions: DataFrame | Index | str | Path) -> Path:
    """Return the folder of the index; build it now if the subscriptions are a DataFrame."""
    if isinstance(subscriptions, DataFrame):
        subscriptions = build(subscriptions)
    return Path(subscriptions.path if isinstance(subscriptions, Index) else subscriptions).absolute()


def leading_columns(events: DataFrame, id: str, keep_columns: Sequence[str]) -> dict[str, Column]:
    """Return the columns that go with each match: the id of the event, then the columns to keep."""
    for name, purpose in [(id, "to name them by"), *((name, "to keep") for name in keep_columns)]:
        if name not in events.columns:
            raise OptionError(
                f"the events have no column {name!r} {purpose}", f"Choose from {', '.join(events.columns)}"
            )
    taken = [name for name in keep_columns if name in (*COLUMNS, id)]
    if taken:
        raise OptionError(
            f"{taken[0]!r} is already a column of the matches", "Rename it, or leave it out of keep_columns"
        )
    return {name: column([name]) for name in (id, *keep_columns)}


def match_schema(events: DataFrame, leading: Sequence[str], id_not_null: bool = False) -> StructType:
    """Return the schema of the matches; `event` is declared non-nullable if no id is NULL."""
    id, *kept = leading
    # The JVM tests every value of a nullable column for NULL: a third of its work on matches, when all were nullable.
    return StructType(
        [
            StructField("event", events.schema[id].dataType, nullable=not id_not_null),
            StructField("subscription", StringType(), nullable=False),
            StructField("score", DoubleType(), nullable=False),
            *(StructField(name, events.schema[name].dataType) for name in kept),
        ]
    )


def numbered(events: DataFrame, columns: Iterable[Column]) -> DataFrame:
    """Select the columns under numbers: mapInArrow refuses names with dots, so workers get the names separately."""
    return events.select(*(source.alias(str(number)) for number, source in enumerate(columns)))


def event_columns(schema: StructType, attributes: Iterable[str]) -> dict[str, Column]:
    """Return the columns of the events that the attributes name, by dotted name; no others are read."""
    return {attribute: column(steps) for attribute, steps in event_steps(schema, attributes).items()}


def event_steps(schema: StructType, attributes: Iterable[str]) -> dict[str, list[str]]:
    """Return the path through structs to each attribute that the schema has."""
    found = {name: [name] if name in schema.names else _steps(schema, name) for name in sorted(attributes)}
    return {name: steps for name, steps in found.items() if steps}


def _steps(schema: StructType, attribute: str) -> list[str]:
    """Return the path to a dotted attribute; empty if the schema does not have it."""
    steps = attribute.split(".")
    type_: DataType = schema
    for step in steps:
        if not isinstance(type_, StructType) or step not in type_.names:
            return []
        type_ = type_[step].dataType
    return steps


def column(steps: list[str]) -> Column:
    """Return the column at a path; names may have any characters."""
    return F.col(".".join("`" + step.replace("`", "``") + "`" for step in steps))
