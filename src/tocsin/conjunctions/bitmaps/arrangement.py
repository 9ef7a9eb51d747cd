"""Two orders of conjunctions: so that those of a group accept about the same, or that they name few columns.

In the first, those of a group name the same columns and accept about the same cells of them.

A run of conjunctions is sorted by the column that rules out most of the run, among those that a conjunction names, and
by the middle of the range; then it is cut into classes of like middles, and each class is sorted by its other columns.

The walk over runs is Python: a million conjunctions have some thousand runs. As a kernel, with its lists and sorts, it
took 5.7 s to compile; 300,000 conjunctions of ten ranges are arranged in 0.6 s as before.
"""

import heapq

import numpy as np

from tocsin.arrays import Bools, Int32s, Int64s
from tocsin.conjunctions.bitmaps.kernels import GROUP, MIDDLES, fill_keys, weigh_columns
from tocsin.tuning import TUNING

FAMILIES = 14
"""Families of columns: there are 2,002 sets of five of them, about as many as a million conjunctions have lines of 512.
Other numbers were not measured."""


def arrange(starts: Int64s, column: Int32s, middle: Int32s, share: Int64s, columns: int) -> Int32s:
    """Return the conjunctions in order.

    Predicate i of conjunction c, for i from `starts[c]` to `starts[c + 1]`, is on `column[i]`, has its middle at
    `middle[i]` (the sum of its first and last cell) and accepts `share[i]` thousandths of the events.
    """
    count = starts.size - 1
    order = np.arange(count, dtype=np.int32)
    # Runs that wait, each with the columns that it has been sorted by.
    waiting: list[tuple[int, int, Bools]] = [(0, count, np.zeros(columns, np.bool_))]
    while waiting:
        begin, end, done = waiting.pop()
        if end - begin <= GROUP:
            continue
        named, ruled_out = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
        weigh_columns(order[begin:end], starts, column, share, done, named, ruled_out)
        # Columns that are not named rule out nothing, and come last.
        by_effect = np.argsort(-ruled_out, kind="stable")
        rank = np.empty(columns, np.int64)
        rank[by_effect] = np.arange(columns)
        key = np.empty(end - begin, np.int64)
        fill_keys(order[begin:end], starts, column, middle, done, rank, key)
        by_key = np.argsort(key, kind="stable")
        order[begin:end] = order[begin:end][by_key]
        ranks, firsts, sizes = np.unique(key[by_key] // MIDDLES, return_index=True, return_counts=True)
        for place, first, size in zip(ranks.tolist(), (begin + firsts).tolist(), sizes.tolist(), strict=True):
            if place < columns and size > GROUP:
                of_column = by_effect[place]
                after = done.copy()
                after[of_column] = True
                accepted = 1000 - int(ruled_out[of_column] // named[of_column])
                waiting += [(*ends, after) for ends in _classes(first, first + size, accepted)]
    return order


def _classes(run: int, end: int, accepted: int) -> list[tuple[int, int]]:
    """Cut a sorted run whose conjunctions accept so many thousandths of the events, on the average."""
    classes = 4 if accepted > 250 else 8 if accepted > 80 else 16
    # Classes end between groups, so that few groups have conjunctions of two classes.
    step = max(GROUP, ((end - run) // classes + GROUP // 2) // GROUP * GROUP)
    if end - run <= TUNING.groups_in_a_class * GROUP:
        step = GROUP
    found = []
    while run < end:
        cut = min(end, (run + step) // GROUP * GROUP)
        if end - cut < step // 2:
            cut = end
        found.append((run, cut))
        run = cut
    return found


def by_families_of_columns(starts: Int64s, column: Int32s, columns: int) -> Int32s:
    """Return the conjunctions in an order in which those that stand together name few columns.

    Columns fall into families that are named about equally often. Conjunctions that name the same families stand
    together, and each set of families beside one that differs from it by one family, if there is such a set. Predicate
    i of conjunction c, for i from `starts[c]` to `starts[c + 1]`, is on `column[i]`.

    >>> by_families_of_columns(np.array([0, 1, 2, 4, 5]), np.array([2, 0, 0, 2, 2], np.int32), 3).tolist()
    [0, 3, 2, 1]
    """
    family = _families(np.bincount(column, minlength=columns))
    families = np.zeros(starts.size - 1, np.int64)
    np.bitwise_or.at(families, np.repeat(np.arange(starts.size - 1), np.diff(starts)), np.int64(1) << family[column])
    # Read as reflected binary code, of which two that follow each other differ by one bit.
    place, shift = families, 1
    while shift < FAMILIES:
        place = place ^ (place >> shift)
        shift *= 2
    return np.argsort(place, kind="stable").astype(np.int32)


def _families(named: Int64s) -> Int64s:
    """Return the family of each column: those that are named most often first, each to the lightest family."""
    family, lightest = np.empty(named.size, np.int64), [(0, number) for number in range(FAMILIES)]
    for column in np.argsort(-named, kind="stable").tolist():
        weight, number = lightest[0]
        family[column] = number
        heapq.heapreplace(lightest, (weight + int(named[column]), number))
    return family
