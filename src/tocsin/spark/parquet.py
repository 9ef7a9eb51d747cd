"""Plan which task reads which row groups of Parquet files.

Events of a DataFrame pass the JVM: Parquet to columns, to rows, to Arrow, to Python. If the events are files and
nothing else, Spark can list them and give their types, and Python workers read them.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType

from tocsin.errors import OptionError
from tocsin.files.parquet_scan import ReadCounts
from tocsin.files.row_group_filter import RowGroupFilter
from tocsin.spark._placement.ship import is_connect
from tocsin.spark._worker.row_groups import ParquetColumn, RowGroups, arrange, open_file

TASKS_A_CORE = 2
"""Enough for the tasks to end at about the same time; each costs the JVM 15 ms of processor time."""
BYTES_A_TASK = 1 << 27
"""The most bytes for a task, unless a row group has more: it bounds the work that a failed task repeats."""
READERS = 16
MOST_FILES = 10_000
"""The most files whose footers the driver reads; on a remote store these take about a minute."""

Reader = Literal["spark", "workers"]
"""Who reads the events: Spark, or the Python workers, which read Parquet files only."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RowGroupPlan:
    """The row groups of each task, and the columns to read."""

    tasks: tuple[tuple[RowGroups, ...], ...]
    attributes: tuple[ParquetColumn, ...]
    id_not_null: bool
    """Whether the first column, the id of the event, is never NULL."""
    read: ReadCounts


@dataclass(frozen=True)
class Footer:
    """What is needed of the footer of a file."""

    uri: str
    rows: tuple[int, ...]
    """Of each row group; 0 if it is skipped."""
    nbytes: int
    schema: pa.Schema
    id_not_null: bool
    old_calendar: bool = False
    """Whether Spark rebases dates before 1582, because the file was written with the Julian calendar."""
    read: ReadCounts = field(default_factory=ReadCounts)


def check_reader(reader: Reader | None) -> None:
    """Raise if there is no such reader."""
    if reader not in (None, "spark", "workers"):
        raise OptionError(f"there is no reader {reader!r}", 'Use "spark" or "workers"')


def read_parquet(path: str | Path, session: SparkSession | None) -> DataFrame:
    """Return the files of a folder, a glob or a URI as a DataFrame."""
    session = session or SparkSession.getActiveSession()
    if session is None:
        raise OptionError("there is no Spark session to read files in", "Start one, or give the events as a DataFrame")
    return session.read.parquet(address(path))


def address(path: str | Path) -> str:
    """Return a URI as it is and a path as absolute: the JVM may have been started in another folder."""
    return str(path) if "://" in str(path) else str(Path(path).absolute())


def plan(
    events: DataFrame,
    steps: Mapping[str, Sequence[str]],
    reader: Reader | None,
    row_groups: RowGroupFilter | None = None,
) -> RowGroupPlan | None:
    """Divide the files of a DataFrame into tasks; return None if Spark reads the events.

    Without a `reader`, workers read if they can, and otherwise the reason is logged. With `row_groups`, those in which
    no subscription holds are skipped.
    """
    if reader == "spark":
        return None
    reason, found = _plan(events, steps, row_groups)
    if found is None and reader == "workers":
        raise OptionError(f"workers cannot read these events: {reason}", 'Let Spark read them, with reader="spark"')
    if found is None:
        _log.info("plan: Spark reads the events: %s", reason)
    else:
        _log.info("plan: workers read the files, in %d tasks", len(found.tasks))
    return found


def _plan(
    events: DataFrame, steps: Mapping[str, Sequence[str]], row_groups: RowGroupFilter | None
) -> tuple[str, RowGroupPlan | None]:
    session = events.sparkSession
    name = next(iter(steps))
    if is_connect(session):
        return "the files are on the Spark Connect server", None
    if not is_plain(events):
        return "the DataFrame is not just Parquet files read without options", None
    files = sorted(events.inputFiles())
    if len(files) > MOST_FILES:
        return f"there are more than {MOST_FILES:,} files", None
    try:
        attributes = tuple(ParquetColumn(tuple(path), _arrow_type(events.schema, path)) for path in steps.values())
        with ThreadPoolExecutor(READERS) as pool:
            columns = [".".join(path) for path in steps.values()]
            footers = list(pool.map(partial(_footer, name=name, columns=columns, row_groups=row_groups), files))
        for schema in {footer.schema.remove_metadata() for footer in footers}:
            arrange(pa.RecordBatch.from_pylist([], schema), attributes)
    except (OSError, pa.ArrowException, PySparkTypeError) as error:
        return str(error), None
    for footer in footers:
        if footer.old_calendar:
            return f"{footer.uri} may have dates of the Julian calendar", None
    for column in {path[0] for path in steps.values()}:
        if any(f"/{column}=" in footer.uri for footer in footers):
            return f"{column!r} is a partition column, in the names of folders", None
        if footers and not any(column in footer.schema.names for footer in footers):
            return f"no file has a column {column!r}", None
    tasks = divide(footers, session.sparkContext.defaultParallelism * TASKS_A_CORE)
    read = ReadCounts()
    for footer in footers:
        read.merge(footer.read)
    return "", RowGroupPlan(tasks, attributes, all(footer.id_not_null for footer in footers), read)


def is_plain(events: DataFrame) -> bool:
    """Return whether a DataFrame is Parquet files, read without options, with no further step and not cached."""
    relation: Any = events._jdf.queryExecution().analyzed()
    if _class_name(relation) != "LogicalRelation" or _class_name(relation.relation()) != "HadoopFsRelation":
        return False
    options = relation.relation().options()
    has_options = options.size() > int(options.contains("path"))
    is_cached = events.storageLevel.useMemory or events.storageLevel.useDisk
    return _class_name(relation.relation().fileFormat()) == "ParquetFileFormat" and not has_options and not is_cached


def _class_name(of: Any) -> str:
    return str(of.getClass().getSimpleName())


def _arrow_type(schema: StructType, steps: Sequence[str]) -> pa.DataType:
    found: DataType = schema
    for step in steps:
        assert isinstance(found, StructType), "steps lead through structs"
        found = found[step].dataType
    return to_arrow_type(found, timezone="UTC")


def _footer(uri: str, name: str, columns: Sequence[str], row_groups: RowGroupFilter | None) -> Footer:
    with open_file(uri) as file:
        groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
        may_match = [True] * len(groups) if row_groups is None else row_groups.may_match(file.metadata)
        read = ReadCounts()
        for group, is_read in zip(groups, may_match, strict=True):
            read.add(group, columns, is_read)
        paths = [file.schema.column(number).path for number in range(len(file.schema))]
        facts = [group.column(paths.index(name)).statistics for group in groups] if name in paths else [None]
        return Footer(
            uri,
            tuple(group.num_rows if is_read else 0 for group, is_read in zip(groups, may_match, strict=True)),
            sum(group.total_byte_size for group, is_read in zip(groups, may_match, strict=True) if is_read),
            file.schema_arrow,
            all(fact is not None and fact.has_null_count and fact.null_count == 0 for fact in facts),
            _old_calendar(file.metadata.metadata or {}),
            read,
        )


def _old_calendar(properties: Mapping[bytes, bytes]) -> bool:
    """Tell by the properties that Spark writes to the footer; it compares versions as text too."""
    is_marked = b"org.apache.spark.legacyDateTime" in properties or b"org.apache.spark.legacyINT96" in properties
    return is_marked or properties.get(b"org.apache.spark.version", b"9") < b"3.1.0"


def divide(footers: Sequence[Footer], least: int) -> tuple[tuple[RowGroups, ...], ...]:
    """Lay all row groups end to end and cut them into equal ranges of events; a group belongs where its middle is."""
    total = sum(sum(footer.rows) for footer in footers)
    count = max(least, math.ceil(sum(footer.nbytes for footer in footers) / BYTES_A_TASK))
    tasks: list[dict[str, list[int]]] = [{} for _ in range(count)]
    before = 0
    for footer in footers:
        for group, rows in enumerate(footer.rows):
            if rows:
                middle = before + rows / 2
                tasks[int(middle * count / total)].setdefault(footer.uri, []).append(group)
                before += rows
    return tuple(tuple(RowGroups(uri, tuple(groups)) for uri, groups in task.items()) for task in tasks if task)
