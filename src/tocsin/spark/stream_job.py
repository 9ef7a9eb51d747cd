"""The job behind `tocsin stream`: match the files that arrive in a folder and write a table of matches."""

import datetime as dt
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType, StructField, StructType

from tocsin.errors import OptionError
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot
from tocsin.spark._worker.batches import COLUMNS
from tocsin.spark.delivery import Inboxes
from tocsin.spark.event_columns import leading_columns, warn_of_attributes
from tocsin.spark.read_files import MALFORMED, casts, event_files, file_format
from tocsin.spark.sinks import BatchRecord, BatchTable
from tocsin.spark.streaming import stream

POLL_SECONDS = 0.1

RECENT_BATCHES = 10
"""The rate on the terminal is that of so many batches: what it was an hour ago tells nothing about now."""

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
    recent: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=RECENT_BATCHES))
    """Events and seconds of the last batches."""
    evidence: Evidence = field(default_factory=Evidence)
    lag: float = 0.0
    """Seconds from the writing of the newest event to its matches, in the last batch."""

    @property
    def rate(self) -> float:
        """Events a second over the last batches; 0 before the first."""
        seconds = sum(seconds for _, seconds in self.recent)
        return sum(events for events, _ in self.recent) / seconds if seconds else 0.0

    def as_dict(self) -> dict[str, object]:
        """Return the counts as what JSON has."""
        counts = asdict(self)
        del counts["recent"]
        return counts | {"events_per_s": self.rate}


@dataclass(frozen=True)
class Delivery:
    """How matches become inboxes; see `Inboxes`."""

    tag: str
    dedupe: str | None
    digest: bool


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
    keep: Sequence[str] = (),
    delivery: Delivery | None = None,
    progress: Callable[[Progress], object] = lambda _: None,
) -> StreamingQuery:
    """Start to match the files in the folder `events` and those that arrive; `until_now` takes only the former.

    The attributes and types are those of the files that are there, or of `schema`, such as "id long, price double".
    With `delivery` the output is a table of inboxes.
    """
    done = Progress()
    arrived = Observation()

    def prepare(frame: DataFrame, view: PinnedSnapshot) -> DataFrame:
        nonlocal arrived
        arrived = Observation()
        facts = F.max(ARRIVED).alias("newest"), F.count(MALFORMED).alias("malformed")
        well_formed = frame.observe(arrived, *facts).filter(F.col(MALFORMED).isNull()).drop(MALFORMED, ARRIVED)
        return well_formed.withColumns(casts(well_formed, view.opened.kinds))

    def listen(record: BatchRecord, seconds: float) -> None:
        done.batch, done.snapshot = record.batch, record.snapshot
        done.events += record.events or 0
        done.matches += record.matches
        done.malformed += arrived.get["malformed"]
        done.recent.append((record.events or 0, seconds))
        if record.evidence is not None:
            done.evidence.add_events(record.evidence)
        newest = arrived.get["newest"]
        done.lag = 0.0 if newest is None else dt.datetime.now().timestamp() - newest.timestamp()
        progress(done)

    frame = _read(session, events, schema, files_per_batch)
    leading_columns(frame, id, keep)  # raises now, not in the first batch
    matcher = Matcher.open(index, mode="read")
    warn_of_attributes(matcher, frame.withColumns(casts(frame, matcher.kinds)).schema)
    sink: BatchTable | Inboxes = BatchTable(output, format)
    if delivery is not None:
        sink = Inboxes(output, tag=delivery.tag, dedupe=delivery.dedupe or (), digest=delivery.digest, format=format)
        sink.demand([*COLUMNS, *keep])
    return stream(
        frame,
        index,
        id=id,
        order=order,
        checkpoint=checkpoint.absolute(),
        sink=sink,
        trigger={"availableNow": True} if until_now else None,
        prepare=prepare,
        listener=listen,
        keep_columns=keep,
    )


def has_files(folder: Path) -> bool:
    """Whether there is a file of events in a folder."""
    return any(True for _ in event_files(folder))


def wait_for_a_file(folder: Path, asked_to_stop: threading.Event) -> bool:
    """Wait until there is a file of events in a folder; return whether there is one, which may not be so in the end."""
    while not has_files(folder):
        if asked_to_stop.wait(POLL_SECONDS):
            return False
    return True


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
    name, format_ = str(path.absolute()), file_format(path)
    options = {"header": "true", "inferSchema": "true", "columnNameOfCorruptRecord": MALFORMED}
    given = _schema(schema) if schema else session.read.options(**options).format(format_).load(name).schema
    fields = [field for field in given.fields if field.name != MALFORMED]
    source = session.readStream.options(**options).format(format_)
    if files_per_batch is not None:
        source = source.option("maxFilesPerTrigger", files_per_batch)
    if format_ == "parquet":
        frame = source.schema(StructType(fields)).load(name).withColumn(MALFORMED, F.lit(None).cast("string"))
    else:
        frame = source.schema(StructType([*fields, StructField(MALFORMED, StringType())])).load(name)
    return frame.withColumn(ARRIVED, F.col("_metadata.file_modification_time"))


def _schema(text: str) -> StructType:
    try:
        schema = StructType.fromDDL(text)
    except PySparkException as error:
        raise OptionError(
            f"--schema {text!r} cannot be read", 'Write columns and Spark\'s types, as in "id long, price double"'
        ) from error
    assert isinstance(schema, StructType), "a list of columns is a struct"
    return schema
