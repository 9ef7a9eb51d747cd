"""Kernels that answer tests on the history for a batch of new events, in one pass over both.

Values are in comparable form (see `comparable_values`). Row r sees the old events at `firsts[r]..stops[r]`.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int8s, Int64s, UInt8s
from tocsin.predicates.history.kernels import Bounds

TO_NEW = 0
"""A term `h.old op event.new`: `what` is the bits of the signs that satisfy it, `new` the attribute."""
TO_CONSTANT = 1
"""A term `h.old op constant`: `what` is the row of the bounds."""
IS_NULL = 2
"""`h.old IS NULL`, or IS NOT NULL if `what` is 1."""
NOT_COMPARABLE = 3
"""`h.old` does not compare with `event.new`."""
_NULL, _OTHER = 0, 1


class Terms(NamedTuple):
    """The terms of all searches, one after the other; those of search s are `starts[s]..starts[s + 1]`."""

    starts: Int64s
    form: Int64s
    old: Int64s
    new: Int64s
    what: Int64s


class OldTable(NamedTuple):
    """Old values by attribute and position, in comparable form and as lanes and keys."""

    lanes: UInt8s
    keys: Int64s
    kinds: UInt8s
    majors: Int64s
    minors: Int64s


class NewTable(NamedTuple):
    """New values by attribute and row, in comparable form."""

    kinds: UInt8s
    majors: Int64s
    minors: Int64s


@kernel
def find_old(firsts: Int64s, stops: Int64s, terms: Terms, old: OldTable, new: NewTable, bounds: Bounds) -> Bools:
    """Tell for each row and search whether some old event satisfies all its terms; the newest are looked at first."""
    starts, forms, olds, news, whats = terms
    lanes, keys, kinds, majors, minors = old
    new_kinds, new_majors, new_minors = new
    low, high, outside = bounds
    searches = starts.size - 1
    found = np.zeros((stops.size, searches), np.bool_)
    for row in range(stops.size):
        for search in range(searches):
            # The first term decides for most events: what it needs is taken out of the loop over them.
            begin = starts[search]
            form = forms[begin]
            what = whats[begin]
            of_lanes, of_keys, of_kinds = lanes[olds[begin]], keys[olds[begin]], kinds[olds[begin]]
            of_majors, of_minors = majors[olds[begin]], minors[olds[begin]]
            new_kind = new_kinds[news[begin], row]
            new_major = new_majors[news[begin], row]
            new_minor = new_minors[news[begin], row]
            if form == TO_NEW and new_kind <= _OTHER:
                continue
            for back in range(stops[row] - firsts[row]):
                at = stops[row] - 1 - back
                if form == TO_NEW:
                    if of_kinds[at] != new_kind:
                        continue
                    a = of_majors[at]
                    b = new_major
                    if a == b:
                        a = of_minors[at]
                        b = new_minor
                    if (what & (1 if a < b else 2 if a == b else 4)) == 0:
                        continue
                elif form == TO_CONSTANT:
                    lane = of_lanes[at]
                    if (low[what, lane] <= of_keys[at] <= high[what, lane]) == outside[what, lane]:
                        continue
                elif form == IS_NULL:
                    if (of_kinds[at] == _NULL) == (what == 1):
                        continue
                elif of_kinds[at] == new_kind and new_kind > _OTHER:
                    continue
                holds = True
                for term in range(begin + 1, starts[search + 1]):
                    attribute = olds[term]
                    kind = kinds[attribute, at]
                    asked = whats[term]
                    if forms[term] == TO_CONSTANT:
                        lane = lanes[attribute, at]
                        inside = low[asked, lane] <= keys[attribute, at] <= high[asked, lane]
                        holds = inside != outside[asked, lane]
                    elif forms[term] == IS_NULL:
                        holds = (kind == _NULL) != (asked == 1)
                    else:
                        of_new = news[term]
                        compares = kind == new_kinds[of_new, row] and kind > _OTHER
                        if forms[term] == NOT_COMPARABLE or not compares:
                            holds = forms[term] == NOT_COMPARABLE and not compares
                        else:
                            a = majors[attribute, at]
                            b = new_majors[of_new, row]
                            if a == b:
                                a = minors[attribute, at]
                                b = new_minors[of_new, row]
                            holds = (asked & (1 if a < b else 2 if a == b else 4)) != 0
                    if not holds:
                        break
                if holds:
                    found[row, search] = True
                    break
    return found


@kernel
def running_outcomes(
    new: NewTable, added: NewTable, total: int, counts: Int64s, least: Int64s, greatest: Int64s
) -> Int8s:
    """Return, by row, whether there is an old value of the new one's kind, and how it compares with the ends.

    Row r sees the `total` events before the batch, of which `counts[kind]` have values between `least[kind]` and
    `greatest[kind]` (major and minor), and the values `added` by the rows before it, if there are any. The result has
    the signs of the new value minus least and greatest, and whether some old value does not compare; 2 and 2 mean that
    no old value has the kind, and 3 that there is no old event.
    """
    rows = new.kinds.shape[1]
    outcomes = np.empty((rows, 3), np.int8)
    for row in range(rows):
        kind = new.kinds[0, row]
        if total == 0:
            outcomes[row, :] = 3
        elif kind <= _OTHER or counts[kind] == 0:
            outcomes[row, :] = 2
            outcomes[row, 2] = 1
        else:
            outcomes[row, 0] = _sign(new.majors[0, row], new.minors[0, row], least[kind, 0], least[kind, 1])
            outcomes[row, 1] = _sign(new.majors[0, row], new.minors[0, row], greatest[kind, 0], greatest[kind, 1])
            outcomes[row, 2] = counts[kind] < total
        if added.kinds.shape[1] > 0:
            kind = added.kinds[0, row]
            major = added.majors[0, row]
            minor = added.minors[0, row]
            if counts[kind] == 0 or _sign(major, minor, least[kind, 0], least[kind, 1]) < 0:
                least[kind, 0] = major
                least[kind, 1] = minor
            if counts[kind] == 0 or _sign(major, minor, greatest[kind, 0], greatest[kind, 1]) > 0:
                greatest[kind, 0] = major
                greatest[kind, 1] = minor
            counts[kind] += 1
            total += 1
    return outcomes


@kernel
def _sign(major: int, minor: int, other_major: int, other_minor: int) -> int:
    if major != other_major:
        return -1 if major < other_major else 1
    return -1 if minor < other_minor else 0 if minor == other_minor else 1
