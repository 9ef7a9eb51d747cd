"""The index that a segment uses: structures are found once for each distinct path and remembered."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.invariants import check_ascending, check_fields, check_slots, check_starts, check_within, demand, under
from tocsin.predicates.xpath.catalog import frozen_fields
from tocsin.predicates.xpath.document import MAX_BYTES
from tocsin.predicates.xpath.filtered_paths import FilteredPaths
from tocsin.predicates.xpath.kernels.hashing import hash_table
from tocsin.predicates.xpath.kernels.memo import (
    ENTRIES,
    MAX_DISTANCE,
    NODES,
    TRAILING_SHIFT,
    MemoAccess,
    PathMemo,
    access_parts,
    recall,
)
from tocsin.predicates.xpath.kernels.tokens import Documents
from tocsin.predicates.xpath.structure_index import StructureIndex, arrays_under, side_by_side


class XPathIndex(StructureIndex):
    """Remember, for each path of tags, the structures that begin to match there, within `memory_bytes`.

    When the memo is full it starts anew. A document costs its parsing and a look-up for each element whose path is
    known.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> index = XPathIndex()
    >>> index.build([parse_xpath("/a/b"), parse_xpath("a//c/*")])
    >>> index.match("<a><b/><x><c><d/></c></x></a>").tolist()
    [0, 1]
    >>> _ = index.match("<a><b/><x/></a>")
    >>> index.statistics.memo_hits, index.statistics.memo_misses
    (3, 5)
    """

    def __init__(self, memory_bytes: int = 32_000_000, max_bytes: int = MAX_BYTES) -> None:
        self.memory_bytes = memory_bytes
        super().__init__(max_bytes)

    def _build_structures(self, chosen: Int32s) -> None:
        # Structures that occur only with filters are not looked up in the memo.
        chosen = np.flatnonzero(np.diff(self._groups.plain)).astype(np.int32)
        self._filtered, self._groups = FilteredPaths.build(self.catalog, self._groups)
        keys, gaps, least = access_parts(self.catalog.tables, chosen)
        order = np.lexsort((least, gaps, keys))
        keys, gaps = keys[order], gaps[order]
        new_key = np.append(True, np.diff(keys) != 0)[: len(keys)]
        new_link = new_key | np.append(True, np.diff(gaps) != 0)[: len(keys)]
        links = np.flatnonzero(new_link)
        distinct = keys[new_key]
        link_starts = np.searchsorted(links, np.append(np.flatnonzero(new_key), len(keys)))
        access = MemoAccess(
            keys=distinct,
            slots=hash_table(distinct),
            links=link_starts.astype(np.int32),
            gap=gaps[links],
            members=np.append(links, len(keys)).astype(np.int32),
            structures=chosen[order],
            least=least[order],
            trailing=np.unique(distinct >> TRAILING_SHIFT).astype(np.int32),
        )
        self._access = frozen_fields(MemoAccess, access._asdict())
        self._forget()

    def _forget(self) -> None:
        """Make an empty memo."""
        # A path lists each structure at most once, so twice their number is room for one whole path and the next.
        entries = max(self.memory_bytes // 8, 2 * len(self._access.structures) + 1)
        nodes = max(self.memory_bytes // 128, 256)
        self._memo = PathMemo(
            slots=np.zeros(1 << (2 * nodes).bit_length(), dtype=np.int32),
            parent=np.empty(nodes, dtype=np.int32),
            tag=np.empty(nodes, dtype=np.int32),
            list_start=np.zeros(nodes + 1, dtype=np.int32),
            lists=np.empty(entries, dtype=np.int32),
            visited=np.empty(nodes, dtype=np.int32),
            used=np.array([1, 0, 0]),
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays, without the memo.

        >>> from tocsin.predicates.xpath import parse_xpath
        >>> index = XPathIndex()
        >>> index.build([parse_xpath("/a/b"), parse_xpath("a//c/*")])
        >>> XPathIndex.from_arrays(index.arrays()).match("<a><b/></a>").tolist()
        [0]
        """
        arrays = super().arrays()
        arrays |= {f"access.{name}": array for name, array in self._access._asdict().items()}
        return arrays | {f"filtered.{name}": array for name, array in self._filtered.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "XPathIndex":
        """Return the index that `arrays` came from, without copying them. Cost: linear in the names used."""
        index = cls()
        index.restore(arrays)
        return index

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over the state of the index that `arrays` came from, without building anything."""
        self._open(arrays)
        self._access = frozen_fields(MemoAccess, arrays, "access.")
        self._filtered = FilteredPaths.from_arrays(arrays_under("filtered.", arrays))
        self._forget()

    def _structures(self, documents: Documents) -> tuple[Int64s, Int32s]:
        tables = self.catalog.tables
        recalled = recall(documents, self._access, tables, self._memo, self._tag_count, self._evidence)
        if len(self._groups.filtered) == 0:
            return recalled
        return side_by_side(recalled, self._filtered.match(documents, tables, self._tag_count, self._evidence))

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays: once, of an index from a file."""
        super().check_arrays()
        access = self._access
        with under("access."):
            check_fields(MemoAccess, access)
            check_ascending("keys", access.keys)
            check_slots("slots", access.slots, access.keys.size, -1)
            check_starts("links", access.links, access.keys.size, access.gap.size)
            check_starts("members", access.members, access.gap.size, access.structures.size)
            demand(access.least.size == access.structures.size, "least", "not each structure has one")
            check_within("gap", access.gap, 0, 2**31)
            check_within("structures", access.structures, 0, self._structure_count)
            check_within("trailing", access.trailing, 0, MAX_DISTANCE + 1)
            check_ascending("trailing", access.trailing)
        with under("filtered."):
            self._filtered.check_arrays(self.catalog.tables, len(self._groups.plain) - 1)

    def _nbytes(self) -> int:
        return sum(array.nbytes for array in self._access) + self._filtered.nbytes

    def _check(self) -> None:
        self._filtered.check()
        memo, access = self._memo, self._access
        nodes, entries = memo.used[NODES], memo.used[ENTRIES]
        assert memo.list_start[nodes] == entries or nodes == 1, "the lists fill their array without gaps"
        assert (np.diff(memo.list_start[1 : nodes + 1]) >= 0).all(), "lists lie in the order of their nodes"
        assert (memo.slots > 0).sum() == nodes - 1, "every node but the first is in the table"
        assert (np.diff(access.keys) > 0).all(), "access keys are distinct and in order"
        assert access.members[-1] == len(access.structures), "every structure lies under one link"
