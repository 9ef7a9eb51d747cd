"""The score-optimal arrangement: which intervals must precede which, and the leftmost order that obeys.

Intervals are numbered by rank here: 0 is the best score. Sets of small integers are bitmaps of 32 bits a word in
levels, the lowest first: a word's bit is set if the word below it is not empty. `starts` says where each level begins.
"""

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s

# Multiplying an isolated bit by this de Bruijn sequence leaves a different number in bits 27 to 31 for each bit.
_DE_BRUIJN = 0x077CB531
_BIT_OF = np.zeros(32, np.int64)
for _bit in range(32):
    _BIT_OF[((_DE_BRUIJN << _bit) & 0xFFFFFFFF) >> 27] = _bit


@kernel
def _lowest(word: int) -> int:
    """The number of the lowest set bit."""
    return int(_BIT_OF[(((word & -word) * _DE_BRUIJN) & 0xFFFFFFFF) >> 27])


@kernel
def _highest(word: int) -> int:
    """The number of the highest set bit."""
    word |= word >> 1
    word |= word >> 2
    word |= word >> 4
    word |= word >> 8
    word |= word >> 16
    return int(_BIT_OF[(((word - (word >> 1)) * _DE_BRUIJN) & 0xFFFFFFFF) >> 27])


@kernel
def _empty_set(size: int) -> tuple[Int64s, Int64s]:
    starts = np.zeros(8, np.int64)
    total = 0
    levels = 0
    while True:
        size = max((size + 31) // 32, 1)
        total += size
        levels += 1
        starts[levels] = total
        if size <= 1:
            break
    return np.zeros(total, np.int64), starts[: levels + 1]


@kernel
def _add(words: Int64s, starts: Int64s, member: int) -> None:
    for level in range(starts.size - 1):
        place = starts[level] + (member >> 5)
        before = words[place]
        words[place] = before | (1 << (member & 31))
        if before != 0:
            return
        member >>= 5


@kernel
def _remove(words: Int64s, starts: Int64s, member: int) -> None:
    for level in range(starts.size - 1):
        place = starts[level] + (member >> 5)
        words[place] &= ~(1 << (member & 31))
        if words[place] != 0:
            return
        member >>= 5


@kernel
def _smallest(words: Int64s, starts: Int64s) -> int:
    """The smallest member, or -1."""
    if words[words.size - 1] == 0:
        return -1
    member = 0
    for level in range(starts.size - 2, -1, -1):
        member = (member << 5) | _lowest(words[starts[level] + member])
    return member


@kernel
def _before(words: Int64s, starts: Int64s, member: int) -> int:
    """The greatest member below `member`, or -1."""
    for level in range(starts.size - 1):
        below = words[starts[level] + (member >> 5)] & ((1 << (member & 31)) - 1)
        if below != 0:
            member = (member & ~31) | _highest(below)
            for lower in range(level - 1, -1, -1):
                member = (member << 5) | _highest(words[starts[lower] + member])
            return member
        member >>= 5
    return -1


@kernel
def constraint_edges(lo: Int32s, hi: Int32s, by_lo: Int32s, by_hi: Int32s) -> tuple[Int32s, Int32s, Int32s]:
    """Say which intervals must precede which: `head`, `target` and `link` are lists of edges by source.

    Two intervals have an edge if some point lies in both and in none ranked between them. A sweep from left to right
    keeps the ranks of the intervals over the current point as a set and as a linked list. An interval that begins
    gains an edge from the rank before it and one to the rank after it; when it ends, those two become neighbours. So
    interval i owns edges 3i, 3i+1 and 3i+2, at most 3n in all, and -1 ends a list or marks an edge that is not there.
    Where intervals begin or end together some neighbours last for no point; their edges follow from others.
    """
    size = lo.size
    head = np.full(size, -1, np.int32)
    target = np.full(3 * size, -1, np.int32)
    link = np.full(3 * size, -1, np.int32)
    words, starts = _empty_set(size)
    # Slot 0 of `after` is the head of the list of active ranks; rank r sits in slot r + 1. -1 is none.
    after = np.full(size + 1, -1, np.int32)
    before = np.full(size, -1, np.int32)
    begun = 0
    for end in range(size):
        ending = int(by_hi[end])
        while begun < size and lo[by_lo[begun]] <= hi[ending]:
            rank = int(by_lo[begun])
            begun += 1
            above = _before(words, starts, rank)
            below = after[above + 1]
            _add(words, starts, rank)
            before[rank] = above
            after[rank + 1] = below
            after[above + 1] = rank
            if above >= 0:
                target[3 * rank] = rank
                link[3 * rank] = head[above]
                head[above] = 3 * rank
            if below >= 0:
                before[below] = rank
                target[3 * rank + 1] = below
                link[3 * rank + 1] = head[rank]
                head[rank] = 3 * rank + 1
        above = before[ending]
        below = after[ending + 1]
        _remove(words, starts, ending)
        after[above + 1] = below
        if below >= 0:
            before[below] = above
            if above >= 0:
                target[3 * ending + 2] = below
                link[3 * ending + 2] = head[above]
                head[above] = 3 * ending + 2
    return head, target, link


@kernel
def arrange_leftmost(by_lo: Int32s, head: Int32s, target: Int32s, link: Int32s) -> Int32s:
    """List the ranks so that every edge points forward, taking the leftmost interval that is free each time."""
    size = by_lo.size
    waits_for = np.zeros(size, np.int32)
    for edge in range(target.size):
        if target[edge] >= 0:
            waits_for[target[edge]] += 1
    place = np.empty(size, np.int32)
    words, starts = _empty_set(size)
    for position in range(size):
        place[by_lo[position]] = position
        if waits_for[by_lo[position]] == 0:
            _add(words, starts, position)
    arrangement = np.empty(size, np.int32)
    for position in range(size):
        leftmost = _smallest(words, starts)
        _remove(words, starts, leftmost)
        rank = by_lo[leftmost]
        arrangement[position] = rank
        edge = head[rank]
        while edge >= 0:
            follower = target[edge]
            waits_for[follower] -= 1
            if waits_for[follower] == 0:
                _add(words, starts, int(place[follower]))
            edge = link[edge]
    return arrangement
