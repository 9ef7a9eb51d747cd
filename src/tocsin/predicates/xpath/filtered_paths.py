"""Paths with filters, matched under access predicates with the filters on attributes and values inline.

A path with filters becomes the conjunction of its structure's predicates on tags and of its filters on attributes and
values, and is filed under the predicates on its last two tags, or under an equality on its last one. Filters that are
paths are left to be evaluated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Int32s, Int64s
from tocsin.invariants import check_ascending, check_fields, check_slots, check_starts, check_within, demand, under
from tocsin.predicates.xpath.catalog import Catalog, frozen, frozen_fields
from tocsin.predicates.xpath.kernels.collect import GROUP_BEGIN, GROUP_END, GROUP_PATH, ResultGroups
from tocsin.predicates.xpath.kernels.filters import (
    EQUAL,
    FILTER_BY_NUMBER,
    FILTER_KIND,
    FILTER_NAME,
    FILTER_OPERATOR,
    NO_OPERATOR,
    PATH,
    TEXT,
    CatalogTables,
)
from tocsin.predicates.xpath.kernels.guards import (
    EQUALITY,
    AttributeFilters,
    GuardedPaths,
    GuardSpace,
    PathTree,
    TagConjunctions,
    choose_guards,
    match_guarded,
)
from tocsin.predicates.xpath.kernels.hashing import LOW_32_BITS, hash_table
from tocsin.predicates.xpath.kernels.paths import distinct_nodes
from tocsin.predicates.xpath.kernels.predicate_tables import (
    ATTRIBUTE_TAG_SHIFT,
    CONDITION_TAG_SHIFT,
    END_FROM,
    KIND_SHIFT,
    MAX_KIND,
    MAX_TAG,
    MAX_VALUE,
    NEVER,
    OPERATORS,
    SECOND_SHIFT,
    TEXT_EQUAL,
    TEXT_NAME,
    AttributeTables,
    TagPredicates,
    encode_structures,
    hold_attributes,
    inline_filters,
    text_hashes,
)
from tocsin.predicates.xpath.kernels.tokens import Documents
from tocsin.predicates.xpath.structure_index import offsets_of


@dataclass
class FilteredPaths:
    """Find the paths with filters that hold on a document, or that are left to evaluate.

    The latter have filters that are paths; their structure and their other filters hold.
    """

    predicates: TagPredicates
    attributes: AttributeTables
    guarded: GuardedPaths
    _space: GuardSpace | None = None

    @classmethod
    def build(cls, catalog: Catalog, groups: ResultGroups) -> tuple["FilteredPaths", ResultGroups]:
        """Take the paths with filters out of groups; return the groups that number them as `paths_apart` does.

        Cost: linear, but for sorting.
        """
        paths = groups.filtered[:, GROUP_PATH].copy()
        structures = catalog.structure_of_paths()[paths]
        conjunctions = encode_tags(catalog, structures)
        keys, ids = conjunctions.predicates.keys, conjunctions.ids
        encoded = encode_attributes(catalog.tables, paths, wildcards=True)
        filed, guards, others = choose_guards(
            catalog.tables,
            structures,
            conjunctions,
            tables_of(keys),
            last_on_tags(conjunctions),
            encoded.filters,
            len(keys),
        )
        found = np.arange(len(paths), dtype=np.int32) + np.int32(len(groups.plain) - 1)
        found[~encoded.whole] += np.int32(len(paths))
        lengths = (keys & MAX_VALUE).astype(np.int32)[ids[conjunctions.offsets[:-1]]]
        long = np.flatnonzero(filed < 0)
        long = long[np.argsort(lengths[long], kind="stable")]
        order = np.lexsort((others, guards, filed))[len(long) :]
        guarded = GuardedPaths(
            members=offsets_of(filed[order], len(keys) + len(encoded.tables.filters)),
            guards=guards[order],
            others=others[order],
            paths=paths[order],
            found=found[order],
            lengths=lengths[long],
            long=found[long],
        )
        apart = paths_apart(groups, doubts=not encoded.whole.all()) if len(paths) else groups
        built = cls(conjunctions.predicates, encoded.tables, guarded)
        return cls.from_arrays(built.arrays()), apart

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "FilteredPaths":
        """Return what `arrays` came from, without copying them."""
        return cls(
            frozen_fields(TagPredicates, arrays, "predicates."),
            frozen_fields(AttributeTables, arrays, "attributes."),
            frozen_fields(GuardedPaths, arrays, "guarded."),
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays."""
        parts = (("predicates", self.predicates), ("attributes", self.attributes), ("guarded", self.guarded))
        return {f"{part}.{name}": array for part, fields in parts for name, array in fields._asdict().items()}

    def match(self, documents: Documents, tables: CatalogTables, tags: int, evidence: Int64s) -> tuple[Int64s, Int32s]:
        """Return what is found in each document, in any order, each once."""
        offsets, held = hold_attributes(documents, self.attributes, tables)
        tree = PathTree(*distinct_nodes(documents, np.diff(offsets) > 0), offsets, held)
        space = self._space
        if space is None or len(space.positions) != tags:
            where = np.full(len(tables.numbers), ~np.uint64(0))
            # Filters that are not inline count as holding.
            where[self.attributes.filters] = 0
            space = GuardSpace(
                positions=np.zeros(tags, dtype=np.uint64),
                held=np.zeros(len(self.guarded.members), dtype=np.uint8),
                where=where,
                found_in=np.zeros(len(self.guarded.paths), dtype=np.int64),
                clock=np.zeros(1, dtype=np.int64),
            )
            self._space = space
        return match_guarded(
            documents, tree, self.guarded, self.predicates, self.attributes.filters, tables, space, evidence
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def check_arrays(self, tables: CatalogTables, numbers: int) -> None:
        """Demand what keeps the kernels within their arrays; `numbers` is how many things can be found."""
        predicates, attributes, guarded = self.predicates, self.attributes, self.guarded
        known = predicates.keys.size + attributes.filters.size
        with under("predicates."):
            check_fields(TagPredicates, predicates)
            check_ascending("keys", predicates.keys)
            check_slots("slots", predicates.slots, predicates.keys.size, -1)
        with under("attributes."):
            check_fields(AttributeTables, attributes)
            check_ascending("keys", attributes.keys)
            check_slots("slots", attributes.slots, attributes.keys.size, -1)
            check_starts("starts", attributes.starts, OPERATORS * attributes.keys.size, attributes.filters.size)
            demand(attributes.constants.size == attributes.filters.size, "constants", "not each filter has one")
            check_within("filters", attributes.filters, 0, tables.filter_offsets.size - 1)
            kinds = tables.filters[tables.filter_offsets[attributes.filters] + FILTER_KIND]
            demand(kinds != PATH, "filters", "one is a path")
        with under("guarded."):
            check_fields(GuardedPaths, guarded)
            check_starts("members", guarded.members, known, guarded.paths.size)
            for name in ("guards", "others", "found"):
                demand(getattr(guarded, name).size == guarded.paths.size, name, "not each path has one")
            check_within("guards", guarded.guards, 0, known)
            check_within("others", guarded.others, 0, known)
            check_within("paths", guarded.paths, 0, tables.path_offsets.size - 1)
            demand(guarded.long.size == guarded.lengths.size, "long", "it is not as long as the lengths")
            check_within("found", guarded.found, 0, numbers)
            check_within("long", guarded.long, 0, numbers)

    def check(self) -> None:
        """Assert the invariants."""
        guarded, keys = self.guarded, self.predicates.keys
        assert (np.diff(keys) > 0).all(), "predicates are distinct and in order"
        assert (np.diff(guarded.lengths) >= 0).all(), "lengths ascend"
        assert (np.diff(guarded.members) >= 0).all(), "the paths of an access predicate are neighbours"
        assert guarded.members[-1] == len(guarded.paths) == len(guarded.found), "each path is filed once"
        known = len(guarded.members) - 1
        assert known == len(keys) + len(self.attributes.filters), "predicates on attributes are numbered behind"
        for guards in (guarded.guards, guarded.others):
            assert ((guards >= 0) & (guards < known)).all(), "a guard is a predicate"


@dataclass(frozen=True, slots=True)
class AttributePredicates:
    """The predicates on attributes and values of some paths.

    `whole` says of each path whether these are all its filters; others are nested paths, and on wildcards if these were
    left out.
    """

    tables: AttributeTables
    filters: AttributeFilters
    whole: Bools


def encode_tags(catalog: Catalog, structures: Int32s) -> TagConjunctions:
    """Return structures as conjunctions of predicates on tags. Cost: linear, but for sorting the predicates."""
    assert len(catalog.names) < MAX_TAG, "a tag has 20 bits in a predicate, and the last number is not a name"
    keys, offsets = encode_structures(catalog.tables, structures)
    distinct, ids = np.unique(keys, return_inverse=True)
    predicates = TagPredicates(distinct, hash_table(distinct, SECOND_SHIFT))
    return TagConjunctions(predicates, offsets.astype(np.int32), ids.astype(np.int32))


def tables_of(keys: Int64s) -> Int32s:
    """Return the predicate that begins the table of each one on tags: the first one on the same tags."""
    tags = keys >> SECOND_SHIFT
    return np.searchsorted(tags, tags).astype(np.int32)


def last_on_tags(conjunctions: TagConjunctions) -> Int32s:
    """Return the place of each conjunction's last predicate that is not on the end of the path, if it has another."""
    starts, ends = conjunctions.offsets[:-1], conjunctions.offsets[1:]
    kinds = conjunctions.predicates.keys >> KIND_SHIFT & MAX_KIND
    is_open = (kinds[conjunctions.ids[ends - 1]] == END_FROM) & (ends - starts > 1)
    last: Int32s = ends - 1 - is_open
    return last


def encode_attributes(tables: CatalogTables, paths: Int32s, *, wildcards: bool) -> AttributePredicates:
    """Return the predicates on attributes and values of the given paths, with or without those on `wildcards`.

    Cost: linear, but for sorting the predicates.
    """
    owners, steps, keys, whole = inline_filters(tables, paths, wildcards)
    distinct, place = np.unique(keys, return_inverse=True)
    conditions = (distinct & LOW_32_BITS).astype(np.int32)
    at = tables.filter_offsets[conditions]
    names, operators = tables.filters[at + FILTER_NAME], tables.filters[at + FILTER_OPERATOR].astype(np.int64)
    names = np.where(tables.filters[at + FILTER_KIND] == TEXT, TEXT_NAME, names)
    textual = (operators != NO_OPERATOR) & (tables.filters[at + FILTER_BY_NUMBER] == 0)
    constants = np.where(textual, text_hashes(tables, conditions), tables.numbers[conditions])
    # A filter without a constant has a NaN in its place; an order with NaN never holds.
    operators = np.where(textual, operators + TEXT_EQUAL - EQUAL, operators)
    operators = np.where((operators != NO_OPERATOR) & np.isnan(constants), NEVER, operators)
    tags = distinct >> CONDITION_TAG_SHIFT
    table_keys, table = np.unique((tags << ATTRIBUTE_TAG_SHIFT) | names, return_inverse=True)
    sections = table * OPERATORS + operators
    order = np.lexsort((constants, sections))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    starts = np.searchsorted(sections[order], np.arange(OPERATORS * len(table_keys) + 1)).astype(np.int32)
    encoded = AttributeTables(table_keys, hash_table(table_keys), starts, constants[order], conditions[order])
    # Equality lets the fewest elements through.
    ranks = np.where(np.isin(operators[place], (EQUAL, TEXT_EQUAL)), EQUALITY, EQUALITY + 1)
    filters = AttributeFilters(offsets_of(owners, len(paths)), steps, rank[place], ranks.astype(np.int32))
    return AttributePredicates(encoded, filters, whole)


def paths_apart(groups: ResultGroups, *, doubts: bool) -> ResultGroups:
    """Return groups in which each path with filters is found by itself, no longer below its structure.

    The numbers behind the structures stand for the paths with filters, with their members: these paths hold. If there
    may be `doubts`, as many numbers follow for the same paths where they are yet to be evaluated.
    """
    count = len(groups.filtered)
    first, end = groups.filtered[:, GROUP_BEGIN], groups.filtered[:, GROUP_END]
    plain = np.append(groups.plain, end)
    assert (first == plain[len(groups.plain) - 1 : -1]).all(), "members lie path by path"
    evaluated = np.empty(0, dtype=np.int32)
    if doubts:
        plain = np.append(plain, np.repeat(end[-1:], count))
        evaluated = np.zeros(len(plain), dtype=np.int32)
        evaluated[-count - 1 :] = np.arange(count + 1)
    return groups._replace(plain=frozen(plain), filtered_first=frozen(evaluated))
