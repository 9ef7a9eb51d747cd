"""Ranked: the intervals over a value in order of score, and the best k subscriptions of an event.

A. Machanavajjhala, E. Vee, M. Garofalakis, J. Shanmugasundaram, "Scalable Ranked Publish/Subscribe", VLDB 2008.

| in the paper | here |
| --- | --- |
| 2.2.1 scored segment tree | `segment_tree.py`, `tree_kernels.py` |
| 2.2.2 scored interval trees, by endpoint and by score | `interval_tree.py`, `tree_kernels.py` |
| 2.1.3 R-tree, grouped by where intervals start; 2.2.3 scored R-tree, Figure 4 | `rtree.py`, `rtree_kernels.py` |
| 3.1 IR-tree | `ir_tree.py`, `ir_kernels.py`, `ir_walk_kernels.py` |
| 3.2.1 SOPT-R-tree, Algorithm 1 | `sopt.py`, `arrange_leftmost` in `sopt_kernels.py` |
| 3.2.2 constraint graph, Algorithm 2, Example 5 | `constraint_edges` there; tests/papers/ranked/test_sopt.py |
| 1 and 4, top-k over several attributes | `exact.py`, `threshold.py` (Threshold Algorithm) |
| 4, generator of Zipfian regions, Table 1 | `Zipfian` in `experiments.py` |
| 4, Table 2 and Figures 6 to 9 | `experiments.py` |

Not in the paper: one protocol (`protocol.py`), new scores in arrays that never change (`static.py`), counting whole
lists for many attributes (`counting.py`), rows of subscriptions (`rows.py`), the best of matches that are known
(`selection.py`), weights in kernels (`weight_kernels.py`), and what the product's relaxed top-k asks (`range_rows.py`).

Run `tocsin bench ranked`, or `tocsin draw sopt-r-tree`. The note is docs/internals/ranking.md.
"""

from tocsin.papers.ranked.counting import prefer_counting, top_k_by_counting, top_k_relaxed
from tocsin.papers.ranked.exact import ExactTopK
from tocsin.papers.ranked.interval_tree import EndpointIntervalTree, ScoredIntervalTree
from tocsin.papers.ranked.ir_tree import IRTree
from tocsin.papers.ranked.protocol import RankedIndex, RankedIterator
from tocsin.papers.ranked.rows import as_probe, as_rows
from tocsin.papers.ranked.rtree import ConventionalRTree, ScoredRTree
from tocsin.papers.ranked.segment_tree import ScoredSegmentTree
from tocsin.papers.ranked.sopt import SOPTRTree
from tocsin.papers.ranked.threshold import RelaxedTopK

RANKED: dict[str, type[RankedIndex]] = {
    "scored-interval-tree": ScoredIntervalTree,
    "endpoint-interval-tree": EndpointIntervalTree,
    "scored-segment-tree": ScoredSegmentTree,
    "scored-r-tree": ScoredRTree,
    "ir-tree": IRTree,
    "sopt-r-tree": SOPTRTree,
    "r-tree": ConventionalRTree,
}
"""Every ranked index by the name that options use."""


def as_printed(name: str) -> type[RankedIndex]:
    """Return the index as the paper's figures show it: R-trees of branching factor 4, nodes without buckets."""
    small = {"fanout": 4, "bucket": 1}
    return type(RANKED[name].__name__, (RANKED[name],), small)


__all__ = [
    "RANKED",
    "ConventionalRTree",
    "EndpointIntervalTree",
    "ExactTopK",
    "IRTree",
    "RankedIndex",
    "RankedIterator",
    "RelaxedTopK",
    "SOPTRTree",
    "ScoredIntervalTree",
    "ScoredRTree",
    "ScoredSegmentTree",
    "as_printed",
    "as_probe",
    "as_rows",
    "prefer_counting",
    "top_k_by_counting",
    "top_k_relaxed",
]
