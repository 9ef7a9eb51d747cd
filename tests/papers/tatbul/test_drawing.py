"""Trees as text and as SVG."""

from itertools import pairwise
from xml.etree import ElementTree

from tocsin.papers.tatbul.drawing import Drawing, as_svg, as_text, bit_vector

TREE = Drawing(
    0,
    9,
    "root",
    "111",
    (
        Drawing(0, 4, "low", "110", (Drawing(0, 1, "a < b"), Drawing(2, 4, "c"))),
        Drawing(5, 9, "high"),
    ),
)


def test_text() -> None:
    assert as_text(TREE, 3) == "\n".join(
        [
            "* root  111",
            "├─ * low  110",
            "│  ├─ a < b",
            "│  └─ * c",
            "└─ high",
        ]
    )


def test_svg_has_a_box_for_each_node_and_marks_the_path() -> None:
    root = ElementTree.fromstring(as_svg(TREE, 3))
    space = "{http://www.w3.org/2000/svg}"
    boxes, edges = root.findall(f"{space}rect"), root.findall(f"{space}line")
    assert len(boxes) == 5
    assert len(edges) == 4
    assert [box.get("stroke-width") for box in boxes].count("2.5") == 3
    assert [edge.get("stroke-width") for edge in edges].count("2.5") == 2
    assert "a < b" in [text.text for text in root.findall(f"{space}text")]


def test_large_sets_are_counted() -> None:
    assert bit_vector([1, 5], 1000) == "2 of 1000"


def test_svg_boxes_stay_inside_and_apart() -> None:
    """A parent wider than its children, beside another subtree."""
    wide = Drawing(0, 4, "a label that is much wider than its child", "", (Drawing(0, 4, "c"),))
    root = ElementTree.fromstring(as_svg(Drawing(0, 9, "r", "", (wide, wide, TREE)), None))
    boxes = [tuple(float(box.get(key, "")) for key in ("y", "x", "width")) for box in root.iter() if "rect" in box.tag]
    rows: dict[float, list[tuple[float, float]]] = {}
    for y, x, width in boxes:
        rows.setdefault(y, []).append((x, x + width))
    for row in rows.values():
        row.sort()
        assert row[0][0] >= 0
        assert row[-1][1] <= float(root.get("width", ""))
        assert all(left[1] < right[0] for left, right in pairwise(row))
