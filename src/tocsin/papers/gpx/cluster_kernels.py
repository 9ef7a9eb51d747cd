"""Phase 2 of GPX-Matcher under access predicates: clusters of conjunctions, each conjunction one word.

The conjunctions whose access predicates are on the same pair of tags are a cluster, cut into blocks of at most 64
conjunctions with at most 64 distinct predicates. Within a block a predicate is a bit and a conjunction the word of its
bits. If any access predicate of the cluster holds on a path, each block reads once which of its predicates do; a
conjunction is then one AND away, and those that hold are the bits of one word.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import count_bits, kernel, lowest_bit
from tocsin.arrays import Bools, Int32s, Int64s, UInt8s, UInt64s
from tocsin.papers.gpx.counting_kernels import Conjunctions, write_long
from tocsin.papers.gpx.publications import repeats
from tocsin.predicates.xpath.kernels import CANDIDATES, STEPS
from tocsin.predicates.xpath.kernels.guards import MOST_OPEN, PathTree, enter, leave
from tocsin.predicates.xpath.kernels.hashing import with_room
from tocsin.predicates.xpath.kernels.paths import LEVELS, structure_ends
from tocsin.predicates.xpath.kernels.predicate_tables import TagPredicates
from tocsin.predicates.xpath.kernels.tokens import Documents


class Clusters(NamedTuple):
    """Conjunctions by the table of predicates that their access predicate is in.

    The blocks of the table that begins with predicate p are blocks[p]:blocks[p + 1]. Block b has the conjunctions
    members[b]:members[b + 1] and the predicates bits[first_bit[b]:first_bit[b + 1]]. `words` are the conjunctions. A
    conjunction of more than 64 predicates has a block of its own with the first of them, and is always followed: `cut`.
    shared[p] is the tag that predicate p shares with others of its conjunction before it, 0 if it comes first.
    """

    blocks: Int32s
    members: Int32s
    first_bit: Int32s
    bits: Int32s
    cut: Bools
    words: UInt64s
    shared: Int32s


@kernel
def build_clusters(
    offsets: Int32s, predicates: Int32s, tables: Int32s, size: int
) -> tuple[Int32s, Int32s, Int32s, Int32s, Bools, UInt64s]:
    """The arrays of `Clusters`, but for the last, of conjunctions in the order of `tables`, where they are filed.

    Conjunction i has predicates[offsets[i]:offsets[i + 1]]; predicates are numbered up to `size`.
    """
    count = len(tables)
    blocks = np.zeros(size + 1, dtype=np.int32)
    members = np.empty(count + 1, dtype=np.int32)
    first_bit = np.empty(count + 1, dtype=np.int32)
    bits = np.empty(len(predicates) + 1, dtype=np.int32)
    cut = np.zeros(count, dtype=np.bool_)
    words = np.zeros(count, dtype=np.uint64)
    bit_of = np.zeros(size, dtype=np.int32)
    in_block = np.full(size, -1, dtype=np.int32)
    block = -1
    used = 0
    for i in range(count):
        fresh = i == 0 or tables[i] != tables[i - 1] or cut[block] or i - members[block] == 64
        more = 0
        if not fresh:
            for at in range(offsets[i], offsets[i + 1]):
                more += int(in_block[predicates[at]] != block)
            fresh = used - first_bit[block] + more > 64
        if fresh:
            block += 1
            members[block] = i
            first_bit[block] = used
            blocks[tables[i] + 1] += 1
        for at in range(offsets[i], offsets[i + 1]):
            predicate = predicates[at]
            if in_block[predicate] != block:
                if used - first_bit[block] == 64:
                    cut[block] = True
                    break
                in_block[predicate] = block
                bit_of[predicate] = used - first_bit[block]
                bits[used] = predicate
                used += 1
            words[i] |= np.uint64(1) << np.uint64(bit_of[predicate])
    members[block + 1] = count
    first_bit[block + 1] = used
    for predicate in range(size):
        blocks[predicate + 1] += blocks[predicate]
    return (
        blocks,
        members[: block + 2].copy(),
        first_bit[: block + 2].copy(),
        bits[:used].copy(),
        cut[: block + 1].copy(),
        words,
    )


@kernel
def _holding(held: UInt8s, bits: Int32s, begin: np.uint64, end: np.uint64) -> np.uint64:
    """Which of bits[begin:end] hold, the first one as the lowest bit."""
    present = np.uint64(0)
    for k in range(begin, end):
        present |= np.uint64(held[bits[k]] != 0) << (k - begin)
    return present


@kernel
def _without(words: UInt64s, begin: np.uint64, end: np.uint64, missing: np.uint64) -> np.uint64:
    """Which of words[begin:end] have no bit that is missing, the first one as the lowest bit."""
    found = np.uint64(0)
    for k in range(begin, end):
        found |= np.uint64(words[k] & missing == np.uint64(0)) << (k - begin)
    return found


@kernel
def _loose(shared: Int32s, bits: Int32s, begin: np.uint64, end: np.uint64, positions: UInt64s) -> np.uint64:
    """Which of bits[begin:end] share a tag that the path repeats, so that they may hold on another occurrence of it."""
    loose = np.uint64(0)
    for k in range(begin, end):
        loose |= np.uint64(repeats(positions[shared[bits[k]]])) << (k - begin)
    return loose


@kernel
def _write_bits(bits: np.uint64, values: Int32s, base: int, out: Int32s, used: int) -> int:
    """Write the value of each bit set, the lowest one's being values[base]; returns the place behind the last one."""
    while bits != 0:
        out[used] = values[base + lowest_bit(bits)]
        used += 1
        bits &= bits - np.uint64(1)
    return used


@kernel
def match_clusters(
    documents: Documents,
    nodes: PathTree,
    conjunctions: Conjunctions,
    steps: Int32s,
    step_offsets: Int32s,
    clusters: Clusters,
    predicates: TagPredicates,
    tags: int,
    last: bool,
    evidence: Int64s,
) -> tuple[Int64s, Int32s]:
    """What is found in each document, a conjunction being looked at only where its access predicate may hold.

    The walk down the tree of a document's paths adds at each node the predicates that its tag makes true, and takes
    them back on the way up. With `last`, access predicates are those of the last tag, so that a conjunction is decided
    at the node where its last tag stands; else at the leaves below. Candidates are the conjunctions looked at.
    """
    keys, slots = predicates
    blocks, members, first_bit, bits, cut, words, shared = clusters
    tag_of, level_of = documents.tag, documents.level
    attribute_offsets, attributes = nodes.attribute_offsets, nodes.attributes
    sure, followed, structure_of = conjunctions.sure, conjunctions.followed, conjunctions.structures
    count = len(nodes.documents) - 1
    offsets = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    used = 0
    # On the path at hand: its tags, where each stands, how often each predicate holds, which ones and which tables that
    # have blocks came with each level.
    path = np.zeros(LEVELS, dtype=np.int32)
    positions = np.zeros(tags, dtype=np.uint64)
    held = np.zeros(len(shared), dtype=np.uint8)
    stack = np.empty(1024, dtype=np.int32)
    stack_start = np.zeros(LEVELS + 1, dtype=np.int64)
    opened = np.empty(MOST_OPEN, dtype=np.int32)
    opened_start = np.zeros(LEVELS + 1, dtype=np.int64)
    # In the document at hand, for each block: what is found, for sure or by following; and what held when it was last
    # looked at, for where no more does there is nothing new to find.
    hits = np.zeros(len(cut), dtype=np.uint64)
    doubts = np.zeros(len(cut), dtype=np.uint64)
    seen = np.zeros(len(cut), dtype=np.uint64)
    is_touched = np.zeros(len(cut), dtype=np.bool_)
    touched = np.empty(len(cut), dtype=np.int32)
    one = np.uint64(1)
    looked = 0
    taken = 0
    for document in range(count):
        depth, level, repeated, touches = 0, 0, 0, 0
        for i in range(nodes.documents[document], nodes.documents[document + 1] + 1):
            ends = i == nodes.documents[document + 1]
            row = int(nodes.rows[i]) if not ends else 0
            below = int(level_of[row]) if not ends else 1
            while level >= below:
                repeated -= leave(path, level, positions, held, stack, stack_start[level], stack_start[level + 1])
                level -= 1
            if ends:
                break
            level = below
            depth = max(depth, level)
            tag = tag_of[row]
            path[level] = tag
            top, tables = stack_start[level], opened_start[level]
            stack = with_room(stack, top, 2 * len(held))
            if tag > 0:
                repeated += int(positions[tag] != 0)
                length = level + nodes.heights[i]
                top, tables, tested = enter(
                    keys, slots, blocks, path, level, length, positions, stack, top, opened, tables
                )
                taken += tested
            if len(attributes) > 0:
                for k in range(attribute_offsets[row], attribute_offsets[row + 1]):
                    stack[top] = len(keys) + attributes[k]
                    top += 1
            for k in range(stack_start[level], top):
                held[stack[k]] += np.uint8(1)
            stack_start[level + 1] = top
            opened_start[level + 1] = tables
            if not last and nodes.heights[i] > 0:
                continue
            for t in range(opened_start[level] if last else 0, tables):
                for block in range(blocks[opened[t]], blocks[opened[t] + 1]):
                    begin, stop = np.uint64(first_bit[block]), np.uint64(first_bit[block + 1])
                    taken += first_bit[block + 1] - first_bit[block]
                    present = _holding(held, bits, begin, stop)
                    if repeated == 0 and present & ~seen[block] == 0:
                        continue
                    if not is_touched[block]:
                        is_touched[block] = True
                        touched[touches] = block
                        touches += 1
                    base = np.uint64(members[block])
                    looked += members[block + 1] - members[block]
                    found = _without(words, base, np.uint64(members[block + 1]), ~present)
                    if repeated == 0:
                        seen[block] = present
                        if not cut[block]:
                            hits[block] |= found
                            continue
                    found &= ~(hits[block] | doubts[block])
                    loose = ~np.uint64(0) if cut[block] else _loose(shared, bits, begin, stop, positions)
                    while found != 0:
                        place = np.uint64(lowest_bit(found))
                        found &= found - one
                        if words[base + place] & loose == 0:
                            hits[block] |= one << place
                            continue
                        structure = structure_of[base + place]
                        start, end = step_offsets[structure], step_offsets[structure + 1]
                        taken += (end - start) // 2
                        if structure_ends(steps, start, end, positions, level + nodes.heights[i]) != 0:
                            doubts[block] |= one << place
        more = len(conjunctions.lengths)
        for k in range(touches):
            more += count_bits(hits[touched[k]] | doubts[touched[k]])
        out = with_room(out, used, more)
        for k in range(touches):
            block = touched[k]
            used = _write_bits(hits[block], sure, members[block], out, used)
            used = _write_bits(doubts[block] & ~hits[block], followed, members[block], out, used)
            hits[block], doubts[block], seen[block], is_touched[block] = 0, 0, 0, False
        used = write_long(conjunctions, depth, out, used)
        offsets[document + 1] = used
    evidence[STEPS] += taken + looked
    evidence[CANDIDATES] += looked
    return offsets, out[:used]
