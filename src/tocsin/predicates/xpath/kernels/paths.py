"""Paths of tags from a document's root down, as bits: position p of a path is bit p - 1 of a word.

A document has at most 64 levels, so the positions of one tag on a path are one word. A *structure* is the steps of an
expression without filters, two integers a step: a tag, or ANY_TAG, and the *gap* to the step before it, which is
``2 * distance + exact``. A step takes the positions where the step before it may stand to those where it may stand
itself, with two operations.
"""

import numpy as np

from tocsin._compile import count_bits, kernel
from tocsin.arrays import Bools, Int32s, Int64s, UInt64s
from tocsin.predicates.xpath.kernels.tokens import Documents

ANY_TAG = -1
"""The tag of a wildcard step."""
LEVELS = 66
"""Room for what belongs to a level: 0 is the document, 1 to 64 are elements, and one more behind them."""


@kernel
def distance_of(gap: int) -> int:
    """Return the levels between a step and the one before it, or the least number of them."""
    return gap >> 1


@kernel
def is_exact(gap: int) -> bool:
    """Tell whether a step stands exactly at its distance, and not there or below."""
    return gap & 1 != 0


@kernel
def highest_bit(bits: np.uint64) -> int:
    """Return the place of the highest bit that is set; -1 if none is."""
    bits |= bits >> np.uint64(1)
    bits |= bits >> np.uint64(2)
    bits |= bits >> np.uint64(4)
    bits |= bits >> np.uint64(8)
    bits |= bits >> np.uint64(16)
    bits |= bits >> np.uint64(32)
    return count_bits(bits) - 1


@kernel
def position_bit(level: int) -> np.uint64:
    """Return the bit of the position at a level, from 1 on."""
    return np.uint64(1) << np.uint64(level - 1)


@kernel
def up_to(count: int) -> np.uint64:
    """Return the lowest `count` bits."""
    if count >= 64:
        return ~np.uint64(0)
    return (np.uint64(1) << np.uint64(count)) - np.uint64(1)


@kernel
def follow(positions: np.uint64, gap: int) -> np.uint64:
    """Return where a step may stand, any tag, if the step before it may stand at `positions`."""
    distance = distance_of(gap)
    if distance >= 64 or positions == 0:
        return np.uint64(0)
    if is_exact(gap):
        return positions << np.uint64(distance)
    # From the lowest position on, at least `distance` levels further down.
    return ~((positions & (~positions + np.uint64(1))) - np.uint64(1)) << np.uint64(distance)


@kernel
def first_step(gap: int) -> np.uint64:
    """Return where the first step may stand, any tag: its distance counts from the document."""
    distance = distance_of(gap)
    if distance > 64:
        return np.uint64(0)
    if is_exact(gap):
        return position_bit(distance)
    return ~up_to(distance - 1)


@kernel
def structure_ends(structures: Int32s, start: int, stop: int, positions: UInt64s, length: int) -> np.uint64:
    """Return where the last step of structures[start:stop] may stand on a path whose tags stand at `positions[tag]`."""
    whole = up_to(length)
    here = first_step(structures[start + 1]) & whole
    if structures[start] >= 0:
        here &= positions[structures[start]]
    at = start + 2
    while at < stop and here != 0:
        here = follow(here, structures[at + 1]) & whole
        if structures[at] >= 0:
            here &= positions[structures[at]]
        at += 2
    return here


@kernel
def distinct_nodes(documents: Documents, apart: Bools) -> tuple[Int64s, Int32s, Int32s]:
    """Return the distinct paths from the root of each document as nodes of a tree, each before those below it.

    A node is a path of tags; names that no expression mentions count as one tag. A row that is `apart` is a node of its
    own, whatever its tag; an empty array says that none is. Returned are where the nodes of each document start, the
    first row with the path of each node, and the height of each node: the levels below it in the tree.
    """
    bounds, tags, parents = documents.bounds, documents.tag, documents.parent
    count = len(bounds) - 1
    largest = 0
    for document in range(count):
        largest = max(largest, bounds[document + 1] - bounds[document])
    size = 4
    while size < 2 * largest:
        size *= 2
    offsets = np.zeros(count + 1, dtype=np.int64)
    rows = np.empty(len(tags), dtype=np.int32)
    heights = np.empty(len(tags), dtype=np.int32)
    # Of the document at hand, by the number of the row in it: the node of a row, and the tree of the nodes.
    slots = np.empty(size, dtype=np.int32)
    node = np.empty(largest + 1, dtype=np.int32)
    height = np.empty(largest + 1, dtype=np.int32)
    child = np.empty(largest + 1, dtype=np.int32)
    sibling = np.empty(largest + 1, dtype=np.int32)
    used = 0
    for document in range(count):
        first = bounds[document]
        length = bounds[document + 1] - first
        mask = 3
        while mask + 1 < 2 * length:
            mask = 2 * mask + 1
        slots[: mask + 1] = -1
        height[:length] = 0
        child[:length] = -1
        node[0] = 0
        for row in range(1, length):
            tag = tags[first + row]
            above = node[parents[first + row] - first]
            slot = (int(above) * 40503 + int(tag) * 9973) & mask
            known = -1 if len(apart) > 0 and apart[first + row] else slots[slot]
            while known >= 0 and (tags[first + known] != tag or node[parents[first + known] - first] != above):
                slot = (slot + 1) & mask
                known = slots[slot]
            if known >= 0:
                node[row] = known
                continue
            if len(apart) == 0 or not apart[first + row]:
                slots[slot] = row
            node[row] = row
            sibling[row] = child[above]
            child[above] = row
            rise = 1
            while height[above] < rise and above > 0:
                height[above] = rise
                rise += 1
                above = node[parents[first + above] - first]
        at = child[0] if length > 0 else -1
        while at >= 0:
            rows[used] = first + at
            heights[used] = height[at]
            used += 1
            if child[at] >= 0:
                at = child[at]
                continue
            while at > 0 and sibling[at] < 0:
                at = node[parents[first + at] - first]
            at = sibling[at] if at > 0 else -1
        offsets[document + 1] = used
    return offsets, rows[:used].copy(), heights[:used].copy()
