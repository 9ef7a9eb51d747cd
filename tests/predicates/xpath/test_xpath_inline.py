"""Filters on attributes and values as predicates: they hold with the tags of a path, or are evaluated where not."""

from collections.abc import Callable
from itertools import product

import pytest

from tocsin.papers.gpx import XPATH_INDEXES
from tocsin.predicates.xpath import parse_xpath

INLINE = ("gpx", "gpx-ap", "gpx-apf", "auto")
FOLLOWED = ("gpx-ap", "auto")
"""Those that follow paths with their filters, so that wildcards and repeated tags need no evaluation."""
VALUES = ["1", "2", "2.0", " 2 ", "-3", "1e0", "abc", "", "1e400", "-1e400"]
CONSTANTS = ["1", "2", "-3", "0", "'abc'", "'2'", "'x'", "''", "'1e400'"]


@pytest.mark.parametrize("name", INLINE)
def test_every_operator_is_lxmls(name: str, lxml_says: Callable[[str, str], bool]) -> None:
    texts = [f"/a/b[@x {op} {value}]" for op, value in product(("=", "!=", "<", "<=", ">", ">="), CONSTANTS)]
    texts += ["/a/b[@x]", "/a/b[@y]", "//b[@x][@y = 2]", "/a[@x = 1]/b[@x = 2]"]
    index = XPATH_INDEXES[name]()
    index.build([parse_xpath(text) for text in texts])
    index.check()
    for value in [*VALUES, None]:
        own = "" if value is None else f' x="{value}"'
        document = f'<a x="1"><b{own}/></a>'
        assert index.match(document).tolist() == [i for i, text in enumerate(texts) if lxml_says(text, document)]
    assert index.statistics.filtered == 0, "no filter was left to evaluate"


@pytest.mark.parametrize("name", INLINE)
def test_predicates_meet_on_one_path(name: str) -> None:
    """Elements of one tag with different attributes are different paths."""
    index = XPATH_INDEXES[name]()
    index.build([parse_xpath(text) for text in ("/a/b[@x = 1][@y = 1]", "/a/b[@x = 1]/c[@z = 1]", "/a/b/c", "//c[@z]")])
    assert index.match('<a><b x="1"><c/></b><b y="1"><c z="1"/></b></a>').tolist() == [2, 3]
    assert index.match('<a><b x="1" y="1"><c z="1"/></b><b/></a>').tolist() == [0, 1, 2, 3]
    assert index.statistics.filtered == 0


@pytest.mark.parametrize("name", INLINE)
def test_what_is_not_on_a_single_tag_is_evaluated(name: str) -> None:
    texts = ("/a/b[@x = 1][. = 'y']", "/a/*[@x = 1]", "/a[b]/b[@x = 1]", "//b[@x = 1]/b[@y = 1]")
    index = XPATH_INDEXES[name]()
    index.build([parse_xpath(text) for text in texts])
    assert index.match('<a><b x="1">y</b></a>').tolist() == [0, 1, 2]
    assert index.statistics.filtered == (1 if name in FOLLOWED else 2)
    # The tag repeats, so that the two attributes may be those of either element.
    assert index.match('<a><b x="1"><b/></b><b><b y="1"/></b></a>').tolist() == [1, 2]
    assert index.match('<a><b y="1"><b x="1"/></b></a>').tolist() == []
    assert index.match('<a><b x="1"><b y="1"/></b></a>').tolist() == [1, 2, 3]
    index.check()


@pytest.mark.parametrize("name", INLINE)
def test_more_predicates_than_a_word_has_bits(name: str, lxml_says: Callable[[str, str], bool]) -> None:
    names = [f"x{i}" for i in range(70)]
    texts = ["/a/b" + "".join(f"[@{each} = 1]" for each in names[:count]) for count in (1, 63, 64, 65, 70)]
    index = XPATH_INDEXES[name]()
    index.build([parse_xpath(text) for text in texts])
    index.check()
    for missing in (None, "x0", "x62", "x64", "x69"):
        own = "".join(f' {each}="1"' for each in names if each != missing)
        document = f"<a><b{own}/></a>"
        assert index.match(document).tolist() == [i for i, text in enumerate(texts) if lxml_says(text, document)]


@pytest.mark.parametrize("name", INLINE)
def test_filters_that_fail_cost_no_evaluation(name: str) -> None:
    """YFilter postpones its filters and evaluates all four; inline, two hold at once and two fail at once."""
    texts = [f"/a/b[@x = {value}]" for value in (1, 2)] + [f"//b[@y >= {value}]" for value in (1, 5)]
    inline, postponed = XPATH_INDEXES[name](), XPATH_INDEXES["yfilter"]()
    for index in (inline, postponed):
        index.build([parse_xpath(text) for text in texts])
        assert index.match('<a><b x="1" y="3"/></a>').tolist() == [0, 2]
    assert (inline.statistics.filtered, postponed.statistics.filtered) == (0, 4)


@pytest.mark.parametrize("name", INLINE)
def test_values_of_elements_are_looked_up_like_attributes(name: str) -> None:
    texts = [f"/Event/System[EventID = {number}]" for number in range(50)]
    texts += [f"/Event[System/Provider/@Name = 'p{number}']" for number in range(50)]
    texts += [f"/Event[System/EventID = {number}][Data = 'x']" for number in range(50)]
    texts += [f"//EventID[text() = '{number}']" for number in range(50)]
    document = "<Event><System><EventID>7</EventID><Provider Name='p9'/></System><Data>x</Data><Data>y</Data></Event>"
    index = XPATH_INDEXES[name]()
    index.build([parse_xpath(text) for text in texts])
    index.check()
    assert index.match(document).tolist() == [7, 59, 107, 157]
    assert index.statistics.filtered == 1, "of the paths with two branches, one has the value of its first branch"
    if name == "auto":
        assert index.statistics.candidates <= 4, "an equality is looked up, not compared"
