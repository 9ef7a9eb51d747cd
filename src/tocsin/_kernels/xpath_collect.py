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

    The row of a structure holds where the members of its path without filters begin and end in `members`, and where its
    paths with filters begin and end in `filtered`. A row there is a path and where its members begin and end.
    `alive` is a bit for each expression. With `ordered`, no structure has filters and the members of the structures, in
    the order of the structures, ascend: results need no sorting.
    """

    structures: Ints
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
    left cleared. evidence[0] counts the paths with filters that were evaluated.
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
                start, stop = groups.structures[structure, 0], groups.structures[structure, 1]
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
                for j in range(groups.structures[structure, 2], groups.structures[structure, 3]):
                    scratch.wanted[filtered] = j
                    filtered += 1
        if filtered > 0:
            evidence[0] += filtered
            sort_by_tag(documents, document, scratch)
            for i in range(evaluate_paths(tables, groups.filtered, filtered, documents, document, scratch)):
                j = scratch.wanted[i]
                for k in range(groups.filtered[j, 1], groups.filtered[j, 2]):
                    member = groups.members[k]
                    found[member >> 6] |= one << np.uint64(member & 63)
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
