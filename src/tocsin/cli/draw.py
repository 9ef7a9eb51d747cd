"""`tocsin draw`: an index of the papers as a small tree, to be compared with the figures of its paper."""

import csv
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from tocsin.cli.console import errors, output
from tocsin.errors import OptionError
from tocsin.registry import IntervalName, RankedName, check_name, interval_index

if TYPE_CHECKING:
    from tocsin.papers.ranked import RankedIndex
    from tocsin.papers.tatbul import Interval, PredicateIndex
    from tocsin.papers.tatbul.drawing import Drawing


def draw(
    index: Annotated[
        str,
        typer.Argument(
            help="naive, lazy, cluster, interval, hybrid, segment-tree, …, pbtree; ir-tree, sopt-r-tree, …."
        ),
    ],
    intervals: Annotated[Path | None, typer.Option(help="Intervals as .csv or .json: low, high[, …].")] = None,
    attribute: Annotated[str, typer.Option(help="The attribute of the example, x or y.")] = "x",
    value: Annotated[float | None, typer.Option(help="Mark the path of this value.")] = None,
    profiles: Annotated[
        Path | None, typer.Option(help="For profile-tree: a text file, the words of a profile a line.")
    ] = None,
    document: Annotated[
        str | None, typer.Option(help="For profile-tree: mark what a search of this text visits.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write an SVG image to this file.")] = None,
) -> None:
    """Draw an index of intervals: those of Example 4 of Tatbul (2001) with its event, or those of a file.

    A ranked index takes the intervals in order of score: the first is the best. `profile-tree` draws the profiles of a
    file, or an example, as SIFT's Tree has them.
    """
    import numpy as np

    from tocsin.papers.tatbul import Endpoints
    from tocsin.papers.tatbul.drawing import as_svg, as_text
    from tocsin.papers.tatbul.example import EVENT

    if index == "profile-tree":
        root = profile_tree(profiles, document)
        _show(as_text(root, 0) if svg is None else as_svg(root, 0), svg)
        return
    if intervals is None:
        chosen = example_intervals(attribute)
        value = EVENT[attribute] if value is None else value
    else:
        chosen = dict(enumerate(read_intervals(intervals)))
    endpoints = Endpoints.of(chosen.values())
    lo, hi, place = endpoints.ranges(list(chosen.values()))
    code = None if value is None else int(endpoints.codes([value])[0])
    if index in get_args(RankedName):
        root = ranked(index).build(lo, hi, -np.arange(lo.size, dtype=np.float64)).drawing(endpoints.name)
        shown = as_text(root, code) if svg is None else as_svg(root, code)
    else:
        built = builder(index)(lo, hi, np.array(list(chosen), np.int32)[place])
        shown = (built.draw if svg is None else built.draw_svg)(code, endpoints.name)
    _show(shown, svg)


def _show(shown: str, svg: Path | None) -> None:
    """Print a drawing, or write it to a file."""
    if svg is None:
        output().print(shown, highlight=False, markup=False, soft_wrap=True)
        return
    svg.write_text(shown, encoding="utf-8")
    errors().print(f"wrote {svg}", highlight=False, soft_wrap=True)


def builder(name: str) -> "Callable[..., PredicateIndex]":
    """What builds the index of that name; Hybrid splits every cluster of two, as in the paper's Figure 4."""
    from tocsin.papers.tatbul import as_printed

    check_name("index", name, Literal[IntervalName, RankedName, "profile-tree"])
    return interval_index(name).build if name == "pbtree" else as_printed(name)


EXAMPLE = ("milos holiday", "crete holiday", "milos", "milos holiday", "holiday hotel"), "holiday in milos"
"""The profiles of docs/internals/words.md, and a document."""


def profile_tree(path: Path | None, document: str | None) -> "Drawing":
    """The tree of the profiles of a file, or of the example; the search of the document is on the path of code 0."""
    import numpy as np

    from tocsin.papers.sift.protocol import csr
    from tocsin.papers.sift.tree import Tree

    if path is not None and not path.is_file():
        raise OptionError(f"there is no file {path}", "Give a text file, the words of a profile a line")
    lines = EXAMPLE[0] if path is None else path.read_text(encoding="utf-8").splitlines()
    profiles = [line.lower().split() for line in lines if line.strip()]
    words = sorted({word for profile in profiles for word in profile})
    number = {word: place for place, word in enumerate(words)}
    numbers = [sorted({number[word] for word in profile}) for profile in profiles]
    offsets, terms = csr([np.array(one, np.int32) for one in numbers])
    text = EXAMPLE[1] if path is None and document is None else document or ""
    held = {number[word] for word in text.lower().split() if word in number}
    return Tree.build(offsets, terms, len(words)).drawing(words, held)


def ranked(name: str) -> "type[RankedIndex]":
    """The ranked index of that name, with a branching factor of 4, as in the paper's Figure 3."""
    from tocsin.papers.ranked import as_printed

    return as_printed(name)


def example_intervals(attribute: str) -> dict[int, "Interval"]:
    """What the conjunctions of Example 4, by number, ask of an attribute."""
    from tocsin.papers.tatbul import Interval
    from tocsin.papers.tatbul.example import CONJUNCTIONS, EVENT

    if attribute not in EVENT:
        raise OptionError(f"the example has no attribute {attribute!r}", f"It has {', '.join(EVENT)}")
    asked = {number: conjunction.get(attribute) for number, conjunction in enumerate(CONJUNCTIONS)}
    return {number: interval for number, interval in asked.items() if isinstance(interval, Interval)}


def read_intervals(path: Path) -> list["Interval"]:
    """Intervals from a CSV file with columns `low, high[, low_closed, high_closed]`, or a JSON list of such objects.

    A missing or empty end is open to infinity, a missing `closed` means closed.
    """
    if not path.is_file():
        raise OptionError(f"there is no file {path}", "Give intervals as .csv or .json with low and high")
    text = path.read_text(encoding="utf-8")
    try:
        rows = list(csv.DictReader(text.splitlines())) if path.suffix == ".csv" else json.loads(text)
        return [_interval(row) for row in rows]
    except (ValueError, TypeError, AttributeError) as error:
        raise OptionError(
            f"{path} has no intervals: {error}",
            """Write a CSV file with columns low, high, or [{"low": 1, "high": 2}]""",
        ) from error


def _interval(row: Mapping[str, Any]) -> "Interval":
    from tocsin.papers.tatbul import Interval

    given = {name: value for name, value in row.items() if value not in (None, "")}
    strange = sorted(given.keys() - set(Interval._fields))
    if strange:
        raise ValueError(f"{strange[0]!r} is none of {', '.join(Interval._fields)}")
    return Interval(
        low=float(given.get("low", -math.inf)),
        high=float(given.get("high", math.inf)),
        low_closed=_truth(given.get("low_closed", True)),
        high_closed=_truth(given.get("high_closed", True)),
    )


def _truth(value: object) -> bool:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ValueError(f"{value!r} is neither true nor false")
    return word == "true"
