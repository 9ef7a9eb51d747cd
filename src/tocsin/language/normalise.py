"""Turn predicates under All and Some into conjunctions: merge, drop what always holds, drop what never holds."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from functools import reduce
from operator import and_, or_

from tocsin.errors import SubscriptionError
from tocsin.language.ranges import canonical, complement, intersection, union
from tocsin.language.rewrite import All, Goal, Node, Some, rewrite
from tocsin.model.condition import Condition, XPathExists
from tocsin.model.predicate import (
    EVERYTHING,
    Accepts,
    AnyPattern,
    AnyWord,
    Conjunction,
    Pattern,
    Predicate,
    Ranges,
    Tested,
    Word,
)
from tocsin.model.values import Kind

DEFAULT_LIMIT = 4096
"""How many conjunctions one subscription may become."""

# A conjunction under construction: predicates by the key under which they merge.
_Merged = dict[Hashable, Predicate]
_EVERY = Accepts.TRUE | Accepts.FALSE | Accepts.NULL


def normalise(
    condition: Condition, limit: int = DEFAULT_LIMIT, check_xpath: Callable[[str], None] | None = None
) -> tuple[Conjunction, ...]:
    """Return the conjunctions of which one must hold; none if the condition can never be TRUE.

    `check_xpath` is called with each path expression and raises SubscriptionError for a bad one.

    >>> from tocsin.language.parse import parse
    >>> len(normalise(parse("a > 1 AND (b = 'x' OR b = 'y' OR c < 2)")))
    2
    """
    found = conjunctions(rewrite(Goal(condition)), limit)
    if check_xpath is not None:
        for predicate in (predicate for conjunction in found for predicate in conjunction):
            if isinstance(predicate, Tested) and isinstance(predicate.test, XPathExists):
                check_path(check_xpath, predicate.test)
    return found


def check_path(check_xpath: Callable[[str], None], test: XPathExists) -> None:
    """Check the path of a test. The position in an error is one in the path, so it becomes part of the message."""
    try:
        check_xpath(str(test.path))
    except SubscriptionError as error:
        place = "" if error.position is None else f" at {error.position}"
        raise SubscriptionError(f"in the path {test.path!r}{place}: {error.message}", error.hint) from error


def conjunctions(root: Node, limit: int = DEFAULT_LIMIT) -> tuple[Conjunction, ...]:
    """Return the disjunctive normal form of predicates under All and Some."""
    waiting: list[tuple[Node, bool]] = [(root, False)]
    done: list[list[_Merged]] = []
    while waiting:
        node, ready = waiting.pop()
        if isinstance(node, (All, Some)):
            if not ready:
                waiting.append((node, True))
                waiting.extend((child, False) for child in reversed(node.children))
                continue
            parts = done[len(done) - len(node.children) :]
            del done[len(done) - len(node.children) :]
            done.append(_all_of(parts, limit) if isinstance(node, All) else _some_of(parts, limit))
        else:
            assert not isinstance(node, Goal), "every goal was rewritten"
            done.append(_single(node))
    settled = (settle(merged.values()) for merged in done.pop())
    distinct = {frozenset(found): found for found in settled if found is not None}
    return ((),) if frozenset() in distinct else tuple(distinct.values())


def _single(predicate: Predicate) -> list[_Merged]:
    if never(predicate):
        return []
    return [{}] if always(predicate) else [{_key(predicate, All): predicate}]


def never(predicate: Predicate) -> bool:
    """Tell whether no event satisfies the predicate."""
    if isinstance(predicate, Ranges):
        return not predicate.ranges and not predicate.or_null
    return not predicate.accepts


def always(predicate: Predicate) -> bool:
    """Tell whether every event satisfies the predicate."""
    if isinstance(predicate, Ranges):
        return predicate.or_null and predicate.ranges == (EVERYTHING,)
    return predicate.accepts == _EVERY


def _unites(predicate: Tested, join: type[All | Some]) -> bool:
    """Tell whether tests for words or patterns become one: `x OR y` is, and `NOT x AND NOT y` is `NOT (x OR y)`."""
    excluded = Accepts.TRUE if join is All else Accepts.FALSE
    return isinstance(predicate.test, (AnyWord, AnyPattern)) and excluded not in predicate.accepts


def _key(predicate: Predicate, join: type[All | Some]) -> Hashable:
    """Return what predicates that merge under All, or under Some, have in common."""
    if isinstance(predicate, Ranges):
        return predicate.attribute, predicate.kind
    if isinstance(predicate.test, (AnyWord, AnyPattern)) and _unites(predicate, join):
        return type(predicate.test), predicate.test.attribute, predicate.accepts
    return predicate.test


def _merge(predicates: list[Predicate], join: type[All | Some]) -> Predicate:
    """Merge predicates of one key in one pass: thousands of `<>` on one attribute are not rare."""
    first = predicates[0]
    if len(predicates) == 1:
        return first
    if isinstance(first, Ranges):
        several = [p for p in predicates if isinstance(p, Ranges)]
        if join is Some:
            ranges = union(inside for p in several for inside in p.ranges)
        elif len(several) == 2:
            ranges = intersection(several[0].ranges, several[1].ranges)
        else:
            ranges = complement(union(outside for p in several for outside in complement(p.ranges)))
        or_null = (any if join is Some else all)(p.or_null for p in several)
        return replace(first, ranges=canonical(first.kind, ranges), or_null=or_null)
    tested = [p for p in predicates if isinstance(p, Tested)]
    if _unites(first, join):
        return _united(tested)
    return Tested(first.test, reduce(or_ if join is Some else and_, (p.accepts for p in tested)))


def _united(predicates: list[Tested]) -> Tested:
    """Return the test for any of the words, or patterns, of several tests on one attribute."""
    tests, accepts = [p.test for p in predicates], predicates[0].accepts
    words = {word for test in tests if isinstance(test, AnyWord) for word in test.words}
    patterns = {pattern for test in tests if isinstance(test, AnyPattern) for pattern in test.patterns}
    if isinstance(tests[0], AnyWord):
        return Tested(AnyWord(tests[0].attribute, tuple(sorted(words, key=lambda w: (w.text, w.prefix)))), accepts)
    assert isinstance(tests[0], AnyPattern), "only words and patterns are united"
    return Tested(AnyPattern(tests[0].attribute, tuple(sorted(patterns, key=_pattern_order))), accepts)


def _pattern_order(pattern: Pattern) -> tuple[object, ...]:
    parts = ((0, part) if isinstance(part, str) else (1, part.least, part.many) for part in pattern.parts)
    return pattern.ignore_case, *parts


def _some_of(parts: list[list[_Merged]], limit: int) -> list[_Merged]:
    """Return the alternatives: single predicates of one key are merged, the others stay apart."""
    alternatives = [merged for part in parts for merged in part]
    if any(not merged for merged in alternatives):
        return [{}]
    singles: dict[Hashable, list[Predicate]] = {}
    result: list[_Merged] = []
    for merged in alternatives:
        if len(merged) == 1:
            (predicate,) = merged.values()
            singles.setdefault(_key(predicate, Some), []).append(predicate)
        else:
            result.append(merged)
    for predicates in singles.values():
        united = _merge(predicates, Some)
        if always(united):
            return [{}]
        result.append({_key(united, All): united})
    if len(result) > limit:
        raise _too_many(limit)
    return result


def _all_of(parts: list[list[_Merged]], limit: int) -> list[_Merged]:
    """Return the product of the parts, without contradictions. Parts that are one conjunction are merged first."""
    certain = _meet([part[0] for part in parts if len(part) == 1])
    if certain is None or not all(parts):
        return []
    product = [certain]
    for part in (part for part in parts if len(part) > 1):
        if len(product) * len(part) > 64 * limit:
            raise _too_many(limit)
        extended = []
        for left in product:
            for right in part:
                both = _meet([left, right])
                if both is not None:
                    extended.append(both)
            if len(extended) > limit:
                raise _too_many(limit)
        product = extended
    return product


def _meet(several: list[_Merged]) -> _Merged | None:
    """Return the AND of conjunctions, None if it is a contradiction."""
    if len(several) == 1:
        return several[0]
    by_key: dict[Hashable, list[Predicate]] = {}
    for merged in several:
        for key, predicate in merged.items():
            by_key.setdefault(key, []).append(predicate)
    result: _Merged = {}
    for key, predicates in by_key.items():
        both = _merge(predicates, All)
        if never(both):
            return None
        result[key] = both
    return result


def _too_many(limit: int) -> SubscriptionError:
    return SubscriptionError(
        f"the condition becomes more than {limit} conjunctions",
        "Write fewer alternatives under AND, split the subscription, or raise the limit: Matcher(max_conjunctions=...)",
    )


def _denied(predicates: list[Predicate]) -> bool:
    """Tell whether a test requires one of some words or patterns while others exclude all of them."""
    absent: set[tuple[str, object]] = set()
    demanded: list[set[tuple[str, object]]] = []
    for predicate in predicates:
        if isinstance(predicate, Tested) and isinstance(predicate.test, (AnyWord, AnyPattern)):
            test = predicate.test
            found: tuple[Word | Pattern, ...] = test.words if isinstance(test, AnyWord) else test.patterns
            items: set[tuple[str, object]] = {(test.attribute, item) for item in found}
            if Accepts.TRUE not in predicate.accepts:
                absent |= items
            elif Accepts.NULL not in predicate.accepts:
                demanded.append(items)
    return any(items <= absent for items in demanded)


def settle(predicates: Iterable[Predicate]) -> Conjunction | None:
    """Merge the ranges of several kinds on one attribute; return None if they contradict each other.

    A value has one kind. So a range of one kind that does not admit NULL decides: ranges of another kind then hold
    only if they admit NULL, and presence follows.
    """
    kept = list(predicates)
    if _denied(kept):
        return None
    ranges = [p for p in kept if isinstance(p, Ranges)]
    if len({p.attribute for p in ranges}) == len(ranges):
        return tuple(kept)
    by_attribute: dict[str, list[Ranges]] = {}
    for found in ranges:
        by_attribute.setdefault(found.attribute, []).append(found)
    dropped: set[Ranges] = set()
    for several in by_attribute.values():
        absent = next((p for p in several if p.kind is Kind.ANY and p.or_null), None)
        present = next((p for p in several if p.kind is not Kind.ANY and not p.or_null), absent)
        if present is None:
            continue
        for other in several:
            implied = present is not absent if other.kind is Kind.ANY else other.or_null
            if other is not present and not (implied and other is not absent):
                return None
            if other is not present:
                dropped.add(other)
    return tuple(p for p in kept if p not in dropped)
