"""Indexes over the comparisons of one ordered attribute, behind one protocol, `PredicateIndex`."""

from tocsin.papers.tatbul.cluster import ClusterIndex
from tocsin.papers.tatbul.endpoints import Endpoints, Interval, not_equal, one_of, point
from tocsin.papers.tatbul.hybrid import HybridIndex
from tocsin.papers.tatbul.interval import IntervalIndex
from tocsin.papers.tatbul.interval_tree import IntervalTreeIndex
from tocsin.papers.tatbul.layers import LayeredIndex
from tocsin.papers.tatbul.lazy import LazyIndex
from tocsin.papers.tatbul.naive import NaiveIndex
from tocsin.papers.tatbul.protocol import Answers, PredicateIndex
from tocsin.papers.tatbul.segment_tree import SegmentTreeIndex

INDEXES: dict[str, type[LayeredIndex]] = {
    "naive": NaiveIndex,
    "lazy": LazyIndex,
    "cluster": ClusterIndex,
    "interval": IntervalIndex,
    "hybrid": HybridIndex,
    "segment-tree": SegmentTreeIndex,
    "interval-tree": IntervalTreeIndex,
}

__all__ = [
    "INDEXES",
    "Answers",
    "ClusterIndex",
    "Endpoints",
    "HybridIndex",
    "Interval",
    "IntervalIndex",
    "IntervalTreeIndex",
    "LayeredIndex",
    "LazyIndex",
    "NaiveIndex",
    "PredicateIndex",
    "SegmentTreeIndex",
    "not_equal",
    "one_of",
    "point",
]
