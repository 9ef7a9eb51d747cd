"""History as a prefix scan, what runs in a Python worker: summarise a stretch of events, match one after its prefix.

No Spark in here. A stretch is the events between two bounds of the order. What came before it is a summary in a file
named after the number of the stretch; a stretch without a file is the first.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tocsin.index import commit as store
from tocsin.matcher import Matcher
from tocsin.model.condition import Op, Quantified, Quantifier
from tocsin.model.result import Evidence
from tocsin.predicates.history.family import HistoryFamily
from tocsin.predicates.history.join_table import attributes_of
from tocsin.predicates.history.store import HistoryStore
from tocsin.predicates.history.summary import restore, summarise
from tocsin.spark._worker.batches import match_slices
from tocsin.storage.folder import Folder

_ALL = 1 << 62
"""More events than there will be: a history that retains so many is summarised as a whole."""


class Tests:
    """The tests on the history in an index, and how long its events are remembered."""

    def __init__(self, path: str | Path) -> None:
        _, self.options, parts = store.load(Folder(Path(path)))
        families = [family for part in parts for _, _, family in part.segment.families]
        self.tests = [test for family in families if isinstance(family, HistoryFamily) for test in family.tests]
        age = self.options.age_attribute
        if age is not None:
            # Where events go by age, their summary must hold the attribute that tells it.
            self.tests.append(Quantified(age, Op.EQ, Quantifier.ANY, age))
        self.attributes = attributes_of(self.tests)

    def stretch(self, whole: bool) -> HistoryStore:
        """An empty history for a stretch; its summary holds every event if they go by age, or shall be `whole`."""
        retain_events = self.options.retain_events
        if retain_events is None and (whole or self.options.retain_age is not None):
            retain_events = _ALL
        return HistoryStore(None, self.attributes, retain_events)

    def history(self, summary: bytes | None) -> HistoryStore:
        """The history that a summary stands for, without what is no longer retained; empty if there is none."""
        retention = self.options.retain_events, self.options.retain_age, self.options.age_attribute
        return HistoryStore(None, self.attributes, *retention) if summary is None else restore(summary, *retention)

    def carried(self, summary: bytes) -> bytes:
        """A summary that was made for other tests, for these: what was not asked for then is NULL."""
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
    """Yield one row for a stretch in order: the first value of the order, and the summary.

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
) -> Iterator[pa.RecordBatch]:
    """Match stretches in order, each against its prefix and the events of its own that came before.

    The first column of the batches is the number of the stretch; the others are those of `worker.match_batches`.
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
            yield from match_slices(matcher.publish_batch, stretch, keep, evidence=evidence)
