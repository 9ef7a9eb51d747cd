"""What subscriptions cost: each one's share of the time of an event, measured on a few events now and then.

A sample of at most `SAMPLE` events of a batch is matched once more, the families of tests one by one. The time of a
family is divided among the subscriptions that demand a test of it, that of the history among those that look back, and
that of phase 2 in proportion to what each subscription gave it to do: matches, and verifications for every event. What
nobody in particular is to blame for, such as candidates that an index leaves, is in the total only.
"""

import time
from collections.abc import Mapping, Sequence

import numpy as np

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, Ragged, Strings
from tocsin.index.segment import NO_BOOLS, Segment
from tocsin.model.events import EventBatch
from tocsin.predicates.families import Probed

SAMPLE = 64
FIRST_AFTER = 256
"""Events before the first sample; each further one comes after four times as many, up to `EVERY`."""
EVERY = 65_536
"""Events between samples in the long run. Processor time measured with 3 ranges a subscription on 20 attributes:

| subscriptions | a sample | 65,536 events in batches of 2,000 | share | single: a sample | 65,536 one by one |
| --- | --- | --- | --- | --- | --- |
| 100,000 | 4.4 ms | 742 ms | 0.6 % | 0.5 ms | 4.8 s |
| 1,000,000 | 7.6 ms | 1,727 ms | 0.4 % | 1.3 ms | 10.8 s |

The samples of the beginning, 5 in the first 87,000 events, are 2 % of these."""


class SegmentWork:
    """The measured work of a segment. Threads may share it: samples that are taken at once may count as one."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._passed, self._next = 0, FIRST_AFTER
        self.events = 0
        """The events of all samples."""
        self.total_s = 0.0
        # A segment from a file is read when it is used: nothing is asked of it before the first sample.
        self._family_s: Float64s = np.zeros(0)
        self._history_s = self._match_s = 0.0
        self._done = 0
        """Candidates and matches in phase 2."""
        self._matches: Int64s = np.zeros(0, np.int64)

    def observe(self, batch: EventBatch, judged: Mapping[int, Probed], history_s: float) -> None:
        """Count the events of a batch that was matched, and measure some of them if it is time to."""
        self._passed += len(batch)
        if self._passed >= self._next and len(batch):
            self._passed, self._next = 0, min(4 * self._next, EVERY)
            self._measure(batch, judged, history_s)

    def _measure(self, batch: EventBatch, judged: Mapping[int, Probed], history_s: float) -> None:
        segment, count = self._segment, min(SAMPLE, len(batch))
        if not self.events:
            self._family_s, self._matches = np.zeros(len(segment.families)), np.zeros(len(segment), np.int64)
        rows = np.arange(count)
        if batch.single is not None:
            # Twice, so that it is not taken by the lane for single events, which has no families one by one.
            sample, rows = EventBatch([batch.single] * 2, batch.now), np.zeros(2, np.int64)
        else:
            sample = batch.slice(0, count)
        truths = {place: _some(probed, rows) for place, probed in judged.items()}
        for place, (_, _, family) in enumerate(segment.families):
            if place not in truths:
                start = time.perf_counter()
                truths[place] = family.probe(sample)
                self._family_s[place] += time.perf_counter() - start
                self.total_s += time.perf_counter() - start
        found, evidence = segment.match(sample, NO_BOOLS, truths)
        history_s *= rows.size / len(batch)
        self.events += rows.size
        self._history_s += history_s
        self._match_s += evidence.match_s
        self.total_s += evidence.encode_s + evidence.match_s + history_s
        self._done += evidence.candidates + evidence.matches
        self._matches += np.bincount(found.values, minlength=len(segment))

    def seconds(self) -> Float64s:
        """Return the seconds that each subscription took of those that were measured."""
        segment = self._segment
        spent = np.zeros(len(segment))
        if not self.events:
            return spent
        spent += self._matches * (self._match_s / max(self._done, 1))
        spent[self._verified()] += self.events * (self._match_s / max(self._done, 1))
        ends = np.cumsum([family.count for _, _, family in segment.families])
        family = np.searchsorted(ends, segment.form.test, side="right")
        conjunction = np.repeat(np.arange(segment.form.owner.size), np.diff(segment.form.test_starts))
        demands = np.bincount(family, minlength=ends.size)
        if family.size:
            np.add.at(spent, segment.form.owner[conjunction], (self._family_s / np.maximum(demands, 1))[family])
        looking_back = segment.history_demands[:, 1]
        if looking_back.size:
            np.add.at(spent, looking_back, self._history_s / looking_back.size)
        return spent

    def _verified(self) -> Int32s:
        """Return the subscriptions that every event verifies: those that no index finds, but for those in blocks."""
        segment, blocks = self._segment, self._segment.index.found_as_one
        if blocks is None:
            return segment.unindexed
        owner = segment.owners.owner[blocks.values]
        return np.setdiff1d(segment.unindexed, owner[owner >= 0])


def most_expensive(measured: Sequence[tuple[SegmentWork, Strings, Bools]], most: int) -> dict[str, float]:
    """Return the ids of the subscriptions that took the most time, with their shares of that of an event.

    `measured` has the work of each segment, its ids, and which of its subscriptions are dropped; empty: none.
    """
    known = [(work, ids, dropped) for work, ids, dropped in measured if work.events]
    total = sum(work.total_s / work.events for work, _, _ in known)
    found: list[tuple[float, str]] = []
    for work, ids, dropped in known:
        share = work.seconds() / (work.events * total)
        if dropped.size:
            share[dropped] = 0.0
        best = np.argsort(-share, kind="stable")[:most]
        found += [(-float(share[number]), ids[number]) for number in best.tolist() if share[number] > 0]
    return {id: -share for share, id in sorted(found)[:most]}


def _some(probed: Probed, rows: Int64s) -> Probed:
    """Return what was found for some events."""

    def lists(of: Ragged) -> Ragged:
        parts = [of.values[of.starts[row] : of.starts[row + 1]] for row in rows.tolist()]
        return Ragged(np.cumsum([0, *map(len, parts)]), np.concatenate(parts))

    present = None if probed.present is None else probed.present[rows]
    return Probed(lists(probed.true), present, None if probed.null is None else lists(probed.null))
