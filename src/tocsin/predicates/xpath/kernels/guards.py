"""Paths with filters under access predicates: looked at where their last step may stand, if their guards hold.

A path is filed under the table of predicates on its last two tags, like the conjunctions of GPX-ap, and carries two
guards: predicates that it cannot do without, on attributes if it has any, equality first. Where both hold it is
followed along the path: with the places at which each tag stands and each filter holds, a step is one shift and an AND
for its tag and for each filter. That is exact, whatever repeats.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.predicates.xpath.kernels.filters import ATTRIBUTE, Tables
from tocsin.predicates.xpath.kernels.paths import first_step, follow, up_to
from tocsin.predicates.xpath.kernels.predicate_tables import LENGTH_FROM, Predicates, kind_of
from tocsin.predicates.xpath.kernels.tokens import Documents
from tocsin.predicates.xpath.kernels.walk import MOST_TABLES, Nodes, enter, leave, roomy

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Guarded(NamedTuple):
    """Paths by where they are filed: under the table that begins with predicate p, or p itself if on an attribute.

    These are members[p]:members[p + 1]. Under an attribute lie paths with a filter on a wildcard behind their last tag.
    A path holds only if its `guards` and `others` do; `found` is what it stands for. `lengths` and `long` are those of
    paths of wildcards without filters on attributes: the least length of a document's path, the shortest first.
    """

    members: Ints
    guards: Ints
    others: Ints
    paths: Ints
    found: Ints
    lengths: Ints
    long: Ints


@kernel
def choose_guards(
    structures: Ints,
    offsets: Ints,
    chosen: Ints,
    keys: Longs,
    bounds: Ints,
    ids: Ints,
    tables: Ints,
    access: Ints,
    filter_bounds: Ints,
    filter_steps: Ints,
    filter_ids: Ints,
    filter_ranks: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Where each path is filed, -1 for those that ask only for a length, and its two guards.

    Path i has the chosen structure with the predicates ids[bounds[i]:bounds[i + 1]], the access predicate among them at
    access[i], and filters on attributes from filter_bounds[i] on: the step of each, its predicate, and a rank that is
    lower the more it keeps out. `tables` says for each predicate on tags where its table begins.
    """
    filed = np.full(len(chosen), -1, dtype=np.int32)
    guards = np.full(len(chosen), -1, dtype=np.int32)
    others = np.full(len(chosen), -1, dtype=np.int32)
    for i in range(len(chosen)):
        start, stop = offsets[chosen[i]], offsets[chosen[i] + 1]
        last_tag = (stop - start) // 2 - 1
        while last_tag >= 0 and structures[start + 2 * last_tag] < 0:
            last_tag -= 1
        behind, best, second = -1, -1, -1
        for k in range(filter_bounds[i], filter_bounds[i + 1]):
            if best < 0 or filter_ranks[k] < filter_ranks[best]:
                best, second = k, best
            elif second < 0 or filter_ranks[k] < filter_ranks[second]:
                second = k
            if filter_steps[k] > last_tag and (behind < 0 or filter_steps[k] >= filter_steps[behind]):
                behind = k
        tagged = kind_of(keys[ids[bounds[i]]]) != LENGTH_FROM
        if not tagged and best < 0:
            continue
        own = ids[access[i]] if tagged else filter_ids[best]
        before = ids[max(access[i] - 1, bounds[i])] if tagged else own
        filed[i] = filter_ids[behind] if behind >= 0 else tables[own]
        guards[i] = filter_ids[best] if best >= 0 else own
        others[i] = filter_ids[second] if second >= 0 else before
    return filed, guards, others


@kernel
def _holds(
    structures: Ints,
    structure_offsets: Ints,
    paths: Ints,
    path_offsets: Ints,
    path: int,
    positions: Words,
    where: Words,
    length: int,
) -> bool:
    """Whether a path with filters holds; tags stand at `positions`, filters hold at `where`."""
    at, end = path_offsets[path] + 1, path_offsets[path + 1]
    start, stop = structure_offsets[paths[at - 1]], structure_offsets[paths[at - 1] + 1]
    whole = up_to(length)
    here = np.uint64(0)
    for step in range((stop - start) // 2):
        tag, gap = structures[start + 2 * step], structures[start + 2 * step + 1]
        here = (first_step(gap) if step == 0 else follow(here, gap)) & whole
        if tag >= 0:
            here &= positions[tag]
        while at < end and paths[at] == step:
            here &= where[paths[at + 1]]
            at += 2
        if here == 0:
            return False
    return True


@kernel
def match_guarded(
    documents: Documents,
    nodes: Nodes,
    guarded: Guarded,
    predicates: Predicates,
    conditions: Ints,
    tables: Tables,
    tags: int,
    evidence: Longs,
) -> tuple[Longs, Ints]:
    """What is found in each document, in any order, each once.

    `conditions` are the filters behind the predicates on attributes. Filters on anything else count as holding: what is
    found stands for a path that is yet to be evaluated then. evidence[2] counts the paths looked at, evidence[1] all
    steps taken.
    """
    keys, slots = predicates
    members, guards, others, paths, found, lengths, long = guarded
    steps, step_offsets, all_paths, path_offsets = (
        tables.structures,
        tables.structure_offsets,
        tables.paths,
        tables.path_offsets,
    )
    tag_of, level_of, heights = documents.tag, documents.level, nodes.heights
    attribute_offsets, attributes = nodes.attribute_offsets, nodes.attributes
    count = len(nodes.documents) - 1
    offsets = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    used = 0
    # The walk, as in `match_clusters`, and where on its path each filter holds.
    path = np.zeros(66, dtype=np.int32)
    positions = np.zeros(tags, dtype=np.uint64)
    held = np.zeros(len(members), dtype=np.uint8)
    stack = np.empty(1024, dtype=np.int32)
    stack_start = np.zeros(67, dtype=np.int64)
    opened = np.empty(MOST_TABLES, dtype=np.int32)
    where = np.zeros(len(tables.numbers), dtype=np.uint64)
    for condition in range(len(where)):
        if tables.filters[tables.filter_offsets[condition]] != ATTRIBUTE:
            where[condition] = ~np.uint64(0)
    hit = np.full(len(paths), -1, dtype=np.int32)
    looked = 0
    taken = 0
    for document in range(count):
        depth, level = 0, 0
        out = roomy(out, used, len(paths) + len(lengths))
        for i in range(nodes.documents[document], nodes.documents[document + 1] + 1):
            ends = i == nodes.documents[document + 1]
            row = int(nodes.rows[i]) if not ends else 0
            below = int(level_of[row]) if not ends else 1
            while level >= below:
                here = ~(np.uint64(1) << np.uint64(level - 1))
                for k in range(stack_start[level], stack_start[level + 1]):
                    if stack[k] >= len(keys):
                        where[conditions[stack[k] - len(keys)]] &= here
                leave(path, level, positions, held, stack, stack_start[level], stack_start[level + 1])
                level -= 1
            if ends:
                break
            level = below
            depth = max(depth, level)
            path[level] = tag_of[row]
            length = level + heights[i]
            top, count_opened = stack_start[level], 0
            stack = roomy(stack, top, 2 * len(held))
            if path[level] > 0:
                top, count_opened, tested = enter(
                    keys, slots, members, path, level, length, positions, stack, top, opened, 0
                )
                taken += tested
            on_tags = top
            here = np.uint64(1) << np.uint64(level - 1)
            for k in range(attribute_offsets[row], attribute_offsets[row + 1]):
                stack[top] = len(keys) + attributes[k]
                top += 1
                where[conditions[attributes[k]]] |= here
            for k in range(stack_start[level], top):
                held[stack[k]] += np.uint8(1)
            stack_start[level + 1] = top
            for t in range(count_opened + top - on_tags):
                access = opened[t] if t < count_opened else stack[on_tags + t - count_opened]
                looked += members[access + 1] - members[access]
                for k in range(np.uint64(members[access]), np.uint64(members[access + 1])):
                    if (held[guards[k]] != 0) & (held[others[k]] != 0) and hit[k] != document:
                        taken += 1
                        if _holds(steps, step_offsets, all_paths, path_offsets, paths[k], positions, where, length):
                            hit[k] = document
                            out[used] = found[k]
                            used += 1
        for k in range(len(lengths)):
            if lengths[k] > depth:
                break
            out[used] = long[k]
            used += 1
        offsets[document + 1] = used
    evidence[1] += taken + looked
    evidence[2] += looked
    return offsets, out[:used]
