"""`tocsin draw`: Example 4 of the paper, and intervals of one's own."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from xml.etree import ElementTree

import pytest

from tocsin.papers.tatbul import INDEXES
from tocsin.papers.tatbul.example import example_drawing
from tocsin.registry import RankedName

if TYPE_CHECKING:
    from cli.conftest import Run


@pytest.mark.parametrize("attribute", ["x", "y"])
@pytest.mark.parametrize("index", INDEXES)
def test_the_example_is_drawn_with_the_path_of_its_event(run: "Run", index: str, attribute: str) -> None:
    answer = run("draw", index, "--attribute", attribute)
    assert (answer.code, answer.out) == (0, example_drawing(index, attribute) + "\n")


def test_another_value_takes_another_path(run: "Run") -> None:
    """The interval tree of x has key 35 at its root and key 60 to the right, with 60..65 in its lists."""
    answer = run("draw", "interval-tree", "--value", 62)
    assert [line.strip("└├─│ ") for line in answer.out.splitlines() if "*" in line] == [
        "* key 35  [4, 6, 1, 2, 7] [6, 1, 4, 2, 7]",
        "* key 60  [8] [8]",
    ]


def test_pages_on_disk_are_drawn(run: "Run") -> None:
    answer = run("draw", "pbtree")
    assert answer.code == 0
    assert answer.out.startswith("* leaf ")


@pytest.mark.parametrize("index", get_args(RankedName))
def test_ranked_indexes_are_drawn(run: "Run", index: str, tmp_path: Path) -> None:
    answer = run("draw", index)
    assert answer.code == 0
    assert answer.out.startswith("* ")
    assert run("draw", index, "--svg", tmp_path / "tree.svg").code == 0
    assert ElementTree.parse(tmp_path / "tree.svg").getroot().tag.endswith("svg")


def test_the_profile_tree_of_the_note_is_drawn(run: "Run") -> None:
    """The tree of docs/internals/words.md: milos has a node of its own, and milos and holiday below it, twice."""
    answer = run("draw", "profile-tree")
    assert answer.code == 0
    drawn = [line.strip("└├─│ ") for line in answer.out.splitlines()]
    assert drawn[0] == "* root"
    assert "crete  p1 + holiday" in drawn
    assert "hotel  p4 + holiday" in drawn
    assert [line for line in drawn if line.startswith("* ")][1:] == ["* milos  p2", "* holiday  p0, p3"]


def test_profiles_of_a_file_are_drawn(run: "Run", tmp_path: Path) -> None:
    (tmp_path / "profiles.txt").write_text("a b\n\na c\n")
    answer = run("draw", "profile-tree", "--profiles", tmp_path / "profiles.txt", "--document", "a b")
    lines = [line.strip("└├─│ ") for line in answer.out.splitlines()]
    assert lines == ["* root", "* b  p0 + a", "c  p1 + a"]
    assert run("draw", "profile-tree", "--profiles", tmp_path / "none.txt").code != 0
    assert run("draw", "profile-tree", "--svg", tmp_path / "tree.svg").code == 0


def test_an_svg_file_is_written(run: "Run", tmp_path: Path) -> None:
    answer = run("draw", "cluster", "--svg", tmp_path / "tree.svg")
    assert (answer.code, answer.out) == (0, "")
    texts = [
        element.text for element in ElementTree.parse(tmp_path / "tree.svg").iter() if element.tag.endswith("text")
    ]
    assert "key 45" in texts


CSV = "low,high,low_closed,high_closed\n3,7,,\n5,15,true,false\n,4,,\n9,,false,\n"
ROWS = [
    {"low": 3, "high": 7},
    {"low": 5, "high": 15, "high_closed": False},
    {"high": 4},
    {"low": 9, "low_closed": False},
]


@pytest.mark.parametrize(("name", "text"), [("i.csv", CSV), ("i.json", json.dumps(ROWS))])
def test_intervals_of_a_file(run: "Run", tmp_path: Path, name: str, text: str) -> None:
    """[3, 7], [5, 15), up to 4 and above 9: every elementary interval with its set."""
    (tmp_path / name).write_text(text)
    answer = run("draw", "interval", "--intervals", tmp_path / name, "--value", 4)
    assert answer.code == 0
    sets = dict(line.strip("└├─│* ").split("  ") for line in answer.out.splitlines())
    assert sets == {
        "(-∞, 3)": "0010",
        **dict.fromkeys(["3", "(3, 4)", "4"], "1010"),
        "(4, 5)": "1000",
        **dict.fromkeys(["5", "(5, 7)", "7"], "1100"),
        "(7, 9]": "0100",
        "(9, 15)": "0101",
        **dict.fromkeys(["15", "(15, ∞)"], "0001"),
    }
    assert "* 4  1010" in answer.out
    unmarked = run("draw", "interval", "--intervals", tmp_path / name)
    assert "*" not in unmarked.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["quad-tree"], "there is no index 'quad-tree'. Choose one of naive, lazy"),
        (["lazy", "--attribute", "z"], "the example has no attribute 'z'. It has x, y"),
        (["lazy", "--intervals", "nowhere.csv"], "there is no file nowhere.csv"),
    ],
)
def test_what_is_wrong_is_named(run: "Run", arguments: list[str], complaint: str) -> None:
    answer = run("draw", *arguments)
    assert answer.code == 2
    assert complaint in answer.err


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("i.csv", "low,high\n1,x\n", "could not convert string to float: 'x'"),
        ("i.csv", "low,width\n1,2\n", "'width' is none of low, high"),
        ("i.csv", "low,low_closed\n1,maybe\n", "'maybe' is neither true nor false"),
        ("i.json", "[1, 2]", "has no intervals"),
        ("i.json", "{", "has no intervals"),
    ],
)
def test_a_bad_file_is_named(run: "Run", tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / name).write_text(text)
    answer = run("draw", "interval", "--intervals", tmp_path / name)
    assert answer.code == 2
    assert f"{name} has no intervals" in answer.err
    assert complaint in answer.err
