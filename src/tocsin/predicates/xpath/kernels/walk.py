"""The walk of GPX-Matcher down the tree of a document's paths: what holds where it stands.

Each node adds the predicates that its tag and its attributes make true; on the way up they are taken back.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.predicates.xpath.kernels.paths import lowest
from tocsin.predicates.xpath.kernels.predicate_tables import find_table, test_table

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MOST_TABLES = 66 * 66
"""A level opens at most a table for each tag above it, and one for its tag alone."""


class Nodes(NamedTuple):
    """The distinct paths of documents, as `distinct_nodes` gives them, and what holds on the attributes of each row.

    These are the predicates attributes[attribute_offsets[row]:attribute_offsets[row + 1]], numbered behind those on
    tags; both arrays are empty if there are none at all.
    """

    documents: Longs
    rows: Ints
    heights: Ints
    attribute_offsets: Longs
    attributes: Ints


@kernel
def enter(
    keys: Longs,
    slots: Ints,
    filed: Ints,
    path: Ints,
    level: int,
    length: int,
    positions: Words,
    stack: Ints,
    top: int,
    opened: Ints,
    tables: int,
) -> tuple[int, int, int]:
    """Write the predicates that the tag path[level] makes true on a path of that `length` to the stack from `top` on.

    Tables under which anything is `filed` are written to `opened` from `tables` on. positions[tag] is where a tag
    stands. Returns the places behind both, and how many tables and predicates were tested.
    """
    tag = path[level]
    positions[tag] |= np.uint64(1) << np.uint64(level - 1)
    tested = 0
    for above in range(level):
        # The tag alone, then with each tag above it, once for those that repeat.
        other = path[above]
        if above > 0 and (other == 0 or lowest(positions[other]) != above - 1):
            continue
        first = int(other) if above > 0 else int(tag)
        table = find_table(keys, slots, first, int(tag) if above > 0 else 0)
        tested += 1
        if table >= 0:
            top, end = test_table(keys, table, positions[first], positions[tag], length, stack, top)
            tested += end - table
            if filed[table] < filed[table + 1]:
                opened[tables] = table
                tables += 1
    return top, tables, tested


@kernel
def leave(path: Ints, level: int, positions: Words, held: Bytes, stack: Ints, begin: int, end: int) -> int:
    """Take back the predicates stack[begin:end] of a level and its tag; returns 1 if the tag stands above as well."""
    for k in range(begin, end):
        held[stack[k]] -= np.uint8(1)
    tag = path[level]
    if tag == 0:
        return 0
    positions[tag] &= ~(np.uint64(1) << np.uint64(level - 1))
    return int(positions[tag] != 0)


@kernel
def roomy(out: Ints, used: int, more: int) -> Ints:
    """`out` itself, or a larger copy of its first `used` entries, with room for `more`."""
    if used + more <= len(out):
        return out
    larger = np.empty(2 * len(out) + more, dtype=np.int32)
    larger[:used] = out[:used]
    return larger
