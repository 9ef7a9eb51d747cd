"""Paths of tags from a document's root down, as bits: position p of a path is bit p - 1 of a word.

A document has at most 64 levels, so the positions of one tag on a path are one word. A step of an expression takes the
positions where the step before may stand to those where it may stand itself, with two operations.
"""

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.predicates.xpath.kernels.tokens import Documents

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


_PAIRS = np.uint64(0x5555555555555555)
_FOURS = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)


@kernel
def bit_count(bits: np.uint64) -> int:
    """How many bits are set. The compiler knows this form, and makes one instruction of it and of `lowest`."""
    bits -= (bits >> np.uint64(1)) & _PAIRS
    bits = (bits & _FOURS) + ((bits >> np.uint64(2)) & _FOURS)
    bits = (bits + (bits >> np.uint64(4))) & _BYTES
    return int((bits * _SUM) >> np.uint64(56))


@kernel
def lowest(bits: np.uint64) -> int:
    """The place of the lowest bit set; 64 if none is."""
    return bit_count(~bits & (bits - np.uint64(1)))


@kernel
def highest(bits: np.uint64) -> int:
    """The place of the highest bit set; -1 if none is."""
    bits |= bits >> np.uint64(1)
    bits |= bits >> np.uint64(2)
    bits |= bits >> np.uint64(4)
    bits |= bits >> np.uint64(8)
    bits |= bits >> np.uint64(16)
    bits |= bits >> np.uint64(32)
    return bit_count(bits) - 1


@kernel
def up_to(count: int) -> np.uint64:
    """The lowest `count` bits."""
    if count >= 64:
        return ~np.uint64(0)
    return (np.uint64(1) << np.uint64(count)) - np.uint64(1)


@kernel
def follow(positions: np.uint64, gap: int) -> np.uint64:
    """Where a step may stand, any tag, if the step before may stand at `positions`."""
    distance = gap >> 1
    if gap & 1:
        return np.uint64(0) if distance >= 64 else positions << np.uint64(distance)
    if positions == 0 or distance >= 64:
        return np.uint64(0)
    return ~((positions & (~positions + np.uint64(1))) - np.uint64(1)) << np.uint64(distance)


@kernel
def first_step(gap: int) -> np.uint64:
    """Where the first step may stand, any tag: its distance counts from the document."""
    distance = gap >> 1
    if distance > 64:
        return np.uint64(0)
    if gap & 1:
        return np.uint64(1) << np.uint64(distance - 1)
    return ~up_to(distance - 1)


@kernel
def structure_ends(structures: Ints, start: int, stop: int, positions: Words, length: int) -> np.uint64:
    """Where the last step of structures[start:stop] may stand on a path; `positions[tag]` is where a tag stands."""
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
def distinct_nodes(documents: Documents, apart: Bools) -> tuple[Longs, Ints, Ints]:
    """For each document its distinct paths from the root, as a tree, each before those that it begins.

    Returns where the nodes of each document start, the row at the end of each one's path, and its height: by how many
    levels the longest path through it is longer. Names that no expression mentions count as one. A row that is `apart`
    differs from all others, whatever its tag; an empty array says that none is.
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


@kernel
def distinct_paths(documents: Documents, apart: Bools) -> tuple[Longs, Ints]:
    """The `distinct_nodes` that are leaves: where those of each document start, and the row at the end of each."""
    offsets, rows, heights = distinct_nodes(documents, apart)
    leaves = np.cumsum(heights == 0)
    starts = np.zeros(len(offsets), dtype=np.int64)
    for document in range(1, len(offsets)):
        starts[document] = leaves[offsets[document] - 1] if offsets[document] > 0 else 0
    return starts, rows[heights == 0]


@kernel
def repeats(positions: np.uint64) -> bool:
    """Whether a tag stands more than once on a path."""
    return bool(positions != 0 and positions & (positions - np.uint64(1)) != 0)


@kernel
def load_path(documents: Documents, row: int, positions: Words, tags: Ints) -> int:
    """Add the path that ends at `row` to `positions`; write its distinct known tags; returns how many they are."""
    found = 0
    while documents.level[row] > 0:
        tag = documents.tag[row]
        if tag > 0:
            if positions[tag] == 0:
                tags[found] = tag
                found += 1
            positions[tag] |= np.uint64(1) << np.uint64(documents.level[row] - 1)
        row = documents.parent[row]
    return found


@kernel
def unload_path(positions: Words, tags: Ints, found: int) -> None:
    """Clear what `load_path` set."""
    for i in range(found):
        positions[tags[i]] = 0
