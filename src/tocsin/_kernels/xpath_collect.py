"""From structures that match to the ids of expressions that hold: filters checked, duplicates written, sorted."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.xpath_evaluate import Scratch, Tables, path_holds, sort_by_tag
from tocsin._kernels.xpath_tokens import Documents

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Groups(NamedTuple):
    """Which paths a structure has, and which expressions a path has. `alive` is a bit for each expression."""

    path_offsets: Ints
    paths: Ints
    member_offsets: Ints
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
    every_path: bool,
    evidence: Longs,
) -> int:
    """Write the sorted ids of the expressions that hold on each document, from document `first`; returns the next one.

    Structures offsets[d]:offsets[d + 1] match document d. Stops before the first document whose ids do not fit in
    `out`. With `every_path`, the structures are guesses and paths without filters are evaluated too. `found` is a
    cleared bitmap of expressions and is left cleared. evidence[0] counts the paths that were evaluated, evidence[1] the
    distinct paths that hold.
    """
    for document in range(first, len(offsets) - 1):
        prepared = False
        total = 0
        for i in range(offsets[document], offsets[document + 1]):
            structure = structures[i]
            for j in range(groups.path_offsets[structure], groups.path_offsets[structure + 1]):
                path = groups.paths[j]
                if every_path or tables.path_offsets[path + 1] - tables.path_offsets[path] > 1:
                    if not prepared:
                        sort_by_tag(documents, document, scratch)
                        prepared = True
                    evidence[0] += 1
                    if not path_holds(tables, path, documents, document, scratch):
                        continue
                evidence[1] += 1
                for k in range(groups.member_offsets[path], groups.member_offsets[path + 1]):
                    member = groups.members[k]
                    found[member >> 6] |= np.uint64(1) << np.uint64(member & 63)
                total += groups.member_offsets[path + 1] - groups.member_offsets[path]
        place = out_offsets[document]
        if place + total > len(out):
            found[:] = 0
            return document
        if total > 0:
            for word in range(len(found)):
                bits = found[word] & groups.alive[word]
                found[word] = 0
                while bits != 0:
                    low = bits & (~bits + np.uint64(1))
                    out[place] = 64 * word + _bit_number(low)
                    place += 1
                    bits ^= low
        out_offsets[document + 1] = place
    return len(offsets) - 1


@kernel
def _bit_number(low: np.uint64) -> int:
    """The place of the only bit set."""
    place = 0
    if low & np.uint64(0xFFFFFFFF00000000):
        place += 32
    if low & np.uint64(0xFFFF0000FFFF0000):
        place += 16
    if low & np.uint64(0xFF00FF00FF00FF00):
        place += 8
    if low & np.uint64(0xF0F0F0F0F0F0F0F0):
        place += 4
    if low & np.uint64(0xCCCCCCCCCCCCCCCC):
        place += 2
    if low & np.uint64(0xAAAAAAAAAAAAAAAA):
        place += 1
    return place
