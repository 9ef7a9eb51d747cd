"""From structures that match to the ids of expressions that hold: filters checked, duplicates written, sorted."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.xpath_evaluate import Scratch, Tables, evaluate_paths, sort_by_tag
from tocsin._kernels.xpath_paths import bit_places
from tocsin._kernels.xpath_tokens import Documents

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Groups(NamedTuple):
    """From a structure to its expressions.

    members[plain[s]:plain[s + 1]] are the expressions of structure s without filters. Its paths with filters are the
    rows from filtered_first[s] to filtered_first[s + 1] of `filtered`: a path and where its members begin and end;
    `filtered_first` is empty if there are none at all. `alive` is a bit for each expression. With `ordered` there are
    none, and the members ascend: results need no sorting.
    """

    plain: Ints
    filtered_first: Ints
    filtered: Ints
    members: Ints
    alive: Words
    ordered: bool


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
    one = np.uint64(1)
    place_of = bit_places()
    for document in range(first, len(offsets) - 1):
        for i in range(offsets[document], offsets[document + 1]):
            seen[structures[i] >> 6] |= one << np.uint64(structures[i] & 63)
        place = out_offsets[document]
        filtered = 0
        fits = True
        for word in range(len(seen)):
            bits = seen[word]
            if bits == 0:
                continue
            seen[word] = 0
            while bits != 0:
                structure = 64 * word + place_of[np.int64((bits & (~bits + one)) % np.uint64(67))]
                bits &= bits - one
                start, stop = groups.plain[structure], groups.plain[structure + 1]
                if groups.ordered:
                    fits = fits and place + stop - start <= len(out)
                    if fits:
                        for k in range(start, stop):
                            member = groups.members[k]
                            if groups.alive[member >> 6] >> np.uint64(member & 63) & one:
                                out[place] = member
                                place += 1
                    continue
                for k in range(start, stop):
                    member = groups.members[k]
                    found[member >> 6] |= one << np.uint64(member & 63)
                if len(groups.filtered_first) > 0:
                    for j in range(groups.filtered_first[structure], groups.filtered_first[structure + 1]):
                        scratch.wanted[filtered] = j
                        filtered += 1
        if filtered > 0:
            evidence[0] += filtered
            sort_by_tag(documents, document, scratch)
            scratch.clock[3] = 0
            for i in range(evaluate_paths(tables, groups.filtered, filtered, documents, document, scratch)):
                j = scratch.wanted[i]
                for k in range(groups.filtered[j, 1], groups.filtered[j, 2]):
                    member = groups.members[k]
                    found[member >> 6] |= one << np.uint64(member & 63)
            evidence[1] += scratch.clock[3]
        if not groups.ordered:
            fits, place = _write_found(found, groups.alive, out, place)
        if not fits:
            return document
        out_offsets[document + 1] = place
    return len(offsets) - 1


@kernel
def _write_found(found: Words, alive: Words, out: Ints, place: int) -> tuple[bool, int]:
    """Write the numbers of the bits that are found and alive from `place` on, clear them; False if they do not fit."""
    one = np.uint64(1)
    place_of = bit_places()
    fits = True
    for word in range(len(found)):
        bits = found[word]
        if bits != 0:
            found[word] = 0
            bits &= alive[word]
            fits = fits and place + 64 <= len(out)
            while fits and bits != 0:
                out[place] = 64 * word + place_of[np.int64((bits & (~bits + one)) % np.uint64(67))]
                place += 1
                bits &= bits - one
    return fits, place
