"""The history of a matcher: the events that it remembers, and the truth of tests against them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from pyroaring import BitMap

from tocsin.errors import OptionError, StorageError
from tocsin.forks import Guard, Level
from tocsin.index.history_planner import HistoryPlanner
from tocsin.index.options import Options
from tocsin.index.snapshot import SegmentState, Snapshot
from tocsin.model.condition import Aggregated, Exists, HistoryTest, Quantified
from tocsin.model.events import Event, EventBatch, Events, event_batches
from tocsin.model.readable import python_values
from tocsin.model.totals import Total
from tocsin.predicates.families import Probed
from tocsin.predicates.history.aggregated_tests import total_of
from tocsin.predicates.history.batch_tests import BatchTruths, ToRemember, united
from tocsin.predicates.history.comparable_values import EncodedEvent
from tocsin.predicates.history.event_log import EventLog
from tocsin.predicates.history.family import HistoryFamily, probed
from tocsin.predicates.history.join_table import JoinTable, Truths, attributes_of
from tocsin.predicates.history.order import Order
from tocsin.predicates.history.prefilter import Savings
from tocsin.predicates.history.store import HistoryStore
from tocsin.registry import by_reference

if TYPE_CHECKING:
    from tocsin.index.by_reference import ReferencePlanner

    _Planner = HistoryPlanner | ReferencePlanner

_TRIES = 20
_WORTH_A_BATCH = 16
"""A batch is judged at once if it has so many pairs of an event and a group of tests; chosen, not measured."""
_LOADED = 65_536
"""Events that are loaded at a time."""

Judged = dict[int, Probed]
"""By the place of a family in its segment."""


class History:
    """The events that were published, in order: whole, or the attributes that the options name.

    >>> from tocsin import Matcher
    >>> matcher = Matcher(retain_events=2)
    >>> matcher.history.load([{"price": 9}, {"price": 10, "author": "Smith"}])
    >>> matcher.subscribe("record", "price > ALL (SELECT price FROM history)")
    >>> matcher.publish({"price": 11}).ids, list(matcher.history.events()), len(matcher.history)
    (['record'], [{'author': 'Smith', 'price': 10}, {'price': 11}], 2)
    """

    def __init__(self, options: Options, path: Path | None = None, is_reader: bool = False) -> None:
        self._options = options
        self.store = self._new_store(path, is_reader)
        self.lock = Guard(Level.HISTORY)
        """Held while the history is read or appended to."""
        self._snapshot: Snapshot | None = None
        self._planners: list[HistoryPlanner | None] = []
        self._by_reference: list[ReferencePlanner | None] = []
        """By segment: the judge of whole subscriptions, if the user chose the reference and some text looks back."""
        self._active: list[tuple[int, _Planner]] = []
        """The planners of both kinds that there are, each with the place of its segment."""
        self._have_few_groups = True
        """Whether no planner has so many groups of tests that a single event is worth a batch."""

    @classmethod
    def of_reader(cls, find: Callable[[], Path], options: Options) -> "History":
        """Read what is committed in a folder without changing it, as any process but the writer must."""
        for _ in range(_TRIES - 1):
            try:
                return cls(options, find(), is_reader=True)
            except StorageError:
                continue  # perhaps the writer was committing
        return cls(options, find(), is_reader=True)

    def _new_store(self, path: Path | None, is_reader: bool = False) -> HistoryStore:
        options = self._options
        log = None if options.history is None else EventLog(kept=options.kept)
        return HistoryStore(
            path, (), options.retain_events, options.retain_age, options.age_attribute, is_reader, log=log
        )

    def __len__(self) -> int:
        return len(self.store)

    @property
    def kept(self) -> frozenset[str] | None:
        """The attributes that are known of every event; None: all that it had. An older version kept only some."""
        partial, kept = self.store.partly_known, self._options.kept
        if partial is None:
            return kept
        return frozenset(partial) if kept is None else kept.intersection(partial)

    def events(self) -> Iterator[dict[str, Any]]:
        """Read the events back, oldest first, as they were published; attributes that are NULL are left out.

        Some thousand events are in memory at a time. What is published meanwhile may come or not.
        """
        with self.lock:
            log, first = self.store.log, self.store.first
        if log is None:
            raise OptionError("no events are kept", 'Make the matcher with history="all"')
        yield from log.events(first)

    def load(self, events: Events) -> None:
        """Give events as they were before the first that is published: a table, whatever Arrow reads, or dicts.

        They are not matched. With a folder, they are durable after `commit`.
        """
        if len(self.store):
            raise OptionError(
                f"there are {len(self.store):,} events in the history already", "Load before the first is published"
            )
        with self.lock:
            for batch in event_batches(events):
                for _, part in batch.parts(_LOADED):
                    self.store.append_events(part)

    @property
    def is_kept(self) -> bool:
        """Whether published events are remembered: not with `history=None`."""
        return self.store.log is not None

    def has_texts(self, attributes: Sequence[str]) -> bool:
        """Tell whether one of the attributes is a text in some event. Reads these attributes of all events."""
        with self.lock:
            log, first = self.store.log, self.store.first
            parts = [] if log is None else [list(columns.values()) for _, _, columns in log.columns(attributes, first)]
        columns = [python_values(column) for part in parts for column in part if column is not None]
        return any(isinstance(value, str) for column in columns for value in column)

    def convert(self, change: Callable[[dict[str, Any]], Event]) -> None:
        """Put another event in the place of each, such as one whose texts are read as times from now on.

        They are read and written some thousand at a time; with a folder, this is durable after `commit`.
        """
        with self.lock:
            log, first = self.store.log, self.store.first
            if log is None:
                return
            events = log.events(first)
            changed = [change(event) for event in islice(events, _LOADED)]
            self.store.clear()
            while changed:
                self.store.append_events(EventBatch(changed))
                changed = [change(event) for event in islice(events, _LOADED)]

    def check_files(self) -> None:
        """Read every file of the event log and compare its checksum. Raises StorageError if one is damaged."""
        with self.lock:
            if self.store.log is not None:
                self.store.log.check_files()

    def clear(self) -> None:
        """Forget all events; with a folder, this is durable after `commit`."""
        with self.lock:
            self.store.clear()
            self._snapshot = None

    def judge(self, snapshot: Snapshot, batch: EventBatch, remember: bool, every_test: bool = False) -> list[Judged]:
        """Judge the tests of each segment for each event; with `remember`, each event is history for the next.

        Tests that cannot change which conjunctions hold are left out, unless `every_test` is wanted.
        """
        with self.lock:
            self._follow(snapshot)
            found: list[Judged] = [{} for _ in self._planners]
            if len(batch) == 1 and self._have_few_groups and not remember:
                for state, planner in self._active:
                    found[state][planner.place] = _judge_one(planner, batch, every_test)
                return found
            judged = self._judge_all([planner for _, planner in self._active], batch, remember, every_test)
            for (state, planner), probed in zip(self._active, judged, strict=True):
                found[state][planner.place] = probed
        return found

    def _judge_all(
        self, planners: "Sequence[_Planner]", batch: EventBatch, remember: bool, every_test: bool
    ) -> list[Probed]:
        """Judge a batch: all at once what can be, the rest event by event; with `remember`, add it to the history."""
        store = self.store
        firsts = store.fronts(len(batch)) if remember else np.zeros(len(batch), np.int64)
        at_once = [firsts is not None and len(batch) * planner.groups >= _WORTH_A_BATCH for planner in planners]
        remembered: ToRemember | None = None
        if remember and (any(at_once) or not planners):
            remembered = store.encoded_event(batch) if len(batch) == 1 else store.encoded(batch)
        whole = [
            planner.judge_batch(batch, remembered, firsts) if worth and firsts is not None else None
            for planner, worth in zip(planners, at_once, strict=True)
        ]
        rest = [number for number, judged in enumerate(whole) if judged is None or judged[1]]
        truths: list[list[Truths]] = [[] for _ in planners]
        if rest:
            wanted = {n: None if every_test else planners[n].wanted(batch) for n in rest}
            left = {n: None if (judged := whole[n]) is None else judged[1] for n in rest}
            before = store.next
            try:
                for row in range(len(batch)):
                    event = batch.event(row)
                    for n in rest:
                        truths[n].append(_judge_rest(planners[n], event, row, wanted[n], left[n], every_test))
                    if isinstance(remembered, EncodedEvent):
                        store.append_encoded_event(remembered)
                    elif remember:
                        store.append_columns(event)
            finally:
                if store.next > before:
                    store.log_events(batch.slice(0, store.next - before))
        elif remembered is not None:
            if isinstance(remembered, EncodedEvent):
                store.append_encoded_event(remembered)
            else:
                store.append_encoded(remembered, len(batch))
            store.log_events(batch)
        return [_together(judged, of_rows, len(batch)) for judged, of_rows in zip(whole, truths, strict=True)]

    def _follow(self, snapshot: Snapshot) -> None:
        """Keep the attributes that the subscriptions of a snapshot need, and release all others."""
        if snapshot is self._snapshot:
            return
        self._planners = [self._plan(state) for state in snapshot.states]
        self._by_reference = [self._plan_by_reference(state) for state in snapshot.states]
        both = zip(self._planners, self._by_reference, strict=True)
        self._active = [(state, one) for state, of_state in enumerate(both) for one in of_state if one is not None]
        self.store.keep(set().union(*(planner.kept for _, planner in self._active)))
        self._have_few_groups = all(planner.groups < _WORTH_A_BATCH for _, planner in self._active)
        self._snapshot = snapshot

    def _plan(self, state: SegmentState) -> HistoryPlanner | None:
        for place, (_, _, family) in enumerate(state.segment.families):
            if isinstance(family, HistoryFamily):
                return HistoryPlanner(state, place, family, self.store)
        return None

    def _plan_by_reference(self, state: SegmentState) -> "ReferencePlanner | None":
        for place, (name, _, family) in enumerate(state.segment.families):
            if name == "reference":
                return cast("ReferencePlanner | None", by_reference().reference_planner(place, family, self.store))
        return None

    def plans(self, snapshot: Snapshot) -> list[tuple[Order, Savings] | None]:
        """Return for each segment the order of constants and history, and what the pre-filter saves now."""
        with self.lock:
            self._follow(snapshot)
            return [
                None if planner is None else (planner.order, planner.prefilter.savings()) for planner in self._planners
            ]

    def keeps(self, test: HistoryTest) -> bool:
        """Whether the attributes of a test are kept: not if every alternative with the test is covered by another."""
        with self.lock:
            return attributes_of([test]) <= self.store.columns.keys()

    def witness(self, test: Exists | Quantified, event: Event) -> Event | None:
        """Return an old event that satisfies EXISTS or ANY, or violates ALL; None if there is none."""
        with self.lock:
            number = JoinTable([(0, test)], self.store).witness(test, event)
            return None if number is None else self.store.old_event(number)

    def not_comparable(self, test: Quantified, event: Event) -> Event | None:
        """Return an old event whose value does not compare with the new one; None if there is none."""
        with self.lock:
            number = JoinTable([(0, test)], self.store).not_comparable(test, event)
            return None if number is None else self.store.old_event(number)

    def total(self, test: Aggregated, event: Event) -> Total:
        """Return how many old events a test compares with, and their sum."""
        with self.lock:
            return total_of(test, self.store, event)

    def holds(self, test: HistoryTest, event: Event) -> bool | None:
        """Judge one test for an event."""
        with self.lock:
            truths = JoinTable([(0, test)], self.store).probe(event)
        return True if truths.true.size else None if truths.null.size else False

    def commit(self) -> None:
        """Make what was published durable, if the history has a folder."""
        with self.lock:
            self.store.commit()

    def go_on_from(self, store: HistoryStore) -> None:
        """Continue with another store in place of this one."""
        with self.lock:
            self.store, self._snapshot = store, None

    def copy_to(self, path: Path) -> HistoryStore:
        """Copy everything to a new folder and commit it; return the store there."""
        with self.lock:
            old, new = self.store, self._new_store(path)
            new.keep(old.columns)
            if old.log is None:
                for number in range(old.first, old.next):
                    new.append(old.old_event(number))
            else:
                for batch in old.log.batches(old.first):
                    new.append_events(batch)
            new.know_only(old.partly_known)
            new.commit()
            return new


def _judge_one(planner: "_Planner", batch: EventBatch, every_test: bool) -> Probed:
    """Judge the only event of a batch, without what serves many."""
    wanted = None if every_test else planner.wanted(batch)
    return probed([_judge_rest(planner, batch.event(0), 0, wanted, None, every_test)])


def _judge_rest(
    planner: "_Planner",
    event: Event,
    row: int,
    wanted: list[BitMap] | None,
    left: BitMap | None,
    every_test: bool,
) -> Truths:
    """Judge the tests of one event that are left, or all if `left` is None."""
    if every_test:
        return planner.judge_every_test(event, left)
    of_event = None if wanted is None else wanted[row]
    asked = left if of_event is None else of_event if left is None else of_event & left
    return planner.judge(event, asked)


def _together(whole: tuple[list[BatchTruths], BitMap] | None, of_rows: list[Truths], rows: int) -> Probed:
    """Unite what was judged for the whole batch and event by event."""
    parts = [] if whole is None else whole[0]
    if not parts and of_rows:
        return probed(of_rows)
    if len(parts) == 1 and not of_rows:
        return Probed(parts[0].true, null=parts[0].null)
    true, null = [part.true for part in parts], [part.null for part in parts]
    if of_rows:
        single = probed(of_rows)
        true.append(single.true)
        null += [] if single.null is None else [single.null]
    return Probed(united(true, rows), null=united(null, rows))
