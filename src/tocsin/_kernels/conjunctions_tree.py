"""The breadth-first search of the profile tree, for a block of events at a time."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.conjunctions import BLOCK, count_bits, doubled32, doubled64, enter_block, leave_block, spread

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class ProfileTree(NamedTuple):
    """Tree's arrays. Node 0 is the root; nodes are numbered level by level, siblings by term, forbidden terms first.

    The children of node n are ``first_child[n]`` up to ``first_child[n + 1]``; ``root_child[p]`` is the root's child
    with term p or -1. The postfix of n is a slice of `ordered`, and its conjunctions are a slice of `members`.
    """

    root_child: Int32s
    node_terms: Int32s
    first_child: Int64s
    postfix_start: Int64s
    postfix_stop: Int64s
    ordered: Int32s
    member_offsets: Int64s
    members: Int32s


@kernel
def match_tree(
    held_offsets: Int64s,
    held: Int32s,
    tree: ProfileTree,
    masks: Int64s,
) -> tuple[Int64s, Int32s, int]:
    """Queue the nodes whose prefix holds for some event; report the members of those whose postfix holds too.

    The children of the root with a forbidden term are always looked at, the others are found through `root_child`.
    """
    root_child, node_terms, first_child, postfix_start, postfix_stop, ordered, member_offsets, members = tree
    free_children = 0
    while 1 + free_children < first_child[1] and node_terms[1 + free_children] < 0:
        free_children += 1
    events = len(held_offsets) - 1
    offsets = np.zeros(events + 1, np.int64)
    found = np.empty(64, np.int32)
    touched = np.empty(256, np.int32)
    conjunctions = np.empty(256, np.int32)
    where = np.empty(256, np.int64)
    queue = np.empty(256, np.int32)
    queue_masks = np.empty(256, np.int64)
    candidates = 0
    for first in range(0, events, BLOCK):
        last = min(first + BLOCK, events)
        touched, distinct = enter_block(held_offsets, held, first, last, masks, touched)
        while distinct + free_children + 1 > len(queue):
            queue, queue_masks = doubled32(queue), doubled64(queue_masks)
        everything = masks[len(masks) - 1]
        queue[0], queue_masks[0] = 0, everything
        tail = 1
        for node in range(1, 1 + free_children):
            m = everything & ~masks[~node_terms[node]]
            if m != 0:
                queue[tail], queue_masks[tail] = node, m
                tail += 1
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
                children = first_child[node + 1] - first_child[node]
                while tail + children > len(queue):
                    queue, queue_masks = doubled32(queue), doubled64(queue_masks)
                for child in range(first_child[node], first_child[node + 1]):
                    t = node_terms[child]
                    of_child = m & (masks[t] if t >= 0 else ~masks[~t])
                    if of_child != 0:
                        queue[tail], queue_masks[tail] = child, of_child
                        tail += 1
            if member_offsets[node] == member_offsets[node + 1]:
                continue
            candidates += count_bits(m)
            for i in range(postfix_start[node], postfix_stop[node]):
                t = ordered[i]
                m &= masks[t] if t >= 0 else ~masks[~t]
                if m == 0:
                    break
            if m != 0:
                for i in range(member_offsets[node], member_offsets[node + 1]):
                    if count == len(conjunctions):
                        conjunctions, where = doubled32(conjunctions), doubled64(where)
                    conjunctions[count], where[count] = members[i], m
                    count += 1
        leave_block(touched, distinct, masks)
        found = spread(conjunctions, where, count, first, last, offsets, found)
    return offsets, found[: offsets[-1]].copy(), candidates
