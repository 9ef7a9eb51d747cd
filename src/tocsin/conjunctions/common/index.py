"""Conjunctions that most events satisfy: found a block at a time, so that their matches cost little more than a copy.

`a > -1000` in a thousand variants, `NOT has_words(t, '…')`, `a IS NULL OR a IS NOT NULL`: every event matches nearly
all of them, and no access rules any out. They stand in blocks, in the order of their subscriptions. An event that lies
in the core of a block (`kernels.py`) gets the list of its subscriptions, which is in order already.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, Ragged
from tocsin.conjunctions.coded import FALSE, NOT_TRUE, Conjunctions, Events, popularity, range_predicates
from tocsin.conjunctions.common.kernels import BLOCK, BOX_COLUMN, CommonBlocks, match_common
from tocsin.conjunctions.estimate import share_of_conjunctions
from tocsin.conjunctions.protocol import Extent, Filing, Pairs, Step
from tocsin.invariants import check_fields, check_starts, check_within, demand
from tocsin.tuning import TUNING

_ROUNDS = 3


@dataclass(frozen=True)
class CommonIndex:
    """Conjunctions in blocks. Immutable; built once, probed by batch."""

    blocks: CommonBlocks
    first_block: int
    """The number that block 0 is found under, behind all conjunctions of the segment."""

    @classmethod
    def build(cls, conjunctions: Conjunctions, numbers: Int32s, first_block: int) -> "CommonIndex":
        """File conjunctions, each a box with forbidden tests, in this order; `numbers` has the number of each."""
        box_starts, boxes = _boxes(conjunctions)
        test_starts = np.searchsorted(conjunctions.test_conjunction, np.arange(conjunctions.count + 1))
        block_of = conjunctions.test_conjunction // BLOCK
        forbidding = np.unique(np.stack([conjunctions.test, block_of], axis=1), axis=0)
        tests = int(conjunctions.test.max(initial=-1)) + 1
        blocks = CommonBlocks(
            conjunction=numbers,
            box_starts=box_starts,
            boxes=boxes,
            test_starts=test_starts.astype(np.int64),
            tests=conjunctions.test.astype(np.int32),
            forbidding_starts=np.searchsorted(forbidding[:, 0], np.arange(tests + 1)).astype(np.int64),
            forbidding=np.ascontiguousarray(forbidding[:, 1]).astype(np.int32),
            **_cores(box_starts, boxes),
        )
        return cls(blocks, first_block)

    def __len__(self) -> int:
        return self.blocks.conjunction.size

    def match(self, events: Events) -> Pairs:
        """Return the pairs (event, conjunction or block) that match, those of an event in the order of blocks."""
        pairs, candidates = match_common(self.blocks, events, self.first_block)
        return pairs, candidates

    @property
    def members(self) -> Ragged:
        """The conjunctions of each block."""
        starts = np.append(np.arange(0, len(self), BLOCK), len(self))
        return Ragged(starts.astype(np.int64), self.blocks.conjunction)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""
        return self.blocks._asdict() | {"first_block": np.array([self.first_block], np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "CommonIndex":
        """The index that `arrays` came from, without copying."""
        return cls(CommonBlocks(*(arrays[name] for name in CommonBlocks._fields)), int(arrays["first_block"][0]))

    def describe(self) -> Iterator[Step]:
        """Say how conjunctions are filed."""
        yield Step(
            f", {len(self):,} conjunctions",
            f"in {self.blocks.core_starts.size - 1:,} blocks that are found as one",
            "most events are expected to satisfy all of a block, so that its subscriptions are only copied",
        )

    def check_arrays(self, bounds: Extent) -> None:
        """Demand what keeps the kernels within their arrays."""
        blocks = self.blocks
        check_fields(CommonBlocks, blocks, {"boxes": 3, "cores": 3})
        count = -(-len(self) // BLOCK)
        demand(self.first_block + count == bounds.conjunctions, "first_block", "not each block has an owner")
        check_within("conjunction", blocks.conjunction, 0, self.first_block)
        check_starts("box_starts", blocks.box_starts, len(self), len(blocks.boxes))
        check_starts("test_starts", blocks.test_starts, len(self), blocks.tests.size)
        check_starts("core_starts", blocks.core_starts, count, len(blocks.cores))
        check_starts(
            "forbidding_starts", blocks.forbidding_starts, blocks.forbidding_starts.size - 1, blocks.forbidding.size
        )
        for name in ("boxes", "cores"):
            check_within(name, getattr(blocks, name)[:, BOX_COLUMN], 0, bounds.columns)
        check_within("forbidding", blocks.forbidding, 0, count)

    def check(self) -> None:
        """Assert what the kernels rely on."""
        blocks, count = self.blocks, len(self)
        assert blocks.box_starts.size == blocks.test_starts.size == count + 1, "each conjunction has a box and tests"
        assert blocks.box_starts[-1] == len(blocks.boxes), "the last box ends at the end"
        assert blocks.test_starts[-1] == blocks.tests.size, "the last test is that of the last conjunction"
        assert blocks.core_starts.size == -(-count // BLOCK) + 1, "each block has a core"
        assert blocks.core_starts[-1] == len(blocks.cores), "the last core ends at the end"
        assert blocks.forbidding_starts[-1] == blocks.forbidding.size, "the last test ends at the end"
        assert (blocks.forbidding < blocks.core_starts.size - 1).all(), "what forbids a test is a block"


def choose_common(filing: Filing) -> Bools:
    """Tell which conjunctions before the split most events are expected to satisfy, enough of them all at once.

    Where events lie is estimated from the constants of the other conjunctions, which ask for what there is: the ends of
    ranges that accept everything say nothing about events. Of the conjunctions that are wide enough the widest are
    taken: as many as give the largest number of them, times the share of events that is expected in their common core.
    """
    conjunctions, split = filing.conjunctions, filing.split
    chosen = np.zeros(split, bool)
    can_be = _can_be_common(filing)
    numbers = np.flatnonzero(can_be).astype(np.int32)
    if numbers.size < TUNING.min_common:
        return chosen
    candidates, spread = conjunctions.select(numbers), filing.popularity
    # Each round finds more of them, since fewer of their constants count.
    for _ in range(_ROUNDS):
        share = share_of_conjunctions(range_predicates(candidates, spread))
        wide = share >= TUNING.min_common_share
        if np.count_nonzero(wide) < TUNING.min_common:
            return chosen
        others = np.ones(conjunctions.count, bool)
        others[numbers[wide]] = False
        spread = _spread(filing, np.unique(candidates.column), others[conjunctions.conjunction])
    numbers, share = numbers[wide], share[wide]
    order = np.argsort(-share, kind="stable")
    held = _shares_of_cores(conjunctions.select(numbers), spread, order)
    size = int(np.argmax(held * np.arange(1, held.size + 1))) + 1
    if size >= TUNING.min_common and held[size - 1] >= TUNING.min_common_share:
        chosen[numbers[order[:size]]] = True
    return chosen


def _can_be_common(filing: Filing) -> Bools:
    """Tell which conjunctions before the split are boxes with forbidden tests, none of them on the history."""
    conjunctions, split = filing.conjunctions, filing.split
    can_be = filing.test < 0
    row, owner, column = conjunctions.low, conjunctions.conjunction, conjunctions.column
    again = (owner[1:] == owner[:-1]) & (column[1:] == column[:-1])
    can_be[owner[1:][again & (row[1:] != conjunctions.high[:-1] + 1)]] = False
    accepts, test = conjunctions.test_accepts, conjunctions.test
    forbids = (accepts == NOT_TRUE) | ((accepts == FALSE) & (conjunctions.test_null_column[test] >= 0))
    can_be[conjunctions.test_conjunction[~forbids | filing.on_history[test]]] = False
    return can_be[:split]


def _spread(filing: Filing, columns: Int32s, counted: Bools) -> list[Float64s]:
    """Estimate the share of events at or below each code of some columns from the rows that are `counted`."""
    conjunctions = filing.conjunctions
    spread = list(filing.popularity)
    for column in columns.tolist():
        rows = np.flatnonzero(counted & (conjunctions.column == column))
        if rows.size >= TUNING.min_common:
            last = int(conjunctions.last_code[column])
            spread[column] = popularity(conjunctions.low[rows], conjunctions.high[rows], last)
    return spread


def _shares_of_cores(conjunctions: Conjunctions, spread: list[Float64s], order: Int64s) -> Float64s:
    """Estimate the share of events in the core of the first i + 1 conjunctions of an order, for each i."""
    place = np.empty(conjunctions.count, np.int64)
    place[order] = np.arange(conjunctions.count)
    shares = np.ones(conjunctions.count)
    for column in np.unique(conjunctions.column).tolist():
        rows = np.flatnonzero(conjunctions.column == column)
        last = int(conjunctions.last_code[column])
        low, high = np.full(conjunctions.count, -1, np.int64), np.full(conjunctions.count, last, np.int64)
        first = np.append(True, np.diff(conjunctions.conjunction[rows]) != 0)
        low[place[conjunctions.conjunction[rows[first]]]] = conjunctions.low[rows[first]]
        ends = np.append(first[1:], True)
        high[place[conjunctions.conjunction[rows[ends]]]] = conjunctions.high[rows[ends]]
        low, high = np.maximum.accumulate(low), np.minimum.accumulate(high)
        below = np.where(low >= 0, spread[column][np.maximum(low, 0)], 0.0)
        shares *= np.maximum(spread[column][high + 1] - below, 0.0)
    return shares


def _boxes(conjunctions: Conjunctions) -> tuple[Int64s, Int32s]:
    """Return the box of each conjunction: its ranges, and no NULL where a forbidden test must not be NULL.

    Adjacent ranges of a column become one; one that accepts every code and NULL is left out.
    """
    fails_if_null = np.flatnonzero(conjunctions.test_accepts == FALSE)
    null_column = conjunctions.test_null_column[conjunctions.test[fails_if_null]]
    owner = np.concatenate([conjunctions.conjunction, conjunctions.test_conjunction[fails_if_null]])
    column = np.concatenate([conjunctions.column, null_column])
    low = np.concatenate([conjunctions.low, np.zeros_like(null_column)])
    high = np.concatenate([conjunctions.high, conjunctions.last_code[null_column]])
    is_range = np.arange(owner.size) < conjunctions.conjunction.size
    order = np.lexsort((low, ~is_range, column, owner))
    owner, column, low, high, is_range = (each[order] for each in (owner, column, low, high, is_range))
    if owner.size:
        same = (owner[1:] == owner[:-1]) & (column[1:] == column[:-1]) & is_range[1:] & is_range[:-1]
        first = np.flatnonzero(np.append(True, ~same))
        last = np.append(first[1:], owner.size) - 1
        owner, column, low, high = owner[first], column[first], low[first], high[last]
    needed = (low > -1) | (high < conjunctions.last_code[column])
    owner, column, low, high = owner[needed], column[needed], low[needed], high[needed]
    starts = np.searchsorted(owner, np.arange(conjunctions.count + 1))
    return starts.astype(np.int64), np.stack([column, low, high], axis=1).astype(np.int32)


def _cores(box_starts: Int64s, boxes: Int32s) -> dict[str, Any]:
    """Return the intersection of the boxes of each block."""
    owner = np.repeat(np.arange(box_starts.size - 1), np.diff(box_starts))
    block, column = owner // BLOCK, boxes[:, 0]
    order = np.lexsort((column, block))
    block, column, low, high = block[order], column[order], boxes[order, 1], boxes[order, 2]
    first = np.flatnonzero(np.append(True, (np.diff(block) != 0) | (np.diff(column) != 0)))[: block.size]
    if first.size:
        low, high = np.maximum.reduceat(low, first), np.minimum.reduceat(high, first)
    blocks = -(-(box_starts.size - 1) // BLOCK)
    starts = np.searchsorted(block[first], np.arange(blocks + 1)).astype(np.int64)
    return {"core_starts": starts, "cores": np.stack([column[first], low, high], axis=1).astype(np.int32)}
