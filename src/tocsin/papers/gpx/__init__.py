"""XPath by predicates (GPX-Matcher), and the rivals that its paper measures: YFilter and BPA."""

from collections.abc import Callable
from typing import Final

from tocsin.papers.gpx.bpa import BPAIndex
from tocsin.papers.gpx.gpx import GPXIndex
from tocsin.papers.gpx.yfilter import YFilterIndex
from tocsin.predicates.xpath.index import XPathIndex
from tocsin.predicates.xpath.structure_index import StructureIndex

XPATH_INDEXES: Final[dict[str, Callable[[], StructureIndex]]] = {
    "auto": XPathIndex,
    "gpx": lambda: GPXIndex("all"),
    "gpx-ap": lambda: GPXIndex("last"),
    "gpx-apf": lambda: GPXIndex("first"),
    "yfilter": YFilterIndex,
    "bpa": BPAIndex,
}
"""Every index of path expressions by its name."""

__all__ = ["XPATH_INDEXES", "BPAIndex", "GPXIndex", "YFilterIndex"]
