"""Evaluate one predicate of a normal form on one event, by its definition.

Indexes find the same answers for millions of predicates at a time; this evaluates one, for `explain`, for predicates
without an index, and for the reference.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tocsin.errors import EventError
from tocsin.language.rewrite import All, Goal, Node, Some, rewrite
from tocsin.model.condition import (
    Aggregated,
    ArrayContains,
    AttributeComparison,
    Condition,
    Exists,
    HistoryTerm,
    OldComparedToConstant,
    OldComparedToNew,
    Op,
    Quantified,
    Quantifier,
    RegexpMatches,
    UnnestExists,
    WithinDistance,
    WithinPolygon,
    XPathExists,
)
from tocsin.model.elements import elements_of
from tocsin.model.expression_tree import ELEMENT
from tocsin.model.highlight import Span, TextTest, highlighted_attribute, spans
from tocsin.model.lookup import lookup
from tocsin.model.places import encloses, haversine, haversine_of, rings
from tocsin.model.predicate import (
    Accepts,
    AnyPattern,
    AnyWord,
    Pattern,
    Phrase,
    Points,
    Predicate,
    Range,
    Ranges,
    Test,
    Tested,
    WordWindow,
)
from tocsin.model.regexp import canonical, finder
from tocsin.model.text import has_phrase, like, missing_words, pattern_text, word_places
from tocsin.model.totals import Total, compare_to_total
from tocsin.model.untyped import compare_untyped, is_untyped, source_of
from tocsin.model.values import (
    Constant,
    Kind,
    Number,
    compare_to_constant,
    compare_values,
    is_null,
    kind_of,
    moment,
)

Event = Mapping[str, object]
History = Sequence[Event]
NO_NAMESPACES: Mapping[str, str] = {}


def all_of(values: Sequence[bool | None]) -> bool | None:
    """Return the AND of truth values."""
    return False if False in values else None if None in values else True


def any_of(values: Sequence[bool | None]) -> bool | None:
    """Return the OR of truth values."""
    return True if True in values else None if None in values else False


def judge_sign(op: Op, sign: int | None) -> bool | None:
    """Return the truth of a comparison, given the sign of left minus right; None is NULL."""
    return None if sign is None else op.holds(sign)


def compare(event: Event, attribute: str, op: Op, constant: Any) -> bool | None:
    """Compare an attribute with a constant, which is read as the kind of the value if that is left open."""
    if is_untyped(attribute):
        return judge_sign(op, compare_untyped(lookup(event, source_of(attribute)), constant))
    return judge_sign(op, compare_to_constant(lookup(event, attribute), constant))


def judge_text(event: Event, attribute: str, judge: Callable[[str], bool]) -> bool | None:
    """Judge an attribute that is a text; for any other value the truth is NULL."""
    value = lookup(event, attribute)
    return judge(value) if isinstance(value, str) else None


def _array_contains(node: ArrayContains, event: Event, _: History) -> bool | None:
    value = lookup(event, node.attribute)
    constant: Any = node.constant
    if not isinstance(value, (list, tuple)):
        return None
    return any(compare_untyped(item, constant) == 0 for item in value)


def _compare_attributes(node: AttributeComparison, event: Event, _: History) -> bool | None:
    return judge_sign(node.op, compare_values(lookup(event, node.left), lookup(event, node.right)))


def _xpath_exists(node: XPathExists, event: Event, namespaces: Mapping[str, str]) -> bool | None:
    # lxml is loaded only when there is XML.
    from tocsin.predicates.xpath.oracle import evaluate as selects
    from tocsin.predicates.xpath.parser import parse_xpath

    value = lookup(event, node.attribute)
    if not isinstance(value, (str, bytes)):
        return None
    try:
        return selects(parse_xpath(str(node.path), namespaces), value)
    except EventError:
        return None


@lru_cache(maxsize=10_000)
def _rewritten(condition: Condition) -> Node:
    return rewrite(Goal(condition))


def holding_element(test: UnnestExists, event: Event) -> int | None:
    """Return the place of the first element of which the condition is TRUE; None if there is none."""
    goal = _rewritten(test.condition)
    elements = enumerate(elements_of(event, test.attribute))
    return next((place for place, element in elements if _reached(goal, element)), None)


def _reached(node: Node, event: Event) -> bool:
    """Tell whether predicates under All and Some hold. Recurses as deep as AND and OR alternate in a text."""
    if isinstance(node, All):
        return all(_reached(child, event) for child in node.children)
    if isinstance(node, Some):
        return any(_reached(child, event) for child in node.children)
    assert not isinstance(node, Goal), "every goal was rewritten"
    return holds(node, event)


def highlighted(test: Test, event: Event) -> dict[str, list[Span]]:
    """Return where in the texts of an event that what a test is TRUE of stands, by attribute.

    Those of an element of a list are called as in `items[0].title`.
    """
    if isinstance(test, UnnestExists):
        goal = _rewritten(test.condition)
        found: dict[str, list[Span]] = {}
        for place, element in enumerate(elements_of(event, test.attribute)):
            for held in _held(goal, element) if _reached(goal, element) else ():
                for name, spans_there in highlighted(held, element).items():
                    name = name.replace(ELEMENT, f"{test.attribute}[{place}]")
                    found[name] = sorted({*found.get(name, ()), *spans_there})
        return found
    if not isinstance(test, TextTest) or (attribute := highlighted_attribute(test)) is None:
        return {}
    value, given = lookup(event, test.attribute), lookup(event, attribute)
    there = spans(test, value, given) if isinstance(value, str) and isinstance(given, str) else []
    return {attribute: there} if there else {}


def _held(node: Node, event: Event) -> Iterator[Test]:
    """Return the tests under All and Some that are TRUE, and for which these hold."""
    if isinstance(node, (All, Some)):
        for child in node.children:
            if _reached(child, event):
                yield from _held(child, event)
    elif isinstance(node, Tested) and Accepts.TRUE in node.accepts:
        yield node.test


def _selected(terms: Sequence[HistoryTerm], event: Event, history: History) -> list[Event]:
    """Return the earlier events that make every term TRUE."""

    def holds_for(old: Event, term: HistoryTerm) -> bool | None:
        if isinstance(term, OldComparedToNew):
            return judge_sign(term.op, compare_values(lookup(old, term.old), lookup(event, term.new)))
        if isinstance(term, OldComparedToConstant):
            return compare(old, term.old, term.op, term.constant)
        return is_null(lookup(old, term.old)) != term.negated

    return [old for old in history if all(holds_for(old, term) is True for term in terms)]


def _exists(node: Exists, event: Event, history: History) -> bool | None:
    return bool(_selected(node.terms, event, history))


def _quantified(node: Quantified, event: Event, history: History) -> bool | None:
    value = lookup(event, node.attribute)
    selected = _selected(node.terms, event, history)
    values = [judge_sign(node.op, compare_values(value, lookup(old, node.old))) for old in selected]
    return any_of(values) if node.quantifier is Quantifier.ANY else all_of(values)


def _aggregated(node: Aggregated, event: Event, history: History) -> bool | None:
    selected = [old for old in history if any(_selected(terms, event, [old]) for terms in node.alternatives)]
    values = [... if node.old is None else lookup(old, node.old) for old in selected]
    total = Total(value for value in values if not is_null(value)).value(node.aggregate)
    value = node.constant if node.attribute is None else lookup(event, node.attribute)
    return judge_sign(node.op, compare_to_total(value, total))


def _any_word(test: AnyWord, event: Event, _: History) -> bool | None:
    return judge_text(event, test.attribute, lambda text: len(missing_words(text, test.words)) < len(test.words))


def _any_pattern(test: AnyPattern, event: Event, _: History) -> bool | None:
    return judge_text(event, test.attribute, lambda text: any(_matcher(pattern)(text) for pattern in test.patterns))


def _regexp_matches(test: RegexpMatches, event: Event, _: History) -> bool | None:
    return judge_text(event, test.attribute, finder(canonical(str(test.expression), test.flags, test.whole)))


def _within_distance(test: WithinDistance, event: Event, _: History) -> bool | None:
    place = lookup(event, test.attribute)
    if not isinstance(place, list):
        return None
    latitude, longitude, metres = map(float, (test.latitude, test.longitude, test.metres))  # type: ignore[arg-type]  # bound
    return haversine(place, [latitude, longitude]) <= haversine_of(metres)


def _within_polygon(test: WithinPolygon, event: Event, _: History) -> bool | None:
    place = lookup(event, test.attribute)
    return encloses(rings(str(test.polygon)), place) if isinstance(place, list) else None


@lru_cache(maxsize=10_000)
def _matcher(pattern: Pattern) -> Callable[[str], bool]:
    return like(pattern_text(pattern), "\\", pattern.ignore_case)


_TESTS: dict[type, Callable[[Any, Event, History], bool | None]] = {
    AnyWord: _any_word,
    AnyPattern: _any_pattern,
    WordWindow: lambda test, event, _: judge_text(event, test.attribute, lambda text: word_places(text).have(test)),
    Phrase: lambda test, event, _: judge_text(event, test.attribute, lambda text: has_phrase(text, test.words)),
    RegexpMatches: _regexp_matches,
    WithinDistance: _within_distance,
    WithinPolygon: _within_polygon,
    ArrayContains: _array_contains,
    AttributeComparison: _compare_attributes,
    Exists: _exists,
    UnnestExists: lambda test, event, _: holding_element(test, event) is not None,
    Quantified: _quantified,
    Aggregated: _aggregated,
}


def evaluate_test(
    test: Test, event: Event, history: History = (), namespaces: Mapping[str, str] = NO_NAMESPACES
) -> bool | None:
    """Return TRUE, FALSE or NULL (None) for one test of a normal form; `namespaces` has the prefixes of XPath."""
    if isinstance(test, XPathExists):
        return _xpath_exists(test, event, namespaces)
    return _TESTS[type(test)](test, event, history)


def holds(
    predicate: Predicate, event: Event, history: History = (), namespaces: Mapping[str, str] = NO_NAMESPACES
) -> bool:
    """Tell whether one predicate of a normal form holds for an event."""
    if isinstance(predicate, Ranges):
        return _in_ranges(predicate, lookup(event, predicate.attribute))
    value = evaluate_test(predicate.test, event, history, namespaces)
    return (Accepts.NULL if value is None else Accepts.TRUE if value else Accepts.FALSE) in predicate.accepts


def _in_ranges(predicate: Ranges, value: object) -> bool:
    if predicate.kind is Kind.ANY:
        return predicate.or_null if is_null(value) else bool(predicate.ranges)
    if kind_of(value) is not predicate.kind:
        return predicate.or_null
    if isinstance(predicate.ranges, Points):
        return _is_one_of(predicate.ranges, value)
    return any(_in_range(value, candidate) for candidate in predicate.ranges)


def _is_one_of(points: Points, value: Any) -> bool:
    """Tell whether a value of the kind of the points is one of them. Costs a binary search."""
    if points.kind is Kind.TIME:
        value, finer = moment(value)
        if finer:
            return False
    elif isinstance(value, float):
        value = Number(value).exact
    place = bisect_left(points.values, value)
    return place < len(points) and points.values[place] == value


def _in_range(value: Any, candidate: Range) -> bool:
    above = candidate.low is None or _distance(value, candidate.low) >= (0 if candidate.low_closed else 1)
    return above and (
        candidate.high is None or _distance(value, candidate.high) <= (0 if candidate.high_closed else -1)
    )


def _distance(value: Any, end: Any) -> int:
    """Return the sign of value minus end, for an end of the value's kind."""
    if isinstance(end, Number):
        sign = compare_to_constant(value, end.exact)
    elif kind_of(value) is Kind.TIME:
        when = moment(value)
        sign = (when > (end, 0)) - (when < (end, 0))
    else:
        constant: Constant = end
        sign = compare_to_constant(value, constant)
    assert sign is not None, "the kinds were compared before"
    return sign
