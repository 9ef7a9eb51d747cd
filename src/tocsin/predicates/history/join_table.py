"""Answer every distinct test on the history, once each, for a new event."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap

from tocsin.arrays import Int32s
from tocsin.errors import OptionError
from tocsin.model.condition import (
    Exists,
    OldComparedToConstant,
    OldComparedToNew,
    Op,
    Quantified,
    Quantifier,
)
from tocsin.predicates.history.constant_tests import Constants, Row, TermShape, split
from tocsin.predicates.history.search import JoinTerm, NotComparable, Search, some
from tocsin.predicates.history.shaped_tests import EXISTS, Form, GroupedFamily, JoinFamily, SimpleTests, StaticFamily
from tocsin.predicates.history.store import HistoryStore

HistoryTest = Exists | Quantified
_NO_IDS: Int32s = np.empty(0, dtype=np.int32)


class Truths(NamedTuple):
    """The ids of the tests that are TRUE and of those that are NULL; all others are FALSE. Each id once, unsorted."""

    true: Int32s
    null: Int32s


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
        self._simple: dict[tuple[str, str], SimpleTests] = {}
        self._non_empty = np.array([n for n, test in self.tests.items() if test == Exists(())], dtype=np.int32)
        self._families: list[JoinFamily | StaticFamily | GroupedFamily] = []
        self._group()

    def probe(self, event: Mapping[str, object], wanted: BitMap | None = None) -> Truths:
        """Return the truth of every test for a new event and the history as it is now, or of the wanted ones at least.

        Cost: O(1) or O(log n) for each pair of attributes that tests compare; for a conjunction, the old events that
        its rarest term selects.
        """
        search = Search(self.store, event)
        groups = [*self._simple.values(), *self._families]
        truths = [tests.probe(search) for tests in groups if wanted is None or wanted.intersect(tests.members)]
        if len(self.store):
            truths.append((self._non_empty, _NO_IDS))
        true, null = zip(*truths, strict=True) if truths else ((_NO_IDS,), (_NO_IDS,))
        return Truths(np.concatenate(true), np.concatenate(null))

    def witness(self, test: HistoryTest, event: Mapping[str, object]) -> int | None:
        """Return the number of an old event that makes EXISTS or ANY true, or ALL false; None if there is none."""
        search = Search(self.store, event)
        shape, constants = split(_terms_when_met(test))
        conditions = search.bind(shape.joins)
        if shape.constants:
            conditions += Constants(self.store, shape.constants, [constants]).conditions(0)
        return some(self.store, conditions)

    def _group(self) -> None:
        """Group the tests by shape."""
        conjunctions: dict[tuple[Form, TermShape, TermShape | None], dict[int, Row]] = {}
        for number, test in self.tests.items():
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
        if isinstance(test, Quantified):
            attributes.add(test.old)
    return attributes


def _terms_when_met(test: HistoryTest) -> tuple[JoinTerm | OldComparedToConstant, ...]:
    """Return what some old event must satisfy for EXISTS and ANY to be TRUE, and for ALL to be FALSE."""
    if isinstance(test, Exists):
        return test.terms
    op = test.op if test.quantifier is Quantifier.ANY else test.op.negated
    return (*test.terms, OldComparedToNew(test.old, op.flipped, test.attribute))


def _simple_pair(test: HistoryTest) -> tuple[str, str, Op, Form] | None:
    """Return old attribute, new attribute, operator (new op old) and form of a test that is one comparison."""
    if isinstance(test, Quantified):
        return None if test.terms else (test.old, test.attribute, test.op, test.quantifier)
    if len(test.terms) == 1 and isinstance(test.terms[0], OldComparedToNew):
        term = test.terms[0]
        return term.old, term.new, term.op.flipped, EXISTS
    return None
