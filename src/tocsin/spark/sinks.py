"""Sinks of a stream: tables in which each batch is written exactly once, and functions of the user.

A table is a folder:

    batch=000012/     the rows of batch 12 as Parquet or JSON Lines, its record in `_batch.json`, and the history
                      for the next batch in `_history` if the stream has an order
    _writing-000013/  a batch that is being written; readers of the table ignore it
    _stream/id        the identity of the stream that writes the table

A batch is written under a temporary name and appears by one rename, together with its record. A batch that is there is
not written again, so a stream can replay it after a crash. `batch` is a column of the table when Spark reads it.

Batch numbers are unique within one stream only: another stream counts from 0 as well, and so does one whose checkpoint
is lost. So a table belongs to one stream, the first that writes to it. The identity of a stream is Spark's id of its
query, which is in the checkpoint.
"""

import errno
import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)

from tocsin.errors import OptionError, StorageError
from tocsin.model.result import Evidence
from tocsin.spark._placement.ship import is_connect
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot
from tocsin.spark.evidence import MatchEvidence

FORMATS = {"parquet": "parquet", "jsonl": "json"}
EVENTS, MATCHES = "tocsin.events", "tocsin.matches"
"""The observed metrics of a batch that Spark's own listeners see; each has `rows`."""
RECORD = "_batch.json"
HISTORY = "_history"
STREAM = "_stream/id"


@dataclass(frozen=True)
class Batch:
    """A micro-batch, as it is passed to a sink."""

    number: int
    """The same when the batch is replayed: a sink that overwrites by stream and number writes nothing twice."""
    index: PinnedSnapshot
    """The snapshot of the index that the batch is matched against."""
    events: Observation
    """Counts the events: ``events.get["rows"]``, once the matches have been written."""
    stream: str
    """The identity of the stream, which its checkpoint holds. Another stream has batches of the same numbers."""
    evidence: MatchEvidence
    """How the matches were found: ``evidence.get()``, once they have been written."""


@dataclass(frozen=True)
class BatchRecord:
    """The record of a batch: its number in the stream, the snapshot it was matched against, and its counts."""

    batch: int
    snapshot: int
    events: int | None
    """None if they were not counted."""
    matches: int
    stream: str | None = None
    """The identity of its stream; None if it was written before batches had one."""
    evidence: Evidence | None = field(default=None, compare=False)
    """How the matches were found, with the values that could not be used; None if it was not collected."""


Sink = Callable[[DataFrame, Batch], object]
"""Called with the matches of each batch, which it must write; called again with the same number after a crash."""


class BatchTable:
    """A table of batches, in a folder that the driver and all executors see at the same path."""

    def __init__(self, path: str | Path, format: str = "parquet") -> None:
        if "://" in str(path):
            raise OptionError(
                f"a table of batches needs a folder that is mounted, not {path}",
                "Give its path on the mount, or a function as the sink that writes there by batch number",
            )
        if format not in FORMATS:
            raise OptionError(f"there is no format {format!r}", f"Choose from {', '.join(FORMATS)}")
        self.path = Path(path).absolute()
        self.format = format

    def __contains__(self, number: int) -> bool:
        return self._folder(number).exists()

    def __call__(self, matches: DataFrame, batch: Batch, history: bytes | None = None) -> BatchRecord | None:
        """Write a batch and return its record; return None if it is already written."""
        if not self.lacks(batch.number, batch.stream):
            return None
        return self.write(matches, batch.number, batch.stream, batch.index.snapshot, batch, history)

    @property
    def stream(self) -> str | None:
        """The identity of the stream that the table belongs to; None if there is none yet, or it is not noted."""
        try:
            return (self.path / STREAM).read_text().strip()
        except FileNotFoundError:
            return None

    @property
    def last(self) -> int | None:
        """The number of the last batch; None if there is none."""
        return max((int(path.name.partition("=")[2]) for path in self.path.glob("batch=*")), default=None)

    def lacks(self, number: int, stream: str) -> bool:
        """Return whether a batch is still to be written; raise StorageError if the table belongs to another stream."""
        self.demand(stream)
        # A table without identity goes to the stream whose batch is the next; one that starts at 0 again is refused.
        if self.stream is None and self.last not in (None, number - 1):
            raise StorageError(
                f"{self.path} does not say which stream wrote it, and has batches up to {self.last}; "
                f"this is batch {number} of the stream {stream}",
                "Write to another folder; or, if these batches are of this stream, "
                f"write its identity to the file {self.path / STREAM}",
            )
        return number not in self

    def demand(self, stream: str) -> None:
        """Raise StorageError if the table belongs to another stream."""
        if self.stream not in (None, stream):
            raise StorageError(
                f"{self.path} belongs to the stream {self.stream}, and this is the stream {stream}: "
                "its batches have the same numbers and would be taken for written",
                "Write to another folder; or, if it is the same stream and its checkpoint is lost, restore that"
                if self.last is not None
                else "Write to another folder; or remove this one, which has no batches",
            )

    def take(self, stream: str) -> None:
        """Note the stream as the owner of the table, by one rename; of several at once, one succeeds."""
        taking = self.path / f"_taking-{uuid.uuid4().hex}"
        taking.mkdir(parents=True)
        try:
            (taking / Path(STREAM).name).write_text(f"{stream}\n")
            taking.rename((self.path / STREAM).parent)
        except OSError as error:
            shutil.rmtree(taking, ignore_errors=True)
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            self.demand(stream)

    def write(
        self,
        rows: DataFrame,
        number: int,
        stream: str,
        snapshot: int,
        batch: Batch | None = None,
        history: bytes | None = None,
    ) -> BatchRecord:
        """Write rows as a batch that the table lacks; a table that belongs to no stream now belongs to this one."""
        if self.stream is None:
            self.take(stream)
        written = Observation(MATCHES)
        folder = self.path / f"_writing-{number:06}"
        observed = rows.observe(written, count_rows())
        observed.write.format(FORMATS[self.format]).mode("overwrite").save(str(folder))
        if not folder.exists():
            raise StorageError(
                f"the Spark Connect server has written {folder}, and this machine does not see it",
                "Let both mount the folder of the table at the same path, or write the matches with matches.write",
            )
        events, evidence = (batch.events.get["rows"], batch.evidence.get()) if batch else (None, None)
        record = BatchRecord(number, snapshot, events, written.get["rows"], stream, evidence)
        (folder / RECORD).write_text(json.dumps(asdict(record)) + "\n")
        if history is not None:
            (folder / HISTORY).write_bytes(history)
        folder.rename(self._folder(number))
        (self._folder(number - 1) / HISTORY).unlink(missing_ok=True)
        return record

    def history(self, number: int) -> bytes | None:
        """Return the history after a batch; None before the first."""
        if number < 0:
            return None
        try:
            return (self._folder(number) / HISTORY).read_bytes()
        except FileNotFoundError as error:
            raise StorageError(
                f"{self.path} has no history of batch {number}",
                "Start the stream anew: with an empty table and an empty checkpoint",
            ) from error

    def records(self) -> list[BatchRecord]:
        """Return the records of all batches, in order."""
        found = [json.loads(record.read_text()) for record in self.path.glob(f"batch=*/{RECORD}")]
        for record in found:
            evidence = record.get("evidence")
            record["evidence"] = evidence and Evidence(**evidence)
        return sorted((BatchRecord(**record) for record in found), key=lambda record: record.batch)

    def _folder(self, number: int) -> Path:
        return self.path / f"batch={number:06}"


def console(matches: DataFrame, batch: Batch) -> None:
    """Show the matches of a batch."""
    print(f"batch {batch.number}, snapshot {batch.index.snapshot}")
    matches.show(truncate=False)


def running_query(session: SparkSession) -> str | None:
    """Return the id of the streaming query whose `foreachBatch` runs this; None outside, or if it is not known."""
    return None if is_connect(session) else session.sparkContext.getLocalProperty("sql.streaming.queryId")


def identity_in(checkpoint: str, session: SparkSession) -> str:
    """Return the id of the streaming query that a checkpoint is of."""
    (row,) = session.read.text(f"{checkpoint}/metadata").collect()
    return str(json.loads(row[0])["id"])


def count_rows() -> Column:
    """Return the metric that counts rows."""
    return F.count(F.lit(1)).alias("rows")
