"""Phase 2 of GPX-Matcher: which structures match, given the predicates that hold on each path."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.xpath_paths import load_path, structure_ends, unload_path, up_to
from tocsin._kernels.xpath_predicates import DISTANCE_EXACT, END_FROM, FIRST_SHIFT, KIND_SHIFT, MAX_TAG, SECOND_SHIFT
from tocsin._kernels.xpath_tokens import Documents

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

COUNTING, FIRST, LAST = 0, 1, 2


class Conjunctions(NamedTuple):
    """Structures as conjunctions of predicate ids. Posting lists say which conjunctions a predicate leads to.

    Conjunctions with one access predicate are neighbours, so that checking them reads memory in order.

    `structure` numbers the conjunctions; those of wildcards only come last, `lengths` of them, the shortest first, each
    with the depth that it asks for instead of predicates. The postings of predicate p up to open_stop[p] are those of
    conjunctions that also ask for the end of the path.
    """

    offsets: Ints
    predicates: Ints
    posting_offsets: Ints
    open_stop: Ints
    postings: Ints
    structure: Ints
    lengths: Ints


@kernel
def _repeats(positions: np.uint64) -> bool:
    """Whether a tag stands more than once on a path."""
    return bool(positions != 0 and positions & (positions - np.uint64(1)) != 0)


@kernel
def _shared_beginning(documents: Documents, row: int, tags: Ints) -> int:
    """How many tags from the root down the path that ends in `row` shares with `tags`, which become its own."""
    length = int(documents.level[row])
    shared = length
    for level in range(length, 0, -1):
        if tags[level] != documents.tag[row]:
            shared = level - 1
            tags[level] = documents.tag[row]
        row = documents.parent[row]
    tags[length + 1 :] = -1
    return shared


@kernel
def match_conjunctions(
    documents: Documents,
    path_offsets: Longs,
    rows: Ints,
    held_offsets: Longs,
    held: Ints,
    conjunctions: Conjunctions,
    structures: Ints,
    structure_offsets: Ints,
    keys: Longs,
    tags: int,
    access: int,
    evidence: Longs,
) -> tuple[Longs, Ints]:
    """The structures that match each document, by counting or, under an access predicate, by checking the rest.

    Path i, that ends in rows[i], satisfies the predicates held[held_offsets[i]:held_offsets[i + 1]]. A predicate shares
    its first tag with the one before it; where the path repeats that tag the two may hold on different occurrences, and
    the structure itself is followed along the path.
    `access` is COUNTING, FIRST or LAST. Under the last tag's predicate, conjunctions that end within the beginning
    which a path has in common with the one before it have been decided there, but for those that ask for the end of the
    path. evidence[2] counts the conjunctions looked at.
    """
    counting = access == COUNTING
    count = len(path_offsets) - 1
    size = len(conjunctions.offsets) - 1
    offsets = np.zeros(count + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    matched = np.zeros(size // 64 + 1, dtype=np.uint64)
    one = np.uint64(1)
    hits = np.zeros(size if counting else 0, dtype=np.int32)
    hit_on = np.full(size if counting else 0, -1, dtype=np.int32)
    held_on = np.full(len(conjunctions.posting_offsets) - 1, -1, dtype=np.int32)
    positions = np.zeros(tags, dtype=np.uint64)
    present = np.empty(64, dtype=np.int32)
    path_tags = np.zeros(66, dtype=np.int32)
    used = 0
    looked = 0
    for document in range(count):
        path_tags[:] = -1
        matched[:] = 0
        if used + size + len(conjunctions.lengths) > len(out):
            larger = np.empty(2 * len(out) + size + len(conjunctions.lengths), dtype=np.int32)
            larger[:used] = out[:used]
            out = larger
        depth = 0
        for path in range(path_offsets[document], path_offsets[document + 1]):
            row = rows[path]
            length = documents.level[row]
            depth = max(depth, length)
            found = load_path(documents, row, positions, present)
            repeats = False
            for i in range(found):
                repeats = repeats or _repeats(positions[present[i]])
            decided = up_to(_shared_beginning(documents, row, path_tags))
            begin, end = held_offsets[path], held_offsets[path + 1]
            if not counting:
                for i in range(begin, end):
                    first_tag = (keys[held[i]] >> FIRST_SHIFT) & MAX_TAG
                    held_on[held[i]] = 2 * path + int(_repeats(positions[first_tag]))
            for i in range(begin, end):
                predicate = held[i]
                posting_stop = conjunctions.posting_offsets[predicate + 1]
                if access == LAST:
                    kind = keys[predicate] >> KIND_SHIFT
                    shift = SECOND_SHIFT if kind >= DISTANCE_EXACT else FIRST_SHIFT
                    ends = positions[(keys[predicate] >> shift) & MAX_TAG]
                    if kind != END_FROM and ends & ~decided == 0:
                        posting_stop = conjunctions.open_stop[predicate]
                for k in range(conjunctions.posting_offsets[predicate], posting_stop):
                    candidate = conjunctions.postings[k]
                    first, last = conjunctions.offsets[candidate], conjunctions.offsets[candidate + 1]
                    if counting:
                        if hit_on[candidate] != path:
                            hit_on[candidate] = path
                            hits[candidate] = 0
                        hits[candidate] += 1
                        holds = hits[candidate] == last - first
                        check = repeats
                        looked += 1
                        if not holds or matched[candidate >> 6] >> np.uint64(candidate & 63) & one:
                            continue
                    else:
                        if matched[candidate >> 6] >> np.uint64(candidate & 63) & one:
                            continue
                        looked += 1
                        holds = True
                        loose = 0
                        for at in range(last - 1, first - 1, -1):
                            held_here = held_on[conjunctions.predicates[at]]
                            if at > first:
                                loose |= held_here
                            if held_here >> 1 != path:
                                holds = False
                                break
                        check = loose & 1 == 1
                    if holds and check and last - first > 1:
                        structure = conjunctions.structure[candidate]
                        start, stop = structure_offsets[structure], structure_offsets[structure + 1]
                        holds = structure_ends(structures, start, stop, positions, length) != 0
                    if holds:
                        matched[candidate >> 6] |= one << np.uint64(candidate & 63)
                        out[used] = conjunctions.structure[candidate]
                        used += 1
            unload_path(positions, present, found)
        for i in range(len(conjunctions.lengths)):
            if conjunctions.lengths[i] > depth:
                break
            out[used] = conjunctions.structure[size + i]
            used += 1
        offsets[document + 1] = used
    evidence[2] += looked
    return offsets, out[:used].copy()
