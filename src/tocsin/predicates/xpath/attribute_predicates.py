"""Filters on attributes as predicates of GPX-Matcher: a tag of the path has an attribute with such a value."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tocsin.predicates.xpath.kernels.attribute_tests import (
    EQUAL,
    NEVER,
    OPERATORS,
    TAG_SHIFT,
    TEXTUAL,
    AttributeTables,
    enter_tables,
    inline_filters,
    text_hashes,
)
from tocsin.predicates.xpath.kernels.filters import Tables

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class AttributePredicates:
    """The predicates on attributes of some paths: path `owners[i]` asks in its step `steps[i]` for predicate `ids[i]`.

    `ranks` are lower for those that keep out more: 0 for equality. `whole` says of each path whether these are all its
    filters; others are on values and nested paths, and on wildcards if these were left out.
    """

    tables: AttributeTables
    owners: Ints
    steps: Ints
    ids: Ints
    ranks: Ints
    whole: npt.NDArray[np.bool_]

    def tags(self) -> Ints:
        """The tag of each predicate."""
        tables = self.tables
        return np.repeat(tables.keys >> TAG_SHIFT, np.diff(tables.starts[::OPERATORS])).astype(np.int32)


def encode_attributes(tables: Tables, paths: Ints, *, wildcards: bool = False) -> AttributePredicates:
    """Encode the filters of the given paths of a catalog, those on any tag `wildcards` or not.

    Cost: linear, but for sorting the predicates.
    """
    owners, steps, keys, whole = inline_filters(tables, paths, wildcards)
    distinct, place = np.unique(keys, return_inverse=True)
    conditions = (distinct & 0xFFFFFFFF).astype(np.int32)
    at = tables.filter_offsets[conditions]
    names, operators = tables.filters[at + 1], tables.filters[at + 2].astype(np.int64)
    textual = (operators > 0) & (tables.filters[at + 3] == 0)
    constants = np.where(textual, text_hashes(tables, conditions), tables.numbers[conditions])
    # A filter without a constant has a NaN in its place; an order with NaN never holds.
    operators = np.where(textual, operators + TEXTUAL - 1, operators)
    operators = np.where((operators > 0) & np.isnan(constants), NEVER, operators)
    table_keys, table = np.unique((distinct >> 32 << TAG_SHIFT) | names, return_inverse=True)
    sections = table * OPERATORS + operators
    order = np.lexsort((constants, sections))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    slots = np.full(1 << (len(table_keys) * 3 // 2).bit_length(), -1, dtype=np.int32)
    enter_tables(table_keys, slots)
    starts = np.searchsorted(sections[order], np.arange(OPERATORS * len(table_keys) + 1)).astype(np.int32)
    encoded = AttributeTables(table_keys, slots, starts, constants[order], conditions[order])
    ranks = (operators[place] != EQUAL) & (operators[place] != TEXTUAL)
    return AttributePredicates(encoded, owners, steps, rank[place], ranks.astype(np.int32), whole)
