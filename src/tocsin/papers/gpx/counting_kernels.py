"""Phase 2 of GPX-Matcher by counting, and what it shares with matching under access predicates."""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s
from tocsin.papers.gpx.publications import Publications, load_path, repeats, unload_path
from tocsin.predicates.xpath.kernels import CANDIDATES, STEPS
from tocsin.predicates.xpath.kernels.hashing import with_room
from tocsin.predicates.xpath.kernels.paths import structure_ends
from tocsin.predicates.xpath.kernels.tokens import Documents


class Conjunctions(NamedTuple):
    """What follows from each conjunction that holds.

    A conjunction is one of `structures`, perhaps with filters. If all its predicates hold on a path it matches, and
    `sure` is what was found. Only where its predicates share a tag that the path repeats they may hold on different
    occurrences: there the structure is followed along the path, and `followed` is what was found. Conjunctions of
    wildcards only ask for `lengths`, the shortest first, and find `long`.
    """

    structures: Int32s
    sure: Int32s
    followed: Int32s
    lengths: Int32s
    long: Int32s


class Postings(NamedTuple):
    """For each predicate its conjunctions, members[offsets[p]:offsets[p + 1]]; `sizes` counts a conjunction's own."""

    sizes: Int32s
    offsets: Int32s
    members: Int32s


@kernel
def _hold(
    documents: Documents, publications: Publications, path: int, attributes_from: int, held_on: Int32s, out: Int32s
) -> int:
    """Write the predicates that hold on a path, each once, and return how many they are; held_on[each] becomes path."""
    used = 0
    for i in range(publications.offsets[path], publications.offsets[path + 1]):
        out[used] = publications.ids[i]
        used += 1
    row = publications.rows[path]
    while len(publications.attributes) > 0 and documents.level[row] > 0:
        for i in range(publications.attribute_offsets[row], publications.attribute_offsets[row + 1]):
            predicate = attributes_from + publications.attributes[i]
            if held_on[predicate] != path:
                held_on[predicate] = path
                out[used] = predicate
                used += 1
        row = documents.parent[row]
    return used


@kernel
def write_long(conjunctions: Conjunctions, depth: int, out: Int32s, used: int) -> int:
    """Write what the conjunctions of wildcards only find in a document of that depth."""
    for i in range(len(conjunctions.lengths)):
        if conjunctions.lengths[i] > depth:
            break
        out[used] = conjunctions.long[i]
        used += 1
    return used


@kernel
def match_counting(
    documents: Documents,
    publications: Publications,
    conjunctions: Conjunctions,
    steps: Int32s,
    step_offsets: Int32s,
    postings: Postings,
    predicate_count: int,
    tags: int,
    evidence: Int64s,
) -> tuple[Int64s, Int32s]:
    """What is found in each document: a conjunction holds on a path if as many predicates count for it as it has.

    Candidates are the counts made.
    """
    count = len(publications.documents) - 1
    sizes = postings.sizes
    size = len(sizes)
    offsets = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    hits = np.zeros(size, dtype=np.int32)
    hit_on = np.full(size, -1, dtype=np.int32)
    matched = np.full(size, -1, dtype=np.int32)
    held_on = np.full(len(postings.offsets) - 1, -1, dtype=np.int32)
    held = np.empty(len(postings.offsets) - 1, dtype=np.int32)
    positions = np.zeros(tags, dtype=np.uint64)
    present = np.empty(64, dtype=np.int32)
    used = 0
    counted = 0
    taken = publications.tested
    for document in range(count):
        out = with_room(out, used, size + len(conjunctions.lengths))
        depth = 0
        for path in range(publications.documents[document], publications.documents[document + 1]):
            length = documents.level[publications.rows[path]]
            depth = max(depth, length)
            found = load_path(documents, publications.rows[path], positions, present)
            repeated = False
            for i in range(found):
                repeated = repeated or repeats(positions[present[i]])
            for i in range(_hold(documents, publications, path, predicate_count, held_on, held)):
                begin, end = postings.offsets[held[i]], postings.offsets[held[i] + 1]
                counted += end - begin
                taken += 1
                for k in range(begin, end):
                    candidate = postings.members[k]
                    if hit_on[candidate] != path:
                        hit_on[candidate] = path
                        hits[candidate] = 0
                    hits[candidate] += 1
                    if hits[candidate] != sizes[candidate] or matched[candidate] == document:
                        continue
                    outcome = conjunctions.sure[candidate]
                    if repeated and sizes[candidate] > 1:
                        structure = conjunctions.structures[candidate]
                        start, stop = step_offsets[structure], step_offsets[structure + 1]
                        taken += (stop - start) // 2
                        if structure_ends(steps, start, stop, positions, length) == 0:
                            continue
                        outcome = conjunctions.followed[candidate]
                    matched[candidate] = document
                    out[used] = outcome
                    used += 1
            unload_path(positions, present, found)
        used = write_long(conjunctions, depth, out, used)
        offsets[document + 1] = used
    evidence[STEPS] += taken + counted
    evidence[CANDIDATES] += counted
    return offsets, out[:used]
