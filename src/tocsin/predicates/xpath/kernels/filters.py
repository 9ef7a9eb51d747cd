"""Evaluate paths with filters on a document: sets of elements, from the last step back to the first.

Step j of a path holds on an element if its tag and filters do and if step j + 1 holds on some element at the right
distance below. Each step marks the elements that have what it needs below them; the next one looks only at marked
elements. Marking "at this distance or more" stops at the first ancestor already marked, so that a step costs at most
one visit to each element: no document, however repetitive, makes a path cost more than steps times elements.
"""

from typing import NamedTuple

from tocsin._compile import kernel
from tocsin.arrays import Bools, Float64s, Int32s, Int64s, UInt8s
from tocsin.predicates.xpath.kernels.characters import decode, number_of
from tocsin.predicates.xpath.kernels.paths import distance_of, is_exact
from tocsin.predicates.xpath.kernels.tokens import Documents

ATTRIBUTE, TEXT, STRING, PATH = range(4)
"""Kinds of filters: on an attribute, on a text child, on the string value, on a path below."""
NO_OPERATOR, EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(7)
FILTER_KIND, FILTER_NAME, FILTER_OPERATOR, FILTER_BY_NUMBER, FILTER_NUMBER = range(5)
FILTER_LENGTH, FILTER_TEXT = 6, 7
"""Fields of a filter. The number has two fields; the text is UTF-8, four bytes a field, `FILTER_LENGTH` bytes long."""
FILTER_PATH = 1
"""The field of a filter of kind PATH that has the number of its path."""
NOW, DOCUMENT, SLOTS_USED, ROWS_SEEN = range(4)
"""Fields of `Scratch.clock`: the mark of now, the mark of the document, the slots in use, the rows looked at."""


class CatalogTables(NamedTuple):
    """The tables of a catalog: sequences of integers, and where each starts.

    A structure has two integers a step, tag and gap. The fields of a filter are named above; `filter_bytes` are the
    filters as bytes, and `numbers` the constant of each. A path is a structure, then for each filter its step and its
    number.
    """

    structures: Int32s
    structure_offsets: Int32s
    filters: Int32s
    filter_offsets: Int32s
    filter_bytes: UInt8s
    numbers: Float64s
    paths: Int32s
    path_offsets: Int32s


class Scratch(NamedTuple):
    """Work space of the evaluation, reused from document to document.

    `mark` of a row is set if it equals the current `clock`, so that marks need no clearing. `by_tag` lists the rows of
    the current document by tag, from `tag_start[tag]`. `truth[slot]` says on which of its rows the nested path that is
    held in a slot starts; `slot_of_path` is where a path is held, if its `slot_clock` is that of the document. `stack`
    has nested paths that wait for others. `value` has room for the longest value, `numbers` are the values of the
    document's attributes. `wanted` has room for all paths with filters.
    """

    mark: Int64s
    clock: Int64s
    rows: Int32s
    by_tag: Int32s
    tag_start: Int32s
    truth: Bools
    slot_of_path: Int32s
    slot_clock: Int64s
    stack: Int32s
    value: UInt8s
    numbers: Float64s
    wanted: Int32s


@kernel
def sort_by_tag(documents: Documents, document: int, scratch: Scratch) -> None:
    """Prepare the scratch for one document: its rows by tag, its attributes as numbers, no path held."""
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
    begin = documents.attributes[first]
    for i in range(begin, documents.attributes[last]):
        stop = documents.attribute_stop[i]
        length = decode(documents.data, documents.attribute_start[i], stop, True, scratch.value, 0)
        scratch.numbers[i - begin] = number_of(scratch.value, length)
    _forget_paths(scratch)


@kernel
def _forget_paths(scratch: Scratch) -> None:
    scratch.clock[DOCUMENT] += 1
    scratch.clock[SLOTS_USED] = 0


@kernel
def _compare(left: float, right: float, operator: int) -> bool:
    if operator == EQUAL:
        return left == right
    if operator == UNEQUAL:
        return left != right
    if operator == LESS:
        return left < right
    if operator == LESS_EQUAL:
        return left <= right
    if operator == GREATER:
        return left > right
    return left >= right


@kernel
def same_text(tables: CatalogTables, condition: int, value: UInt8s, length: int) -> bool:
    """Tell whether value[:length] is the string of a filter."""
    at = tables.filter_offsets[condition]
    if tables.filters[at + FILTER_LENGTH] != length:
        return False
    text = 4 * (at + FILTER_TEXT)
    same = True
    i = 0
    while same and i < length:
        same = bool(tables.filter_bytes[text + i] == value[i])
        i += 1
    return same


@kernel
def _value_holds(tables: CatalogTables, condition: int, value: UInt8s, length: int) -> bool:
    """Compare value[:length] with the constant of a filter."""
    at = tables.filter_offsets[condition]
    operator = tables.filters[at + FILTER_OPERATOR]
    if tables.filters[at + FILTER_BY_NUMBER]:
        return _compare(number_of(value, length), tables.numbers[condition], operator)
    return bool(same_text(tables, condition, value, length) == (operator == EQUAL))


@kernel
def _filter_holds(tables: CatalogTables, condition: int, documents: Documents, row: int, value: UInt8s) -> bool:
    """Tell whether a filter on an attribute as a string, on a text child or on the string value holds on a row."""
    at = tables.filter_offsets[condition]
    kind = tables.filters[at + FILTER_KIND]
    if kind == ATTRIBUTE:
        for i in range(documents.attributes[row], documents.attributes[row + 1]):
            if documents.attribute_name[i] == tables.filters[at + FILTER_NAME]:
                start, stop = documents.attribute_start[i], documents.attribute_stop[i]
                length = decode(documents.data, start, stop, True, value, 0)
                return _value_holds(tables, condition, value, length)
        return False
    length = 0
    for i in range(documents.text_first[row], documents.text_stop[row]):
        start, stop = documents.text_start[i], documents.text_end[i]
        if kind == STRING:
            length = decode(documents.data, start, stop, False, value, length)
        elif documents.text_parent[i] == row:
            if tables.filters[at + FILTER_OPERATOR] == NO_OPERATOR:
                return True
            length = decode(documents.data, start, stop, False, value, 0)
            if _value_holds(tables, condition, value, length):
                return True
    return kind == STRING and _value_holds(tables, condition, value, length)


@kernel
def evaluate_paths(
    tables: CatalogTables, filtered: Int32s, count: int, documents: Documents, document: int, scratch: Scratch
) -> int:
    """Keep, of the first `count` rows of `filtered` that are wanted, those whose path holds; return how many they are.

    The scratch was prepared for the document by `sort_by_tag`; `scratch.wanted` has the rows, first all, then those
    kept. One call evaluates all paths, with the common filters in its own loop: handing the arrays to a function costs
    more than a filter does. The paths in a path's filters are evaluated before it, from a stack.
    """
    base, bound = documents.bounds[document], documents.bounds[document + 1]
    kept = 0
    for i in range(count):
        depth = 0
        scratch.stack[0] = filtered[scratch.wanted[i], 0]
        while depth >= 0:
            path = scratch.stack[depth]
            first_filter = tables.path_offsets[path] + 1
            filter_at = tables.path_offsets[path + 1]
            waiting = -1
            for at in range(first_filter, filter_at, 2):
                start = tables.filter_offsets[tables.paths[at + 1]]
                if tables.filters[start + FILTER_KIND] == PATH:
                    inner = tables.filters[start + FILTER_PATH]
                    if scratch.slot_clock[inner] != scratch.clock[DOCUMENT]:
                        waiting = inner
                        break
            if waiting >= 0:
                depth += 1
                scratch.stack[depth] = waiting
                continue

            # From the last step to the first: rows on which the step holds, then marks on what may stand above them.
            structure = tables.paths[first_filter - 1]
            first_step = tables.structure_offsets[structure]
            step = (tables.structure_offsets[structure + 1] - first_step) // 2 - 1
            bottom = step
            needed = scratch.clock[NOW]
            while step >= 0:
                tag = tables.structures[first_step + 2 * step]
                gap = tables.structures[first_step + 2 * step + 1]
                stop_filter = filter_at
                while filter_at > first_filter and tables.paths[filter_at - 2] == step:
                    filter_at -= 2
                begin = base + 1 if tag < 0 else scratch.tag_start[tag]
                end = bound if tag < 0 else scratch.tag_start[tag + 1]
                found = 0
                scratch.clock[ROWS_SEEN] += end - begin
                for place in range(begin, end):
                    row = place if tag < 0 else scratch.by_tag[place]
                    holds = step == bottom or scratch.mark[row - base] == needed
                    at = filter_at
                    while holds and at < stop_filter:
                        condition = tables.paths[at + 1]
                        at += 2
                        start = tables.filter_offsets[condition]
                        kind = tables.filters[start + FILTER_KIND]
                        operator = tables.filters[start + FILTER_OPERATOR] if kind != PATH else NO_OPERATOR
                        if kind == PATH:
                            slot = scratch.slot_of_path[tables.filters[start + FILTER_PATH]]
                            holds = scratch.truth[slot, row - base]
                        elif kind == ATTRIBUTE and (
                            operator == NO_OPERATOR or tables.filters[start + FILTER_BY_NUMBER]
                        ):
                            holds = False
                            for k in range(documents.attributes[row], documents.attributes[row + 1]):
                                if documents.attribute_name[k] == tables.filters[start + FILTER_NAME]:
                                    number = scratch.numbers[k - documents.attributes[base]]
                                    holds = operator == NO_OPERATOR or _compare(
                                        number, tables.numbers[condition], operator
                                    )
                                    break
                        else:
                            holds = _filter_holds(tables, condition, documents, row, scratch.value)
                    if holds:
                        scratch.rows[found] = row
                        found += 1
                scratch.clock[NOW] += 1
                needed = scratch.clock[NOW]
                if found == 0:
                    break
                distance = distance_of(gap)
                for k in range(found):
                    row = scratch.rows[k]
                    if distance > documents.level[row]:
                        continue
                    for _ in range(distance):
                        row = documents.parent[row]
                    if is_exact(gap):
                        scratch.mark[row - base] = needed
                    else:
                        while row >= 0 and scratch.mark[row - base] != needed:
                            scratch.clock[ROWS_SEEN] += 1
                            scratch.mark[row - base] = needed
                            row = documents.parent[row]
                step -= 1

            if depth == 0:
                if scratch.mark[0] == needed:
                    scratch.wanted[kept] = scratch.wanted[i]
                    kept += 1
            elif scratch.clock[SLOTS_USED] == len(scratch.truth):
                # All slots are taken by the paths of other expressions: forget them and start this one again.
                _forget_paths(scratch)
                depth = 1
            else:
                slot = scratch.clock[SLOTS_USED]
                scratch.clock[SLOTS_USED] += 1
                for row in range(bound - base):
                    scratch.truth[slot, row] = scratch.mark[row] == needed
                scratch.slot_of_path[path] = slot
                scratch.slot_clock[path] = scratch.clock[DOCUMENT]
            depth -= 1
    return kept
