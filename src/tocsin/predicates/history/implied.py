"""What predicates on the new event and a join with an old event imply for the old event alone.

From `h.old op event.new` and a range for `event.new` follows a range for `h.old`, or nothing. The paper's Table 2 is
for one comparison with a constant, which is a range that is open to one side; it leaves out `<>` and intervals. The
whole table stands in `docs/internals/history.md`.
"""

from collections.abc import Iterable, Mapping

from tocsin.model.condition import (
    Exists,
    OldComparedToConstant,
    OldComparedToNew,
    OldIsNull,
    Op,
    Quantified,
    Quantifier,
)
from tocsin.model.predicate import EVERYTHING, Accepts, Predicate, Range, Ranges, Tested
from tocsin.model.values import Kind
from tocsin.predicates.history.constants import Required

Term = OldComparedToConstant | OldIsNull | Required
"""A condition on an old event alone."""


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


def _known_ranges(predicates: Iterable[Predicate]) -> Mapping[str, tuple[Kind, Range]]:
    """The kind of each attribute of the new event that has one, and the range from its least to its greatest value."""
    return {
        p.attribute: (
            p.kind,
            Range(p.ranges[0].low, p.ranges[0].low_closed, p.ranges[-1].high, p.ranges[-1].high_closed),
        )
        for p in predicates
        if isinstance(p, Ranges) and p.ranges and not p.or_null and p.kind is not Kind.ANY
    }


def _implied(terms: Iterable[object], known: Mapping[str, tuple[Kind, Range]]) -> tuple[Term, ...]:
    """The terms with each join replaced by what it implies; at least, that the old value is not NULL."""
    implied: list[Term] = []
    for term in terms:
        if isinstance(term, (OldComparedToConstant, OldIsNull)):
            implied.append(term)
        elif isinstance(term, OldComparedToNew):
            kind, new = known.get(term.new, (None, EVERYTHING))
            if kind is None:
                implied.append(OldIsNull(term.old, negated=True))
            elif term.op is Op.NE and is_point(new):
                implied.append(Required(term.old, kind, EVERYTHING))
                implied.append(Required(term.old, kind, new, negated=True))
            else:
                implied.append(Required(term.old, kind, implied_range(term.op, new)))
    return tuple(implied)


def _opposite(term: Term) -> Term:
    """What holds for every old value for which `term` does not."""
    if isinstance(term, Required):
        return Required(term.old, term.kind, term.range, not term.negated)
    assert isinstance(term, OldIsNull), "joins imply ranges and presence only"
    return OldIsNull(term.old, not term.negated)
