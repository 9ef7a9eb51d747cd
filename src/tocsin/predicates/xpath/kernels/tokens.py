"""From the bytes of well-formed XML documents to arrays of elements, attributes and texts.

The bytes have been read by libxml2, which found them well-formed, without a document type, without CDATA sections and
with plain line feeds; the loops below rely on that.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s, UInt8s
from tocsin.predicates.xpath.kernels.characters import (
    APOSTROPHE,
    BANG,
    CLOSING_BRACE,
    COLON,
    EQUALS,
    GREATER_THAN,
    LESS_THAN,
    MINUS,
    OPENING_BRACE,
    QUESTION,
    QUOTE,
    SLASH,
    SPACE,
    decode,
)
from tocsin.predicates.xpath.kernels.hashing import hash_byte, hash_bytes

DOCUMENT_TAG = -2
"""The tag of the row that stands for a document itself."""
PREFIX_START, PREFIX_STOP, URI_START, URI_STOP, BOUND_LEVEL = range(5)
"""Columns of a namespace binding: a slice of the bytes, a slice of `uris`, the level of the element with it."""
NAME_START, NAME_STOP, VALUE_START, VALUE_STOP = range(4)
"""Columns of an attribute that is read but not yet resolved."""
XML_PREFIX = 3
"""The length of the prefix ``xml``, which is bound without a declaration."""
_XMLNS = np.frombuffer(b"xmlns", dtype=np.uint8)
_FIRST_ROOM = 16


class Names(NamedTuple):
    """The names that expressions mention: name n is ``data[offsets[n]:offsets[n + 1]]``.

    A name is UTF-8 in Clark notation, ``{uri}local``. `slots` is a hash table of the ids; id 0 stands for the names
    that no expression mentions, and for a free slot.
    """

    data: UInt8s
    offsets: Int32s
    slots: Int32s


class Documents(NamedTuple):
    """A batch of documents. Rows are elements in document order; each document starts with a row for itself.

    The rows of document d are bounds[d]:bounds[d + 1]. `tag` is the id of an element's name, 0 if no expression
    mentions it. Attributes of a row lie from `attributes[row]` to `attributes[row + 1]`; those that no expression
    mentions are left out. The texts below a row, at any depth, lie from `text_first[row]` to `text_stop[row]`. Values
    are slices of `data`, references not yet decoded.
    """

    data: UInt8s
    bounds: Int32s
    tag: Int32s
    parent: Int32s
    level: Int32s
    attributes: Int32s
    attribute_name: Int32s
    attribute_start: Int32s
    attribute_stop: Int32s
    text_first: Int32s
    text_stop: Int32s
    text_parent: Int32s
    text_start: Int32s
    text_end: Int32s


@kernel
def enter_names(names: Names) -> None:
    """Fill the hash table of the names, whose slots are all 0."""
    mask = len(names.slots) - 1
    for name in range(1, len(names.offsets) - 1):
        code = hash_bytes(names.data, names.offsets[name], names.offsets[name + 1], 0)
        slot = (code ^ (code >> 15)) & mask
        while names.slots[slot] > 0:
            slot = (slot + 1) & mask
        names.slots[slot] = name


@kernel
def _find_name(names: Names, data: UInt8s, start: int, stop: int, uris: UInt8s, uri_start: int, uri_stop: int) -> int:
    """Return the id of the name data[start:stop] in the namespace uris[uri_start:uri_stop]; 0 if it is not known."""
    spaced = uri_stop > uri_start
    code = 0
    if spaced:
        code = hash_byte(code, OPENING_BRACE)
        code = hash_bytes(uris, uri_start, uri_stop, code)
        code = hash_byte(code, CLOSING_BRACE)
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
                same = names.data[first] == OPENING_BRACE and names.data[first + prefix - 1] == CLOSING_BRACE
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
    names: Names, data: UInt8s, start: int, stop: int, attribute: bool, uris: UInt8s, bindings: Int64s, bound: int
) -> int:
    """Return the id of a name as written, in the namespace that the innermost of the first `bound` bindings gives it.

    A default namespace is a binding of the empty prefix; it is not one for attributes.
    """
    colon = start
    while colon < stop and data[colon] != COLON:
        colon += 1
    plain = colon == stop
    if plain and (attribute or bound == 1):
        return _find_name(names, data, start, stop, uris, 0, 0)
    width = 0 if plain else colon - start
    local = start if plain else colon + 1
    for row in range(bound - 1, -1, -1):
        if bindings[row, PREFIX_STOP] - bindings[row, PREFIX_START] == width:
            same = True
            for i in range(width):
                # The prefix of the first binding, xml, is not written in the document but at the start of `uris`.
                there = uris[i] if row == 0 else data[bindings[row, PREFIX_START] + i]
                if there != data[start + i]:
                    same = False
                    break
            if same:
                return _find_name(names, data, local, stop, uris, bindings[row, URI_START], bindings[row, URI_STOP])
    return _find_name(names, data, local, stop, uris, 0, 0)


@kernel
def _declares_namespace(data: UInt8s, start: int, stop: int) -> bool:
    """Tell whether the attribute name data[start:stop] is ``xmlns`` or begins with ``xmlns:``."""
    for i in range(len(_XMLNS)):
        if start + i == stop or data[start + i] != _XMLNS[i]:
            return False
    return stop - start == len(_XMLNS) or data[start + len(_XMLNS)] == COLON


@kernel
def tokenize(
    documents: Documents, starts: Int64s, opens: Int64s, names: Names, uris: UInt8s, reserved: int, max_depth: int
) -> Int64s:
    """Fill the arrays of `documents`; return the depth of each document, then the rows, attributes and texts used.

    Document k is data[starts[k]:starts[k + 1]]; `opens` are the places of ``<`` in all of them. The first
    `reserved` bytes of `uris` are ``xml`` and its namespace; behind them is room for the namespaces of one document. A
    document deeper than `max_depth` keeps only the row for itself.
    """
    data, bounds, tags, parents, levels = documents[:5]
    attributes, attribute_name, attribute_start, attribute_stop = documents[5:9]
    text_first, text_stop, text_parent, text_start, text_end = documents[9:]
    count = len(starts) - 1
    depths = np.zeros(count + 3, dtype=np.int64)
    stack = np.zeros(max_depth + 2, dtype=np.int64)
    bindings = np.zeros((_FIRST_ROOM, 5), dtype=np.int64)
    pending = np.zeros((_FIRST_ROOM, 4), dtype=np.int64)
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
        bindings[0, PREFIX_START], bindings[0, PREFIX_STOP] = 0, XML_PREFIX
        bindings[0, URI_START], bindings[0, URI_STOP], bindings[0, BOUND_LEVEL] = XML_PREFIX, reserved, 0
        bound = 1
        used = reserved
        closes = False
        while i < stop:
            if data[i] != LESS_THAN:
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
            if mark == BANG:
                # A comment, from !-- to -->: document types and CDATA sections are not in these bytes.
                i += 3
                while not (data[i] == MINUS and data[i + 1] == MINUS and data[i + 2] == GREATER_THAN):
                    i += 1
                i += 3
                continue
            if mark == QUESTION:
                while not (data[i] == QUESTION and data[i + 1] == GREATER_THAN):
                    i += 1
                i += 2
                continue
            if mark == SLASH:
                while data[i] != GREATER_THAN:
                    i += 1
                i += 1
                closes = True
            else:
                begin = i
                while data[i] > SPACE and data[i] != GREATER_THAN and data[i] != SLASH:
                    i += 1
                name_stop = i
                found = 0
                empty = False
                while True:
                    while data[i] <= SPACE:
                        i += 1
                    if data[i] == GREATER_THAN:
                        i += 1
                        break
                    if data[i] == SLASH:
                        i += 2
                        empty = True
                        break
                    first = i
                    while data[i] > SPACE and data[i] != EQUALS:
                        i += 1
                    last = i
                    while data[i] != QUOTE and data[i] != APOSTROPHE:
                        i += 1
                    quote = data[i]
                    i += 1
                    value = i
                    while data[i] != quote:
                        i += 1
                    if _declares_namespace(data, first, last):
                        if bound == len(bindings):
                            bindings = _doubled(bindings)
                        bindings[bound, PREFIX_START] = min(first + len(_XMLNS) + 1, last)
                        bindings[bound, PREFIX_STOP] = last
                        bindings[bound, URI_START] = used
                        used = decode(data, value, i, True, uris, used)
                        bindings[bound, URI_STOP] = used
                        bindings[bound, BOUND_LEVEL] = level + 1
                        bound += 1
                    else:
                        if found == len(pending):
                            pending = _doubled(pending)
                        pending[found, NAME_START], pending[found, NAME_STOP] = first, last
                        pending[found, VALUE_START], pending[found, VALUE_STOP] = value, i
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
                    start, stop_name = pending[j, NAME_START], pending[j, NAME_STOP]
                    name = _resolve(names, data, start, stop_name, True, uris, bindings, bound)
                    if name > 0:
                        attribute_name[attribute] = name
                        attribute_start[attribute] = pending[j, VALUE_START]
                        attribute_stop[attribute] = pending[j, VALUE_STOP]
                        attribute += 1
                stack[level] = row
                row += 1
                closes = empty
            if closes:
                text_stop[stack[level]] = text
                level -= 1
                while bound > 1 and bindings[bound - 1, BOUND_LEVEL] > level:
                    bound -= 1
                    used = bindings[bound, URI_START]
                closes = False
        text_stop[own] = text
        depths[k] = deepest
    bounds[count] = row
    attributes[row] = attribute
    depths[count], depths[count + 1], depths[count + 2] = row, attribute, text
    return depths


@kernel
def _doubled(rows: Int64s) -> Int64s:
    larger = np.zeros((2 * len(rows), rows.shape[1]), dtype=np.int64)
    for row in range(len(rows)):
        for column in range(rows.shape[1]):
            larger[row, column] = rows[row, column]
    return larger
