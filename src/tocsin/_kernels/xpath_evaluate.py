"""Evaluate paths with filters on a document: sets of elements, from the last step back to the first.

Step j of a path holds on an element if its tag and filters do and if step j + 1 holds on some element at the right
distance below. Each step marks the elements that have what it needs below them; the next one looks only at marked
elements. Marking "at this distance or more" stops at the first ancestor already marked, so that a step costs at most
one visit to each element: no document, however repetitive, makes a path cost more than steps times elements.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.xpath_text import decode, number_of
from tocsin._kernels.xpath_tokens import Documents

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

ATTRIBUTE, TEXT, STRING, PATH = 0, 1, 2, 3


class Tables(NamedTuple):
    """The tables of a catalog: sequences and where each starts."""

    structures: Ints
    structure_offsets: Ints
    filters: Ints
    filter_offsets: Ints
    paths: Ints
    path_offsets: Ints


class Scratch(NamedTuple):
    """Work space of the evaluation, reused from document to document.

    `mark` and `clock` make marks that need no clearing: a mark is set if it equals the current clock. `by_tag` lists
    the current document's rows by tag, from `tag_start[tag]`; `truth[slot]` says on which of its rows the path held in
    that slot starts, and `slot_of_path` where a path is held, if `slot_clock` is the document's.
    """

    mark: Longs
    clock: Longs
    rows: Ints
    by_tag: Ints
    tag_start: Ints
    truth: npt.NDArray[np.bool_]
    slot_of_path: Ints
    slot_clock: Longs
    stack: Ints
    value: Bytes


@kernel
def sort_by_tag(documents: Documents, document: int, scratch: Scratch) -> None:
    """Prepare the scratch for one document: its rows by tag, no path held."""
    first, last = documents.bounds[document], documents.bounds[document + 1]
    start = scratch.tag_start
    start[:] = 0
    for row in range(first + 1, last):
        start[documents.tag[row] + 1] += 1
    for tag in range(1, len(start)):
        start[tag] += start[tag - 1]
    for row in range(last - 1, first, -1):
        tag = documents.tag[row]
        start[tag + 1] -= 1
        scratch.by_tag[start[tag + 1]] = row
    # start[tag + 1] is now where the tag's rows begin; shift so that start[tag] is, and start[tag + 1] where they end.
    for tag in range(len(start) - 1):
        start[tag] = start[tag + 1]
    start[len(start) - 1] = last - first - 1
    scratch.clock[1] += 1
    scratch.clock[2] = 0


@kernel
def _compare(number: bool, left: float, order: int, right: float, operator: int) -> bool:
    """Compare by number, or by the sign of `order` for strings. Operators are 1 to 6: = != < <= > >=."""
    if not number:
        return (order == 0) == (operator == 1)
    if operator == 1:
        return left == right
    if operator == 2:
        return left != right
    if operator == 3:
        return left < right
    if operator == 4:
        return left <= right
    if operator == 5:
        return left > right
    return left >= right


@kernel
def _value_holds(filters: Ints, at: int, value: Bytes, length: int) -> bool:
    """Compare value[:length] with the constant of the filter that starts at `at`."""
    operator = filters[at + 2]
    if filters[at + 3] == 1:
        constant = filters[at + 4 : at + 6].view(np.float64)[0]
        return _compare(True, number_of(value, length), 0, constant, operator)
    size = filters[at + 6]
    order = 0
    if size != length:
        order = 1
    else:
        text = filters[at + 7 : at + 7 + (size + 3) // 4].view(np.uint8)
        for i in range(length):
            if text[i] != value[i]:
                order = 1
                break
    return _compare(False, 0.0, order, 0.0, operator)


@kernel
def _filter_holds(tables: Tables, found: int, documents: Documents, base: int, row: int, scratch: Scratch) -> bool:
    filters = tables.filters
    at = tables.filter_offsets[found]
    kind = filters[at]
    if kind == PATH:
        return scratch.truth[scratch.slot_of_path[filters[at + 1]], row - base]
    exists = filters[at + 2] == 0
    value = scratch.value
    if kind == ATTRIBUTE:
        for i in range(documents.attributes[row], documents.attributes[row + 1]):
            if documents.attribute_name[i] == filters[at + 1]:
                if exists:
                    return True
                start, stop = documents.attribute_start[i], documents.attribute_stop[i]
                length = decode(documents.data, start, stop, True, value, 0)
                return _value_holds(filters, at, value, length)
        return False
    length = 0
    for i in range(documents.text_first[row], documents.text_stop[row]):
        start, stop = documents.text_start[i], documents.text_end[i]
        if kind == STRING:
            length = decode(documents.data, start, stop, False, value, length)
        elif documents.text_parent[i] == row:
            if exists:
                return True
            length = decode(documents.data, start, stop, False, value, 0)
            if _value_holds(filters, at, value, length):
                return True
    return kind == STRING and _value_holds(filters, at, value, length)


@kernel
def _evaluate(tables: Tables, path: int, documents: Documents, document: int, scratch: Scratch) -> bool:
    """Mark, with the current clock, the rows below which the path holds; the paths in its filters are held in slots."""
    base, last = documents.bounds[document], documents.bounds[document + 1]
    first_filter = tables.path_offsets[path] + 1
    filter_at = tables.path_offsets[path + 1]
    structure = tables.paths[first_filter - 1]
    first_step = tables.structure_offsets[structure]
    step = (tables.structure_offsets[structure + 1] - first_step) // 2 - 1
    needed = scratch.clock[0]
    bottom = True
    while step >= 0:
        tag = tables.structures[first_step + 2 * step]
        gap = tables.structures[first_step + 2 * step + 1]
        exact, distance = gap & 1, gap >> 1
        stop_filter = filter_at
        while filter_at > first_filter and tables.paths[filter_at - 2] == step:
            filter_at -= 2
        begin = base + 1 if tag < 0 else scratch.tag_start[tag]
        end = last if tag < 0 else scratch.tag_start[tag + 1]
        count = 0
        for place in range(begin, end):
            row = place if tag < 0 else scratch.by_tag[place]
            holds = bottom or scratch.mark[row - base] == needed
            at = filter_at
            while holds and at < stop_filter:
                holds = _filter_holds(tables, tables.paths[at + 1], documents, base, row, scratch)
                at += 2
            if holds:
                scratch.rows[count] = row
                count += 1
        if count == 0:
            return False
        scratch.clock[0] += 1
        needed = scratch.clock[0]
        bottom = False
        for k in range(count):
            row = scratch.rows[k]
            if distance > documents.level[row]:
                continue
            for _ in range(distance):
                row = documents.parent[row]
            if exact == 1:
                scratch.mark[row - base] = needed
            else:
                while row >= 0 and scratch.mark[row - base] != needed:
                    scratch.mark[row - base] = needed
                    row = documents.parent[row]
        step -= 1
    return True


@kernel
def path_holds(tables: Tables, path: int, documents: Documents, document: int, scratch: Scratch) -> bool:
    """Whether a path holds on a document for which the scratch is prepared."""
    base = documents.bounds[document]
    size = documents.bounds[document + 1] - base
    depth = 0
    scratch.stack[0] = path
    while True:
        current = scratch.stack[depth]
        waiting = -1
        for at in range(tables.path_offsets[current] + 1, tables.path_offsets[current + 1], 2):
            start = tables.filter_offsets[tables.paths[at + 1]]
            if tables.filters[start] == PATH:
                inner = tables.filters[start + 1]
                if scratch.slot_clock[inner] != scratch.clock[1]:
                    waiting = inner
                    break
        if waiting >= 0:
            depth += 1
            scratch.stack[depth] = waiting
            continue
        found = _evaluate(tables, current, documents, document, scratch)
        if depth == 0:
            return found and scratch.mark[0] == scratch.clock[0]
        if scratch.clock[2] == len(scratch.truth):
            # All slots are taken by the paths of other expressions: forget them and start this one again.
            scratch.clock[1] += 1
            scratch.clock[2] = 0
            depth = 0
            continue
        slot = scratch.clock[2]
        scratch.clock[2] += 1
        for row in range(size):
            scratch.truth[slot, row] = found and scratch.mark[row] == scratch.clock[0]
        scratch.slot_of_path[current] = slot
        scratch.slot_clock[current] = scratch.clock[1]
        depth -= 1
