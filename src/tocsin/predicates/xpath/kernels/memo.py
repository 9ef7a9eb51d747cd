"""Which structures begin to match at each path of tags, remembered from document to document.

The memo is a tree of the paths seen: a node is a path from the root, its list holds the structures that match the path
but no shorter beginning of it. A document is a walk through this tree; the structures that match it are the union of
the lists of the nodes that it visits. A list is made once, when its node is first seen: the candidates lie under an
access key made of a structure's last two tags, and each candidate is followed along the path.

A structure ends in `trailing` wildcards below its last tag. It begins to match at length n only if that tag stands at
n - trailing, so its access key is (trailing, last tag, the tag before it).
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel, lowest_bit
from tocsin.arrays import Int32s, Int64s, UInt8s, UInt64s
from tocsin.predicates.xpath.kernels import CANDIDATES, MEMO_HITS, MEMO_MISSES, MEMO_RESETS, STEPS
from tocsin.predicates.xpath.kernels.filters import CatalogTables
from tocsin.predicates.xpath.kernels.hashing import key_slot, with_room
from tocsin.predicates.xpath.kernels.paths import LEVELS, distance_of, is_exact, position_bit, structure_ends
from tocsin.predicates.xpath.kernels.tokens import Documents

TRAILING_SHIFT, LAST_SHIFT = 40, 20
"""Where the number of trailing wildcards and the last tag stand in an access key; the tag before it stands below."""
NO_TAG = (1 << LAST_SHIFT) - 1
"""The tag before the first one, and the last tag of a structure of wildcards only."""
MAX_DISTANCE = 127
"""Larger distances are cut: no path is longer than 64."""
NODES, ENTRIES, DOCUMENTS = range(3)
"""Fields of `PathMemo.used`."""
_LAST_DOCUMENT = 2_000_000_000
"""Numbers of documents start anew here, for `visited` has 32 bits."""


class MemoAccess(NamedTuple):
    """Structures under their access keys, which ascend; `slots` is the hash table of the keys.

    Key i has the links links[i]:links[i + 1]. A link is a `gap` between the last two tags; its structures are
    structures[members[link]:members[link + 1]], in the order of `least`: the shortest path that they match, as a gap
    from the document, which is exact if they match no longer one. `trailing` are the numbers of trailing wildcards that
    occur.
    """

    keys: Int64s
    slots: Int32s
    links: Int32s
    gap: Int32s
    members: Int32s
    structures: Int32s
    least: UInt8s
    trailing: Int32s


class PathMemo(NamedTuple):
    """The tree of paths: a hash table of nodes by (parent, tag), 0 for none; node 0 is the empty path.

    The list of node n is lists[list_start[n]:list_start[n + 1]]. `used` counts the nodes and list entries in use and
    the documents so far. `visited` is the number of the last document that went through a node.
    """

    slots: Int32s
    parent: Int32s
    tag: Int32s
    list_start: Int32s
    lists: Int32s
    visited: Int32s
    used: Int64s


@kernel
def _access_key(trailing: int, last: int, before: int) -> int:
    return (int(trailing) << TRAILING_SHIFT) | (int(last) << LAST_SHIFT) | int(before)


@kernel
def access_parts(tables: CatalogTables, chosen: Int32s) -> tuple[Int64s, Int32s, UInt8s]:
    """Return the access key of each chosen structure, the gap between its last two tags, and its `least`."""
    structures, offsets = tables.structures, tables.structure_offsets
    keys = np.empty(len(chosen), dtype=np.int64)
    gaps = np.empty(len(chosen), dtype=np.int32)
    least = np.empty(len(chosen), dtype=np.uint8)
    for i in range(len(chosen)):
        before, last = NO_TAG, NO_TAG
        exact, distance, gap = 1, 0, 0
        whole, length = 1, 0
        for at in range(offsets[chosen[i]], offsets[chosen[i] + 1], 2):
            step = distance_of(structures[at + 1])
            is_step_exact = int(is_exact(structures[at + 1]))
            distance += step
            exact &= is_step_exact
            length += step
            whole &= is_step_exact
            if structures[at] >= 0:
                before, last = last, structures[at]
                gap = 2 * min(distance, MAX_DISTANCE) + exact
                exact, distance = 1, 0
        keys[i] = _access_key(min(distance, MAX_DISTANCE), last, before)
        gaps[i] = gap
        least[i] = 2 * min(length, MAX_DISTANCE) + whole
    return keys, gaps, least


@kernel
def _list_structures(
    memo: PathMemo,
    access: MemoAccess,
    tables: CatalogTables,
    path: Int32s,
    length: int,
    positions: UInt64s,
    evidence: Int64s,
) -> None:
    """Append the structures that begin to match at path[1:length + 1] to the lists."""
    structures, offsets = tables.structures, tables.structure_offsets
    used = memo.used[ENTRIES]
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
            if before == 0 or (above > 0 and lowest_bit(positions[before]) != above - 1):
                continue
            row = access.slots[key_slot(access.keys, access.slots, _access_key(trailing, last, before), 0)]
            if row < 0:
                continue
            for link in range(access.links[row], access.links[row + 1]):
                distance = distance_of(access.gap[link])
                if is_exact(access.gap[link]):
                    at = place - distance
                    if at != above if above == 0 else at < 1 or path[at] != before:
                        continue
                elif place - above < distance:
                    continue
                for k in range(access.members[link], access.members[link + 1]):
                    shortest = distance_of(access.least[k])
                    if shortest > length:
                        break
                    if is_exact(access.least[k]) and shortest < length:
                        continue
                    structure = access.structures[k]
                    evidence[STEPS] += (offsets[structure + 1] - offsets[structure]) // 2
                    evidence[CANDIDATES] += 1
                    ends = structure_ends(structures, offsets[structure], offsets[structure + 1], positions, length)
                    if lowest_bit(ends) == length - 1:
                        memo.lists[used] = structure
                        used += 1
    memo.used[ENTRIES] = used


@kernel
def _clear(memo: PathMemo) -> None:
    memo.slots[:] = 0
    memo.used[NODES] = 1
    memo.used[ENTRIES] = 0


@kernel
def _node_slot(slots: Int32s, parents: Int32s, tags: Int32s, node: int, tag: int) -> int:
    """Return the slot of the node for `tag` below `node`, or the free slot where it belongs."""
    mask = len(slots) - 1
    slot = (int(node) * 40503 + int(tag) * 2654435) & mask
    while slots[slot] > 0 and (parents[slots[slot]] != node or tags[slots[slot]] != tag):
        slot = (slot + 1) & mask
    return slot


@kernel
def _add_node(
    memo: PathMemo,
    access: MemoAccess,
    tables: CatalogTables,
    node: int,
    path: Int32s,
    length: int,
    positions: UInt64s,
    evidence: Int64s,
) -> int:
    """Make the node of path[1:length + 1] below `node`; return -1 if there is no room for it."""
    new = int(memo.used[NODES])
    if new + 1 >= len(memo.parent) or memo.used[ENTRIES] + len(access.structures) > len(memo.lists):
        return -1
    memo.slots[_node_slot(memo.slots, memo.parent, memo.tag, node, path[length])] = new
    memo.parent[new] = node
    memo.tag[new] = path[length]
    memo.visited[new] = -1
    memo.list_start[new] = memo.used[ENTRIES]
    evidence[MEMO_MISSES] += 1
    _list_structures(memo, access, tables, path, length, positions, evidence)
    memo.list_start[new + 1] = memo.used[ENTRIES]
    memo.used[NODES] = new + 1
    return new


@kernel(looked_up=("memo",))
def recall(
    documents: Documents, access: MemoAccess, tables: CatalogTables, memo: PathMemo, tags: int, evidence: Int64s
) -> tuple[Int64s, Int32s]:
    """Return the structures that match each document, by the memo, which grows or, when it is full, starts anew.

    A structure is repeated if it begins to match on several paths of a document.
    """
    count = len(documents.bounds) - 1
    result = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(4096, dtype=np.int32)
    used = 0
    hits = 0
    positions = np.zeros(tags, dtype=np.uint64)
    path = np.zeros(LEVELS, dtype=np.int32)
    nodes = np.zeros(LEVELS, dtype=np.int64)
    if memo.used[DOCUMENTS] + count > _LAST_DOCUMENT:
        memo.visited[:] = -1
        memo.used[DOCUMENTS] = 0
    for document in range(count):
        now = memo.used[DOCUMENTS]
        memo.used[DOCUMENTS] += 1
        length = 0
        for row in range(documents.bounds[document] + 1, documents.bounds[document + 1]):
            level = documents.level[row]
            while length >= level:
                positions[path[length]] &= ~position_bit(length)
                length -= 1
            length = level
            path[length] = documents.tag[row]
            positions[path[length]] |= position_bit(length)
            above = nodes[length - 1]
            node = int(memo.slots[_node_slot(memo.slots, memo.parent, memo.tag, above, path[length])])
            if node > 0:
                hits += 1
            else:
                node = _add_node(memo, access, tables, above, path, length, positions, evidence)
            if node < 0:
                _clear(memo)
                evidence[MEMO_RESETS] += 1
                for above in range(1, length + 1):
                    # The lists of shorter paths are made with the bits of the longer one masked by their length.
                    nodes[above] = _add_node(memo, access, tables, nodes[above - 1], path, above, positions, evidence)
                    memo.visited[nodes[above]] = now
                node = nodes[length]
                memo.visited[node] = -1
            nodes[length] = node
            if memo.visited[node] != now:
                memo.visited[node] = now
                begin, end = memo.list_start[node], memo.list_start[node + 1]
                out = with_room(out, used, end - begin)
                for k in range(begin, end):
                    out[used] = memo.lists[k]
                    used += 1
        while length > 0:
            positions[path[length]] &= ~position_bit(length)
            length -= 1
        result[document + 1] = used
    evidence[STEPS] += len(documents.tag) - count
    evidence[MEMO_HITS] += hits
    return result, out[:used]
