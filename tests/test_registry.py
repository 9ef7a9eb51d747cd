"""Every algorithm has a name, every name loads what it says, and a wrong name is told the right ones."""

from collections.abc import Callable
from typing import Any, get_args

import pytest

from tocsin.errors import OptionError
from tocsin.papers.gpx import XPATH_INDEXES
from tocsin.papers.pbtree import PBTreeIndex
from tocsin.papers.ranked import RANKED
from tocsin.papers.tatbul import INDEXES
from tocsin.papers.tatbul.two_phase import PHASE_2
from tocsin.predicates.xpath import parse_xpath
from tocsin.registry import (
    IndexName,
    IntervalName,
    MatcherName,
    RankedName,
    XPathName,
    interval_index,
    ranked_index,
    xpath_index,
)


def test_the_names_are_those_of_the_papers() -> None:
    assert get_args(IntervalName) == (*INDEXES, "pbtree")
    assert get_args(IndexName) == ("auto", *get_args(IntervalName))
    assert get_args(MatcherName) == ("auto", *PHASE_2, "reference")
    assert get_args(XPathName) == tuple(XPATH_INDEXES)
    assert get_args(RankedName) == tuple(RANKED)


def test_names_load_what_they_say() -> None:
    assert [interval_index(name) for name in get_args(IntervalName)] == [*INDEXES.values(), PBTreeIndex]
    assert [ranked_index(name) for name in get_args(RankedName)] == list(RANKED.values())
    for name in get_args(XPathName):
        index = xpath_index(name)
        index.build([parse_xpath("/a/b"), parse_xpath("//c")])
        assert index.match("<a><b/></a>").tolist() == [0]


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (interval_index, "there is no index 'b-tree'. Choose one of naive, lazy, .*, pbtree"),
        (xpath_index, "there is no XPath index 'b-tree'. Choose one of auto, gpx, .*, bpa"),
        (ranked_index, "there is no ranked index 'b-tree'. Choose one of scored-interval-tree, .*, r-tree"),
    ],
)
def test_a_wrong_name_is_told_the_right_ones(load: Callable[[str], Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load("b-tree")
