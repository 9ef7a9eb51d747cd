"""Predicates on attributes: which of them hold on each element of a document.

A predicate is a tag, 0 for any, and a filter on one of its attributes. Those on one attribute of one tag are a table;
in a table the predicates of one operator are neighbours, in the order of their constants, so that those that hold are a
range.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.predicates.xpath.kernels.characters import decode, number_of
from tocsin.predicates.xpath.kernels.filters import ATTRIBUTE, Tables
from tocsin.predicates.xpath.kernels.tokens import Bytes, Documents, hash_bytes

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

EQUAL, TEXTUAL, NEVER = 1, 7, 9
OPERATORS = NEVER + 1
"""The attribute is there; = != < <= > >= on numbers; = != on strings; an order with what is no number."""
TAG_SHIFT = 20


class AttributeTables(NamedTuple):
    """Predicates on attributes in the order of table, operator and constant.

    `keys` are the tables, tag and name of each, and `slots` a hash table of their numbers. The predicates of operator o
    in table t begin at starts[OPERATORS * t + o]. `constants` are numbers, or hashes of strings.
    """

    keys: Longs
    slots: Ints
    starts: Ints
    constants: Floats
    filters: Ints


@kernel
def inline_filters(tables: Tables, chosen: Ints, wildcards: bool) -> tuple[Ints, Ints, Longs, Bools]:
    """The filters of the chosen paths that are predicates on the attributes of a tag, or with `wildcards` of any, 0.

    Returns for each its place in `chosen`, its step, its tag and filter in one integer, and which of the paths have no
    others.
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
            if (tag < 0 and not wildcards) or tables.filters[tables.filter_offsets[condition]] != ATTRIBUTE:
                whole[i] = False
                continue
            owners[used] = i
            places[used] = tables.paths[at]
            keys[used] = (int(max(tag, 0)) << 32) | int(condition)
            used += 1
    return owners[:used].copy(), places[:used].copy(), keys[:used].copy(), whole


@kernel
def text_hashes(tables: Tables, conditions: Ints) -> Floats:
    """The hash of the string that each filter compares with, which a float holds exactly."""
    hashes = np.empty(len(conditions), dtype=np.float64)
    for i in range(len(conditions)):
        at = tables.filter_offsets[conditions[i]]
        start = 4 * (at + 7)
        hashes[i] = float(hash_bytes(tables.filter_bytes, start, start + tables.filters[at + 6], 0))
    return hashes


@kernel
def _table_slot(keys: Longs, slots: Ints, key: int) -> int:
    mask = len(slots) - 1
    slot = ((key ^ (key >> 17)) * 40503) & mask
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def enter_tables(keys: Longs, slots: Ints) -> None:
    """Fill the hash table, whose slots are all -1."""
    for table in range(len(keys)):
        slots[_table_slot(keys, slots, keys[table])] = table


@kernel
def _first_from(constants: Floats, begin: int, end: int, value: float, beyond: bool) -> int:
    """The first place in constants[begin:end] that is at least `value`, or, with `beyond`, more than it."""
    while begin < end:
        middle = (begin + end) // 2
        if constants[middle] < value or (beyond and constants[middle] == value):
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def _same_text(tables: Tables, condition: int, value: Bytes, length: int) -> bool:
    at = tables.filter_offsets[condition]
    if tables.filters[at + 6] != length:
        return False
    text = 4 * (at + 7)
    same = True
    for i in range(length):
        same = same and tables.filter_bytes[text + i] == value[i]
    return same


@kernel
def hold_attributes(documents: Documents, attributes: AttributeTables, tables: Tables) -> tuple[Longs, Ints]:
    """The predicates on attributes that hold on each row, from offsets[row] to offsets[row + 1]."""
    tags, firsts, names = documents.tag, documents.attributes, documents.attribute_name
    begins, stops = documents.attribute_start, documents.attribute_stop
    keys, slots, starts, constants, filters = attributes
    rows = len(tags)
    offsets = np.zeros(rows + 1, dtype=np.int64)
    out = np.empty(1024, dtype=np.int32)
    longest = 0
    for i in range(len(begins)):
        longest = max(longest, stops[i] - begins[i])
    value = np.empty(longest + 8, dtype=np.uint8)
    used = 0
    for row in range(rows):
        for i in range(firsts[row], firsts[row + 1]):
            length = -1
            number, hashed = np.nan, 0.0
            for tag in range(0, tags[row] + 1, max(tags[row], 1)):
                # The predicates on any tag, then those on this one.
                table = slots[_table_slot(keys, slots, (int(tag) << TAG_SHIFT) | int(names[i]))]
                if table < 0:
                    continue
                if length < 0:
                    length = decode(documents.data, begins[i], stops[i], True, value, 0)
                    number = number_of(value, length)
                    hashed = float(hash_bytes(value, 0, length, 0))
                first = OPERATORS * int(table)
                most = starts[first + OPERATORS] - starts[first]
                if used + most > len(out):
                    larger = np.empty(2 * len(out) + most, dtype=np.int32)
                    larger[:used] = out[:used]
                    out = larger
                for operator in range(NEVER):
                    begin, end = int(starts[first + operator]), int(starts[first + operator + 1])
                    if begin == end:
                        continue
                    here = hashed if operator >= TEXTUAL else number
                    low, high = begin, end
                    if operator in (1, 2, 7, 8):
                        low = _first_from(constants, begin, end, here, False)
                        high = _first_from(constants, low, end, here, True)
                    elif operator > 0 and np.isnan(number):
                        high = begin
                    elif operator in (3, 4):
                        low = _first_from(constants, begin, end, here, operator == 3)
                    elif operator in (5, 6):
                        high = _first_from(constants, begin, end, here, operator == 6)
                    unequal = operator in (2, 8)
                    if unequal:
                        used = _write_range(begin, low, out, used)
                    if operator < TEXTUAL and not unequal:
                        used = _write_range(low, high, out, used)
                    elif operator >= TEXTUAL:
                        # Strings with one hash are compared; numbers between low and high are equal, so not unequal.
                        for predicate in range(low, high):
                            if _same_text(tables, filters[predicate], value, length) != unequal:
                                out[used] = predicate
                                used += 1
                    if unequal:
                        used = _write_range(high, end, out, used)
        offsets[row + 1] = used
    return offsets, out[:used].copy()


@kernel
def _write_range(begin: int, end: int, out: Ints, used: int) -> int:
    """Write the numbers from `begin` up to `end`; returns the place behind the last one."""
    for number in range(begin, end):
        out[used] = number
        used += 1
    return used
