"""The kernels of trees, against nested lists that are judged by `any` and `all`."""

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from expressions import Nested, is_true, nested
from tocsin.conjunctions.boolean import kernels
from tocsin.conjunctions.boolean.kernels import (
    ACCEPT,
    Code,
    Leaves,
    choose_cover,
    count_instructions,
    leaf_jumps,
    match_everywhere,
    pairs_of_words,
    verify_trees,
    write_instructions,
)
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Events

if TYPE_CHECKING:
    from tocsin.arrays import Bools, Int64s, UInt8s

COLUMNS, TESTS, EVENTS = 3, 4, 40
Nesting = list[tuple[int, int]]


def random_nesting(random: np.random.Generator, depth: int) -> Nesting:
    """A node with two to four children, of which some are nodes if depth is left; a pair for each of its leaves."""
    leaves: Nesting = []
    for _ in range(random.integers(2, 5)):
        leaves += random_nesting(random, depth - 1) if depth and random.random() < 0.6 else [(0, 0)]
    leaves[0] = leaves[0][0] + 1, leaves[0][1]
    leaves[-1] = leaves[-1][0], leaves[-1][1] + 1
    return leaves


def random_trees(seed: int, count: int = 12) -> tuple[list[Nested], "UInt8s", "UInt8s", "Int64s"]:
    """Trees as nested lists and as arrays."""
    random = np.random.default_rng(seed)
    made = [random_nesting(random, depth % 5) for depth in range(count)]
    opens, closes = np.array([pair for nesting in made for pair in nesting], np.uint8).T.copy()
    return [nested(nesting) for nesting in made], opens, closes, np.cumsum([0, *map(len, made)])


def cover_cost(node: Nested, cost: list[float], depth: int = 0) -> float:
    if isinstance(node, int):
        return cost[node]
    return (min if depth % 2 else sum)(cover_cost(child, cost, depth + 1) for child in node)


@pytest.mark.parametrize("seed", range(5))
def test_choose_cover(seed: int) -> None:
    random = np.random.default_rng(seed)
    trees, opens, closes, starts = random_trees(seed)
    cost = random.random(opens.size)
    chosen, costs = choose_cover(opens, closes, starts, cost)
    for number, (tree, (start, end)) in enumerate(zip(trees, itertools.pairwise(starts), strict=True)):
        own = chosen[start:end]
        expected = cover_cost(tree, cost[start:end].tolist())
        assert costs[number] == pytest.approx(expected)
        assert cost[start:end][own].sum() == pytest.approx(expected), "the cheapest cover"
        assert not is_true(tree, (~own).tolist()), "if no leaf of the cover holds, the tree does not"


@pytest.mark.parametrize("seed", range(5))
def test_leaf_jumps(seed: int) -> None:
    random = np.random.default_rng(seed)
    trees, opens, closes, starts = random_trees(seed)
    if_true, if_false = leaf_jumps(opens, closes, starts)
    for tree, (start, end) in zip(trees, itertools.pairwise(starts), strict=True):
        for _ in range(30):
            holds = random.random(end - start) < random.random()
            place, jump = start, 1
            while True:
                jump = if_true[place] if holds[place - start] else if_false[place]
                if jump <= 0:
                    break
                place += jump
                assert place < end, "jumps stay within the tree"
            assert (jump == ACCEPT) == is_true(tree, holds.tolist())


class Case:
    """Leaves with ranges and tests, and events with codes, NULLs and truth values."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.trees, self.opens, self.closes, self.starts = random_trees(seed)
        ranges: list[list[tuple[int, int, int]]] = []
        tests: list[list[tuple[int, int]]] = []
        for _ in range(self.opens.size):
            columns = np.flatnonzero(random.random(COLUMNS) < 0.4).tolist()
            own = []
            for column in columns:
                cuts = np.unique(random.integers(-1, 12, 2 * random.integers(1, 4)))
                pairs = zip(cuts[::2], cuts[1::2], strict=False)
                own += [(column, int(low), int(high)) for low, high in pairs] or [(column, -1, -1)]
            asked = np.flatnonzero(random.random(TESTS) < 0.2).tolist()
            if not own and not asked:
                own = [(0, 2, 7)]
            ranges.append(own)
            tests.append([(test, int(random.integers(1, 7))) for test in asked])
        self.ranges, self.tests = ranges, tests
        self.codes = random.integers(-1, 12, (COLUMNS + 1, EVENTS)).astype(np.int32)
        self.null_column = np.array([0, -1, 1, -1], np.int32)
        self.truth = random.choice([TRUE, FALSE, NULL], (TESTS, EVENTS))
        for test, column in enumerate(self.null_column.tolist()):
            if column >= 0:
                is_null = self.codes[column] < 0
                self.truth[test] = np.where(is_null, NULL, np.where(self.truth[test] == NULL, FALSE, self.truth[test]))

    def leaves(self) -> Leaves:
        rows = np.array([row for own in self.ranges for row in own], np.int32).T.copy()
        asked = np.array([row for own in self.tests for row in own], np.int32).reshape(-1, 2).T.copy()
        range_starts, test_starts = (np.cumsum([0, *map(len, lists)]) for lists in (self.ranges, self.tests))
        return Leaves(range_starts, rows[0], rows[1], rows[2], test_starts, asked[0], asked[1])

    def code(self) -> Code:
        leaves = self.leaves()
        starts = count_instructions(leaves)
        jumps = leaf_jumps(self.opens, self.closes, self.starts)
        instructions = write_instructions(leaves, starts, *jumps)
        return Code(starts[self.starts], instructions, leaves.low, leaves.high, self.null_column)

    def events(self) -> Events:
        true = [np.flatnonzero(self.truth[:, event] == TRUE) for event in range(EVENTS)]
        null = [np.flatnonzero((self.truth[:, event] == NULL) & (self.null_column < 0)) for event in range(EVENTS)]
        return Events(
            self.codes,
            np.cumsum([0, *map(len, true)]),
            np.concatenate(true).astype(np.int32),
            np.cumsum([0, *map(len, null)]),
            np.concatenate(null).astype(np.int32),
        )

    def expected(self) -> "Bools":
        """By tree and event."""
        holds = np.ones((self.opens.size, EVENTS), bool)
        for leaf, (own, asked) in enumerate(zip(self.ranges, self.tests, strict=True)):
            for column in {column for column, _, _ in own}:
                inside = [(low <= self.codes[c]) & (self.codes[c] <= high) for c, low, high in own if c == column]
                holds[leaf] &= np.logical_or.reduce(inside)
            for test, accepts in asked:
                holds[leaf] &= (self.truth[test] & accepts) != 0
        return np.array(
            [
                [is_true(tree, holds[start:end, event].tolist()) for event in range(EVENTS)]
                for tree, (start, end) in zip(self.trees, itertools.pairwise(self.starts), strict=True)
            ]
        )


@pytest.mark.parametrize("seed", range(5))
def test_instructions(seed: int) -> None:
    case = Case(seed)
    sizes = [
        len({column for column, _, _ in own}) + len(asked) for own, asked in zip(case.ranges, case.tests, strict=True)
    ]
    starts = count_instructions(case.leaves())
    assert starts.tolist() == np.cumsum([0, *sizes]).tolist()
    jumps = leaf_jumps(case.opens, case.closes, case.starts)
    assert write_instructions(case.leaves(), starts, *jumps).shape == (starts[-1], kernels.FIELDS)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.01, 1.0])
def test_verify_trees(seed: int, share: float) -> None:
    case = Case(seed)
    code, events, expected = case.code(), case.events(), case.expected()
    assert 0 < expected.mean() < 1
    tables = *code[1:], *events[:5]
    for tree, event in itertools.product(range(len(case.trees)), range(EVENTS)):
        jump = kernels._walk(*tables, code.starts[tree], event, len(code.instructions))
        assert (jump == ACCEPT) == expected[tree, event]
    candidates = np.argwhere(np.random.default_rng(seed).random(expected.shape) < share).astype(np.int32)
    np.random.default_rng(seed).shuffle(candidates)
    trees, of_events = candidates.T.copy()
    assert verify_trees(of_events, trees, code, events).tolist() == expected[trees, of_events].tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("events", [1, 3, 4, 33, EVENTS])
def test_match_everywhere(seed: int, events: int) -> None:
    case = Case(seed)
    trees = np.random.default_rng(seed).permutation(len(case.trees))[:9].astype(np.int32)
    some = case.events()
    words = match_everywhere(trees, case.code(), some._replace(codes=some.codes[:, :events].copy()))
    names, holds = trees * 10, case.expected()
    expected = {(event, 10 * tree) for tree in trees.tolist() for event in range(events) if holds[tree, event]}
    pairs = [tuple(pair) for pair in pairs_of_words(words, names).tolist()]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected


def test_truth_of() -> None:
    case = Case(7)
    events = case.events()
    for test, event in itertools.product(range(TESTS), range(EVENTS)):
        assert kernels._truth_of(test, case.null_column[test], *events[:5], event) == case.truth[test, event]
