"""Interval trees and segment trees as arrays, and the merge of their score-sorted lists."""

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s, UInt16s


@kernel
def grow_tree(lo: Int32s, hi: Int32s, bucket: int) -> tuple[Int32s, Int32s, Int32s, Int32s, Int32s]:
    """Split intervals by median endpoints into the nodes of an interval tree.

    Returns `center`, `left`, `right` and `start` by node, and `order`: the intervals, node after node, in the order
    they came within a node. A child of -1 is none. The intervals of a node contain its center, but for the buckets:
    where at most `bucket` intervals are left they share one node without children, and its `left` is -2.
    """
    size = lo.size
    order = np.empty(size, np.int32)
    # Each node holds at least one interval: an inner node's center is an endpoint of one.
    most = size + 1
    center = np.zeros(most, np.int32)
    left = np.full(most, -1, np.int32)
    right = np.full(most, -1, np.int32)
    start = np.zeros(most + 1, np.int32)
    members = np.arange(size).astype(np.int32)
    spare = np.empty(size, np.int32)
    ends = np.empty(2 * size, np.int32)
    # A task is a slice of `members` and where to hang its node: 2 * parent for left, 2 * parent + 1 for right.
    task_first = np.zeros(most, np.int64)
    task_last = np.zeros(most, np.int64)
    task_hook = np.full(most, -1, np.int64)
    tasks = 0
    if size > 0:
        task_last[0] = size
        tasks = 1
    nodes = 0
    filled = 0
    while tasks > 0:
        tasks -= 1
        first = task_first[tasks]
        last = task_last[tasks]
        hook = task_hook[tasks]
        node = nodes
        nodes += 1
        start[node] = filled
        if hook >= 0 and hook % 2 == 0:
            left[hook // 2] = node
        elif hook >= 0:
            right[hook // 2] = node
        count = last - first
        for index in range(count):
            ends[2 * index] = lo[members[first + index]]
            ends[2 * index + 1] = hi[members[first + index]]
        middle = np.partition(ends[: 2 * count], count)[count]
        center[node] = middle
        if count <= bucket:
            left[node] = -2
            order[filled : filled + count] = members[first:last]
            filled += count
            continue
        to_left = first
        to_right = 0
        for index in range(first, last):
            member = members[index]
            if hi[member] < middle:
                members[to_left] = member
                to_left += 1
            elif lo[member] > middle:
                spare[to_right] = member
                to_right += 1
            else:
                order[filled] = member
                filled += 1
        members[to_left : to_left + to_right] = spare[:to_right]
        if to_right > 0:
            task_first[tasks] = to_left
            task_last[tasks] = to_left + to_right
            task_hook[tasks] = 2 * node + 1
            tasks += 1
        if to_left > first:
            task_first[tasks] = first
            task_last[tasks] = to_left
            task_hook[tasks] = 2 * node
            tasks += 1
    start[nodes] = filled
    return center[:nodes].copy(), left[:nodes].copy(), right[:nodes].copy(), start[: nodes + 1].copy(), order


@kernel
def tree_path(center: Int32s, left: Int32s, right: Int32s, value: int) -> Int32s:
    """The nodes from the root down to where `value` falls."""
    path = np.empty(center.size, np.int32)
    depth = 0
    node = 0 if center.size > 0 else -1
    while node >= 0:
        path[depth] = node
        depth += 1
        if value < center[node]:
            node = left[node]
        elif value > center[node]:
            node = right[node]
        else:
            node = -1
    return path[:depth].copy()


@kernel
def _advance(lo: Int32s, hi: Int32s, position: int, end: int, latest_lo: int, earliest_hi: int) -> int:
    while position < end and (lo[position] > latest_lo or hi[position] < earliest_hi):
        position += 1
    return position


@kernel
def open_lists(start: Int32s, path: Int32s) -> tuple[Int64s, Int64s]:
    """Where each list on a path begins, as ~position because nothing in it was looked at yet, and where it ends."""
    positions = np.empty(path.size, np.int64)
    ends = np.empty(path.size, np.int64)
    for index in range(path.size):
        positions[index] = ~start[path[index]]
        ends[index] = start[path[index] + 1]
    return positions, ends


@kernel(signatures=2)
def merge_lists(
    lo: Int32s,
    hi: Int32s,
    rank_low: UInt16s,
    rank_high: npt.NDArray[np.unsignedinteger],
    latest_lo: int,
    earliest_hi: int,
    positions: Int64s,
    ends: Int64s,
    out: Int32s,
) -> int:
    """Merge lists of intervals by rank, writing the positions of those that pass, until `out` is full.

    Returns how many came. An interval passes if it begins at or before `latest_lo` and ends at or after `earliest_hi`.
    A position rests on one that passes; or it is ~position on the best of a list that was not looked at yet, which
    waits until that one is the best of all. A path has some twenty lists, so the best is found by looking at each.
    """
    heads = np.full(positions.size, -1, np.int64)
    for index in range(positions.size):
        position = positions[index] if positions[index] >= 0 else ~positions[index]
        if position < ends[index]:
            heads[index] = int(rank_low[position]) | (int(rank_high[position]) << 16)
    count = 0
    while count < out.size:
        best = -1
        for index in range(heads.size):
            if heads[index] >= 0 and (best < 0 or heads[index] < heads[best]):
                best = index
        if best < 0:
            break
        position = positions[best]
        if position < 0:
            position = ~position
        else:
            out[count] = position
            count += 1
            position += 1
        position = _advance(lo, hi, position, ends[best], latest_lo, earliest_hi)
        positions[best] = position
        heads[best] = -1
        if position < ends[best]:
            heads[best] = int(rank_low[position]) | (int(rank_high[position]) << 16)
    return count


@kernel
def gather_stabbed(
    center: Int32s,
    start: Int32s,
    path: Int32s,
    lo: Int32s,
    ranks_by_lo: Int32s,
    hi: Int32s,
    ranks_by_hi: Int32s,
    value: int,
) -> Int32s:
    """Collect the ranks of all intervals over `value` from lists by endpoint: rising `lo`, falling `hi`, by node."""
    total = 0
    for node in path:
        position = start[node]
        if value < center[node]:
            while position < start[node + 1] and lo[position] <= value:
                position += 1
        else:
            while position < start[node + 1] and hi[position] >= value:
                position += 1
        total += position - start[node]
    found = np.empty(total, np.int32)
    filled = 0
    for node in path:
        position = start[node]
        if value < center[node]:
            while position < start[node + 1] and lo[position] <= value:
                found[filled] = ranks_by_lo[position]
                filled += 1
                position += 1
        else:
            while position < start[node + 1] and hi[position] >= value:
                found[filled] = ranks_by_hi[position]
                filled += 1
                position += 1
    return found


@kernel
def _sift_down(heap: Int32s, size: int, place: int) -> None:
    moving = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if moving < heap[child]:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moving


@kernel
def heap_order(heap: Int32s) -> None:
    """Arrange ranks as a heap, the best one first, in place."""
    for place in range(heap.size // 2 - 1, -1, -1):
        _sift_down(heap, heap.size, place)


@kernel
def pop_best(heap: Int32s, size: int, out: Int32s) -> int:
    """Pop ranks from a heap of `size` until `out` is full; return how many came."""
    count = min(size, out.size)
    for index in range(count):
        out[index] = heap[0]
        size -= 1
        heap[0] = heap[size]
        _sift_down(heap, size, 0)
    return count


@kernel
def fill_segments(first: Int32s, last: Int32s, leaves: int) -> tuple[Int64s, Int32s]:
    """File each interval of leaves [first, last) under the highest nodes that it covers.

    Node v has children 2v and 2v + 1, leaf i is node leaves + i. Intervals come best first and stay so in each node:
    node v holds `ranks[starts[v] : starts[v + 1]]`.
    """
    starts = np.zeros(2 * leaves + 1, np.int64)
    for rank in range(first.size):
        low = first[rank] + leaves
        high = last[rank] + leaves
        while low < high:
            if low & 1:
                starts[low + 1] += 1
                low += 1
            if high & 1:
                high -= 1
                starts[high + 1] += 1
            low >>= 1
            high >>= 1
    for node in range(2 * leaves):
        starts[node + 1] += starts[node]
    ranks = np.empty(starts[2 * leaves], np.int32)
    filled = starts[:-1].copy()
    for rank in range(first.size):
        low = first[rank] + leaves
        high = last[rank] + leaves
        while low < high:
            if low & 1:
                ranks[filled[low]] = rank
                filled[low] += 1
                low += 1
            if high & 1:
                high -= 1
                ranks[filled[high]] = rank
                filled[high] += 1
            low >>= 1
            high >>= 1
    return starts, ranks


@kernel
def merge_ranks(ranks: Int32s, positions: Int64s, ends: Int64s, out: Int32s) -> int:
    """Merge rising lists of ranks until `out` is full; return how many came. `positions` moves on."""
    count = 0
    while count < out.size:
        best = -1
        for index in range(positions.size):
            if positions[index] < ends[index] and (best < 0 or ranks[positions[index]] < ranks[positions[best]]):
                best = index
        if best < 0:
            break
        out[count] = ranks[positions[best]]
        positions[best] += 1
        count += 1
    return count
