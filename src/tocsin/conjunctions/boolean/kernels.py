"""Kernels for trees of conjunctions: which leaves to file, flat code with jumps, and its evaluation.

The leaves of a tree follow each other. In front of leaf i begin `opens[i]` nodes, and behind it end `closes[i]`; the
outermost node, at depth 0, is an OR, the next an AND, and so on in turn.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import count_bits, kernel, lowest_bit
from tocsin.arrays import Bools, Float64s, Int32s, Int64s, UInt8s, UInt64s
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Events
from tocsin.conjunctions.pairs.kernels import contains

RANGE, RANGES, TEST = 0, 1, 2
"""What an instruction looks at: one range of codes, several, or the truth of a test."""
KIND, SUBJECT, FIRST, LAST, IF_TRUE, IF_FALSE = 0, 1, 2, 3, 4, 5
"""The fields of an instruction. SUBJECT is a column, or a test. A RANGE has its codes from FIRST to LAST, RANGES their
rows from FIRST to before LAST, a TEST the truth values that it accepts in FIRST."""
FIELDS = 6
ACCEPT, REJECT = 0, -1
"""Jumps that end the evaluation; all others say how many instructions to go on, and are at least 1."""
MAX_LEVELS = 256
BLOCK = 32
"""Events that go through the code of a tree together: the bits of a word."""
FEW_EVENTS = 4
"""Fewer events than this go one by one."""
FEW_RANGES = 8
"""A predicate of at most so many ranges is compared with the codes of all events of a block."""


class Leaves(NamedTuple):
    """The leaves of trees as conjunctions: rows of ranges, sorted by column and low, and tests."""

    range_starts: Int64s
    column: Int32s
    low: Int32s
    high: Int32s
    test_starts: Int64s
    test: Int32s
    accepts: Int32s


class Code(NamedTuple):
    """The code of all trees, and what it refers to."""

    starts: Int64s
    """The first instruction of each tree; one more entry at the end."""
    instructions: Int32s
    """A row of FIELDS for each."""
    low: Int32s
    """Ranges of predicates that have several, sorted."""
    high: Int32s
    null_column: Int32s
    """For each test, the column whose NULL makes the test NULL; -1: the events say which tests are NULL."""


@kernel
def choose_cover(opens: UInt8s, closes: UInt8s, starts: Int64s, cost: Float64s) -> tuple[Bools, Float64s]:
    """Choose leaves of which one holds whenever the tree does: all children of an OR, the cheapest of an AND.

    `cost` is that of filing each leaf; the leaves of tree t are `starts[t]` to `starts[t + 1]`. Returns the choice and
    what it costs for each tree.
    """
    chosen = np.ones(opens.size, np.bool_)
    costs = np.zeros(starts.size - 1, np.float64)
    # By depth, for the nodes that are open: their first leaf, the cost of a cover, and the cheapest child of an AND.
    first = np.zeros(MAX_LEVELS, np.int64)
    total = np.zeros(MAX_LEVELS, np.float64)
    best_first = np.zeros(MAX_LEVELS, np.int64)
    best_end = np.zeros(MAX_LEVELS, np.int64)
    for tree in range(starts.size - 1):
        depth = -1
        for leaf in range(starts[tree], starts[tree + 1]):
            for _ in range(opens[leaf]):
                depth += 1
                first[depth] = leaf
                total[depth] = np.inf if depth % 2 else 0.0
            child, begin = cost[leaf], leaf
            for level in range(closes[leaf] + 1):
                # The child of the node at `depth` that ends here costs `child` and began at `begin`.
                if level > 0:
                    if depth % 2:
                        for place in range(first[depth], leaf + 1):
                            if place < best_first[depth] or place >= best_end[depth]:
                                chosen[place] = False
                    child, begin = total[depth], first[depth]
                    depth -= 1
                    if depth < 0:
                        break
                if depth % 2 == 0:
                    total[depth] += child
                elif child < total[depth]:
                    total[depth], best_first[depth], best_end[depth] = child, begin, leaf + 1
        costs[tree] = total[0]
    return chosen, costs


@kernel
def leaf_jumps(opens: UInt8s, closes: UInt8s, starts: Int64s) -> tuple[Int32s, Int32s]:
    """Where to go on when a leaf is TRUE and when it is FALSE: how many leaves on, or ACCEPT, or REJECT.

    Backwards, so that the last leaf of each node around a leaf is known.
    """
    if_true, if_false = np.empty(opens.size, np.int32), np.empty(opens.size, np.int32)
    end = np.zeros(MAX_LEVELS, np.int64)
    for tree in range(starts.size - 1):
        depth = -1
        for leaf in range(starts[tree + 1] - 1, starts[tree] - 1, -1):
            for _ in range(closes[leaf]):
                depth += 1
                end[depth] = leaf
            for value in range(2):
                jump = ACCEPT if value else REJECT
                last = leaf
                # A child with `value` leaves an AND undecided if it is TRUE, an OR if it is FALSE.
                for level in range(depth, -1, -1):
                    if level % 2 == value and last < end[level]:
                        jump = last + 1 - leaf
                        break
                    last = end[level]
                if value:
                    if_true[leaf] = jump
                else:
                    if_false[leaf] = jump
            depth -= opens[leaf]
    return if_true, if_false


@kernel
def count_instructions(leaves: Leaves) -> Int64s:
    """Where the instructions of each leaf will start, with one more entry: one for each of its predicates."""
    count = leaves.range_starts.size - 1
    starts = np.zeros(count + 1, np.int64)
    for leaf in range(count):
        size = leaves.test_starts[leaf + 1] - leaves.test_starts[leaf]
        for row in range(leaves.range_starts[leaf], leaves.range_starts[leaf + 1]):
            size += row == leaves.range_starts[leaf] or leaves.column[row] != leaves.column[row - 1]
        starts[leaf + 1] = starts[leaf] + size
    return starts


@kernel
def write_instructions(leaves: Leaves, starts: Int64s, if_true: Int32s, if_false: Int32s) -> Int32s:
    """The instructions of all leaves. Each predicate but the last of a leaf goes on to the next if it holds."""
    code = np.empty((starts[-1], FIELDS), np.int32)
    for leaf in range(starts.size - 1):
        place = starts[leaf]
        row, end = leaves.range_starts[leaf], leaves.range_starts[leaf + 1]
        while row < end:
            stop = row + 1
            while stop < end and leaves.column[stop] == leaves.column[row]:
                stop += 1
            code[place, SUBJECT] = leaves.column[row]
            if stop == row + 1:
                code[place, KIND], code[place, FIRST], code[place, LAST] = RANGE, leaves.low[row], leaves.high[row]
            else:
                code[place, KIND], code[place, FIRST], code[place, LAST] = RANGES, row, stop
            place += 1
            row = stop
        for row in range(leaves.test_starts[leaf], leaves.test_starts[leaf + 1]):
            code[place, KIND], code[place, SUBJECT] = TEST, leaves.test[row]
            code[place, FIRST], code[place, LAST] = leaves.accepts[row], 0
            place += 1
        for place in range(starts[leaf], starts[leaf + 1]):
            jump = if_false[leaf]
            code[place, IF_FALSE] = starts[leaf + jump] - place if jump > 0 else jump
            code[place, IF_TRUE] = 1
        jump = if_true[leaf]
        last = starts[leaf + 1] - 1
        code[last, IF_TRUE] = starts[leaf + jump] - last if jump > 0 else jump
    return code


# The next two take flat lists of arrays: out of a tuple, the compiler would count references to each of them for each
# predicate. Walking the code of a tree of 380 predicates for one event: 3.8 µs before, 0.46 now.


@kernel
def _truth_of(
    test: int,
    null_column: int,
    codes: Int32s,
    true_starts: Int64s,
    true: Int32s,
    null_starts: Int64s,
    null: Int32s,
    event: int,
) -> int:
    """The truth value of a test for an event."""
    if contains(true, true_starts[event], true_starts[event + 1], test):
        return TRUE
    if null_column >= 0:
        return NULL if codes[null_column, event] < 0 else FALSE
    return NULL if contains(null, null_starts[event], null_starts[event + 1], test) else FALSE


@kernel
def _walk(
    instructions: Int32s,
    low: Int32s,
    high: Int32s,
    null_column: Int32s,
    codes: Int32s,
    true_starts: Int64s,
    true: Int32s,
    null_starts: Int64s,
    null: Int32s,
    place: int,
    event: int,
    most: int,
) -> int:
    """Walk code from `place` on for an event, for at most so many instructions; return the last jump."""
    jump = 1
    for _ in range(most):
        subject = instructions[place, SUBJECT]
        first, last = instructions[place, FIRST], instructions[place, LAST]
        holds = False
        if instructions[place, KIND] == RANGE:
            value = codes[subject, event]
            holds = first <= value and value <= last
        elif instructions[place, KIND] == RANGES:
            value = codes[subject, event]
            while first < last:
                middle = (first + last) >> 1
                if value < low[middle]:
                    last = middle
                elif value > high[middle]:
                    first = middle + 1
                else:
                    holds = True
                    break
        else:
            truth = _truth_of(subject, null_column[subject], codes, true_starts, true, null_starts, null, event)
            holds = (first & truth) != 0
        jump = instructions[place, IF_TRUE] if holds else instructions[place, IF_FALSE]
        if jump <= 0:
            break
        place += jump
    return jump


@kernel
def verify_trees(event: Int32s, tree: Int32s, code: Code, events: Events) -> Bools:
    """Whether each candidate, a tree and an event, is TRUE.

    Where there are more candidates than trees, they are gone through tree by tree, so that the code of each is read
    from memory once; the codes of the events are in a cache.
    """
    starts, instructions, low, high, null_column = code
    codes, true_starts, true, null_starts, null = (
        events.codes,
        events.true_starts,
        events.true,
        events.null_starts,
        events.null,
    )
    count, trees = event.size, starts.size - 1
    order = np.arange(count)
    if count >= trees:
        ends = np.zeros(trees + 1, np.int64)
        for place in range(count):
            ends[tree[place] + 1] += 1
        for number in range(trees):
            ends[number + 1] += ends[number]
        for place in range(count):
            order[ends[tree[place]]] = place
            ends[tree[place]] += 1
    holds = np.empty(count, np.bool_)
    for number in range(count):
        place = order[number]
        jump = _walk(
            instructions,
            low,
            high,
            null_column,
            codes,
            true_starts,
            true,
            null_starts,
            null,
            starts[tree[place]],
            event[place],
            len(instructions),
        )
        holds[place] = jump == ACCEPT
    return holds


@kernel
def match_everywhere(trees: Int32s, code: Code, events: Events) -> UInt64s:
    """Bit k of word [i, b] says whether `trees[i]` is TRUE for event BLOCK * b + k.

    All jumps go forward. So one pass over the code is enough for a block: each instruction finds the events that
    arrive at it, as bits, and hands them on to where they go if its predicate holds and if it does not. The compiler
    makes vectors of the comparisons.
    """
    starts, instructions, low, high, null_column = code
    codes, true_starts, true, null_starts, null = (
        events.codes,
        events.true_starts,
        events.true,
        events.null_starts,
        events.null,
    )
    everything = len(instructions)
    count = codes.shape[1]
    blocks = (count + BLOCK - 1) // BLOCK
    words = np.zeros((trees.size, blocks), np.uint64)
    none = np.uint64(0)
    bits = np.empty(BLOCK, np.uint64)
    for bit in range(BLOCK):
        bits[bit] = np.uint64(1) << np.uint64(bit)
    longest = 0
    for tree in trees:
        longest = max(longest, starts[tree + 1] - starts[tree])
    arriving = np.zeros(longest, np.uint64)
    for number in range(trees.size):
        begin, end = starts[trees[number]], starts[trees[number] + 1]
        for block in range(blocks):
            event = BLOCK * block
            width = min(BLOCK, count - event)
            accepted = none
            if width < FEW_EVENTS:
                for bit in range(width):
                    jump = _walk(
                        instructions,
                        low,
                        high,
                        null_column,
                        codes,
                        true_starts,
                        true,
                        null_starts,
                        null,
                        begin,
                        event + bit,
                        everything,
                    )
                    accepted |= bits[bit] if jump == ACCEPT else none
                words[number, block] = accepted
                continue
            everyone = none
            for bit in range(width):
                everyone |= bits[bit]
            arriving[0] = everyone
            for place in range(begin, end):
                here = arriving[place - begin]
                if here == none:
                    continue
                arriving[place - begin] = none
                kind, subject = instructions[place, KIND], instructions[place, SUBJECT]
                first, last = instructions[place, FIRST], instructions[place, LAST]
                held = none
                if kind == RANGE:
                    for bit in range(width):
                        value = codes[subject, event + bit]
                        held |= bits[bit] if (first <= value) & (value <= last) else none
                elif kind == RANGES and last - first <= FEW_RANGES:
                    for row in range(first, last):
                        for bit in range(width):
                            value = codes[subject, event + bit]
                            held |= bits[bit] if (low[row] <= value) & (value <= high[row]) else none
                else:
                    for bit in range(width):
                        if here & bits[bit] == none:
                            continue
                        jump = _walk(
                            instructions,
                            low,
                            high,
                            null_column,
                            codes,
                            true_starts,
                            true,
                            null_starts,
                            null,
                            place,
                            event + bit,
                            1,
                        )
                        held |= bits[bit] if jump == instructions[place, IF_TRUE] else none
                jump = instructions[place, IF_TRUE]
                if jump == ACCEPT:
                    accepted |= here & held
                elif jump > 0:
                    arriving[place - begin + jump] |= here & held
                jump = instructions[place, IF_FALSE]
                if jump == ACCEPT:
                    accepted |= here & ~held
                elif jump > 0:
                    arriving[place - begin + jump] |= here & ~held
            words[number, block] = accepted
    return words


@kernel
def pairs_of_words(words: UInt64s, subscriptions: Int32s) -> Int32s:
    """The pairs (event, subscription) of the bits that are set; row i of the words is that of `subscriptions[i]`."""
    total = 0
    for number in range(words.shape[0]):
        for block in range(words.shape[1]):
            total += count_bits(words[number, block])
    pairs = np.empty((total, 2), np.int32)
    end = 0
    for number in range(words.shape[0]):
        for block in range(words.shape[1]):
            word = words[number, block]
            while word != np.uint64(0):
                pairs[end, 0] = BLOCK * block + lowest_bit(word)
                pairs[end, 1] = subscriptions[number]
                end += 1
                word &= word - np.uint64(1)
    return pairs
