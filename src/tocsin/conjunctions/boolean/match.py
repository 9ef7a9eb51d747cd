"""The trees of a segment: which subscriptions are trees, and the code by which candidates are verified."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Int32s, Int64s, UInt8s
from tocsin.conjunctions.boolean.kernels import (
    ACCEPT,
    FIELDS,
    FIRST,
    IF_FALSE,
    IF_TRUE,
    KIND,
    LAST,
    RANGE,
    RANGES,
    SUBJECT,
    TEST,
    Code,
    Leaves,
    count_instructions,
    leaf_jumps,
    match_everywhere,
    pairs_of_words,
    verify_trees,
    write_instructions,
)
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.conjunctions.protocol import Step
from tocsin.invariants import check_fields, check_ranges, check_starts, check_type, check_within, demand

_NONE = np.empty(0, np.int32)


class Trees(NamedTuple):
    """Subscriptions that are trees of conjunctions. The leaves that are filed say which events are candidates."""

    tree_of: Int32s
    """By subscription: the number of its tree, or -1. Empty if none is a tree."""
    everywhere: Int32s
    """The subscriptions whose trees have no rare cover: no leaf of theirs is filed, and every event verifies them."""
    code: Code

    @classmethod
    def none(cls) -> "Trees":
        """No trees."""
        return cls(_NONE, _NONE, Code(np.zeros(1, np.int64), np.empty((0, FIELDS), np.int32), _NONE, _NONE, _NONE))

    @classmethod
    def build(
        cls,
        conjunctions: Conjunctions,
        leaf: Int32s,
        nesting: tuple[UInt8s, UInt8s],
        starts: Int64s,
        owner: Int32s,
        filed: Bools,
    ) -> "Trees":
        """Write the code of trees; the leaves of tree t are the conjunctions `leaf[starts[t]:starts[t + 1]]`.

        `owner` has the subscription of each tree, and one more entry: how many subscriptions there are; `filed` says
        which conjunctions are. Linear.
        """
        rows, range_starts = _rows_of(conjunctions.conjunction, leaf)
        test_rows, test_starts = _rows_of(conjunctions.test_conjunction, leaf)
        low, high = conjunctions.low[rows], conjunctions.high[rows]
        leaves = Leaves(
            range_starts,
            conjunctions.column[rows],
            low,
            high,
            test_starts,
            conjunctions.test[test_rows].astype(np.int32),
            conjunctions.test_accepts[test_rows].astype(np.int32),
        )
        of_leaf = count_instructions(leaves)
        instructions = write_instructions(leaves, of_leaf, *leaf_jumps(*nesting, starts))
        if not (instructions[:, KIND] == RANGES).any():
            low, high = _NONE, _NONE
        tree_of = np.full(int(owner[-1]), -1, np.int32)
        tree_of[owner[:-1]] = np.arange(owner.size - 1, dtype=np.int32)
        everywhere = owner[:-1][~np.logical_or.reduceat(filed[leaf], starts[:-1])].astype(np.int32)
        return cls(tree_of, everywhere, Code(of_leaf[starts], instructions, low, high, conjunctions.test_null_column))

    def __len__(self) -> int:
        return self.code.starts.size - 1

    def verify(self, event: Int32s | Int64s, subscription: Int32s, events: Events) -> tuple[Bools | None, int]:
        """Tell which pairs of event and subscription stand, and how many of them were candidates for a tree.

        None if all stand: a subscription that is not a tree does.
        """
        if not len(self):
            return None, 0
        tree = self.tree_of[subscription]
        candidates = np.flatnonzero(tree >= 0)
        if not candidates.size:
            return None, 0
        stands = np.ones(subscription.size, bool)
        rows = event[candidates].astype(np.int32)
        stands[candidates] = verify_trees(rows, tree[candidates], self.code, events)
        return stands, candidates.size

    def match_everywhere(self, events: Events, dropped: Bools) -> tuple[Int32s, int]:
        """Return the (event, subscription) pairs of the trees that are not filed, and how many were verified.

        Trees of subscriptions that are `dropped` are left out; the array is empty if none is.
        """
        chosen = self.everywhere[~dropped[self.everywhere]] if dropped.size else self.everywhere
        words = match_everywhere(self.tree_of[chosen], self.code, events)
        return pairs_of_words(words, chosen), chosen.size * events.codes.shape[1]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""
        return {"tree_of": self.tree_of, "everywhere": self.everywhere, **self.code._asdict()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "Trees":
        """The trees that `arrays` came from, without copying."""
        return cls(arrays["tree_of"], arrays["everywhere"], Code(*(arrays[name] for name in Code._fields)))

    def check_arrays(self, columns: int, subscriptions: int) -> None:
        """Demand what keeps the kernels within their arrays."""
        check_type("tree_of", self.tree_of, np.int32)
        check_type("everywhere", self.everywhere, np.int32)
        code, instructions = self.code, self.code.instructions
        check_fields(Code, code, {"instructions": FIELDS})
        check_starts("starts", code.starts, len(self), len(instructions))
        demand(np.diff(code.starts) > 0, "starts", "a tree has no instruction")
        size = subscriptions if len(self) else 0
        demand(self.tree_of.size == size, "tree_of", f"it has {self.tree_of.size} entries, not {size}")
        check_within("tree_of", self.tree_of, -1, len(self))
        check_within("everywhere", self.everywhere, 0, size)
        demand(self.tree_of[self.everywhere] >= 0, "everywhere", "one is not a tree")
        demand(code.low.size == code.high.size, "high", "not each range has two ends")
        check_within("null_column", code.null_column, -1, columns)
        check_within("instructions", instructions[:, KIND], RANGE, TEST + 1)
        is_test, is_union = instructions[:, KIND] == TEST, instructions[:, KIND] == RANGES
        check_within("instructions", instructions[is_test, SUBJECT], 0, code.null_column.size)
        check_within("instructions", instructions[~is_test, SUBJECT], 0, columns)
        check_ranges("instructions", instructions[is_union, FIRST], instructions[is_union, LAST], code.low.size)
        place, end = np.arange(len(instructions)), np.repeat(code.starts[1:], np.diff(code.starts))
        for field in (IF_TRUE, IF_FALSE):
            jump = instructions[:, field].astype(np.int64)
            demand((jump <= ACCEPT) | (place + jump < end), "instructions", "a jump leaves its tree")

    def check(self) -> None:
        """Assert what the kernels rely on."""
        code = self.code
        assert (np.diff(code.starts) > 0).all(), "each tree has an instruction"
        assert code.starts[-1] == len(code.instructions), "the last tree ends at the end"
        owned = np.sort(self.tree_of[self.tree_of >= 0])
        assert owned.tolist() == list(range(len(self))), "each tree has one subscription"
        place = np.arange(len(code.instructions))
        end = np.repeat(code.starts[1:], np.diff(code.starts))
        for field in (IF_TRUE, IF_FALSE):
            jump = code.instructions[:, field]
            assert (np.where(jump > ACCEPT, place + jump, place) < end).all(), "jumps stay within their tree"

    def describe(self) -> Iterator[Step]:
        """Say how trees are matched."""
        if len(self):
            yield Step(
                f", {len(self):,} subscriptions that are not an OR of few conjunctions",
                f"kept as trees: {len(self.code.instructions):,} predicates as code with jumps",
                "filed under conjunctions of which one holds whenever the tree does; each candidate is verified",
            )
        if self.everywhere.size:
            yield Step(
                f", {self.everywhere.size:,} of these trees",
                "verified for every event, many events at a time",
                "whatever they could be filed under holds for many events",
            )


def _rows_of(conjunction: Int32s, leaf: Int32s) -> tuple[Int64s, Int64s]:
    """The rows of each leaf among rows sorted by conjunction, and where those of each leaf start."""
    first = np.searchsorted(conjunction, leaf)
    sizes = np.searchsorted(conjunction, leaf, side="right") - first
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return np.repeat(first - starts[:-1], sizes) + np.arange(int(starts[-1])), starts
