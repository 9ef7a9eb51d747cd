"""Match a stream of events: each micro-batch against the newest snapshot, written exactly once."""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.compile_ahead import compile_for
from tocsin.errors import OptionError, StorageError
from tocsin.index.history_planner import refuse
from tocsin.matcher import Matcher
from tocsin.ranking.question import Interval, Mode, ScoreBy
from tocsin.registry import RankingName
from tocsin.spark._placement.shards import stored_shards
from tocsin.spark._placement.ship import is_connect
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot, drop_older, pin
from tocsin.spark._worker.batches import ALL_MATCHES, MatchOptions
from tocsin.spark._worker.history_scan import Tests
from tocsin.spark.delivery import Inboxes
from tocsin.spark.event_columns import (
    ColumnsToAdd,
    leading_columns,
    stored_types,
    warn_of_attributes,
    warn_of_subscription_columns,
    with_stored_types,
)
from tocsin.spark.evidence import MatchEvidence, describe
from tocsin.spark.match import match_view
from tocsin.spark.ordered import match_after, scan_history
from tocsin.spark.parquet import address
from tocsin.spark.sinks import (
    EVENTS,
    Batch,
    BatchRecord,
    BatchTable,
    Sink,
    console,
    count_rows,
    identity_in,
    running_query,
)

_log = logging.getLogger(__name__)

Listener = Callable[[BatchRecord, float], object]
"""Called with the record of each batch and the seconds that it took."""


def stream(
    events: DataFrame,
    index: str | Path,
    *,
    id: str,
    checkpoint: str | Path,
    sink: str | Path | Sink,
    trigger: Mapping[str, Any] | None = None,
    order: str | None = None,
    prepare: Callable[[DataFrame, PinnedSnapshot], DataFrame] | None = None,
    listener: Listener | None = None,
    keep_columns: Sequence[str] = (),
    subscription_columns: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    top_k: int | None = None,
    mode: Mode = "exact",
    score_by: ScoreBy = "sum",
    interval: Interval = "overlaps",
    ranked_index: RankingName = "auto",
    shards: int | None = None,
    ship_index: bool | None = None,
) -> StreamingQuery:
    """Start to match a streaming DataFrame; return its query.

    All tasks of a micro-batch match against the snapshot of the index that is the newest when the batch starts. So
    subscriptions can change while the stream runs: `Matcher.commit` in any process is enough. So can the shards that
    `Matcher.reshard` divides the index into, which hold unless `shards` says otherwise.

    `sink` is the folder of a Parquet table, or a `BatchTable`, which are written exactly once; `"console"`; or a
    function of the matches and the `Batch`. A table belongs to one stream and refuses others. `trigger` is that of
    Spark, such as ``{"availableNow": True}``. `prepare` changes the events of each batch before they are matched.
    `listener` is called for each batch that was written to a table. The other options are those of `match`.

    Under Spark Connect batches run on the server: it must have Tocsin and see the index and the table, and it is there
    that a function as the sink, `prepare` and `listener` are called. What cannot be matched makes the query fail.

    With `order`, every event is history for later ones: by this column within a batch, as in `match`, and from
    batch to batch. The first batch goes on from the events that were published to the index. The history is stored in
    the table with each batch, so the sink must be a table; and all matches of all subscriptions are found. Without
    `order`, subscriptions that look back are refused.
    """
    options = MatchOptions(dict(tags or {}), top_k, mode, score_by, interval, ranked_index)
    if not events.isStreaming:
        raise OptionError(
            "these events are not a stream", "Read them with spark.readStream, or call tocsin.spark.match"
        )
    columns = keep_columns, subscription_columns
    leading_columns(events, id, *columns)  # refuses what cannot be added before the first batch
    write = console if sink == "console" else BatchTable(sink) if isinstance(sink, (str, Path)) else sink
    if order is not None and not isinstance(write, BatchTable):
        raise OptionError("a stream that looks back keeps its history in a table", "Let the sink be a folder")
    if order is not None and (options != ALL_MATCHES or shards is not None):
        raise OptionError(
            "a stream with an order finds all matches of all subscriptions, in an index that is whole",
            "Leave out tags, top_k and shards, or the order",
        )
    path, checkpoint = Path(index).absolute(), address(checkpoint)
    run = MicroBatches(path, id, checkpoint, write, options, columns, order, prepare, listener, shards, ship_index)
    if not is_connect(events.sparkSession):
        run.check(events)
    writer = events.writeStream.foreachBatch(run).option("checkpointLocation", checkpoint)
    query = (writer.trigger(**trigger) if trigger else writer).start()
    if run.table is not None:
        try:
            run.table.demand(query.id)
        except StorageError:
            query.stop()
            raise
    return query


@dataclass
class MicroBatches:
    """Match each micro-batch and write it. Spark Connect pickles this and calls it on the server."""

    path: Path
    id: str
    checkpoint: str
    write: Sink
    options: MatchOptions
    columns: ColumnsToAdd
    order: str | None
    prepare: Callable[[DataFrame, PinnedSnapshot], DataFrame] | None
    listener: Listener | None
    shards: int | None
    ship_index: bool | None
    is_checked: bool = False
    stream: str | None = None
    known: Matcher | None = None
    """The snapshot of the last batch."""

    @property
    def table(self) -> BatchTable | None:
        """The table that batches are written to, if the sink is one or has one."""
        write = self.write
        return write if isinstance(write, BatchTable) else write.table if isinstance(write, Inboxes) else None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Match a batch against the newest snapshot and hand the matches to the sink, unless its table has it."""
        if not self.is_checked:
            self.check(frame)
        session = frame.sparkSession
        stream = self.stream = self.stream or running_query(session) or identity_in(self.checkpoint, session)
        if self.table is not None and not self.table.lacks(number, stream):
            _demand_replay(self.table, number)
            return
        start = time.perf_counter()
        view = self.newest()
        drop_older(view)
        batch = Batch(number, view, Observation(EVENTS), stream, MatchEvidence())
        frame = frame if self.prepare is None else self.prepare(frame, view)
        record: object
        if self.order is not None and isinstance(self.write, BatchTable):
            record = self._write_in_order(frame, self.write, batch, self.order)
        else:
            counted = frame.observe(batch.events, count_rows())
            shards = stored_shards(view.path) if self.shards is None else self.shards
            matches = match_view(
                counted, view, self.options, batch.evidence, self.id, self.columns, shards, self.ship_index
            )
            record = self.write(with_stored_types(matches, stored_types(self.path)), batch)
        _log.info("batch %d, snapshot %d: %s", number, view.snapshot, describe(batch.evidence.get()))
        if self.listener is not None and isinstance(record, BatchRecord):
            self.listener(record, time.perf_counter() - start)

    def check(self, events: DataFrame) -> None:
        """Refuse what cannot be matched, warn of attributes that the events do not have, and compile kernels.

        To be done before the first task: workers would compile, and wait for each other.
        """
        opened = self.newest().opened
        if self.prepare is None:  # which may change types: its caller warns
            warn_of_attributes(opened, events.schema)
        warn_of_subscription_columns(opened, self.columns[1])
        if self.order is None:
            compile_for(opened, self.options.top_k, self.options.mode)
        self.is_checked = True

    def newest(self) -> PinnedSnapshot:
        """Pin the newest snapshot for this stream."""
        # A process may run several streams over an index; each drops its own pinned snapshots.
        view = replace(pin(self.path, hashlib.sha256(self.checkpoint.encode()).hexdigest()[:12]), known=self.known)
        self.known = view.opened
        if self.order is None:
            looking_back = view.opened.looking_back(self.options.tags)
            refuse(looking_back, 'Leave them out, or give order="column"')
        return view

    def _write_in_order(self, frame: DataFrame, table: BatchTable, batch: Batch, order: str) -> BatchRecord | None:
        """Match a batch with the history of all batches before it, and store the history for the next.

        The first batch goes on from the events that were published to the index.
        """
        path, id, ship_index = batch.index.path, self.id, self.ship_index
        before = table.history(batch.number - 1)
        start = Tests(path).published(self.path, whole=True) if before is None else Tests(path).carried(before)
        kept = frame.persist()  # both passes read it
        try:
            scan = scan_history(kept, path, id=id, order=order, start=start, whole=True, ship_index=ship_index)
            counted = kept.observe(batch.events, count_rows())
            matches = match_after(counted, batch.index, scan, batch.evidence, id, order, self.columns, ship_index)
            return table(with_stored_types(matches, stored_types(self.path)), batch, scan.total or b"")
        finally:
            kept.unpersist()


def _demand_replay(table: BatchTable, number: int) -> None:
    """Raise unless a batch that is written is the last: with a current checkpoint Spark replays only that."""
    if number + 1 in table:
        raise StorageError(
            f"the checkpoint is older than the table: it goes on with batch {number}, "
            f"and {table.path} has batch {number + 1} already",
            f"Remove the folders of the batches from {number} on, whose events come again; or write to another folder",
        )
