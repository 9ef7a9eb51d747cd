"""GPX-Matcher: path expressions as conjunctions of predicates, documents as sets of predicates that hold (section 4).

`ConjunctionMatcher` finds the conjunctions that hold: by counting (GPX), or under one access predicate of each (GPX-ap,
GPX-apf). The predicates themselves, sections 3 and 4.1, are the product's: `predicates/xpath/encoded_paths.py`.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tocsin.papers.gpx.cluster_kernels import Clusters, build_clusters, match_clusters
from tocsin.papers.gpx.counting_kernels import Conjunctions, Postings, match_counting
from tocsin.predicates.xpath.attribute_predicates import AttributePredicates, encode_attributes
from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.document import MAX_BYTES
from tocsin.predicates.xpath.encoded_paths import Encoding, Ints, Longs, encode_catalog, publish_documents
from tocsin.predicates.xpath.guarded import GuardedMatcher, paths_apart
from tocsin.predicates.xpath.index import StructureIndex, side_by_side
from tocsin.predicates.xpath.kernels.attribute_tests import AttributeTables, hold_attributes
from tocsin.predicates.xpath.kernels.filters import Tables
from tocsin.predicates.xpath.kernels.paths import distinct_nodes
from tocsin.predicates.xpath.kernels.predicate_tables import END_FROM, Predicates
from tocsin.predicates.xpath.kernels.tokens import Documents
from tocsin.predicates.xpath.kernels.walk import Nodes

Access = Literal["all", "first", "last"]


class GPXIndex(StructureIndex):
    """Match conjunctions of predicates: by counting, or under the first or last predicate of each as access predicate.

    A conjunction is filed under all its predicates (GPX), that of its last tag (GPX-ap) or its first one (GPX-apf).
    Filters on attributes are predicates as well. Expressions without filters meet each path of tags once; those with
    filters meet it again where its attributes differ.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> index = GPXIndex("last")
    >>> index.build([parse_xpath("/a/b"), parse_xpath("a//c[@x > 3]/*")])
    >>> index.match('<a><b/><x><c x="4"><d/></c></x></a>').tolist()
    [0, 1]
    """

    def __init__(self, access: Access = "all", max_bytes: int = MAX_BYTES) -> None:
        self.access = access
        super().__init__(max_bytes)

    def _build_structures(self, chosen: Ints) -> None:  # noqa: ARG002  # the groups also say which have filters
        groups = self._groups
        plain = np.flatnonzero(np.diff(groups.plain)).astype(np.int32)
        self._parts: list[ConjunctionMatcher | GuardedMatcher]
        self._parts = [ConjunctionMatcher.build(self.catalog, self.access, plain, plain, plain)]
        count = len(groups.filtered)
        if count and self.access == "last":
            guarded, self._groups = GuardedMatcher.build(self.catalog, self._tables(), groups)
            self._parts.append(guarded)
        elif count:
            paths = groups.filtered[:, 0].copy()
            filters = encode_attributes(self._tables(), paths)
            held = np.arange(len(groups.plain) - 1, len(groups.plain) - 1 + count, dtype=np.int32)
            doubted = held + np.int32(count)
            sure = np.where(filters.whole, held, doubted)
            structures = self.catalog.structure_of_paths()[paths]
            self._parts.append(ConjunctionMatcher.build(self.catalog, self.access, structures, sure, doubted, filters))
            self._groups = paths_apart(groups, doubts=True)

    def _structures(self, documents: Documents) -> tuple[Longs, Ints]:
        tables = self._tables()
        found = [part.match(documents, tables, self._tag_count, self._evidence) for part in self._parts]
        return found[0] if len(found) == 1 else side_by_side(*found)

    def _nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def _check(self) -> None:
        for part in self._parts:
            part.check()


@dataclass(frozen=True)
class ConjunctionMatcher:
    """Find the conjunctions that hold on a document; what each of them stands for is the owner's business."""

    access: Access
    predicates: Predicates
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
        size = len(encoding.predicates.keys)
        if access != "all":
            # The last predicate on a tag: before one on the end of the path, unless that is the only one.
            is_open = (encoding.kinds()[encoding.ids[ends - 1]] == END_FROM) & (ends - starts > 1)
            filed = encoding.ids[starts if access == "first" else ends - 1 - is_open]
            # Neighbours in a cluster share their other predicates as well, so that blocks hold many of them.
            before = encoding.ids[np.maximum(ends - 2 - is_open, starts)]
            order = np.lexsort((encoding.ids[starts][tagged], before[tagged], filed[tagged]))
            tagged = tagged[order]
        offsets, ids = _predicates(encoding, tagged, filters)
        shared = encoding.shared_tags()
        if filters is not None:
            size += len(filters.tables.filters)
            shared = np.append(shared, filters.tags())
        found = (sure[tagged], sure[tagged] if followed is sure else followed[tagged])
        own = found[0] if sure is structures else structures[tagged]
        outcome = Conjunctions(own, *found, values[lengths], followed[lengths])
        tables = None if filters is None else filters.tables
        if access != "all":
            clusters = build_clusters(offsets, ids, encoding.tables()[filed[tagged]], size)
            return cls(access, encoding.predicates, tables, outcome, Clusters(*clusters, shared))
        owner = np.repeat(np.arange(len(tagged), dtype=np.int32), np.diff(offsets))
        posting_offsets = np.zeros(size + 1, dtype=np.int32)
        np.cumsum(np.bincount(ids, minlength=size), out=posting_offsets[1:])
        postings = Postings(np.diff(offsets), posting_offsets, owner[np.argsort(ids, kind="stable")])
        return cls(access, encoding.predicates, tables, outcome, postings)

    def match(self, documents: Documents, tables: Tables, tags: int, evidence: Longs) -> tuple[Longs, Ints]:
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
            Nodes(*distinct_nodes(documents, np.diff(offsets) > 0), offsets, ids),
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
