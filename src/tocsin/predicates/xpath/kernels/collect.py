"""From structures that match to the ids of expressions that hold: filters checked, duplicates written, sorted."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.predicates.xpath.kernels.filters import Scratch, Tables, evaluate_paths, sort_by_tag
from tocsin.predicates.xpath.kernels.paths import lowest
from tocsin.predicates.xpath.kernels.tokens import Documents

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Groups(NamedTuple):
    """From a structure to its expressions.

    members[plain[s]:plain[s + 1]] are the expressions of structure s without filters. Its paths with filters are the
    rows from filtered_first[s] to filtered_first[s + 1] of `filtered`: a path and where its members begin and end;
    `filtered_first` is empty if there are none at all. `alive` is a bit for each expression. With `ordered` there are
    none, and the members ascend: results need no sorting. If besides they are the structures, they are the `same`.
    """

    plain: Ints
    filtered_first: Ints
    filtered: Ints
    members: Ints
    alive: Words
    ordered: bool
    same: bool


@kernel
def collect(
    documents: Documents,
    offsets: Longs,
    structures: Ints,
    tables: Tables,
    groups: Groups,
    scratch: Scratch,
    seen: Words,
    found: Words,
    out: Ints,
    out_offsets: Longs,
    first: int,
    evidence: Longs,
) -> int:
    """Write the sorted ids of the expressions that hold on each document, from document `first`; returns the next one.

    Structures offsets[d]:offsets[d + 1] match document d, in any order and with repetitions. Stops before the first
    document whose ids do not fit in `out`. `seen` and `found` are cleared bitmaps of structures and expressions and are
    left cleared. evidence[0] counts the paths with filters that were evaluated, evidence[1] the rows looked at.
    """
    plain, members, alive, filtered_first = groups.plain, groups.members, groups.alive, groups.filtered_first
    one = np.uint64(1)
    for document in range(first, len(offsets) - 1):
        for i in range(offsets[document], offsets[document + 1]):
            seen[structures[i] >> 6] |= one << np.uint64(structures[i] & 63)
        place = out_offsets[document]
        if groups.ordered:
            if groups.same:
                fits, place = _write_found(seen, alive, out, place)
            else:
                fits, place = _write_ordered(seen, plain, members, alive, out, place)
            if not fits:
                return document
            out_offsets[document + 1] = place
            continue
        filtered = 0
        for word in range(len(seen)):
            bits = seen[word]
            seen[word] = 0
            while bits != 0:
                structure = 64 * word + lowest(bits)
                bits &= bits - one
                _mark(members, plain[structure], plain[structure + 1], found)
                if len(filtered_first) > 0:
                    for j in range(filtered_first[structure], filtered_first[structure + 1]):
                        scratch.wanted[filtered] = j
                        filtered += 1
        if filtered > 0:
            evidence[0] += filtered
            sort_by_tag(documents, document, scratch)
            scratch.clock[3] = 0
            for i in range(evaluate_paths(tables, groups.filtered, filtered, documents, document, scratch)):
                j = scratch.wanted[i]
                _mark(members, groups.filtered[j, 1], groups.filtered[j, 2], found)
            evidence[1] += scratch.clock[3]
        fits, place = _write_found(found, alive, out, place)
        if not fits:
            return document
        out_offsets[document + 1] = place
    return len(offsets) - 1


@kernel
def _mark(members: Ints, start: int, stop: int, found: Words) -> None:
    """Set the bits of members[start:stop]."""
    for k in range(np.uint64(start), np.uint64(stop)):
        member = np.uint64(members[k])
        found[member >> np.uint64(6)] |= np.uint64(1) << (member & np.uint64(63))


@kernel
def _write_ordered(seen: Words, plain: Ints, members: Ints, alive: Words, out: Ints, place: int) -> tuple[bool, int]:
    """Write the members alive of the structures seen, clear those; False if they do not fit."""
    one = np.uint64(1)
    six = np.uint64(6)
    fits = True
    for word in range(len(seen)):
        bits = seen[word]
        seen[word] = 0
        while bits != 0:
            structure = np.uint64(64 * word + lowest(bits))
            bits &= bits - one
            at, stop = np.uint64(plain[structure]), np.uint64(plain[structure + one])
            fits = fits and bool(place + np.int64(stop - at) <= len(out))
            while fits and at < stop:
                member = np.uint64(members[at])
                out[place] = members[at]
                place += int(alive[member >> six] >> (member & np.uint64(63)) & one)
                at += one
    return fits, place


@kernel
def _write_found(found: Words, alive: Words, out: Ints, place: int) -> tuple[bool, int]:
    """Write the numbers of the bits that are found and alive from `place` on, clear them; False if they do not fit."""
    one = np.uint64(1)
    fits = True
    for word in range(min(len(found), len(alive))):
        bits = found[word] & alive[word]
        found[word] = 0
        if place + 64 > len(out):
            fits = fits and bool(bits == 0)
            bits = np.uint64(0)
        while bits != 0:
            out[place] = 64 * word + lowest(bits)
            place += 1
            bits &= bits - one
    return fits, place
