"""Rule out the conjunctions that cannot hold for any new event while the history is as it is.

From `h.old op event.new` and a range of `event.new` follows a range of `h.old`, or nothing. The paper's Table 2 covers
one comparison with a constant, which is a range that is open to one side; it leaves out `<>` and intervals. The whole
table is in `docs/internals/history.md`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from tocsin.model.condition import (
    Exists,
    HistoryTerm,
    OldComparedToConstant,
    OldComparedToNew,
    OldIsNull,
    Op,
    Quantified,
    Quantifier,
)
from tocsin.model.predicate import EVERYTHING, Accepts, Conjunction, Predicate, Range, Ranges, Tested
from tocsin.model.values import Kind
from tocsin.predicates.history.constant_tests import Required, Row, TermShape, split
from tocsin.predicates.history.shaped_tests import Latest
from tocsin.predicates.history.store import HistoryStore

if TYPE_CHECKING:
    from tocsin.arrays import Bools

Term = OldComparedToConstant | OldIsNull | Required
"""A condition on an old event alone."""
KnownRanges = Mapping[str, tuple[Kind, Sequence[Range]]]
"""The kind and the ranges of attributes of the new event."""
_MOST_RANGES = 4
"""Of more ranges than this only the outer ends are used: conditions on the gaps would cost more than they rule out."""


@dataclass(frozen=True)
class Savings:
    """How many conjunctions the pre-filter rules out."""

    conjunctions: int
    ruled_out: int
    constraints: int
    """Distinct conditions on old events that are kept current."""


class Prefilter:
    """Rule out conjunctions by what they imply for the old events (section 4.3.2 of the paper).

    An EXISTS or ANY needs some old event with the attribute, with the constants it asks for, and in the range that the
    other predicates imply; an ALL forbids every old event outside that range. Each distinct condition is kept once,
    with the latest old event that satisfies it and the conjunctions that depend on it, as a bitmap.

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
        """Return the conjunctions that may hold for some new event. Cost: the old events since the last call."""
        ruled_out = [bitmap for group in self._groups for bitmap in group.ruled_out()]
        return self._all - BitMap.union(*ruled_out) if ruled_out else BitMap(self._all)

    def savings(self) -> Savings:
        """Return how many conjunctions are ruled out now, by how many conditions."""
        constraints = sum(len(group.bitmaps) for group in self._groups)
        return Savings(len(self._all), len(self._all) - len(self.surviving()), constraints)


class _Group:
    """Conditions of one shape: needed by their conjunctions, or forbidden."""

    def __init__(self, latest: Latest, needed: bool, bitmaps: list[BitMap]) -> None:
        self._latest = latest
        self._needed = needed
        self.bitmaps = bitmaps
        self._holding: Bools | None = None
        self._ruled_out = BitMap()

    def ruled_out(self) -> list[BitMap]:
        """Return the conjunctions whose needed condition no old event satisfies, or whose forbidden one some does."""
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


def implied_range(op: Op, new: Range) -> Range:
    """Return the smallest range of all values that are `op` some value in `new`, for values that lie densely.

    >>> implied_range(Op.LT, Range(10, True, 30, True))
    Range(low=None, low_closed=False, high=30, high_closed=False)
    """
    if op is Op.EQ:
        return new
    if op in (Op.LT, Op.LE):
        return Range(None, False, new.high, new.high is not None and op is Op.LE and new.high_closed)
    if op in (Op.GT, Op.GE):
        return Range(new.low, new.low is not None and op is Op.GE and new.low_closed, None, False)
    return EVERYTHING


def is_point(new: Range) -> bool:
    """Tell whether the range is one value: the implied range is then equivalent to the join (the paper's first row)."""
    return new.low is not None and new.low == new.high


def gaps(ranges: Sequence[Range]) -> list[Range]:
    """Return the gaps between sorted ranges; an old value that equals one in the ranges is not in a gap.

    >>> gaps([Range(None, False, 7, False), Range(7, False, None, False)])
    [Range(low=7, low_closed=True, high=7, high_closed=True)]
    """
    return [Range(a.high, not a.high_closed, b.low, not b.low_closed) for a, b in pairwise(ranges)]


def needed_by(predicates: Iterable[Predicate]) -> list[tuple[Term, ...]]:
    """Return for each EXISTS and ANY of a conjunction what some old event must satisfy for it to hold."""
    predicates = list(predicates)
    known = _known_ranges(predicates)
    needed = []
    for predicate in predicates:
        if isinstance(predicate, Tested) and predicate.accepts == Accepts.TRUE:
            test = predicate.test
            if isinstance(test, Exists):
                needed.append(_implied(test.terms, known))
            elif isinstance(test, Quantified) and test.quantifier is Quantifier.ANY:
                joined = OldComparedToNew(test.old, test.op.flipped, test.attribute)
                needed.append(_implied((*test.terms, joined), known))
    return needed


def forbidden_by(predicates: Iterable[Predicate]) -> list[tuple[Term, ...]]:
    """Return for each ALL of a conjunction what no old event may satisfy for it to hold.

    An ALL whose own terms compare with the new event is left out: which old events it is about is not known.
    """
    predicates = list(predicates)
    known = _known_ranges(predicates)
    forbidden = []
    for predicate in predicates:
        test = predicate.test if isinstance(predicate, Tested) and predicate.accepts == Accepts.TRUE else None
        if isinstance(test, Quantified) and test.quantifier is Quantifier.ALL:
            terms = [term for term in test.terms if not isinstance(term, OldComparedToNew)]
            if len(terms) == len(test.terms):
                joined = OldComparedToNew(test.old, test.op.flipped, test.attribute)
                forbidden += [(*terms, _opposite(term)) for term in _implied((joined,), known)]
    return forbidden


def _known_ranges(predicates: Iterable[Predicate]) -> KnownRanges:
    return {
        predicate.attribute: (predicate.kind, predicate.ranges)
        for predicate in predicates
        if isinstance(predicate, Ranges)
        and predicate.ranges
        and not predicate.or_null
        and predicate.kind is not Kind.ANY
    }


def _implied(terms: Iterable[HistoryTerm], known: KnownRanges) -> tuple[Term, ...]:
    """Replace each join by what it implies; at least, that the old value is not NULL."""
    implied: list[Term] = []
    for term in terms:
        if not isinstance(term, OldComparedToNew):
            implied.append(term)
        elif term.new not in known:
            implied.append(OldIsNull(term.old, negated=True))
        else:
            kind, ranges = known[term.new]
            whole = Range(ranges[0].low, ranges[0].low_closed, ranges[-1].high, ranges[-1].high_closed)
            implied.append(Required(term.old, kind, implied_range(term.op, whole)))
            if term.op is Op.EQ and len(ranges) <= _MOST_RANGES:
                implied += [Required(term.old, kind, gap, negated=True) for gap in gaps(ranges)]
            if term.op is Op.NE and is_point(whole):
                implied.append(Required(term.old, kind, whole, negated=True))
    return tuple(implied)


def _opposite(term: Term) -> Term:
    """Return the condition that holds exactly for the old values for which `term` does not."""
    if isinstance(term, Required):
        return Required(term.old, term.kind, term.range, not term.negated)
    assert isinstance(term, OldIsNull), "joins imply ranges and presence only"
    return OldIsNull(term.old, not term.negated)
