"""Predicates on the tags of a path and on the values of an element: which of them hold.

Both kinds are kept sorted in tables, a table for each pair of tags and for each attribute of a tag, so that a look-up
finds all predicates that a tag or an attribute concerns.

- On tags: the position of a tag, its distance to the end of the path, the distance of two tags, the length of the path.
  A predicate is one integer, a *key*: first tag, second tag, kind, the occurrence numbers of both tags, value. Sorted,
  those on one pair of tags are neighbours: these are the predicate tables of GPX-Matcher (EDBT 2011).
- On attributes: a tag, 0 for any, and a filter on one attribute of its element. In a table the predicates of one
  operator are neighbours, in the order of their constants, so that those that hold are a range. The value of an element
  and its texts are treated as attributes with names that no attribute has.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel, lowest_bit
from tocsin.arrays import Bools, Float64s, Int32s, Int64s, UInt8s
from tocsin.predicates.sort_kernel import sort_part
from tocsin.predicates.xpath.kernels.characters import decode, number_of
from tocsin.predicates.xpath.kernels.filters import (
    EQUAL,
    FILTER_KIND,
    FILTER_LENGTH,
    FILTER_TEXT,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    NO_OPERATOR,
    PATH,
    UNEQUAL,
    CatalogTables,
    same_text,
)
from tocsin.predicates.xpath.kernels.hashing import hash_bytes, key_slot, with_room
from tocsin.predicates.xpath.kernels.paths import distance_of, highest_bit, is_exact, position_bit
from tocsin.predicates.xpath.kernels.tokens import Documents

POSITION_EXACT, POSITION_FROM, END_FROM, DISTANCE_EXACT, DISTANCE_FROM, LENGTH_FROM = range(6)
"""Kinds of predicates on tags; those that end in FROM hold for their value and for larger ones."""
FIRST_SHIFT, SECOND_SHIFT, KIND_SHIFT, FIRST_OCCURRENCE, SECOND_OCCURRENCE = 42, 22, 19, 13, 7
"""Where the parts of a key stand; the value has the lowest bits."""
MAX_TAG, MAX_KIND, MAX_OCCURRENCE, MAX_VALUE = (1 << 20) - 1, 7, 63, 127
"""The largest number that each part of a key can hold."""

TEXT_EQUAL, TEXT_UNEQUAL, NEVER = 7, 8, 9
"""Operators of attribute tables behind those of filters, which compare numbers: on strings, and an order with NaN."""
OPERATORS = 10
ATTRIBUTE_TAG_SHIFT = 20
"""Where the tag stands in the key of an attribute table; the name of the attribute stands below."""
STRING_NAME, TEXT_NAME = 0, MAX_TAG
"""What stands in the place of an attribute's name for the value of an element, and for each of its text children."""
CONDITION_TAG_SHIFT = 32
"""Where the tag stands beside the number of a filter."""


class TagPredicates(NamedTuple):
    """Distinct predicates on tags in order, and a hash table from (first tag, second tag) to where a table begins."""

    keys: Int64s
    slots: Int32s


class AttributeTables(NamedTuple):
    """Predicates on attributes in the order of table, operator and constant.

    `keys` are the tables, (tag, name) of each, and `slots` a hash table of them. The predicates of operator o in table
    t begin at starts[OPERATORS * t + o]. `constants` are numbers, or hashes of strings. `filters` are the filters of
    the catalog that the predicates stand for.
    """

    keys: Int64s
    slots: Int32s
    starts: Int32s
    constants: Float64s
    filters: Int32s


@kernel
def pack(kind: int, first: int, occurrence: int, second: int, second_occurrence: int, value: int) -> int:
    """Return the key of a predicate. Values and occurrences above 63 lie beyond any path, so larger ones may be cut."""
    occurrence = min(occurrence, MAX_OCCURRENCE)
    second_occurrence = min(second_occurrence, MAX_OCCURRENCE)
    key = (
        (int(first) << FIRST_SHIFT) | (int(second) << SECOND_SHIFT) | (kind << KIND_SHIFT) | int(min(value, MAX_VALUE))
    )
    return key | (occurrence << FIRST_OCCURRENCE) | (second_occurrence << SECOND_OCCURRENCE)


@kernel
def kind_of(key: int) -> int:
    """Return the kind of a predicate on tags."""
    return (key >> KIND_SHIFT) & MAX_KIND


@kernel
def encode_structures(tables: CatalogTables, chosen: Int32s) -> tuple[Int64s, Int64s]:
    """Return the keys of each chosen structure's conjunction, in the order of its steps, and where each one starts."""
    structures, offsets = tables.structures, tables.structure_offsets
    limit = 0
    for structure in chosen:
        limit += (offsets[structure + 1] - offsets[structure]) // 2 + 2
    keys = np.empty(limit, dtype=np.int64)
    bounds = np.zeros(len(chosen) + 1, dtype=np.int64)
    used = 0
    for i in range(len(chosen)):
        start, stop = offsets[chosen[i]], offsets[chosen[i] + 1]
        before, before_occurrence = -1, 0
        exact, distance = True, 0
        first = used
        for at in range(start, stop, 2):
            tag, gap = structures[at], structures[at + 1]
            distance += distance_of(gap)
            exact = exact and is_exact(gap)
            if tag < 0:
                continue
            occurrence = 1
            for other in range(start, at, 2):
                if structures[other] == tag:
                    occurrence += 1
            if before >= 0:
                kind = DISTANCE_EXACT if exact else DISTANCE_FROM
                keys[used] = pack(kind, before, before_occurrence, tag, occurrence, distance)
            else:
                keys[used] = pack(POSITION_EXACT if exact else POSITION_FROM, tag, 1, 0, 0, distance)
            used += 1
            before, before_occurrence = tag, occurrence
            exact, distance = True, 0
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
def find_table(keys: Int64s, slots: Int32s, first: int, second: int) -> int:
    """Return where the predicates on a pair of tags begin, or on one tag if the second is 0; -1 if there are none."""
    pair = (first << (FIRST_SHIFT - SECOND_SHIFT)) | second
    return int(slots[key_slot(keys, slots, pair, SECOND_SHIFT)])


@kernel
def _from_occurrence(positions: np.uint64, number: int) -> np.uint64:
    """Return the positions without the first `number` - 1 of them."""
    for _ in range(number - 1):
        positions &= positions - np.uint64(1) if positions != 0 else positions
    return positions


@kernel
def judge_table(
    keys: Int64s, table: int, first: np.uint64, second: np.uint64, length: int, out: Int32s, used: int
) -> tuple[int, int]:
    """Write the predicates that hold of the table that begins at row `table`; its tags stand at `first` and `second`.

    Predicates on one tag are judged on a path of that `length`. Returns the place behind the last one written, and the
    row behind the table.
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
            low = _from_occurrence(first, (key >> FIRST_OCCURRENCE) & MAX_OCCURRENCE)
            high = _from_occurrence(second, (key >> SECOND_OCCURRENCE) & MAX_OCCURRENCE)
        holds = False
        if low != 0 and value <= 64:
            if kind == DISTANCE_EXACT:
                holds = value < 64 and (low << np.uint64(value)) & high != 0
            elif kind == DISTANCE_FROM:
                holds = highest_bit(high) - lowest_bit(low) >= value
            elif kind == END_FROM:
                holds = length - 1 - lowest_bit(low) >= value
            elif kind == POSITION_EXACT:
                holds = low & position_bit(value) != 0
            else:
                holds = highest_bit(low) + 1 >= value
        if holds:
            out[used] = row
            used += 1
        row += 1
    return used, row


@kernel
def inline_filters(tables: CatalogTables, chosen: Int32s, wildcards: bool) -> tuple[Int32s, Int32s, Int64s, Bools]:
    """Return the filters of the chosen paths on attributes and values of a tag, or with `wildcards` of any tag, 0.

    For each: its place in `chosen`, its step, and its tag and filter in one integer. Last comes which of the paths have
    no other filters.
    """
    limit = 0
    for path in chosen:
        limit += (tables.path_offsets[path + 1] - tables.path_offsets[path]) // 2
    owners = np.empty(limit, dtype=np.int32)
    places = np.empty(limit, dtype=np.int32)
    keys = np.empty(limit, dtype=np.int64)
    whole = np.ones(len(chosen), dtype=np.bool_)
    used = 0
    for i in range(len(chosen)):
        begin, end = tables.path_offsets[chosen[i]], tables.path_offsets[chosen[i] + 1]
        steps = tables.structure_offsets[tables.paths[begin]]
        for at in range(begin + 1, end, 2):
            tag = tables.structures[steps + 2 * tables.paths[at]]
            condition = tables.paths[at + 1]
            kind = tables.filters[tables.filter_offsets[condition] + FILTER_KIND]
            if (tag < 0 and not wildcards) or kind == PATH:
                whole[i] = False
                continue
            owners[used] = i
            places[used] = tables.paths[at]
            keys[used] = (int(max(tag, 0)) << CONDITION_TAG_SHIFT) | int(condition)
            used += 1
    return owners[:used].copy(), places[:used].copy(), keys[:used].copy(), whole


@kernel
def text_hashes(tables: CatalogTables, conditions: Int32s) -> Float64s:
    """Return the hash of the string that each filter compares with, which a float holds exactly."""
    hashes = np.empty(len(conditions), dtype=np.float64)
    for i in range(len(conditions)):
        at = tables.filter_offsets[conditions[i]]
        start = 4 * (at + FILTER_TEXT)
        hashes[i] = float(hash_bytes(tables.filter_bytes, start, start + tables.filters[at + FILTER_LENGTH], 0))
    return hashes


@kernel
def _first_from(constants: Float64s, begin: int, end: int, value: float, beyond: bool) -> int:
    """Return the first place in constants[begin:end] that is at least `value`, or with `beyond` more than it."""
    while begin < end:
        middle = (begin + end) // 2
        if constants[middle] < value or (beyond and constants[middle] == value):
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def _write_range(begin: int, end: int, out: Int32s, used: int) -> int:
    """Write the numbers from `begin` up to `end`; return the place behind the last one."""
    for number in range(begin, end):
        out[used] = number
        used += 1
    return used


@kernel
def _hold_value(
    attributes: AttributeTables,
    tables: CatalogTables,
    table: int,
    value: UInt8s,
    length: int,
    number: float,
    hashed: float,
    out: Int32s,
    used: int,
) -> int:
    """Write the predicates of a table that hold on value[:length], which is this number and has this hash."""
    starts, constants, filters = attributes.starts, attributes.constants, attributes.filters
    first = OPERATORS * int(table)
    for operator in range(NEVER):
        begin, end = int(starts[first + operator]), int(starts[first + operator + 1])
        if begin == end:
            continue
        textual = operator >= TEXT_EQUAL
        unequal = operator in (UNEQUAL, TEXT_UNEQUAL)
        here = hashed if textual else number
        low, high = begin, end
        if unequal or operator in (EQUAL, TEXT_EQUAL):
            low = _first_from(constants, begin, end, here, False)
            high = _first_from(constants, low, end, here, True)
        elif operator != NO_OPERATOR and np.isnan(number):
            high = begin
        elif operator in (LESS, LESS_EQUAL):
            low = _first_from(constants, begin, end, here, operator == LESS)
        elif operator in (GREATER, GREATER_EQUAL):
            high = _first_from(constants, begin, end, here, operator == GREATER_EQUAL)
        # For = and !=, low to high are constants equal to the value; strings with its hash are compared.
        if unequal:
            used = _write_range(begin, low, out, used)
        if textual:
            for predicate in range(low, high):
                if same_text(tables, filters[predicate], value, length) != unequal:
                    out[used] = predicate
                    used += 1
        elif not unequal:
            used = _write_range(low, high, out, used)
        if unequal:
            used = _write_range(high, end, out, used)
    return used


@kernel
def hold_attributes(documents: Documents, attributes: AttributeTables, tables: CatalogTables) -> tuple[Int64s, Int32s]:
    """Return the predicates on values that hold on each row, each once, from offsets[row] to offsets[row + 1]."""
    tags, firsts, names = documents.tag, documents.attributes, documents.attribute_name
    keys, slots, starts = attributes.keys, attributes.slots, attributes.starts
    rows = len(tags)
    offsets = np.zeros(rows + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    value = np.empty(1024, dtype=np.uint8)
    used = 0
    for row in range(rows):
        if tags[row] < 0:
            offsets[row + 1] = used
            continue
        attribute, text = firsts[row], documents.text_first[row]
        own = used
        texts = 0
        # The attributes of the row, then its value, then its text children.
        is_value = False
        while True:
            name, begin, stop = STRING_NAME, 0, 0
            if attribute < firsts[row + 1]:
                name = int(names[attribute])
                begin, stop = int(documents.attribute_start[attribute]), int(documents.attribute_stop[attribute])
                attribute += 1
            elif not is_value:
                is_value = True
            elif text < documents.text_stop[row]:
                text += 1
                if documents.text_parent[text - 1] != row:
                    continue
                name = TEXT_NAME
                begin, stop = int(documents.text_start[text - 1]), int(documents.text_end[text - 1])
                texts += 1
            else:
                break
            length = -1
            number, hashed = np.nan, 0.0
            for tag in range(0, tags[row] + 1, max(tags[row], 1)):
                # The predicates on any tag, then those on this one.
                table = slots[key_slot(keys, slots, (int(tag) << ATTRIBUTE_TAG_SHIFT) | name, 0)]
                if table < 0:
                    continue
                if length < 0:
                    room = stop - begin
                    if name == STRING_NAME:
                        room = 0
                        for i in range(documents.text_first[row], documents.text_stop[row]):
                            room += documents.text_end[i] - documents.text_start[i]
                    if room + 8 > len(value):
                        value = np.empty(2 * room + 8, dtype=np.uint8)
                    if name == STRING_NAME:
                        length = 0
                        for i in range(documents.text_first[row], documents.text_stop[row]):
                            first, last = documents.text_start[i], documents.text_end[i]
                            length = decode(documents.data, first, last, False, value, length)
                    else:
                        length = decode(documents.data, begin, stop, name != TEXT_NAME, value, 0)
                    number = number_of(value, length)
                    hashed = float(hash_bytes(value, 0, length, 0))
                first_operator = OPERATORS * int(table)
                out = with_room(out, used, starts[first_operator + OPERATORS] - starts[first_operator])
                used = _hold_value(attributes, tables, int(table), value, length, number, hashed, out, used)
        if texts > 1:
            used = _write_distinct(out, own, used)
        offsets[row + 1] = used
    return offsets, out[:used].copy()


@kernel
def _write_distinct(out: Int32s, begin: int, end: int) -> int:
    """Leave each number of out[begin:end] once, in order; return the place behind the last one."""
    if end - begin < 2:
        return end
    sort_part(out, begin, end)
    used = begin + 1
    for i in range(begin + 1, end):
        if out[i] != out[used - 1]:
            out[used] = out[i]
            used += 1
    return used
