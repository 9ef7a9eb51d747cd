"""Loops of the cluster tree: which key splits best, the split, and the leaf of a value.

How probes count and fill is told in `tocsin.papers.tatbul.kernels`.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s
from tocsin.papers.tatbul.kernels import distinct_ends


class Clusters(NamedTuple):
    """A cluster tree in preorder. Values below ``key[v]`` go to node ``v + 1``, others to node ``right[v]``.

    A leaf has ``right[v] == 0``; its ``key[v]`` is then its number ``t``, and ``ids[offsets[t]:offsets[t + 1]]`` are
    the intervals that reach into its range of values.
    """

    key: Int32s
    right: Int32s
    offsets: Int64s
    ids: Int32s


@kernel
def best_key(los: Int32s, his: Int32s) -> tuple[int, int]:
    """Search the distinct ends of the intervals, whose `los` and `his` come sorted, for the key of least score.

    The score is the difference in size of the two sides plus the number of intervals on both. Returns key and score.
    """
    size = len(los)
    ends = distinct_ends(los, his)
    key, score = ends[0], size
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        left = np.searchsorted(los, ends[middle])
        right = size - np.searchsorted(his, ends[middle])
        if abs(left - right) + left + right - size < score:
            key, score = ends[middle], abs(left - right) + left + right - size
        if right > left:
            low = middle + 1
        else:
            high = middle
    return key, score


@kernel
def grown(array: Int32s, size: int) -> Int32s:
    """Return `array`, or a copy with room for `size` and to spare."""
    if size <= len(array):
        return array
    larger = np.empty(2 * size, np.int32)
    larger[: len(array)] = array
    return larger


@kernel
def build_clusters(lo: Int32s, hi: Int32s, minimum: int) -> Clusters:
    """Split the intervals by the best key until at most `minimum` are left or no key parts them."""
    size = len(lo)
    # Clusters still to be split lie end to end in two stacks, one in the order of lo, one of hi.
    by_lo, by_hi = np.argsort(lo, kind="mergesort").astype(np.int32), np.argsort(hi, kind="mergesort").astype(np.int32)
    sizes, parents = np.zeros(64, np.int32), np.zeros(64, np.int32)
    sizes[0], parents[0] = size, -1
    pending, top = 1, size
    key, right = np.zeros(64, np.int32), np.zeros(64, np.int32)
    ids = np.empty(64, np.int32)
    nodes, leaves, total = 0, 0, 0
    offsets = np.zeros(64, np.int64)
    while pending > 0:
        pending -= 1
        size, parent = sizes[pending], parents[pending]
        base = top - size
        in_lo, in_hi = by_lo[base:top].copy(), by_hi[base:top].copy()
        node = nodes
        nodes += 1
        key, right = grown(key, nodes), grown(right, nodes)
        if parent >= 0:
            right[parent] = node
        splitter, score = 0, size
        if size > minimum:
            splitter, score = best_key(lo[in_lo], hi[in_hi])
        if score >= size:
            key[node], right[node] = leaves, 0
            ids = grown(ids, total + size)
            ids[total : total + size] = np.sort(in_lo)
            total += size
            leaves += 1
            if leaves == len(offsets):
                larger = np.zeros(2 * leaves, np.int64)
                larger[:leaves] = offsets
                offsets = larger
            offsets[leaves] = total
            top = base
            continue
        key[node] = splitter
        by_lo, by_hi = grown(by_lo, base + 2 * size), grown(by_hi, base + 2 * size)
        # The right side goes below the left, which is split next: preorder.
        at_lo, at_hi = base, base
        for i in range(size):
            if hi[in_lo[i]] >= splitter:
                by_lo[at_lo] = in_lo[i]
                at_lo += 1
            if hi[in_hi[i]] >= splitter:
                by_hi[at_hi] = in_hi[i]
                at_hi += 1
        middle = at_lo
        for i in range(size):
            if lo[in_lo[i]] < splitter:
                by_lo[at_lo] = in_lo[i]
                at_lo += 1
            if lo[in_hi[i]] < splitter:
                by_hi[at_hi] = in_hi[i]
                at_hi += 1
        sizes, parents = grown(sizes, pending + 2), grown(parents, pending + 2)
        sizes[pending], parents[pending] = middle - base, node
        sizes[pending + 1], parents[pending + 1] = at_lo - middle, -1
        pending, top = pending + 2, at_lo
    return Clusters(key[:nodes].copy(), right[:nodes].copy(), offsets[: leaves + 1].copy(), ids[:total].copy())


@kernel
def find_leaf(tree: Clusters, code: int) -> tuple[int, int]:
    """Walk to the leaf of `code`: its number and the keys compared."""
    node, evaluations = 0, 0
    while tree.right[node] > 0:
        evaluations += 1
        node = node + 1 if code < tree.key[node] else tree.right[node]
    return tree.key[node], evaluations


@kernel
def cluster_probe(
    lo: Int32s, hi: Int32s, tree: Clusters, codes: Int32s, offsets: Int64s, out: Int32s, fill: bool
) -> int:
    """Find the leaf cluster of each code and evaluate its intervals."""
    evaluations = 0
    for i in range(len(codes)):
        code = codes[i]
        if code < 0:
            continue
        leaf, compared = find_leaf(tree, code)
        begin, end = tree.offsets[leaf], tree.offsets[leaf + 1]
        evaluations += compared + end - begin
        at = offsets[i] if fill else 0
        for p in range(begin, end):
            j = tree.ids[p]
            if lo[j] <= code and code <= hi[j]:
                if fill:
                    out[at] = j
                at += 1
        if not fill:
            offsets[i + 1] = at
    return evaluations
