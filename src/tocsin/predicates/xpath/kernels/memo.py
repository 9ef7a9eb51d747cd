"""What structures begin to match at each path, remembered from document to document.

The memory is a tree of the paths seen: a node is a path from the root, its list holds the structures that match the
path but no shorter beginning of it. A document is a walk through this tree; the structures that match it are the union
of the lists of the nodes it visits. A list is made once, when its node is first seen: under the access key of the
structures' last two tags lie the candidates, and each is followed along the path.

A structure ends in `trailing` wildcards below its last tag. It begins to match at length n only if that tag stands at
n - trailing, so its key is (trailing, last tag, the tag before it).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.predicates.xpath.kernels.paths import lowest, structure_ends
from tocsin.predicates.xpath.kernels.tokens import Documents

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

NO_TAG = (1 << 20) - 1
"""The tag before the first one, and the last tag of a structure of wildcards only."""


class Access(NamedTuple):
    """Structures under their access keys. `keys` ascends; a key's links lie from `links[i]` to `links[i + 1]`.

    A link is a gap between the last two tags; its structures lie from `members[link]` to `members[link + 1]`, in the
    order of `least`: twice the least length of a path that they match, and 1 more if they match no longer one.
    """

    keys: Longs
    slots: Ints
    links: Ints
    gap: Ints
    members: Ints
    structures: Ints
    least: npt.NDArray[np.uint8]
    trailing: Ints


class Memory(NamedTuple):
    """The tree of paths: a hash table of nodes by (parent, tag), 0 for none, each node's list in `lists`.

    `size` holds the number of nodes in use, of list entries in use, and of documents so far.
    `visited` is the number of the last document that came by.
    """

    slots: Ints
    parent: Ints
    tag: Ints
    list_start: Ints
    lists: Ints
    visited: Ints
    size: Longs


@kernel
def access_parts(structures: Ints, offsets: Ints, chosen: Ints) -> tuple[Longs, Ints, npt.NDArray[np.uint8]]:
    """The access key of each chosen structure, the gap between its last two tags, and the `least` of `Access`."""
    keys = np.empty(len(chosen), dtype=np.int64)
    gaps = np.empty(len(chosen), dtype=np.int32)
    least = np.empty(len(chosen), dtype=np.uint8)
    for i in range(len(chosen)):
        before, last = NO_TAG, NO_TAG
        exact, distance, gap = 1, 0, 0
        whole, length = 1, 0
        for at in range(offsets[chosen[i]], offsets[chosen[i] + 1], 2):
            distance += structures[at + 1] >> 1
            exact &= structures[at + 1] & 1
            length += structures[at + 1] >> 1
            whole &= structures[at + 1] & 1
            if structures[at] >= 0:
                before, last = last, structures[at]
                gap = 2 * min(distance, 127) + exact
                exact, distance = 1, 0
        keys[i] = (int(min(distance, 127)) << 40) | (int(last) << 20) | int(before)
        gaps[i] = gap
        least[i] = 2 * min(length, 127) + whole
    return keys, gaps, least


@kernel
def _key_slot(access: Access, key: int) -> int:
    mask = len(access.slots) - 1
    slot = ((key ^ (key >> 17)) * 40503) & mask
    while access.slots[slot] >= 0 and access.keys[access.slots[slot]] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def enter_keys(access: Access) -> None:
    """Fill the hash table of the keys, whose slots are all -1."""
    for i in range(len(access.keys)):
        access.slots[_key_slot(access, access.keys[i])] = i


@kernel
def _list_structures(
    access: Access,
    structures: Ints,
    offsets: Ints,
    path: Ints,
    length: int,
    positions: Words,
    memory: Memory,
    evidence: Longs,
) -> None:
    """Append the structures that begin to match at path[1:length + 1] to the lists."""
    used = memory.size[1]
    for trailing in access.trailing:
        place = length - trailing
        if place < 0:
            break
        last = NO_TAG if place == 0 else path[place]
        if last == 0:
            continue
        for above in range(place, -1, -1):
            # Each tag before the last one is looked up once, at its lowest position; NO_TAG stands at position 0.
            before = NO_TAG if above == 0 else path[above]
            if above == place and above > 0:
                continue
            if before == 0 or (above > 0 and lowest(positions[before]) != above - 1):
                continue
            row = access.slots[_key_slot(access, (int(trailing) << 40) | (int(last) << 20) | int(before))]
            if row < 0:
                continue
            for link in range(access.links[row], access.links[row + 1]):
                distance = access.gap[link] >> 1
                if access.gap[link] & 1:
                    at = place - distance
                    if at != above if above == 0 else at < 1 or path[at] != before:
                        continue
                elif place - above < distance:
                    continue
                for k in range(access.members[link], access.members[link + 1]):
                    if access.least[k] >> 1 > length:
                        break
                    if access.least[k] & 1 and access.least[k] >> 1 < length:
                        continue
                    structure = access.structures[k]
                    evidence[1] += (offsets[structure + 1] - offsets[structure]) // 2
                    evidence[2] += 1
                    ends = structure_ends(structures, offsets[structure], offsets[structure + 1], positions, length)
                    if lowest(ends) == length - 1:
                        memory.lists[used] = structure
                        used += 1
    memory.size[1] = used


@kernel
def _forget(memory: Memory) -> None:
    memory.slots[:] = 0
    memory.size[0] = 1
    memory.size[1] = 0


@kernel
def _find(slots: Ints, parents: Ints, tags: Ints, node: int, tag: int) -> int:
    """The slot of the node for `tag` below `node`, or the free slot where it belongs."""
    mask = len(slots) - 1
    slot = (int(node) * 40503 + int(tag) * 2654435) & mask
    while slots[slot] > 0 and (parents[slots[slot]] != node or tags[slots[slot]] != tag):
        slot = (slot + 1) & mask
    return slot


@kernel
def _add(
    memory: Memory,
    access: Access,
    structures: Ints,
    offsets: Ints,
    node: int,
    path: Ints,
    length: int,
    positions: Words,
    evidence: Longs,
) -> int:
    """Make the node of path[1:length + 1] below `node`; -1 if there is no room for it."""
    new = int(memory.size[0])
    if new + 1 >= len(memory.parent) or memory.size[1] + len(access.structures) > len(memory.lists):
        return -1
    memory.slots[_find(memory.slots, memory.parent, memory.tag, node, path[length])] = new
    memory.parent[new] = node
    memory.tag[new] = path[length]
    memory.visited[new] = -1
    memory.list_start[new] = memory.size[1]
    evidence[4] += 1
    _list_structures(access, structures, offsets, path, length, positions, memory, evidence)
    memory.list_start[new + 1] = memory.size[1]
    memory.size[0] = new + 1
    return new


@kernel
def recall(
    documents: Documents,
    access: Access,
    structures: Ints,
    offsets: Ints,
    memory: Memory,
    tags: int,
    evidence: Longs,
) -> tuple[Longs, Ints]:
    """The structures that match each document, by the memory, which grows or, when full, starts anew.

    A structure is repeated if it begins to match on several paths of a document. evidence[3] counts elements whose path
    was known, evidence[4] those whose path was new, evidence[5] fresh starts.
    """
    count = len(documents.bounds) - 1
    result = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(4096, dtype=np.int32)
    used = 0
    hits = 0
    positions = np.zeros(tags, dtype=np.uint64)
    path = np.zeros(66, dtype=np.int32)
    nodes = np.zeros(66, dtype=np.int64)
    if memory.size[2] + count > 2_000_000_000:
        memory.visited[:] = -1
        memory.size[2] = 0
    for document in range(count):
        now = memory.size[2]
        memory.size[2] += 1
        length = 0
        for row in range(documents.bounds[document] + 1, documents.bounds[document + 1]):
            level = documents.level[row]
            while length >= level:
                positions[path[length]] &= ~(np.uint64(1) << np.uint64(length - 1))
                length -= 1
            length = level
            path[length] = documents.tag[row]
            positions[path[length]] |= np.uint64(1) << np.uint64(length - 1)
            above = nodes[length - 1]
            node = int(memory.slots[_find(memory.slots, memory.parent, memory.tag, above, path[length])])
            if node > 0:
                hits += 1
            else:
                node = _add(memory, access, structures, offsets, above, path, length, positions, evidence)
            if node < 0:
                _forget(memory)
                evidence[5] += 1
                for above in range(1, length + 1):
                    # The lists of shorter paths are made with the bits of the longer one masked by their length.
                    nodes[above] = _add(
                        memory, access, structures, offsets, nodes[above - 1], path, above, positions, evidence
                    )
                    memory.visited[nodes[above]] = now
                node = nodes[length]
                memory.visited[node] = -1
            nodes[length] = node
            if memory.visited[node] != now:
                memory.visited[node] = now
                begin, end = memory.list_start[node], memory.list_start[node + 1]
                if used + end - begin > len(out):
                    larger = np.empty(2 * len(out) + end - begin, dtype=np.int32)
                    larger[:used] = out[:used]
                    out = larger
                for k in range(begin, end):
                    out[used] = memory.lists[k]
                    used += 1
        while length > 0:
            positions[path[length]] &= ~(np.uint64(1) << np.uint64(length - 1))
            length -= 1
        result[document + 1] = used
    evidence[1] += len(documents.tag) - count
    evidence[3] += hits
    return result, out[:used]
