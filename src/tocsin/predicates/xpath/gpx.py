"""GPX-Matcher: path expressions as conjunctions of predicates, documents as sets of predicates that hold."""

import numpy as np

from tocsin._kernels.xpath_collect import Groups
from tocsin._kernels.xpath_tokens import Documents
from tocsin.predicates.xpath.attributes import encode_attributes
from tocsin.predicates.xpath.conjunctions import Access, ConjunctionMatcher
from tocsin.predicates.xpath.document import MAX_BYTES
from tocsin.predicates.xpath.index import Ints, Longs, StructureIndex, frozen, side_by_side


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

    def _build_structures(self, chosen: Ints) -> None:  # noqa: ARG002  # the groups say more: who has filters
        groups = self._groups
        plain = np.flatnonzero(np.diff(groups.plain)).astype(np.int32)
        self._parts = [ConjunctionMatcher.build(self.catalog, self.access, plain, plain, plain)]
        count = len(groups.filtered)
        if count:
            filters = encode_attributes(self._tables(), groups.filtered[:, 0].copy())
            held = np.arange(len(groups.plain) - 1, len(groups.plain) - 1 + count, dtype=np.int32)
            doubted = held + np.int32(count)
            structures = self.catalog.structure_of_paths()[groups.filtered[:, 0]]
            sure = np.where(filters.whole, held, doubted)
            self._parts.append(ConjunctionMatcher.build(self.catalog, self.access, structures, sure, doubted, filters))
            self._groups = _paths_apart(groups)

    def _structures(self, documents: Documents) -> tuple[Longs, Ints]:
        tables = self._tables()
        found = [part.match(documents, tables, self._tag_count, self._evidence) for part in self._parts]
        return found[0] if len(found) == 1 else side_by_side(*found)

    def _nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def _check(self) -> None:
        for part in self._parts:
            part.check()


def _paths_apart(groups: Groups) -> Groups:
    """Groups in which each path with filters is found by itself, no longer below its structure.

    Behind the structures come as many numbers for paths that hold, with their members, and then as many for paths that
    are yet to be evaluated.
    """
    _, first, end = groups.filtered.T
    count = len(groups.filtered)
    plain = np.concatenate([groups.plain, end, np.repeat(end[-1:], count)])
    evaluated = np.zeros(len(plain), dtype=np.int32)
    evaluated[-count - 1 :] = np.arange(count + 1)
    assert (first == plain[len(groups.plain) - 1 : len(groups.plain) - 1 + count]).all(), "members lie path by path"
    return groups._replace(plain=frozen(plain), filtered_first=frozen(evaluated))
