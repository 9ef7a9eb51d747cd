"""BPA (S. Hou and H.-A. Jacobsen, ICDE 2006, basic-pc-ap): chains of predicates that share their prefixes."""

import numpy as np

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.gpx.bpa_kernels import Chains, build_chains, run_chains
from tocsin.papers.gpx.publications import distinct_paths
from tocsin.predicates.xpath.kernels.tokens import Documents
from tocsin.predicates.xpath.structure_index import StructureIndex, offsets_of


class BPAIndex(StructureIndex):
    """Follow chains of predicates along each path, from the first predicate on, with the occurrences that fit.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> index = BPAIndex()
    >>> index.build([parse_xpath("/a/b"), parse_xpath("a//c/*")])
    >>> index.match("<a><b/><x><c><d/></c></x></a>").tolist()
    [0, 1]
    """

    def _build_structures(self, chosen: Int32s) -> None:
        tables = self.catalog.tables
        tag, gap, parent, final = build_chains(tables.structures, tables.structure_offsets, chosen)
        nodes = len(tag)
        children = np.lexsort((tag[1:], parent[1:])).astype(np.int32) + np.int32(1)
        child_offsets = offsets_of(parent[1:], nodes)
        first_tags = tag[children[: child_offsets[1]]]
        first_of_tag = np.searchsorted(first_tags, np.arange(-1, self._tag_count + 1)).astype(np.int32)
        accepts = chosen[np.argsort(final, kind="stable")]
        self._chains = Chains(tag, gap, child_offsets, children, first_of_tag, offsets_of(final, nodes), accepts)

    def _structures(self, documents: Documents) -> tuple[Int64s, Int32s]:
        paths, rows = distinct_paths(documents, np.empty(0, dtype=np.bool_))
        return run_chains(
            documents, paths, rows, self._chains, len(self._chains.accepts), self._tag_count, self._evidence
        )  # fmt: skip

    def _nbytes(self) -> int:
        return sum(array.nbytes for array in self._chains)

    def _check(self) -> None:
        chains = self._chains
        assert sorted(chains.children.tolist()) == list(range(1, len(chains.tag))), (
            "every node but the first is a child"
        )
        assert chains.first_of_tag[-1] == chains.child_offsets[1], "every first predicate lies under its tag"
