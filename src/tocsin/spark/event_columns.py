"""The columns of events on Spark: those that a job reads, those that go with each match, and where the index is."""

import json
import logging
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, DoubleType, StringType, StructField, StructType

from tocsin.errors import OptionError
from tocsin.language.lint import lint_attributes
from tocsin.matcher import Matcher
from tocsin.model.schema import EventSchema
from tocsin.spark._placement.ship import Index
from tocsin.spark._worker.batches import COLUMNS, WHERE
from tocsin.spark.build import COLUMN_TYPES_FILE, build_for_call

ColumnsToAdd = tuple[Sequence[str], Sequence[str]]
"""The columns of the event and of the subscription that go with each match."""

MOST_WARNINGS = 10

_log = logging.getLogger(__name__)


def index_path(subscriptions: DataFrame | Index | str | Path, columns: Sequence[str] = ()) -> Path:
    """Return the folder of the index; build it now, with these columns, if the subscriptions are a DataFrame."""
    if isinstance(subscriptions, DataFrame):
        return build_for_call(subscriptions, _own_columns(subscriptions, columns))
    return Path(subscriptions.path if isinstance(subscriptions, Index) else subscriptions).absolute()


def _own_columns(subscriptions: DataFrame, columns: Sequence[str]) -> list[str]:
    """Return those of the columns that are of the DataFrame and not tags; raise if there is neither."""
    own = [name for name in columns if name != WHERE and name in subscriptions.columns]
    for name in columns:
        if name != WHERE and name not in own and "tags" not in subscriptions.columns:
            near = get_close_matches(name, subscriptions.columns, 1)
            raise OptionError(
                f"the subscriptions have no column {name!r}, and no tags",
                f"Did you mean {near[0]!r}?" if near else f"They have {', '.join(subscriptions.columns)}",
            )
    return own


def stored_types(index: Path) -> StructType:
    """Return the types that ids and columns had in the DataFrame that an index was built of; text is left out."""
    file = index / COLUMN_TYPES_FILE
    return StructType.fromJson(json.loads(file.read_text())) if file.exists() else StructType([])


def with_stored_types(matches: DataFrame, types: StructType) -> DataFrame:
    """Give ids and columns of subscriptions, which an index has as texts, their type again."""
    for field in types.fields:
        name = "subscription" if field.name == "id" else field.name
        if name in matches.columns:
            matches = matches.withColumn(name, column([name]).cast(field.dataType))
    return matches


def warn_of_subscription_columns(matcher: Matcher, names: Sequence[str]) -> None:
    """Log the columns of subscriptions that none of them has."""
    for name in names:
        if name != WHERE and not matcher.has_tag(name):
            _log.warning("no subscription has a tag %r: the column is NULL", name)


def warn_of_attributes(matcher: Matcher, schema: StructType) -> None:
    """Log the attributes that events of this schema do not have, or whose type can never compare."""
    fields = [(part.name, _arrow_type(part.dataType)) for part in schema.fields]
    found = lint_attributes(matcher.attributes, matcher.kinds, EventSchema.of(pa.schema(fields)))
    for warning in found[:MOST_WARNINGS]:
        _log.warning("%s", warning)
    if len(found) > MOST_WARNINGS:
        _log.warning("%d more attributes like these", len(found) - MOST_WARNINGS)


def _arrow_type(type_: DataType) -> pa.DataType:
    try:
        return to_arrow_type(type_, timezone="UTC")
    except PySparkException:
        return pa.binary()  # what Arrow does not have compares with nothing


def leading_columns(
    events: DataFrame, id: str, keep_columns: Sequence[str], subscription_columns: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return the paths to the columns that go with each match: the id of the event, then the columns to keep."""
    for name in subscription_columns:
        if name in (*COLUMNS, "id", *keep_columns) or list(subscription_columns).count(name) > 1:
            raise OptionError(
                f"{name!r} is already a column of the matches",
                "Leave it out of subscription_columns, or of keep_columns",
            )
    for name, purpose in [(id, "to name them by"), *((name, "to keep") for name in keep_columns)]:
        if name not in events.columns:
            raise OptionError(
                f"the events have no column {name!r} {purpose}", f"Choose from {', '.join(events.columns)}"
            )
    if id in keep_columns:
        raise OptionError(
            f"{id!r} is already a column of the matches: event", "Leave it out of keep_columns, and read event"
        )
    taken = [name for name in keep_columns if name in COLUMNS]
    if taken:
        raise OptionError(
            f"{taken[0]!r} is already a column of the matches", "Rename it, or leave it out of keep_columns"
        )
    return {name: [name] for name in (id, *keep_columns)}


def match_schema(
    events: DataFrame, leading: Sequence[str], id_not_null: bool = False, subscription_columns: Sequence[str] = ()
) -> StructType:
    """Return the schema of the matches; `event` is declared non-nullable if no id is NULL."""
    id, *kept = leading
    # The JVM tests every value of a nullable column for NULL: a third of its work on matches, when all were nullable.
    return StructType(
        [
            StructField("event", events.schema[id].dataType, nullable=not id_not_null),
            StructField("subscription", StringType(), nullable=False),
            StructField("score", DoubleType(), nullable=False),
            *(StructField(name, events.schema[name].dataType) for name in kept),
            *(StructField(name, StringType()) for name in subscription_columns),
        ]
    )


def numbered(events: DataFrame, columns: Iterable[Column]) -> DataFrame:
    """Select the columns under numbers: mapInArrow refuses names with dots, so workers get the names separately."""
    return events.select(*(source.alias(str(number)) for number, source in enumerate(columns)))


def numbered_paths(events: DataFrame, paths: Iterable[list[str]]) -> DataFrame:
    """Select the columns at these paths under numbers, as `numbered` does."""
    # As one call of the JVM: four calls for each column took 40 ms of a small job with eleven.
    return events.selectExpr(*(f"{_quoted(steps)} AS `{number}`" for number, steps in enumerate(paths)))


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
    return F.col(_quoted(steps))


def _quoted(steps: list[str]) -> str:
    return ".".join("`" + step.replace("`", "``") + "`" for step in steps)
