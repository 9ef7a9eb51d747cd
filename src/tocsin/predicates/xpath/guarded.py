"""Paths with filters, matched under access predicates with the filters on attributes inline."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.predicates.xpath.attribute_predicates import encode_attributes
from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.encoded_paths import encode_catalog
from tocsin.predicates.xpath.index import Ints, Longs, frozen, offsets_of
from tocsin.predicates.xpath.kernels.attribute_tests import AttributeTables, hold_attributes
from tocsin.predicates.xpath.kernels.collect import Groups
from tocsin.predicates.xpath.kernels.filters import Tables
from tocsin.predicates.xpath.kernels.guards import Guarded, choose_guards, match_guarded
from tocsin.predicates.xpath.kernels.paths import distinct_nodes
from tocsin.predicates.xpath.kernels.predicate_tables import END_FROM, Predicates
from tocsin.predicates.xpath.kernels.tokens import Documents
from tocsin.predicates.xpath.kernels.walk import Nodes


@dataclass(frozen=True)
class GuardedMatcher:
    """Find the paths with filters that hold on a document, or those that are left to evaluate.

    The latter have filters on text or on other paths; their structure and their filters on attributes hold.
    """

    predicates: Predicates
    attributes: AttributeTables
    guarded: Guarded

    @classmethod
    def build(cls, catalog: Catalog, tables: Tables, groups: Groups) -> tuple["GuardedMatcher", Groups]:
        """Take the paths with filters of a catalog, and return the groups that number them as `paths_apart` does.

        Cost: linear, but for sorting.
        """
        paths = groups.filtered[:, 0].copy()
        structures = catalog.structure_of_paths()[paths]
        encoding = encode_catalog(catalog, structures)
        starts, ends = encoding.offsets[:-1], encoding.offsets[1:]
        is_open = (encoding.kinds()[encoding.ids[ends - 1]] == END_FROM) & (ends - starts > 1)
        filters = encode_attributes(tables, paths, wildcards=True)
        filter_ids = filters.ids + np.int32(len(encoding.predicates.keys))
        size = len(encoding.predicates.keys) + len(filters.tables.filters)
        filed, guards, others = choose_guards(
            catalog.structures.data,
            catalog.structures.offsets,
            structures,
            encoding.predicates.keys,
            encoding.offsets,
            encoding.ids,
            encoding.tables(),
            ends - 1 - is_open,
            offsets_of(filters.owners, len(paths)),
            filters.steps,
            filter_ids,
            filters.ranks,
        )
        found = np.arange(len(paths), dtype=np.int32) + np.int32(len(groups.plain) - 1)
        found[~filters.whole] += np.int32(len(paths))
        values = encoding.values()[encoding.ids[starts]]
        long = np.flatnonzero(filed < 0)
        long = long[np.argsort(values[long], kind="stable")]
        order = np.lexsort((others, guards, filed))[len(long) :]
        members = offsets_of(filed[order], size)
        arrays = (members, guards[order], others[order], paths[order], found[order], values[long], found[long])
        matcher = cls(encoding.predicates, filters.tables, Guarded(*arrays))
        return matcher, paths_apart(groups, doubts=not filters.whole.all()) if len(paths) else groups

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "GuardedMatcher":
        """The matcher that `arrays` came from, without copying."""
        return cls(
            Predicates(*(frozen(arrays[f"predicates.{name}"]) for name in Predicates._fields)),
            AttributeTables(*(frozen(arrays[f"attributes.{name}"]) for name in AttributeTables._fields)),
            Guarded(*(frozen(arrays[f"guarded.{name}"]) for name in Guarded._fields)),
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays."""
        parts = (("predicates", self.predicates), ("attributes", self.attributes), ("guarded", self.guarded))
        return {f"{part}.{name}": array for part, fields in parts for name, array in fields._asdict().items()}

    def match(self, documents: Documents, tables: Tables, tags: int, evidence: Longs) -> tuple[Longs, Ints]:
        """What is found in each document, in any order, each once."""
        offsets, held = hold_attributes(documents, self.attributes, tables)
        nodes = Nodes(*distinct_nodes(documents, np.diff(offsets) > 0), offsets, held)
        return match_guarded(
            documents, nodes, self.guarded, self.predicates, self.attributes.filters, tables, tags, evidence
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

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


def paths_apart(groups: Groups, *, doubts: bool) -> Groups:
    """Groups in which each path with filters is found by itself, no longer below its structure.

    Behind the structures come as many numbers for paths that hold, with their members, and then, if there may be
    `doubts`, as many for paths that are yet to be evaluated.
    """
    _, first, end = groups.filtered.T
    count = len(groups.filtered)
    plain = np.append(groups.plain, end)
    assert (first == plain[len(groups.plain) - 1 : -1]).all(), "members lie path by path"
    evaluated = np.empty(0, dtype=np.int32)
    if doubts:
        plain = np.append(plain, np.repeat(end[-1:], count))
        evaluated = np.zeros(len(plain), dtype=np.int32)
        evaluated[-count - 1 :] = np.arange(count + 1)
    return groups._replace(plain=frozen(plain), filtered_first=frozen(evaluated))
