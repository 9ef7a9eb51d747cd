"""Which index suits the predicates of an attribute, and why: a pure function of a few numbers about them.

The thresholds come from `tocsin bench tatbul` at 10,000 to 1,000,000 intervals, of which 1 to 1,000 hold for a value
(docs/internals/intervals.md has the table). Interval answers batches 1.5 to 10 times as fast as Interval Tree, but its
bytes grow with the overlap: 85 an interval where 1 predicate holds, 7,962 where 1,000 hold. Interval Tree stays at 30
to 43 and Segment Tree at 104 to 137; up to an overlap of 100 neither is 1.4 times as fast as the other, and at 1,000
Segment Tree is faster by 1.2 to 1.4. Both sort what they find, which a scan need not: where 9 percent of the intervals
hold it took 0.76 of Interval Tree's time, and it breaks even near a sixteenth. Cluster takes 0.6 of Interval's bytes
and 0.5 to 2.7 times its time, too narrow a gain to be chosen, and Hybrid's bytes grow with the square of the overlap.
Below 64 intervals a scan costs no more than a call.
"""

from dataclasses import dataclass
from math import log2

import numpy as np

from tocsin.arrays import Int32s

FEW = 64
MUCH_OVERLAP = 300
MOST = 1 / 16


@dataclass(frozen=True)
class Statistics:
    """What the choice depends on.

    `overlap` is the mean number of predicates that hold for a value, `equality` the share of intervals that are points,
    `memory` the bytes that the index may take.
    """

    intervals: int
    constants: int
    overlap: float
    equality: float
    memory: int

    @classmethod
    def of(cls, lo: Int32s, hi: Int32s, codes: int, memory: int) -> "Statistics":
        """Take the statistics of ranges over `codes` codes, supposing that values spread evenly over them. O(n log n).

        >>> Statistics.of(np.array([0, 1], np.int32), np.array([2, 1], np.int32), 4, 1000)
        Statistics(intervals=2, constants=3, overlap=1.0, equality=0.5, memory=1000)
        """
        kept = lo <= hi
        lo, hi = lo[kept], hi[kept]
        size = len(lo)
        covered = float(np.sum(np.minimum(hi, codes - 1).astype(np.int64) - lo + 1))
        constants = len(np.unique(np.concatenate((lo, hi))))
        equality = float(np.mean(lo == hi)) if size else 0.0
        return cls(size, constants, covered / max(1, codes), equality, memory)


def bytes_of(statistics: Statistics) -> dict[str, int]:
    """Estimate the bytes of each index that can be chosen, within a third.

    An entry has 13 bytes. Interval: 12 for each elementary interval, two at each constant or one at a point, and a row
    for each with the predicates that hold. Segment Tree: 40 at each constant, and 4 for each node that stores an entry.
    Interval Tree: 16 for the two lists, and 20 for each of at most 0.7 keys.
    """
    n, constants, overlap, equality = (
        statistics.intervals,
        statistics.constants,
        statistics.overlap,
        statistics.equality,
    )
    stored = equality + (1 - equality) * (2.7 + 0.85 * log2(max(1.0, overlap)))
    return {
        "interval": round(13 * n + constants * (12 * (2 - equality) + (1 + equality) * (8 + 4 * overlap))),
        "segment-tree": round(13 * n + 40 * constants + 4 * n * stored),
        "interval-tree": 43 * n,
        "naive": 13 * n,
    }


def choose(statistics: Statistics) -> tuple[str, str]:
    """Choose an index and say why: the fastest that the memory allows.

    >>> choose(Statistics(intervals=100_000, constants=200_000, overlap=10, equality=0, memory=10**9))
    ('interval', 'fewest evaluations, at most 19, and its 16 MB fit')
    >>> choose(Statistics(intervals=1_000_000, constants=2_000_000, overlap=1000, equality=0, memory=10**9))[0]
    'segment-tree'
    """
    if statistics.intervals <= FEW:
        return "naive", f"{statistics.intervals} intervals are scanned as fast as an index is called"
    size = bytes_of(statistics)
    megabytes = {name: f"{number / 1e6:,.0f} MB" for name, number in size.items()}
    memory = statistics.memory
    depth = log2(2 * statistics.constants + 2)
    if size["interval"] <= memory:
        return "interval", f"fewest evaluations, at most {depth:.0f}, and its {megabytes['interval']} fit"
    why = f"interval would take {megabytes['interval']} where {statistics.overlap:,.0f} predicates hold for a value"
    if statistics.overlap >= MOST * statistics.intervals:
        return "naive", f"{why}, so large a share of {statistics.intervals:,} that a scan is as fast as a tree"
    if statistics.overlap >= MUCH_OVERLAP and size["segment-tree"] <= memory:
        return (
            "segment-tree",
            f"{why}; evaluations stay at {depth:.0f} whatever the overlap",
        )
    if size["interval-tree"] <= memory:
        return "interval-tree", f"{why}; each interval is stored twice, {megabytes['interval-tree']}"
    return "naive", f"{why}, and even the interval tree {megabytes['interval-tree']}: nothing is kept but the intervals"
