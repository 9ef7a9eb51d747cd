"""What predicates on the new event and a join with an old event imply for the old event alone.

From `h.old op event.new` and a range for `event.new` follows a range for `h.old`, or nothing. The paper's Table 2 is
for one comparison with a constant, which is a range that is open to one side; it leaves out `<>` and intervals. The
whole table stands in `docs/internals/history.md`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

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
from tocsin.model.predicate import EVERYTHING, Accepts, Predicate, Range, Ranges, Tested
from tocsin.model.values import Kind
from tocsin.predicates.history.constant_tests import Required

Term = OldComparedToConstant | OldIsNull | Required
"""A condition on an old event alone."""
_MOST_RANGES = 4
"""Of more ranges, only the ends of all count: the gaps would cost more than they rule out."""


def implied_range(op: Op, new: Range) -> Range:
    """The smallest range with every value that is `op` some value in `new`, where between two values lies a third.

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
    """Whether the range is one value: what is implied then says all that the join says (the paper's first row)."""
    return new.low is not None and new.low == new.high


def gaps(ranges: Sequence[Range]) -> list[Range]:
    """What lies between sorted ranges: an equal old value is not there either.

    >>> gaps([Range(None, False, 7, False), Range(7, False, None, False)])
    [Range(low=7, low_closed=True, high=7, high_closed=True)]
    """
    return [Range(a.high, not a.high_closed, b.low, not b.low_closed) for a, b in pairwise(ranges)]


def needed_by(predicates: Iterable[Predicate]) -> list[tuple[Term, ...]]:
    """For each EXISTS and ANY of a conjunction: what some old event must satisfy for the conjunction to hold."""
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
    """For each ALL of a conjunction: what no old event may satisfy for the conjunction to hold.

    Which events an ALL ranges over must be known without the new event: its own terms may not join.
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


Known = Mapping[str, tuple[Kind, tuple[Range, ...]]]


def _known_ranges(predicates: Iterable[Predicate]) -> Known:
    """The kind and the ranges of each attribute of the new event that has some."""
    return {
        predicate.attribute: (predicate.kind, predicate.ranges)
        for predicate in predicates
        if isinstance(predicate, Ranges)
        and predicate.ranges
        and not predicate.or_null
        and predicate.kind is not Kind.ANY
    }


def _implied(terms: Iterable[HistoryTerm], known: Known) -> tuple[Term, ...]:
    """The terms with each join replaced by what it implies; at least, that the old value is not NULL."""
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
    """What holds for every old value for which `term` does not."""
    if isinstance(term, Required):
        return Required(term.old, term.kind, term.range, not term.negated)
    assert isinstance(term, OldIsNull), "joins imply ranges and presence only"
    return OldIsNull(term.old, not term.negated)
