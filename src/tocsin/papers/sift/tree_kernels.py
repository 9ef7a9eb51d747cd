"""The breadth-first search of the profile tree, for a block of events at a time."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.conjunctions.key.blocks import BLOCK, count_bits, enter_block, leave_block, spread

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class ProfileTree(NamedTuple):
    """Tree's arrays. Node 0 is the root; nodes are numbered level by level, siblings by term, forbidden terms first.

    Row n of `nodes` is: the first child of n, the place of its first conjunction in `members`, and that of its postfix
    in `postfixes`. They end where those of node n + 1 begin; the last row is only there for that. ``root_child[p]`` is
    the root's child with term p, or -1.
    """

    root_child: Int32s
    node_terms: Int32s
    nodes: Int64s
    postfixes: Int32s
    members: Int32s


@kernel
def match_tree(held_offsets: Int64s, held: Int32s, tree: ProfileTree, masks: Int64s) -> tuple[Int64s, Int32s, int]:
    """Queue the nodes whose prefix holds for some event; report the members of those whose postfix holds too.

    The children of the root with a forbidden term are always looked at, the others are found through `root_child`.
    """
    root_child, node_terms, nodes, postfixes, members = tree
    events = len(held_offsets) - 1
    offsets = np.zeros(events + 1, np.int64)
    found = np.empty(64, np.int32)
    touched = np.empty(256, np.int32)
    # As long as they could ever be; memory that is not written to costs nothing.
    conjunctions = np.empty(len(members), np.int32)
    where = np.empty(len(members), np.int64)
    queue = np.empty(len(nodes), np.int32)
    queue_masks = np.empty(len(nodes), np.int64)
    candidates = 0
    for first in range(0, events, BLOCK):
        last = min(first + BLOCK, events)
        touched, distinct = enter_block(held_offsets, held, first, last, masks, touched)
        everything = masks[len(masks) - 1]
        queue[0], queue_masks[0] = 0, everything
        tail = 1
        node = 1
        while node < nodes[1, 0] and node_terms[node] < 0:
            m = everything & ~masks[~node_terms[node]]
            if m != 0:
                queue[tail], queue_masks[tail] = node, m
                tail += 1
            node += 1
        for k in range(distinct):
            node = root_child[touched[k]]
            if node >= 0:
                queue[tail], queue_masks[tail] = node, masks[touched[k]]
                tail += 1
        head = 0
        count = 0
        while head < tail:
            node, m = queue[head], queue_masks[head]
            head += 1
            if node > 0:
                for child in range(nodes[node, 0], nodes[node + 1, 0]):
                    t = node_terms[child]
                    of_child = m & (masks[t] if t >= 0 else ~masks[~t])
                    queue[tail], queue_masks[tail] = child, of_child
                    tail += of_child != 0
            if nodes[node, 1] == nodes[node + 1, 1]:
                continue
            candidates += count_bits(m)
            for i in range(nodes[node, 2], nodes[node + 1, 2]):
                t = postfixes[i]
                m &= masks[t] if t >= 0 else ~masks[~t]
                if m == 0:
                    break
            if m != 0:
                for i in range(nodes[node, 1], nodes[node + 1, 1]):
                    conjunctions[count], where[count] = members[i], m
                    count += 1
        leave_block(touched, distinct, masks)
        found = spread(conjunctions, where, count, first, last, offsets, found)
    return offsets, found[: offsets[-1]].copy(), candidates
