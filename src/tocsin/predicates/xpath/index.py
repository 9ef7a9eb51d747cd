"""What all XPath indexes share: documents in, structures found by the algorithm, filters checked, ids out.

An algorithm knows only structures: paths without filters, each once. From a structure lead its paths (the same steps
with filters), from a path its expressions (all that are equal). Expressions that came after the last build are few and
are evaluated one by one; when they grow to a sixteenth of the others, all are built again.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tocsin._kernels.xpath_collect import Groups, collect
from tocsin._kernels.xpath_evaluate import Scratch, Tables
from tocsin._kernels.xpath_tokens import Documents
from tocsin.errors import UnknownSubscriptionError
from tocsin.forks import Guard, Level
from tocsin.predicates.xpath.catalog import Catalog
from tocsin.predicates.xpath.document import MAX_BYTES, EncodedBatch, encode_documents
from tocsin.predicates.xpath.expression import XPath
from tocsin.predicates.xpath.protocol import XPathMatches, XPathStatistics

Scalar = TypeVar("Scalar", bound=np.generic)
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

_GROUPED = ("plain", "filtered_first", "filtered", "members")
_CHUNK_BYTES = 64_000_000
_SLOT_BYTES = 16_000_000
_ROOM = 16_000_000


class StructureIndex(ABC):
    """An index of path expressions over one way to find structures.

    >>> from tocsin.predicates.xpath import AutoIndex, parse_xpath
    >>> index = AutoIndex()
    >>> index.build([parse_xpath("/a/b"), parse_xpath("//b[@x > 3]"), parse_xpath("a//c")])
    >>> index.match('<a><b x="4"/></a>').tolist()
    [0, 1]
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        # The work space and the memory of paths are shared: documents are read side by side, matched in turn.
        self._lock = Guard(Level.INDEX)
        self.build([])

    def build(self, expressions: Sequence[XPath]) -> None:
        """Replace what the index holds. Cost: linear in the expressions, some 20 µs for each distinct one."""
        self.catalog = Catalog()
        self._path_of: Ints = self.catalog.add(expressions)
        self._late: list[int] = []
        self._tail: Groups | None = None
        self._firsts: Groups | None = None
        self._alive = np.full(len(expressions) // 64 + 1, ~np.uint64(0), dtype=np.uint64)
        self._evidence = np.zeros(6, dtype=np.int64)
        self._documents = 0
        self._space: Scratch | None = None
        self._space_for = (0, 0, 0, 0, 0, 0, 0)
        self._numbers = np.empty(0, dtype=np.float64)
        self._freeze()

    def __len__(self) -> int:
        return len(self._path_of) + len(self._late)

    def insert(self, expression: XPath) -> int:
        """Add one expression and return its id. Cost: linear in the expression, and now and then a new build."""
        self._late.append(int(self.catalog.add([expression])[0]))
        count = len(self)
        if len(self._alive) < count // 64 + 1:
            self._alive = np.append(self._alive, ~np.uint64(0))
        self._tail = None
        if len(self._late) > 64 + len(self._path_of) // 16:
            self._freeze()
        return count - 1

    def delete(self, expression_id: int) -> None:
        """Remove one expression. Cost: constant."""
        bit = np.uint64(1) << np.uint64(expression_id & 63)
        known = 0 <= expression_id < len(self)
        if not known or not self._alive[expression_id >> 6] & bit:
            raise UnknownSubscriptionError(
                f"no expression has the id {expression_id}", "Use an id that insert returned"
            )
        self._alive[expression_id >> 6] &= ~bit

    def match(self, document: str | bytes) -> Ints:
        """The sorted ids of the expressions that hold; raises EventError if the document cannot be read."""
        matches = self.match_batch([document])
        if matches.errors:
            raise matches.errors[0]
        return matches.ids

    def match_batch(self, documents: Sequence[str | bytes | None]) -> XPathMatches:
        """The same for many documents at once; None is an event without a document; errors are reported, not raised."""
        parts = []
        first = 0
        while first < len(documents):
            last, size = first, 0
            while last < len(documents) and (last == first or size + len(documents[last] or "") <= _CHUNK_BYTES):
                size += len(documents[last] or "")
                last += 1
            parts.append((first, self.match_encoded(self.encode(documents[first:last]))))
            first = last
        offsets = np.zeros(len(documents) + 1, dtype=np.int64)
        np.cumsum(np.concatenate([[0], *(np.diff(part.offsets) for _, part in parts)]), out=offsets)
        ids = np.concatenate([np.empty(0, dtype=np.int32), *(part.ids for _, part in parts)])
        errors = {first + place: error for first, part in parts for place, error in part.errors.items()}
        return XPathMatches(offsets, ids, errors)

    def encode(self, documents: Sequence[str | bytes | None]) -> EncodedBatch:
        """Read documents into arrays, in the names of this index."""
        return encode_documents(documents, self.catalog, self.max_bytes)

    def match_encoded(self, batch: EncodedBatch) -> XPathMatches:
        """Match documents already read: the part of the work that is this index's own."""
        arrays = batch.arrays
        with self._lock:
            result = self._collect(arrays, *self._structures(arrays), self._groups)
            tail = self._tail_groups()
            if tail is not None:
                every = np.flatnonzero(np.diff(tail.filtered_first)).astype(np.int32)
                repeated = np.tile(every, len(batch))
                late = self._collect(arrays, np.arange(len(batch) + 1) * len(every), repeated, tail)
                result = side_by_side(result, late)
            self._documents += len(batch)
        return XPathMatches(*result, batch.errors)

    def match_representatives(self, batch: EncodedBatch) -> XPathMatches:
        """Match documents already read, one id for all equal expressions: the first of them that was built."""
        with self._lock:
            if self._firsts is None:
                self._firsts = _first_members(self._groups)
            result = self._collect(batch.arrays, *self._structures(batch.arrays), self._firsts)
        return XPathMatches(*result, batch.errors)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, which `from_arrays` of the same class opens without building anything."""
        if self._late:
            self._freeze()
        groups = self._groups
        return {
            **{f"catalog.{name}": array for name, array in self.catalog.arrays().items()},
            **{f"groups.{name}": getattr(groups, name) for name in _GROUPED},
            "ordered": np.array([groups.ordered]),
            "alive": self._alive,
            "path_of": self._path_of,
        }

    def _open(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take the place of the index that `arrays` came from, but for the algorithm's own part."""
        self.catalog = Catalog.from_arrays(
            {name.removeprefix("catalog."): array for name, array in arrays.items() if name.startswith("catalog.")}
        )
        self._path_of = arrays["path_of"]
        self._alive = arrays["alive"].copy()
        grouped = {name: frozen(arrays[f"groups.{name}"]) for name in _GROUPED}
        ordered = bool(arrays["ordered"][0])
        same = ordered and _same(grouped["plain"], grouped["members"])
        self._groups = Groups(**grouped, alive=self._alive, ordered=ordered, same=same)
        self._structure_count = len(self.catalog.structures)
        self._firsts = None

    @property
    def nbytes(self) -> int:
        """Bytes of the expressions and of what finds them."""
        return (
            self.catalog.nbytes
            + self._path_of.nbytes
            + sum(array.nbytes for array in self._groups[:4])
            + self._nbytes()
        )

    @property
    def statistics(self) -> XPathStatistics:
        """The work done since the index was built."""
        alive = int(np.unpackbits(self._alive.view(np.uint8), bitorder="little")[: len(self)].sum())
        filtered, steps, candidates, hits, misses, resets = self._evidence.tolist()
        distinct = len(np.union1d(self._path_of, self._late))
        return XPathStatistics(self._documents, alive, distinct, steps, candidates, filtered, hits, misses, resets)

    def check(self) -> None:
        """Assert the invariants."""
        self.catalog.check()
        groups = self._groups
        structure_of = self.catalog.structure_of_paths()
        for found in range(len(groups.plain) - 1):
            paths = self._path_of[groups.members[groups.plain[found] : groups.plain[found + 1]]]
            assert (paths == paths[:1]).all(), "what is found together without evaluation is equal"
            assert found >= self._structure_count or (structure_of[paths] == found).all(), (
                "the members of a structure have its steps"
            )
        for path, begin, end in groups.filtered.tolist():
            assert (self._path_of[groups.members[begin:end]] == path).all(), "the members of a path are equal to it"
        reached = np.zeros(len(groups.members), dtype=np.bool_)
        reached[: groups.plain[-1]] = True
        for _, begin, end in groups.filtered.tolist():
            reached[begin:end] = True
        assert reached.all(), "each built expression can be found"
        assert len(np.unique(groups.members)) == len(groups.members), "each built expression is a member once"
        assert not self._found.any(), "the bitmap of results is clear between documents"
        self._check()

    @abstractmethod
    def _build_structures(self, chosen: Ints) -> None:
        """Index the chosen structures of the catalog.

        An algorithm that finds paths with filters by itself replaces the groups by others that number them as well.
        """

    @abstractmethod
    def _structures(self, documents: Documents) -> tuple[Longs, Ints]:
        """Offsets for each document, and the structures that match it, or what else the groups number."""

    @abstractmethod
    def _nbytes(self) -> int:
        """Bytes of the arrays that find structures."""

    def _check(self) -> None:  # noqa: B027 (an algorithm without invariants of its own needs none)
        """Assert the invariants of the algorithm's own arrays."""

    @property
    def _tag_count(self) -> int:
        return len(self.catalog.names) + 1

    def _freeze(self) -> None:
        """Build the algorithm's arrays for all expressions that are alive."""
        self.catalog.shrink()
        self._path_of = np.append(self._path_of, np.array(self._late, dtype=np.int32))
        self._late = []
        self._tail = None
        self._groups = self._group(self._path_of, 0)
        self._firsts = None
        self._structure_count = len(self.catalog.structures)
        structures = np.unique(self.catalog.structure_of_paths()[self._path_of])
        self._build_structures(structures.astype(np.int32))
        self._found = np.zeros(0, dtype=np.uint64)

    def _group(self, path_of: Ints, first: int, *, guessed: bool = False) -> Groups:
        """Group the expressions that are alive; they are numbered from `first` on.

        With `guessed`, structures are not found but guessed, so that paths without filters need evaluation as well.
        """
        alive = np.unpackbits(self._alive.view(np.uint8), bitorder="little")[first : first + len(path_of)]
        expressions = np.flatnonzero(alive)
        paths, place = np.unique(path_of[expressions], return_inverse=True)
        structure_of = self.catalog.structure_of_paths()[paths]
        filtered = (np.diff(self.catalog.paths.offsets[: len(self.catalog.paths) + 1])[paths] > 1) | guessed
        order = np.lexsort((structure_of, filtered))
        rank = np.empty(len(paths), dtype=np.int64)
        rank[order] = np.arange(len(paths))
        members = (expressions[np.argsort(rank[place], kind="stable")] + first).astype(np.int32)
        ends = np.cumsum(np.bincount(rank[place], minlength=len(paths)))
        starts = np.append(0, ends)[: len(paths)]
        late = order[filtered[order]]
        rows = np.stack([paths[late], starts[rank[late]], ends[rank[late]]], axis=1).astype(np.int32)
        count = len(self.catalog.structures)
        plain = offsets_of(structure_of[place[~filtered[place]]], count)
        filtered_first = offsets_of(structure_of[late], count) if len(late) else np.empty(0, dtype=np.int32)
        ordered = len(late) == 0 and bool((np.diff(members) > 0).all())
        return Groups(
            frozen(plain),
            frozen(filtered_first),
            frozen(rows),
            frozen(members),
            self._alive,
            ordered,
            ordered and _same(plain, members),
        )

    def _tail_groups(self) -> Groups | None:
        if self._late and self._tail is None:
            self._tail = self._group(np.array(self._late, dtype=np.int32), len(self._path_of), guessed=True)
        return self._tail

    def _collect(self, documents: Documents, offsets: Longs, structures: Ints, groups: Groups) -> tuple[Longs, Ints]:
        words = len(self._alive)
        if len(self._found) != words:
            self._found = np.zeros(words, dtype=np.uint64)
        groups = groups._replace(alive=self._alive)
        seen = np.zeros(len(groups.plain) // 64 + 1, dtype=np.uint64)
        count = len(offsets) - 1
        # Room for all expressions, which costs nothing until it is written; where that would be too much it grows.
        out = np.empty(4096 + min(count * len(groups.members), _ROOM), dtype=np.int32)
        out_offsets = np.zeros(count + 1, dtype=np.int64)
        scratch = self._scratch(documents, len(groups.filtered))
        tables = self._tables()
        done = 0
        while True:
            done = collect(
                documents, offsets, structures, tables, groups, scratch, seen, self._found, out, out_offsets, done,
                self._evidence,
            )  # fmt: skip
            if done == count:
                return out_offsets, out[: out_offsets[count]]
            larger = np.empty(2 * len(out) + len(self), dtype=np.int32)
            larger[: out_offsets[done]] = out[: out_offsets[done]]
            out = larger

    def _tables(self) -> Tables:
        catalog = self.catalog
        structures, filters, paths = catalog.structures, catalog.filters, catalog.paths
        if len(self._numbers) != len(filters):
            self._numbers = catalog.filter_numbers()
        return Tables(
            frozen(structures.data),
            frozen(structures.offsets),
            frozen(filters.data),
            frozen(filters.offsets),
            frozen(filters.data.view(np.uint8)),
            frozen(self._numbers),
            frozen(paths.data),
            frozen(paths.offsets),
        )

    def _scratch(self, documents: Documents, filtered: int) -> Scratch:
        """Work space for the largest document of a batch, kept for the next batch if it is large enough."""
        rows = int(np.diff(documents.bounds).max(initial=1))
        nested = self.catalog.most_nested
        paths = len(self.catalog.paths) if nested else 0
        attributes = len(documents.attribute_name)
        needed = (rows, self._tag_count + 2, paths, nested, len(documents.data) + 8, attributes, filtered)
        if self._space is None or any(need > has for need, has in zip(needed, self._space_for, strict=True)):
            slots = max(nested + 1, min(1024, _SLOT_BYTES // rows)) if nested else 1
            self._space_for = needed
            self._space = Scratch(
                np.zeros(rows, dtype=np.int64),
                np.zeros(4, dtype=np.int64),
                np.empty(rows, dtype=np.int32),
                np.empty(rows, dtype=np.int32),
                np.zeros(self._tag_count + 2, dtype=np.int32),
                np.empty((slots, rows if nested else 1), dtype=np.bool_),
                np.empty(paths, dtype=np.int32),
                np.zeros(paths, dtype=np.int64),
                np.empty(nested + 2, dtype=np.int32),
                np.empty(len(documents.data) + 8, dtype=np.uint8),
                np.empty(attributes, dtype=np.float64),
                np.empty(filtered, dtype=np.int32),
            )
        return self._space


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The array, not to be written: as it comes from a file, so that kernels are compiled for one kind only."""
    view = array.view()
    view.flags.writeable = False
    return view


def _first_members(groups: Groups) -> Groups:
    """The same groups with only the first member of each."""
    plain, filtered = groups.plain, groups.filtered.copy()
    first = np.append(0, np.cumsum(np.diff(plain) > 0)).astype(np.int32)
    members = groups.members[plain[:-1][np.diff(plain) > 0]]
    if len(filtered):
        members = np.append(members, groups.members[filtered[:, 1]])
        filtered[:, 1] = first[-1] + np.arange(len(filtered))
        filtered[:, 2] = filtered[:, 1] + 1
    ordered = len(filtered) == 0 and bool((np.diff(members) > 0).all())
    return groups._replace(
        plain=frozen(first),
        filtered=frozen(filtered),
        members=frozen(members),
        ordered=ordered,
        same=ordered and _same(first, members),
    )


def _same(plain: Ints, members: Ints) -> bool:
    """Whether each structure has one member, with its own number."""
    return len(plain) == len(members) + 1 and bool((plain[:-1] == members).all() and (np.diff(plain) == 1).all())


def offsets_of(keys: Ints, count: int) -> Ints:
    """Where each key from 0 to count - 1 starts in the sorted keys, and where the last one ends."""
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return offsets


def side_by_side(left: tuple[Longs, Ints], right: tuple[Longs, Ints]) -> tuple[Longs, Ints]:
    """Join two results document by document, the left one first."""
    offsets = left[0] + right[0]
    values = np.empty(len(left[1]) + len(right[1]), dtype=np.int32)
    for (own, ids), shift in ((left, right[0][:-1]), (right, left[0][1:])):
        values[np.arange(len(ids)) + np.repeat(shift, np.diff(own))] = ids
    return offsets, values
