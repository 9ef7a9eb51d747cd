"""Sets of values as sorted, disjoint ranges that do not touch: union, intersection, complement."""

from collections.abc import Iterable, Sequence

from tocsin.model.condition import Op
from tocsin.model.predicate import EVERYTHING, Points, Range
from tocsin.model.untyped import SPANS, untyped_constants
from tocsin.model.values import Constant, Kind, Scalar

_Key = tuple[bool, Scalar | None, bool]


def compared(op: Op, constant: Scalar) -> tuple[Range, ...]:
    """Return the values that compare so with the constant."""
    if op is Op.GE:
        return (Range(constant, True, None, False),)
    if op is Op.LE:
        return (Range(None, False, constant, True),)
    if op is Op.EQ:
        return (Range(constant, True, constant, True),)
    if op is Op.GT:
        return (Range(constant, False, None, False),)
    if op is Op.LT:
        return (Range(None, False, constant, False),)
    return Range(None, False, constant, False), Range(constant, False, None, False)


def spans(kind: Kind) -> tuple[Range, ...]:
    """Return the texts that stand for values of a kind in an untyped attribute."""
    return tuple(Range(low, low is not None, high, False) for low, high in SPANS[kind])


def compared_untyped(op: Op, constant: Constant) -> tuple[Range, ...]:
    """Return the values of an untyped attribute that compare so with what the constant reads as for their kind."""
    found: list[Range] = []
    for kind, text in untyped_constants(constant).items():
        found += intersection(compared(op, text), spans(kind))
    return union(found)


def point(constant: Scalar) -> Range:
    """Return the range of one value."""
    return Range(constant, True, constant, True)


def starting_with(prefix: str) -> Range:
    """Return the strings that begin so, in code point order.

    >>> starting_with("ab")
    Range(low='ab', low_closed=True, high='ac', high_closed=False)
    """
    if not prefix:
        return EVERYTHING
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return Range(prefix, True, None, False)
    # No string holds half a surrogate pair, so the code point after U+D7FF is U+E000.
    following = "\ue000" if stem[-1] == "\ud7ff" else chr(ord(stem[-1]) + 1)
    return Range(prefix, True, stem[:-1] + following, False)


def union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the values in some of the ranges. Costs one sort."""
    merged: list[Range] = []
    for following in sorted(ranges, key=_by_low):
        if merged and not _gap(merged[-1], following):
            last = merged[-1]
            end = max(last, following, key=_by_high)
            merged[-1] = Range(last.low, last.low_closed, end.high, end.high_closed)
        else:
            merged.append(following)
    return tuple(merged)


def intersection(left: Sequence[Range], right: Sequence[Range]) -> tuple[Range, ...]:
    """Return the values in both sets. Linear in their ranges."""
    common, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        start, end = max(left[i], right[j], key=_by_low), min(left[i], right[j], key=_by_high)
        overlap = Range(start.low, start.low_closed, end.high, end.high_closed)
        if not is_empty(overlap):
            common.append(overlap)
        if end is left[i]:
            i += 1
        else:
            j += 1
    return tuple(common)


def complement(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Return the values in none of the ranges."""
    outside, low, closed = [], None, False
    for inside in ranges:
        if inside.low is not None:
            outside.append(Range(low, closed, inside.low, not inside.low_closed))
        if inside.high is None:
            return tuple(outside)
        low, closed = inside.high, not inside.high_closed
    return (*outside, Range(low, closed, None, False))


def canonical(kind: Kind, ranges: tuple[Range, ...] | Points) -> tuple[Range, ...] | Points:
    """Return the same set in its one form: of booleans, only points are kept."""
    if kind is not Kind.BOOLEAN:
        return ranges
    values = [value for value in (False, True) if intersection(ranges, (point(value),))]
    return (EVERYTHING,) if len(values) == 2 else tuple(map(point, values))


def is_empty(candidate: Range) -> bool:
    """Tell whether no value is in the range."""
    low, high = candidate.low, candidate.high
    if low is None or high is None:
        return False
    if low == high:
        return not (candidate.low_closed and candidate.high_closed)
    return high < low  # type: ignore[operator]  # scalars of one kind have an order


def _gap(first: Range, second: Range) -> bool:
    """Tell whether a value lies between two ranges, of which the first starts first."""
    if first.high is None or second.low is None:
        return False
    if first.high == second.low:
        return not (first.high_closed or second.low_closed)
    return first.high < second.low  # type: ignore[operator]  # scalars of one kind have an order


def _by_low(candidate: Range) -> _Key:
    return candidate.low is not None, candidate.low, not candidate.low_closed


def _by_high(candidate: Range) -> _Key:
    return candidate.high is None, candidate.high, candidate.high_closed
