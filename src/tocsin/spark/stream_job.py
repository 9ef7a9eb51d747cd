"""The job behind `tocsin stream`: match the files that arrive in a folder and write a table of matches."""

import datetime as dt
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType, StructField, StructType

from tocsin.errors import OptionError
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot
from tocsin.spark.read_files import MALFORMED, casts, file_format
from tocsin.spark.sinks import BatchRecord, BatchTable
from tocsin.spark.streaming import stream

POLL_SECONDS = 0.1

ARRIVED = "_arrived"
"""The column with the time when the file of an event was written."""


@dataclass
class Progress:
    """The counts of a stream so far."""

    batch: int = -1
    snapshot: int = 0
    events: int = 0
    matches: int = 0
    malformed: int = 0
    seconds: float = 0.0
    """The time of all batches."""
    evidence: Evidence = field(default_factory=Evidence)
    lag: float = 0.0
    """Seconds from the writing of the newest event to its matches, in the last batch."""


def stream_files(
    session: SparkSession,
    index: Path,
    events: Path,
    output: Path,
    *,
    checkpoint: Path,
    id: str = "id",
    order: str | None = None,
    format: str = "parquet",
    schema: str | None = None,
    files_per_batch: int | None = None,
    until_now: bool = False,
    progress: Callable[[Progress], object] = lambda _: None,
) -> StreamingQuery:
    """Start to match the files in the folder `events` and those that arrive; `until_now` takes only the former.

    The attributes and types are those of the files that are there, or of `schema`, such as "id long, price double".
    """
    done = Progress()
    arrived = Observation()

    def prepare(frame: DataFrame, view: PinnedSnapshot) -> DataFrame:
        nonlocal arrived
        arrived = Observation()
        facts = F.max(ARRIVED).alias("newest"), F.count(MALFORMED).alias("malformed")
        well_formed = frame.observe(arrived, *facts).filter(F.col(MALFORMED).isNull()).drop(MALFORMED, ARRIVED)
        return well_formed.withColumns(casts(well_formed, Matcher.open(view.path, mode="read").kinds))

    def listen(record: BatchRecord, seconds: float) -> None:
        done.batch, done.snapshot = record.batch, record.snapshot
        done.events += record.events or 0
        done.matches += record.matches
        done.malformed += arrived.get["malformed"]
        done.seconds += seconds
        if record.evidence is not None:
            done.evidence.add_events(record.evidence)
        newest = arrived.get["newest"]
        done.lag = 0.0 if newest is None else dt.datetime.now().timestamp() - newest.timestamp()
        progress(done)

    return stream(
        _read(session, events, schema, files_per_batch),
        index,
        id=id,
        order=order,
        checkpoint=checkpoint.absolute(),
        sink=BatchTable(output, format),
        trigger={"availableNow": True} if until_now else None,
        prepare=prepare,
        listener=listen,
    )


def follow(query: StreamingQuery, asked_to_stop: threading.Event) -> None:
    """Wait until the query ends; when asked to stop, stop it after the batch that is running."""
    while query.isActive and not asked_to_stop.is_set():
        time.sleep(POLL_SECONDS)
    under_way = _last_batch(query)
    while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == under_way:
        time.sleep(POLL_SECONDS)
    query.stop()
    query.awaitTermination()  # raises what the query failed with


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else int(progress["batchId"])


def _read(session: SparkSession, path: Path, schema: str | None, files_per_batch: int | None) -> DataFrame:
    if not path.is_dir():
        raise OptionError(f"there is no folder {path}", "Give the folder that files of events are put into")
    name, format_ = str(path.absolute()), file_format(path)
    options = {"header": "true", "inferSchema": "true", "columnNameOfCorruptRecord": MALFORMED}
    if schema:
        given = StructType.fromDDL(schema)
        assert isinstance(given, StructType), "a list of columns is a struct"
    else:
        given = session.read.options(**options).format(format_).load(name).schema
    fields = [field for field in given.fields if field.name != MALFORMED]
    source = session.readStream.options(**options).format(format_)
    if files_per_batch is not None:
        source = source.option("maxFilesPerTrigger", files_per_batch)
    if format_ == "parquet":
        frame = source.schema(StructType(fields)).load(name).withColumn(MALFORMED, F.lit(None).cast("string"))
    else:
        frame = source.schema(StructType([*fields, StructField(MALFORMED, StringType())])).load(name)
    return frame.withColumn(ARRIVED, F.col("_metadata.file_modification_time"))
