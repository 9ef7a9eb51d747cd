"""The predicates of GPX-Matcher: structures to conjunctions, paths to the predicates that hold on them.

A predicate is one integer: first tag, second tag, kind, the occurrence numbers of both tags, value. Sorted, those on
one pair of tags are neighbours, kind by kind in the order of their values: these are the predicate tables of the paper.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.predicates.xpath.kernels.paths import highest, load_path, lowest, unload_path
from tocsin.predicates.xpath.kernels.tokens import Documents

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

POSITION_EXACT, POSITION_FROM, END_FROM, DISTANCE_EXACT, DISTANCE_FROM, LENGTH_FROM = range(6)
FIRST_SHIFT, SECOND_SHIFT, KIND_SHIFT, FIRST_OCCURRENCE, SECOND_OCCURRENCE = 42, 22, 19, 13, 7
MAX_TAG, MAX_KIND, MAX_OCCURRENCE, MAX_VALUE = (1 << 20) - 1, 7, 63, 127


class Predicates(NamedTuple):
    """Distinct predicates in order, and a hash table from (first tag, second tag) to where their rows begin."""

    keys: Longs
    slots: Ints


class Publications(NamedTuple):
    """The distinct paths of documents and the predicates that hold on each.

    Paths of document d are numbered from documents[d] to documents[d + 1]; path i ends in the element rows[i] and
    satisfies the predicates ids[offsets[i]:offsets[i + 1]] on its tags. Each row of a path adds the predicates
    attributes[attribute_offsets[row]:attribute_offsets[row + 1]] on its attributes, if there are any; they are numbered
    behind those on tags. `tested` predicates were, to find all these.
    """

    documents: Longs
    rows: Ints
    offsets: Longs
    ids: Ints
    attribute_offsets: Longs
    attributes: Ints
    tested: int


@kernel
def pack(kind: int, first: int, occurrence: int, second: int, second_occurrence: int, value: int) -> int:
    """The integer of a predicate. A value or occurrence above 63 lies beyond any path, so larger ones may be cut."""
    occurrence = min(occurrence, MAX_OCCURRENCE)
    second_occurrence = min(second_occurrence, MAX_OCCURRENCE)
    key = (
        (int(first) << FIRST_SHIFT) | (int(second) << SECOND_SHIFT) | (kind << KIND_SHIFT) | int(min(value, MAX_VALUE))
    )
    return key | (occurrence << FIRST_OCCURRENCE) | (second_occurrence << SECOND_OCCURRENCE)


@kernel
def kind_of(key: int) -> int:
    """The kind of a predicate."""
    return (key >> KIND_SHIFT) & MAX_KIND


@kernel
def encode_structures(structures: Ints, offsets: Ints, chosen: Ints) -> tuple[Longs, Longs]:
    """The conjunction of each chosen structure as packed predicates, in the order of its steps."""
    limit = 0
    for structure in chosen:
        limit += (offsets[structure + 1] - offsets[structure]) // 2 + 2
    keys = np.empty(limit, dtype=np.int64)
    bounds = np.zeros(len(chosen) + 1, dtype=np.int64)
    used = 0
    for i in range(len(chosen)):
        start, stop = offsets[chosen[i]], offsets[chosen[i] + 1]
        before, before_occurrence = -1, 0
        exact, distance = 1, 0
        first = used
        for at in range(start, stop, 2):
            tag, gap = structures[at], structures[at + 1]
            distance += gap >> 1
            exact &= gap & 1
            if tag < 0:
                continue
            occurrence = 1
            for other in range(start, at, 2):
                if structures[other] == tag:
                    occurrence += 1
            if before >= 0:
                kind = DISTANCE_EXACT if exact else DISTANCE_FROM
                keys[used] = pack(kind, before, before_occurrence, tag, occurrence, distance)
                used += 1
            elif exact:
                keys[used] = pack(POSITION_EXACT, tag, 1, 0, 0, distance)
                used += 1
            else:
                keys[used] = pack(POSITION_FROM, tag, 1, 0, 0, distance)
                used += 1
            before, before_occurrence = tag, occurrence
            exact, distance = 1, 0
        if before < 0:
            keys[used] = pack(LENGTH_FROM, 0, 0, 0, 0, distance)
            used += 1
        elif distance > 0:
            keys[used] = pack(END_FROM, before, before_occurrence, 0, 0, distance)
            used += 1
        # That the first tag stands anywhere follows from any other predicate on it.
        if used - first > 1 and kind_of(keys[first]) == POSITION_FROM and keys[first] & MAX_VALUE == 1:
            for k in range(first, used - 1):
                keys[k] = keys[k + 1]
            used -= 1
        bounds[i + 1] = used
    return keys[:used].copy(), bounds


@kernel
def _table_slot(keys: Longs, slots: Ints, table: int) -> int:
    mask = len(slots) - 1
    slot = ((table ^ (table >> 17)) * 40503) & mask
    while slots[slot] >= 0 and keys[slots[slot]] >> SECOND_SHIFT != table:
        slot = (slot + 1) & mask
    return slot


@kernel
def enter_predicates(predicates: Predicates) -> None:
    """Fill the hash table, whose slots are all -1."""
    keys, slots = predicates
    table = -1
    for row in range(len(keys)):
        if keys[row] >> SECOND_SHIFT != table:
            table = keys[row] >> SECOND_SHIFT
            slots[_table_slot(keys, slots, table)] = row


@kernel
def find_table(keys: Longs, slots: Ints, first: int, second: int) -> int:
    """Where the predicates on a pair of tags begin, or on one tag if the second is 0; -1 if there are none."""
    return int(slots[_table_slot(keys, slots, (first << (FIRST_SHIFT - SECOND_SHIFT)) | second)])


@kernel
def _occurrences(positions: np.uint64, number: int) -> np.uint64:
    """The positions with at least `number` occurrences up to and including them."""
    for _ in range(number - 1):
        positions &= positions - np.uint64(1) if positions != 0 else positions
    return positions


@kernel
def test_table(
    keys: Longs, table: int, first: np.uint64, second: np.uint64, length: int, out: Ints, used: int
) -> tuple[int, int]:
    """Write the predicates of the table that begins at row `table` which hold; the tags stand at `first` and `second`.

    Those on one tag hold on a path of that `length`. Returns the place behind the last one written, and the row behind
    the table.
    """
    row = table
    occurrences = -1
    low, high = first, second
    while row < len(keys) and keys[row] >> SECOND_SHIFT == keys[table] >> SECOND_SHIFT:
        key = keys[row]
        value = key & MAX_VALUE
        kind = kind_of(key)
        if key >> SECOND_OCCURRENCE != occurrences:
            occurrences = key >> SECOND_OCCURRENCE
            low = _occurrences(first, (key >> FIRST_OCCURRENCE) & MAX_OCCURRENCE)
            high = _occurrences(second, (key >> SECOND_OCCURRENCE) & MAX_OCCURRENCE)
        holds = False
        if low != 0 and value <= 64:
            if kind == DISTANCE_EXACT:
                holds = value < 64 and (low << np.uint64(value)) & high != 0
            elif kind == DISTANCE_FROM:
                holds = highest(high) - lowest(low) >= value
            elif kind == END_FROM:
                holds = length - 1 - lowest(low) >= value
            elif kind == POSITION_EXACT:
                holds = low & (np.uint64(1) << np.uint64(value - 1)) != 0
            else:
                holds = highest(low) + 1 >= value
        if holds:
            out[used] = row
            used += 1
        row += 1
    return used, row


@kernel
def publish(documents: Documents, rows: Ints, predicates: Predicates, tags: int) -> tuple[Longs, Ints, int]:
    """The predicates that hold on each path that ends in `rows`: for the paper, its publications taken together.

    Last comes how many were tested. An occurrence number k stands for any k-th or later occurrence, so a path is one
    publication, whatever it repeats. Predicates on the length are left out: a document's depth answers them.
    """
    keys, slots = predicates
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    positions = np.zeros(tags, dtype=np.uint64)
    present = np.empty(64, dtype=np.int32)
    used = 0
    tested = 0
    for i in range(len(rows)):
        found = load_path(documents, rows[i], positions, present)
        length = documents.level[rows[i]]
        for x in range(found):
            a = present[x]
            if used + len(keys) > len(out):
                larger = np.empty(2 * len(out) + len(keys), dtype=np.int32)
                larger[:used] = out[:used]
                out = larger
            for y in range(-1, found):
                b = present[y] if y >= 0 else np.int32(0)
                if y >= 0 and lowest(positions[a]) >= highest(positions[b]):
                    continue
                table = find_table(keys, slots, int(a), int(b))
                tested += 1
                if table >= 0:
                    used, end = test_table(keys, table, positions[a], positions[b], length, out, used)
                    tested += end - table
        unload_path(positions, present, found)
        offsets[i + 1] = used
    return offsets, out[:used], tested
