"""Plan the tests on the history of a segment: which an event needs, and whether constants or history come first.

What can be judged for a whole batch is (see `batch_tests`). For the rest three things save work (Tatbul, section 4.3).
Tests that only dropped subscriptions demand are left out. The pre-filter rules out conjunctions that no event can
satisfy while the history is as it is; it is used if events are judged faster with it than without, as measured. And if
constants come first, only the tests of conjunctions that an event satisfies otherwise are judged.
"""

import statistics
import time
from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap

from tocsin.arrays import Int64s, Ragged
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.errors import OptionError
from tocsin.index.snapshot import SegmentState
from tocsin.model.events import Event, EventBatch
from tocsin.model.predicate import Conjunction, Test, Tested
from tocsin.model.result import Evidence
from tocsin.predicates.history.batch_tests import BatchTruths, ToRemember
from tocsin.predicates.history.family import HistoryFamily
from tocsin.predicates.history.join_table import JoinTable, Truths
from tocsin.predicates.history.order import OrderStatistics, choose_order
from tocsin.predicates.history.prefilter import Prefilter
from tocsin.predicates.history.store import HistoryStore
from tocsin.predicates.protocol import Probed

NOTHING = Truths(np.empty(0, np.int32), np.empty(0, np.int32))
MOST_NAMED = 3
PASSING = 0.01
"""The share of tests whose constants an event is assumed to satisfy, until it is learned."""
LEARNED = 64
"""Events after which the share counts as learned, and the order is chosen anew; then after twice as many."""


class HistoryPlanner:
    """The tests on the history that the live subscriptions of one segment demand, against one store."""

    def __init__(self, state: SegmentState, place: int, family: HistoryFamily, store: HistoryStore) -> None:
        self.place = place
        self._state = state
        self._store = store
        demands = state.segment.history_demands
        live = demands if not state.dropped.size else demands[~state.dropped[demands[:, 1]]]
        self.needed = np.unique(live[:, 0])
        by_conjunction = np.unique(live[:, [2, 0]], axis=0)
        self._conjunction, self._demanded = by_conjunction[:, 0], by_conjunction[:, 1]
        """Which conjunction demands which test, sorted by conjunction; -1 for trees."""
        self._of_trees = BitMap(live[live[:, 2] < 0, 0].tolist())
        """Tests of trees, which are judged for every event."""
        self.kept = family.kept(self.needed)
        store.keep([*store.columns, *self.kept])
        self._table = JoinTable([(number, family.tests[number]) for number in self.needed.tolist()], store)
        self._tests_of: list[BitMap] = []
        self._surviving, self._open_tests = BitMap(), BitMap()
        """The conjunctions that the pre-filter let pass last time, and their tests."""
        self.prefilter = self._prefilter(np.unique(live[:, 1]).tolist(), family)
        self.filtering = Filtering()
        self._events = self._passed = 0
        """How many events passed the constants so far, and how many tests they left in all."""
        self._learned_at = LEARNED
        self.order = choose_order(order_statistics(state, len(store)))
        self._candidates = self._constants_alone() if self.order.constants_first else None

    def _prefilter(self, subscriptions: list[int], family: HistoryFamily) -> Prefilter:
        """Register every conjunction of the subscriptions that look back, once for equal texts, with its tests.

        A conjunction that another one covers may have tests that nobody demands, on attributes that are not kept: it
        is registered without them.
        """
        number: dict[Test, int] = {test: place for place, test in enumerate(family.tests)}
        needed = set(self.needed.tolist())
        unneeded = {test for test, place in number.items() if place not in needed}
        segment = self._state.segment
        of_text = {segment.texts[n]: n for n in subscriptions}
        registered: list[Conjunction] = []
        for conjunction in segment.normal_form(np.array(list(of_text.values()), np.int32)).conjunctions():
            tests = [predicate.test for predicate in conjunction if isinstance(predicate, Tested)]
            self._tests_of.append(BitMap(number[test] for test in tests if test in number and test not in unneeded))
            registered.append(tuple(p for p in conjunction if not (isinstance(p, Tested) and p.test in unneeded)))
        return Prefilter(enumerate(registered), self._store)

    def _constants_alone(self) -> PairIndex | None:
        """Return the access pairs of the segment under the assumption that every test on the history holds."""
        pairs = self._state.segment.index.pairs
        if pairs is None:
            return None
        first = sum(family.count for _, _, family in self._state.segment.families[: self.place])
        return pairs.assuming(first, first + self._state.segment.families[self.place][2].count)

    def wanted(self, batch: EventBatch) -> list[BitMap] | None:
        """Return for each event the tests of conjunctions whose constants it satisfies; None if history comes first."""
        if self._candidates is None:
            return None
        segment = self._state.segment
        nothing = Ragged(np.zeros(len(batch) + 1, np.int64), np.empty(0, np.int32))
        unjudged = {self.place: Probed(nothing, null=nothing)}
        events = segment.encode_in_full(batch, unjudged, Evidence())
        pairs, _ = self._candidates.match(events)
        first = np.searchsorted(self._conjunction, pairs[:, 1], "left")
        count = np.searchsorted(self._conjunction, pairs[:, 1], "right") - first
        rows = np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
        found = np.unique(np.stack([np.repeat(pairs[:, 0], count), self._demanded[rows]], axis=1), axis=0)
        ends = np.searchsorted(found[:, 0], np.arange(len(batch) + 1))
        self._learn(len(batch), found.shape[0])
        return [self._of_trees | BitMap(found[ends[row] : ends[row + 1], 1].tolist()) for row in range(len(batch))]

    def _learn(self, events: int, passed: int) -> None:
        """Note how many tests the constants left, and choose the order by that share from time to time."""
        self._events += events
        self._passed += passed
        if self._events >= self._learned_at and self.needed.size:
            self._learned_at = 2 * self._events
            share = self._passed / (self._events * self.needed.size)
            self.order = choose_order(order_statistics(self._state, len(self._store), share))
            if not self.order.constants_first:
                self._candidates = None

    @property
    def groups(self) -> int:
        """How many groups of tests are asked, one after the other, for a single event."""
        return self._table.groups

    def judge_batch(
        self, batch: EventBatch, remembered: ToRemember | None, firsts: Int64s
    ) -> tuple[list[BatchTruths], BitMap]:
        """Judge a whole batch, as far as that is possible; return the truths, and the tests left."""
        return self._table.judge_batch(batch, remembered, firsts)

    def judge_every_test(self, event: Event, left: BitMap | None = None) -> Truths:
        """Judge all tests that some subscription demands, or those left, against the history as it is now."""
        return self._table.probe(event, left)

    def judge(self, event: Event, wanted: BitMap | None) -> Truths:
        """Judge the tests that can matter for an event, against the history as it is now."""
        start, filtered = time.perf_counter(), self.filtering.next()
        truths = self._judge_survivors(event, wanted) if filtered else self._judge_wanted(event, wanted)
        self.filtering.took(filtered, time.perf_counter() - start)
        return truths

    def _judge_wanted(self, event: Event, wanted: BitMap | None) -> Truths:
        return NOTHING if wanted is not None and not wanted else self._table.probe(event, wanted)

    def _judge_survivors(self, event: Event, wanted: BitMap | None) -> Truths:
        surviving = self.prefilter.surviving()
        if not surviving:
            return NOTHING
        if len(surviving) < len(self._tests_of):
            if surviving != self._surviving:
                self._surviving = surviving
                self._open_tests = BitMap.union(*(self._tests_of[conjunction] for conjunction in surviving))
            wanted = self._open_tests if wanted is None else wanted & self._open_tests
        return self._judge_wanted(event, wanted)


class Filtering:
    """Whether to use the pre-filter: both ways are timed, and the faster one is used until they are timed again.

    >>> choice = Filtering()
    >>> for _ in range(200): choice.took(filtered := choice.next(), 2.0 if filtered else 1.0)
    >>> choice.is_used, choice.seconds
    (False, (2.0, 1.0))
    """

    TIMED = 8
    """Events for which a way is timed; their median counts, since the first event catches up with the history."""
    AGAIN = 2048
    """Events after which both ways are timed again."""

    def __init__(self) -> None:
        self.is_used = True
        self._left = 0
        self._times: tuple[list[float], list[float]] = [], []

    @property
    def seconds(self) -> tuple[float, float]:
        """The seconds an event with the pre-filter and without, as last timed."""
        with_filter, without = (statistics.median(times) if times else 0.0 for times in self._times)
        return with_filter, without

    def next(self) -> bool:
        """Tell whether the next event shall pass the pre-filter."""
        timed = min(map(len, self._times))
        return self.is_used if timed >= self.TIMED else len(self._times[0]) < self.TIMED

    def took(self, filtered: bool, seconds: float) -> None:
        """Note how long an event took."""
        if min(map(len, self._times)) >= self.TIMED:
            self._left -= 1
            if self._left <= 0:
                self._times = [], []
            return
        self._times[0 if filtered else 1].append(seconds)
        if min(map(len, self._times)) >= self.TIMED:
            self.is_used, self._left = self.seconds[0] < self.seconds[1], self.AGAIN


def refuse(ids: Sequence[str], way_out: str) -> None:
    """Raise OptionError if there are subscriptions that look back where events have no history."""
    if ids:
        named = ", ".join([*ids[:MOST_NAMED], *(["…"] if len(ids) > MOST_NAMED else [])])
        raise OptionError(
            f"{len(ids):,} subscriptions look back at earlier events, and here an event has none: {named}", way_out
        )


def order_statistics(state: SegmentState, old_events: int, passing: float = PASSING) -> OrderStatistics:
    """Return what the order of constants and history depends on; `passing` is the share of tests after constants."""
    segment = state.segment
    demands = segment.history_demands
    tests = int(np.unique(demands[:, 0]).size)
    looking_back = np.unique(demands[:, 1]).size
    attributes = len({column.attribute for column in segment.columns})
    return OrderStatistics(
        subscriptions=max(len(segment), 1),
        old_events=max(old_events, 1),
        history_tests=tests,
        constant_attributes=attributes,
        tests_after_constants=tests * (passing if attributes else 1.0),
        attributes_after_history=attributes * min(1.0, looking_back / max(len(segment), 1)),
    )
