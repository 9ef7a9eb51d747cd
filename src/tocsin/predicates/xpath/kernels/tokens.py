"""From the bytes of well-formed XML documents to arrays of elements, attributes and texts.

The bytes have been read by libxml2, which found them well-formed, without a document type, without CDATA sections and
with plain line feeds; the loops below rely on that.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.predicates.xpath.kernels.characters import decode

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

DOCUMENT_TAG = -2


class Names(NamedTuple):
    """The names that expressions mention: UTF-8 bytes, where each starts, and a hash table of their ids."""

    data: Bytes
    offsets: Ints
    slots: Ints


class Documents(NamedTuple):
    """A batch of documents. Rows are elements in document order; each document starts with a row for itself.

    `end` is the row after the last descendant. Attributes of a row lie from `attributes[row]` to `attributes[row + 1]`;
    those that no expression mentions are left out. The texts below a row, at any depth, lie from `text_first[row]` to
    `text_stop[row]`. Values are slices of `data`, references not yet decoded.
    """

    data: Bytes
    bounds: Ints
    tag: Ints
    parent: Ints
    level: Ints
    end: Ints
    attributes: Ints
    attribute_name: Ints
    attribute_start: Ints
    attribute_stop: Ints
    text_first: Ints
    text_stop: Ints
    text_parent: Ints
    text_start: Ints
    text_end: Ints


@kernel
def hash_bytes(data: Bytes, start: int, stop: int, code: int) -> int:
    """Continue the hash `code`, 32 bits wide, over data[start:stop]."""
    for i in range(start, stop):
        code = ((code ^ int(data[i])) * 16777619) & 0xFFFFFFFF
    return code


@kernel
def enter_names(names: Names) -> None:
    """Fill the hash table of the names; id 0 stands for unknown names and is not entered."""
    mask = len(names.slots) - 1
    for name in range(1, len(names.offsets) - 1):
        code = hash_bytes(names.data, names.offsets[name], names.offsets[name + 1], 0)
        slot = (code ^ (code >> 15)) & mask
        while names.slots[slot] > 0:
            slot = (slot + 1) & mask
        names.slots[slot] = name


@kernel
def _find_name(names: Names, data: Bytes, start: int, stop: int, uris: Bytes, uri_start: int, uri_stop: int) -> int:
    """The id of the name data[start:stop] in the namespace uris[uri_start:uri_stop], 0 if no expression mentions it."""
    spaced = uri_stop > uri_start
    code = 0
    if spaced:
        code = (123 * 16777619) & 0xFFFFFFFF
        code = hash_bytes(uris, uri_start, uri_stop, code)
        code = ((code ^ 125) * 16777619) & 0xFFFFFFFF
    code = hash_bytes(data, start, stop, code)
    mask = len(names.slots) - 1
    slot = (code ^ (code >> 15)) & mask
    prefix = uri_stop - uri_start + 2 if spaced else 0
    while names.slots[slot] > 0:
        name = int(names.slots[slot])
        first = names.offsets[name]
        if names.offsets[name + 1] - first == prefix + stop - start:
            same = True
            if spaced:
                same = names.data[first] == 123 and names.data[first + prefix - 1] == 125
                i = 0
                while same and i < uri_stop - uri_start:
                    same = names.data[first + 1 + i] == uris[uri_start + i]
                    i += 1
            i = 0
            while same and i < stop - start:
                same = names.data[first + prefix + i] == data[start + i]
                i += 1
            if same:
                return name
        slot = (slot + 1) & mask
    return 0


@kernel
def _resolve(
    names: Names, data: Bytes, start: int, stop: int, attribute: bool, uris: Bytes, bindings: Longs, bound: int
) -> int:
    """The id of a name as written, by the innermost of the first `bound` namespace bindings of its prefix.

    A binding is a row (prefix start, prefix stop, URI start, URI stop, level); xmlns itself has no prefix.
    """
    colon = start
    while colon < stop and data[colon] != 58:
        colon += 1
    plain = colon == stop
    if plain and (attribute or bound == 1):
        return _find_name(names, data, start, stop, uris, 0, 0)
    width = 0 if plain else colon - start
    local = start if plain else colon + 1
    for row in range(bound - 1, -1, -1):
        if bindings[row, 1] - bindings[row, 0] == width:
            same = True
            for i in range(width):
                # The prefix of the first binding, xml, is not written in the document but at the start of `uris`.
                there = uris[i] if row == 0 else data[bindings[row, 0] + i]
                if there != data[start + i]:
                    same = False
                    break
            if same:
                return _find_name(names, data, local, stop, uris, bindings[row, 2], bindings[row, 3])
    return _find_name(names, data, local, stop, uris, 0, 0)


@kernel
def tokenize(
    documents: Documents, starts: Longs, opens: Longs, names: Names, uris: Bytes, reserved: int, max_depth: int
) -> Longs:
    """Fill the arrays of `documents`; returns per document its depth, then the rows, attributes and texts used.

    Document k is data[starts[k]:starts[k + 1]]; `opens` are the places of ``<`` in all of them. `uris` begins with
    ``xml`` and its namespace, `reserved` bytes, and has room for the namespaces of one document. A document deeper than
    `max_depth` is left with no rows but its own.
    """
    data, bounds, tags, parents, levels, ends = documents[:6]
    attributes, attribute_name, attribute_start, attribute_stop = documents[6:10]
    text_first, text_stop, text_parent, text_start, text_end = documents[10:]
    count = len(starts) - 1
    depths = np.zeros(count + 3, dtype=np.int64)
    stack = np.zeros(max_depth + 2, dtype=np.int64)
    bindings = np.zeros((16, 5), dtype=np.int64)
    pending = np.zeros((16, 4), dtype=np.int64)
    row = 0
    attribute = 0
    text = 0
    next_open = 0
    for k in range(count):
        i, stop = starts[k], starts[k + 1]
        own, own_attribute, own_text = row, attribute, text
        bounds[k] = row
        tags[row] = DOCUMENT_TAG
        parents[row] = -1
        levels[row] = 0
        attributes[row] = attribute
        text_first[row] = text
        stack[0] = row
        row += 1
        level = 0
        deepest = 0
        bindings[0, 0], bindings[0, 1], bindings[0, 2], bindings[0, 3], bindings[0, 4] = 0, 3, 3, reserved, 0
        bound = 1
        used = reserved
        joined = False
        while i < stop:
            if data[i] != 60:
                begin = i
                while next_open < len(opens) and opens[next_open] < i:
                    next_open += 1
                i = min(stop, opens[next_open]) if next_open < len(opens) else stop
                if level > 0:
                    text_parent[text] = stack[level]
                    text_start[text] = begin
                    text_end[text] = i
                    text += 1
                continue
            i += 1
            mark = data[i]
            if mark == 33:
                i += 3
                while not (data[i] == 45 and data[i + 1] == 45 and data[i + 2] == 62):
                    i += 1
                i += 3
                continue
            if mark == 63:
                while not (data[i] == 63 and data[i + 1] == 62):
                    i += 1
                i += 2
                continue
            if mark == 47:
                while data[i] != 62:
                    i += 1
                i += 1
                joined = True
            else:
                begin = i
                while data[i] > 32 and data[i] != 62 and data[i] != 47:
                    i += 1
                name_stop = i
                found = 0
                empty = False
                while True:
                    while data[i] <= 32:
                        i += 1
                    if data[i] == 62:
                        i += 1
                        break
                    if data[i] == 47:
                        i += 2
                        empty = True
                        break
                    first = i
                    while data[i] > 32 and data[i] != 61:
                        i += 1
                    last = i
                    while data[i] != 34 and data[i] != 39:
                        i += 1
                    quote = data[i]
                    i += 1
                    value = i
                    while data[i] != quote:
                        i += 1
                    space = last - first >= 5 and data[first] == 120 and data[first + 1] == 109
                    space = space and data[first + 2] == 108 and data[first + 3] == 110 and data[first + 4] == 115
                    space = space and (last - first == 5 or data[first + 5] == 58)
                    if space:
                        if bound == len(bindings):
                            bindings = _doubled(bindings)
                        bindings[bound, 0] = first + 6 if last - first > 5 else last
                        bindings[bound, 1] = last
                        bindings[bound, 2] = used
                        used = decode(data, value, i, True, uris, used)
                        bindings[bound, 3] = used
                        bindings[bound, 4] = level + 1
                        bound += 1
                    else:
                        if found == len(pending):
                            pending = _doubled(pending)
                        pending[found, 0], pending[found, 1] = first, last
                        pending[found, 2], pending[found, 3] = value, i
                        found += 1
                    i += 1
                level += 1
                deepest = max(deepest, level)
                if level > max_depth:
                    row, attribute, text = own + 1, own_attribute, own_text
                    break
                tags[row] = _resolve(names, data, begin, name_stop, False, uris, bindings, bound)
                parents[row] = stack[level - 1]
                levels[row] = level
                attributes[row] = attribute
                text_first[row] = text
                for j in range(found):
                    name = _resolve(names, data, pending[j, 0], pending[j, 1], True, uris, bindings, bound)
                    if name > 0:
                        attribute_name[attribute] = name
                        attribute_start[attribute] = pending[j, 2]
                        attribute_stop[attribute] = pending[j, 3]
                        attribute += 1
                stack[level] = row
                row += 1
                joined = empty
            if joined:
                ends[stack[level]] = row
                text_stop[stack[level]] = text
                level -= 1
                while bound > 1 and bindings[bound - 1, 4] > level:
                    bound -= 1
                    used = bindings[bound, 2]
                joined = False
        ends[own] = row
        text_stop[own] = text
        depths[k] = deepest
    bounds[count] = row
    attributes[row] = attribute
    depths[count], depths[count + 1], depths[count + 2] = row, attribute, text
    return depths


@kernel
def _doubled(rows: Longs) -> Longs:
    larger = np.zeros((2 * len(rows), rows.shape[1]), dtype=np.int64)
    larger[: len(rows)] = rows
    return larger
