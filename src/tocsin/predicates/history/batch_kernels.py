"""Kernels that answer tests on the history for a batch of new events, in one pass over both.

Values are in comparable form (see `comparable_values`). Row r sees the old events at `firsts[r]..stops[r]`.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int8s, Int32s, Int64s, UInt8s
from tocsin.predicates.history.kernels import LANES, Bounds

TO_NEW = 0
"""A term `h.old op event.new`: `what` is the bits of the signs that satisfy it, `new` the attribute."""
TO_CONSTANT = 1
"""A term `h.old op constant`: `what` is the row of the bounds."""
IS_NULL = 2
"""`h.old IS NULL`, or IS NOT NULL if `what` is 1."""
NOT_COMPARABLE = 3
"""`h.old` does not compare with `event.new`."""
IS_TRUE, IS_UNKNOWN = 1, 2
BUCKETS = 4096
"""Chains of equal old values by attribute: 16 KB each. Of 131,072 distinct values, 32 share a chain."""
_SPREAD = -7046029254386353131  # 2**64 / golden ratio, as a signed integer
_NULL, _OTHER = 0, 1


class Terms(NamedTuple):
    """The terms of all searches, one after the other; those of search s are `starts[s]..starts[s + 1]`."""

    starts: Int64s
    form: Int64s
    old: Int64s
    new: Int64s
    what: Int64s
    equality: Int64s
    """By search: which of the distinct equalities with new values its first term is, -1 if it is not one."""


class OldTable(NamedTuple):
    """Old values by attribute and position, in comparable form and as lanes and keys."""

    lanes: UInt8s
    keys: Int64s
    kinds: UInt8s
    majors: Int64s
    minors: Int64s


class Tests(NamedTuple):
    """By test: the search that decides it, the one that makes it NULL (-1: none), and whether it is ALL."""

    met: Int64s
    null: Int64s
    is_all: Bools


class Extremes(NamedTuple):
    """By attribute and kind: whether some old value has the kind, and the least and greatest (major, minor) of it.

    Events that have expired may count: what is beyond the extremes is not there.
    """

    seen: Bools
    least: Int64s
    greatest: Int64s


class Chains(NamedTuple):
    """By attribute, the newest place of each bucket of values, and by place the next older one; -1: none.

    Only single events follow them: a batch would have to add its rows one by one.
    """

    heads: Int32s
    older: Int32s


class NewTable(NamedTuple):
    """New values by attribute and row, in comparable form."""

    kinds: UInt8s
    majors: Int64s
    minors: Int64s


@kernel
def add_old(start: int, values: Int64s, old: OldTable, extremes: Extremes) -> None:
    """Write values behind those of an old table: lane, key, kind, major and minor by attribute and event."""
    for attribute in range(values.shape[0]):
        for i in range(values.shape[1]):
            at = start + i
            kind = values[attribute, i, 2]
            major = values[attribute, i, 3]
            minor = values[attribute, i, 4]
            old.lanes[attribute, at] = values[attribute, i, 0]
            old.keys[attribute, at] = values[attribute, i, 1]
            old.kinds[attribute, at] = kind
            old.majors[attribute, at] = major
            old.minors[attribute, at] = minor
            least = extremes.least[attribute, kind]
            greatest = extremes.greatest[attribute, kind]
            is_first = not extremes.seen[attribute, kind]
            extremes.seen[attribute, kind] = True
            if is_first or _sign(major, minor, least[0], least[1]) < 0:
                least[0] = major
                least[1] = minor
            if is_first or _sign(major, minor, greatest[0], greatest[1]) > 0:
                greatest[0] = major
                greatest[1] = minor


@kernel
def _bucket(major: int, minor: int) -> int:
    return ((major + minor) * _SPREAD >> 52) & (BUCKETS - 1)


@kernel
def _link(start: int, stop: int, old: OldTable, chains: Chains) -> None:
    """Put the events at some places at the head of the chains of their values."""
    for attribute in range(chains.heads.shape[0]):
        for at in range(start, stop):
            bucket = _bucket(old.majors[attribute, at], old.minors[attribute, at])
            chains.older[attribute, at] = chains.heads[attribute, bucket]
            chains.heads[attribute, bucket] = at


@kernel
def _may_hold(form: int, what: int, old: int, kind: int, major: int, minor: int, extremes: Extremes) -> bool:
    """Tell whether some value within the extremes satisfies a term, given the new value; constants always may."""
    if form == TO_CONSTANT:
        return True
    if form == TO_NEW:
        if kind <= _OTHER or not extremes.seen[old, kind]:
            return False
        least = _sign(extremes.least[old, kind, 0], extremes.least[old, kind, 1], major, minor)
        greatest = _sign(extremes.greatest[old, kind, 0], extremes.greatest[old, kind, 1], major, minor)
        within = (1 if least < 0 else 0) | (2 if least <= 0 <= greatest else 0) | (4 if greatest > 0 else 0)
        return (what & within) != 0
    for other in range(LANES):
        if extremes.seen[old, other]:
            if form == IS_NULL:
                if (other == _NULL) != (what == 1):
                    return True
            elif other != kind or kind <= _OTHER:
                return True
    return False


@kernel
def find_old(
    firsts: Int64s,
    stops: Int64s,
    terms: Terms,
    old: OldTable,
    extremes: Extremes,
    new: NewTable,
    bounds: Bounds,
    chains: Chains,
) -> Bools:
    """Tell for each row and search whether some old event satisfies all its terms; the newest are looked at first.

    The old events that equal a new value are looked for once a row, for all searches that begin with the equality;
    with chains, which reach to the only row, among those in the chain of the value.
    """
    heads, older = chains
    is_linked = older.shape[1] > 0
    starts, forms, olds, news, whats, equalities = terms
    lanes, keys, kinds, majors, minors = old
    new_kinds, new_majors, new_minors = new
    low, high, outside = bounds
    searches = starts.size - 1
    found = np.zeros((stops.size, searches), np.bool_)
    slots = 0
    for search in range(searches):
        slots = max(slots, equalities[search] + 1)
    longest = 0
    for row in range(stops.size if slots else 0):
        longest = max(longest, stops[row] - firsts[row])
    # The events that equal the new value, newest first, as far as they were looked for.
    equal = np.empty((slots, longest), np.int32)
    count = np.empty(slots, np.int64)
    reached = np.empty(slots, np.int64)
    for row in range(stops.size):
        first = firsts[row]
        count[:] = 0
        reached[:] = stops[row]
        for search in range(searches):
            begin = starts[search]
            end = starts[search + 1]
            is_possible = True
            for term in range(begin, end):
                of_new = news[term]
                kind = new_kinds[of_new, row]
                major = new_majors[of_new, row]
                minor = new_minors[of_new, row]
                if not _may_hold(forms[term], whats[term], olds[term], kind, major, minor, extremes):
                    is_possible = False
                    break
            if not is_possible:
                continue
            # The first term decides for most events: what it needs is taken out of the loop over them.
            form = forms[begin]
            what = whats[begin]
            of = olds[begin]
            new_kind = new_kinds[news[begin], row]
            new_major = new_majors[news[begin], row]
            new_minor = new_minors[news[begin], row]
            slot = equalities[search]
            walked = 0
            at = stops[row]
            while True:
                if slot >= 0 and walked < count[slot]:
                    at = np.int64(equal[slot, walked])
                elif slot >= 0:
                    at = reached[slot]
                    if is_linked:
                        at = heads[of, _bucket(new_major, new_minor)] if at == stops[row] else older[of, at]
                        while at >= first and not (
                            majors[of, at] == new_major and minors[of, at] == new_minor and kinds[of, at] == new_kind
                        ):
                            at = older[of, at]
                    else:
                        at -= 1
                        while at >= first and not (
                            majors[of, at] == new_major and minors[of, at] == new_minor and kinds[of, at] == new_kind
                        ):
                            at -= 1
                        reached[slot] = first
                    if at >= first:
                        reached[slot] = at
                        equal[slot, walked] = at
                        count[slot] += 1
                else:
                    at -= 1
                    while at >= first:
                        if form == TO_NEW:
                            if kinds[of, at] == new_kind:
                                a = majors[of, at]
                                b = new_major
                                if a == b:
                                    a = minors[of, at]
                                    b = new_minor
                                if (what & (1 if a < b else 2 if a == b else 4)) != 0:
                                    break
                        elif form == TO_CONSTANT:
                            lane = lanes[of, at]
                            if (low[what, lane] <= keys[of, at] <= high[what, lane]) != outside[what, lane]:
                                break
                        elif form == IS_NULL:
                            if (kinds[of, at] == _NULL) != (what == 1):
                                break
                        elif kinds[of, at] != new_kind or new_kind <= _OTHER:
                            break
                        at -= 1
                if at < first:
                    break
                walked += 1
                holds = True
                for term in range(begin + 1, end):
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
def judge_tests(
    firsts: Int64s,
    stops: Int64s,
    terms: Terms,
    tests: Tests,
    old: OldTable,
    extremes: Extremes,
    new: NewTable,
    bounds: Bounds,
    chains: Chains,
) -> Int8s:
    """Return the truth of each test in each row: IS_TRUE, IS_UNKNOWN or 0; the searches are those of `find_old`."""
    found = find_old(firsts, stops, terms, old, extremes, new, bounds, chains)
    truths = np.zeros((stops.size, tests.met.size), np.int8)
    for row in range(stops.size):
        for test in range(tests.met.size):
            if found[row, tests.met[test]]:
                truths[row, test] = 0 if tests.is_all[test] else IS_TRUE
            elif tests.null[test] >= 0 and found[row, tests.null[test]]:
                truths[row, test] = IS_UNKNOWN
            elif tests.is_all[test]:
                truths[row, test] = IS_TRUE
    return truths


@kernel
def judge_event(
    added: Int64s,
    first: int,
    stop: int,
    terms: Terms,
    tests: Tests,
    numbers: Int32s,
    old: OldTable,
    extremes: Extremes,
    values: Int64s,
    bounds: Bounds,
    chains: Chains,
    linked: int,
) -> tuple[Int32s, Int32s]:
    """Return the numbers of the tests that are TRUE and of those that are NULL for a single event.

    It sees the old events from `first` to `stop`, the last of which is written now if `added` has its values. Both
    have lane, key, kind, major and minor by attribute. The events from `linked` on are not in the chains yet. All is
    one call: calling takes as long as a dozen searches.
    """
    if added.shape[0]:
        add_old(stop - 1, added.reshape(added.shape[0], 1, added.shape[1]), old, extremes)
    _link(linked, stop, old, chains)
    # Terms without a new value name the first.
    size = max(1, values.shape[0])
    new = NewTable(np.zeros((size, 1), np.uint8), np.zeros((size, 1), np.int64), np.zeros((size, 1), np.int64))
    for attribute in range(values.shape[0]):
        new.kinds[attribute, 0] = values[attribute, 2]
        new.majors[attribute, 0] = values[attribute, 3]
        new.minors[attribute, 0] = values[attribute, 4]
    truths = judge_tests(np.full(1, first), np.full(1, stop), terms, tests, old, extremes, new, bounds, chains)
    true = np.empty(numbers.size, np.int32)
    null = np.empty(numbers.size, np.int32)
    trues = 0
    nulls = 0
    for test in range(numbers.size):
        if truths[0, test] == IS_TRUE:
            true[trues] = numbers[test]
            trues += 1
        elif truths[0, test] == IS_UNKNOWN:
            null[nulls] = numbers[test]
            nulls += 1
    return true[:trues], null[:nulls]


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
