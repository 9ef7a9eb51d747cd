"""Loops of the indexes built on elementary intervals: Interval, Hybrid (on the leaves of a cluster tree), Segment Tree.

How probes count and fill is told in `tocsin.papers.tatbul.kernels`.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s
from tocsin.papers.tatbul.cluster_kernels import Clusters, find_leaf
from tocsin.papers.tatbul.kernels import cut, fill_rows


class Elementary(NamedTuple):
    """A forest of search trees over elementary intervals, without pointers: the root of a slice is its middle.

    Tree ``t`` is the slice ``trees[t]:trees[t + 1]`` of the nodes, sorted by code. Node ``i`` is the elementary
    interval from code ``first[i]`` to code ``last[i]``, and the intervals that contain it are row ``row[i]``.
    """

    trees: Int64s
    first: Int32s
    last: Int32s
    row: Int32s
    offsets: Int64s
    ids: Int32s


class Segments(NamedTuple):
    """A segment tree, level by level from the leaves up, without pointers: node ``i`` is the parent of 2i and 2i + 1.

    Leaf ``i`` is the elementary interval that ends at code ``last[i]``. Level ``l`` has ``width[l]`` nodes, numbered
    from ``start[l]``; node ``v`` stores the intervals ``ids[offsets[v]:offsets[v + 1]]``. Where a level has an odd
    number of nodes, the last has no sibling and moves up as it is: its place above is empty and stands for it.
    """

    last: Int32s
    width: Int64s
    start: Int64s
    offsets: Int64s
    ids: Int32s


@kernel
def build_elementary(lo: Int32s, hi: Int32s) -> Elementary:
    """Build one search tree over the elementary intervals that lie in some interval."""
    first, last = cut(lo, hi, False)
    row, offsets, ids = fill_rows(first, lo, hi)
    kept = np.empty(len(first), np.bool_)
    for i in range(len(first)):
        kept[i] = offsets[row[i] + 1] > offsets[row[i]]
    first, last, row = first[kept], last[kept], row[kept]
    return Elementary(np.array([0, len(first)]), first, last, row, offsets, ids)


@kernel
def build_hybrid(lo: Int32s, hi: Int32s, clusters: Clusters) -> Elementary:
    """Build a search tree over the elementary intervals of each leaf cluster of at least two; others get none."""
    leaves = len(clusters.offsets) - 1
    nodes, rows, total = 0, 0, 0
    for t in range(leaves):
        members = clusters.ids[clusters.offsets[t] : clusters.offsets[t + 1]]
        if len(members) > 1:
            tree = build_elementary(lo[members], hi[members])
            nodes, rows, total = nodes + len(tree.first), rows + len(tree.offsets) - 1, total + len(tree.ids)
    trees, offsets = np.zeros(leaves + 1, np.int64), np.zeros(rows + 1, np.int64)
    first, last, row = np.empty(nodes, np.int32), np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    ids = np.empty(total, np.int32)
    nodes, rows, total = 0, 0, 0
    for t in range(leaves):
        members = clusters.ids[clusters.offsets[t] : clusters.offsets[t + 1]]
        if len(members) > 1:
            tree = build_elementary(lo[members], hi[members])
            for i in range(len(tree.first)):
                first[nodes + i], last[nodes + i], row[nodes + i] = tree.first[i], tree.last[i], rows + tree.row[i]
            for i in range(len(tree.ids)):
                ids[total + i] = members[tree.ids[i]]
            for i in range(len(tree.offsets)):
                offsets[rows + i] = total + tree.offsets[i]
            nodes, rows, total = nodes + len(tree.first), rows + len(tree.offsets) - 1, total + len(tree.ids)
        trees[t + 1] = nodes
    return Elementary(trees, first, last, row, offsets, ids)


@kernel
def find_row(tree: Elementary, t: int, code: int) -> tuple[int, int]:
    """Search tree `t` for the elementary interval of `code`: its row or -1, and the nodes compared."""
    low, high, evaluations = tree.trees[t], tree.trees[t + 1], 0
    while low < high:
        middle = (low + high) // 2
        evaluations += 1
        if code < tree.first[middle]:
            high = middle
        elif code > tree.last[middle]:
            low = middle + 1
        else:
            return tree.row[middle], evaluations
    return -1, evaluations


@kernel
def elementary_probe(tree: Elementary, codes: Int32s, offsets: Int64s, out: Int32s, fill: bool) -> int:
    """Find the row of each code."""
    evaluations = 0
    for i in range(len(codes)):
        if codes[i] < 0:
            continue
        row, compared = find_row(tree, 0, codes[i])
        evaluations += compared
        if row >= 0:
            begin, end = tree.offsets[row], tree.offsets[row + 1]
            if fill:
                out[offsets[i] : offsets[i + 1]] = tree.ids[begin:end]
            else:
                offsets[i + 1] = end - begin
    return evaluations


@kernel
def hybrid_probe(
    lo: Int32s,
    hi: Int32s,
    clusters: Clusters,
    tree: Elementary,
    codes: Int32s,
    offsets: Int64s,
    out: Int32s,
    fill: bool,
) -> int:
    """Find the leaf cluster of each code, then its row in that cluster's search tree; a single one is evaluated."""
    evaluations = 0
    for i in range(len(codes)):
        code = codes[i]
        if code < 0:
            continue
        leaf, compared = find_leaf(clusters, code)
        evaluations += compared
        begin, end = clusters.offsets[leaf], clusters.offsets[leaf + 1]
        if end - begin == 1:
            evaluations += 1
            j = clusters.ids[begin]
            if lo[j] <= code and code <= hi[j]:
                if fill:
                    out[offsets[i]] = j
                else:
                    offsets[i + 1] = 1
            continue
        row, compared = find_row(tree, leaf, code)
        evaluations += compared
        if row >= 0:
            begin, end = tree.offsets[row], tree.offsets[row + 1]
            if fill:
                out[offsets[i] : offsets[i + 1]] = tree.ids[begin:end]
            else:
                offsets[i + 1] = end - begin
    return evaluations


@kernel
def real_node(width: Int64s, level: int, i: int) -> tuple[int, int]:
    """Follow an empty place down to the node it stands for."""
    while level > 0 and 2 * i + 1 >= width[level - 1]:
        level, i = level - 1, 2 * i
    return level, i


@kernel
def store_segments(
    begins: Int64s, ends: Int64s, width: Int64s, start: Int64s, offsets: Int64s, ids: Int32s, fill: bool
) -> None:
    """Count (in ``offsets[v + 1]``) or write (at ``offsets[v]``, which moves) each interval at its maximal nodes."""
    leaves = width[0]
    for j in range(len(begins)):
        a, b = begins[j], ends[j] + 1
        if b == leaves:
            b = 1 << (len(width) - 1)
        level = 0
        while a < b:
            for side in range(2):
                if side == 0 and a & 1:
                    place, a = a, a + 1
                elif side == 1 and b & 1:
                    place, b = b - 1, b - 1
                else:
                    continue
                if place < width[level]:
                    real, i = real_node(width, level, place)
                    v = start[real] + i
                    if fill:
                        ids[offsets[v]] = j
                        offsets[v] += 1
                    else:
                        offsets[v + 1] += 1
            a, b, level = a >> 1, b >> 1, level + 1


@kernel
def build_segments(lo: Int32s, hi: Int32s) -> Segments:
    """Pair the elementary intervals, then the pairs, up to the root; store each interval as high as it fits."""
    first, last = cut(lo, hi, True)
    levels = 1
    size = len(first)
    while size > 1:
        size = (size + 1) // 2
        levels += 1
    width, start = np.zeros(levels, np.int64), np.zeros(levels + 1, np.int64)
    size = len(first)
    for level in range(levels):
        width[level], start[level + 1] = size, start[level] + size
        size = (size + 1) // 2
    begins, ends = np.searchsorted(first, lo), np.searchsorted(first, hi)
    offsets = np.zeros(start[-1] + 1, np.int64)
    ids = np.empty(0, np.int32)
    store_segments(begins, ends, width, start, offsets, ids, False)
    offsets = np.cumsum(offsets)
    ids = np.empty(offsets[-1], np.int32)
    store_segments(begins, ends, width, start, offsets.copy(), ids, True)
    return Segments(last, width, start, offsets, ids)


@kernel
def segment_probe(tree: Segments, codes: Int32s, offsets: Int64s, out: Int32s, fill: bool) -> int:
    """Walk from the root to the leaf of each code and collect what the nodes on the way store."""
    evaluations = 0
    leaves = len(tree.last)
    for i in range(len(codes)):
        if codes[i] < 0 or leaves == 0:
            continue
        at = offsets[i] if fill else 0
        level, node = len(tree.width) - 1, 0
        while True:
            v = tree.start[level] + node
            begin, end = tree.offsets[v], tree.offsets[v + 1]
            if fill:
                out[at : at + end - begin] = tree.ids[begin:end]
            at += end - begin
            if level == 0:
                break
            level, node = level - 1, 2 * node
            if node + 1 < tree.width[level]:
                evaluations += 1
                if codes[i] > tree.last[min(((node + 1) << level), leaves) - 1]:
                    node += 1
        if fill:
            out[offsets[i] : at].sort()
        else:
            offsets[i + 1] = at
    return evaluations
