"""How intervals enter and are found in the interval tree of an IR-tree."""

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Float64s, Int32s
from tocsin.papers.ranked.ir_kernels import BUCKET, DEPTH, NODES, IRArrays, insert_ranked


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

    A leaf holds at most BUCKET + 1 intervals, which is less than FANOUT, so its B-tree is one block.
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
def open_walks(tree: IRArrays, value: int) -> tuple[Int32s, Int32s, Int32s, Int32s]:
    """One walk for each node with intervals from the root to where `value` falls: stacks, depths and heads.

    A stack is a row of blocks and one of slots. Depth -1 is a walk that is over, -2 one that has not begun: its head
    is the best interval of its node, whether it passes or not. Later the head is the next interval to be yielded.
    """
    # Tuples of many arrays are slow to hand to a helper, so both loops stand here.
    center, left, right, root = tree.center, tree.left, tree.right, tree.root
    start, level, ref = tree.start, tree.level, tree.ref
    walks = 0
    node = 0 if tree.used[NODES] > 0 else -1
    while node >= 0:
        walks += root[node] >= 0
        node = left[node] if value < center[node] else right[node] if value > center[node] else -1
    blocks = np.empty((walks, DEPTH), np.int32)
    slots = np.zeros((walks, DEPTH), np.int32)
    depths = np.full(walks, -2, np.int32)
    heads = np.empty(walks, np.int32)
    walk = 0
    node = 0
    while walk < walks:
        block = root[node]
        if block >= 0:
            blocks[walk, 0] = block
            for _ in range(level[block]):
                block = ref[start[block]]
            heads[walk] = ref[start[block]]
            walk += 1
        node = left[node] if value < center[node] else right[node] if value > center[node] else -1
    return blocks, slots, depths, heads


@kernel
def merge_walks(
    tree: IRArrays,
    scores: Float64s,
    latest_lo: int,
    earliest_hi: int,
    blocks: Int32s,
    slots: Int32s,
    depths: Int32s,
    heads: Int32s,
    out: Int32s,
) -> int:
    """Merge the walks by score until `out` is full; return how many ids came.

    A walk begins when its head is the best of all: nodes near the root hold many intervals, and often none that
    matters. The entry that a walk found stays on its stack with the slot moved on.
    """
    start, filled, level, lo, hi, ref = tree.start, tree.filled, tree.level, tree.lo, tree.hi, tree.ref
    keys = np.empty(heads.size, np.float64)
    for walk in range(heads.size):
        keys[walk] = scores[max(heads[walk], 0)]
    count = 0
    while count < out.size:
        best = -1
        for walk in range(heads.size):
            if depths[walk] != -1 and (
                best < 0 or keys[walk] > keys[best] or (keys[walk] == keys[best] and heads[walk] < heads[best])
            ):
                best = walk
        if best < 0:
            break
        depth = depths[best]
        if depth >= 0:
            out[count] = heads[best]
            count += 1
        depth = max(depth, 0)
        while depth >= 0:
            block = blocks[best, depth]
            entry = start[block] + slots[best, depth]
            end = start[block] + filled[block]
            while entry < end and (lo[entry] > latest_lo or hi[entry] < earliest_hi):
                entry += 1
            slots[best, depth] = entry + 1 - start[block]
            if entry >= end:
                depth -= 1
            elif level[block] > 0:
                depth += 1
                blocks[best, depth] = ref[entry]
                slots[best, depth] = 0
            else:
                heads[best] = ref[entry]
                keys[best] = scores[heads[best]]
                break
        depths[best] = depth
    return count
