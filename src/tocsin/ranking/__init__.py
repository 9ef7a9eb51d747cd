"""Ranked matching: intervals in order of score, and the best k subscriptions of an event."""

from tocsin.ranking.counting import prefer_counting, top_k_by_counting, top_k_relaxed
from tocsin.ranking.exact import ExactTopK
from tocsin.ranking.interval_tree import EndpointIntervalTree, ScoredIntervalTree
from tocsin.ranking.ir_tree import IRTree
from tocsin.ranking.protocol import RankedIndex, RankedIterator
from tocsin.ranking.rows import as_probe, as_rows
from tocsin.ranking.rtree import ScoredRTree
from tocsin.ranking.segment_tree import ScoredSegmentTree
from tocsin.ranking.select import (
    Layer,
    Postings,
    layer_sizes,
    select_from_pairs,
    select_k,
    top_k_in_layers,
    top_k_of_held,
)
from tocsin.ranking.sopt import SOPTRTree
from tocsin.ranking.threshold import RelaxedTopK

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
    "ExactTopK",
    "IRTree",
    "Layer",
    "Postings",
    "RankedIndex",
    "RankedIterator",
    "RelaxedTopK",
    "SOPTRTree",
    "ScoredIntervalTree",
    "ScoredRTree",
    "ScoredSegmentTree",
    "as_probe",
    "as_rows",
    "layer_sizes",
    "prefer_counting",
    "select_from_pairs",
    "select_k",
    "top_k_by_counting",
    "top_k_in_layers",
    "top_k_of_held",
    "top_k_relaxed",
]
