"""Build an index on the executors: a segment for each partition, and one commit in the driver.

Every task builds an index in a temporary folder inside that of the index. The driver moves the segments of the
successful tasks into place and commits the snapshot that names them. The temporary folder is then removed, with what
failed or repeated tasks have left there.
"""

import datetime as dt
import logging
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from tocsin.errors import OptionError, StorageError
from tocsin.index import commit as store
from tocsin.index.options import HistoryKept, Options
from tocsin.index.snapshot import LiveSegment
from tocsin.index.subscriptions import SubscriptionSet
from tocsin.index.tenant_usage import joined, usage_by_tenant
from tocsin.model.analyzer import Analyzers
from tocsin.model.limits import Limits
from tocsin.model.schema import EventSchema
from tocsin.registry import IndexName, MatcherName, XPathName
from tocsin.spark._placement.ship import Index, is_connect, scratch
from tocsin.storage.atomic_files import write_file
from tocsin.storage.folder import Folder

COLUMN_TYPES_FILE = "spark-ids.json"
"""The file in the folder of an index with the types that ids and columns had in the DataFrame, if not all are text."""

COLUMN_TYPES = {"id": "string", "where": "string", "score": "double", "weights": None, "tags": None, "params": None}
"""The columns that are read from a DataFrame of subscriptions, and the type that each is cast to."""

REPORT = pa.schema(
    [
        ("folder", pa.string()),
        ("is_taken", pa.bool_()),
        ("subscription", pa.string()),
        ("position", pa.int32()),
        ("reason", pa.string()),
    ]
)
"""The report of a task: the folder of its index in the first row, then rejected subscriptions and warnings."""

_log = logging.getLogger(__name__)


def build(
    subscriptions: DataFrame,
    path: str | Path | None = None,
    *,
    segments: int | None = None,
    limits: Limits | None = None,
    namespaces: Mapping[str, str] | None = None,
    analyzers: Analyzers | None = None,
    index: IndexName = "auto",
    matcher: MatcherName = "auto",
    xpath: XPathName = "auto",
    retain_events: int | None = None,
    retain_age: dt.timedelta | int | None = None,
    age_attribute: str | None = None,
    history: HistoryKept = "all",
    schema: StructType | None = None,
    keep_columns: Sequence[str] = (),
) -> Index:
    """Build the index of the subscriptions `id, where[, score, weights, tags, params]` in `path`; replacing it.

    The executors parse the subscriptions and write `segments` segments, by default one for each core, so all of them
    must see `path`; under Spark Connect they do so only if `segments` is given. Without `path` the driver builds the
    index, in a folder that is removed when this process ends. Subscriptions with errors are left out and reported in
    `rejected`. With the `schema` of the DataFrame of events, `warnings` reports what is probably not meant. Each
    subscription has the `keep_columns` of the DataFrame as tags, for the `subscription_columns` of `match`. The other
    options are those of `Matcher`; the index stores them.
    """
    prefixes, retention = dict(namespaces or {}), (retain_events, retain_age, age_attribute)
    options = Options(limits or Limits(), prefixes, index, matcher, *retention, xpath, history, analyzers or {})
    known = None if schema is None else EventSchema.of(to_arrow_schema(schema))
    folder, report = _build(subscriptions, path, segments, options, known, keep_columns)
    about = report.filter(pa.compute.is_null(report["folder"])).drop_columns("folder")
    rejected, warnings = (
        about.filter(pa.compute.equal(about["is_taken"], taken)).drop_columns("is_taken") for taken in (False, True)
    )
    session = subscriptions.sparkSession
    reports = [session.createDataFrame(rows, _ddl(rows.schema)) for rows in (rejected, warnings)]
    return Index(folder, *reports)


def build_for_call(subscriptions: DataFrame, keep_columns: Sequence[str] = ()) -> Path:
    """Build an index for one call, in the driver; what is rejected is logged, and no DataFrames are made of it."""
    return _build(subscriptions, None, None, Options(), None, keep_columns)[0]


def _build(
    subscriptions: DataFrame,
    path: str | Path | None,
    segments: int | None,
    options: Options,
    schema: EventSchema | None,
    keep_columns: Sequence[str],
) -> tuple[Path, pa.Table]:
    """Build the index; return its folder and the `REPORT` of all tasks."""
    missing = [name for name in ("id", "where", *keep_columns) if name not in subscriptions.columns]
    if missing:
        raise OptionError(
            f"the subscriptions have no column {' and no column '.join(map(repr, missing))}",
            f"They have {', '.join(subscriptions.columns)}; rename with withColumnsRenamed",
        )
    types = StructType([subscriptions.schema[name] for name in ("id", *keep_columns)])
    for field in types:
        if isinstance(field.dataType, (BinaryType, ArrayType, MapType, StructType)):
            what = "ids are" if field.name == "id" else f"{field.name!r} is"
            raise OptionError(f"{what} {field.dataType.simpleString()}", "Cast it to a type that has a text")
    if segments is not None and path is None:
        raise OptionError(
            "segments are built by executors, in a folder that all of them see", "Pass path, or leave segments out"
        )
    tagged = _with_tags(subscriptions, keep_columns) if keep_columns else subscriptions
    rows = tagged.selectExpr(
        *(
            f"CAST(`{name}` AS {type_}) AS `{name}`" if type_ else f"`{name}`"
            for name, type_ in COLUMN_TYPES.items()
            if name in tagged.columns
        )
    )
    if path is None:
        report = _in_driver(rows, str(scratch()), options, schema)
        folder = Path(report["folder"][0].as_py())
    else:
        folder = Path(path).absolute()
        report = _replace(folder, rows, segments, options, schema)
    _remember_types(folder / COLUMN_TYPES_FILE, types)
    rejected = report.filter(pa.compute.invert(report["is_taken"])).select(["subscription", "position", "reason"])
    if rejected.num_rows:
        _log.warning(
            "%d subscriptions were rejected, the first: %s", rejected.num_rows, rejected.slice(0, 1).to_pylist()
        )
    return folder, report


def _replace(
    path: Path, rows: DataFrame, segments: int | None, options: Options, schema: EventSchema | None
) -> pa.Table:
    """Build the index in `path` and replace what stands there, by one commit."""
    session, folder = rows.sparkSession, Folder(path)
    folder.lock()
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=path))
    try:
        building.chmod(0o777)  # executors may run as another user
        if segments is None and is_connect(session):
            # The executors may see other folders than this process.
            report = _in_driver(rows, str(building), options, schema)
        else:
            task = partial(build_partition, folder=str(building), options=options, schema=schema)
            count = segments or session.sparkContext.defaultParallelism
            # All subscriptions with one id go to one segment, where the last one wins.
            report = rows.repartition(count, "id").mapInArrow(task, _ddl(REPORT)).toArrow()
        _commit(folder, report, options)
    finally:
        shutil.rmtree(building, ignore_errors=True)
        folder.unlock()
    return report


def _in_driver(rows: DataFrame, folder: str, options: Options, schema: EventSchema | None) -> pa.Table:
    """Build the index of all subscriptions in a new folder inside `folder`, even of none; return the `REPORT`."""
    table = rows.toArrow()
    batches = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    return pa.Table.from_batches(build_partition(batches, folder, options, schema), REPORT)


def build_partition(
    batches: Iterable[pa.RecordBatch], folder: str, options: Options, schema: EventSchema | None = None
) -> Iterator[pa.RecordBatch]:
    """Build the index of the subscriptions in the batches, in a new folder inside `folder`; yield a `REPORT`."""
    parts = list(batches)
    if not parts:
        return
    if not Path(folder).is_dir():
        raise StorageError(
            f"there is no folder {folder} on this worker",
            "Build the index on storage that every worker mounts at this path, or without a path in the driver",
        )
    built = SubscriptionSet(options, background_merge=False)
    rejected = built.subscribe_many(pa.Table.from_batches(parts), schema)
    own = tempfile.mkdtemp(prefix="task-", dir=folder)
    built.save(own)
    built.close()
    about = [(False, error) for error in rejected] + [(True, warning) for warning in built.warnings]
    rows: list[dict[str, Any]] = [{"folder": own}] + [
        {
            "is_taken": is_taken,
            "subscription": found.subscription,
            "position": found.position,
            "reason": f"{found.message}. {found.hint}",
        }
        for is_taken, found in about
    ]
    yield from pa.Table.from_pylist(rows, REPORT).to_batches()


def _commit(folder: Folder, report: pa.Table, options: Options) -> None:
    """Move the segments of all tasks into place and commit them as the next snapshot."""
    found = [(Path(own), part) for own in report["folder"].drop_null().to_pylist() for part in _load(own)]
    parts = [part for _, part in found]
    for tenant, usage in joined(map(usage_by_tenant, parts)).items():
        # Each task has seen to its own part; the tenant has them all.
        error = usage.error(tenant, options.limits)
        if error is not None:
            raise error
    for own, part in found:
        assert part.file is not None, "what was loaded has a file"
        (own / part.file).rename(folder.path / part.file)
    store.commit(folder, (folder.newest() or 0) + 1, parts, options)
    folder.clean()
    _log.info("built %s: %d subscriptions in %d segments", folder.path, sum(map(len, parts)), len(parts))


def _load(folder: str) -> tuple[LiveSegment, ...]:
    found = store.load(Folder(Path(folder)))
    assert not found.fresh, "what was saved is in segments"
    return found.segments()


def _with_tags(subscriptions: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Add these columns to the tags, as texts; NULL is no tag."""
    own = F.create_map(*(part for name in columns for part in (F.lit(name), _column(name).cast("string"))))
    tags = F.map_filter(own, lambda _, value: value.isNotNull())
    if "tags" in subscriptions.columns:
        if not isinstance(subscriptions.schema["tags"].dataType, MapType):
            raise OptionError("tags are no map", "Leave out keep_columns, or give the tags as map<string,string>")
        others = F.map_filter("tags", lambda name, _: ~name.isin(*columns))
        tags = F.when(F.col("tags").isNull(), tags).otherwise(F.map_concat(others, tags))
    return subscriptions.withColumn("tags", tags)


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _remember_types(file: Path, types: StructType) -> None:
    """Write the types of ids and columns beside the index, unless they are text."""
    file.unlink(missing_ok=True)
    others = StructType([field for field in types if not isinstance(field.dataType, StringType)])
    if others.fields:
        write_file(file, lambda out: out.write(others.json().encode()))


def _ddl(schema: pa.Schema) -> str:
    names = {pa.string(): "string", pa.int32(): "int", pa.bool_(): "boolean"}
    return ", ".join(f"{field.name} {names[field.type]}" for field in schema)
