"""From structures that match to the ids of expressions that hold: filters checked, duplicates written, sorted."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.xpath_evaluate import Scratch, Tables, path_holds, sort_by_tag
from tocsin._kernels.xpath_paths import bit_places
from tocsin._kernels.xpath_tokens import Documents

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Groups(NamedTuple):
    """From a structure to its expressions.

    The row of a structure holds where the members of its path without filters begin and end in `members`, and where its
    paths with filters begin and end in `filtered`. A row there is a path and where its members begin and end.
    `alive` is a bit for each expression.
    """

    structures: Ints
    filtered: Ints
    members: Ints
    alive: Words


@kernel
def collect(
    documents: Documents,
    offsets: Longs,
    structures: Ints,
    tables: Tables,
    groups: Groups,
    scratch: Scratch,
    found: Words,
    out: Ints,
    out_offsets: Longs,
    first: int,
    evidence: Longs,
) -> int:
    """Write the sorted ids of the expressions that hold on each document, from document `first`; returns the next one.

    Structures offsets[d]:offsets[d + 1] match document d. Stops before the first document whose ids do not fit in
    `out`. `found` is a cleared bitmap of expressions and is left cleared. evidence[0] counts the paths with filters
    that were evaluated.
    """
    one = np.uint64(1)
    place_of = bit_places()
    for document in range(first, len(offsets) - 1):
        prepared = False
        total = 0
        for i in range(offsets[document], offsets[document + 1]):
            row = groups.structures[structures[i]]
            for k in range(row[0], row[1]):
                member = groups.members[k]
                found[member >> 6] |= one << np.uint64(member & 63)
            total += row[1] - row[0]
            for j in range(row[2], row[3]):
                if not prepared:
                    sort_by_tag(documents, document, scratch)
                    prepared = True
                evidence[0] += 1
                if path_holds(tables, groups.filtered[j, 0], documents, document, scratch):
                    for k in range(groups.filtered[j, 1], groups.filtered[j, 2]):
                        member = groups.members[k]
                        found[member >> 6] |= one << np.uint64(member & 63)
                    total += groups.filtered[j, 2] - groups.filtered[j, 1]
        place = out_offsets[document]
        if place + total > len(out):
            found[:] = 0
            return document
        if total > 0:
            for word in range(len(found)):
                bits = found[word]
                if bits != 0:
                    found[word] = 0
                    bits &= groups.alive[word]
                    while bits != 0:
                        out[place] = 64 * word + place_of[np.int64((bits & (~bits + one)) % np.uint64(67))]
                        place += 1
                        bits &= bits - one
        out_offsets[document + 1] = place
    return len(offsets) - 1
