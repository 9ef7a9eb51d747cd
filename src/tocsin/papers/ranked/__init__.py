"""Ranked matching: intervals in order of score, and the best k subscriptions of an event."""

from tocsin.papers.ranked.counting import prefer_counting, top_k_by_counting, top_k_relaxed
from tocsin.papers.ranked.exact import ExactTopK
from tocsin.papers.ranked.interval_tree import EndpointIntervalTree, ScoredIntervalTree
from tocsin.papers.ranked.ir_tree import IRTree
from tocsin.papers.ranked.protocol import RankedIndex, RankedIterator
from tocsin.papers.ranked.rows import as_probe, as_rows
from tocsin.papers.ranked.rtree import ScoredRTree
from tocsin.papers.ranked.segment_tree import ScoredSegmentTree
from tocsin.papers.ranked.selection import Postings, select_from_pairs, select_k, top_k_of_held
from tocsin.papers.ranked.sopt import SOPTRTree
from tocsin.papers.ranked.threshold import RelaxedTopK
from tocsin.ranking.select import Layer, layer_sizes, top_k_in_layers

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
