"""The algorithms of the papers by name: the one door from the product to `papers/`, which is loaded when it is used."""

import importlib
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from tocsin.errors import OptionError

if TYPE_CHECKING:
    from tocsin.conjunctions.protocol import ConjunctionIndex

IndexName = Literal["auto", "naive", "lazy", "cluster", "interval", "hybrid", "segment-tree", "interval-tree", "pbtree"]
"""The phase 1 indexes of ordered attributes (Tatbul, PB+tree)."""
MatcherName = Literal["auto", "brute-force", "count", "key", "tree"]
"""The phase 2 matchers of conjunctions (SIFT)."""
XPathName = Literal["auto", "gpx", "gpx-ap", "gpx-apf", "yfilter", "bpa"]
"""The indexes of path expressions (GPX)."""


def check_name(option: str, name: str, names: Any) -> None:
    """Raise OptionError if a name is none of a Literal's."""
    if name not in get_args(names):
        raise OptionError(f"there is no {option} {name!r}", f"Choose one of {', '.join(get_args(names))}")


def conjunction_index(index: str, matcher: str) -> "type[ConjunctionIndex]":
    """The class that matches conjunctions: the product's own, or any phase 1 index with any phase 2 matcher."""
    if index == matcher == "auto":
        return cast("type[ConjunctionIndex]", _load("tocsin.conjunctions.choose", "CombinedIndex"))
    return cast("type[ConjunctionIndex]", _load("tocsin.papers.tatbul.two_phase", "TwoPhaseIndex"))


def range_rows() -> Any:
    """The Threshold Algorithm over ranked indexes, which relaxed top-k uses where there are few attributes."""
    return _load("tocsin.papers.ranked.range_rows", "RangeRows")


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
