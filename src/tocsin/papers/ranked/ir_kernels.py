"""The IR-tree in arrays: an interval tree whose nodes each hold a B-tree of intervals by score, with extents.

A block of such a B-tree is a row of entries: intervals (level 0, `ref` is the id) or blocks below (`ref` is the block,
and the entry's interval is its extent). Rows have room for 2, 4, 6, … 64 entries: as few as do when a tree is loaded; a
row that is full moves to one a quarter larger, and a block of 64 splits. Rows and blocks that fall free wait in linked
lists.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Float64s, Int8s, Int32s, Int64s, UInt16s

FANOUT = 64
FILL = 62  # Entries of a block after a bulk load: some room, so that the first insert does not split it.
SIZES = 32  # Sizes of rows: size s has room for 2 * s + 2 entries.
DEPTH = 16  # More levels than any B-tree here can have: 64 ** 16 entries.
BUCKET = FILL  # Intervals that a leaf of the interval tree holds before it is split: its B-tree is one block.

# Places in `used`.
NODES, BLOCKS, ENTRIES, FREE_BLOCK, FREE_ROW = 0, 1, 2, 3, 4


class IRArrays(NamedTuple):
    """The state of an IR-tree. `left` is -1 for no child, -2 in a leaf whose intervals share no point."""

    center: Int32s
    left: Int32s
    right: Int32s
    root: Int32s  # Block at the top of the node's B-tree, -1 if it is empty.
    start: Int32s  # By block: the first entry of its row; in a free block, the next free one.
    size: Int8s  # By block: the size of its row.
    level: Int8s
    filled: Int32s  # By block: its entries.
    lo: Int32s  # By entry.
    hi: Int32s
    ref: Int32s  # In the first entry of a free row: the next free row of this size.
    home: UInt16s  # By interval: the node that holds it, its lower half.
    home_high: UInt16s  # Its upper half; empty while there are not 2 ** 16 nodes.
    used: Int64s  # Nodes, blocks, entries in use; first free block; first free row of each size; -1 is none.


@kernel
def _new_row(tree: IRArrays, size: int) -> int:
    row = tree.used[FREE_ROW + size]
    if row >= 0:
        tree.used[FREE_ROW + size] = tree.ref[row]
        return int(row)
    row = tree.used[ENTRIES]
    tree.used[ENTRIES] += 2 * size + 2
    return int(row)


@kernel
def _free_row(tree: IRArrays, row: int, size: int) -> None:
    tree.ref[row] = tree.used[FREE_ROW + size]
    tree.used[FREE_ROW + size] = row


@kernel
def _new_block(tree: IRArrays, level: int, capacity: int) -> int:
    size = (capacity - 1) // 2
    block = tree.used[FREE_BLOCK]
    if block >= 0:
        tree.used[FREE_BLOCK] = tree.start[block]
    else:
        block = tree.used[BLOCKS]
        tree.used[BLOCKS] += 1
    tree.start[block] = _new_row(tree, size)
    tree.size[block] = size
    tree.level[block] = level
    tree.filled[block] = 0
    return int(block)


@kernel
def _free_block(tree: IRArrays, block: int) -> None:
    _free_row(tree, tree.start[block], tree.size[block])
    tree.start[block] = tree.used[FREE_BLOCK]
    tree.used[FREE_BLOCK] = block


@kernel
def _append(tree: IRArrays, block: int, lo: int, hi: int, ref: int) -> None:
    entry = tree.start[block] + tree.filled[block]
    tree.lo[entry] = lo
    tree.hi[entry] = hi
    tree.ref[entry] = ref
    tree.filled[block] += 1


@kernel
def _insert_at(tree: IRArrays, block: int, slot: int, lo: int, hi: int, ref: int) -> None:
    """Insert an entry in a block that is not full at 64, moving the row to a larger one if need be."""
    size = tree.size[block]
    if tree.filled[block] == 2 * size + 2:
        larger = min(size + 1 + size // 4, SIZES - 1)
        row = _new_row(tree, larger)
        old = tree.start[block]
        for index in range(tree.filled[block]):
            tree.lo[row + index] = tree.lo[old + index]
            tree.hi[row + index] = tree.hi[old + index]
            tree.ref[row + index] = tree.ref[old + index]
        _free_row(tree, old, size)
        tree.start[block] = row
        tree.size[block] = larger
    start = tree.start[block]
    for entry in range(start + tree.filled[block], start + slot, -1):
        tree.lo[entry] = tree.lo[entry - 1]
        tree.hi[entry] = tree.hi[entry - 1]
        tree.ref[entry] = tree.ref[entry - 1]
    tree.lo[start + slot] = lo
    tree.hi[start + slot] = hi
    tree.ref[start + slot] = ref
    tree.filled[block] += 1


@kernel
def _remove_at(tree: IRArrays, block: int, slot: int) -> None:
    start = tree.start[block]
    tree.filled[block] -= 1
    for entry in range(start + slot, start + tree.filled[block]):
        tree.lo[entry] = tree.lo[entry + 1]
        tree.hi[entry] = tree.hi[entry + 1]
        tree.ref[entry] = tree.ref[entry + 1]


@kernel
def _fit_extent(tree: IRArrays, entry: int) -> None:
    """Set an inner entry's interval to the extent of its block."""
    block = tree.ref[entry]
    start = tree.start[block]
    low = tree.lo[start]
    high = tree.hi[start]
    for below in range(start + 1, start + tree.filled[block]):
        low = min(low, tree.lo[below])
        high = max(high, tree.hi[below])
    tree.lo[entry] = low
    tree.hi[entry] = high


@kernel
def _slot(tree: IRArrays, scores: Float64s, block: int, identity: int) -> int:
    """How many entries of a block begin with an interval that ranks before `identity`."""
    low = 0
    high = tree.filled[block]
    while low < high:
        middle = (low + high) // 2
        first = tree.ref[tree.start[block] + middle]
        for _ in range(tree.level[block]):
            first = tree.ref[tree.start[first]]
        if scores[first] > scores[identity] or (scores[first] == scores[identity] and first < identity):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _set_home(tree: IRArrays, identity: int, node: int) -> None:
    """Note which node holds an interval."""
    tree.home[identity] = node & 0xFFFF
    if tree.home_high.size > 0:
        tree.home_high[identity] = node >> 16


@kernel
def insert_ranked(tree: IRArrays, scores: Float64s, node: int, lo: int, hi: int, identity: int) -> None:
    """File an interval in a node's B-tree by its score."""
    _set_home(tree, identity, node)
    if tree.root[node] < 0:
        tree.root[node] = _new_block(tree, 0, 4)
    path = np.empty(DEPTH, np.int32)
    slots = np.empty(DEPTH, np.int32)
    depth = 0
    block = tree.root[node]
    while tree.level[block] > 0:
        slot = max(_slot(tree, scores, block, identity) - 1, 0)
        entry = tree.start[block] + slot
        tree.lo[entry] = min(tree.lo[entry], lo)
        tree.hi[entry] = max(tree.hi[entry], hi)
        path[depth] = block
        slots[depth] = slot
        depth += 1
        block = tree.ref[entry]
    slot = _slot(tree, scores, block, identity)
    ref = identity
    while tree.filled[block] == FANOUT:
        half = FANOUT // 2
        beside = _new_block(tree, tree.level[block], FANOUT)
        for entry in range(tree.start[block] + half, tree.start[block] + FANOUT):
            _append(tree, beside, tree.lo[entry], tree.hi[entry], tree.ref[entry])
        tree.filled[block] = half
        if slot <= half:
            _insert_at(tree, block, slot, lo, hi, ref)
        else:
            _insert_at(tree, beside, slot - half, lo, hi, ref)
        if depth == 0:
            top = _new_block(tree, tree.level[block] + 1, 4)
            _append(tree, top, 0, 0, block)
            _append(tree, top, 0, 0, beside)
            _fit_extent(tree, tree.start[top])
            _fit_extent(tree, tree.start[top] + 1)
            tree.root[node] = top
            return
        depth -= 1
        block = path[depth]
        _fit_extent(tree, tree.start[block] + slots[depth])
        first = tree.start[beside]
        lo = tree.lo[first]
        hi = tree.hi[first]
        for entry in range(first + 1, first + tree.filled[beside]):
            lo = min(lo, tree.lo[entry])
            hi = max(hi, tree.hi[entry])
        ref = beside
        slot = slots[depth] + 1
    _insert_at(tree, block, slot, lo, hi, ref)


@kernel
def delete_ranked(tree: IRArrays, scores: Float64s, identity: int) -> tuple[bool, int, int]:
    """Take an interval out of its B-tree, dropping blocks that fall empty; say whether it was there, and its ends."""
    node = int(tree.home[identity])
    if tree.home_high.size > 0:
        node |= int(tree.home_high[identity]) << 16
    path = np.empty(DEPTH, np.int32)
    slots = np.empty(DEPTH, np.int32)
    depth = 0
    block = tree.root[node]
    if block < 0:
        return False, 0, 0
    while True:
        # One past the last entry that begins before `identity` or with it.
        slot = _slot(tree, scores, block, identity)
        if slot < tree.filled[block]:
            first = tree.ref[tree.start[block] + slot]
            for _ in range(tree.level[block]):
                first = tree.ref[tree.start[first]]
            if first == identity:
                slot += 1
        slot -= 1
        if slot < 0:
            return False, 0, 0
        path[depth] = block
        slots[depth] = slot
        if tree.level[block] == 0:
            break
        depth += 1
        block = tree.ref[tree.start[block] + slot]
    if tree.ref[tree.start[block] + slots[depth]] != identity:
        return False, 0, 0
    lo = int(tree.lo[tree.start[block] + slots[depth]])
    hi = int(tree.hi[tree.start[block] + slots[depth]])
    _remove_at(tree, block, slots[depth])
    while depth > 0:
        depth -= 1
        above = path[depth]
        if tree.filled[block] == 0:
            _free_block(tree, block)
            _remove_at(tree, above, slots[depth])
        else:
            _fit_extent(tree, tree.start[above] + slots[depth])
        block = above
    if tree.filled[block] == 0:
        _free_block(tree, block)
        tree.root[node] = -1
    while tree.root[node] >= 0 and tree.level[block] > 0 and tree.filled[block] == 1:
        tree.root[node] = tree.ref[tree.start[block]]
        _free_block(tree, block)
        block = tree.root[node]
    return True, lo, hi


@kernel
def bulk_size(start: Int32s) -> tuple[int, int]:
    """The entries and blocks that `bulk_load` needs for these lists."""
    entries = 0
    blocks = 0
    for node in range(start.size - 1):
        count = int(start[node + 1] - start[node])
        while count > 0:
            groups = (count + FILL - 1) // FILL
            for group in range(groups):
                size = count * (group + 1) // groups - count * group // groups
                entries += 2 * ((size + 1) // 2)
            blocks += groups
            count = groups if groups > 1 else 0
    return entries, blocks


@kernel
def bulk_load(tree: IRArrays, start: Int32s, lo: Int32s, hi: Int32s, ids: Int32s) -> None:
    """Pack each node's list, already in order of score, into blocks of even size, level by level."""
    for node in range(start.size - 1):
        count = int(start[node + 1] - start[node])
        tree.root[node] = -1
        level = 0
        below = 0
        while count > 0:
            groups = (count + FILL - 1) // FILL
            first_block = tree.used[BLOCKS]
            for group in range(groups):
                first = count * group // groups
                last = count * (group + 1) // groups
                block = _new_block(tree, level, last - first)
                for index in range(first, last):
                    if level == 0:
                        position = start[node] + index
                        _append(tree, block, lo[position], hi[position], ids[position])
                        _set_home(tree, ids[position], node)
                    else:
                        _append(tree, block, 0, 0, below + index)
                        _fit_extent(tree, tree.start[block] + index - first)
            below = first_block
            tree.root[node] = first_block
            level += 1
            count = groups if groups > 1 else 0
