"""Match a DataFrame or files of events, lazily: in one narrow stage without a shuffle, unless events have an order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)

from tocsin.compile_ahead import compile_for
from tocsin.errors import OptionError
from tocsin.index.history_planner import refuse
from tocsin.model.result import Evidence
from tocsin.ranking.question import Interval, Mode, ScoreBy
from tocsin.registry import RankingName
from tocsin.spark._placement.plan_lifetime import keep_while_planned, planning
from tocsin.spark._placement.shards import shard, stored_shards
from tocsin.spark._placement.ship import Index, Place, place
from tocsin.spark._placement.snapshot_dir import PinnedSnapshot, pin
from tocsin.spark._worker.batches import MatchOptions, match_batches, open_index, with_subscriptions
from tocsin.spark._worker.row_groups import read_row_groups
from tocsin.spark.event_columns import (
    ColumnsToAdd,
    event_steps,
    index_path,
    leading_columns,
    match_schema,
    numbered_paths,
    stored_types,
    warn_of_attributes,
    warn_of_subscription_columns,
    with_stored_types,
)
from tocsin.spark.evidence import MatchEvidence, Reporter, remembered
from tocsin.spark.ordered import match_in_order
from tocsin.spark.parquet import Reader, RowGroupPlan, check_reader, plan, read_parquet


def match(
    events: DataFrame | str | Path,
    subscriptions: DataFrame | Index | str | Path,
    *,
    id: str,
    order: str | None = None,
    keep_columns: Sequence[str] = (),
    subscription_columns: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    top_k: int | None = None,
    mode: Mode = "exact",
    score_by: ScoreBy = "sum",
    interval: Interval = "overlaps",
    ranked_index: RankingName = "auto",
    partitions: int | None = None,
    reader: Reader | None = None,
    shards: int | None = None,
    ship_index: bool | None = None,
    evidence: MatchEvidence | None = None,
    audit: float = 0.0,
) -> DataFrame:
    """Return the matches of the events as a lazy DataFrame `event, subscription, score` and more columns.

    `keep_columns` are columns of the event, `subscription_columns` those of the subscription: `where`, which is its
    text, a column of the DataFrame of subscriptions, one that `build` was told to keep, or the name of a tag; workers
    look them up in the index. Ids and columns keep their types.

    `events` is a DataFrame; or a folder, a file or a glob of Parquet files, which are listed now. `reader` says who
    reads them. By default Spark reads a DataFrame, and workers read files, which is cheaper than rows that pass the
    JVM; files that only Spark can read, it reads. With ``reader="workers"`` that is an error, and a DataFrame that is
    nothing but Parquet files is read by workers too.

    `subscriptions` is a DataFrame `id, where[, score]`, of which an index is built now; or an index that `build` or
    `Matcher.save` made. The column `id` identifies an event; of the other columns only those that a subscription names
    are read. Struct fields have dotted names. `match` can be chained: ``events.transform(match, index, id="id")``.

    With `tags`, only subscriptions that have all of them are matched. With `top_k`, only the best matches of each event
    are returned, as `Matcher.top_k` finds them by this `mode`, `score_by`, `interval`; `ranked_index` is its `index`.
    With `shards`, the index is divided into that many groups of segments and each task maps only one, for an index that
    does not fit a host; an index that `Matcher.reshard` has divided, into its own. The events are then read once for
    each shard, and `top_k` needs a shuffle on `event`, whose values must be unique.

    Workers map the index in place if they run on this machine; otherwise it is shipped to each executor once. With
    ``ship_index=False`` it must be on storage that all of them mount at the same path. All tasks match against the
    snapshot that is the newest now, whenever they run.

    Subscriptions that look back at earlier events need an order: with `order`, each event has those before it by this
    column as its history, then by `id`, NULL first, and all of them those that were published to the index, as
    `Matcher.publish` does. A first pass over the events runs now; the matching is lazy, with one shuffle. The result
    does not depend on the number of `partitions`, by default one for each core.

    The log warns now of attributes that the events do not have, with the nearest name, and of those whose type can
    never compare. Values that a subscription cannot be compared with, or that cannot be read, count as NULL, and the
    log says so. With `evidence` they are counted, and the work and time of all tasks; `last_evidence` gives that of the
    last call. `audit` is the share of the pairs of an event and a subscription that workers judge a second time, as
    `Matcher(audit=...)` does; the evidence counts them and the disagreements, which stand in the logs of the workers.
    Events with an `order` are not audited.
    """
    if audit and order is not None:
        raise OptionError("events with an order are not audited", "Leave out the order or the audit")
    check_reader(reader)
    if reader == "workers" and order is not None:
        raise OptionError("workers do not read events with an order", "Leave out the reader or the order")
    options = MatchOptions(dict(tags or {}), top_k, mode, score_by, interval, ranked_index, audit)
    if isinstance(events, DataFrame):
        reader = reader or "spark"
    else:
        events = read_parquet(events, subscriptions.sparkSession if isinstance(subscriptions, DataFrame) else None)
    evidence, columns = remembered(evidence or MatchEvidence()), (keep_columns, subscription_columns)
    with planning():
        index = index_path(subscriptions, subscription_columns)
        types = stored_types(index)
        shards = stored_shards(index) if shards is None and order is None else shards
        view = pin(index, required=shards is not None)
        if isinstance(subscriptions, DataFrame):
            view = replace(view, is_of_jobs=True)  # no other job knows the index that was built here
        warn_of_attributes(view.opened, events.schema)
        warn_of_subscription_columns(view.opened, subscription_columns)
        if order is not None:
            if shards is not None:
                raise OptionError("an index in shards has no order of events", "Leave out shards, or the order")
            found = match_in_order(events, (index, view), options, evidence, id, order, columns, partitions, ship_index)
            return with_stored_types(found, types)
        refuse(view.opened.looking_back(tags), 'Leave them out, or give order="column"')
        if partitions is not None:
            raise OptionError("partitions are for events with an order", "Leave them out, or give the order")
        # Before the first task, and once: its workers would wait for one of them.
        compile_for(view.opened, top_k, mode)
        found = match_view(events, view, options, evidence, id, columns, shards, ship_index, reader)
        return with_stored_types(found, types)


def match_view(
    events: DataFrame,
    view: PinnedSnapshot,
    options: MatchOptions,
    evidence: MatchEvidence,
    id: str,
    columns: ColumnsToAdd,
    shards: int | None,
    ship_index: bool | None,
    reader: Reader | None = "spark",
) -> DataFrame:
    """Match against a pinned snapshot of an index; see `match`."""
    leading = leading_columns(events, id, *columns)
    if shards is not None and view.is_of_jobs:
        keep_while_planned(view.path)  # tasks read the shards, which have links of their own
    parts = [view] if shards is None else shard(view, shards)
    frames = [
        _match_on(events, leading, columns[1], part, number, ship_index, options, evidence, reader)
        for number, part in enumerate(parts)
    ]
    if shards is None:
        return frames[0]
    united = reduce(DataFrame.unionAll, frames)
    return united if options.top_k is None else _best(united, options.top_k)


def _match_on(
    events: DataFrame,
    leading: dict[str, list[str]],
    subscription_columns: Sequence[str],
    view: PinnedSnapshot,
    number: int,
    ship_index: bool | None,
    options: MatchOptions,
    evidence: MatchEvidence,
    reader: Reader | None,
) -> DataFrame:
    columns = leading | event_steps(events.schema, view.opened.attributes - leading.keys())
    work = plan(events, columns, reader)
    id_not_null = work is not None and work.id_not_null
    schema = match_schema(events, list(leading), id_not_null, subscription_columns)
    reporter = evidence.reporter(events, schema, number)
    placed = place(view.path, events.sparkSession, ship_index)
    task = partial(
        _match_partition,
        place=placed,
        names=tuple(columns),
        keep=len(leading),
        options=options,
        work=work,
        reporter=reporter,
        subscription_columns=tuple(subscription_columns),
    )
    if work is None:
        rows = numbered_paths(events, columns.values())
    else:
        rows = events.sparkSession.range(0, len(work.tasks), numPartitions=max(len(work.tasks), 1))
    matches = rows.mapInArrow(task, schema)
    if view.is_of_jobs:
        keep_while_planned(view.path, None if placed.is_artifact else matches)
    return evidence.observe(matches, reporter)


def _best(matches: DataFrame, k: int) -> DataFrame:
    """Keep the best k matches of each event; equal scores are ordered by id, as everywhere."""
    ranked = Window.partitionBy("event").orderBy(F.col("score").desc(), "subscription")
    return matches.withColumn("_rank", F.row_number().over(ranked)).filter(F.col("_rank") <= k).drop("_rank")


def _match_partition(
    batches: Iterable[pa.RecordBatch],
    place: Place,
    names: tuple[str, ...],
    keep: int,
    options: MatchOptions,
    work: RowGroupPlan | None,
    reporter: Reporter,
    subscription_columns: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    """Match the events of a partition; with `work` its rows are numbers of tasks, whose row groups are read here."""
    if work is not None:
        tasks = (work.tasks[number] for batch in batches for number in batch.column(0).to_pylist())
        batches = (events for pieces in tasks for events in read_row_groups(pieces, work.attributes, work.id_not_null))
    evidence = Evidence()
    matches = match_batches(batches, place.folder(), place.fingerprint, names, options, keep, evidence=evidence)
    if work is not None and work.id_not_null:
        matches = map(_named, matches)
    if subscription_columns:
        matches = with_subscriptions(matches, open_index(place.folder(), place.fingerprint), subscription_columns)
    return reporter.report(matches, evidence)


def _named(matches: pa.RecordBatch) -> pa.RecordBatch:
    """Declare the column `event` non-nullable."""
    schema = matches.schema.set(0, matches.schema.field(0).with_nullable(False))
    return pa.RecordBatch.from_arrays(matches.columns, schema=schema)
