"""Where a stream writes its batches, each exactly once: tables, or functions of the user.

A table is a folder:

    batch=000012/     what batch 12 wrote: Parquet or JSON Lines, its record in `_batch.json`, and in `_history` what is
                      to be remembered for the next batch, if subscriptions look back
    _writing-000013/  what is being written; readers of the table do not see it
    _stream/id        the stream that the batches are of

A batch is written beside the table and appears by one rename, together with its record. A batch that is there is never
written again, so that a stream may replay it after a crash. `batch` is a column of the table when Spark reads it.

Numbers say which batch it is only within one stream: another stream counts from 0 as well, and so does one whose
checkpoint is lost. So a table is of one stream, the first that writes to it. The identity of a stream is Spark's id of
its query, which is in the checkpoint.
"""

import errno
import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)

from tocsin.errors import OptionError, StorageError
from tocsin.model.result import Evidence
from tocsin.spark._placement.ship import is_connect
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot
from tocsin.spark.evidence import MatchEvidence

FORMATS = {"parquet": "parquet", "jsonl": "json"}
EVENTS, MATCHES = "tocsin.events", "tocsin.matches"
"""The names under which Spark's own listeners see the counts of a batch, each as `rows`."""
RECORD = "_batch.json"
HISTORY = "_history"
STREAM = "_stream/id"


@dataclass(frozen=True)
class Batch:
    """A micro-batch, as a sink sees it."""

    number: int
    """The same when the batch is replayed: write by stream and number, with overwrite, and nothing is doubled."""
    index: PinnedSnapshot
    """The subscriptions that the batch is matched against, with the number of their snapshot."""
    events: Observation
    """Counts the events: ``events.get["rows"]``, once the matches have been written."""
    stream: str
    """The identity of the stream, which its checkpoint holds. Another stream has batches of the same numbers."""
    evidence: MatchEvidence
    """How the matches were found: ``evidence.get()``, once they have been written."""


@dataclass(frozen=True)
class BatchRecord:
    """What a batch was: its number in the stream, the snapshot that it was matched against, and its counts."""

    batch: int
    snapshot: int
    events: int | None
    """None where they were not seen."""
    matches: int
    stream: str | None = None
    """The identity of its stream; None if it was written before batches had one."""
    evidence: Evidence | None = field(default=None, compare=False)
    """How the matches were found, with the values that could not be used; None where that was not seen."""


Sink = Callable[[DataFrame, Batch], object]
"""Is given the matches of each batch and must write them; called again with the same number after a crash."""


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
        """Write a batch, unless it is there already; return its record if it was written."""
        if not self.lacks(batch.number, batch.stream):
            return None
        return self.write(matches, batch.number, batch.stream, batch.index.snapshot, batch, history)

    @property
    def stream(self) -> str | None:
        """The identity of the stream that the table is of; None if it is of none yet, or does not say."""
        try:
            return (self.path / STREAM).read_text().strip()
        except FileNotFoundError:
            return None

    @property
    def last(self) -> int | None:
        """The number of the last batch; None if there is none."""
        return max((int(path.name.partition("=")[2]) for path in self.path.glob("batch=*")), default=None)

    def lacks(self, number: int, stream: str) -> bool:
        """Whether a batch of a stream is still to be written. Raises StorageError if the table is of another stream."""
        self.demand(stream)
        # Whoever goes on where an old table ends is taken for its stream; one that begins anew is not.
        if self.stream is None and self.last not in (None, number - 1):
            raise StorageError(
                f"{self.path} does not say which stream wrote it, and has batches up to {self.last}; "
                f"this is batch {number} of the stream {stream}",
                "Write to another folder; or, if these batches are of this stream, "
                f"write its identity to the file {self.path / STREAM}",
            )
        return number not in self

    def demand(self, stream: str) -> None:
        """Raise StorageError if the table is of another stream."""
        if self.stream not in (None, stream):
            raise StorageError(
                f"{self.path} belongs to the stream {self.stream}, and this is the stream {stream}: "
                "its batches have the same numbers and would be taken for written",
                "Write to another folder; or, if it is the same stream and its checkpoint is lost, restore that"
                if self.last is not None
                else "Write to another folder; or remove this one, which has no batches",
            )

    def take(self, stream: str) -> None:
        """Make the table one of a stream, by one rename; of several that do so at once one succeeds."""
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
        """Write rows as the batch of that number, which the table lacks; a table of no stream becomes one of this."""
        if is_connect(rows.sparkSession):
            raise OptionError(
                "a table of batches is committed by the driver, and under Spark Connect that is the server",
                "Write it from a classic session, or write the matches with matches.write",
            )
        if self.stream is None:
            self.take(stream)
        written = Observation(MATCHES)
        folder = self.path / f"_writing-{number:06}"
        observed = rows.observe(written, count_rows())
        observed.write.format(FORMATS[self.format]).mode("overwrite").save(str(folder))
        events, evidence = (batch.events.get["rows"], batch.evidence.get()) if batch else (None, None)
        record = BatchRecord(number, snapshot, events, written.get["rows"], stream, evidence)
        (folder / RECORD).write_text(json.dumps(asdict(record)) + "\n")
        if history is not None:
            (folder / HISTORY).write_bytes(history)
        folder.rename(self._folder(number))
        (self._folder(number - 1) / HISTORY).unlink(missing_ok=True)
        return record

    def history(self, number: int) -> bytes | None:
        """What was to be remembered after a batch; None before the first."""
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
        """The records of all batches, in order."""
        found = [json.loads(record.read_text()) for record in self.path.glob(f"batch=*/{RECORD}")]
        for record in found:
            if record.get("evidence") is not None:
                record["evidence"] = Evidence(**record["evidence"])
        return sorted((BatchRecord(**record) for record in found), key=lambda record: record.batch)

    def _folder(self, number: int) -> Path:
        return self.path / f"batch={number:06}"


def console(matches: DataFrame, batch: Batch) -> None:
    """Show the matches of a batch."""
    print(f"batch {batch.number}, snapshot {batch.index.snapshot}")
    matches.show(truncate=False)


def count_rows() -> Column:
    """The number of rows, to be observed."""
    return F.count(F.lit(1)).alias("rows")
