"""Example 4 of Tatbul (2001): the nodes and sets on the path of x = 20 in Figures 2 to 6, and the answer for D.

Where the paper's text names them, they are taken from it; elsewhere they are worked out by its rules by hand.
"""

import pytest
from pyroaring import BitMap

from tocsin.errors import OptionError
from tocsin.papers.tatbul import INDEXES
from tocsin.papers.tatbul.conjunctions import Attribute
from tocsin.papers.tatbul.example import EVENT, example, example_drawing

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
