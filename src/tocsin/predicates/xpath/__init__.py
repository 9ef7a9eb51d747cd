"""XPath: path expressions over XML documents, parsed, encoded and matched by the million."""

from tocsin.predicates.xpath.auto import AutoIndex
from tocsin.predicates.xpath.expression import Filter, Step, XPath
from tocsin.predicates.xpath.index import StructureIndex
from tocsin.predicates.xpath.parser import parse_xpath
from tocsin.predicates.xpath.protocol import XPathIndex, XPathMatches, XPathStatistics

__all__ = [
    "AutoIndex",
    "Filter",
    "Step",
    "StructureIndex",
    "XPath",
    "XPathIndex",
    "XPathMatches",
    "XPathStatistics",
    "parse_xpath",
]
