"""What all indexes of path expressions share: documents in, structures found, filters checked, ids out.

An algorithm knows only structures: paths without filters, each once. A structure leads to its paths (the same steps
with filters), a path to its expressions (all that are equal).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.errors import EventError
from tocsin.forks import Guard, Level
from tocsin.invariants import check_fields, check_ranges, check_starts, check_type, check_within, demand, under
from tocsin.predicates.xpath.alternatives import Alternatives
from tocsin.predicates.xpath.catalog import Catalog, frozen
from tocsin.predicates.xpath.document import MAX_BYTES, EncodedBatch, encode_documents
from tocsin.predicates.xpath.expression import XPath
from tocsin.predicates.xpath.kernels.collect import GROUP_BEGIN, GROUP_END, GROUP_PATH, ResultGroups, collect
from tocsin.predicates.xpath.kernels.filters import Scratch
from tocsin.predicates.xpath.kernels.tokens import Documents

_GROUPED = ("plain", "filtered_first", "filtered", "members")
_CHUNK_BYTES = 64_000_000
"""Bytes of documents that are read at once: their places have 32 bits, and their arrays take some ten times as much."""
_SLOT_BYTES = 16_000_000
"""Bytes for the truths of nested paths on the rows of one document."""
_ROOM = 16_000_000
"""Ids for which there is room from the start, which costs nothing until it is written.

A document with 380,000 ids takes 1.0 ms, with room that grows 1.35."""


@dataclass(frozen=True, slots=True)
class XPathMatches:
    """Which expressions hold on each document: ids[offsets[d]:offsets[d + 1]], sorted, for document d.

    A document that could not be read has no ids, and its error stands in `errors` under its place.
    """

    offsets: Int64s
    ids: Int32s
    errors: dict[int, EventError] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, document: int) -> Int32s:
        return self.ids[self.offsets[document] : self.offsets[document + 1]]


@dataclass(frozen=True, slots=True)
class XPathStatistics:
    """The work done since the index was built; from `filtered` on, the fields are those of the kernels' evidence.

    `distinct` are the paths of the expressions, equal ones once; `verified` is how often lxml evaluated an expression.
    `filtered` are expressions that match in structure and whose filters were evaluated. `steps` are what time goes to:
    elements and states visited, predicates tested, conjunctions looked at, steps of structures followed along a path.
    `candidates` are the conjunctions, states or predicates looked at, whichever the algorithm counts. `memo_hits` and
    `memo_misses` are elements whose path was known and new; `memo_resets` is how often the memo was full.
    """

    documents: int
    expressions: int
    distinct: int
    verified: int
    filtered: int
    steps: int
    candidates: int
    memo_hits: int
    memo_misses: int
    memo_resets: int


class StructureIndex(ABC):
    """An index of path expressions over one way to find structures. Ids are the places of expressions: 0, 1, 2, ...

    >>> from tocsin.predicates.xpath import XPathIndex, parse_xpath
    >>> index = XPathIndex()
    >>> index.build([parse_xpath("/a/b"), parse_xpath("//b[@x > 3]"), parse_xpath("a//c")])
    >>> index.match('<a><b x="4"/></a>').tolist()
    [0, 1]
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        # The work space and the memo of paths are shared: documents are read side by side, but matched in turn.
        self._lock = Guard(Level.INDEX)
        self.build([])

    def build(self, expressions: Sequence[XPath]) -> None:
        """Replace what the index holds. Cost: linear in the expressions, some 10 µs for each distinct one."""
        paths, self._alternatives = Alternatives.build(expressions)
        self.catalog, self._path_of = Catalog.build(paths)
        self._file()

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replace what the index holds by the state of the one that `arrays` came from. Cost: linear, no parsing."""
        self.catalog = Catalog(arrays_under("catalog.", arrays))
        self._path_of = arrays["path_of"]
        self._alternatives = Alternatives.from_arrays(arrays_under("alternatives.", arrays))
        self._file()

    def _file(self) -> None:
        self._groups = _group(self.catalog, self._path_of)
        self._clear()
        structures = np.unique(self.catalog.structure_of_paths()[self._path_of])
        self._build_structures(structures.astype(np.int32))

    def _clear(self) -> None:
        """Start with empty counters and no work space."""
        self._evidence = np.zeros(6, dtype=np.int64)
        self._documents = 0
        self._verified = 0
        self._found = np.zeros(len(self._path_of) // 64 + 1, dtype=np.uint64)
        self._space: Scratch | None = None
        self._space_for = (0, 0, 0)

    def __len__(self) -> int:
        return len(self._path_of) if self._alternatives is None else self._alternatives.count

    def match(self, document: str | bytes) -> Int32s:
        """Return the sorted ids of the expressions that hold; raise EventError if the document cannot be read."""
        matches = self.match_batch([document])
        if matches.errors:
            raise matches.errors[0]
        return matches.ids

    def match_batch(self, documents: Sequence[str | bytes | None]) -> XPathMatches:
        """Match many documents at once; None is an event without a document; errors are reported, not raised."""
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
        """Match documents that are already read: the part of the work that is this index's own."""
        with self._lock:
            self._documents += len(batch)
            offsets, ids = self._collect(batch.arrays, *self._structures(batch.arrays))
        if self._alternatives is None:
            return XPathMatches(offsets, ids, batch.errors)
        errors = dict(batch.errors)
        offsets, ids, verified = self._alternatives.settle(batch, offsets, ids, errors)
        self._verified += verified
        return XPathMatches(offsets, ids, errors)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays, which `restore` of an index of the same kind takes."""
        alternatives = {} if self._alternatives is None else self._alternatives.arrays()
        return {
            **{f"catalog.{name}": array for name, array in self.catalog.arrays().items()},
            **{f"groups.{name}": getattr(self._groups, name) for name in _GROUPED},
            "ordered": np.array([self._groups.ordered]),
            "path_of": self._path_of,
            **{f"alternatives.{name}": array for name, array in alternatives.items()},
        }

    def _open(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over the state of the index that `arrays` came from, except for the algorithm's own part."""
        self.catalog = Catalog(arrays_under("catalog.", arrays))
        self._path_of = arrays["path_of"]
        self._alternatives = Alternatives.from_arrays(arrays_under("alternatives.", arrays))
        grouped = {name: arrays[f"groups.{name}"] for name in _GROUPED}
        self._groups = _result_groups(**grouped, ordered=bool(arrays["ordered"][0]))
        self._clear()

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays: once, of an index from a file."""
        groups, members = self._groups, len(self._groups.members)
        check_type("path_of", self._path_of, np.int32)
        with under("catalog."):
            self.catalog.check_arrays(self._path_of)
        check_within("path_of", self._path_of, 0, len(self.catalog.tables.path_offsets) - 1)
        with under("groups."):
            check_fields(ResultGroups, groups, {"filtered": 3})
            found = len(groups.plain) - 1
            demand(found >= self._structure_count, "plain", "a structure has no entry")
            check_starts("plain", groups.plain, found, int(groups.plain[-1]))
            demand(groups.plain[-1] <= members, "plain", "it ends behind the members")
            check_within("members", groups.members, 0, len(self._path_of))
            check_within("filtered", groups.filtered[:, GROUP_PATH], 0, len(self.catalog.tables.path_offsets) - 1)
            check_ranges("filtered", groups.filtered[:, GROUP_BEGIN], groups.filtered[:, GROUP_END], members)
            if groups.filtered_first.size:
                check_starts("filtered_first", groups.filtered_first, found, len(groups.filtered))
            ordered = not groups.ordered or (not len(groups.filtered) and (np.diff(groups.members) > 0).all())
            demand(ordered, "members", "they are said to ascend, and do not")
        if self._alternatives is not None:
            with under("alternatives."):
                self._alternatives.check_arrays(len(self._path_of))

    @property
    def nbytes(self) -> int:
        """Bytes of the expressions and of what finds them."""
        groups = sum(array.nbytes for array in self._groups[:4])
        alternatives = 0 if self._alternatives is None else self._alternatives.nbytes
        return self.catalog.nbytes + self._path_of.nbytes + groups + alternatives + self._nbytes()

    @property
    def statistics(self) -> XPathStatistics:
        """The work done since the index was built."""
        distinct = len(np.unique(self._path_of))
        return XPathStatistics(self._documents, len(self), distinct, self._verified, *self._evidence.tolist())

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
        reached = np.zeros(len(groups.members), dtype=np.bool_)
        reached[: groups.plain[-1]] = True
        for path, begin, end in groups.filtered.tolist():
            assert (self._path_of[groups.members[begin:end]] == path).all(), "the members of a path are equal to it"
            reached[begin:end] = True
        assert reached.all(), "each expression can be found"
        assert sorted(groups.members.tolist()) == list(range(len(self._path_of))), "each path is a member once"
        assert not self._found.any(), "the bitmap of results is clear between documents"
        self._check()

    @abstractmethod
    def _build_structures(self, chosen: Int32s) -> None:
        """Index the chosen structures of the catalog.

        An algorithm that finds paths with filters by itself replaces the groups by others that number them as well.
        """

    @abstractmethod
    def _structures(self, documents: Documents) -> tuple[Int64s, Int32s]:
        """Return offsets for each document, and the structures that match it, or what else the groups number."""

    @abstractmethod
    def _nbytes(self) -> int:
        """Bytes of the arrays that find structures."""

    def _check(self) -> None:  # noqa: B027 (an algorithm without invariants of its own needs none)
        """Assert the invariants of the algorithm's own arrays."""

    @property
    def _tag_count(self) -> int:
        return len(self.catalog.names) + 1

    @property
    def _structure_count(self) -> int:
        return len(self.catalog.tables.structure_offsets) - 1

    def _collect(self, documents: Documents, offsets: Int64s, structures: Int32s) -> tuple[Int64s, Int32s]:
        groups = self._groups
        seen = np.zeros(len(groups.plain) // 64 + 1, dtype=np.uint64)
        count = len(offsets) - 1
        out = np.empty(4096 + min(count * len(groups.members), _ROOM), dtype=np.int32)
        out_offsets = np.zeros(count + 1, dtype=np.int64)
        scratch = self._scratch(documents)
        done = 0
        while True:
            done = collect(
                documents, offsets, structures, self.catalog.tables, groups, scratch, seen, self._found, out,
                out_offsets, done, self._evidence,
            )  # fmt: skip
            if done == count:
                return out_offsets, out[: out_offsets[count]]
            larger = np.empty(2 * len(out) + len(self._path_of), dtype=np.int32)
            larger[: out_offsets[done]] = out[: out_offsets[done]]
            out = larger

    def _scratch(self, documents: Documents) -> Scratch:
        """Return work space for the largest document of a batch, that of the last batch if it is large enough."""
        rows = int(np.diff(documents.bounds).max(initial=1))
        nested = self.catalog.most_nested
        needed = (rows, len(documents.data), len(documents.attribute_name))
        if self._space is None or any(need > has for need, has in zip(needed, self._space_for, strict=True)):
            paths = len(self.catalog.tables.path_offsets) - 1 if nested else 0
            slots = max(nested + 1, min(1024, _SLOT_BYTES // rows)) if nested else 1
            self._space_for = needed
            self._space = Scratch(
                mark=np.zeros(rows, dtype=np.int64),
                clock=np.zeros(4, dtype=np.int64),
                rows=np.empty(rows, dtype=np.int32),
                by_tag=np.empty(rows, dtype=np.int32),
                tag_start=np.zeros(self._tag_count + 2, dtype=np.int32),
                truth=np.empty((slots, rows if nested else 1), dtype=np.bool_),
                slot_of_path=np.empty(paths, dtype=np.int32),
                slot_clock=np.zeros(paths, dtype=np.int64),
                stack=np.empty(nested + 2, dtype=np.int32),
                value=np.empty(len(documents.data) + 8, dtype=np.uint8),
                numbers=np.empty(len(documents.attribute_name), dtype=np.float64),
                wanted=np.empty(len(self._groups.filtered), dtype=np.int32),
            )
        return self._space


def _group(catalog: Catalog, path_of: Int32s) -> ResultGroups:
    """Group expressions by their paths: first the paths without filters, then the others, by structure."""
    paths, place = np.unique(path_of, return_inverse=True)
    structure_of = catalog.structure_of_paths()[paths]
    has_filters = np.diff(catalog.tables.path_offsets)[paths] > 1
    order = np.lexsort((structure_of, has_filters))
    rank = np.empty(len(paths), dtype=np.int64)
    rank[order] = np.arange(len(paths))
    members = np.argsort(rank[place], kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(rank[place], minlength=len(paths)))
    starts = np.append(0, ends)[: len(paths)]
    late = order[has_filters[order]]
    filtered = np.empty((len(late), 3), dtype=np.int32)
    filtered[:, GROUP_PATH] = paths[late]
    filtered[:, GROUP_BEGIN], filtered[:, GROUP_END] = starts[rank[late]], ends[rank[late]]
    count = len(catalog.tables.structure_offsets) - 1
    return _result_groups(
        plain=offsets_of(structure_of[place[~has_filters[place]]], count),
        filtered_first=offsets_of(structure_of[late], count) if len(late) else np.empty(0, dtype=np.int32),
        filtered=filtered,
        members=members,
        ordered=len(late) == 0 and bool((np.diff(members) > 0).all()),
    )


def _result_groups(
    plain: Int32s, filtered_first: Int32s, filtered: Int32s, members: Int32s, *, ordered: bool
) -> ResultGroups:
    numbers = np.arange(len(members) + 1)
    same = ordered and np.array_equal(plain, numbers) and np.array_equal(members, numbers[:-1])
    return ResultGroups(frozen(plain), frozen(filtered_first), frozen(filtered), frozen(members), ordered, same)


def arrays_under(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def offsets_of(keys: Int32s, count: int) -> Int32s:
    """Return where each key from 0 to count - 1 starts in the sorted keys, and where the last one ends."""
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return offsets


def side_by_side(left: tuple[Int64s, Int32s], right: tuple[Int64s, Int32s]) -> tuple[Int64s, Int32s]:
    """Join two results document by document, the left one first: `Ragged.side_by_side`, in 11 µs instead of 25."""
    values = np.empty(len(left[1]) + len(right[1]), dtype=np.int32)
    for (own, ids), shift in ((left, right[0][:-1]), (right, left[0][1:])):
        values[np.arange(len(ids)) + np.repeat(shift, np.diff(own))] = ids
    return left[0] + right[0], values
