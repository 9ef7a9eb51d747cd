"""Indexes over the comparisons of one ordered attribute, behind one protocol, `PredicateIndex`."""

from tocsin.predicates.intervals.cluster import ClusterIndex
from tocsin.predicates.intervals.endpoints import Endpoints, Interval, not_equal, one_of, point
from tocsin.predicates.intervals.hybrid import HybridIndex
from tocsin.predicates.intervals.interval import IntervalIndex
from tocsin.predicates.intervals.interval_tree import IntervalTreeIndex
from tocsin.predicates.intervals.layers import LayeredIndex
from tocsin.predicates.intervals.lazy import LazyIndex
from tocsin.predicates.intervals.naive import NaiveIndex
from tocsin.predicates.intervals.protocol import Answers, PredicateIndex
from tocsin.predicates.intervals.segment_tree import SegmentTreeIndex

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
