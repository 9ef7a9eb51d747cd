"""The default: structures are found once for each distinct path and remembered; filters are inline."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.predicates.xpath.document import MAX_BYTES
from tocsin.predicates.xpath.guarded import GuardedMatcher
from tocsin.predicates.xpath.index import Ints, Longs, StructureIndex, frozen, side_by_side
from tocsin.predicates.xpath.kernels.memo import Access, Memory, access_parts, enter_keys, recall
from tocsin.predicates.xpath.kernels.tokens import Documents


class AutoIndex(StructureIndex):
    """Remember, for each path of tags, the structures that begin to match there, within `memory_bytes`.

    When the memory is full it starts anew. A document then costs its parsing and a look-up for each element.

    >>> from tocsin.predicates.xpath import parse_xpath
    >>> index = AutoIndex()
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

    def _build_structures(self, chosen: Ints) -> None:
        # Structures that only stand with filters are none of the memory's business.
        chosen = np.flatnonzero(np.diff(self._groups.plain)).astype(np.int32)
        self._guarded, self._groups = GuardedMatcher.build(self.catalog, self._tables(), self._groups)
        table = self.catalog.structures
        keys, gaps, least = access_parts(table.data, table.offsets, chosen)
        order = np.lexsort((least, gaps, keys))
        keys, gaps = keys[order], gaps[order]
        new_key = np.append(True, np.diff(keys) != 0)[: len(keys)]
        new_link = new_key | np.append(True, np.diff(gaps) != 0)[: len(keys)]
        links = np.flatnonzero(new_link)
        distinct = keys[new_key]
        link_starts = np.searchsorted(links, np.append(np.flatnonzero(new_key), len(keys)))
        slots = np.full(1 << (len(distinct) * 3 // 2).bit_length(), -1, dtype=np.int32)
        access = Access(
            distinct,
            slots,
            link_starts.astype(np.int32),
            gaps[links],
            np.append(links, len(keys)).astype(np.int32),
            chosen[order],
            least[order],
            np.unique(distinct >> 40).astype(np.int32),
        )
        enter_keys(access)
        self._access = _frozen(access._asdict())
        self._forget()

    def _forget(self) -> None:
        """Make an empty memory."""
        # A path lists each structure at most once, so twice their number is room for one whole path and the next.
        entries = max(self.memory_bytes // 8, 2 * len(self._access.structures) + 1)
        nodes = max(self.memory_bytes // 128, 256)
        self._memory = Memory(
            np.zeros(1 << (2 * nodes).bit_length(), dtype=np.int32),
            np.empty(nodes, dtype=np.int32),
            np.empty(nodes, dtype=np.int32),
            np.zeros(nodes + 1, dtype=np.int32),
            np.empty(entries, dtype=np.int32),
            np.empty(nodes, dtype=np.int32),
            np.array([1, 0, 0]),
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, but for the memory.

        >>> from tocsin.predicates.xpath import parse_xpath
        >>> index = AutoIndex()
        >>> index.build([parse_xpath("/a/b"), parse_xpath("a//c/*")])
        >>> AutoIndex.from_arrays(index.arrays()).match("<a><b/></a>").tolist()
        [0]
        """
        arrays = super().arrays()
        arrays |= {f"access.{name}": array for name, array in self._access._asdict().items()}
        return arrays | {f"filtered.{name}": array for name, array in self._guarded.arrays().items()}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, npt.NDArray[Any]],
        memory_bytes: int = 32_000_000,
        max_bytes: int = MAX_BYTES,
    ) -> "AutoIndex":
        """The index that `arrays` came from, without copying them. Cost: linear in the names that expressions use."""
        index = cls(memory_bytes, max_bytes)
        index._open(arrays)
        index._access = _frozen({name: arrays[f"access.{name}"] for name in Access._fields})
        index._guarded = GuardedMatcher.from_arrays(
            {name.removeprefix("filtered."): array for name, array in arrays.items() if name.startswith("filtered.")}
        )
        index._forget()
        return index

    def _structures(self, documents: Documents) -> tuple[Longs, Ints]:
        tables = self._tables()
        recalled = recall(
            documents,
            self._access,
            tables.structures,
            tables.structure_offsets,
            self._memory,
            self._tag_count,
            self._evidence,
        )
        if len(self._groups.filtered) == 0:
            return recalled
        return side_by_side(recalled, self._guarded.match(documents, tables, self._tag_count, self._evidence))

    @property
    def memo_nbytes(self) -> int:
        """Bytes of the memory in use, which `memory_bytes` bounds and `nbytes` leaves out."""
        return 24 * int(self._memory.size[0]) + 4 * int(self._memory.size[1])

    def _nbytes(self) -> int:
        return sum(array.nbytes for array in self._access) + self._guarded.nbytes

    def _check(self) -> None:
        self._guarded.check()
        memory, access = self._memory, self._access
        nodes, entries, _ = memory.size.tolist()
        assert memory.list_start[nodes] == entries or nodes == 1, "the lists fill their array without gaps"
        assert (np.diff(memory.list_start[1 : nodes + 1]) >= 0).all(), "lists lie in the order of their nodes"
        assert (memory.slots > 0).sum() == nodes - 1, "every node but the first is in the table"
        assert (np.diff(access.keys) > 0).all(), "access keys are distinct and in order"
        assert access.members[-1] == len(access.structures), "every structure lies under one link"


def _frozen(arrays: Mapping[str, npt.NDArray[Any]]) -> Access:
    return Access(*(frozen(arrays[name]) for name in Access._fields))
