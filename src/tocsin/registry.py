"""Algorithms by name: the one door from the product to `papers/` and to the reference, which are loaded when used."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from tocsin.errors import OptionError

if TYPE_CHECKING:
    from tocsin.conjunctions.protocol import ConjunctionIndex
    from tocsin.papers.ranked.protocol import RankedIndex
    from tocsin.papers.ranked.range_rows import RangeRows
    from tocsin.papers.tatbul.protocol import PredicateIndex
    from tocsin.predicates.xpath.structure_index import StructureIndex

IntervalName = Literal["naive", "lazy", "cluster", "interval", "hybrid", "segment-tree", "interval-tree", "pbtree"]
"""The indexes over the comparisons of one ordered attribute (Tatbul, PB+tree)."""
IndexName = Literal["auto", IntervalName]
"""What `Matcher(index=...)` takes: "auto" is the product's own way, or a choice by statistics if `matcher` is given."""
MatcherName = Literal["auto", "brute-force", "count", "key", "tree", "reference"]
"""What `Matcher(matcher=...)` takes: SIFT's matchers of conjunctions, or the executable specification."""
XPathName = Literal["auto", "gpx", "gpx-ap", "gpx-apf", "yfilter", "bpa"]
"""What `Matcher(xpath=...)` takes: GPX-Matcher's indexes of path expressions and its rivals; "auto" is our own."""
RankedName = Literal[
    "scored-interval-tree",
    "endpoint-interval-tree",
    "scored-segment-tree",
    "scored-r-tree",
    "ir-tree",
    "sopt-r-tree",
    "r-tree",
]
"""The indexes of scored intervals (Scalable Ranked Publish/Subscribe), and their rival without scores, the R-tree."""
RankingName = Literal["auto", RankedName]
"""What `top_k(index=...)` takes: "auto" is the product's own way."""


def check_name(option: str, name: str, names: Any) -> None:
    """Raise OptionError, which lists the names of a Literal, if a name is not one of them."""
    if name not in get_args(names):
        raise OptionError(f"there is no {option} {name!r}", f"Choose one of {', '.join(get_args(names))}")


def conjunction_index(index: str, matcher: str) -> "type[ConjunctionIndex]":
    """Return the class that matches conjunctions: the product's own, or any phase 1 index with any phase 2 matcher."""
    if matcher == "reference":
        return cast("type[ConjunctionIndex]", by_reference().ReferenceIndex)
    if index == matcher == "auto":
        return cast("type[ConjunctionIndex]", _load("tocsin.conjunctions.choose").CombinedIndex)
    if index == "pbtree":
        return cast("type[ConjunctionIndex]", _load("tocsin.papers.pbtree.segment_index").PBTreeSegmentIndex)
    if index in ("lazy", "cluster") and matcher == "auto":
        return cast("type[ConjunctionIndex]", _load("tocsin.papers.tatbul.narrowing").NarrowingIndex)
    return cast("type[ConjunctionIndex]", _load("tocsin.papers.tatbul.two_phase").TwoPhaseIndex)


def by_reference() -> ModuleType:
    """Return the module that lets the reference judge every subscription."""
    return _load("tocsin.index.by_reference")


def audit() -> ModuleType:
    """Return the module that lets the reference judge a share of the events again."""
    return _load("tocsin.index.audit")


def interval_index(name: str) -> "type[PredicateIndex]":
    """Return the class of an index over the comparisons of one ordered attribute.

    >>> interval_index("interval-tree").build([3, 5], [7, 15]).probe(6).tolist()
    [0, 1]
    >>> interval_index("b-tree")
    Traceback (most recent call last):
    tocsin.errors.OptionError: there is no index 'b-tree'. Choose one of naive, lazy, cluster, interval, hybrid, \
segment-tree, interval-tree, pbtree
    """
    check_name("index", name, IntervalName)
    if name == "pbtree":
        return cast("type[PredicateIndex]", _load("tocsin.papers.pbtree").PBTreeIndex)
    return cast("type[PredicateIndex]", _load("tocsin.papers.tatbul").INDEXES[name])


def xpath_index(name: str) -> "StructureIndex":
    """Return a new, empty index of path expressions."""
    check_name("XPath index", name, XPathName)
    if name == "auto":
        return cast("StructureIndex", _load("tocsin.predicates.xpath.index").XPathIndex())
    return cast("StructureIndex", _load("tocsin.papers.gpx").XPATH_INDEXES[name]())


def ranked_index(name: str) -> "type[RankedIndex]":
    """Return the class of an index of scored intervals."""
    check_name("ranked index", name, RankedName)
    return cast("type[RankedIndex]", _load("tocsin.papers.ranked").RANKED[name])


def range_rows() -> "type[RangeRows]":
    """Return top-k over ranked indexes, which relaxed top-k uses where there are few attributes, and who names one."""
    return cast("type[RangeRows]", _load("tocsin.papers.ranked.range_rows").RangeRows)


def _load(module: str) -> ModuleType:
    return importlib.import_module(module)
