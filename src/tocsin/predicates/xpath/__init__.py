"""XPath: path expressions over XML documents, parsed, encoded and matched by the million."""

from collections.abc import Callable
from typing import Final

from tocsin.predicates.xpath.auto import AutoIndex
from tocsin.predicates.xpath.bpa import BPAIndex
from tocsin.predicates.xpath.expression import Filter, Step, XPath
from tocsin.predicates.xpath.gpx import GPXIndex
from tocsin.predicates.xpath.index import StructureIndex
from tocsin.predicates.xpath.parse import parse_xpath
from tocsin.predicates.xpath.protocol import XPathIndex, XPathMatches, XPathStatistics
from tocsin.predicates.xpath.yfilter import YFilterIndex

XPATH_INDEXES: Final[dict[str, Callable[[], StructureIndex]]] = {
    "auto": AutoIndex,
    "gpx": lambda: GPXIndex("all"),
    "gpx-ap": lambda: GPXIndex("last"),
    "gpx-apf": lambda: GPXIndex("first"),
    "yfilter": YFilterIndex,
    "bpa": BPAIndex,
}

__all__ = [
    "XPATH_INDEXES",
    "AutoIndex",
    "BPAIndex",
    "Filter",
    "GPXIndex",
    "Step",
    "StructureIndex",
    "XPath",
    "XPathIndex",
    "XPathMatches",
    "XPathStatistics",
    "YFilterIndex",
    "parse_xpath",
]
