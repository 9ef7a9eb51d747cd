"""The Matcher: subscribe, match, explain, save and open."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.engine.explain import Explanation, explain
from tocsin.engine.families import Slices
from tocsin.engine.segment import Segment
from tocsin.engine.snapshot import Part, Snapshot, load, store
from tocsin.errors import OptionError, SubscriptionError, UnknownSubscriptionError
from tocsin.language.normalise import DEFAULT_LIMIT
from tocsin.model.events import Event, EventBatch
from tocsin.model.result import Evidence, Matches
from tocsin.model.subscription import Subscription
from tocsin.model.values import Kind

BATCH = 65_536
"""Events that are matched at a time: enough that each cell of an index meets several of them."""
BUFFER = 256
"""Subscriptions that are kept aside before they become a segment."""


class Matcher:
    """Standing subscriptions, and which of them each event satisfies.

    >>> matcher = Matcher()
    >>> matcher.subscribe("smith", "author = 'Smith' AND price BETWEEN 10 AND 30", score=2.0)
    >>> matcher.subscribe("cheap", "price < 12 OR price IS NULL")
    >>> matcher.match({"author": "Smith", "price": 10}).ids
    ['cheap', 'smith']
    >>> len(matcher), "smith" in matcher, list(matcher)
    (2, True, ['cheap', 'smith'])
    """

    def __init__(self, *, limit: int = DEFAULT_LIMIT) -> None:
        """Make an empty matcher; `limit` is the most conjunctions that one subscription may become."""
        if limit < 1:
            raise OptionError(f"limit is {limit}", "It must be at least 1")
        self._limit = limit
        self._lock = threading.RLock()
        self._parts: tuple[Part, ...] = ()
        self._buffer: dict[str, Subscription] = {}
        self._snapshot: Snapshot | None = None
        self.rejected: list[SubscriptionError] = []
        """The subscriptions that a bulk load left out, and why."""

    @classmethod
    def from_table(cls, table: pa.Table, *, limit: int = DEFAULT_LIMIT) -> "Matcher":
        """Make a matcher of a table with columns `id, where[, score, weights, tags]`; see `rejected` for bad rows.

        >>> matcher = Matcher.from_table(pa.table({"id": ["a", "b"], "where": ["x > 1", "x >"]}))
        >>> list(matcher), [error.subscription for error in matcher.rejected]
        (['a'], ['b'])
        """
        matcher = cls(limit=limit)
        matcher.load(table)
        return matcher

    def subscribe(
        self,
        id: str,
        where: str,
        score: float = 1.0,
        weights: Mapping[str, float] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add a subscription, or replace the one with this id; the next match sees it.

        Raises SubscriptionError if `where` cannot be understood. Costs one normalisation, whatever stands already.
        """
        if not isinstance(id, str) or not id:
            raise OptionError(f"a subscription's id is a text that is not empty, not {id!r}", "Pass a str")
        subscription = Subscription(id, where, float(score), weights or {}, tags or {})
        _, errors = self._build([subscription])
        if errors:
            raise errors[0]
        with self._lock:
            self._drop(id)
            self._buffer[id] = subscription
            if len(self._buffer) >= BUFFER:
                self._seal()
            self._snapshot = None

    def load(self, table: pa.Table) -> None:
        """Add the subscriptions of a table at once, much faster than one by one; bad rows go to `rejected`.

        A row replaces an earlier subscription with the same id.
        """
        missing = [name for name in ("id", "where") if name not in table.column_names]
        if missing:
            raise OptionError(
                f"the table has no column {' and no column '.join(map(repr, missing))}",
                f"It has {', '.join(table.column_names)}; rename its columns",
            )
        ids = [str(value) if value is not None else "" for value in table.column("id").to_pylist()]
        last = {id: row for row, id in enumerate(ids)}
        if len(last) < len(ids):
            rows = sorted(last.values())
            table, ids = table.take(pa.array(rows)), [ids[row] for row in rows]
        scores = np.ones(len(ids))
        if "score" in table.column_names:
            scores = np.asarray(table.column("score").cast(pa.float64()).fill_null(1.0))
        segment, errors = Segment.build(ids, table.column("where").to_pylist(), scores, _extras(table), self._limit)
        with self._lock:
            self.rejected += errors
            if self._parts or self._buffer:
                for number in range(len(segment)):
                    self._drop(segment.ids[number])
            self._parts += (Part(segment),)
            self._snapshot = None

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription; the next match does not see it. Raises UnknownSubscriptionError."""
        with self._lock:
            if not self._drop(id):
                raise self._unknown(id)
            self._snapshot = None

    def rescore(self, id: str, score: float) -> None:
        """Give a subscription another score. Raises UnknownSubscriptionError."""
        with self._lock:
            if id in self._buffer:
                old = self._buffer[id]
                self._buffer[id] = Subscription(id, old.where, float(score), old.weights, old.tags)
            else:
                part, number = self._find(id)
                part.rescore(number, float(score))
            self._snapshot = None

    def match(self, event: Event) -> Matches:
        """The subscriptions that an event satisfies, sorted by id, with their scores."""
        evidence = Evidence(events=1)
        found: list[tuple[str, float]] = []
        for view in self._current().views:
            slices, part_evidence = view.segment.match(EventBatch([event]), view.dropped)
            evidence.add(part_evidence)
            found += [(view.segment.ids[number], float(view.scores[number])) for number in slices.values.tolist()]
        found.sort()
        return Matches([id for id, _ in found], [score for _, score in found], evidence)

    def match_batch(self, events: pa.Table | pa.RecordBatch | Sequence[Event], id: str | None = None) -> pa.Table:
        """All matches of a batch, a row each: `event, subscription, score`.

        `event` is the value of the column `id`, or the number of the row. The evidence is in the table's metadata,
        under `tocsin`. Rows of one event stand together for each segment of the matcher.

        >>> matcher = Matcher.from_table(pa.table({"id": ["low"], "where": ["price < 10"]}))
        >>> matcher.match_batch(pa.table({"key": ["p", "q"], "price": [5, 50]}), id="key").to_pylist()
        [{'event': 'p', 'subscription': 'low', 'score': 1.0}]
        """
        batch = EventBatch(events)
        names = _event_names(batch, id)
        evidence = Evidence(events=len(batch))
        tables = []
        for view in self._current().views:
            for start in range(0, len(batch), BATCH):
                part = batch.slice(start, BATCH) if len(batch) > BATCH else batch
                slices, part_evidence = view.segment.match(part, view.dropped)
                evidence.add(part_evidence)
                tables.append(_as_table(slices, start, names, view.segment, view.scores))
        empty = pa.schema(
            [
                ("event", names.type),
                ("subscription", pa.dictionary(pa.int32(), pa.large_string())),
                ("score", pa.float64()),
            ]
        )
        table = pa.concat_tables(tables) if tables else empty.empty_table()
        return table.replace_schema_metadata({"tocsin": json.dumps(vars(evidence))})

    def explain(self, event: Event, id: str) -> Explanation:
        """Which predicates of a subscription held for an event and which failed."""
        return explain(self[id], event, self._limit)

    def save(self, path: str | Path) -> None:
        """Write all subscriptions and their indexes to a folder, from which `open` maps them."""
        with self._lock:
            self._seal()
            store(Path(path), self._parts, self._limit)

    @classmethod
    def open(cls, path: str | Path) -> "Matcher":
        """Map a saved matcher: costs the directory of its files, whatever their size."""
        parts, limit = load(Path(path))
        matcher = cls(limit=limit)
        matcher._parts = parts
        return matcher

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that some subscription names."""
        return frozenset().union(*(view.segment.attributes for view in self._current().views))

    @property
    def kinds(self) -> dict[str, set[Kind]]:
        """The kinds of constants that each attribute is compared with."""
        kinds: dict[str, set[Kind]] = {}
        for view in self._current().views:
            for column in view.segment.columns:
                if column.kind is not Kind.ANY:
                    kinds.setdefault(column.attribute, set()).add(column.kind)
        return kinds

    @property
    def nbytes(self) -> int:
        """Bytes of the index, without the texts and ids of subscriptions."""
        return sum(view.segment.index_bytes for view in self._current().views)

    def __getitem__(self, id: str) -> Subscription:
        with self._lock:
            if id in self._buffer:
                return self._buffer[id]
            part, number = self._find(id)
            return part.subscription(number)

    def __contains__(self, id: object) -> bool:
        with self._lock:
            return id in self._buffer or any(part.find(str(id)) is not None for part in self._parts)

    def __len__(self) -> int:
        with self._lock:
            return len(self._buffer) + sum(len(part) for part in self._parts)

    def __iter__(self) -> Iterator[str]:
        """The ids, sorted."""
        with self._lock:
            ids = [id for part in self._parts for id in part.ids()]
            return iter(sorted([*ids, *self._buffer]))

    def _current(self) -> Snapshot:
        """The snapshot that a match holds on to: later changes do not touch it."""
        with self._lock:
            if self._snapshot is None:
                views = [part.view() for part in self._parts if len(part)]
                if self._buffer:
                    segment, _ = self._build(list(self._buffer.values()))
                    views.append(Part(segment).view())
                self._snapshot = Snapshot(tuple(views))
            return self._snapshot

    def _build(self, subscriptions: Sequence[Subscription]) -> tuple[Segment, list[SubscriptionError]]:
        return Segment.build(
            [subscription.id for subscription in subscriptions],
            [subscription.where for subscription in subscriptions],
            np.array([subscription.score for subscription in subscriptions]),
            [_extra(subscription.weights, subscription.tags) for subscription in subscriptions],
            self._limit,
        )

    def _seal(self) -> None:
        """Turn the buffer into a segment."""
        if self._buffer:
            segment, _ = self._build(list(self._buffer.values()))
            self._parts += (Part(segment),)
            self._buffer = {}

    def _drop(self, id: str) -> bool:
        if self._buffer.pop(id, None) is not None:
            return True
        for part in self._parts:
            number = part.find(id)
            if number is not None:
                part.drop(number)
                return True
        return False

    def _find(self, id: str) -> tuple[Part, int]:
        for part in self._parts:
            number = part.find(id)
            if number is not None:
                return part, number
        raise self._unknown(id)

    def _unknown(self, id: str) -> UnknownSubscriptionError:
        return UnknownSubscriptionError(f"there is no subscription {id!r}", "List the ids with list(matcher)")


def _event_names(batch: EventBatch, id: str | None) -> pa.Array:
    if id is None:
        return pa.array(np.arange(len(batch)))
    column = batch.column(id)
    if column is None:
        names = batch.table.column_names if batch.table is not None else []
        raise OptionError(f"the events have no column {id!r}", f"They have {', '.join(names)}")
    return pa.array(column) if isinstance(column, list) else column


def _as_table(
    slices: Slices, first: int, names: pa.Array, segment: Segment, scores: npt.NDArray[np.float64]
) -> pa.Table:
    rows = np.repeat(np.arange(first, first + slices.starts.size - 1), np.diff(slices.starts))
    events = pa.array(rows) if pa.types.is_int64(names.type) and _is_row_number(names) else names.take(pa.array(rows))
    subscriptions = pa.DictionaryArray.from_arrays(pa.array(slices.values), segment.ids.arrow())
    return pa.table({"event": events, "subscription": subscriptions, "score": pa.array(scores[slices.values])})


def _is_row_number(names: pa.Array) -> bool:
    return bool(np.array_equal(np.asarray(names), np.arange(len(names)))) if names.null_count == 0 else False


def _extras(table: pa.Table) -> list[str]:
    columns: list[list[Any]] = []
    for name in ("weights", "tags"):
        present = name in table.column_names
        columns.append(table.column(name).to_pylist() if present else [None] * len(table))
    return [_extra(_mapping(weights), _mapping(tags)) for weights, tags in zip(*columns, strict=True)]


def _mapping(value: Any) -> dict[str, Any]:
    """A mapping from an Arrow map, a struct or JSON text; fields that are NULL do not count."""
    if isinstance(value, str):
        value = json.loads(value or "{}")
    return {name: item for name, item in dict(value or {}).items() if item is not None}


def _extra(weights: Mapping[str, float], tags: Mapping[str, str]) -> str:
    extras = {name: dict(value) for name, value in (("weights", weights), ("tags", tags)) if value}
    return json.dumps(extras, ensure_ascii=False) if extras else ""
