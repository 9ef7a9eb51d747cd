"""Store the history: a log of whole events, and columns of what some subscription compares with."""

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from tocsin.arrays import Int64s
from tocsin.errors import OptionError
from tocsin.model.events import EventBatch
from tocsin.model.lookup import lookup
from tocsin.predicates.history.aggregates import Aggregates
from tocsin.predicates.history.column import OldColumn
from tocsin.predicates.history.column_files import Commit, HistoryFolder
from tocsin.predicates.history.comparable_values import EncodedEvent
from tocsin.predicates.history.encode import Encoded, Encoder, Lane, encode_column
from tocsin.predicates.history.event_log import EventLog
from tocsin.predicates.history.tree import Tree

_COMPACT_FROM = 4096
"""Expired events are removed from the columns when they are more than this many, and more than are left."""


class HistoryStore:
    """The events that came before, by number, oldest first.

    Events `first <= number < next` are the history; numbers are never used twice. With a `log`, whole events are kept,
    and the column of an attribute is read from them when it is first needed; without one, an attribute that is kept
    from some point on is NULL in the events before it. With `retain_events` the newest so many are history; with
    `retain_age` those whose time is at most that much before the latest time seen, where an event's time is the latest
    `age_attribute` up to it: a timestamp if the age is a timedelta, an integer if it is one.

    In memory, or in the folder `path`, where `commit` makes what was appended durable; a process that dies loses what
    was not committed, nothing else. 9 bytes an event and attribute, and each distinct string once. A reader maps what
    is committed in the folder, leaves it as it is, and keeps what it appends in memory.

    >>> history = HistoryStore(attributes=["price"])
    >>> history.append({"price": 10, "author": "Smith"})
    0
    >>> history.old_event(0), len(history)
    ({'price': 10}, 1)
    """

    def __init__(
        self,
        path: str | Path | None = None,
        attributes: Iterable[str] = (),
        retain_events: int | None = None,
        retain_age: dt.timedelta | int | None = None,
        age_attribute: str | None = None,
        is_reader: bool = False,
        log: EventLog | None = None,
    ) -> None:
        if retain_events is not None and retain_events < 1:
            raise OptionError(f"retain_events is {retain_events}", "Keep at least one event, or pass None to keep all")
        if (retain_age is None) != (age_attribute is None):
            raise OptionError("retain_age and age_attribute belong together", "Pass both or neither")
        self.retain_events = retain_events
        self.retain_age = retain_age
        self.age_attribute = age_attribute
        self.encoder = Encoder()
        self.columns: dict[str, OldColumn] = {}
        self.newest: EncodedEvent | None = None
        """The newest event, if it was added by `append_encoded_event`."""
        self.compactions = 0
        self._state = Commit()
        self._aggregates: dict[str, Aggregates] = {}
        self._trees: dict[str, Tree] = {}
        self.totals: WeakValueDictionary[object, Any] = WeakValueDictionary()
        """Totals that are kept current, while some test compares with them (see `running_totals`)."""
        folder = None if path is None else HistoryFolder(Path(path), is_reader)
        if folder is not None:
            self._state, self.columns = folder.open(self.encoder)
        self._folder = None if is_reader else folder
        self.log = log
        if folder is not None and (log is not None or self._state.events):
            self.log = self._open_log(folder.path, log or EventLog())
        self.keep([*self.columns, *attributes])

    def _open_log(self, folder: Path, log: EventLog) -> EventLog:
        """Read the log of a folder; what an older version kept of its events becomes the first of it."""
        log.folder = None if self._folder is None else folder
        log.open(self._state.events, folder, self._state.next if self._state.events else self._state.first)
        log.forget(self._state.first)
        older = [self.old_event(number) for number in range(log.next, self._state.next)]
        if older:
            log.append(EventBatch(older))
        return log

    @property
    def partly_known(self) -> list[str] | None:
        """The only attributes known of all events, if an older version kept some of them; None: whole events."""
        partial = self._state.partial
        return None if partial is None or self._state.first >= partial[0] else partial[1]

    @property
    def is_stored(self) -> bool:
        """Whether the history is in a folder, not only in memory."""
        return self._folder is not None

    @property
    def base(self) -> int:
        """The number of the event at position 0 of every column."""
        return self._state.base

    @property
    def first(self) -> int:
        """The number of the oldest event in the history."""
        return self._state.first

    @property
    def next(self) -> int:
        """The number that the next event gets."""
        return self._state.next

    @property
    def epoch(self) -> tuple[int, int]:
        """Changes whenever positions or dictionary labels that were handed out have become wrong."""
        return self.compactions, self.encoder.relabellings

    def __len__(self) -> int:
        return self._state.next - self._state.first

    @property
    def nbytes(self) -> int:
        """The bytes of columns and trees; without dictionaries, which hold each distinct string once."""
        return sum(column.nbytes for column in self.columns.values()) + sum(t.nbytes for t in self._trees.values())

    def know_only(self, attributes: list[str] | None) -> None:
        """Note that of the events up to now only these attributes are known, unless it is None."""
        self._state.partial = None if attributes is None else (self._state.next, attributes)

    def append(self, event: Mapping[str, object]) -> int:
        """Add an event at the end and drop what is no longer retained; return its number.

        Cost: O(1) an attribute kept.
        """
        number = self.append_columns(event)
        if self.log is not None:
            self.log.append(EventBatch([event]))
        return number

    def append_columns(self, event: Mapping[str, object]) -> int:
        """Do the same, but leave the log to `log_events`."""
        number = self._state.next
        position = number - self._state.base
        for name, column in self.columns.items():
            lane, payload = self.encoder.encode(lookup(event, name))
            column.reserve(position + 1)
            column.write(position, lane, payload)
        self._advance(1)
        return number

    def log_events(self, batch: EventBatch) -> None:
        """Add the events of a batch, whose columns were appended one by one, to the log."""
        if self.log is not None:
            self.log.append(batch)

    def append_batch(self, table: pa.Table) -> None:
        """Add the rows of an Arrow table in order. Cost: O(rows) an attribute kept, without a loop in Python."""
        self.append_events(EventBatch(table))

    def append_events(self, batch: EventBatch) -> None:
        """Add the events of a batch in order."""
        self.append_encoded(self.encoded(batch), len(batch))
        self.log_events(batch)

    def encoded(self, batch: EventBatch) -> dict[str, Encoded]:
        """Encode the attributes of a batch that are kept, for `append_encoded`."""
        found = {name: batch.column(name) for name in self.columns}
        return {name: encode_column(values, self.encoder) for name, values in found.items() if values is not None}

    def encoded_event(self, batch: EventBatch) -> EncodedEvent:
        """Do the same for the event of a batch of one, for `append_encoded_event`: in a third of the time."""
        return EncodedEvent(batch, self.columns, self.encoder)

    def fronts(self, rows: int) -> Int64s | None:
        """Return how many events will have expired before each of so many rows, if all are added; None if by age."""
        if self.retain_age is not None and rows > 1:
            return None
        if self.retain_events is None:
            return np.zeros(rows, np.int64)
        fronts: Int64s = np.maximum(0, len(self) + np.arange(rows) - self.retain_events)
        return fronts

    def append_encoded(self, columns: Mapping[str, Encoded], count: int) -> None:
        """Add events whose values are encoded by this history's encoder; attributes left out are NULL."""
        start = self._state.next - self._state.base
        stop = start + count
        for name, column in self.columns.items():
            if column.lanes.size < stop:
                column.reserve(stop)
            if name in columns:
                column.lanes[start:stop], column.payloads[start:stop] = columns[name]
        self._advance(count)

    def append_encoded_event(self, event: EncodedEvent) -> None:
        """Add an event that was encoded by this history."""
        position = self._state.next - self._state.base
        for name, (lane, payload) in event.values.items():
            column = self.columns[name]
            if column.lanes.size <= position:
                column.reserve(position + 1)
            column.write(position, lane, payload)
        self._advance(1)
        self.newest = event

    def old_event(self, number: int) -> dict[str, object]:
        """Return the attributes kept of an event of the history; those that are NULL are left out."""
        if not self._state.first <= number < self._state.next:
            reach = f"{self._state.first} to {self._state.next - 1}" if len(self) else "no event"
            raise OptionError(f"event {number} is not in the history", f"It holds {reach}")
        at = number - self._state.base
        lanes = {name: (int(column.lanes[at]), int(column.payloads[at])) for name, column in self.columns.items()}
        return {name: self.encoder.decode(*value) for name, value in lanes.items() if value[0] != Lane.NULL}

    def keep(self, attributes: Iterable[str]) -> None:
        """Keep these attributes from now on and release all others, with the memory they hold."""
        wanted = set(attributes)
        if self.age_attribute is not None:
            wanted.add(self.age_attribute)
        used = self._state.next - self._state.base
        for name in [name for name in self.columns if name not in wanted]:
            del self.columns[name]
            self._aggregates.pop(name, None)
            self._trees.pop(name, None)
        new = {name: self._new_column(used) for name in sorted(wanted - self.columns.keys())}
        if new and self.log is not None:
            for start, count, values in self.log.columns(list(new), self._state.first):
                at = start - self._state.base
                for name, column in new.items():
                    given = values[name]
                    if given is not None:
                        encoded = encode_column(given, self.encoder)
                        column.lanes[at : at + count], column.payloads[at : at + count] = encoded
        self.columns.update(new)

    def clear(self) -> None:
        """Forget every event; numbers go on."""
        self._pass(self._state.next)
        self._state.partial = None
        self.expire()

    def aggregates(self, attribute: str) -> Aggregates:
        """Return the up-to-date counts, least and greatest values of an attribute."""
        found = self._aggregates.get(attribute)
        if found is None or found.column is not self.columns[attribute]:
            found = self._aggregates[attribute] = Aggregates(self.columns[attribute], self.encoder)
        found.refresh(self._state.first - self._state.base, self._state.next - self._state.base)
        return found

    def tree(self, attribute: str) -> Tree:
        """Return the up-to-date tree of an attribute."""
        found = self._trees.get(attribute)
        if found is None or found.column is not self.columns[attribute]:
            found = self._trees[attribute] = Tree(self.columns[attribute], self.encoder)
        found.refresh(self._state.first - self._state.base, self._state.next - self._state.base)
        return found

    def expire(self) -> int:
        """Drop from the front what is no longer retained; return how many. Cost: O(1) an event dropped, amortised."""
        state = self._state
        before = state.first
        if self.retain_events is not None and len(self) > self.retain_events:
            self._pass(state.next - self.retain_events)
        if self.retain_age is not None and state.latest_time is not None:
            cutoff = state.latest_time - _ticks(self.retain_age)
            while state.first < state.next and _is_before(state.passed_time, cutoff):
                position = state.first - state.base
                if not _is_before(self._latest(None, position, position + 1), cutoff):
                    break
                self._pass(state.first + 1)
        if self.log is not None:
            self.log.forget(state.first)
        if self._folder is None and self._is_mostly_gone():
            self._compact()
        return state.first - before

    def commit(self) -> None:
        """Make all that was appended durable. Cost: what is new since the last commit, and a few syncs."""
        if self._folder is None:
            return
        if self._is_mostly_gone():
            self._compact()
        if self.log is not None:
            self.log.flush()
            self._state.events = self.log.entries
        self._folder.commit(self._state, self.columns, self.encoder)

    def moved_to(self, path: Path) -> None:
        """Follow the folder to another name."""
        if self._folder is not None:
            self._folder.moved_to(path)
            if self.log is not None:
                self.log.folder = path
        for column in self.columns.values():
            column.moved_to(path)

    def check(self) -> None:
        """Assert the invariants."""
        state = self._state
        assert state.base <= state.first <= state.next, "the history is a range of numbers behind the base"
        assert self.retain_events is None or len(self) <= self.retain_events, "no more events than retained"
        for column in self.columns.values():
            assert column.lanes.size >= state.next - state.base, "every event has a place in every column"
        assert self.log is None or self.log.next == state.next, "the log has every event"
        assert self.log is None or self.log.first <= max(state.first, state.base), "no event of the history is lost"
        self.encoder.strings.check()
        self.encoder.exacts.check()

    def _advance(self, count: int) -> None:
        state = self._state
        start = state.next - state.base
        state.next += count
        self.newest = None
        state.latest_time = self._latest(state.latest_time, start, start + count)
        self.expire()

    def _is_mostly_gone(self) -> bool:
        return self._state.first - self._state.base > max(_COMPACT_FROM, len(self))

    def _pass(self, first: int) -> None:
        """Move the front of the history to `first`, and keep the latest time that was passed."""
        state = self._state
        state.passed_time = self._latest(state.passed_time, state.first - state.base, first - state.base)
        state.first = first

    def _latest(self, time: int | None, start: int, stop: int) -> int | None:
        """Return the latest of `time` and the times at the positions."""
        if self.age_attribute is None:
            return None
        column = self.columns[self.age_attribute]
        lane = Lane.TIME if isinstance(self.retain_age, dt.timedelta) else Lane.INTEGER
        times = column.payloads[start:stop][column.lanes[start:stop] == lane]
        if times.size == 0:
            return time
        return int(times.max()) if time is None else max(time, int(times.max()))

    def _compact(self) -> None:
        """Rewrite columns and dictionaries without the events that are gone."""
        state = self._state
        start, stop = state.first - state.base, state.next - state.base
        if self._folder is not None:
            self._folder.begin_generation()
        # The disk may be full: the old columns are replaced only when all new ones are written.
        columns, encoder = {}, Encoder()
        for name, column in self.columns.items():
            lanes = column.lanes[start:stop]
            payloads = encoder.recode(lanes, column.payloads[start:stop], self.encoder)
            fresh = columns[name] = self._new_column(stop - start)
            fresh.lanes[: stop - start] = lanes
            fresh.payloads[: stop - start] = payloads
        self.columns, self.encoder = columns, encoder
        state.base = state.first
        self.compactions += 1

    def _new_column(self, used: int) -> OldColumn:
        return OldColumn(None, used) if self._folder is None else self._folder.new_column(used)


def _is_before(time: int | None, cutoff: int) -> bool:
    return time is None or time < cutoff


def _ticks(age: dt.timedelta | int) -> int:
    return age // dt.timedelta(microseconds=1) if isinstance(age, dt.timedelta) else age
