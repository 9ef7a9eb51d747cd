"""The history of a matcher: what it remembers of earlier events, and the truth of tests against it."""

import shutil
import tempfile
import threading
import weakref
from pathlib import Path

import numpy as np

from tocsin.engine.families import Probed
from tocsin.engine.families.history import HistoryFamily, probed
from tocsin.engine.options import Options
from tocsin.engine.parts import Snapshot, View
from tocsin.errors import StorageError
from tocsin.model.events import Event, EventBatch
from tocsin.predicates.history.join_table import HistoryTest, JoinTable, Truths
from tocsin.predicates.history.store import HistoryStore

_TRIES = 20

Judged = dict[int, Probed]
"""By the place of a family in its segment."""


class History:
    """The events that were published, in order; only the attributes that some subscription looks back at are kept."""

    def __init__(self, options: Options, path: Path | None = None) -> None:
        self.store = HistoryStore(path, (), options.retain_events, options.retain_age, options.age_attribute)
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._needed: list[list[tuple[int, HistoryFamily, list[int]]]] = []

    @classmethod
    def copy_of(cls, path: Path, options: Options) -> "History":
        """What was committed in a folder, in a copy: only the writer may have the folder itself."""
        for attempt in range(_TRIES):
            copy = Path(tempfile.mkdtemp(prefix="tocsin-history-"))
            try:
                shutil.copytree(path, copy, dirs_exist_ok=True)
                history = cls(options, copy)
            except (StorageError, OSError):
                # The writer was committing.
                shutil.rmtree(copy, ignore_errors=True)
                if attempt == _TRIES - 1:
                    raise
                continue
            weakref.finalize(history, shutil.rmtree, copy, ignore_errors=True)
            break
        return history

    def __len__(self) -> int:
        return len(self.store)

    def judge(self, snapshot: Snapshot, batch: EventBatch, remember: bool) -> list[Judged]:
        """The truth of the tests of each view for each event; with `remember`, each event is history for the next."""
        with self._lock:
            self._follow(snapshot)
            truths: list[list[list[Truths]]] = [[[] for _ in families] for families in self._needed]
            if any(self._needed):
                for row in range(len(batch)):
                    event = batch.event(row)
                    for families, lists in zip(self._needed, truths, strict=True):
                        for (_, family, needed), judged in zip(families, lists, strict=True):
                            judged.append(family.judge(event, self.store, needed))
                    if remember:
                        self.store.append(event)
            elif remember:
                self._remember(batch)
        return [
            {place: probed(judged) for (place, _, _), judged in zip(families, lists, strict=True)}
            for families, lists in zip(self._needed, truths, strict=True)
        ]

    def _remember(self, batch: EventBatch) -> None:
        if batch.table is not None:
            self.store.append_batch(batch.table)
        else:
            for row in range(len(batch)):
                self.store.append(batch.event(row))

    def _follow(self, snapshot: Snapshot) -> None:
        """Keep what the subscriptions of a snapshot need, and release what none of them does any more."""
        if snapshot is self._snapshot:
            return
        self._needed = [_history_families(view) for view in snapshot.views]
        kept: set[str] = set()
        for families in self._needed:
            for _, family, needed in families:
                kept |= family.kept(np.array(needed, np.int32))
        self.store.keep(kept)
        self._snapshot = snapshot

    def witness(self, test: HistoryTest, event: Event) -> Event | None:
        """An old event that satisfies EXISTS or ANY, or breaks ALL; None if there is none."""
        with self._lock:
            number = JoinTable([(0, test)], self.store).witness(test, event)
            return None if number is None else self.store.old_event(number)

    def holds(self, test: HistoryTest, event: Event) -> bool | None:
        """The truth of one test for an event."""
        with self._lock:
            truths = JoinTable([(0, test)], self.store).probe(event)
        return True if truths.true.size else None if truths.null.size else False

    def commit(self) -> None:
        """Make what was published durable, if the history has a folder."""
        with self._lock:
            self.store.commit()

    def move_to(self, path: Path) -> None:
        """Keep the history in a folder from now on; what it holds goes there."""
        with self._lock:
            shutil.rmtree(path, ignore_errors=True)
            old = self.store
            new = HistoryStore(path, old.columns, old.retain_events, old.retain_age, old.age_attribute)
            for number in range(old.first, old.next):
                new.append(old.old_event(number))
            self.store = new


def _history_families(view: View) -> list[tuple[int, HistoryFamily, list[int]]]:
    """The families of tests on the history in a view, with the tests that a subscription still demands."""
    families: list[tuple[int, HistoryFamily, list[int]]] = []
    for place, (_, _, family) in enumerate(view.segment.families):
        if isinstance(family, HistoryFamily):
            demands = view.segment.history_demands
            live = demands if not view.dropped.size else demands[~view.dropped[demands[:, 1]]]
            families.append((place, family, np.unique(live[:, 0]).tolist()))
    return families
