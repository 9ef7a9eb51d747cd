"""Paths with filters under access predicates: looked at where their last step may stand, if their guards hold.

The distinct paths of a document are a tree. A walk goes down it: each node adds the predicates that its tag and its
attributes make true, and on the way up they are taken back.

A path with filters is filed under the table of predicates on its last two tags, like the conjunctions of GPX-ap, and
carries two guards: predicates that it cannot do without, on attributes if it has any, equality first. Where both hold
it is followed along the path: with the positions at which each tag stands and each filter holds, a step is one shift
and an AND for its tag and for each filter. That is exact even where tags repeat.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel, lowest_bit
from tocsin.arrays import Int32s, Int64s, UInt8s, UInt64s
from tocsin.predicates.xpath.kernels import CANDIDATES, STEPS
from tocsin.predicates.xpath.kernels.filters import CatalogTables
from tocsin.predicates.xpath.kernels.hashing import with_room
from tocsin.predicates.xpath.kernels.paths import LEVELS, first_step, follow, position_bit, up_to
from tocsin.predicates.xpath.kernels.predicate_tables import (
    LENGTH_FROM,
    TagPredicates,
    find_table,
    judge_table,
    kind_of,
)
from tocsin.predicates.xpath.kernels.tokens import Documents

EQUALITY = 0
"""The rank of filters that compare for equality, the lowest."""
MOST_OPEN = LEVELS * LEVELS
"""A level opens at most a table for each tag above it, and one for its tag alone."""


class PathTree(NamedTuple):
    """The distinct paths of documents, as `distinct_nodes` returns them, and what holds on the attributes of each row.

    These are the predicates attributes[attribute_offsets[row]:attribute_offsets[row + 1]], numbered behind those on
    tags; both arrays are empty if there are none at all.
    """

    documents: Int64s
    rows: Int32s
    heights: Int32s
    attribute_offsets: Int64s
    attributes: Int32s


class TagConjunctions(NamedTuple):
    """Structures as conjunctions: the i-th has the predicates ids[offsets[i]:offsets[i + 1]], in step order."""

    predicates: TagPredicates
    offsets: Int32s
    ids: Int32s


class AttributeFilters(NamedTuple):
    """The filters on attributes of paths: path i has those from offsets[i] to offsets[i + 1].

    Each has a step, a predicate on attributes, and a rank that is lower the fewer elements it lets through.
    """

    offsets: Int32s
    steps: Int32s
    ids: Int32s
    ranks: Int32s


class GuardSpace(NamedTuple):
    """Work space of `match_guarded`, which leaves it as it finds it, so that a document costs nothing for its size.

    `positions` is where each tag stands on the path at hand, `held` how often each predicate holds there, `where` the
    positions at which each filter holds. `found_in` is the number of the document that a path was last found in, and
    `clock` that of the last document.
    """

    positions: UInt64s
    held: UInt8s
    where: UInt64s
    found_in: Int64s
    clock: Int64s


class GuardedPaths(NamedTuple):
    """Paths by where they are filed: under the table that begins with predicate p, or p itself if on an attribute.

    These are members[p]:members[p + 1]. Under an attribute lie paths with an equality on their last tag, or with a
    filter on a wildcard behind it.
    A path holds only if its `guards` and `others` do; `found` is what it stands for. Paths of wildcards without filters
    on attributes ask for the length of a document's longest path only: `lengths` are the least, in order, and `long`
    is what they stand for.
    """

    members: Int32s
    guards: Int32s
    others: Int32s
    paths: Int32s
    found: Int32s
    lengths: Int32s
    long: Int32s


@kernel
def choose_guards(
    tables: CatalogTables,
    chosen: Int32s,
    conjunctions: TagConjunctions,
    table_of: Int32s,
    access: Int32s,
    filters: AttributeFilters,
    first_attribute: int,
) -> tuple[Int32s, Int32s, Int32s]:
    """Return where each path is filed, -1 for those that ask only for a length, and its two guards.

    Path i has the structure chosen[i], which is the i-th of the `conjunctions`, with its access predicate at access[i]
    among their ids. `table_of` says for each predicate on tags where its table begins; predicates on attributes are
    numbered from `first_attribute` on.
    """
    keys, ids, bounds = conjunctions.predicates.keys, conjunctions.ids, conjunctions.offsets
    structures, offsets = tables.structures, tables.structure_offsets
    filed = np.full(len(chosen), -1, dtype=np.int32)
    guards = np.full(len(chosen), -1, dtype=np.int32)
    others = np.full(len(chosen), -1, dtype=np.int32)
    for i in range(len(chosen)):
        start, stop = offsets[chosen[i]], offsets[chosen[i] + 1]
        last_tag = (stop - start) // 2 - 1
        while last_tag >= 0 and structures[start + 2 * last_tag] < 0:
            last_tag -= 1
        behind, best, second = -1, -1, -1
        for k in range(filters.offsets[i], filters.offsets[i + 1]):
            if best < 0 or filters.ranks[k] < filters.ranks[best]:
                best, second = k, best
            elif second < 0 or filters.ranks[k] < filters.ranks[second]:
                second = k
            if filters.steps[k] > last_tag or (filters.steps[k] == last_tag and filters.ranks[k] == EQUALITY):
                later = behind < 0 or filters.steps[k] > filters.steps[behind]
                if later or filters.ranks[k] < filters.ranks[behind]:
                    behind = k
        tagged = kind_of(keys[ids[bounds[i]]]) != LENGTH_FROM
        if not tagged and best < 0:
            continue
        own = ids[access[i]] if tagged else first_attribute + filters.ids[best]
        before = ids[max(access[i] - 1, bounds[i])] if tagged else own
        filed[i] = first_attribute + filters.ids[behind] if behind >= 0 else table_of[own]
        guards[i] = first_attribute + filters.ids[best] if best >= 0 else own
        others[i] = first_attribute + filters.ids[second] if second >= 0 else before
    return filed, guards, others


@kernel
def enter(
    keys: Int64s,
    slots: Int32s,
    filed: Int32s,
    path: Int32s,
    level: int,
    length: int,
    positions: UInt64s,
    stack: Int32s,
    top: int,
    opened: Int32s,
    tables: int,
) -> tuple[int, int, int]:
    """Write the predicates that the tag path[level] makes true on a path of that `length` to the stack from `top` on.

    Tables under which anything is `filed` are written to `opened` from `tables` on. positions[tag] is where a tag
    stands. Returns the places behind both, and how many tables and predicates were tested.
    """
    tag = path[level]
    positions[tag] |= position_bit(level)
    tested = 0
    for above in range(level):
        # The tag alone, then with each tag above it, once for those that repeat.
        other = path[above]
        if above > 0 and (other == 0 or lowest_bit(positions[other]) != above - 1):
            continue
        first = int(other) if above > 0 else int(tag)
        table = find_table(keys, slots, first, int(tag) if above > 0 else 0)
        tested += 1
        if table >= 0:
            top, end = judge_table(keys, table, positions[first], positions[tag], length, stack, top)
            tested += end - table
            if filed[table] < filed[table + 1]:
                opened[tables] = table
                tables += 1
    return top, tables, tested


@kernel
def leave(path: Int32s, level: int, positions: UInt64s, held: UInt8s, stack: Int32s, begin: int, end: int) -> int:
    """Take back the predicates stack[begin:end] of a level and its tag; return 1 if the tag stands above as well."""
    for k in range(begin, end):
        held[stack[k]] -= np.uint8(1)
    tag = path[level]
    if tag == 0:
        return 0
    positions[tag] &= ~position_bit(level)
    return int(positions[tag] != 0)


@kernel
def _holds(
    structures: Int32s,
    structure_offsets: Int32s,
    paths: Int32s,
    path_offsets: Int32s,
    path: int,
    positions: UInt64s,
    where: UInt64s,
    length: int,
) -> bool:
    """Tell whether a path with filters holds; tags stand at `positions`, filters hold at `where`."""
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
    tree: PathTree,
    guarded: GuardedPaths,
    predicates: TagPredicates,
    conditions: Int32s,
    tables: CatalogTables,
    space: GuardSpace,
    evidence: Int64s,
) -> tuple[Int64s, Int32s]:
    """Return what is found in each document, in any order, each once.

    `conditions` are the filters behind the predicates on attributes. Filters on anything else count as holding: what is
    found then stands for a path that is yet to be evaluated.
    """
    keys, slots = predicates
    members, guards, others, paths, found, lengths, long = guarded
    steps, step_offsets = tables.structures, tables.structure_offsets
    all_paths, path_offsets = tables.paths, tables.path_offsets
    tag_of, level_of, heights = documents.tag, documents.level, tree.heights
    attribute_offsets, attributes = tree.attribute_offsets, tree.attributes
    count = len(tree.documents) - 1
    offsets = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    used = 0
    # On the path at hand: its tags, which predicates came with each level, and the tables opened by the last one.
    path = np.zeros(LEVELS, dtype=np.int32)
    positions, held, where, found_in, clock = space
    stack = np.empty(1024, dtype=np.int32)
    stack_start = np.zeros(LEVELS + 1, dtype=np.int64)
    opened = np.empty(MOST_OPEN, dtype=np.int32)
    looked = 0
    taken = 0
    for document in range(count):
        depth, level = 0, 0
        clock[0] += 1
        now = clock[0]
        out = with_room(out, used, len(paths) + len(lengths))
        for i in range(tree.documents[document], tree.documents[document + 1] + 1):
            ends = i == tree.documents[document + 1]
            row = int(tree.rows[i]) if not ends else 0
            below = int(level_of[row]) if not ends else 1
            while level >= below:
                here = ~position_bit(level)
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
            stack = with_room(stack, top, 2 * len(held))
            if path[level] > 0:
                top, count_opened, tested = enter(
                    keys, slots, members, path, level, length, positions, stack, top, opened, 0
                )
                taken += tested
            on_tags = top
            here = position_bit(level)
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
                    if (held[guards[k]] != 0) & (held[others[k]] != 0) and found_in[k] != now:
                        taken += 1
                        if _holds(steps, step_offsets, all_paths, path_offsets, paths[k], positions, where, length):
                            found_in[k] = now
                            out[used] = found[k]
                            used += 1
        for k in range(len(lengths)):
            if lengths[k] > depth:
                break
            out[used] = long[k]
            used += 1
        offsets[document + 1] = used
    evidence[STEPS] += taken + looked
    evidence[CANDIDATES] += looked
    return offsets, out[:used]
