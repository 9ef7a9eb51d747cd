"""R-trees over a sequence of intervals, without pointers: level 0 is the sequence, each entry above covers `fanout`."""

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s


@kernel
def pack_extents(lo: Int32s, hi: Int32s, fanout: int) -> tuple[Int32s, Int32s, Int64s]:
    """Stack the levels of the tree: all extents, level after level, and where each level begins.

    `starts` has one entry more than there are levels, the end of the last one.
    """
    size = lo.size
    total = size
    levels = 1
    while size > 1:
        size = (size + fanout - 1) // fanout
        total += size
        levels += 1
    extent_lo = np.empty(total, np.int32)
    extent_hi = np.empty(total, np.int32)
    starts = np.zeros(levels + 1, np.int64)
    extent_lo[: lo.size] = lo
    extent_hi[: lo.size] = hi
    starts[1] = lo.size
    for level in range(1, levels):
        below = starts[level - 1]
        here = starts[level]
        size = (here - below + fanout - 1) // fanout
        starts[level + 1] = here + size
        for group in range(size):
            first = below + group * fanout
            last = min(first + fanout, here)
            low = extent_lo[first]
            high = extent_hi[first]
            for child in range(first + 1, last):
                low = min(low, extent_lo[child])
                high = max(high, extent_hi[child])
            extent_lo[here + group] = low
            extent_hi[here + group] = high
    return extent_lo, extent_hi, starts


@kernel
def walk_rtree(
    extent_lo: Int32s,
    extent_hi: Int32s,
    starts: Int64s,
    fanout: int,
    latest_lo: int,
    earliest_hi: int,
    state: Int64s,
    explored: Int64s,
    out: Int32s,
) -> int:
    """Go on with a left-first depth-first walk and write the positions of passing intervals until `out` is full.

    An interval passes if it begins at or before `latest_lo` and ends at or after `earliest_hi`; for a point both are
    the point. `state` is the next entry, as (level, index in the level). `explored` counts the entries entered, by
    level. Returns how many positions were written; fewer than asked means that the walk is over.
    """
    top = starts.size - 2
    level = state[0]
    index = state[1]
    count = 0
    while count < out.size and index < starts[level + 1] - starts[level]:
        entry = starts[level] + index
        if extent_lo[entry] <= latest_lo and extent_hi[entry] >= earliest_hi:
            if level > 0:
                explored[level] += 1
                level -= 1
                index *= fanout
                continue
            out[count] = index
            count += 1
        index += 1
        while index % fanout == 0 and level < top:
            index //= fanout
            level += 1
    state[0] = level
    state[1] = index
    return count
