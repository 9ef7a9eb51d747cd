"""The loops of the ranked indexes, one by one, against plain NumPy."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tocsin.papers.ranked.ir_kernels import (
    BLOCKS,
    ENTRIES,
    FANOUT,
    FREE_ROW,
    NODES,
    SIZES,
    IRArrays,
    bulk_load,
    bulk_size,
    delete_ranked,
    insert_ranked,
)
from tocsin.papers.ranked.ir_walk_kernels import insert_interval, merge_walks, open_walks
from tocsin.papers.ranked.rtree_kernels import pack_extents, walk_rtree
from tocsin.papers.ranked.sopt_kernels import arrange_leftmost, constraint_edges
from tocsin.papers.ranked.tree_kernels import (
    fill_segments,
    gather_stabbed,
    grow_tree,
    heap_order,
    merge_lists,
    merge_ranks,
    open_lists,
    pop_best,
    tree_path,
)

Ints = np.ndarray
LAST = 50
SIZES_OF_SETS = [0, 1, 2, 9, 150]


def intervals(count: int) -> tuple[Ints, Ints]:
    """Numbered by rank: interval 0 has the best score."""
    random = np.random.default_rng(count)
    lo = random.integers(0, LAST, count).astype(np.int32)
    return lo, np.minimum(lo + random.integers(0, 15, count), LAST).astype(np.int32)


def over(lo: Ints, hi: Ints, value: int) -> list[int]:
    return np.flatnonzero((lo <= value) & (value <= hi)).tolist()


def in_pieces(take: Callable[[Ints], int], size: int, piece: int) -> list[int]:
    """What a kernel writes that is called again until it writes less than there is room for."""
    found: list[int] = []
    while True:
        out = np.empty(piece, np.int32)
        count = take(out)
        found += out[:count].tolist()
        if count < piece:
            return found
        assert len(found) <= size


@pytest.mark.parametrize("count", SIZES_OF_SETS)
@pytest.mark.parametrize("bucket", [0, 4])
def test_interval_trees(count: int, bucket: int) -> None:
    lo, hi = intervals(count)
    center, left, right, start, order = grow_tree(lo, hi, bucket)
    assert sorted(order.tolist()) == list(range(count))
    for node in range(len(center)):
        own = order[start[node] : start[node + 1]]
        assert (np.diff(own) > 0).all(), "in the order they came"
        if left[node] != -2:
            assert ((lo[own] <= center[node]) & (center[node] <= hi[own])).all()
        else:
            assert len(own) <= bucket
    columns = lo[order], hi[order]
    low, high = (order & 0xFFFF).astype(np.uint16), (order >> 16).astype(np.uint16)
    for value in range(-1, LAST + 2):
        path = tree_path(center, left, right, value)
        assert {*over(lo, hi, value)} <= {i for node in path for i in order[start[node] : start[node + 1]].tolist()}
        positions, ends = open_lists(start, path)
        assert (~positions).tolist() == start[path].tolist()
        assert ends.tolist() == start[path + 1].tolist()

        def take(out: Ints, positions: Ints = positions, ends: Ints = ends, value: int = value) -> int:
            return merge_lists(*columns, low, high, value, value, positions, ends, out)

        assert [int(order[p]) for p in in_pieces(take, count, 3)] == over(lo, hi, value), "best first"


@pytest.mark.parametrize("count", SIZES_OF_SETS)
def test_lists_by_endpoint(count: int) -> None:
    lo, hi = intervals(count)
    center, left, right, start, order = grow_tree(lo, hi, 0)
    node = np.repeat(np.arange(len(center)), np.diff(start))
    by_lo, by_hi = order[np.lexsort((lo[order], node))], order[np.lexsort((-hi[order], node))]
    for value in range(-1, LAST + 2):
        path = tree_path(center, left, right, value)
        found = gather_stabbed(center, start, path, lo[by_lo], by_lo, hi[by_hi], by_hi, value)
        assert sorted(found.tolist()) == over(lo, hi, value)
        heap_order(found)
        assert (found[1:] >= found[(np.arange(1, len(found)) - 1) // 2]).all(), "a parent is no worse than its children"
        out = np.empty(len(found) // 2 + 1, np.int32)
        assert pop_best(found, len(found), out) == min(len(out), len(found))
        assert out[: len(found)].tolist() == over(lo, hi, value)[: len(out)]


@pytest.mark.parametrize("leaves", [1, 2, 7, 16])
def test_segments(leaves: int) -> None:
    random = np.random.default_rng(leaves)
    first = random.integers(0, leaves + 1, 40).astype(np.int32)
    last = np.minimum(first + random.integers(0, leaves + 1, 40), leaves).astype(np.int32)
    starts, ranks = fill_segments(first, last, leaves)
    for leaf in range(leaves):
        path = [node for shift in range(8) if (node := (leaf + leaves) >> shift) > 0]
        lists = [ranks[starts[node] : starts[node + 1]] for node in path]
        assert all((np.diff(part) > 0).all() for part in lists), "best first in each node"
        expected = np.flatnonzero((first <= leaf) & (leaf < last)).tolist()
        assert sorted(np.concatenate(lists).tolist()) == expected, "on a path each interval is met once"
        positions, ends = starts[path].copy(), starts[np.array(path) + 1].copy()

        def take(out: Ints, positions: Ints = positions, ends: Ints = ends) -> int:
            return merge_ranks(ranks, positions, ends, out)

        assert in_pieces(take, 40, 4) == expected


@pytest.mark.parametrize("count", [1, 2, 9, 150])
@pytest.mark.parametrize("fanout", [2, 5])
def test_r_trees(count: int, fanout: int) -> None:
    lo, hi = intervals(count)
    extent_lo, extent_hi, starts = pack_extents(lo, hi, fanout)
    level_lo, level_hi = lo, hi
    for level in range(len(starts) - 1):
        assert extent_lo[starts[level] : starts[level + 1]].tolist() == level_lo.tolist()
        assert extent_hi[starts[level] : starts[level + 1]].tolist() == level_hi.tolist()
        groups = np.arange(0, len(level_lo), fanout)
        level_lo, level_hi = np.minimum.reduceat(level_lo, groups), np.maximum.reduceat(level_hi, groups)
    assert starts[-1] - starts[-2] == 1
    for latest_lo, earliest_hi in ((20, 20), (25, 15), (15, 25)):
        state, explored = np.array([len(starts) - 2, 0]), np.zeros(len(starts) - 1, np.int64)

        def take(
            out: Ints, ends: tuple[int, int] = (latest_lo, earliest_hi), state: Ints = state, seen: Ints = explored
        ) -> int:
            return walk_rtree(extent_lo, extent_hi, starts, fanout, *ends, state, seen, out)

        expected = np.flatnonzero((lo <= latest_lo) & (hi >= earliest_hi)).tolist()
        assert in_pieces(take, count, 3) == expected, "in the order of the sequence"
        assert (explored <= np.diff(starts)).all()


@pytest.mark.parametrize("count", SIZES_OF_SETS)
def test_score_optimal_arrangement(count: int) -> None:
    lo, hi = intervals(count)
    by_lo = np.argsort(lo, kind="stable").astype(np.int32)
    head, target, link = constraint_edges(lo, hi, by_lo, np.argsort(hi, kind="stable").astype(np.int32))
    after: dict[int, set[int]] = {rank: set() for rank in range(count)}
    for rank in range(count):
        edge = head[rank]
        while edge >= 0:
            after[rank].add(int(target[edge]))
            edge = link[edge]
    at_points = [over(lo, hi, value) for value in range(LAST + 1)]
    pairs = {pair for here in at_points for pair in itertools.combinations(here, 2)}
    neighbours = {pair for here in at_points for pair in itertools.pairwise(here)}
    assert neighbours <= {(a, b) for a in after for b in after[a]} <= pairs
    place = {int(rank): at for at, rank in enumerate(by_lo)}
    free, expected = {rank for rank in range(count) if not any(rank in of for of in after.values())}, []
    while free:
        expected.append(min(free, key=place.__getitem__))
        free.remove(expected[-1])
        done = set(expected)
        free |= {b for b in after[expected[-1]] if all(a in done for a in after if b in after[a])}
    assert arrange_leftmost(by_lo, head, target, link).tolist() == expected


def ir_tree(nodes: int, blocks: int, entries: int, intervals: int) -> IRArrays:
    """Empty arrays with room."""
    used = np.full(FREE_ROW + SIZES, -1, np.int64)
    used[[NODES, BLOCKS, ENTRIES]] = 0
    return IRArrays(
        **{name: np.full(nodes, -1, np.int32) for name in ("center", "left", "right", "root")},
        **{name: np.zeros(blocks, np.int32) for name in ("start", "filled")},
        **{name: np.zeros(entries, np.int32) for name in ("lo", "hi", "ref")},
        size=np.zeros(blocks, np.int8),
        level=np.zeros(blocks, np.int8),
        home=np.zeros(intervals, np.uint16),
        home_high=np.zeros(0, np.uint16),
        used=used,
    )


def ranked_over(tree: IRArrays, scores: np.ndarray, value: int) -> list[int]:
    walks = open_walks(tree, value)
    return in_pieces(lambda out: merge_walks(tree, scores, value, value, *walks, out), len(scores), 7)


def test_ir_tree_grows_and_shrinks() -> None:
    """Many in one node: blocks split, rows move to larger ones, and fall free again."""
    random = np.random.default_rng(2)
    count = 300
    lo = random.integers(0, LAST, count)
    hi = np.minimum(lo + random.integers(0, 40, count), LAST)
    scores = random.integers(0, 20, count).astype(np.float64)
    tree = ir_tree(100, 500, 500 * FANOUT, count)
    alive: set[int] = set()

    def agree() -> None:
        for value in range(0, LAST + 1, 7):
            expected = sorted((i for i in alive if lo[i] <= value <= hi[i]), key=lambda i: (-scores[i], i))
            assert ranked_over(tree, scores, value) == expected

    for interval in range(count):
        insert_interval(tree, scores, int(lo[interval]), int(hi[interval]), interval)
        alive.add(interval)
        if interval % 60 == 0:
            agree()
    agree()
    for interval in random.permutation(count).tolist():
        assert delete_ranked(tree, scores, interval) == (True, lo[interval], hi[interval])
        assert not delete_ranked(tree, scores, interval)[0]
        alive.discard(interval)
        if interval % 60 == 0:
            agree()
    assert (tree.root[: tree.used[NODES]] == -1).all(), "nothing is left"


@pytest.mark.parametrize("sizes", [[0], [1], [62, 3], [63, 0, 5_000]])
def test_ir_tree_in_bulk(sizes: list[int]) -> None:
    """Lists of single points, so that a B-tree holds all intervals of its node; then one more in each, by hand."""
    count = sum(sizes)
    start = np.cumsum([0, *sizes]).astype(np.int32)
    scores = np.append(np.sort(np.random.default_rng(1).random(count))[::-1], [2.0] * len(sizes))
    point = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    entries, blocks = bulk_size(start)
    tree = ir_tree(len(sizes), blocks + 30, entries + 30 * FANOUT, count + len(sizes))
    tree.center[:], tree.used[NODES] = np.arange(len(sizes)), len(sizes)
    tree.right[:-1] = np.arange(1, len(sizes))
    bulk_load(tree, start, point, point, np.arange(count, dtype=np.int32))
    assert (tree.used[ENTRIES], tree.used[BLOCKS]) == (entries, blocks)
    for node, size in enumerate(sizes):
        insert_ranked(tree, scores, node, node, node, count + node)
        expected = [count + node, *range(start[node], start[node] + size)]
        assert ranked_over(tree, scores, node) == expected
