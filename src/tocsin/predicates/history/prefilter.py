"""Pre-filtering: the conjunctions that cannot hold for any new event while the history is as it is."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tocsin.model.predicate import Conjunction, Tested
from tocsin.predicates.history.constant_tests import Row, TermShape, split
from tocsin.predicates.history.implied import Term, forbidden_by, needed_by
from tocsin.predicates.history.latest import Latest
from tocsin.predicates.history.store import HistoryStore


@dataclass(frozen=True)
class Savings:
    """How much the pre-filter spares."""

    conjunctions: int
    ruled_out: int
    constraints: int
    """Distinct conditions on old events that are kept current."""


class Prefilter:
    """Rules out conjunctions by what they imply for the old events (section 4.3.2 of the paper).

    An EXISTS or ANY needs some old event with the attribute, with the constants it asks for, and in the range that the
    other predicates imply; an ALL forbids every old event outside that range. Each distinct condition is kept once,
    with the latest old event that satisfies it and the conjunctions that hang on it, as a bitmap.

    >>> from tocsin.model.condition import Exists, OldComparedToNew, Op
    >>> from tocsin.model.predicate import Range, Ranges, Tested
    >>> from tocsin.model.values import Kind, Number
    >>> ten = Ranges("price", Kind.NUMBER, (Range(Number(10), True, Number(10), True),))
    >>> same = Tested(Exists((OldComparedToNew("price", Op.EQ, "price"),)))
    >>> history = HistoryStore(attributes=["price"])
    >>> prefilter = Prefilter([(0, (ten, same)), (1, (ten,))], history)
    >>> _ = history.append({"price": 9})
    >>> list(prefilter.surviving())
    [1]
    >>> _ = history.append({"price": 10})
    >>> list(prefilter.surviving())
    [0, 1]
    """

    def __init__(self, conjunctions: Iterable[tuple[int, Conjunction]], store: HistoryStore) -> None:
        self._store = store
        self._all = BitMap()
        groups: dict[tuple[TermShape, bool], dict[Row, BitMap]] = {}
        for number, conjunction in conjunctions:
            self._all.add(number)
            if any(isinstance(predicate, Tested) for predicate in conjunction):
                for terms in needed_by(conjunction):
                    _register(groups, terms, True, number)
                for terms in forbidden_by(conjunction):
                    _register(groups, terms, False, number)
        self._groups = [
            _Group(Latest(store, shape, list(rows)), needed, list(rows.values()))
            for (shape, needed), rows in groups.items()
        ]

    def surviving(self) -> BitMap:
        """The conjunctions that may hold for some new event. Cost: the old events since last time, and what changed."""
        ruled_out = [bitmap for group in self._groups for bitmap in group.ruled_out()]
        return self._all - BitMap.union(*ruled_out) if ruled_out else BitMap(self._all)

    def savings(self) -> Savings:
        """How many conjunctions are ruled out now, by how many conditions."""
        constraints = sum(len(group.bitmaps) for group in self._groups)
        return Savings(len(self._all), len(self._all) - len(self.surviving()), constraints)


class _Group:
    """Conditions of one shape: needed by their conjunctions, or forbidden."""

    def __init__(self, latest: Latest, needed: bool, bitmaps: list[BitMap]) -> None:
        self._latest = latest
        self._needed = needed
        self.bitmaps = bitmaps
        self._holding: npt.NDArray[np.bool_] | None = None
        self._ruled_out = BitMap()

    def ruled_out(self) -> list[BitMap]:
        """The conjunctions whose needed condition holds for no old event, or whose forbidden one does for some."""
        holding = self._latest.holding()
        if self._holding is None or not np.array_equal(holding, self._holding):
            failing = np.flatnonzero(holding != self._needed)
            self._ruled_out = BitMap.union(BitMap(), *(self.bitmaps[slot] for slot in failing))
            self._holding = holding
        return [self._ruled_out] if self._ruled_out else []


def _register(
    groups: dict[tuple[TermShape, bool], dict[Row, BitMap]], terms: tuple[Term, ...], needed: bool, number: int
) -> None:
    shape, row = split(terms)
    groups.setdefault((shape, needed), {}).setdefault(row, BitMap()).add(number)
