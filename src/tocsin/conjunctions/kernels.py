"""Kernels that find equal and covered conjunctions."""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int32s, Int64s

_LOW_40_BITS = (1 << 40) - 1


class Demands(NamedTuple):
    """What each conjunction demands: its rows of ranges, sorted by column and low, and its tests, sorted."""

    range_starts: Int64s
    column: Int32s
    low: Int32s
    high: Int32s
    test_starts: Int64s
    test: Int32s
    accepts: Int32s


@kernel
def mix_hash(h: int, term: np.int32) -> int:
    """Add a number to a hash of 40 bits: small enough that the product stays an int64, also in uncompiled Python."""
    mixed: int = ((h ^ (int(term) & _LOW_40_BITS)) * 8388593) & _LOW_40_BITS
    return mixed ^ (mixed >> 19)


@kernel
def sort_tests(starts: Int64s, test: Int32s, accepts: Int32s) -> None:
    """Sort the tests of each conjunction in place; there are few of each, and mostly they are in order."""
    for c in range(len(starts) - 1):
        for i in range(starts[c] + 1, starts[c + 1]):
            j = i
            while j > starts[c] and (test[j - 1] > test[j] or (test[j - 1] == test[j] and accepts[j - 1] > accepts[j])):
                test[j - 1], test[j] = test[j], test[j - 1]
                accepts[j - 1], accepts[j] = accepts[j], accepts[j - 1]
                j -= 1


@kernel
def _equal(demands: Demands, one: int, other: int) -> bool:
    first, start = demands.range_starts[one], demands.range_starts[other]
    if demands.range_starts[one + 1] - first != demands.range_starts[other + 1] - start:
        return False
    first_test, start_test = demands.test_starts[one], demands.test_starts[other]
    if demands.test_starts[one + 1] - first_test != demands.test_starts[other + 1] - start_test:
        return False
    for i in range(demands.range_starts[one + 1] - first):
        if (
            demands.column[first + i] != demands.column[start + i]
            or demands.low[first + i] != demands.low[start + i]
            or demands.high[first + i] != demands.high[start + i]
        ):
            return False
    for i in range(demands.test_starts[one + 1] - first_test):
        if (
            demands.test[first_test + i] != demands.test[start_test + i]
            or demands.accepts[first_test + i] != demands.accepts[start_test + i]
        ):
            return False
    return True


@kernel
def first_equals(demands: Demands, keep: Bools) -> Int32s:
    """For each conjunction, the first that demands the same; -1 for those that are not to be kept.

    An open-addressing table holds one conjunction of each sort, and all have their hash beside them: only those of
    equal hash are compared.
    """
    count = keep.size
    size = 16
    while size < 2 * count:
        size *= 2
    table = np.full(size, -1, np.int32)
    hashes = np.zeros(count, np.int64)
    first = np.full(count, -1, np.int32)
    for c in range(count):
        if not keep[c]:
            continue
        h = 0
        for i in range(demands.range_starts[c], demands.range_starts[c + 1]):
            h = mix_hash(mix_hash(mix_hash(h, demands.column[i]), demands.low[i]), demands.high[i])
        for i in range(demands.test_starts[c], demands.test_starts[c + 1]):
            h = mix_hash(mix_hash(h, demands.test[i]), demands.accepts[i])
        hashes[c] = h
        place = h & (size - 1)
        while table[place] >= 0 and (hashes[table[place]] != h or not _equal(demands, table[place], c)):
            place = (place + 1) & (size - 1)
        if table[place] < 0:
            table[place] = c
        first[c] = table[place]
    return first


@kernel
def _covers(demands: Demands, wide: int, narrow: int) -> bool:
    """Whether whatever satisfies `narrow` satisfies `wide`, by a look at each demand of `wide` alone."""
    column, low, high = demands.column, demands.low, demands.high
    i, end = demands.range_starts[wide], demands.range_starts[wide + 1]
    j, last = demands.range_starts[narrow], demands.range_starts[narrow + 1]
    while i < end:
        of_column = column[i]
        while j < last and column[j] < of_column:
            j += 1
        if j == last or column[j] != of_column:
            return False
        while j < last and column[j] == of_column:
            while i < end and column[i] == of_column and high[i] < low[j]:
                i += 1
            if i == end or column[i] != of_column or low[i] > low[j] or high[i] < high[j]:
                return False
            j += 1
        while i < end and column[i] == of_column:
            i += 1
    j, last = demands.test_starts[narrow], demands.test_starts[narrow + 1]
    for i in range(demands.test_starts[wide], demands.test_starts[wide + 1]):
        while j < last and demands.test[j] < demands.test[i]:
            j += 1
        if j == last or demands.test[j] != demands.test[i] or demands.accepts[j] & ~demands.accepts[i]:
            return False
    return True


@kernel
def drop_covered(demands: Demands, owner: Int32s, most: int, keep: Bools) -> None:
    """Of the conjunctions to keep of each subscription, drop those that another covers; of equal ones the first stays.

    `owner` is ascending. Conjunctions are compared in pairs, so subscriptions with more than `most` are left alone.
    """
    start = 0
    while start < owner.size:
        stop = start + 1
        while stop < owner.size and owner[stop] == owner[start]:
            stop += 1
        if 1 < stop - start <= most:
            for wide in range(start, stop):
                for narrow in range(start, stop):
                    if wide != narrow and keep[wide] and keep[narrow] and _covers(demands, wide, narrow):
                        keep[narrow] = False
        start = stop
