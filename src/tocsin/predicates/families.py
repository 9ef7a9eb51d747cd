"""PHASE 1 for tests: one family for each kind of test and attribute says which of its tests hold for each event.

The tests of a segment are numbered family by family, so that the tests that hold for an event, family after family, are
sorted. A family on one attribute has a column of its own among the codes: 0 where the attribute has a value that its
tests can judge, -1 where they all are NULL.
"""

from tocsin.model.condition import (
    ArrayContains,
    AttributeComparison,
    Exists,
    Quantified,
    RegexpMatches,
    UnnestExists,
    WithinDistance,
    WithinPolygon,
    XPathExists,
)
from tocsin.model.predicate import AnyPattern, AnyWord, Phrase, Test
from tocsin.predicates.arrays.family import ArrayFamily
from tocsin.predicates.attributes.family import AttributeFamily
from tocsin.predicates.history.family import HistoryFamily
from tocsin.predicates.patterns.family import PatternFamily
from tocsin.predicates.places.family import PlaceFamily
from tocsin.predicates.protocol import Family, Probed
from tocsin.predicates.regexps.family import RegexpFamily
from tocsin.predicates.words.family import WordFamily
from tocsin.predicates.xpath.family import XPathFamily

FAMILIES: dict[str, type[Family]] = {
    "arrays": ArrayFamily,
    "attributes": AttributeFamily,
    "history": HistoryFamily,
    "patterns": PatternFamily,
    "places": PlaceFamily,
    "regexps": RegexpFamily,
    "words": WordFamily,
    "xpath": XPathFamily,
}
"""The families by the names under which segments store them; `index/element_family.py` has one more."""


def family_of(test: Test) -> tuple[str, str]:
    """Return the family that a test belongs to, and the attribute that the family is on, if it is on one."""
    if isinstance(test, (AnyWord, Phrase)):
        return "words", test.attribute
    if isinstance(test, AnyPattern):
        return "patterns", test.attribute
    if isinstance(test, RegexpMatches):
        return "regexps", test.attribute
    if isinstance(test, (WithinDistance, WithinPolygon)):
        return "places", test.attribute
    if isinstance(test, ArrayContains):
        return "arrays", test.attribute
    if isinstance(test, XPathExists):
        return "xpath", test.attribute
    if isinstance(test, UnnestExists):
        return "elements", test.attribute
    if isinstance(test, (Exists, Quantified)):
        return "history", ""
    return "attributes", ""


def order_of(test: Test) -> int:
    """Return the place of a test's type within its family: phrases stand behind words."""
    return 1 if isinstance(test, Phrase) else 0


def is_selective(test: Test) -> bool:
    """Tell whether few events make such a test TRUE, so that a conjunction may be filed under it."""
    return not isinstance(test, (AttributeComparison, Exists, Quantified))


__all__ = ["FAMILIES", "Family", "Probed", "family_of", "is_selective", "order_of"]
