"""Match files of events on this machine, in the order of the files."""

import datetime as dt
import json
import time
from collections import Counter
from typing import Any

import pyarrow as pa

from tocsin.files.event_files import EventFiles, ReadEvent, Rows, column, demand_columns, names_of
from tocsin.files.formats import STANDARD
from tocsin.files.job import EXPLANATION, MatchJob, MatchJobResult
from tocsin.files.match_writer import MatchWriter
from tocsin.language.lint import lint_attributes
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence
from tocsin.model.schema import EventSchema
from tocsin.model.subscription import SubscriptionWarning


def match_locally(job: MatchJob, matcher: Matcher, events: EventFiles, writer: MatchWriter) -> MatchJobResult:
    """Match all events and write the matches; if a subscription looks back, each event is remembered."""
    start = time.perf_counter()
    evidence, first, id_column = Evidence(), 0, None
    remember = bool(matcher.looking_back(job.tags))
    for batch in events.batches():
        if first == 0:
            columns = names_of(batch)
            id_column = job.id or ("id" if "id" in columns else None)
            if str(events.files[0].path) == STANDARD:
                demand_columns(job.event_columns, columns)
        now = job.now or dt.datetime.now(dt.UTC)
        found = _match(job, matcher, batch, now, remember)
        evidence.add_events(Evidence(**json.loads(found.schema.metadata[b"tocsin"])))
        names = pa.array(range(first, first + len(batch))) if id_column is None else _values(batch, id_column)
        writer.write(_rows(job, matcher, batch, now, names, found))
        first += len(batch)
    writer.close()
    evidence.errors = dict(Counter(evidence.errors) + events.unread)
    seconds = time.perf_counter() - start
    warnings = _unknown_attributes(matcher, events.names) if first else []
    return MatchJobResult(first, writer.rows, seconds, evidence, events.bad, events.bad_lines, warnings)


def _unknown_attributes(matcher: Matcher, names: set[str]) -> list[SubscriptionWarning]:
    """Attributes that subscriptions compare and no event has, each with the nearest name that events have."""
    unknown = [one for one in matcher.attributes if one not in names and one.split(".")[0] not in names]
    return lint_attributes(unknown, {}, EventSchema(dict.fromkeys(names, frozenset())))


def _match(job: MatchJob, matcher: Matcher, batch: Rows | pa.RecordBatch, now: dt.datetime, remember: bool) -> pa.Table:
    match = matcher.publish_batch if remember else matcher.match_batch
    asked = job.question
    if asked is None:
        return match(batch, tags=job.tags, now=now)
    ranking = {
        "top_k": asked.k,
        "mode": asked.mode,
        "score_by": asked.score_by,
        "interval": asked.interval,
        "index": asked.index,
    }
    return match(batch, tags=job.tags, now=now, **ranking)  # type: ignore[arg-type]  # both take them


def _rows(
    job: MatchJob,
    matcher: Matcher,
    batch: Rows | pa.RecordBatch,
    now: dt.datetime,
    names: pa.Array,
    found: pa.Table,
) -> pa.Table:
    """The matches of a batch, with events by their names and the columns to keep."""
    numbers = found["event"].combine_chunks()
    ids = found["subscription"].cast(pa.string())
    rows = {"event": names.take(numbers), "subscription": ids, "score": found["score"]}
    rows |= {name: _values(batch, name).take(numbers) for name in job.keep}
    if job.explain:
        pairs = zip(numbers.to_pylist(), ids.to_pylist(), strict=True)
        texts = []
        for row, id in pairs:
            event = _event(batch, row)
            given = event.given if isinstance(event, ReadEvent) else None
            texts.append(str(matcher.explain(event, id, now=now, given=given)))
        rows[EXPLANATION] = pa.array(texts, pa.string())
    return pa.table(rows)


def _values(batch: Rows | pa.RecordBatch, name: str) -> pa.Array:
    """The values of a column of the events; NULL where no event has it."""
    if isinstance(batch, pa.RecordBatch):
        return batch.column(name) if name in batch.schema.names else pa.nulls(len(batch))
    return column([row.get(name) for row in batch])


def _event(batch: Rows | pa.RecordBatch, row: int) -> dict[str, Any]:
    return batch.slice(row, 1).to_pylist()[0] if isinstance(batch, pa.RecordBatch) else batch[row]
