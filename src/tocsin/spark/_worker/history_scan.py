"""The two passes of the prefix scan over history, as they run in a Python worker. This module does not import Spark.

A stretch is the events between two bounds of the order. Its prefix, the summary of all events before it, is in a file
named by the number of the stretch; the first stretch may have none.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tocsin.index import commit as store
from tocsin.matcher import Matcher
from tocsin.model.condition import HistoryTest, Op, Quantified, Quantifier
from tocsin.model.result import Evidence
from tocsin.predicates.history.family import HistoryFamily
from tocsin.predicates.history.join_table import attributes_of
from tocsin.predicates.history.store import HistoryStore
from tocsin.predicates.history.summary import restore, summarise
from tocsin.spark._worker.batches import ALL_MATCHES, MatchOptions, match_slices
from tocsin.storage.folder import Folder

_ALL = 1 << 62
"""More events than there will be, so that a history retains all and its summary holds each of them."""


class Tests:
    """The tests on history of an index, and its retention."""

    def __init__(self, path: str | Path) -> None:
        found = store.load(Folder(Path(path)))
        self.options = found.options
        families = [family for part in found.segments() for _, _, family in part.segment.families]
        self.tests = [test for family in families if isinstance(family, HistoryFamily) for test in family.tests]
        fresh = self.options.normalise([one.where for one in found.fresh], [one.id for one in found.fresh])
        self.tests += [tested.test for tested in fresh.tests if isinstance(tested.test, HistoryTest)]
        age = self.options.age_attribute
        if age is not None:
            # If events expire by age, a summary must hold the attribute that gives their time.
            self.tests.append(Quantified(age, Op.EQ, Quantifier.ANY, age))
        self.attributes = attributes_of(self.tests)

    def stretch(self, whole: bool) -> HistoryStore:
        """Return an empty history for a stretch; with `whole`, or if events expire by age, it retains every event."""
        retain_events = self.options.retain_events
        if retain_events is None and (whole or self.options.retain_age is not None):
            retain_events = _ALL
        return HistoryStore(None, self.attributes, retain_events)

    def history(self, summary: bytes | None) -> HistoryStore:
        """Restore the history of a summary, without expired events; None gives an empty history."""
        retention = self.options.retain_events, self.options.retain_age, self.options.age_attribute
        return HistoryStore(None, self.attributes, *retention) if summary is None else restore(summary, *retention)

    def published(self, index: Path, whole: bool = False) -> bytes | None:
        """Summarise the events that were published to an index, the first of all; None if there are none."""
        matcher = Matcher.open(index, mode="copy", background_merge=False)
        store = matcher.history.store
        if not len(store) or store.log is None:
            return None
        stretch = self.stretch(whole)
        for batch in store.log.batches(store.first):
            stretch.append_events(batch)
        return summarise(stretch, self.tests)

    def carried(self, summary: bytes) -> bytes:
        """Convert a summary of an older snapshot to the tests of this one; attributes that it lacks are NULL."""
        old = self.history(summary)
        if set(old.columns) == self.attributes and self.options.retain_age is None:
            return summary
        new = self.stretch(whole=True)
        for number in range(old.first, old.next):
            new.append(old.old_event(number))
        return summarise(new, self.tests)


def summarise_stretch(
    batches: Iterable[pa.RecordBatch],
    index: str,
    names: Sequence[str],
    whole: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield one row for a sorted stretch: the first value of the order, and the summary.

    The first column of the batches is the order, the others are the attributes `names`.
    """
    tests = Tests(index)
    history = tests.stretch(whole)
    first: pa.Array | None = None
    for batch in batches:
        if first is None and batch.num_rows:
            first = batch.column(0).slice(0, 1)
        table = pa.table(dict(zip(names, batch.columns[1:], strict=True))) if names else None
        if table is not None:
            history.append_batch(table)
        else:
            history.append_encoded({}, batch.num_rows)
    if first is not None:
        yield pa.RecordBatch.from_arrays(
            [first, pa.array([summarise(history, tests.tests)], pa.binary())], ["low", "summary"]
        )


def match_stretches(
    batches: Iterable[pa.RecordBatch],
    index: str,
    prefixes: str,
    names: Sequence[str],
    keep: int,
    evidence: Evidence | None = None,
    options: MatchOptions = ALL_MATCHES,
) -> Iterator[pa.RecordBatch]:
    """Match sorted stretches, each event against the prefix and the earlier events of its stretch.

    The first column of the batches is the number of the stretch; the others are those of `match_batches`.
    """
    tests, current = Tests(index), None
    for batch in batches:
        if not batch.num_rows:
            continue
        numbers = np.asarray(batch.column(0))
        rest = pa.RecordBatch.from_arrays(batch.columns[1:], names=list(names))
        begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, stop in zip(begins, [*begins[1:], numbers.size], strict=True):
            if numbers[start] != current:
                current = int(numbers[start])
                prefix = Path(prefixes) / str(current)
                matcher = Matcher.open(index, mode="copy", background_merge=False)
                matcher.history.go_on_from(tests.history(prefix.read_bytes() if prefix.exists() else None))
            stretch = [rest.slice(start, stop - start)]
            yield from match_slices(
                partial(matcher.publish_batch, **options.of_batch), stretch, keep, evidence=evidence
            )
