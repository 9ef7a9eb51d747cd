"""The history of a matcher: what it remembers of earlier events, and the truth of tests against it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tocsin.errors import StorageError
from tocsin.forks import Guard, Level
from tocsin.index.history_planner import LookingBack
from tocsin.index.options import Options
from tocsin.index.snapshot import Snapshot, View
from tocsin.model.events import Event, EventBatch
from tocsin.predicates.families import Probed
from tocsin.predicates.history.family import HistoryFamily, probed
from tocsin.predicates.history.join_table import HistoryTest, JoinTable, Truths, attributes_of
from tocsin.predicates.history.order import Order
from tocsin.predicates.history.prefilter import Savings
from tocsin.predicates.history.store import HistoryStore
from tocsin.registry import by_reference

if TYPE_CHECKING:
    from tocsin.index.by_reference import ReferenceLookingBack

_TRIES = 20

Judged = dict[int, Probed]
"""By the place of a family in its segment."""


class History:
    """The events that were published, in order; only the attributes that some subscription looks back at are kept."""

    def __init__(self, options: Options, path: Path | None = None, is_reader: bool = False) -> None:
        retention = options.retain_events, options.retain_age, options.age_attribute
        self.store = HistoryStore(path, (), *retention, is_reader)
        self.lock = Guard(Level.HISTORY)
        """Held while somebody reads the history or adds to it."""
        self._snapshot: Snapshot | None = None
        self._options = options
        self._backs: list[LookingBack | None] = []
        self._by_reference: list[ReferenceLookingBack | None] = []
        """By view: who judges whole subscriptions, if the user chose the reference and some text looks back."""

    @classmethod
    def of_reader(cls, find: Callable[[], Path], options: Options) -> "History":
        """What was committed in the folder that is found, which stays as it is: only the writer may change it."""
        for _ in range(_TRIES - 1):
            try:
                return cls(options, find(), is_reader=True)
            except StorageError:
                continue  # the writer may have been committing
        return cls(options, find(), is_reader=True)

    def __len__(self) -> int:
        return len(self.store)

    def judge(self, snapshot: Snapshot, batch: EventBatch, remember: bool, every_test: bool = False) -> list[Judged]:
        """The truth of the tests of each view for each event; with `remember`, each event is history for the next.

        Tests that cannot change which conjunctions hold are left out, unless `every_test` is wanted.
        """
        with self.lock:
            self._follow(snapshot)
            backs = [back for back in (*self._backs, *self._by_reference) if back is not None]
            if not backs and remember:
                self.store.append_events(batch)
            wanted = [None if every_test else back.wanted(batch) for back in backs]
            truths: list[list[Truths]] = [[] for _ in backs]
            for row in range(len(batch) if backs else 0):
                event = batch.event(row)
                for back, tests, judged in zip(backs, wanted, truths, strict=True):
                    of_event = None if tests is None else tests[row]
                    judged.append(back.judge_every_test(event) if every_test else back.judge(event, of_event))
                if remember:
                    self.store.append(event)
            found = {id(back): probed(judged) for back, judged in zip(backs, truths, strict=True)}
            views = zip(self._backs, self._by_reference, strict=True)
        return [{back.place: found[id(back)] for back in of_view if back is not None} for of_view in views]

    def _follow(self, snapshot: Snapshot) -> None:
        """Keep what the subscriptions of a snapshot need, and release what none of them does any more."""
        if snapshot is self._snapshot:
            return
        self._backs = [self._look_back(view) for view in snapshot.views]
        self._by_reference = [self._look_back_by_reference(view) for view in snapshot.views]
        backs = (*self._backs, *self._by_reference)
        self.store.keep(set().union(*(back.kept for back in backs if back is not None)))
        self._snapshot = snapshot

    def _look_back(self, view: View) -> LookingBack | None:
        for place, (_, _, family) in enumerate(view.segment.families):
            if isinstance(family, HistoryFamily):
                return LookingBack(view, place, family, self.store)
        return None

    def _look_back_by_reference(self, view: View) -> "ReferenceLookingBack | None":
        for place, (name, _, family) in enumerate(view.segment.families):
            if name == "reference":
                return cast("ReferenceLookingBack | None", by_reference().look_back(place, family, self.store))
        return None

    def plans(self, snapshot: Snapshot) -> list[tuple[Order, Savings] | None]:
        """For each view, the order of constants and history, and what the pre-filter spares now."""
        with self.lock:
            self._follow(snapshot)
            return [None if back is None else (back.order, back.prefilter.savings()) for back in self._backs]

    def keeps(self, test: HistoryTest) -> bool:
        """Whether it remembers what a test looks at: not if an alternative covers each one that has the test."""
        with self.lock:
            return attributes_of([test]) <= self.store.columns.keys()

    def witness(self, test: HistoryTest, event: Event) -> Event | None:
        """An old event that satisfies EXISTS or ANY, or breaks ALL; None if there is none."""
        with self.lock:
            number = JoinTable([(0, test)], self.store).witness(test, event)
            return None if number is None else self.store.old_event(number)

    def holds(self, test: HistoryTest, event: Event) -> bool | None:
        """The truth of one test for an event."""
        with self.lock:
            truths = JoinTable([(0, test)], self.store).probe(event)
        return True if truths.true.size else None if truths.null.size else False

    def commit(self) -> None:
        """Make what was published durable, if the history has a folder."""
        with self.lock:
            self.store.commit()

    def go_on_from(self, store: HistoryStore) -> None:
        """Take another history for this one."""
        with self.lock:
            self.store, self._snapshot = store, None

    def copy_to(self, path: Path) -> HistoryStore:
        """A history in a new folder, with everything that this one holds, committed."""
        with self.lock:
            old = self.store
            new = HistoryStore(path, old.columns, old.retain_events, old.retain_age, old.age_attribute)
            for number in range(old.first, old.next):
                new.append(old.old_event(number))
            new.commit()
            return new
