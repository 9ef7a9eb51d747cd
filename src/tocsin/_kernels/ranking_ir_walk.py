"""How intervals enter, leave and are found in the interval tree of an IR-tree."""

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.ranking_ir import (
    BUCKET,
    DEPTH,
    NODES,
    Float64s,
    Int32s,
    IRArrays,
    delete_ranked,
    insert_ranked,
)

Grid = npt.NDArray[np.int32]


@kernel
def _new_leaf(tree: IRArrays, center: int) -> int:
    node = tree.used[NODES]
    tree.used[NODES] += 1
    tree.center[node] = center
    tree.left[node] = -2
    tree.right[node] = -1
    tree.root[node] = -1
    return int(node)


@kernel
def _split_leaf(tree: IRArrays, scores: Float64s, node: int) -> None:
    """Turn a full leaf into an inner node around its median endpoint, with leaves for the intervals beside it.

    A leaf holds at most BUCKET + 1 intervals, so its B-tree is one block.
    """
    block = tree.root[node]
    start = tree.start[block]
    count = int(tree.filled[block])
    ends = np.concatenate((tree.lo[start : start + count], tree.hi[start : start + count]))
    middle = np.partition(ends, count)[count]
    tree.center[node] = middle
    tree.left[node] = -1
    kept = 0
    for index in range(count):
        entry = start + index
        low = tree.lo[entry]
        high = tree.hi[entry]
        ref = tree.ref[entry]
        if high < middle:
            if tree.left[node] < 0:
                tree.left[node] = _new_leaf(tree, middle)
            insert_ranked(tree, scores, tree.left[node], low, high, ref)
        elif low > middle:
            if tree.right[node] < 0:
                tree.right[node] = _new_leaf(tree, middle)
            insert_ranked(tree, scores, tree.right[node], low, high, ref)
        else:
            tree.lo[start + kept] = low
            tree.hi[start + kept] = high
            tree.ref[start + kept] = ref
            kept += 1
    tree.filled[block] = kept


@kernel
def insert_interval(tree: IRArrays, scores: Float64s, lo: int, hi: int, identity: int) -> None:
    """File an interval under the first node on its way down whose center it contains, or in the leaf it comes to.

    Needs room for three nodes, and for DEPTH + 4 blocks of 64 entries.
    """
    if tree.used[NODES] == 0:
        _new_leaf(tree, lo)
    node = 0
    while tree.left[node] != -2:
        if hi < tree.center[node]:
            if tree.left[node] < 0:
                tree.left[node] = _new_leaf(tree, lo)
            node = tree.left[node]
        elif lo > tree.center[node]:
            if tree.right[node] < 0:
                tree.right[node] = _new_leaf(tree, lo)
            node = tree.right[node]
        else:
            break
    insert_ranked(tree, scores, node, lo, hi, identity)
    if tree.left[node] == -2 and tree.filled[tree.root[node]] > BUCKET:
        _split_leaf(tree, scores, node)


@kernel
def delete_interval(tree: IRArrays, scores: Float64s, lo: int, hi: int, identity: int) -> bool:
    """Take an interval out, if it is there."""
    node = 0 if tree.used[NODES] > 0 else -1
    while node >= 0:
        if tree.left[node] != -2 and hi < tree.center[node]:
            node = tree.left[node]
        elif tree.left[node] != -2 and lo > tree.center[node]:
            node = tree.right[node]
        else:
            return delete_ranked(tree, scores, node, identity)
    return False


@kernel
def _next_in_node(
    tree: IRArrays, blocks: Grid, slots: Grid, walk: int, depth: int, latest_lo: int, earliest_hi: int
) -> int:
    """Go on with the walk of one B-tree; rows of `blocks` and `slots` are its stack, `depth` its top. -1 is the end.

    The entry that was found stays on the stack with its slot moved on, so the returned depth is all there is to keep.
    """
    while depth >= 0:
        block = blocks[walk, depth]
        start = tree.start[block]
        slot = slots[walk, depth]
        end = tree.filled[block]
        while slot < end and (tree.lo[start + slot] > latest_lo or tree.hi[start + slot] < earliest_hi):
            slot += 1
        slots[walk, depth] = slot + 1
        if slot >= end:
            depth -= 1
        elif tree.level[block] > 0:
            depth += 1
            blocks[walk, depth] = tree.ref[start + slot]
            slots[walk, depth] = 0
        else:
            return depth
    return -1


@kernel
def open_walks(tree: IRArrays, value: int) -> tuple[Grid, Grid, Int32s]:
    """One walk for each node from the root to where `value` falls: stacks, one row a walk, and their depths.

    A depth of -1 is a walk that is over, -2 one that has not begun.
    """
    walks = 0
    node = 0 if tree.used[NODES] > 0 else -1
    while node >= 0:
        walks += 1
        node = _below(tree, node, value)
    blocks = np.empty((walks, DEPTH), np.int32)
    slots = np.zeros((walks, DEPTH), np.int32)
    depths = np.full(walks, -1, np.int32)
    node = 0
    for walk in range(walks):
        if tree.root[node] >= 0:
            blocks[walk, 0] = tree.root[node]
            depths[walk] = -2
        node = _below(tree, node, value)
    return blocks, slots, depths


@kernel
def _below(tree: IRArrays, node: int, value: int) -> int:
    if value < tree.center[node]:
        return int(tree.left[node])
    if value > tree.center[node]:
        return int(tree.right[node])
    return -1


@kernel
def merge_walks(
    tree: IRArrays,
    scores: Float64s,
    latest_lo: int,
    earliest_hi: int,
    blocks: Grid,
    slots: Grid,
    depths: Int32s,
    out: Int32s,
) -> int:
    """Merge the walks by score until `out` is full; return how many ids came.

    A walk that has not begun stands for the best interval of its node, and begins when that is the best of all: nodes
    near the root hold many intervals, and often none that matters.
    """
    heads = np.empty(depths.size, np.int32)
    keys = np.empty(depths.size, np.float64)
    for walk in range(depths.size):
        heads[walk] = _head(tree, blocks, slots, walk, depths[walk])
        keys[walk] = scores[heads[walk]] if heads[walk] >= 0 else -np.inf
    count = 0
    while count < out.size:
        best = -1
        for walk in range(heads.size):
            if heads[walk] >= 0 and (
                best < 0 or keys[walk] > keys[best] or (keys[walk] == keys[best] and heads[walk] < heads[best])
            ):
                best = walk
        if best < 0:
            break
        depth = depths[best]
        if depth >= 0:
            out[count] = heads[best]
            count += 1
        depth = _next_in_node(tree, blocks, slots, best, max(depth, 0), latest_lo, earliest_hi)
        depths[best] = depth
        heads[best] = _head(tree, blocks, slots, best, depth)
        if depth >= 0:
            keys[best] = scores[heads[best]]
    return count


@kernel
def _head(tree: IRArrays, blocks: Grid, slots: Grid, walk: int, depth: int) -> int:
    """The interval that a walk stands for, -1 if it is over."""
    if depth >= 0:
        return int(tree.ref[tree.start[blocks[walk, depth]] + slots[walk, depth] - 1])
    if depth == -1:
        return -1
    block = blocks[walk, 0]
    for _ in range(tree.level[block]):
        block = tree.ref[tree.start[block]]
    return int(tree.ref[tree.start[block]])
