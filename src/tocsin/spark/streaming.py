"""Match a stream of events: each micro-batch against the newest snapshot, written exactly once."""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.errors import OptionError, StorageError
from tocsin.index.history_planner import refuse
from tocsin.matcher import Matcher
from tocsin.ranking.request import Interval, Mode, ScoreBy
from tocsin.spark._placement.ship import is_connect
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot, drop_older, pin
from tocsin.spark._worker.batches import ALL_MATCHES, MatchOptions
from tocsin.spark._worker.history_scan import Tests
from tocsin.spark.delivery import Inboxes
from tocsin.spark.event_columns import ColumnsToAdd, id_type, leading_columns, warn_of_attributes, with_id_type
from tocsin.spark.evidence import MatchEvidence, describe
from tocsin.spark.match import match_view
from tocsin.spark.ordered import match_after, scan_history
from tocsin.spark.parquet import address
from tocsin.spark.sinks import EVENTS, Batch, BatchRecord, BatchTable, Sink, console, count_rows

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
    shards: int | None = None,
    ship_index: bool | None = None,
) -> StreamingQuery:
    """Start to match a streaming DataFrame; return its query.

    All tasks of a micro-batch match against the snapshot of the index that is the newest when the batch starts. So
    subscriptions can change while the stream runs: `Matcher.commit` in any process is enough.

    `sink` is the folder of a Parquet table, or a `BatchTable`, which are written exactly once; `"console"`; or a
    function of the matches and the `Batch`. A table belongs to one stream and refuses others. `trigger` is that of
    Spark, such as ``{"availableNow": True}``. `prepare` changes the events of each batch before they are matched.
    `listener` is called for each batch that was written to a table. The other options are those of `match`.

    With `order`, every event is history for later ones: by this column within a batch, as in `match`, and from
    batch to batch. The first batch goes on from the events that were published to the index. The history is stored in
    the table with each batch, so the sink must be a table; and all matches of all subscriptions are found. Without
    `order`, subscriptions that look back are refused.
    """
    options = MatchOptions(dict(tags or {}), top_k, mode, score_by, interval)
    if not events.isStreaming:
        raise OptionError(
            "these events are not a stream", "Read them with spark.readStream, or call tocsin.spark.match"
        )
    if is_connect(events.sparkSession):
        raise OptionError(
            "a stream commits its batches in the driver, and under Spark Connect that is the server",
            "Start it in a classic session: with spark-submit, or a master that is not sc://…",
        )
    path, columns = Path(index).absolute(), (keep_columns, subscription_columns)
    leading_columns(events, id, *columns)  # refuses what cannot be added before the first batch
    checkpoint = address(checkpoint)
    # A process may run several streams over an index; each drops its own pinned snapshots.
    purpose = hashlib.sha256(checkpoint.encode()).hexdigest()[:12]
    write = console if sink == "console" else BatchTable(sink) if isinstance(sink, (str, Path)) else sink

    table = write if isinstance(write, BatchTable) else write.table if isinstance(write, Inboxes) else None
    identity: Future[str] = Future()

    if order is not None and not isinstance(write, BatchTable):
        raise OptionError("a stream that looks back keeps its history in a table", "Let the sink be a folder")
    if order is not None and (options != ALL_MATCHES or shards is not None):
        raise OptionError(
            "a stream with an order finds all matches of all subscriptions, in an index that is whole",
            "Leave out tags, top_k and shards, or the order",
        )

    def newest() -> PinnedSnapshot:
        view = pin(path, purpose)
        if order is None:
            looking_back = Matcher.open(view.path, mode="read").looking_back(tags)
            refuse(looking_back, 'Leave them out, or give order="column"')
        return view

    def run(frame: DataFrame, number: int) -> None:
        stream = identity.result()
        if table is not None and not table.lacks(number, stream):
            _demand_replay(table, number)
            return
        start = time.perf_counter()
        view = newest()
        drop_older(view)
        batch = Batch(number, view, Observation(EVENTS), stream, MatchEvidence())
        frame = frame if prepare is None else prepare(frame, view)
        record: object
        if order is not None and isinstance(write, BatchTable):
            record = _write_in_order(frame, write, batch, path, id, order, columns, ship_index)
        else:
            counted = frame.observe(batch.events, count_rows())
            matches = match_view(counted, view, options, batch.evidence, id, columns, shards, ship_index)
            record = write(with_id_type(matches, id_type(path)), batch)
        _log.info("batch %d, snapshot %d: %s", number, view.snapshot, describe(batch.evidence.get()))
        if listener is not None and isinstance(record, BatchRecord):
            listener(record, time.perf_counter() - start)

    # Refuses what cannot be matched before the first batch.
    warn_of_attributes(Matcher.open(newest().path, mode="read"), events.schema)
    writer = events.writeStream.foreachBatch(run).option("checkpointLocation", checkpoint)
    try:
        query = (writer.trigger(**trigger) if trigger else writer).start()
        identity.set_result(query.id)
    except BaseException as error:
        identity.set_exception(error)  # a batch may wait for it
        raise
    if table is not None:
        try:
            table.demand(query.id)
        except StorageError:
            query.stop()
            raise
    return query


def _demand_replay(table: BatchTable, number: int) -> None:
    """Raise unless a batch that is written is the last: with a current checkpoint Spark replays only that."""
    if number + 1 in table:
        raise StorageError(
            f"the checkpoint is older than the table: it goes on with batch {number}, "
            f"and {table.path} has batch {number + 1} already",
            f"Remove the folders of the batches from {number} on, whose events come again; or write to another folder",
        )


def _write_in_order(
    frame: DataFrame,
    table: BatchTable,
    batch: Batch,
    folder: Path,
    id: str,
    order: str,
    columns: ColumnsToAdd,
    ship_index: bool | None,
) -> BatchRecord | None:
    """Match a batch with the history of all batches before it, and store the history for the next.

    The first batch goes on from the events that were published to the index in `folder`.
    """
    path = batch.index.path
    before = table.history(batch.number - 1)
    start = Tests(path).published(folder, whole=True) if before is None else Tests(path).carried(before)
    kept = frame.persist()  # both passes read it
    try:
        scan = scan_history(kept, path, id=id, order=order, start=start, whole=True, ship_index=ship_index)
        counted = kept.observe(batch.events, count_rows())
        matches = match_after(counted, path, scan, batch.evidence, id, order, columns, ship_index)
        return table(with_id_type(matches, id_type(folder)), batch, scan.total or b"")
    finally:
        kept.unpersist()
