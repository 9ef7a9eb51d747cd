"""Plan the tests on the history of a segment: which an event needs, and whether constants or history come first.

Three things save work (Tatbul, section 4.3). Tests that only dropped subscriptions demand are left out. The pre-filter
rules out conjunctions that no event can satisfy while the history is as it is. And if constants come first, only the
tests of conjunctions that an event satisfies otherwise are judged.
"""

from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap

from tocsin.arrays import Ragged
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.errors import OptionError
from tocsin.index.snapshot import SegmentState
from tocsin.model.events import Event, EventBatch
from tocsin.model.predicate import Test, Tested
from tocsin.model.result import Evidence
from tocsin.predicates.history.family import HistoryFamily
from tocsin.predicates.history.join_table import JoinTable, Truths
from tocsin.predicates.history.order import OrderStatistics, choose_order
from tocsin.predicates.history.prefilter import Prefilter
from tocsin.predicates.history.store import HistoryStore
from tocsin.predicates.protocol import Probed

NOTHING = Truths(np.empty(0, np.int32), np.empty(0, np.int32))
MOST_NAMED = 3
PASSING = 0.01
"""The share of subscriptions whose constants an event is assumed to satisfy."""


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
        self.order = choose_order(statistics(state, len(store)))
        self._candidates = self._constants_alone() if self.order.constants_first else None

    def _prefilter(self, subscriptions: list[int], family: HistoryFamily) -> Prefilter:
        """Register every conjunction of the subscriptions that look back, once for equal texts, with its tests."""
        number: dict[Test, int] = {test: place for place, test in enumerate(family.tests)}
        segment = self._state.segment
        of_text = {segment.texts[n]: n for n in subscriptions}
        conjunctions = segment.normal_form(np.array(list(of_text.values()), np.int32)).conjunctions()
        for conjunction in conjunctions:
            tests = [predicate.test for predicate in conjunction if isinstance(predicate, Tested)]
            self._tests_of.append(BitMap(number[test] for test in tests if test in number))
        return Prefilter(enumerate(conjunctions), self._store)

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
        return [self._of_trees | BitMap(found[ends[row] : ends[row + 1], 1].tolist()) for row in range(len(batch))]

    def judge_every_test(self, event: Event) -> Truths:
        """Judge all tests that some subscription demands, against the history as it is now."""
        return self._table.probe(event)

    def judge(self, event: Event, wanted: BitMap | None) -> Truths:
        """Judge the tests that can matter for an event, against the history as it is now."""
        surviving = self.prefilter.surviving()
        if not surviving:
            return NOTHING
        if len(surviving) < len(self._tests_of):
            if surviving != self._surviving:
                self._surviving = surviving
                self._open_tests = BitMap.union(*(self._tests_of[conjunction] for conjunction in surviving))
            wanted = self._open_tests if wanted is None else wanted & self._open_tests
        if wanted is not None and not wanted:
            return NOTHING
        return self._table.probe(event, wanted)


def refuse(ids: Sequence[str], way_out: str) -> None:
    """Raise OptionError if there are subscriptions that look back where events have no history."""
    if ids:
        named = ", ".join([*ids[:MOST_NAMED], *(["…"] if len(ids) > MOST_NAMED else [])])
        raise OptionError(
            f"{len(ids):,} subscriptions look back at earlier events, and here an event has none: {named}", way_out
        )


def statistics(state: SegmentState, old_events: int) -> OrderStatistics:
    """Return what the order of constants and history depends on."""
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
        tests_after_constants=tests * (PASSING if attributes else 1.0),
        attributes_after_history=attributes * min(1.0, looking_back / max(len(segment), 1)),
    )
