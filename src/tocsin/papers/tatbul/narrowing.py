"""Lazy and Cluster as the paper runs them: each attribute narrows the conjunctions that are still alive.

Any other index says which predicates of an attribute hold whatever the other attributes say, so any matcher of
conjunctions can follow it. Lazy and Cluster save evaluations because of what the other attributes left: Lazy evaluates
a predicate only if those before it in its conjunction held; Cluster evaluates only conjunctions that lie in the
cluster of the event on every attribute.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tocsin.arrays import Int32s, Int64s, UInt16s
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.conjunctions.protocol import CodesOf, Pairs, Step
from tocsin.papers.sift.key import Key
from tocsin.papers.tatbul.cluster import ClusterTree
from tocsin.papers.tatbul.narrowing_kernels import Ranges, count_clusters, match_lazily, verify_counted
from tocsin.papers.tatbul.structure import Entries
from tocsin.papers.tatbul.two_phase import StoredConjunctions, TestTerms

COUNTS = 1 << 24
"""Counts of conjunctions that Cluster keeps at a time, two bytes each: a batch is taken in blocks of events."""


class Narrowed(NamedTuple):
    """The (event, conjunction) pairs whose ranges hold, the conjunctions evaluated, and predicate evaluations."""

    events: Int32s
    conjunctions: Int32s
    candidates: int
    evaluations: int


class LazyConjunctions:
    """Conjunctions without an index, each evaluated up to its first predicate that fails."""

    def __init__(self, conjunctions: Conjunctions) -> None:
        starts = np.searchsorted(conjunctions.conjunction, np.arange(conjunctions.count + 1)).astype(np.int64)
        self.ranges = Ranges(starts, conjunctions.column, conjunctions.low, conjunctions.high)

    def match(self, codes: Int32s) -> Narrowed:
        """Return what holds for events by `codes[column, event]`. O(n) an event."""
        events, conjunctions, evaluations = match_lazily(self.ranges, codes)
        evaluated = (len(self.ranges.starts) - 1) * codes.shape[1]
        return Narrowed(events, conjunctions, evaluated, int(evaluations))

    @property
    def nbytes(self) -> int:
        """Bytes of the ranges."""
        return sum(array.nbytes for array in self.ranges)

    def check(self) -> None:
        """Assert that the ranges of a conjunction lie together, column by column."""
        starts, column, low, high = self.ranges
        inside = np.ones(max(len(column) - 1, 0), bool)
        inside[starts[(starts > 0) & (starts < len(column))] - 1] = False
        assert (np.diff(column)[inside] >= 0).all(), "ranges of one column stand side by side: they are one predicate"
        assert (low <= high).all(), "an empty range is never stored"


class ClusterConjunctions:
    """Conjunctions by one Cluster Index for each column; those in the event's cluster on all columns are evaluated."""

    def __init__(self, conjunctions: Conjunctions) -> None:
        self._lazy = LazyConjunctions(conjunctions)
        self._trees: dict[int, tuple[ClusterTree, int]] = {}
        """By column: the tree, and what is added to codes so that NULL is a code where a predicate accepts it."""
        for column in np.unique(conjunctions.column).tolist():
            rows = np.flatnonzero(conjunctions.column == column)
            low, high = conjunctions.low[rows], conjunctions.high[rows]
            shift = int(low.min() < 0)
            entries = Entries.of(low + shift, high + shift, conjunctions.conjunction[rows])
            self._trees[column] = ClusterTree(entries), shift
        named = np.unique(np.stack([conjunctions.conjunction, conjunctions.column], axis=1), axis=0)[:, 0]
        self._wanted: UInt16s = np.bincount(named, minlength=conjunctions.count).astype(np.uint16)

    def match(self, codes: Int32s) -> Narrowed:
        """Return what holds for events by `codes[column, event]`."""
        block = max(1, COUNTS // max(1, len(self._wanted)))
        blocks = [self._match_block(codes[:, at : at + block], at) for at in range(0, codes.shape[1], block)]
        if len(blocks) == 1:
            return blocks[0]
        none = np.empty(0, np.int32)
        events, conjunctions, candidates, evaluations = zip(Narrowed(none, none, 0, 0), *blocks, strict=True)
        return Narrowed(np.concatenate(events), np.concatenate(conjunctions), sum(candidates), sum(evaluations))

    def _match_block(self, codes: Int32s, first: int) -> Narrowed:
        codes = np.ascontiguousarray(codes)
        counts = np.zeros((codes.shape[1], len(self._wanted)), np.uint16)
        compared = 0
        for column, (tree, shift) in self._trees.items():
            compared += count_clusters(tree.tree, tree.entries.predicate, codes[column] + np.int32(shift), counts)
        events, conjunctions, candidates, evaluations = verify_counted(self._lazy.ranges, codes, counts, self._wanted)
        return Narrowed(events + np.int32(first), conjunctions, int(candidates), int(compared + evaluations))

    @property
    def nbytes(self) -> int:
        """Bytes of the trees, and of the ranges that are evaluated."""
        return self._lazy.nbytes + self._wanted.nbytes + sum(tree.nbytes for tree, _ in self._trees.values())

    def check(self) -> None:
        """Assert the invariants of every tree."""
        self._lazy.check()
        for tree, _ in self._trees.values():
            tree.entries.check()
            tree.check()


class NarrowingIndex(StoredConjunctions):
    """Conjunctions as Lazy or Cluster find them; tests, which the paper does not have, are judged at the end."""

    def __init__(self, conjunctions: Conjunctions, index: str, matcher: str = "auto") -> None:
        super().__init__(conjunctions, index, matcher)
        self.evaluations = 0
        self._by_ranges = LazyConjunctions(conjunctions) if index == "lazy" else ClusterConjunctions(conjunctions)
        self._tests = TestTerms(conjunctions, 0)
        self._tested, owner = np.unique(self._tests.owner, return_inverse=True)
        order = np.argsort(owner, kind="stable")
        starts = np.searchsorted(owner[order], np.arange(self._tested.size + 1)).astype(np.int64)
        self._by_tests = Key.build(starts, self._tests.terms[order].astype(np.int32), self._tests.end)

    def match(self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None) -> Pairs:  # noqa: ARG002  # events have their codes
        """The (event, conjunction) rows that match, in no order, and the number of candidates verified."""
        found = self._by_ranges.match(events.codes)
        self.evaluations += found.evaluations
        pairs = np.stack([found.events, found.conjunctions], axis=1)
        if not self._tested.size:
            return pairs, found.candidates
        owner, ids = self._tests.held(events)
        order = np.lexsort((ids, owner))
        starts = np.searchsorted(owner[order], np.arange(events.codes.shape[1] + 1)).astype(np.int64)
        held = self._by_tests.match_batch(starts, ids[order].astype(np.int32))
        passed = _as_keys(held.events(), self._tested[held.conjunctions])
        untested = ~np.isin(found.conjunctions, self._tested)
        return pairs[untested | np.isin(_as_keys(found.events, found.conjunctions), passed)], found.candidates

    def describe(self, column_name: Callable[[int], str]) -> Iterator[Step]:  # noqa: ARG002  # one way for all columns
        """Name the procedure."""
        yield Step("", f"attribute by attribute, {self.index}", "asked for")

    def derived_bytes(self) -> dict[str, int]:
        """Bytes of what is built from the conjunctions."""
        sizes = {self.index: self._by_ranges.nbytes}
        return sizes | {"key": self._by_tests.nbytes} if self._tested.size else sizes

    def check(self) -> None:
        """Assert what matching relies on."""
        self._by_ranges.check()
        self._by_tests.check()


def _as_keys(events: Int32s, conjunctions: Int32s) -> Int64s:
    return events.astype(np.int64) << 32 | conjunctions
