"""GPX-Matcher: path expressions as conjunctions of predicates, documents as sets of predicates that hold."""

import numpy as np

from tocsin.arrays import Int32s, Int64s
from tocsin.papers.gpx.conjunctions import Access, ConjunctionMatcher
from tocsin.predicates.xpath.document import MAX_BYTES
from tocsin.predicates.xpath.filtered_paths import FilteredPaths, encode_attributes, paths_apart
from tocsin.predicates.xpath.kernels.collect import GROUP_PATH
from tocsin.predicates.xpath.kernels.tokens import Documents
from tocsin.predicates.xpath.structure_index import StructureIndex, side_by_side


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

    def _build_structures(self, chosen: Int32s) -> None:  # noqa: ARG002  # the groups also say which have filters
        groups = self._groups
        plain = np.flatnonzero(np.diff(groups.plain)).astype(np.int32)
        self._parts: list[ConjunctionMatcher | FilteredPaths]
        self._parts = [ConjunctionMatcher.build(self.catalog, self.access, plain, plain, plain)]
        count = len(groups.filtered)
        if count and self.access == "last":
            filtered, self._groups = FilteredPaths.build(self.catalog, groups)
            self._parts.append(filtered)
        elif count:
            paths = groups.filtered[:, GROUP_PATH].copy()
            filters = encode_attributes(self.catalog.tables, paths, wildcards=False)
            held = np.arange(len(groups.plain) - 1, len(groups.plain) - 1 + count, dtype=np.int32)
            doubted = held + np.int32(count)
            sure = np.where(filters.whole, held, doubted)
            structures = self.catalog.structure_of_paths()[paths]
            self._parts.append(ConjunctionMatcher.build(self.catalog, self.access, structures, sure, doubted, filters))
            self._groups = paths_apart(groups, doubts=True)

    def _structures(self, documents: Documents) -> tuple[Int64s, Int32s]:
        tables = self.catalog.tables
        found = [part.match(documents, tables, self._tag_count, self._evidence) for part in self._parts]
        return found[0] if len(found) == 1 else side_by_side(*found)

    def _nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def _check(self) -> None:
        for part in self._parts:
            part.check()
