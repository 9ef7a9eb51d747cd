"""Match record batches of events in a Python worker. This module does not import Spark.

Memory is bounded, however many subscriptions an event matches: a batch is matched in slices, the size of a slice is
chosen by the matches of the slices before it, and the matches are sent in batches of at most `ROWS`.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import OptionError, StorageError
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence
from tocsin.ranking.question import Interval, Mode, Question, ScoreBy
from tocsin.registry import RankingName

ROWS = 1 << 16
"""The most matches in one record batch of the output."""

PAIRS = 1 << 20
"""The matches that a slice is sized for; twenty bytes each."""

FIRST_SLICE = 8
"""The events of the first slice: few enough that memory holds their matches, even a million for each event."""
GROWTH = 8
"""A slice has at most this many times the events of the one before."""

EVENTS = 1 << 16
"""The events that batches are united to. In batches of 10,000 matching takes 1.6 times the time of 50,000."""
BYTES = 1 << 26
"""The bytes of events that batches are united to."""

MATCH_FIELDS = (pa.field("subscription", pa.string(), nullable=False), pa.field("score", pa.float64(), nullable=False))
WHERE = "where"
"""The column with the text of a subscription."""
COLUMNS = ("event", *(field.name for field in MATCH_FIELDS))


@dataclass(frozen=True)
class MatchOptions:
    """Options of `Matcher.match_batch` for every batch of a job; invalid ones raise when this is made."""

    tags: Mapping[str, str] = field(default_factory=dict)
    top_k: int | None = None
    mode: Mode = "exact"
    score_by: ScoreBy = "sum"
    interval: Interval = "overlaps"
    index: RankingName = "auto"
    audit: float = 0.0
    """The share of pairs of an event and a subscription that is judged a second time."""

    @property
    def of_batch(self) -> dict[str, Any]:
        """The options as `Matcher.match_batch` takes them."""
        return {name: value for name, value in vars(self).items() if name != "audit"}

    def __post_init__(self) -> None:
        Question.of_batch(self.top_k, self.mode, self.score_by, self.interval, self.index)
        if not 0 <= self.audit <= 1:
            raise OptionError(f"audit is {self.audit}", "It is the share of pairs to judge again: from 0 to 1")


ALL_MATCHES = MatchOptions()


def match_batches(
    batches: Iterable[pa.RecordBatch],
    path: str,
    fingerprint: str,
    names: Sequence[str],
    options: MatchOptions = ALL_MATCHES,
    keep: int = 1,
    rows: int = ROWS,
    pairs: int = PAIRS,
    evidence: Evidence | None = None,
) -> Iterator[pa.RecordBatch]:
    """Match every batch against the index in `path`; yield batches of `event, subscription, score` and what is kept.

    The columns of the batches are the attributes `names`; the first is the id of the event, and the first `keep` go
    with each match. A process opens the index once for each `fingerprint`. The work is added to `evidence`.
    """
    named = (batch.rename_columns(names) for batch in united(batches))
    pace = pace_of(path, fingerprint, repr(options), pairs)
    matcher = open_index(path, fingerprint, options.audit) if options.audit else open_index(path, fingerprint)
    # Spark has no use for the order of rows.
    match = partial(matcher.match_batch, ordered=False, **options.of_batch)
    matches = match_slices(match, named, keep, rows, pace, evidence)
    return matches if evidence is None else _with_audit(matches, matcher, evidence)


def _with_audit(matches: Iterator[pa.RecordBatch], matcher: Matcher, evidence: Evidence) -> Iterator[pa.RecordBatch]:
    """Yield the matches of a task, then let `evidence` say what the audit has found in it."""
    before = matcher.audit
    judged, wrong = (0, 0) if before is None else (before.judged, before.wrong)
    yield from matches
    after = matcher.audit
    if after is not None:
        evidence.audited, evidence.disagreements = after.judged - judged, after.wrong - wrong


class Pace:
    """Choose the number of events in the next slice by the matches of the slices before it.

    It starts small and grows fast. Small slices cost up to ten times as much an event, so a process keeps its pace from
    one task to the next.
    """

    def __init__(self, pairs: int = PAIRS) -> None:
        self._pairs = pairs
        self._most = FIRST_SLICE

    def next(self, waiting: int) -> int:
        """Return the size of the next slice of the waiting events; equal slices, so that the last is not small."""
        return math.ceil(waiting / math.ceil(waiting / self._most))

    def saw(self, events: int, matches: int) -> None:
        """Take the matches of a slice into account."""
        fitting = self._pairs * events // max(matches, 1)
        self._most = max(1, min(fitting, max(self._most, events) * GROWTH))


@lru_cache(maxsize=16)
def pace_of(path: str, fingerprint: str, options: str, pairs: int) -> Pace:  # noqa: ARG001 (what the pace depends on)
    """Return the pace of this process for an index and its options."""
    return Pace(pairs)


def united(batches: Iterable[pa.RecordBatch], events: int = EVENTS, nbytes: int = BYTES) -> Iterator[pa.RecordBatch]:
    """Unite small batches into larger ones; the first batch is not held back, for an early result."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    first = True
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if first or 2 * rows > events or 2 * size > nbytes:
            yield _one(waiting)
            waiting, rows, size, first = [], 0, 0, False
    if waiting:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0]


def match_slices(
    match: Callable[[pa.RecordBatch], pa.Table],
    batches: Iterable[pa.RecordBatch],
    keep: int = 1,
    rows: int = ROWS,
    pace: Pace | None = None,
    evidence: Evidence | None = None,
) -> Iterator[pa.RecordBatch]:
    """Match batches with named columns slice by slice; `match` is a method of a `Matcher`."""
    pace, decoder = pace or Pace(), IdDecoder()
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            events = batch.slice(start, pace.next(batch.num_rows - start))
            start += events.num_rows
            matches = match(events)
            if evidence is not None:
                evidence.add_events(Evidence(**json.loads(matches.schema.metadata[b"tocsin"])))
            for chunk in matches.to_batches(max_chunksize=rows):
                yield _with_columns(chunk, events, keep, decoder)
            pace.saw(events.num_rows, matches.num_rows)


class IdDecoder:
    """Decode dictionary columns of ids. A dictionary is cast once to strings with 32-bit offsets, which are cached."""

    WORTH = 16
    """The cast pays if the dictionary has at most this many ids for each match to decode."""

    def __init__(self) -> None:
        self._short: dict[tuple[int, int, int], tuple[pa.Array, pa.Array]] = {}

    def decode(self, column: pa.DictionaryArray) -> pa.StringArray:
        """The ids as strings."""
        ids = column.dictionary
        data = ids.buffers()[2]
        if data is None or data.size >= 1 << 31 or len(ids) > self.WORTH * len(column):
            return column.cast(pa.string())
        key = data.address, ids.offset, len(ids)
        if key not in self._short:
            # The dictionary is kept too, so that its address is not used again.
            self._short[key] = ids, ids.cast(pa.string())
        return pc.take(self._short[key][1], column.indices, boundscheck=False)


def _with_columns(chunk: pa.RecordBatch, events: pa.RecordBatch, keep: int, decoder: IdDecoder) -> pa.RecordBatch:
    """Replace the row numbers of matches by the columns of their events."""
    rows = chunk.column("event")
    columns = [pc.take(column, rows, boundscheck=False) for column in events.columns[:keep]]
    subscription = decoder.decode(chunk.column("subscription"))
    score = chunk.column("score").cast(pa.float64())
    names = ["event", *events.schema.names[1:keep]]
    event, *kept = (pa.field(name, column.type) for name, column in zip(names, columns, strict=True))
    return pa.RecordBatch.from_arrays(
        [columns[0], subscription, score, *columns[1:]], schema=pa.schema([event, *MATCH_FIELDS, *kept])
    )


def with_subscriptions(
    matches: Iterable[pa.RecordBatch], matcher: Matcher, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Add columns of the subscription of each match: its text for `where`, or the value of the tag of that name.

    Each subscription is looked up once a batch.
    """
    for batch in matches:
        encoded = batch.column("subscription").dictionary_encode()
        found = [matcher[id] for id in encoded.dictionary.to_pylist()]
        values = [[one.where if name == WHERE else one.tags.get(name) for one in found] for name in names]
        columns = [pa.array(column, pa.string()).take(encoded.indices) for column in values]
        schema = pa.schema([*batch.schema, *(pa.field(name, pa.string()) for name in names)])
        yield pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)


@lru_cache(maxsize=2)
def open_index(path: str, fingerprint: str, audit: float = 0.0) -> Matcher:  # noqa: ARG001 (part of the cache key: the content of the path may change)
    """Open the index in `path` as mapped files, which all workers of a host share.

    What the snapshot has in common with the one that was opened last is not opened and checked again.
    """
    global _last
    if not Path(path).is_dir():
        raise StorageError(
            f"there is no index in {path} on this worker",
            "Put it on storage that every worker mounts at this path, or let it be shipped: match(…, ship_index=True)",
        )
    _last = Matcher.open(path, mode="read", background_merge=False, audit=audit, known=_last)
    return _last


_last: Matcher | None = None
"""What was opened last."""
