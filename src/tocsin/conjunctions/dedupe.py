"""Store equal conjunctions once, and do without those that another of the same subscription makes superfluous."""

from dataclasses import dataclass, replace

import numpy as np

from tocsin.arrays import Bools, Int32s
from tocsin.conjunctions.coded import Conjunctions
from tocsin.conjunctions.kernels import Demands, drop_covered, first_equals, sort_tests
from tocsin.conjunctions.owners import Owners
from tocsin.tuning import TUNING


@dataclass(frozen=True)
class Shared:
    """The distinct conjunctions of many subscriptions."""

    conjunctions: Conjunctions
    owners: Owners
    representatives: Int32s
    """The first of the equal conjunctions that were given, by distinct conjunction."""
    number: Int32s
    """The distinct conjunction of each that was given; -1 if its subscription has one that covers it, or if it is not
    filed."""


def share(conjunctions: Conjunctions, owner: Int32s, behind: Bools, filed: Bools) -> Shared:
    """Find equal and covered conjunctions; `owner` is the subscription of each, ascending. Linear in their predicates.

    ``a OR (a AND b)`` is ``a``. Of a million equal conjunctions one is evaluated, and the list of their subscriptions
    is all that is kept of the others. Distinct conjunctions are numbered as they come, but those `behind` come last.
    Those that are not to be `filed` are left out.
    """
    demands = _demands(conjunctions)
    keep = filed.copy()
    if (owner[1:] == owner[:-1]).any():
        drop_covered(demands, owner, TUNING.max_compared, keep)
    first = first_equals(demands, keep)
    is_first = first == np.arange(conjunctions.count)
    representatives = np.concatenate([np.flatnonzero(is_first & ~behind), np.flatnonzero(is_first & behind)])
    number = np.full(conjunctions.count + 1, -1, np.int32)
    number[representatives] = np.arange(representatives.size)
    number = number[first]
    with_number = np.flatnonzero(number >= 0)
    if representatives.size < conjunctions.count or (np.diff(representatives) < 0).any():
        conjunctions = _select(conjunctions, representatives, number, demands)
    owners = _owners(number[with_number], owner[with_number], representatives.size)
    return Shared(conjunctions, owners, representatives.astype(np.int32), number)


def _demands(conjunctions: Conjunctions) -> Demands:
    numbers = np.arange(conjunctions.count + 1)
    starts = np.searchsorted(conjunctions.test_conjunction, numbers)
    test, accepts = conjunctions.test.astype(np.int32), conjunctions.test_accepts.astype(np.int32)
    if test.size:
        sort_tests(starts, test, accepts)
    column, low, high = map(np.ascontiguousarray, (conjunctions.column, conjunctions.low, conjunctions.high))
    return Demands(np.searchsorted(conjunctions.conjunction, numbers), column, low, high, starts, test, accepts)


def _select(conjunctions: Conjunctions, chosen: Int32s, number: Int32s, demands: Demands) -> Conjunctions:
    """Keep the chosen conjunctions, under their new numbers."""
    mask = np.zeros(conjunctions.count, bool)
    mask[chosen] = True
    rows, tests = np.flatnonzero(mask[conjunctions.conjunction]), np.flatnonzero(mask[conjunctions.test_conjunction])
    rows = rows[np.argsort(number[conjunctions.conjunction[rows]], kind="stable")]
    tests = tests[np.argsort(number[conjunctions.test_conjunction[tests]], kind="stable")]
    return replace(
        conjunctions,
        count=chosen.size,
        conjunction=number[conjunctions.conjunction[rows]],
        column=conjunctions.column[rows],
        low=conjunctions.low[rows],
        high=conjunctions.high[rows],
        test_conjunction=number[conjunctions.test_conjunction[tests]],
        test=demands.test[tests],
        test_accepts=demands.accepts[tests],
    )


def _owners(number: Int32s, owner: Int32s, count: int) -> Owners:
    """The subscriptions of each distinct conjunction, given pairs sorted by subscription."""
    order = np.argsort(number, kind="stable")
    number, owner = number[order], owner[order]
    # Subscriptions with very many conjunctions are not looked through for covered ones, and may have equal ones.
    once = np.ones(number.size, bool)
    once[1:] = (number[1:] != number[:-1]) | (owner[1:] != owner[:-1])
    number, owner = number[once], owner[once]
    sizes = np.bincount(number, minlength=count)
    is_shared = sizes > 1
    single = np.empty(count, np.int32)
    single[number] = owner
    single[is_shared] = ~np.arange(int(is_shared.sum()), dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes[is_shared])]).astype(np.int64)
    return Owners(single, starts, owner[is_shared[number]].astype(np.int32))
