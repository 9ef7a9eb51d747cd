"""Conjunctions of predicates on tags and attributes, matched by counting or under an access predicate."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tocsin._kernels.xpath_attributes import AttributeTables, hold_attributes
from tocsin._kernels.xpath_clusters import Clusters, build_clusters, match_clusters
from tocsin._kernels.xpath_evaluate import Tables
from tocsin._kernels.xpath_gpx import Conjunctions, Postings, Publications, match_counting
from tocsin._kernels.xpath_predicates import END_FROM
from tocsin._kernels.xpath_tokens import Documents
from tocsin.predicates.xpath.attributes import AttributePredicates
from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.encoding import Encoding, Ints, Longs, encode_catalog, publish_documents

Access = Literal["all", "first", "last"]


@dataclass(frozen=True)
class ConjunctionMatcher:
    """Find the conjunctions that hold on a document; what each of them stands for is the owner's business."""

    access: Access
    encoding: Encoding
    attributes: AttributeTables | None
    conjunctions: Conjunctions
    filed: Postings | Clusters

    @classmethod
    def build(
        cls,
        catalog: Catalog,
        access: Access,
        structures: Ints,
        sure: Ints,
        followed: Ints,
        filters: AttributePredicates | None = None,
    ) -> "ConjunctionMatcher":
        """Encode structures, the i-th with the filters owned by i. Cost: linear, but for sorting.

        `sure` is what the i-th finds if all its predicates hold on a path that repeats none of its tags, `followed` if
        it repeats one and the structure matches all the same.
        """
        encoding = encode_catalog(catalog, structures)
        starts, ends = encoding.offsets[:-1], encoding.offsets[1:]
        wild = encoding.of_length()[encoding.ids[starts]]
        tagged, lengths = np.flatnonzero(~wild), np.flatnonzero(wild)
        values = encoding.values()[encoding.ids[starts]]
        lengths = lengths[np.argsort(values[lengths], kind="stable")]
        # The last predicate on a tag: before one on the end of the path, unless that is the only one.
        is_open = (encoding.kinds()[encoding.ids[ends - 1]] == END_FROM) & (ends - starts > 1)
        filed = encoding.ids[starts if access == "first" else ends - 1 - is_open]
        if access != "all":
            # Neighbours in a cluster share their other predicates as well, so that blocks hold many of them.
            before = encoding.ids[np.maximum(ends - 2 - is_open, starts)]
            order = np.lexsort((encoding.ids[starts][tagged], before[tagged], ~is_open[tagged], filed[tagged]))
            tagged = tagged[order]
        size = len(encoding.predicates.keys)
        offsets, ids = _predicates(encoding, tagged, filters)
        if filters is not None:
            size += len(filters.tables.filters)
        steps, step_offsets = _in_order(catalog, structures[tagged])
        found = (sure[tagged], sure[tagged] if followed is sure else followed[tagged])
        outcome = Conjunctions(steps, step_offsets, *found, values[lengths], followed[lengths])
        tables = None if filters is None else filters.tables
        if access != "all":
            clusters = Clusters(*build_clusters(offsets, ids, filed[tagged], is_open[tagged], size))
            return cls(access, encoding, tables, outcome, clusters)
        owner = np.repeat(np.arange(len(tagged), dtype=np.int32), np.diff(offsets))
        posting_offsets = np.zeros(size + 1, dtype=np.int32)
        np.cumsum(np.bincount(ids, minlength=size), out=posting_offsets[1:])
        postings = Postings(np.diff(offsets), posting_offsets, owner[np.argsort(ids, kind="stable")])
        return cls(access, encoding, tables, outcome, postings)

    def match(self, documents: Documents, tables: Tables, tags: int, evidence: Longs) -> tuple[Longs, Ints]:
        """What is found in each document, in any order, each once."""
        publications = self.publish(documents, tables, tags)
        keys = self.encoding.predicates.keys
        if isinstance(self.filed, Postings):
            return match_counting(
                documents,
                publications,
                self.conjunctions,
                self.filed,
                keys,
                tags,
                evidence,
            )
        return match_clusters(
            documents,
            publications,
            self.conjunctions,
            self.filed,
            keys,
            tags,
            self.access == "last",
            evidence,
        )

    def publish(self, documents: Documents, tables: Tables, tags: int) -> Publications:
        """The distinct paths of documents, and what holds on their tags and attributes."""
        if self.attributes is None:
            return publish_documents(documents, self.encoding, tags)
        held = hold_attributes(documents, self.attributes, tables)
        return publish_documents(documents, self.encoding, tags, held)

    @property
    def nbytes(self) -> int:
        """Bytes of what finds the conjunctions."""
        # The encoding's own ids are those of the conjunctions, and arrays of equal outcomes are one.
        arrays: list[npt.NDArray[Any]] = [*self.encoding.predicates, *self.conjunctions, *self.filed]
        arrays += self.attributes or ()
        return sum(array.nbytes for array in {id(array): array for array in arrays}.values())

    def check(self) -> None:
        """Assert the invariants."""
        keys, conjunctions = self.encoding.predicates.keys, self.conjunctions
        assert (np.diff(keys) > 0).all(), "predicates are distinct and in order"
        assert (np.diff(conjunctions.lengths) >= 0).all(), "lengths ascend"
        if isinstance(self.filed, Postings):
            counted = np.bincount(self.filed.members, minlength=len(self.filed.sizes))
            assert (counted == self.filed.sizes).all(), "a conjunction is filed under each of its predicates"
            return
        blocks, open_stop, members, first_bit, _, _, words = self.filed
        assert (blocks[:-1] <= open_stop).all(), "open blocks are blocks of their predicate"
        assert (open_stop <= blocks[1:]).all(), "open blocks are blocks of their predicate"
        assert members[-1] == len(words) == len(conjunctions.sure), "each conjunction lies in one block"
        widths = np.diff(first_bit)
        assert (widths <= 64).all(), "a block has as many predicates as a word has bits"
        highest = np.repeat(widths, np.diff(members))
        assert all(int(word) >> int(width) == 0 for word, width in zip(words, highest, strict=True)), (
            "a bit is a predicate of the block"
        )


def _predicates(encoding: Encoding, chosen: Longs, filters: AttributePredicates | None) -> tuple[Ints, Ints]:
    """The predicates of the chosen conjunctions one behind the other, those on attributes behind those on tags."""
    starts = encoding.offsets[:-1][chosen]
    counts = np.diff(encoding.offsets)[chosen]
    owner = np.repeat(np.arange(len(chosen)), counts)
    first = np.cumsum(counts) - counts
    ids = encoding.ids[starts[owner] + np.arange(len(owner)) - first[owner]]
    if filters is not None:
        place = np.full(len(encoding.offsets) - 1, -1, dtype=np.int64)
        place[chosen] = np.arange(len(chosen))
        more = place[filters.owners]
        kept = more >= 0
        owner = np.append(owner, more[kept])
        ids = np.append(ids, filters.ids[kept] + np.int32(len(encoding.predicates.keys)))
        order = np.argsort(owner, kind="stable")
        owner, ids = owner[order], ids[order]
    offsets = np.zeros(len(chosen) + 1, dtype=np.int32)
    np.cumsum(np.bincount(owner, minlength=len(chosen)), out=offsets[1:])
    return offsets, ids


def _in_order(catalog: Catalog, structures: Ints) -> tuple[Ints, Ints]:
    """The steps of structures one behind the other, where conjunctions that are looked at together are neighbours."""
    table = catalog.structures
    counts = np.diff(table.offsets[: len(table) + 1])[structures]
    offsets = np.zeros(len(structures) + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    return table.data[np.repeat(table.offsets[structures] - offsets[:-1], counts) + np.arange(offsets[-1])], offsets
