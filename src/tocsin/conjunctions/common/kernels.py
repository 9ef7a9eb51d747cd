"""Blocks of conjunctions that most events satisfy, as arrays, and the kernel that matches a batch with them.

A conjunction here is a box of codes and some tests that must not be TRUE. A *block* is BLOCK of them, and its *core* is
what all of them accept: the intersection of their boxes, without a test that one of them forbids. An event in the core
satisfies the whole block, which is found as one; for any other event the conjunctions of the block are verified.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int32s, Int64s
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.pairs.kernels import EVENT, FOUND, contains, grown

BLOCK = 128
"""Conjunctions of a block. An event pays for each core, and for a block whose core it is not in. Not measured."""
EVENTS_AT_ONCE = 256
"""Events whose place inside or outside of all cores is noted at a time."""
BOX_COLUMN, BOX_LOW, BOX_HIGH = range(3)


class CommonBlocks(NamedTuple):
    """Conjunctions in order, BLOCK of them a block."""

    conjunction: Int32s
    """The number of each."""
    box_starts: Int64s
    """Where the box of each conjunction starts, with one more entry."""
    boxes: Int32s
    """Rows (column, low, high)."""
    test_starts: Int64s
    """Where the tests of each conjunction start, with one more entry."""
    tests: Int32s
    """Tests that must not be TRUE."""
    core_starts: Int64s
    """Where the core of each block starts, with one more entry."""
    cores: Int32s
    """Rows (column, low, high)."""
    forbidding_starts: Int64s
    """Where the blocks that forbid each test start, with one more entry."""
    forbidding: Int32s


@kernel
def _mark_outside(blocks: CommonBlocks, events: Events, first: int, outside: Bools) -> None:
    """Note for the events from `first` on which of them are outside of the core of each block."""
    size = np.uint64(outside.shape[1])
    outside[:] = False
    for block in range(outside.shape[0]):
        marks = outside[block]
        for row in range(blocks.core_starts[block], blocks.core_starts[block + 1]):
            codes = events.codes[blocks.cores[row, BOX_COLUMN], first:]
            low, high = blocks.cores[row, BOX_LOW], blocks.cores[row, BOX_HIGH]
            # Unsigned indexes cannot be negative, so that the compiler makes vectors of this loop.
            for event in range(size):
                marks[event] |= (codes[event] < low) | (codes[event] > high)
    for event in range(outside.shape[1]):
        for place in range(events.true_starts[first + event], events.true_starts[first + event + 1]):
            test = events.true[place]
            if test < blocks.forbidding_starts.size - 1:
                for block in blocks.forbidding[blocks.forbidding_starts[test] : blocks.forbidding_starts[test + 1]]:
                    outside[block, event] = True


@kernel
def _is_common(blocks: CommonBlocks, place: int, events: Events, event: int) -> bool:
    """Tell whether an event satisfies the conjunction at a place."""
    for row in range(blocks.box_starts[place], blocks.box_starts[place + 1]):
        code = events.codes[blocks.boxes[row, BOX_COLUMN], event]
        if code < blocks.boxes[row, BOX_LOW] or code > blocks.boxes[row, BOX_HIGH]:
            return False
    start, end = events.true_starts[event], events.true_starts[event + 1]
    for test in range(blocks.test_starts[place], blocks.test_starts[place + 1]):
        if contains(events.true, start, end, blocks.tests[test]):
            return False
    return True


@kernel
def match_common(blocks: CommonBlocks, events: Events, first_block: int) -> tuple[Int32s, int]:
    """Return the pairs that match, those of an event by block, and how many candidates were verified for them.

    Block i, if it is found as one, is the number `first_block + i`.
    """
    count, places = blocks.core_starts.size - 1, blocks.conjunction.size
    pairs, used, candidates = np.empty((events.codes.shape[1] * count, 2), np.int32), 0, 0
    for first in range(0, events.codes.shape[1], EVENTS_AT_ONCE):
        size = min(EVENTS_AT_ONCE, events.codes.shape[1] - first)
        outside = np.empty((count, size), np.bool_)
        _mark_outside(blocks, events, first, outside)
        for block in range(count):
            begin, end = block * BLOCK, min((block + 1) * BLOCK, places)
            verified = 0
            for event in range(size):
                verified += outside[block, event]
            candidates += size - verified + verified * (end - begin)
            if used + size + verified * (end - begin) > len(pairs):
                pairs = grown(pairs, used + size + verified * (end - begin))
            for event in range(size):
                if not outside[block, event]:
                    pairs[used, EVENT], pairs[used, FOUND] = first + event, first_block + block
                    used += 1
                    continue
                for place in range(begin, end):
                    if _is_common(blocks, place, events, first + event):
                        pairs[used, EVENT], pairs[used, FOUND] = first + event, blocks.conjunction[place]
                        used += 1
    return pairs[:used], candidates
