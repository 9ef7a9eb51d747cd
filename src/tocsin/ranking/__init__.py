"""Ranked matching: intervals in order of score, and the best k subscriptions of an event."""

from tocsin.ranking.interval_tree import EndpointIntervalTree, ScoredIntervalTree
from tocsin.ranking.ir_tree import IRTree
from tocsin.ranking.protocol import RankedIndex, RankedIterator
from tocsin.ranking.rtree import ScoredRTree
from tocsin.ranking.segment_tree import ScoredSegmentTree
from tocsin.ranking.sopt import SOPTRTree

RANKED: dict[str, type[RankedIndex]] = {
    "interval": ScoredIntervalTree,
    "endpoint": EndpointIntervalTree,
    "segment": ScoredSegmentTree,
    "r": ScoredRTree,
    "ir": IRTree,
    "sopt": SOPTRTree,
}
"""Every ranked index by the name that options use."""

__all__ = [
    "RANKED",
    "EndpointIntervalTree",
    "IRTree",
    "RankedIndex",
    "RankedIterator",
    "SOPTRTree",
    "ScoredIntervalTree",
    "ScoredRTree",
    "ScoredSegmentTree",
]
