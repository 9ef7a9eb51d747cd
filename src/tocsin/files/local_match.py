"""Match files of events on this machine, in the order of the files."""

import json
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tocsin.errors import OptionError
from tocsin.files.event_files import EventFiles, Rows, column
from tocsin.files.job import EXPLANATION, MatchJob, MatchJobResult
from tocsin.files.match_writer import MatchWriter
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence

Progress = Callable[[int, int], None]
"""Called with the number of events so far, and of matches."""


def match_locally(
    job: MatchJob, matcher: Matcher, events: EventFiles, writer: MatchWriter, progress: Progress
) -> MatchJobResult:
    """Match all events and write the matches; if a subscription looks back, each event is remembered."""
    start = time.perf_counter()
    evidence, first, id_column = Evidence(), 0, job.id
    remember = bool(matcher.looking_back(job.tags))
    for batch in events.batches():
        if first == 0 and id_column is None and "id" in names_of(batch):
            id_column = "id"
        found = _match(job, matcher, batch, remember)
        evidence.add_events(Evidence(**json.loads(found.schema.metadata[b"tocsin"])))
        names = pa.array(range(first, first + len(batch))) if id_column is None else _values(batch, id_column, "--id")
        writer.write(_rows(job, matcher, batch, names, found))
        first += len(batch)
        progress(first, writer.rows)
    writer.close()
    return MatchJobResult(first, writer.rows, time.perf_counter() - start, evidence, events.bad, events.bad_lines)


def _match(job: MatchJob, matcher: Matcher, batch: Rows | pa.RecordBatch, remember: bool) -> pa.Table:
    match = matcher.publish_batch if remember else matcher.match_batch
    asked = job.question
    if asked is None:
        return match(batch, tags=job.tags)
    return match(
        batch,
        tags=job.tags,
        top_k=asked.k,
        mode=asked.mode,
        score_by=asked.score_by,
        interval=asked.interval,
        index=asked.index,
    )


def _rows(job: MatchJob, matcher: Matcher, batch: Rows | pa.RecordBatch, names: pa.Array, found: pa.Table) -> pa.Table:
    """The matches of a batch, with events by their names and the columns to keep."""
    numbers = found["event"].combine_chunks()
    ids = found["subscription"].cast(pa.string())
    rows = {"event": names.take(numbers), "subscription": ids, "score": found["score"]}
    rows |= {name: _values(batch, name, "--keep").take(numbers) for name in job.keep}
    if job.explain:
        pairs = zip(numbers.to_pylist(), ids.to_pylist(), strict=True)
        texts = [str(matcher.explain(_event(batch, row), id)) for row, id in pairs]
        rows[EXPLANATION] = pa.array(texts, pa.string())
    return pa.table(rows)


def names_of(batch: Rows | pa.RecordBatch) -> list[str]:
    """The names of the columns of a batch."""
    return batch.schema.names if isinstance(batch, pa.RecordBatch) else sorted(set().union(*batch))


def _values(batch: Rows | pa.RecordBatch, name: str, option: str) -> pa.Array:
    """The values of a column of the events."""
    names = names_of(batch)
    if name not in names:
        raise OptionError(
            f"the events have no column {name!r}", f"Choose with {option} from {', '.join(names) or 'none at all'}"
        )
    return batch.column(name) if isinstance(batch, pa.RecordBatch) else column([row.get(name) for row in batch])


def _event(batch: Rows | pa.RecordBatch, row: int) -> dict[str, Any]:
    return batch.slice(row, 1).to_pylist()[0] if isinstance(batch, pa.RecordBatch) else batch[row]
