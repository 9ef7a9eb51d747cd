"""Loops over plain lists of intervals: normal form, scan, and the elementary intervals they cut a domain into.

An interval is a pair of inclusive codes ``lo[i] <= hi[i]``. Probes come twice, as count and as fill: called with
``fill`` false they leave the number of answers to code ``i`` in ``offsets[i + 1]``; called with ``fill`` true, once
`offsets` holds running sums and `out` has room, they write the answers in increasing order. Either call returns the
number of predicate evaluations. A negative code is NULL: no answers, no evaluations.
"""

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s

CODE_MAX = 2**31 - 1


@kernel
def merge_entries(lo: Int32s, hi: Int32s, owner: Int32s) -> tuple[Int32s, Int32s, Int32s]:
    """Join the overlapping and adjacent intervals of each owner; the input is sorted by owner, then by `lo`."""
    new_lo, new_hi, new_owner = np.empty_like(lo), np.empty_like(hi), np.empty_like(owner)
    size = 0
    for i in range(len(lo)):
        if size > 0 and new_owner[size - 1] == owner[i] and np.int64(lo[i]) <= np.int64(new_hi[size - 1]) + 1:
            new_hi[size - 1] = max(new_hi[size - 1], hi[i])
        else:
            new_lo[size], new_hi[size], new_owner[size] = lo[i], hi[i], owner[i]
            size += 1
    return new_lo[:size].copy(), new_hi[:size].copy(), new_owner[:size].copy()


@kernel
def scan_probe(lo: Int32s, hi: Int32s, codes: Int32s, offsets: Int64s, out: Int32s, fill: bool) -> int:
    """Evaluate every interval on every code."""
    evaluations = 0
    for i in range(len(codes)):
        code = codes[i]
        if code < 0:
            continue
        at = offsets[i] if fill else 0
        for j in range(len(lo)):
            if lo[j] <= code and code <= hi[j]:
                if fill:
                    out[at] = j
                at += 1
        if not fill:
            offsets[i + 1] = at
        evaluations += len(lo)
    return evaluations


@kernel
def distinct_ends(los: Int32s, his: Int32s) -> Int32s:
    """Merge sorted low ends and sorted high ends of the same intervals, each value once."""
    ends = np.empty(2 * len(los), np.int32)
    count, i, j = 0, 0, 0
    while j < len(his):
        if i < len(los) and los[i] <= his[j]:
            end, i = los[i], i + 1
        else:
            end, j = his[j], j + 1
        if count == 0 or ends[count - 1] != end:
            ends[count] = end
            count += 1
    return ends[:count]


@kernel
def cut(lo: Int32s, hi: Int32s, whole: bool) -> tuple[Int32s, Int32s]:
    """Cut the codes at the intervals' ends: each end by itself and the gaps between, as `first` and `last` codes.

    With `whole`, the codes before the least end and after the greatest are elementary intervals as well.
    """
    ends = distinct_ends(np.sort(lo), np.sort(hi))
    first, last = np.empty(2 * len(ends) + 1, np.int32), np.empty(2 * len(ends) + 1, np.int32)
    size = 0
    if whole and len(ends) > 0 and ends[0] > 0:
        first[size], last[size] = 0, ends[0] - 1
        size += 1
    for i in range(len(ends)):
        if i > 0 and ends[i] - ends[i - 1] > 1:
            first[size], last[size] = ends[i - 1] + 1, ends[i] - 1
            size += 1
        first[size], last[size] = ends[i], ends[i]
        size += 1
    if whole and len(ends) > 0 and ends[-1] < CODE_MAX:
        first[size], last[size] = ends[-1] + 1, CODE_MAX
        size += 1
    return first[:size].copy(), last[:size].copy()


@kernel
def fill_rows(first: Int32s, lo: Int32s, hi: Int32s) -> tuple[Int32s, Int64s, Int32s]:
    """List the intervals that contain each elementary interval: the row of each, and the rows.

    Neighbours with the same intervals share a row; about half do, because a closed interval begins or ends at only
    one side of its endpoint.
    """
    size = len(first)
    begins, ends = np.searchsorted(first, lo), np.searchsorted(first, hi)
    changes = np.zeros(size + 1, np.bool_)
    for j in range(len(lo)):
        changes[begins[j]] = True
        changes[ends[j] + 1] = True
    row = np.zeros(size, np.int32)
    for i in range(1, size):
        row[i] = row[i - 1] + (1 if changes[i] else 0)
    rows = row[-1] + 1 if size > 0 else 0
    offsets = np.zeros(rows + 2, np.int64)
    for j in range(len(lo)):
        offsets[row[begins[j]] + 1] += 1
        offsets[row[ends[j]] + 2] -= 1
    for i in range(1, rows + 1):
        offsets[i] += offsets[i - 1]
    for i in range(1, rows + 1):
        offsets[i] += offsets[i - 1]
    cursor = offsets[:rows].copy()
    ids = np.empty(offsets[rows], np.int32)
    for j in range(len(lo)):
        for r in range(row[begins[j]], row[ends[j]] + 1):
            ids[cursor[r]] = j
            cursor[r] += 1
    return row, offsets[: rows + 1].copy(), ids
