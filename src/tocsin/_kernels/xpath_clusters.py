"""Phase 2 of GPX-Matcher under access predicates: clusters of conjunctions, each conjunction one word.

The conjunctions filed under one access predicate are its cluster, cut into blocks with at most 64 distinct other
predicates. Within a block a predicate is a bit and a conjunction the word of its bits. If the access predicate holds on
a path, each block reads once which of its predicates do; a conjunction is then one AND away.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.xpath_gpx import Conjunctions, Publications, hold, roomy, write_long
from tocsin._kernels.xpath_paths import load_path, shared_beginning, structure_ends, unload_path, up_to
from tocsin._kernels.xpath_predicates import DISTANCE_EXACT, END_FROM, FIRST_SHIFT, MAX_TAG, SECOND_SHIFT, kind_of
from tocsin._kernels.xpath_tokens import Documents

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Clusters(NamedTuple):
    """Conjunctions by access predicate.

    The blocks of predicate p are blocks[p]:blocks[p + 1]; up to open_stop[p] their conjunctions also ask for the end of
    the path. Block b has the conjunctions members[b]:members[b + 1] and the predicates bits[first_bit[b]:first_bit[b +
    1]]. `words` are the conjunctions. A conjunction of more than 64 other predicates has a block of its own with the
    first of them, and is always followed: `cut`.
    """

    blocks: Ints
    open_stop: Ints
    members: Ints
    first_bit: Ints
    bits: Ints
    cut: Bools
    words: Words


@kernel
def build_clusters(
    offsets: Ints, predicates: Ints, access: Ints, is_open: Bools, size: int
) -> tuple[Ints, Ints, Ints, Ints, Ints, Bools, Words]:
    """The arrays of `Clusters` for conjunctions in the order of their access predicates, those that are open first.

    Conjunction i has predicates[offsets[i]:offsets[i + 1]]; predicates are numbered up to `size`.
    """
    count = len(access)
    blocks = np.zeros(size + 1, dtype=np.int32)
    open_blocks = np.zeros(size, dtype=np.int32)
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
        fresh = i == 0 or access[i] != access[i - 1] or is_open[i] != is_open[i - 1] or cut[block]
        more = 0
        if not fresh:
            for at in range(offsets[i], offsets[i + 1]):
                more += int(in_block[predicates[at]] != block and predicates[at] != access[i])
            fresh = used - first_bit[block] + more > 64
        if fresh:
            block += 1
            members[block] = i
            first_bit[block] = used
            blocks[access[i] + 1] += 1
            open_blocks[access[i]] += int(is_open[i])
        for at in range(offsets[i], offsets[i + 1]):
            predicate = predicates[at]
            if predicate == access[i]:
                continue
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
        open_blocks[predicate] += blocks[predicate]
    return (
        blocks,
        open_blocks,
        members[: block + 2].copy(),
        first_bit[: block + 2].copy(),
        bits[:used].copy(),
        cut[: block + 1].copy(),
        words,
    )


@kernel
def match_clusters(
    documents: Documents,
    publications: Publications,
    conjunctions: Conjunctions,
    clusters: Clusters,
    keys: Longs,
    tags: int,
    last: bool,
    evidence: Longs,
) -> tuple[Longs, Ints]:
    """What is found in each document, a conjunction being looked at only where its access predicate holds.

    With `last`, access predicates are those of the last tag: conjunctions that end within the beginning which a path
    shares with the one before it have been decided there, but for those that ask for the end of the path. evidence[2]
    counts the conjunctions looked at, evidence[1] all steps taken.
    """
    count = len(publications.documents) - 1
    size = len(clusters.words)
    offsets = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    matched = np.full(size, -1, dtype=np.int32)
    held_on = np.full(len(clusters.open_stop), -1, dtype=np.int32)
    held = np.empty(len(clusters.open_stop), dtype=np.int32)
    positions = np.zeros(tags, dtype=np.uint64)
    present = np.empty(64, dtype=np.int32)
    before = np.zeros(66, dtype=np.int32)
    # What was missing when a block was last looked at in a document: where no less is, there is nothing new to find.
    seen_in = np.full(len(clusters.cut), -1, dtype=np.int32)
    seen = np.zeros(len(clusters.cut), dtype=np.uint64)
    words, members, bits, first_bit = clusters.words, clusters.members, clusters.bits, clusters.first_bit
    sure, followed = conjunctions.sure, conjunctions.followed
    one = np.uint64(1)
    used = 0
    looked = 0
    steps = publications.tested
    for document in range(count):
        before[:] = -1
        # One more than can be found, since what is not found is written as well, to be overwritten by the next.
        out = roomy(out, used, size + len(conjunctions.lengths) + 1)
        depth = 0
        for path in range(publications.documents[document], publications.documents[document + 1]):
            row = publications.rows[path]
            length = documents.level[row]
            depth = max(depth, length)
            found = load_path(documents, row, positions, present)
            decided = up_to(shared_beginning(documents, row, publications.nodes, before))
            steps += hold(documents, publications, path, keys, positions, held_on, held)
            for i in range(publications.offsets[path], publications.offsets[path + 1]):
                predicate = publications.ids[i]
                stop = clusters.blocks[predicate + 1]
                if last and clusters.blocks[predicate] < stop:
                    kind = kind_of(keys[predicate])
                    shift = SECOND_SHIFT if kind >= DISTANCE_EXACT else FIRST_SHIFT
                    ends = positions[(keys[predicate] >> shift) & MAX_TAG]
                    if kind != END_FROM and ends & ~decided == 0:
                        stop = clusters.open_stop[predicate]
                for block in range(clusters.blocks[predicate], stop):
                    missing = ~np.uint64(0)
                    loose = np.uint64(0)
                    bit = one
                    for k in range(first_bit[block], first_bit[block + 1]):
                        state = held_on[bits[k]]
                        if state >> 1 == path:
                            missing ^= bit
                            loose |= bit if state & 1 else np.uint64(0)
                        bit <<= one
                    always = held_on[predicate] & 1 == 1 or clusters.cut[block]
                    steps += first_bit[block + 1] - first_bit[block]
                    if not always and loose == 0:
                        if seen_in[block] == document and missing & seen[block] == seen[block]:
                            continue
                        seen_in[block] = document
                        seen[block] = missing
                        looked += members[block + 1] - members[block]
                        for candidate in range(members[block], members[block + 1]):
                            holds = words[candidate] & missing == 0 and matched[candidate] != document
                            matched[candidate] = document if holds else matched[candidate]
                            out[used] = sure[candidate]
                            used += int(holds)
                        continue
                    looked += members[block + 1] - members[block]
                    for candidate in range(members[block], members[block + 1]):
                        word = words[candidate]
                        if word & missing != 0 or matched[candidate] == document:
                            continue
                        outcome = sure[candidate]
                        if word & loose != 0 or (always and word != 0):
                            start, end = conjunctions.offsets[candidate], conjunctions.offsets[candidate + 1]
                            steps += (end - start) // 2
                            if structure_ends(conjunctions.steps, start, end, positions, length) == 0:
                                continue
                            outcome = followed[candidate]
                        matched[candidate] = document
                        out[used] = outcome
                        used += 1
            unload_path(positions, present, found)
        used = write_long(conjunctions, depth, out, used)
        offsets[document + 1] = used
    evidence[1] += steps + looked
    evidence[2] += looked
    return offsets, out[:used]
