"""Loops of the interval tree. How probes count and fill is told in `tocsin.papers.tatbul.kernels`."""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s
from tocsin.papers.tatbul.kernels import distinct_ends


class Centred(NamedTuple):
    """An interval tree in preorder. Each interval is at the highest node whose key it contains, twice.

    The intervals of node ``v`` are ``by_lo[offsets[v]:offsets[v + 1]]`` with increasing low ends, which stand beside
    them in ``lo``, and the same slice of ``by_hi`` with decreasing high ends in ``hi``. Children are ``left[v]`` and
    ``right[v]``, 0 for none.
    """

    key: Int32s
    left: Int32s
    right: Int32s
    offsets: Int64s
    by_lo: Int32s
    lo: Int32s
    by_hi: Int32s
    hi: Int32s


@kernel
def build_centred(lo: Int32s, hi: Int32s) -> Centred:
    """Store at each node what contains the middle end (the upper of two); what lies below and above it goes on."""
    size = len(lo)
    in_lo, in_hi = np.argsort(lo, kind="mergesort").astype(np.int32), np.argsort(hi, kind="mergesort").astype(np.int32)
    key, left, right = np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32)
    offsets = np.zeros(size + 1, np.int64)
    by_lo, by_hi = np.empty(size, np.int32), np.empty(size, np.int32)
    # A frame is (begin, end, parent, whether it is the right child); its intervals are that slice of in_lo and in_hi.
    stack = np.zeros((size + 1, 4), np.int64)
    pending = 0
    if size > 0:
        stack[0, 1], stack[0, 2], pending = size, -1, 1
    nodes, total = 0, 0
    while pending > 0:
        pending -= 1
        begin, end, parent, is_right = stack[pending, 0], stack[pending, 1], stack[pending, 2], stack[pending, 3]
        some_lo, some_hi = in_lo[begin:end].copy(), in_hi[begin:end].copy()
        ends = distinct_ends(lo[some_lo], hi[some_hi])
        centre = ends[len(ends) // 2]
        node = nodes
        nodes += 1
        key[node] = centre
        if parent >= 0:
            if is_right == 1:
                right[parent] = node
            else:
                left[parent] = node
        low, high, here = begin, end, total
        for i in range(end - begin):
            j = some_lo[i]
            if hi[j] < centre:
                in_lo[low] = j
                low += 1
            elif lo[j] <= centre:
                by_lo[here] = j
                here += 1
            else:
                # By low end, the intervals above the centre are the last ones, and in place already.
                high = min(high, begin + i)
        total, cursor, above, below = here, here, high, begin
        for i in range(end - begin):
            j = some_hi[i]
            if hi[j] < centre:
                in_hi[below] = j
                below += 1
            elif lo[j] <= centre:
                cursor -= 1
                by_hi[cursor] = j
            else:
                in_hi[above] = j
                above += 1
        offsets[nodes] = total
        if high < end:
            stack[pending, 0], stack[pending, 1], stack[pending, 2], stack[pending, 3] = high, end, node, 1
            pending += 1
        if low > begin:
            stack[pending, 0], stack[pending, 1], stack[pending, 2], stack[pending, 3] = begin, low, node, 0
            pending += 1
    return Centred(
        key[:nodes].copy(),
        left[:nodes].copy(),
        right[:nodes].copy(),
        offsets[: nodes + 1].copy(),
        by_lo,
        lo[by_lo],
        by_hi,
        hi[by_hi],
    )


@kernel
def centred_probe(tree: Centred, codes: Int32s, offsets: Int64s, out: Int32s, fill: bool) -> int:
    """Walk towards each code; at each node report its list from the near end until an interval falls short."""
    evaluations = 0
    for i in range(len(codes)):
        code = codes[i]
        if code < 0 or len(tree.key) == 0:
            continue
        at = offsets[i] if fill else 0
        node = 0
        while True:
            evaluations += 1
            begin, end = tree.offsets[node], tree.offsets[node + 1]
            p = begin
            if code == tree.key[node]:
                p = end
            elif code < tree.key[node]:
                while p < end and tree.lo[p] <= code:
                    p += 1
                evaluations += min(p + 1, end) - begin
            else:
                while p < end and tree.hi[p] >= code:
                    p += 1
                evaluations += min(p + 1, end) - begin
            if fill:
                out[at : at + p - begin] = (tree.by_hi if code > tree.key[node] else tree.by_lo)[begin:p]
            at += p - begin
            if code == tree.key[node]:
                break
            node = tree.left[node] if code < tree.key[node] else tree.right[node]
            if node == 0:
                break
        if fill:
            out[offsets[i] : at].sort()
        else:
            offsets[i + 1] = at
    return evaluations
