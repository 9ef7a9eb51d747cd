"""Conjunctions of predicates on tags and attributes, matched by counting or under an access predicate."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.gpx.cluster_kernels import Clusters, build_clusters, match_clusters
from tocsin.papers.gpx.counting_kernels import Conjunctions, Postings, match_counting
from tocsin.papers.gpx.publications import publish_documents
from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.filtered_paths import AttributePredicates, encode_tags, last_on_tags, tables_of
from tocsin.predicates.xpath.kernels.filters import CatalogTables
from tocsin.predicates.xpath.kernels.guards import PathTree, TagConjunctions
from tocsin.predicates.xpath.kernels.paths import distinct_nodes
from tocsin.predicates.xpath.kernels.predicate_tables import (
    ATTRIBUTE_TAG_SHIFT,
    FIRST_SHIFT,
    KIND_SHIFT,
    LENGTH_FROM,
    MAX_KIND,
    MAX_TAG,
    MAX_VALUE,
    OPERATORS,
    POSITION_FROM,
    AttributeTables,
    TagPredicates,
    hold_attributes,
)
from tocsin.predicates.xpath.kernels.tokens import Documents

Access = Literal["all", "first", "last"]


@dataclass(frozen=True)
class ConjunctionMatcher:
    """Find the conjunctions that hold on a document; what each of them stands for is the owner's business."""

    access: Access
    predicates: TagPredicates
    attributes: AttributeTables | None
    conjunctions: Conjunctions
    filed: Postings | Clusters

    @classmethod
    def build(
        cls,
        catalog: Catalog,
        access: Access,
        structures: Int32s,
        sure: Int32s,
        followed: Int32s,
        filters: AttributePredicates | None = None,
    ) -> "ConjunctionMatcher":
        """Encode structures, the i-th with the filters owned by i. Cost: linear, but for sorting.

        `sure` is what the i-th finds if all its predicates hold on a path that repeats none of its tags, `followed` if
        it repeats one and the structure matches all the same.
        """
        encoding = encode_tags(catalog, structures)
        keys = encoding.predicates.keys
        starts = encoding.offsets[:-1]
        kinds = keys >> KIND_SHIFT & MAX_KIND
        wild = kinds[encoding.ids[starts]] == LENGTH_FROM
        tagged, lengths = np.flatnonzero(~wild), np.flatnonzero(wild)
        values = (keys & MAX_VALUE).astype(np.int32)[encoding.ids[starts]]
        lengths = lengths[np.argsort(values[lengths], kind="stable")]
        size = len(keys)
        if access != "all":
            last = last_on_tags(encoding)
            filed = encoding.ids[starts if access == "first" else last]
            # Neighbours in a cluster share their other predicates as well, so that blocks hold many of them.
            before = encoding.ids[np.maximum(last - 1, starts)]
            order = np.lexsort((encoding.ids[starts][tagged], before[tagged], filed[tagged]))
            tagged = tagged[order]
        offsets, ids = _predicates(encoding, tagged, filters)
        # The tag that each predicate shares with one before it in a conjunction; 0 for those on a position.
        shared = np.where(kinds > POSITION_FROM, keys >> FIRST_SHIFT & MAX_TAG, 0).astype(np.int32)
        if filters is not None:
            size += len(filters.tables.filters)
            sizes = np.diff(filters.tables.starts[::OPERATORS])
            shared = np.append(shared, np.repeat(filters.tables.keys >> ATTRIBUTE_TAG_SHIFT, sizes).astype(np.int32))
        found = (sure[tagged], sure[tagged] if followed is sure else followed[tagged])
        own = found[0] if sure is structures else structures[tagged]
        outcome = Conjunctions(own, *found, values[lengths], followed[lengths])
        tables = None if filters is None else filters.tables
        if access != "all":
            clusters = build_clusters(offsets, ids, tables_of(keys)[filed[tagged]], size)
            return cls(access, encoding.predicates, tables, outcome, Clusters(*clusters, shared))
        owner = np.repeat(np.arange(len(tagged), dtype=np.int32), np.diff(offsets))
        posting_offsets = np.zeros(size + 1, dtype=np.int32)
        np.cumsum(np.bincount(ids, minlength=size), out=posting_offsets[1:])
        postings = Postings(np.diff(offsets), posting_offsets, owner[np.argsort(ids, kind="stable")])
        return cls(access, encoding.predicates, tables, outcome, postings)

    def match(self, documents: Documents, tables: CatalogTables, tags: int, evidence: Int64s) -> tuple[Int64s, Int32s]:
        """What is found in each document, in any order, each once."""
        held = None if self.attributes is None else hold_attributes(documents, self.attributes, tables)
        if isinstance(self.filed, Postings):
            return match_counting(
                documents,
                publish_documents(documents, self.predicates, tags, held),
                self.conjunctions,
                tables.structures,
                tables.structure_offsets,
                self.filed,
                len(self.predicates.keys),
                tags,
                evidence,
            )
        offsets, ids = held or (np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32))
        return match_clusters(
            documents,
            PathTree(*distinct_nodes(documents, np.diff(offsets) > 0), offsets, ids),
            self.conjunctions,
            tables.structures,
            tables.structure_offsets,
            self.filed,
            self.predicates,
            tags,
            self.access == "last",
            evidence,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of what finds the conjunctions."""
        # Arrays of equal outcomes are one.
        arrays: list[npt.NDArray[Any]] = [*self.predicates, *self.conjunctions, *self.filed]
        arrays += self.attributes or ()
        return sum(array.nbytes for array in {id(array): array for array in arrays}.values())

    def check(self) -> None:
        """Assert the invariants."""
        keys, conjunctions = self.predicates.keys, self.conjunctions
        assert (np.diff(keys) > 0).all(), "predicates are distinct and in order"
        assert (np.diff(conjunctions.lengths) >= 0).all(), "lengths ascend"
        if isinstance(self.filed, Postings):
            counted = np.bincount(self.filed.members, minlength=len(self.filed.sizes))
            assert (counted == self.filed.sizes).all(), "a conjunction is filed under each of its predicates"
            return
        blocks, members, first_bit, _, cut, words, _ = self.filed
        assert (np.diff(blocks) >= 0).all(), "the blocks of a table are neighbours"
        assert blocks[-1] == len(cut), "each block is filed under one table"
        assert members[-1] == len(words) == len(conjunctions.sure), "each conjunction lies in one block"
        assert (np.diff(members) <= 64).all(), "those of a block that hold are bits of a word"
        widths = np.diff(first_bit)
        assert (widths <= 64).all(), "a block has as many predicates as a word has bits"
        widest = np.repeat(widths, np.diff(members))
        assert all(int(word) >> int(width) == 0 for word, width in zip(words, widest, strict=True)), (
            "a bit is a predicate of the block"
        )


def _predicates(
    encoding: TagConjunctions, chosen: Int64s, filters: AttributePredicates | None
) -> tuple[Int32s, Int32s]:
    """The predicates of the chosen conjunctions one behind the other, those on attributes behind those on tags."""
    starts = encoding.offsets[:-1][chosen]
    counts = np.diff(encoding.offsets)[chosen]
    owner = np.repeat(np.arange(len(chosen)), counts)
    first = np.cumsum(counts) - counts
    ids = encoding.ids[starts[owner] + np.arange(len(owner)) - first[owner]]
    if filters is not None:
        place = np.full(len(encoding.offsets) - 1, -1, dtype=np.int64)
        place[chosen] = np.arange(len(chosen))
        more = np.repeat(place, np.diff(filters.filters.offsets))
        kept = more >= 0
        owner = np.append(owner, more[kept])
        ids = np.append(ids, filters.filters.ids[kept] + np.int32(len(encoding.predicates.keys)))
        order = np.argsort(owner, kind="stable")
        owner, ids = owner[order], ids[order]
    offsets = np.zeros(len(chosen) + 1, dtype=np.int32)
    np.cumsum(np.bincount(owner, minlength=len(chosen)), out=offsets[1:])
    return offsets, ids
