"""Match subscriptions that look back at earlier events, by a prefix scan.

The events are cut into stretches by their order. The first pass summarises each stretch; the driver merges the
summaries from left to right, so that each stretch has the summary of all events before it; the second pass matches each
stretch, event by event, starting from that summary. The bounds between stretches are values of the order, so both
passes cut alike, and only the summaries are kept between them.
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)
from pyspark.sql.types import BinaryType, StructField, StructType, TimestampNTZType, TimestampType

from tocsin.errors import OptionError
from tocsin.model.result import Evidence
from tocsin.predicates.history.summary import merge
from tocsin.spark._placement.plan_lifetime import keep_while_planned
from tocsin.spark._placement.ship import Place, is_connect, place, scratch
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot
from tocsin.spark._worker.batches import ALL_MATCHES, MatchOptions, open_index, with_subscriptions
from tocsin.spark._worker.history_scan import Tests, match_stretches, summarise_stretch
from tocsin.spark.event_columns import ColumnsToAdd, column, event_columns, leading_columns, match_schema, numbered
from tocsin.spark.evidence import MatchEvidence, Reporter


@dataclass(frozen=True)
class Scan:
    """The result of the first pass."""

    bounds: list[object]
    """The least value of the order in every stretch but the first."""
    prefixes: list[bytes | None]
    """The summary of all events before each stretch."""
    total: bytes | None
    """The summary of all events."""


def match_in_order(
    events: DataFrame,
    index: tuple[Path, PinnedSnapshot],
    options: MatchOptions,
    evidence: MatchEvidence,
    id: str,
    order: str,
    columns: ColumnsToAdd,
    partitions: int | None,
    ship_index: bool | None,
) -> DataFrame:
    """Match events in order, each with the events before it as its history; see `match`.

    `index` is the folder, which has the events that were published to it, and its pinned snapshot.
    """
    folder, view = index
    start = Tests(view.path).published(folder)
    scan = scan_history(
        events, view.path, id=id, order=order, partitions=partitions, start=start, ship_index=ship_index
    )
    return match_after(events, view, scan, evidence, id, order, columns, ship_index, options)


def scan_history(
    events: DataFrame,
    path: Path,
    *,
    id: str,
    order: str,
    partitions: int | None = None,
    start: bytes | None = None,
    whole: bool = False,
    ship_index: bool | None = None,
) -> Scan:
    """Run the first pass: summarise every stretch and merge; `start` is the summary of earlier events.

    With `whole` the summaries hold every event, for subscriptions that are added later.
    """
    if order not in events.columns:
        raise OptionError(
            f"the events have no column {order!r} to order them by", f"Choose from {', '.join(events.columns)}"
        )
    count = partitions or _cores(events)
    key = order_key(events, order)
    columns = event_columns(events.schema, Tests(path).attributes)
    rows = numbered(events, [key, column([id]), *columns.values()])
    stretches = rows.repartitionByRange(count, "0").sortWithinPartitions("0", "1").drop("1")
    schema = StructType([StructField("low", rows.schema["0"].dataType), StructField("summary", BinaryType())])
    task = partial(
        _summarise_partition,
        index=place(path, events.sparkSession, ship_index),
        names=tuple(columns),
        whole=whole,
    )
    parts = stretches.mapInArrow(task, schema).orderBy("low").collect()
    prefixes = [start]
    for _, summary in parts:
        before = prefixes[-1]
        prefixes.append(bytes(summary) if before is None else merge(before, bytes(summary)))
    total = prefixes.pop() if parts else start
    return Scan([part["low"] for part in parts[1:]], prefixes, total)


def match_after(
    events: DataFrame,
    view: PinnedSnapshot,
    scan: Scan,
    evidence: MatchEvidence,
    id: str,
    order: str,
    to_add: ColumnsToAdd,
    ship_index: bool | None,
    options: MatchOptions = ALL_MATCHES,
) -> DataFrame:
    """Define the second pass: match every stretch, starting from its prefix."""
    leading = leading_columns(events, id, *to_add)
    attributes = view.opened.attributes | Tests(view.path).attributes
    columns = {name: column(steps) for name, steps in leading.items()}
    columns |= event_columns(events.schema, attributes - leading.keys())
    key = order_key(events, order)
    bounds = F.array(*(F.lit(bound) for bound in scan.bounds))
    stretch = F.size(F.filter(bounds, lambda bound: bound <= key)) if scan.bounds else F.lit(0)
    rows = numbered(events, [stretch.cast("int"), key, *columns.values()])
    # A task may get several stretches.
    stretches = rows.repartition(len(scan.bounds) + 1, "0").sortWithinPartitions("0", "1", "2").drop("1")
    schema = match_schema(events, list(leading), subscription_columns=to_add[1])
    reporter = evidence.reporter(events, schema)
    prefixes = _write(scan)
    placed = place(view.path, events.sparkSession, ship_index)
    task = partial(
        _match_partition,
        index=placed,
        prefixes=place(prefixes, events.sparkSession, ship_index),
        names=tuple(columns),
        keep=len(leading),
        options=options,
        reporter=reporter,
        subscription_columns=tuple(to_add[1]),
    )
    matches = stretches.mapInArrow(task, schema)
    for folder in [prefixes, view.path] if view.is_of_jobs else [prefixes]:
        keep_while_planned(folder, None if placed.is_artifact else matches)
    return evidence.observe(matches, reporter)


def order_key(events: DataFrame, order: str) -> Column:
    """Return the order as values that the driver can send back unchanged: timestamps as microseconds."""
    key = column([order])
    if isinstance(events.schema[order].dataType, (TimestampType, TimestampNTZType)):
        return F.unix_micros(key.cast("timestamp"))
    return key


def _write(scan: Scan) -> Path:
    """Write each prefix to a file."""
    folder = Path(tempfile.mkdtemp(prefix="prefixes-", dir=scratch()))
    for number, prefix in enumerate(scan.prefixes):
        if prefix is not None:
            (folder / str(number)).write_bytes(prefix)
    return folder


def _cores(events: DataFrame) -> int:
    session = events.sparkSession
    if is_connect(session):
        return int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    return session.sparkContext.defaultParallelism


def _summarise_partition(
    batches: Iterable[pa.RecordBatch], index: Place, names: tuple[str, ...], whole: bool
) -> Iterator[pa.RecordBatch]:
    return summarise_stretch(batches, index.folder(), names, whole)


def _match_partition(
    batches: Iterable[pa.RecordBatch],
    index: Place,
    prefixes: Place,
    names: tuple[str, ...],
    keep: int,
    options: MatchOptions,
    reporter: Reporter,
    subscription_columns: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    evidence = Evidence()
    matches = match_stretches(batches, index.folder(), prefixes.folder(), names, keep, evidence, options)
    if subscription_columns:
        matches = with_subscriptions(matches, open_index(index.folder(), index.fingerprint), subscription_columns)
    return reporter.report(matches, evidence)
