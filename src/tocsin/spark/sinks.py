"""Where a stream writes its batches, each exactly once: tables, or functions of the user.

A table is a folder:

    batch=000012/     what batch 12 wrote: Parquet or JSON Lines, its record in `_batch.json`, and in `_history` what is
                      to be remembered for the next batch, if subscriptions look back
    _writing-000013/  what is being written; readers of the table do not see it

A batch is written beside the table and appears by one rename, together with its record. A batch that is there is never
written again, so that a stream may replay it after a crash. `batch` is a column of the table when Spark reads it.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)

from tocsin.errors import OptionError, StorageError
from tocsin.spark._placement.ship import is_connect
from tocsin.spark._placement.snapshot_dir import View

FORMATS = {"parquet": "parquet", "jsonl": "json"}
EVENTS, MATCHES = "tocsin.events", "tocsin.matches"
"""The names under which Spark's own listeners see the counts of a batch, each as `rows`."""
RECORD = "_batch.json"
HISTORY = "_history"


@dataclass(frozen=True)
class Batch:
    """A micro-batch, as a sink sees it."""

    number: int
    """The same when the batch is replayed: write by it, with overwrite, and nothing is doubled."""
    index: View
    """The subscriptions that the batch is matched against, with the number of their snapshot."""
    events: Observation
    """Counts the events: ``events.get["rows"]``, once the matches have been written."""


@dataclass(frozen=True)
class BatchRecord:
    """What a batch was: its number in the stream, the snapshot that it was matched against, and its counts."""

    batch: int
    snapshot: int
    events: int | None
    """None where they were not seen."""
    matches: int


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
        if batch.number in self:
            return None
        return self.write(matches, batch.number, batch.index.snapshot, batch.events, history)

    def write(
        self,
        rows: DataFrame,
        number: int,
        snapshot: int,
        events: Observation | None = None,
        history: bytes | None = None,
    ) -> BatchRecord:
        """Write rows as the batch of that number, which is not there yet."""
        if is_connect(rows.sparkSession):
            raise OptionError(
                "a table of batches is committed by the driver, and under Spark Connect that is the server",
                "Write it from a classic session, or write the matches with matches.write",
            )
        written = Observation(MATCHES)
        folder = self.path / f"_writing-{number:06}"
        observed = rows.observe(written, count_rows())
        observed.write.format(FORMATS[self.format]).mode("overwrite").save(str(folder))
        record = BatchRecord(number, snapshot, events.get["rows"] if events else None, written.get["rows"])
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
        texts = [record.read_text() for record in self.path.glob(f"batch=*/{RECORD}")]
        return sorted((BatchRecord(**json.loads(text)) for text in texts), key=lambda record: record.batch)

    def _folder(self, number: int) -> Path:
        return self.path / f"batch={number:06}"


def console(matches: DataFrame, batch: Batch) -> None:
    """Show the matches of a batch."""
    print(f"batch {batch.number}, snapshot {batch.index.snapshot}")
    matches.show(truncate=False)


def count_rows() -> Column:
    """The number of rows, to be observed."""
    return F.count(F.lit(1)).alias("rows")
