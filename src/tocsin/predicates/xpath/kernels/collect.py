"""From structures that match to the ids of expressions that hold: filters evaluated, equal expressions, sorted."""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel, lowest_bit
from tocsin.arrays import Int32s, Int64s, UInt64s
from tocsin.predicates.xpath.kernels import FILTERED, STEPS
from tocsin.predicates.xpath.kernels.filters import ROWS_SEEN, CatalogTables, Scratch, evaluate_paths, sort_by_tag
from tocsin.predicates.xpath.kernels.tokens import Documents

GROUP_PATH, GROUP_BEGIN, GROUP_END = range(3)
"""Columns of `ResultGroups.filtered`."""


class ResultGroups(NamedTuple):
    """From what was found, a structure, to the expressions that hold.

    members[plain[s]:plain[s + 1]] are the expressions of structure s without filters. Its paths with filters are the
    rows from filtered_first[s] to filtered_first[s + 1] of `filtered`: a path, and where its members begin and end;
    `filtered_first` is empty if there are no such paths. `ordered` says that there are none and that the members
    ascend, so that results need no sorting; `same` says that besides each structure has one member, its own number.
    """

    plain: Int32s
    filtered_first: Int32s
    filtered: Int32s
    members: Int32s
    ordered: bool
    same: bool


@kernel
def collect(
    documents: Documents,
    offsets: Int64s,
    structures: Int32s,
    tables: CatalogTables,
    groups: ResultGroups,
    scratch: Scratch,
    seen: UInt64s,
    found: UInt64s,
    out: Int32s,
    out_offsets: Int64s,
    first: int,
    evidence: Int64s,
) -> int:
    """Write the sorted ids of the expressions that hold on each document, from document `first`; return the next one.

    structures[offsets[d]:offsets[d + 1]] match document d, in any order and with repetitions. Stops before the first
    document whose ids do not fit in `out`. `seen` and `found` are cleared bitmaps of structures and expressions and are
    left cleared.
    """
    plain, members, filtered_first = groups.plain, groups.members, groups.filtered_first
    one = np.uint64(1)
    for document in range(first, len(offsets) - 1):
        for i in range(offsets[document], offsets[document + 1]):
            seen[structures[i] >> 6] |= one << np.uint64(structures[i] & 63)
        place = out_offsets[document]
        if groups.ordered:
            if groups.same:
                fits, place = _write_found(seen, out, place)
            else:
                fits, place = _write_ordered(seen, plain, members, out, place)
            if not fits:
                return document
            out_offsets[document + 1] = place
            continue
        filtered = 0
        for word in range(len(seen)):
            bits = seen[word]
            seen[word] = 0
            while bits != 0:
                structure = 64 * word + lowest_bit(bits)
                bits &= bits - one
                _mark(members, plain[structure], plain[structure + 1], found)
                if len(filtered_first) > 0:
                    for j in range(filtered_first[structure], filtered_first[structure + 1]):
                        scratch.wanted[filtered] = j
                        filtered += 1
        if filtered > 0:
            evidence[FILTERED] += filtered
            sort_by_tag(documents, document, scratch)
            scratch.clock[ROWS_SEEN] = 0
            for i in range(evaluate_paths(tables, groups.filtered, filtered, documents, document, scratch)):
                j = scratch.wanted[i]
                _mark(members, groups.filtered[j, GROUP_BEGIN], groups.filtered[j, GROUP_END], found)
            evidence[STEPS] += scratch.clock[ROWS_SEEN]
        fits, place = _write_found(found, out, place)
        if not fits:
            return document
        out_offsets[document + 1] = place
    return len(offsets) - 1


@kernel
def _mark(members: Int32s, start: int, stop: int, found: UInt64s) -> None:
    """Set the bits of members[start:stop]."""
    # Unsigned places spare the check for negative ones, which Numba makes at each index.
    for k in range(np.uint64(start), np.uint64(stop)):
        member = np.uint64(members[k])
        found[member >> np.uint64(6)] |= np.uint64(1) << (member & np.uint64(63))


@kernel
def _write_ordered(seen: UInt64s, plain: Int32s, members: Int32s, out: Int32s, place: int) -> tuple[bool, int]:
    """Write the members of the structures seen, and clear these; return False if they do not fit."""
    one = np.uint64(1)
    fits = True
    for word in range(len(seen)):
        bits = seen[word]
        seen[word] = 0
        while bits != 0:
            structure = np.uint64(64 * word + lowest_bit(bits))
            bits &= bits - one
            at, stop = np.uint64(plain[structure]), np.uint64(plain[structure + one])
            fits = fits and bool(place + np.int64(stop - at) <= len(out))
            while fits and at < stop:
                out[place] = members[at]
                place += 1
                at += one
    return fits, place


@kernel
def _write_found(found: UInt64s, out: Int32s, place: int) -> tuple[bool, int]:
    """Write the numbers of the bits that are set from `place` on, and clear them; return False if they do not fit."""
    one = np.uint64(1)
    fits = True
    for word in range(len(found)):
        bits = found[word]
        found[word] = 0
        if place + 64 > len(out):
            fits = fits and bool(bits == 0)
            bits = np.uint64(0)
        while bits != 0:
            out[place] = 64 * word + lowest_bit(bits)
            place += 1
            bits &= bits - one
    return fits, place
