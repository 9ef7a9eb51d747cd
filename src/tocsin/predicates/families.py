"""PHASE 1 for tests: one family for each kind of test and attribute says which of its tests hold for each event.

The tests of a segment are numbered family by family, so that the tests that hold for an event, family after family, are
sorted. A family on one attribute has a column of its own among the codes: 0 where the attribute has a value that its
tests can judge, -1 where they all are NULL.
"""

from tocsin.model.condition import (
    ArrayContains,
    AttributeComparison,
    HistoryTest,
    RegexpMatches,
    UnnestExists,
    WithinDistance,
    WithinPolygon,
    XPathExists,
)
from tocsin.model.predicate import AnyPattern, AnyWord, Phrase, Test, WordWindow
from tocsin.model.values import Kind
from tocsin.predicates.arrays.family import ArrayFamily
from tocsin.predicates.attributes.family import AttributeFamily, kinds_told
from tocsin.predicates.history.family import HistoryFamily
from tocsin.predicates.patterns.family import PatternFamily
from tocsin.predicates.places.family import PlaceFamily
from tocsin.predicates.protocol import Family, Probed
from tocsin.predicates.regexps.family import RegexpFamily
from tocsin.predicates.windows.family import WindowFamily
from tocsin.predicates.words.family import WordFamily
from tocsin.predicates.xpath.family import XPathFamily

FAMILIES: dict[str, type[Family]] = {
    "arrays": ArrayFamily,
    "attributes": AttributeFamily,
    "history": HistoryFamily,
    "patterns": PatternFamily,
    "places": PlaceFamily,
    "regexps": RegexpFamily,
    "windows": WindowFamily,
    "words": WordFamily,
    "xpath": XPathFamily,
}
"""The families by the names under which segments store them; `index/element_family.py` has one more."""


def family_of(test: Test) -> tuple[str, str]:
    """Return the family that a test belongs to, and the attribute that the family is on, if it is on one."""
    if isinstance(test, (AnyWord, Phrase)):
        return "words", test.attribute
    if isinstance(test, WordWindow):
        return "windows", test.attribute
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
    if isinstance(test, HistoryTest):
        return "history", ""
    return "attributes", ""


def compared_by(test: Test) -> list[tuple[str, Kind]] | None:
    """Return the attributes that a test names, each with the kind that the test tells, or any; None if it is not said.

    These are the `attributes` and the `kinds` of its family, without building one.
    """
    if isinstance(test, AttributeComparison):
        return [(test.left, Kind.ANY), (test.right, Kind.ANY), *kinds_told([test])]
    name, attribute = family_of(test)
    if name in ("history", "elements"):
        return None
    return [(attribute, Kind.ANY if name in ("arrays", "places") else Kind.STRING)]


def order_of(test: Test) -> int:
    """Return the place of a test's type within its family: phrases stand behind words."""
    return 1 if isinstance(test, Phrase) else 0


def is_selective(test: Test) -> bool:
    """Tell whether few events make such a test TRUE, so that a conjunction may be filed under it."""
    return not isinstance(test, (AttributeComparison, HistoryTest))


__all__ = ["FAMILIES", "Family", "Probed", "compared_by", "family_of", "is_selective", "order_of"]
