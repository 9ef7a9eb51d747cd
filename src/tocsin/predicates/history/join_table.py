"""Answer every distinct test on the history, once each, for a new event."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap

from tocsin.arrays import Int32s, Int64s, Ragged
from tocsin.errors import OptionError
from tocsin.forks import cached
from tocsin.model.condition import (
    Aggregated,
    Exists,
    HistoryTest,
    OldComparedToConstant,
    OldComparedToNew,
    Op,
    Quantified,
    Quantifier,
)
from tocsin.model.events import EventBatch
from tocsin.predicates.history import batch_tests
from tocsin.predicates.history.aggregated_tests import AggregatedTests
from tocsin.predicates.history.batch_tests import (
    BatchComparison,
    BatchSearches,
    BatchTruths,
    Columns,
    Look,
    NewValues,
    ToRemember,
)
from tocsin.predicates.history.comparable_values import EncodedEvent
from tocsin.predicates.history.constant_tests import Constants, Row, TermShape, split
from tocsin.predicates.history.search import JoinTerm, NotComparable, Search, some
from tocsin.predicates.history.shaped_tests import EXISTS, Form, GroupedFamily, JoinFamily, SimpleTests, StaticFamily
from tocsin.predicates.history.store import HistoryStore

_NO_IDS: Int32s = np.empty(0, dtype=np.int32)
SMALL_HISTORY = batch_tests.MOST_EVENTS
"""Up to so many old events, single comparisons of a few new events are searched with all other tests, in one pass: a
published event with 100 shapes and 4,000 old events takes 0.28 ms, and 1.2 with a step for each pair of attributes."""
_FEW_TESTS = 16
"""Of a shape with more tests than this, all are answered by one search, event by event."""


class Truths(NamedTuple):
    """The ids of the tests that are TRUE and of those that are NULL; all others are FALSE. Each id once, unsorted."""

    true: Int32s
    null: Int32s


_ForBatches = tuple[BitMap, BatchComparison | BatchSearches]


class JoinTable:
    """The truth of many tests on the history for one new event.

    Tests are grouped by shape, and each group is answered at once (see `shaped_tests`).

    >>> from tocsin.model.condition import Op, Quantified, Quantifier
    >>> history = HistoryStore(attributes=["price"])
    >>> table = JoinTable([(7, Quantified("price", Op.LT, Quantifier.ANY, "price"))], history)
    >>> _ = history.append({"price": 10})
    >>> table.probe({"price": 9}).true.tolist(), table.probe({"price": 10}).true.tolist()
    ([7], [])
    """

    def __init__(self, tests: Iterable[tuple[int, HistoryTest]], store: HistoryStore) -> None:
        self.store = store
        self.tests = dict(tests)
        missing = sorted(attributes_of(self.tests.values()) - store.columns.keys())
        if missing:
            raise OptionError(f"the history does not keep {', '.join(missing)}", "Call `keep` with them first")
        self._searched = {n: test for n, test in self.tests.items() if not isinstance(test, Aggregated)}
        """The tests that look for one old event."""
        self._simple: dict[tuple[str, str], SimpleTests] = {}
        self._non_empty = np.array([n for n, test in self._searched.items() if test == Exists(())], dtype=np.int32)
        self._families: list[JoinFamily | StaticFamily | GroupedFamily] = []
        aggregated = {number: test for number, test in self.tests.items() if isinstance(test, Aggregated)}
        self._aggregated = AggregatedTests(aggregated, store) if aggregated else None
        self._group()
        self._groups = [*self._simple.values(), *self._families]

    def probe(self, event: Mapping[str, object], wanted: BitMap | None = None) -> Truths:
        """Return the truth of every test for a new event and the history as it is now, or of the wanted ones at least.

        Cost: O(1) or O(log n) for each pair of attributes that tests compare; for a conjunction, the old events that
        its rarest term selects.
        """
        search = Search(self.store, event)
        truths = [tests.probe(search) for tests in self._groups if wanted is None or wanted.intersect(tests.members)]
        if self._aggregated is not None:
            truths.append(self._aggregated.probe(search, wanted))
        if self._non_empty.size and len(self.store):
            truths.append((self._non_empty, _NO_IDS))
        if len(truths) == 1:
            return Truths(*truths[0])
        true, null = zip(*truths, strict=True) if truths else ((_NO_IDS,), (_NO_IDS,))
        return Truths(np.concatenate(true), np.concatenate(null))

    @property
    def groups(self) -> int:
        """How many groups of tests a probe asks, one after the other."""
        return len(self._simple) + len(self._families) + (0 if self._aggregated is None else self._aggregated.groups)

    def judge_batch(
        self, batch: EventBatch, remembered: ToRemember | None, firsts: Int64s
    ) -> tuple[list[BatchTruths], BitMap]:
        """Judge what can be judged for a whole batch; return the truths, and the tests that are left for `probe`.

        With `remembered`, the batch's values that will be history, each row sees the rows before it. Row r does not
        see the first `firsts[r]` events of the history.
        """
        found, left = [], self._left_to_probe.copy()
        columns: Columns | None
        if isinstance(remembered, EncodedEvent):
            # The only row sees no other.
            new, columns = NewValues(batch, self.store, remembered), None
        else:
            new, columns = NewValues(batch, self.store), remembered
        is_small = len(batch) < batch_tests.FEW_ROWS and len(self.store) <= SMALL_HISTORY
        for members, tests in self._for_small_batches if is_small else self._for_batches:
            truths = tests.judge(new, columns, firsts)
            if truths is None:
                left |= members
            else:
                found.append(truths)
        if self._non_empty.size:
            seen = np.full(len(batch), len(self.store)) + (0 if columns is None else np.arange(len(batch)))
            counts = np.where(seen > 0, self._non_empty.size, 0)
            starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            nothing = Ragged(np.zeros(len(batch) + 1, np.int64), _NO_IDS)
            found.append(BatchTruths(Ragged(starts, np.tile(self._non_empty, int((counts > 0).sum()))), nothing))
        return found, left

    @cached
    def _left_to_probe(self) -> BitMap:
        """Return the tests that no batch judges: shapes with many tests, and totals."""
        many = [family.members for family in self._families if len(family.members) > _FEW_TESTS]
        return BitMap.union(BitMap(), *many, *([] if self._aggregated is None else [self._aggregated.members]))

    @cached
    def _for_batches(self) -> list[_ForBatches]:
        """Return the tests that can be judged for a batch: single comparisons, and shapes with few tests."""
        # First: its constants get codes, after which the labels of new values are known.
        made: list[_ForBatches] = self._searches(self._few())
        for (new, old), tests in self._simple.items():
            made.append((tests.members, BatchComparison(new, old, tests.tests, self.store)))
        return made

    @cached
    def _for_small_batches(self) -> list[_ForBatches]:
        """Return the same for a few events: one pass over a small history costs less than a step for each pair."""
        return self._searches(BitMap.union(self._few(), *(tests.members for tests in self._simple.values())))

    def _few(self) -> BitMap:
        return BitMap.union(BitMap(), *(f.members for f in self._families if len(f.members) <= _FEW_TESTS))

    def _searches(self, numbers: BitMap) -> list[_ForBatches]:
        if not numbers:
            return []
        return [(numbers, BatchSearches([_look(n, self._searched[n]) for n in numbers], self.store))]

    def witness(self, test: Exists | Quantified, event: Mapping[str, object]) -> int | None:
        """Return the number of an old event that makes EXISTS or ANY true, or ALL false; None if there is none."""
        search = Search(self.store, event)
        shape, constants = split(_terms_when_met(test))
        conditions = search.bind(shape.joins)
        if shape.constants:
            conditions += Constants(self.store, shape.constants, [constants]).conditions(0)
        return some(self.store, conditions)

    def not_comparable(self, test: Quantified, event: Mapping[str, object]) -> int | None:
        """Return the number of an old event whose value does not compare, so that ANY or ALL is NULL; None if none."""
        shape, constants = split((*test.terms, NotComparable(test.old, test.attribute)))
        conditions = Search(self.store, event).bind(shape.joins)
        if shape.constants:
            conditions += Constants(self.store, shape.constants, [constants]).conditions(0)
        return some(self.store, conditions)

    def _group(self) -> None:
        """Group the tests by shape."""
        conjunctions: dict[tuple[Form, TermShape, TermShape | None], dict[int, Row]] = {}
        for number, test in self._searched.items():
            pair = _simple_pair(test)
            if pair is not None:
                old, new, op, form = pair
                self._simple.setdefault((new, old), SimpleTests(new, old)).add(op, form, number)
            elif test != Exists(()):
                met, constants = split(_terms_when_met(test))
                if isinstance(test, Exists):
                    conjunctions.setdefault((EXISTS, met, None), {})[number] = constants
                else:
                    unclear, _ = split((*test.terms, NotComparable(test.old, test.attribute)))
                    conjunctions.setdefault((test.quantifier, met, unclear), {})[number] = constants
        for (form, met, null), members in conjunctions.items():
            ids, rows = np.array(list(members), dtype=np.int32), list(members.values())
            joins = [term for term in met.joins if isinstance(term, OldComparedToNew)]
            is_grouped = null is not None and not any(isinstance(term, OldComparedToNew) for term in null.joins)
            if not joins:
                self._families.append(StaticFamily(self.store, met, ids, rows))
            elif isinstance(form, Quantifier) and is_grouped and joins[0].op is not Op.EQ:
                self._families.append(GroupedFamily(self.store, form, joins[0], met, ids, rows))
            else:
                self._families.append(JoinFamily(self.store, form, met, null, ids, rows))


def attributes_of(tests: Iterable[HistoryTest]) -> set[str]:
    """Return the attributes of old events that the tests look at: what the history must keep."""
    attributes = set()
    for test in tests:
        attributes |= {term.old for term in test.terms}
        if not isinstance(test, Exists) and test.old is not None:
            attributes.add(test.old)
    return attributes


def _look(number: int, test: Exists | Quantified) -> Look:
    if isinstance(test, Exists):
        return Look(number, EXISTS, test.terms, None)
    unclear = (*test.terms, NotComparable(test.old, test.attribute))
    return Look(number, test.quantifier, _terms_when_met(test), unclear)


def _terms_when_met(test: Exists | Quantified) -> tuple[JoinTerm | OldComparedToConstant, ...]:
    """Return what some old event must satisfy for EXISTS and ANY to be TRUE, and for ALL to be FALSE."""
    if isinstance(test, Exists):
        return test.terms
    op = test.op if test.quantifier is Quantifier.ANY else test.op.negated
    return (*test.terms, OldComparedToNew(test.old, op.flipped, test.attribute))


def _simple_pair(test: Exists | Quantified) -> tuple[str, str, Op, Form] | None:
    """Return old attribute, new attribute, operator (new op old) and form of a test that is one comparison."""
    if isinstance(test, Quantified):
        return None if test.terms else (test.old, test.attribute, test.op, test.quantifier)
    if len(test.terms) == 1 and isinstance(test.terms[0], OldComparedToNew):
        term = test.terms[0]
        return term.old, term.new, term.op.flipped, EXISTS
    return None
