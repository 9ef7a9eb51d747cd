"""Example 4 of Tatbul (2001): ten conjunctions, one event, and the indexes of its Figures 2 to 6."""

from math import inf

from tocsin.papers.tatbul import as_printed
from tocsin.papers.tatbul.conjunctions import Condition, Conjunctions
from tocsin.papers.tatbul.endpoints import Interval, point

CONJUNCTIONS: list[dict[str, Condition]] = [
    {"x": Interval(10, 25), "y": Interval(70, 110)},
    {"x": Interval(20, 45), "y": Interval(60, 90)},
    {"x": Interval(30, 40), "y": Interval(70, 80)},
    {"x": Interval(45, 50, False, False), "y": Interval(40, 50, False, False)},
    {"x": Interval(-inf, 40), "y": Interval(-inf, 30)},
    {"x": point(55), "y": Interval(20, 80)},
    {"x": Interval(5, 45), "y": point(50)},
    {"x": point(35), "y": point(20)},
    {"x": Interval(60, 65)},
    {"y": Interval(100, 120)},
]

EVENT = {"x": 20.0, "y": 80.0}


def example(name: str) -> Conjunctions:
    """Build the index called `name` for each attribute of Example 4; Hybrid on every cluster of two, as in Figure 4."""
    return Conjunctions(as_printed(name), CONJUNCTIONS)


def example_drawing(name: str, attribute: str = "x", svg: bool = False) -> str:
    """Draw the index called `name` on an attribute of Example 4, with the path of its event marked.

    >>> print(example_drawing("interval-tree"))
    * key 35  [4, 6, 1, 2, 7] [6, 1, 4, 2, 7]
    ├─ * key 25  [0] [0]
    └─ key 60  [8] [8]
       └─ key 55  [5] [5]
          └─ key (45, 50)  [3] [3]
    """
    shown = example(name).attribute(attribute)
    code = int(shown.endpoints.codes([EVENT[attribute]])[0])
    draw = shown.index.draw_svg if svg else shown.index.draw
    return draw(code, shown.endpoints.name)
