"""Paths of tags from a document's root down, as bits: position p of a path is bit p - 1 of a word.

A document has at most 64 levels, so the positions of one tag on a path are one word. A step of an expression takes the
positions where the step before may stand to those where it may stand itself, with two operations.
"""

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.xpath_tokens import Documents

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@kernel
def bit_places() -> Ints:
    """The place of the only bit of a word under the word modulo 67, which differs for all 64 of them."""
    places = np.zeros(67, dtype=np.int32)
    remainder = 1
    for place in range(64):
        places[remainder] = place
        remainder = 2 * remainder % 67
    return places


_PLACES = bit_places()


@kernel
def lowest(bits: np.uint64) -> int:
    """The place of the lowest bit set; 64 if none is."""
    if bits == 0:
        return 64
    return int(_PLACES[np.int64((bits & (~bits + np.uint64(1))) % np.uint64(67))])


@kernel
def highest(bits: np.uint64) -> int:
    """The place of the highest bit set; -1 if none is."""
    if bits == 0:
        return -1
    bits |= bits >> np.uint64(1)
    bits |= bits >> np.uint64(2)
    bits |= bits >> np.uint64(4)
    bits |= bits >> np.uint64(8)
    bits |= bits >> np.uint64(16)
    bits |= bits >> np.uint64(32)
    return int(_PLACES[np.int64((bits ^ (bits >> np.uint64(1))) % np.uint64(67))])


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
def distinct_paths(documents: Documents, apart: Bools) -> tuple[Longs, Ints, Ints]:
    """For each document one row for each distinct path from its root to a leaf, the row at the path's end.

    Names that no expression mentions count as one. A row that is `apart` differs from all others, whatever its tag; an
    empty array says that none is. A path that begins another one is not listed. Last comes the node of each row: rows
    whose paths from the root are equal have equal nodes.
    """
    count = len(documents.bounds) - 1
    offsets = np.zeros(count + 1, dtype=np.int64)
    rows = np.empty(len(documents.tag), dtype=np.int32)
    node = np.empty(len(documents.tag), dtype=np.int32)
    used = 0
    for document in range(count):
        first, last = documents.bounds[document], documents.bounds[document + 1]
        size = 4
        while size < 2 * (last - first):
            size *= 2
        slots = np.full(size, -1, dtype=np.int32)
        inner = np.zeros(last - first, dtype=np.bool_)
        node[first] = first
        for row in range(first + 1, last):
            above = node[documents.parent[row]]
            inner[above - first] = True
            if len(apart) > 0 and apart[row]:
                node[row] = row
                continue
            tag = documents.tag[row]
            slot = (int(above - first) * 40503 + int(tag) * 9973) & (size - 1)
            while slots[slot] >= 0:
                known = slots[slot]
                if documents.tag[known] == tag and node[documents.parent[known]] == above:
                    break
                slot = (slot + 1) & (size - 1)
            if slots[slot] < 0:
                slots[slot] = row
            node[row] = slots[slot]
        for row in range(first + 1, last):
            if node[row] == row and not inner[row - first]:
                rows[used] = row
                used += 1
        offsets[document + 1] = used
    return offsets, rows[:used].copy(), node


@kernel
def shared_beginning(documents: Documents, row: int, nodes: Ints, before: Ints) -> int:
    """How many levels the path that ends in `row` shares with `before`, the nodes of another, whose place it takes."""
    length = int(documents.level[row])
    shared = length
    for level in range(length, 0, -1):
        if before[level] != nodes[row]:
            shared = level - 1
            before[level] = nodes[row]
        row = documents.parent[row]
    before[length + 1 :] = -1
    return shared


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
