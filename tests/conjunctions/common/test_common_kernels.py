"""The kernels of blocks of common conjunctions, against NumPy."""

import numpy as np

from contracts.conjunction_index_contract import sliced
from tocsin.arrays import Bools
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.common.kernels import (
    BLOCK,
    EVENTS_AT_ONCE,
    CommonBlocks,
    _is_common,
    _mark_outside,
    match_common,
)

COLUMNS, TESTS = 3, 4


def random_blocks(random: np.random.Generator, count: int) -> CommonBlocks:
    """Conjunctions of one wide range and perhaps a forbidden test each."""
    boxes = np.stack([random.integers(0, COLUMNS, count), random.integers(-1, 2, count), np.full(count, 9)], axis=1)
    forbidden = [random.choice(TESTS, 1) if random.random() < 0.01 else np.empty(0, np.int64) for _ in range(count)]
    test_starts, tests = sliced(forbidden)
    cores, by_test = [], [set[int]() for _ in range(TESTS)]
    for block in range(-(-count // BLOCK)):
        places = slice(block * BLOCK, (block + 1) * BLOCK)
        of_block = boxes[places]
        lows = {int(c): int(of_block[of_block[:, 0] == c, 1].max()) for c in np.unique(of_block[:, 0])}
        cores.append([(column, low, 9) for column, low in sorted(lows.items())])
        for lists in forbidden[places]:
            for test in lists.tolist():
                by_test[test].add(block)
    core_starts = np.cumsum([0, *map(len, cores)]).astype(np.int64)
    forbidding_starts, forbidding = sliced([np.array(sorted(each), np.int64) for each in by_test])
    return CommonBlocks(
        np.arange(count, dtype=np.int32)[::-1].copy(),
        np.arange(count + 1),
        boxes.astype(np.int32),
        test_starts,
        tests,
        core_starts,
        np.array([row for core in cores for row in core], np.int32).reshape(-1, 3),
        forbidding_starts,
        forbidding,
    )


def random_events(random: np.random.Generator, count: int) -> tuple[Events, Bools]:
    """Events most of which are in all cores, and which tests are TRUE for each."""
    codes = np.where(random.random((COLUMNS, count)) < 0.05, -1, random.integers(1, 10, (COLUMNS, count)))
    truth = random.random((TESTS, count)) < 0.1
    none = np.empty(0, np.int64)
    true, null = sliced([np.flatnonzero(truth[:, e]) for e in range(count)]), sliced([none] * count)
    return Events(codes.astype(np.int32), *true, *null), truth


def holds(blocks: CommonBlocks, events: Events, truth: Bools) -> Bools:
    """By the definition: whether the conjunction at each place holds for each event."""
    codes = events.codes[blocks.boxes[:, 0]]
    held: Bools = (codes >= blocks.boxes[:, 1:2]) & (codes <= blocks.boxes[:, 2:3])
    for place in range(len(held)):
        for test in blocks.tests[blocks.test_starts[place] : blocks.test_starts[place + 1]]:
            held[place] &= ~truth[test]
    return held


def test_events_outside_of_cores_are_marked() -> None:
    random = np.random.default_rng(1)
    blocks = random_blocks(random, 2 * BLOCK + 40)
    events, truth = random_events(random, 60)
    outside = np.empty((3, 50), np.bool_)
    _mark_outside(blocks, events, 10, outside)
    by_block = np.add.reduceat(~holds(blocks, events, truth), [0, BLOCK, 2 * BLOCK])
    assert (outside == (by_block > 0)[:, 10:]).all()
    assert outside.any()
    assert not outside.all()


def test_one_conjunction_is_judged() -> None:
    random = np.random.default_rng(2)
    blocks = random_blocks(random, 300)
    events, truth = random_events(random, 20)
    held = holds(blocks, events, truth)
    assert all(_is_common(blocks, p, events, e) == held[p, e] for p in range(300) for e in range(20))


def test_a_block_is_found_as_one_or_by_its_conjunctions() -> None:
    random = np.random.default_rng(3)
    blocks = random_blocks(random, 2 * BLOCK + 40)
    events, truth = random_events(random, EVENTS_AT_ONCE + 30)
    found, candidates = match_common(blocks, events, 1000)
    held = holds(blocks, events, truth)
    pairs = found.tolist()
    whole = [pair for pair in pairs if pair[1] >= 1000]
    expanded = [(e, p) for e, number in whole for p in range(len(held))[(number - 1000) * BLOCK :][:BLOCK]]
    place = {int(number): at for at, number in enumerate(blocks.conjunction)}
    expanded += [(event, place[number]) for event, number in pairs if number < 1000]
    assert sorted(expanded) == sorted((int(e), int(p)) for p, e in np.argwhere(held))
    assert len(whole) > 100, "most events are in the core of most blocks"
    assert candidates >= len(pairs)
