"""Tatbul: which comparisons of one ordered attribute hold for a value.

E. N. Tatbul, "Index Structures and Algorithms for Efficient Profile Matching", Brown University, CS-01-09, 2001.

| in the paper | here |
| --- | --- |
| 4.1, predicates one by one: naive and lazy | `naive.py` |
| 4.1, Lazy and Cluster in a `Matcher`: attributes narrow what is alive | `narrowing.py`, `narrowing_kernels.py` |
| 4.1, Example 4 and its document | `example.py`; several attributes together: `conjunctions.py` |
| 4.1.1 Cluster Index, Figure 2 | `cluster.py`, `cluster_kernels.py` |
| 4.1.2 Interval Index, Figure 3 | `interval.py`, `elementary_kernels.py` |
| 4.1.3 Hybrid Index, Figure 4 | `hybrid.py`, `elementary_kernels.py` |
| 4.1.4 Segment Tree, Figure 5 | `segment_tree.py`, `elementary_kernels.py` |
| 4.1.4 Interval Tree, Figure 6 | `interval_tree.py`, `interval_tree_kernels.py` |
| 4.1.5 Table 1, evaluations | each index counts its `evaluations` (`protocol.py`) |
| 4.1.6 Figures 7 and 8 | `experiments.py` |
| 4.2 and 4.3, joins with old documents, Table 2 | the product: `predicates/history/` |

Not in the paper: raw values to codes (`endpoints.py`), the base of all structures (`structure.py`, `kernels.py`),
insertion and deletion (`layers.py`), a choice by statistics (`choose.py`), drawings (`drawing.py`), and any of these
indexes with any matcher of SIFT as an index of a segment (`two_phase.py`, for `Matcher(index=..., matcher=...)`).

Run `tocsin bench tatbul`, or `tocsin draw cluster`. The note is docs/internals/intervals.md.
"""

from collections.abc import Callable
from functools import partial

from tocsin.errors import OptionError
from tocsin.papers.tatbul.cluster import ClusterIndex
from tocsin.papers.tatbul.endpoints import Endpoints, Interval, not_equal, one_of, point
from tocsin.papers.tatbul.hybrid import HybridIndex
from tocsin.papers.tatbul.interval import IntervalIndex
from tocsin.papers.tatbul.interval_tree import IntervalTreeIndex
from tocsin.papers.tatbul.layers import LayeredIndex
from tocsin.papers.tatbul.naive import LazyIndex, NaiveIndex
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


def as_printed(name: str) -> Callable[..., LayeredIndex]:
    """Return what builds an index as the paper's figures show it: Hybrid splits every cluster of two or more."""
    if name not in INDEXES:
        raise OptionError(f"there is no index called {name!r}", f"Choose one of {', '.join(INDEXES)}")
    return partial(HybridIndex.build, minimum=1) if name == "hybrid" else INDEXES[name].build


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
    "as_printed",
    "not_equal",
    "one_of",
    "point",
]
