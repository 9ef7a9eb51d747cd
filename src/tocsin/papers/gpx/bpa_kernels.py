"""BPA: predicates in the order of the steps, prefixes shared, the first predicate as access predicate.

After each predicate stands the set of occurrences that satisfy the chain so far; here, positions as bits of a word.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s
from tocsin.papers.gpx.publications import load_path, unload_path
from tocsin.predicates.xpath.kernels import CANDIDATES, STEPS
from tocsin.predicates.xpath.kernels.paths import first_step, follow, up_to
from tocsin.predicates.xpath.kernels.tokens import Documents


class Chains(NamedTuple):
    """A tree of predicates: node 0 is empty, children of a node are neighbours, from `child_start` on.

    `first_of_tag[tag + 1]` is where the children of node 0 with that tag begin among `roots`; tag -1 is any.
    """

    tag: Int32s
    gap: Int32s
    child_offsets: Int32s
    children: Int32s
    first_of_tag: Int32s
    accept_offsets: Int32s
    accepts: Int32s


@kernel
def build_chains(structures: Int32s, offsets: Int32s, chosen: Int32s) -> tuple[Int32s, Int32s, Int32s, Int32s]:
    """Enter the chosen structures; returns tag, gap and parent of each node, and the node of each structure."""
    limit = 1
    for structure in chosen:
        limit += (offsets[structure + 1] - offsets[structure]) // 2
    size = 4
    while size < 2 * limit:
        size *= 2
    slots = np.full(size, -1, dtype=np.int32)
    tag = np.full(limit, -1, dtype=np.int32)
    gap = np.zeros(limit, dtype=np.int32)
    parent = np.full(limit, -1, dtype=np.int32)
    final = np.empty(len(chosen), dtype=np.int32)
    nodes = 1
    for i in range(len(chosen)):
        node = 0
        for at in range(offsets[chosen[i]], offsets[chosen[i] + 1], 2):
            t, g = structures[at], structures[at + 1]
            slot = (int(node) * 40503 + int(t) * 2654435 + int(g) * 97) & (size - 1)
            while slots[slot] >= 0:
                known = slots[slot]
                if parent[known] == node and tag[known] == t and gap[known] == g:
                    break
                slot = (slot + 1) & (size - 1)
            if slots[slot] < 0:
                slots[slot] = nodes
                tag[nodes], gap[nodes], parent[nodes] = t, g, node
                nodes += 1
            node = slots[slot]
        final[i] = node
    return tag[:nodes].copy(), gap[:nodes].copy(), parent[:nodes].copy(), final


@kernel
def run_chains(
    documents: Documents,
    path_offsets: Int64s,
    rows: Int32s,
    chains: Chains,
    structure_count: int,
    tags: int,
    evidence: Int64s,
) -> tuple[Int64s, Int32s]:
    """The structures that match each document.

    Candidates are the predicates tested; steps are these and the tags of paths.
    """
    count = len(path_offsets) - 1
    offsets = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    used = 0
    tested = 0
    loaded = 0
    accepted = np.full(len(chains.tag), -1, dtype=np.int32)
    positions = np.zeros(tags, dtype=np.uint64)
    present = np.empty(64, dtype=np.int32)
    waiting = np.empty(len(chains.tag) + 1, dtype=np.int32)
    reached = np.empty(len(chains.tag) + 1, dtype=np.uint64)
    for document in range(count):
        if used + structure_count > len(out):
            larger = np.empty(2 * len(out) + structure_count, dtype=np.int32)
            larger[:used] = out[:used]
            out = larger
        for path in range(path_offsets[document], path_offsets[document + 1]):
            whole = up_to(documents.level[rows[path]])
            found = load_path(documents, rows[path], positions, present)
            loaded += found
            for access in range(-1, found):
                tag = -1 if access < 0 else present[access]
                begin, end = chains.first_of_tag[tag + 1], chains.first_of_tag[tag + 2]
                depth = 0
                for i in range(begin, end):
                    node = chains.children[i]
                    tested += 1
                    here = first_step(chains.gap[node]) & (whole if tag < 0 else positions[tag])
                    if here != 0:
                        waiting[depth] = node
                        reached[depth] = here
                        depth += 1
                while depth > 0:
                    depth -= 1
                    node, here = waiting[depth], reached[depth]
                    if accepted[node] != document:
                        accepted[node] = document
                        for k in range(chains.accept_offsets[node], chains.accept_offsets[node + 1]):
                            out[used] = chains.accepts[k]
                            used += 1
                    for i in range(chains.child_offsets[node], chains.child_offsets[node + 1]):
                        child = chains.children[i]
                        tested += 1
                        next_tag = chains.tag[child]
                        there = follow(here, chains.gap[child]) & (whole if next_tag < 0 else positions[next_tag])
                        if there != 0:
                            waiting[depth] = child
                            reached[depth] = there
                            depth += 1
            unload_path(positions, present, found)
        offsets[document + 1] = used
    evidence[STEPS] += tested + loaded
    evidence[CANDIDATES] += tested
    return offsets, out[:used]
