"""GPX-Matcher's encoding: expressions as conjunctions of predicates, documents as publications.

Four kinds of predicates, written as in the paper (M. Sadoghi, I. Burcea, H.-A. Jacobsen: GPX-Matcher, EDBT 2011): the
position of a tag, ``p(a) = 1`` or ``p(a) >= 1``; its distance to the end, ``end(a) >= 2``; the distance of two tags,
``d(a, b) = 1`` or ``d(a, b) >= 1``; and for wildcards only, ``length >= 3``. The k-th step with one tag is ``a^k``.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from tocsin._compile import kernel, lowest_bit
from tocsin.arrays import Bools, Int32s, Int64s, UInt64s
from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.expression import XPath
from tocsin.predicates.xpath.filtered_paths import encode_tags
from tocsin.predicates.xpath.kernels.guards import TagConjunctions
from tocsin.predicates.xpath.kernels.hashing import with_room
from tocsin.predicates.xpath.kernels.paths import distinct_nodes, highest_bit, position_bit
from tocsin.predicates.xpath.kernels.predicate_tables import (
    FIRST_OCCURRENCE,
    FIRST_SHIFT,
    KIND_SHIFT,
    MAX_KIND,
    MAX_OCCURRENCE,
    MAX_TAG,
    MAX_VALUE,
    SECOND_OCCURRENCE,
    SECOND_SHIFT,
    TagPredicates,
    find_table,
    judge_table,
)
from tocsin.predicates.xpath.kernels.tokens import Documents

_FORMS: Final = (
    "p({a}) = {v}",
    "p({a}) >= {v}",
    "end({a}) >= {v}",
    "d({a}, {b}) = {v}",
    "d({a}, {b}) >= {v}",
    "length >= {v}",
)


class Publications(NamedTuple):
    """The distinct paths of documents and the predicates that hold on each.

    Paths of document d are numbered from documents[d] to documents[d + 1]; path i ends in the element rows[i] and
    satisfies the predicates ids[offsets[i]:offsets[i + 1]] on its tags. Each row of a path adds the predicates
    attributes[attribute_offsets[row]:attribute_offsets[row + 1]] on its attributes, if there are any; they are numbered
    behind those on tags. `tested` says how many predicates were tested to find all these.
    """

    documents: Int64s
    rows: Int32s
    offsets: Int64s
    ids: Int32s
    attribute_offsets: Int64s
    attributes: Int32s
    tested: int


def encode(expressions: Sequence[XPath]) -> tuple[TagConjunctions, Catalog]:
    """Encode expressions of one path, one conjunction each in their order; filters are left to the document.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> conjunctions, catalog = encode([parse_xpath("/a/a/*/*"), parse_xpath("a//b/c")])
    >>> describe(conjunctions, list(catalog.names))
    [['p(a) = 1', 'd(a, a^2) = 1', 'end(a^2) >= 2'], ['d(a, b) >= 1', 'd(b, c) = 1']]
    """
    catalog, paths = Catalog.build([expression.paths[0] for expression in expressions])
    return encode_tags(catalog, catalog.structure_of_paths()[paths]), catalog


def describe(conjunctions: TagConjunctions, names: Sequence[str]) -> list[list[str]]:
    """Return each conjunction in the paper's notation; names are those of the catalog, in the order of their ids."""
    texts = [_describe(int(key), names) for key in conjunctions.predicates.keys]
    return [[texts[i] for i in conjunctions.ids[a:b]] for a, b in pairwise(conjunctions.offsets)]


def _describe(key: int, names: Sequence[str]) -> str:
    def tag(shift: int, occurrence_shift: int) -> str:
        number = key >> shift & MAX_TAG
        occurrence = key >> occurrence_shift & MAX_OCCURRENCE
        return (names[number - 1] if number else "") + (f"^{occurrence}" if occurrence > 1 else "")

    first, second = tag(FIRST_SHIFT, FIRST_OCCURRENCE), tag(SECOND_SHIFT, SECOND_OCCURRENCE)
    return _FORMS[key >> KIND_SHIFT & MAX_KIND].format(a=first, b=second, v=key & MAX_VALUE)


def publish_documents(
    documents: Documents, predicates: TagPredicates, tags: int, attributes: tuple[Int64s, Int32s] | None = None
) -> Publications:
    """Turn documents into publications: phase 1 of GPX-Matcher.

    `attributes` are the predicates on attributes that hold on each row: rows that have any are on paths of their own.
    """
    offsets, held = attributes or (np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32))
    paths, rows = distinct_paths(documents, np.diff(offsets) > 0)
    starts, ids, tested = publish(documents, rows, predicates, tags)
    return Publications(paths, rows, starts, ids, offsets, held, tested)


@kernel
def distinct_paths(documents: Documents, apart: Bools) -> tuple[Int64s, Int32s]:
    """Return the `distinct_nodes` that are leaves: where those of each document start, and the row that ends each."""
    offsets, rows, heights = distinct_nodes(documents, apart)
    leaves = np.cumsum(heights == 0)
    starts = np.zeros(len(offsets), dtype=np.int64)
    for document in range(1, len(offsets)):
        starts[document] = leaves[offsets[document] - 1] if offsets[document] > 0 else 0
    return starts, rows[heights == 0]


@kernel
def repeats(positions: np.uint64) -> bool:
    """Tell whether a tag stands more than once on a path."""
    return bool(positions != 0 and positions & (positions - np.uint64(1)) != 0)


@kernel
def load_path(documents: Documents, row: int, positions: UInt64s, tags: Int32s) -> int:
    """Add the path that ends at `row` to `positions`; write its distinct known tags; return how many they are."""
    found = 0
    while documents.level[row] > 0:
        tag = documents.tag[row]
        if tag > 0:
            if positions[tag] == 0:
                tags[found] = tag
                found += 1
            positions[tag] |= position_bit(documents.level[row])
        row = documents.parent[row]
    return found


@kernel
def unload_path(positions: UInt64s, tags: Int32s, found: int) -> None:
    """Clear what `load_path` set."""
    for i in range(found):
        positions[tags[i]] = 0


@kernel
def publish(documents: Documents, rows: Int32s, predicates: TagPredicates, tags: int) -> tuple[Int64s, Int32s, int]:
    """Return the predicates that hold on each path that ends in `rows`: for the paper, its publications taken together.

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
            out = with_room(out, used, len(keys))
            for y in range(-1, found):
                b = present[y] if y >= 0 else np.int32(0)
                if y >= 0 and lowest_bit(positions[a]) >= highest_bit(positions[b]):
                    continue
                table = find_table(keys, slots, int(a), int(b))
                tested += 1
                if table >= 0:
                    used, end = judge_table(keys, table, positions[a], positions[b], length, out, used)
                    tested += end - table
        unload_path(positions, present, found)
        offsets[i + 1] = used
    return offsets, out[:used], tested
