"""The loops of Brute Force, Count, Key and Tree, for a batch of events each.

Terms, blocks of events and the lists of Key are those of `tocsin.conjunctions.key.kernels`, whose functions are used.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int8s, Int32s, Int64s
from tocsin.conjunctions.kernels import mix_hash
from tocsin.conjunctions.key.kernels import (
    BIT_NUMBERS,
    BLOCK,
    Lists,
    Matched,
    count_bits,
    doubled32,
    enter_block,
    leave_block,
    match_block,
)


@kernel
def match_brute_force(
    held_offsets: Int64s, held: Int32s, ids: Int32s, offsets: Int64s, terms: Int32s, occurs: Int8s
) -> tuple[Int64s, Int32s]:
    """Probe the occurrence table for each term of each conjunction, failing at the first that is wrong."""
    events = len(held_offsets) - 1
    found_offsets = np.zeros(events + 1, np.int64)
    found = np.empty(64, np.int32)
    filled = 0
    for event in range(events):
        for i in range(held_offsets[event], held_offsets[event + 1]):
            if held[i] < len(occurs):
                occurs[held[i]] = 1
        # Room is made outside the inner loop: an array that may be replaced within it cannot stay in registers
        # (500,000 profiles: 2.99 ms a document before, 2.06 ms after).
        for chunk in range(0, len(ids), 1024):
            while filled + 1024 > len(found):
                found = doubled32(found)
            for c in range(chunk, min(chunk + 1024, len(ids))):
                holds = 1
                for i in range(offsets[c], offsets[c + 1]):
                    t = terms[i]
                    if (occurs[t] if t >= 0 else 1 - occurs[~t]) == 0:
                        holds = 0
                        break
                found[filled] = ids[c]
                filled += holds
        for i in range(held_offsets[event], held_offsets[event + 1]):
            if held[i] < len(occurs):
                occurs[held[i]] = 0
        found_offsets[event + 1] = filled
    return found_offsets, found[:filled].copy()


@kernel
def invert(offsets: Int64s, terms: Int32s, predicates: int, forbidden: bool) -> tuple[Int64s, Int32s]:
    """Return the slices that have each predicate as a required (or else as a forbidden) term: the profile directory."""
    starts = np.zeros(predicates + 1, np.int64)
    for t in terms:
        if (t < 0) == forbidden:
            starts[(~t if forbidden else t) + 1] += 1
    for p in range(predicates):
        starts[p + 1] += starts[p]
    at = starts[:-1].copy()
    postings = np.empty(starts[-1], np.int32)
    for c in range(len(offsets) - 1):
        for i in range(offsets[c], offsets[c + 1]):
            t = terms[i]
            if (t < 0) == forbidden:
                p = ~t if forbidden else t
                postings[at[p]] = c
                at[p] += 1
    return starts, postings


class Directory(NamedTuple):
    """Count's arrays: the conjunctions under each required and each forbidden predicate, and TOTAL.

    `free` are the conjunctions whose TOTAL is 0.
    """

    starts: Int64s
    postings: Int32s
    forbidden_starts: Int64s
    forbidden_postings: Int32s
    total: Int32s
    free: Int32s


@kernel
def match_count(
    held_offsets: Int64s,
    held: Int32s,
    directory: Directory,
    ids: Int32s,
    found_counts: Int64s,
    epoch: int,
) -> tuple[Int64s, Int32s, int]:
    """Count the required terms that hold, per conjunction, and report it when its count reaches TOTAL.

    An entry of FOUND is (number of the event) << 32 | count; an entry of an older event counts as 0. A forbidden term
    that holds sets the count so high that it never equals TOTAL.
    """
    events = len(held_offsets) - 1
    starts, postings, forbidden_starts, forbidden_postings, total, free = directory
    predicates = len(starts) - 1
    ruled_out = 1 << 31
    found_offsets = np.zeros(events + 1, np.int64)
    found = np.empty(64, np.int32)
    filled = 0
    candidates = 0
    for event in range(events):
        now = (epoch + event) << 32
        if len(forbidden_postings):
            for i in range(held_offsets[event], held_offsets[event + 1]):
                p = held[i]
                if p < predicates:
                    for j in range(forbidden_starts[p], forbidden_starts[p + 1]):
                        found_counts[forbidden_postings[j]] = now | ruled_out
        for i in range(held_offsets[event], held_offsets[event + 1]):
            p = held[i]
            if p >= predicates:
                continue
            while filled + starts[p + 1] - starts[p] > len(found):
                found = doubled32(found)
            for j in range(starts[p], starts[p + 1]):
                c = postings[j]
                count = found_counts[c]
                if count < now:
                    count = now
                    candidates += 1
                count += 1
                found_counts[c] = count
                if count - now == total[c]:
                    found[filled] = ids[c]
                    filled += 1
        candidates += len(free)
        while filled + len(free) > len(found):
            found = doubled32(found)
        for c in free:
            if found_counts[c] < now:
                found[filled] = ids[c]
                filled += 1
        found_offsets[event + 1] = filled
    return found_offsets, found[:filled].copy(), candidates


@kernel
def spread(
    conjunctions: Int32s, masks: Int64s, count: int, first: int, last: int, offsets: Int64s, found: Int32s
) -> Int32s:
    """Append the pairs (conjunction, events) of a block to the CSR (offsets, found), event by event."""
    here = offsets[first]
    for event in range(first, last):
        offsets[event + 1] = 0
    for i in range(count):
        m = masks[i]
        while m:
            low = m & -m
            offsets[first + 1 + BIT_NUMBERS[low % 67]] += 1
            m ^= low
    at = np.empty(last - first, np.int64)
    for event in range(first, last):
        at[event - first] = here
        here += offsets[event + 1]
        offsets[event + 1] = here
    while here > len(found):
        found = doubled32(found)
    if last == first + 1:
        found[offsets[first] : here] = conjunctions[:count]
        return found
    for i in range(count):
        m = masks[i]
        while m:
            low = m & -m
            event = BIT_NUMBERS[low % 67]
            found[at[event]] = conjunctions[i]
            at[event] += 1
            m ^= low
    return found


@kernel
def match_keys_by_event(held_offsets: Int64s, held: Int32s, lists: Lists, masks: Int64s) -> tuple[Int64s, Int32s, int]:
    """Match blocks of events; return a CSR of the conjunctions of each event, and how many were looked at."""
    events = len(held_offsets) - 1
    offsets = np.zeros(events + 1, np.int64)
    found = np.empty(64, np.int32)
    touched = np.empty(256, np.int32)
    matched = Matched(np.empty(256, np.int32), np.empty(256, np.int64), 0, 0)
    for first in range(0, events, BLOCK):
        last = min(first + BLOCK, events)
        touched, distinct = enter_block(held_offsets, held, first, last, masks, touched)
        matched = match_block(lists, touched, distinct, masks, matched)
        leave_block(touched, distinct, masks)
        found = spread(matched.conjunctions, matched.where, matched.filled, first, last, offsets, found)
    return offsets, found[: offsets[-1]].copy(), matched.candidates


@kernel
def group_slices(offsets: Int64s, terms: Int32s) -> tuple[Int32s, int]:
    """Number the distinct slices in order of first appearance: the number of each slice, and how many there are.

    An open-addressing table holds one slice of each group; slices with the same place in it are compared term by term.
    """
    slices = len(offsets) - 1
    size = 16
    while size < 2 * slices:
        size *= 2
    table = np.full(size, -1, np.int32)
    group = np.empty(slices, np.int32)
    groups = 0
    for c in range(slices):
        start, stop = offsets[c], offsets[c + 1]
        h = stop - start
        for i in range(start, stop):
            h = mix_hash(h, terms[i])
        place = h & (size - 1)
        while True:
            other = table[place]
            if other < 0:
                table[place] = c
                group[c] = groups
                groups += 1
                break
            same = offsets[other + 1] - offsets[other] == stop - start
            i = 0
            while same and i < stop - start:
                same = terms[offsets[other] + i] == terms[start + i]
                i += 1
            if same:
                group[c] = group[other]
                break
            place = (place + 1) & (size - 1)
    return group, groups


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
