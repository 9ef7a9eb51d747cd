"""Example 4 of Tatbul (2001): the nodes and sets on the path of x = 20 in Figures 2 to 6, and the answer for D.

Where the paper's text names them, they are taken from it; elsewhere they are worked out by its rules by hand.
"""

import random
from math import isfinite
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from tocsin import Matcher
from tocsin.errors import OptionError
from tocsin.papers.tatbul import INDEXES, Interval
from tocsin.papers.tatbul.conjunctions import Attribute, Condition, Conjunctions
from tocsin.papers.tatbul.example import CONJUNCTIONS, EVENT, example, example_drawing
from tocsin.registry import IndexName

HOLDING = BitMap([0, 1, 4, 6])  # 10..25, 20..45, up to 40 and 5..45 contain 20


def attribute_x(name: str) -> tuple[Attribute, int]:
    x = example(name).attribute("x")
    return x, int(x.endpoints.codes([20])[0])


def path(name: str) -> list[tuple[str, str]]:
    """Labels and sets of the nodes that x = 20 visits."""
    x, code = attribute_x(name)
    return [(node.label, node.bits) for node in x.index.drawing(x.endpoints.name).path(code)]


def test_figure_2_cluster_index() -> None:
    """Key 45 sends six of nine left and five right, score 1 + 2; key 35 five and five of six; key 30 four and four."""
    assert path("cluster") == [
        ("key 45", "111111111"),
        ("key 35", "111010110"),
        ("key 30", "111010100"),
        ("cluster", "110010100"),
    ]


def test_figure_3_interval_index() -> None:
    """Of 21 elementary intervals that are not empty, the 11th is the root and the 6th its left child."""
    assert path("interval") == [("(30, 35)", "011010100"), ("20", "110010100")]
    assert attribute_x("interval")[0].index.nodes == 21


def test_figure_4_hybrid_index() -> None:
    """The keys of the Cluster Index, then a search among the 12 elementary intervals of the cluster of four."""
    assert path("hybrid") == [
        *path("cluster"),
        ("(20, 25)", "110010100"),
        ("10", "100010100"),
        ("20", "110010100"),
    ]


def test_figure_5_segment_tree() -> None:
    """24 leaves in pairs; P4 covers everything up to 25, P0 and P6 the values above 10 up to 25, P1 begins at 20."""
    assert path("segment-tree") == [
        ("(-∞, ∞)", ""),
        ("(-∞, 45]", ""),
        ("(-∞, 25]", "000010000"),
        ("(10, 25]", "100000100"),
        ("(10, 20]", ""),
        ("20", "010000000"),
    ]


def test_figure_6_interval_tree() -> None:
    """The paper names the keys 35 and 25, the list 4, 6, 1, 2, 7 of the first and the list 0 of the second."""
    keys = path("interval-tree")
    assert [label for label, _ in keys] == ["key 35", "key 25"]
    assert keys[0][1].startswith("[4, 6, 1, 2, 7] ")
    assert keys[1][1] == "[0] [0]"


@pytest.mark.parametrize("name", INDEXES)
def test_x_is_20(name: str) -> None:
    """The paper's own list for its Figure 6 also has P2, whose interval from 30 to 40 does not contain 20."""
    x, code = attribute_x(name)
    assert x.index.probe_bitmap(code) == HOLDING
    x.index.check()


@pytest.mark.parametrize(
    ("name", "evaluations"),
    [
        ("naive", 9),
        ("lazy", 9),
        ("cluster", 3 + 4),  # keys, then the cluster
        ("interval", 2),
        ("hybrid", 3 + 3),  # keys, then elementary intervals
        ("segment-tree", 5),
        ("interval-tree", (1 + 4) + (1 + 1)),  # key 35 and 4, 6, 1, then 2, which falls short; key 25 and 0
    ],
)
def test_evaluations_for_x_is_20(name: str, evaluations: int) -> None:
    x, code = attribute_x(name)
    x.index.probe(code)
    assert x.index.evaluations == evaluations


@pytest.mark.parametrize("name", INDEXES)
def test_document_d(name: str) -> None:
    """P0 and P1 ask for x = 20 and y = 80 as they are; P8 and P9 ask for one attribute only and fail on it."""
    assert example(name).match(EVENT) == BitMap([0, 1])


@pytest.mark.parametrize(("name", "evaluations"), [("naive", 18), ("lazy", 9 + 5)])
def test_document_d_without_an_index(name: str, evaluations: int) -> None:
    """Nine predicates on x and nine on y; of those on y, Lazy evaluates the ones of P0, P1, P4 and P6, and of P9."""
    conjunctions = example(name)
    conjunctions.match(EVENT)
    assert conjunctions.evaluations == evaluations


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("attribute", ["x", "y"])
def test_drawings(name: str, attribute: str) -> None:
    assert example_drawing(name, attribute).startswith("* ")
    assert example_drawing(name, attribute, svg=True).startswith("<svg")


def test_unknown_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(OptionError, match="interval-tree"):
        example_drawing("b-tree")
    with pytest.raises(OptionError, match="x, y"):
        example_drawing("interval", "z")


def in_sql(condition: Condition, attribute: str) -> str:
    """A condition of Example 4 as a user writes it."""
    assert isinstance(condition, Interval)
    low, high, low_closed, high_closed = condition
    if low == high:
        return f"{attribute} = {low:g}"
    ends = [f"{attribute} {'>=' if low_closed else '>'} {low:g}"] if isfinite(low) else []
    return " AND ".join([*ends, f"{attribute} {'<=' if high_closed else '<'} {high:g}"])


def matcher_of(name: str, seed: int | None = None) -> Matcher:
    """Example 4, in any order, as subscriptions."""
    matcher = Matcher(index=cast(IndexName, name))
    rows = list(enumerate(CONJUNCTIONS))
    if seed is not None:
        random.Random(seed).shuffle(rows)
    for number, conjunction in rows:
        matcher.subscribe(f"P{number}", " AND ".join(in_sql(wanted, name) for name, wanted in conjunction.items()))
    return matcher


@pytest.mark.parametrize("name", [name for name in INDEXES if name != "hybrid"])
def test_a_matcher_evaluates_as_often_as_the_paper(name: str) -> None:
    """Hybrid is left out: a matcher gives it the least cluster of footnote 3, the figure splits every cluster."""
    by_paper = example(name)
    by_paper.match(EVENT)
    matcher = matcher_of(name)
    for found in (matcher.match(EVENT), matcher_of(name, seed=7).match(EVENT)):
        assert found.ids == ["P0", "P1"]
        assert found.evidence.evaluations == by_paper.evaluations
    evidence = matcher.match({"y": 80.0}).evidence
    assert evidence.evaluations < by_paper.evaluations, "an attribute that is missing costs nothing"
    rows = matcher.match_batch([EVENT, EVENT])
    assert rows["subscription"].to_pylist() == ["P0", "P1"] * 2


def test_the_default_matcher_counts_no_evaluations() -> None:
    assert matcher_of("auto").match(EVENT).evidence.evaluations == 0


@pytest.mark.parametrize("name", ["lazy", "cluster"])
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=1, max_size=12, unique=True), st.data())
def test_a_matcher_narrows_as_the_paper_does(
    name: str, ends: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    """Any conjunctions on x and y: the matcher's evaluations are those of the paper's procedure."""
    conjunctions: dict[tuple[Interval, Interval], dict[str, Condition]] = {}
    for a, b, c, d in ends:
        x, y = Interval(min(a, b), max(a, b)), Interval(min(c, d), max(c, d))
        conjunctions[x, y] = {"x": x, "y": y}
    by_paper = Conjunctions(INDEXES[name].build, list(conjunctions.values()))
    matcher = Matcher(index=cast(IndexName, name))
    for number, conjunction in enumerate(conjunctions.values()):
        matcher.subscribe(f"{number:02}", " AND ".join(in_sql(wanted, name) for name, wanted in conjunction.items()))
    for _ in range(3):
        event = {"x": data.draw(st.integers(-1, 10)), "y": data.draw(st.integers(-1, 10))}
        by_paper_ids = [f"{number:02}" for number in by_paper.match(event)]
        before = by_paper.evaluations
        by_paper.match(event)
        found = matcher.match(event)
        assert found.ids == by_paper_ids
        assert found.evidence.evaluations == by_paper.evaluations - before


@pytest.mark.parametrize("name", [*INDEXES, "pbtree"])
def test_bytes_of_the_chosen_index_are_counted(name: str) -> None:
    """Nested intervals: what the Interval Index keeps grows with the square of their number."""
    matcher = Matcher(index=cast(IndexName, name))
    nested = [{"id": str(number), "where": f"x BETWEEN {number} AND {3000 - number}"} for number in range(1500)]
    assert matcher.subscribe_many(nested) == []
    assert matcher.stats().bytes[name] > 0
    if name == "interval":
        assert matcher.stats().bytes[name] > 4 * 1500 * 1500
    assert matcher.nbytes >= matcher.stats().bytes[name] + matcher.stats().bytes["domains"]
