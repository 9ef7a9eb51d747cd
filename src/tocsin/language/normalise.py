"""Turn predicates under All and Some into conjunctions: merge, drop what always holds, drop what never holds.

The normal form is an OR of conjunctions. Where an AND of ORs would multiply into many, it stays a tree of conjunctions,
so that the size of an expression is linear in that of the text.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from tocsin.errors import SubscriptionError
from tocsin.language.ranges import canonical, complement, intersection, union
from tocsin.language.rewrite import All, Goal, Node, Some, rewrite
from tocsin.model.condition import (
    And,
    ArrayContains,
    Between,
    Comparison,
    Condition,
    IsTruth,
    Not,
    Or,
    RegexpMatches,
    Truth,
    UnnestExists,
    WithinDistance,
    WithinPolygon,
    XPathExists,
)
from tocsin.model.limits import RAISE
from tocsin.model.predicate import (
    EVERYTHING,
    Accepts,
    AnyPattern,
    AnyWord,
    Conjunction,
    Pattern,
    Phrase,
    Predicate,
    Ranges,
    Tested,
    Word,
    WordWindow,
)
from tocsin.model.text import pattern_order
from tocsin.model.values import Kind
from tocsin.tuning import TUNING

MAX_PRODUCT = TUNING.max_product
MAX_GROWTH = TUNING.max_growth

# A conjunction under construction: predicates by the key under which they merge.
_Merged = dict[Hashable, Predicate]
_EVERY = Accepts.TRUE | Accepts.FALSE | Accepts.NULL
_ROUNDS = 4
"""How often alternatives are compared with what is certain, which may become more each time."""
_TRIED = 4
"""A product is formed if it has at most this many times the conjunctions that it may keep: some are contradictions."""
_COMPARED = 64
"""An alternative is not compared with more predicates than this that are certain: many tests on one text are rare."""
_NULL_IF_ABSENT = (
    AnyWord,
    Phrase,
    WordWindow,
    AnyPattern,
    RegexpMatches,
    ArrayContains,
    XPathExists,
    WithinDistance,
    WithinPolygon,
)
"""Tests that are NULL for an event without their attribute."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition in normal form: an OR of its leaves, which are conjunctions, or a tree of them.

    In a tree, `nesting` has a pair (opens, closes) for each leaf: how many nodes begin in front of it, and how many end
    behind it. The outermost node is an OR; ANDs and ORs alternate inward. An OR of all leaves has no nesting.
    """

    leaves: tuple[Conjunction, ...]
    nesting: tuple[tuple[int, int], ...] = ()

    def is_true(self, holds: Callable[[Conjunction], bool]) -> bool:
        """Tell whether the expression is TRUE, given a function that tells which conjunctions hold.

        >>> tree = Expression((("a",), ("b",), ("c",)), ((2, 0), (1, 0), (0, 3)))  # a AND (b OR c)
        >>> [tree.is_true(lambda leaf: leaf[0] in true) for true in ("a", "bc", "ac", "ab", "")]
        [False, False, True, True, False]
        """
        if not self.nesting:
            return any(map(holds, self.leaves))
        # The nodes that are open, outermost first, each with its truth so far: an OR starts FALSE, an AND TRUE.
        truths: list[bool] = []
        for leaf, (opens, closes) in zip(self.leaves, self.nesting, strict=True):
            for _ in range(opens):
                truths.append(_is_and(len(truths)))
            undecided = truths[-1] is _is_and(len(truths) - 1)
            truth = holds(leaf) if undecided else truths[-1]
            truths[-1] = _joined(len(truths) - 1, truths[-1], truth)
            for _ in range(closes):
                truth = truths.pop()
                if truths:
                    truths[-1] = _joined(len(truths) - 1, truths[-1], truth)
        return truth


def _is_and(depth: int) -> bool:
    """Tell whether the nodes of a depth are ANDs: the outermost is an OR, and they alternate inward."""
    return depth % 2 == 1


def _joined(depth: int, one: bool, other: bool) -> bool:
    return one and other if _is_and(depth) else one or other


@dataclass(slots=True)
class _Tree:
    """Conjunctions and smaller trees under All or Some. A child never has the join of its parent."""

    join: type[All | Some]
    children: "list[_Merged | _Tree]"


_Part = list[_Merged] | _Tree
"""A part of a condition: the conjunctions of which one must hold, or a tree where they would be too many."""


class _Product(list[_Merged]):
    """Conjunctions that were multiplied, and the smaller tree that they were before: what stays a tree keeps that."""

    def __init__(self, conjunctions: Iterable[_Merged], factored: _Tree) -> None:
        super().__init__(conjunctions)
        self.factored = factored


def _factored(part: _Part) -> _Part:
    return part.factored if isinstance(part, _Product) else part


def normalise(
    condition: Condition,
    limit: float = math.inf,
    check_xpath: Callable[[str], None] | None = None,
    most_attributes: float = math.inf,
) -> Expression:
    """Return the normal form of a condition; it has no leaves if the condition can never be TRUE.

    `check_xpath` is called with each path expression and raises SubscriptionError for a bad one.

    >>> from tocsin.language.parse import parse
    >>> len(normalise(parse("a > 1 AND (b = 'p' OR b = 'q' OR c < 2)")).leaves)
    2
    >>> excluded = " AND ".join(f"NOT (a{i} = 1 AND b{i} = 1)" for i in range(5))
    >>> normalise(parse(f"c = 1 AND {excluded}")).nesting
    ((2, 0), (1, 0), (0, 1), (1, 0), (0, 1), (1, 0), (0, 1), (1, 0), (0, 1), (1, 0), (0, 3))
    """
    check_size(condition, limit, most_attributes)
    found = expression(rewrite(Goal(condition)))
    if check_xpath is not None:
        for predicate in (predicate for leaf in found.leaves for predicate in leaf):
            if isinstance(predicate, Tested) and isinstance(predicate.test, XPathExists):
                check_path(check_xpath, predicate.test)
    return found


def check_size(condition: Condition, limit: float, most_attributes: float) -> None:
    """Raise SubscriptionError if a condition has too many predicates, before constants are looked at, or attributes."""
    waiting, count = [condition], 0
    names: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Comparison):
            count += 1
            names.add(node.attribute)
        elif isinstance(node, (And, Or)):
            waiting += node.operands
        elif isinstance(node, (Not, IsTruth)):
            waiting.append(node.operand)
        elif isinstance(node, UnnestExists):
            waiting.append(node.condition)
        elif not isinstance(node, Truth):
            # BETWEEN is two comparisons.
            count += 2 if isinstance(node, Between) else 1
            names.update(getattr(node, name) for name in ("attribute", "left", "right") if hasattr(node, name))
    for size, what, most, name in (
        (count, "predicates", limit, "predicates"),
        (len(names), "distinct attributes", most_attributes, "attributes"),
    ):
        if size > most:
            raise SubscriptionError(
                f"the condition has {size:,} {what}, and at most {most:,} are allowed",
                f"Split the subscription, or {RAISE.format(name)}",
            )


def check_path(check_xpath: Callable[[str], None], test: XPathExists) -> None:
    """Check the path of a test. The position in an error is one in the path, so it becomes part of the message."""
    try:
        check_xpath(str(test.path))
    except SubscriptionError as error:
        place = "" if error.position is None else f" at {error.position}"
        raise SubscriptionError(f"in the path {test.path!r}{place}: {error.message}", error.hint) from error


def expression(root: Node) -> Expression:
    """Return the normal form of predicates under All and Some. Nothing recurses on the depth."""
    # The whole condition may be one predicate; all others are taken with their nodes.
    waiting: list[tuple[All | Some, bool]] = [(root if isinstance(root, (All, Some)) else All((root,)), False)]
    done: list[tuple[_Part, int]] = []
    """Parts, and how many predicates of the condition each has."""
    is_tree = False
    """Whether some part is a tree. So is the whole, unless that part can never hold: no more is multiplied."""
    while waiting:
        node, ready = waiting.pop()
        predicates: list[Predicate] = []
        inner: list[tuple[All | Some, bool]] = []
        for child in node.children:
            if isinstance(child, (Ranges, Tested)):
                predicates.append(child)
            else:
                assert not isinstance(child, Goal), "every goal was rewritten"
                inner.append((child, False))
        if inner and not ready:
            waiting.append((node, True))
            waiting += reversed(inner)
            continue
        several = done[len(done) - len(inner) :]
        del done[len(done) - len(inner) :]
        size = len(predicates) + sum(count for _, count in several)
        parts = [_factored(part) if is_tree else part for part, _ in several]
        found = _all_of(predicates, parts, size, is_tree) if isinstance(node, All) else _some_of(predicates, parts)
        is_tree = is_tree or isinstance(found, _Tree)
        done.append((found, size))
    part, _ = done.pop()
    if isinstance(part, _Tree):
        return _nested(part)
    settled = [settle(merged.values()) for merged in part]
    if len(settled) == 1 and settled[0] is not None:
        # The hash of an IN list is that of its items.
        return Expression((settled[0],))
    return Expression(_distinct([found for found in settled if found is not None]))


def _distinct(conjunctions: list[Conjunction]) -> tuple[Conjunction, ...]:
    """Return conjunctions without those that are equal to another; one that always holds stands for all."""
    # A product has each predicate in many conjunctions, and the hash of a predicate is that of all its constants.
    by_object: dict[int, int] = {}
    by_value: dict[Predicate, int] = {}
    for one in itertools.chain.from_iterable(conjunctions):
        if id(one) not in by_object:
            by_object[id(one)] = by_value.setdefault(one, len(by_value))
    distinct = {frozenset([by_object[id(one)] for one in found]): found for found in conjunctions}
    return ((),) if frozenset() in distinct else tuple(distinct.values())


def _nested(tree: _Tree) -> Expression:
    """Write a tree down leaf by leaf; the outermost node becomes an OR."""
    leaves: list[Conjunction] = []
    nesting: list[tuple[int, int]] = []
    opened = 1 if tree.join is Some else 2
    waiting: list[_Merged | _Tree | None] = [*tree.children[::-1]]
    # None on `waiting` means: the last leaf was the last of its node.
    while waiting:
        node = waiting.pop()
        if node is None:
            nesting[-1] = nesting[-1][0], nesting[-1][1] + 1
        elif isinstance(node, _Tree):
            opened += 1
            waiting.append(None)
            waiting += node.children[::-1]
        else:
            leaf = settle(node.values())
            assert leaf is not None, "contradictions were dropped"
            leaves.append(leaf)
            nesting.append((opened, 0))
            opened = 0
    nesting[-1] = nesting[-1][0], nesting[-1][1] + (1 if tree.join is Some else 2)
    return Expression(tuple(leaves), tuple(nesting))


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
        return Ranges(first.attribute, first.kind, canonical(first.kind, ranges), or_null)
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
    return Tested(AnyPattern(tests[0].attribute, tuple(sorted(patterns, key=pattern_order))), accepts)


def _some_of(predicates: list[Predicate], parts: list[_Part]) -> _Part:
    """Return the alternatives: single predicates of one key are merged, the others stay apart."""
    factored: _Part = []
    if any(isinstance(part, _Product) for part in parts):
        factored = _some_of([*predicates], [_factored(part) for part in parts])
    singles: dict[Hashable, list[Predicate]] = {}
    result: list[_Merged] = []
    trees: list[_Tree] = []
    for part in parts:
        children: Sequence[_Merged | _Tree] = (part,) if isinstance(part, _Tree) else part
        if isinstance(part, _Tree) and part.join is Some:
            children = part.children
        for child in children:
            if isinstance(child, _Tree):
                trees.append(child)
            elif len(child) == 1:
                predicates += child.values()
            elif child:
                result.append(child)
            else:
                return [{}]
    for predicate in predicates:
        if not never(predicate):
            singles.setdefault(_key(predicate, Some), []).append(predicate)
    for several in singles.values():
        united = _merge(several, Some)
        if always(united):
            return [{}]
        result.append({_key(united, All): united})
    if trees:
        return factored if isinstance(factored, _Tree) else _Tree(Some, [*result, *trees])
    return _Product(result, factored) if isinstance(factored, _Tree) else result


def _all_of(predicates: list[Predicate], parts: list[_Part], size: int, is_tree: bool) -> _Part:
    """Return the product of the parts, without contradictions, or a tree if the product is large, or if `is_tree`.

    Predicates and parts that are one conjunction are merged first. `size` is how many predicates of the condition there
    are in all.
    """
    trees: list[_Tree] = []
    units: list[_Merged] = []
    factors: list[list[_Merged]] = []
    for part in parts:
        if not isinstance(part, _Tree):
            if len(part) == 1:
                units += part
            else:
                factors.append(part)
        elif part.join is Some:
            trees.append(part)
        else:
            units += [child for child in part.children if not isinstance(child, _Tree)]
            trees += [child for child in part.children if isinstance(child, _Tree)]
    certain = _conjunction(itertools.chain(predicates, *(unit.values() for unit in units)))
    if certain is not None and factors:
        certain, factors = _with_units(certain, factors)
    if certain is None:
        return []
    if not trees and (not factors or (len(factors) == 1 and not certain)):
        return factors[0] if factors else [certain]
    children: list[_Merged | _Tree] = [certain] if certain else []
    for factor in factors:
        factored = _factored(factor)
        if isinstance(factored, _Tree) and factored.join is Some:
            children.append(factored)
        else:
            children.append(_Tree(Some, [*factor]))
    children += trees
    if len(children) == 1 and isinstance(children[0], _Tree):
        return children[0]
    tree = _Tree(All, children)
    product = None if trees or is_tree else _product(certain, factors, size)
    if product is None:
        return tree
    return _Product(product, tree) if len(product) > 1 else product


def _conjunction(predicates: Iterable[Predicate]) -> _Merged | None:
    """Return the AND of predicates, None if it is a contradiction."""
    result: _Merged = {}
    repeated: dict[Hashable, list[Predicate]] = {}
    """The predicates of the keys that are there more than once."""
    for predicate in predicates:
        key = _key(predicate, All)
        if result.setdefault(key, predicate) is not predicate:
            repeated.setdefault(key, [result[key]]).append(predicate)
    for key, several in repeated.items():
        result[key] = _merge(several, All)
    # Few predicates have to be looked at: those that accept NULL, or nothing, and tests.
    doubtful = [key for key, one in result.items() if type(one) is not Ranges or one.or_null or not one.ranges]
    for key in doubtful:
        if never(result[key]):
            return None
        if always(result[key]):
            del result[key]
    return None if settle(result.values()) is None else result


def _with_units(certain: _Merged, factors: list[list[_Merged]]) -> tuple[_Merged | None, list[list[_Merged]]]:
    """Drop from the factors, of several alternatives each, what contradicts the conjunction that is certain.

    Returns that conjunction, None if it is a contradiction, and the factors that are left. A factor of which one
    alternative is left joins the conjunction, which may rule out more, for some rounds.
    """
    for _ in range(_ROUNDS):
        about: dict[str, _Merged] = {}
        for key, predicate in certain.items():
            for name in _attributes(predicate):
                about.setdefault(name, {})[key] = predicate
        possible = [[merged for merged in part if _is_possible(merged, certain, about)] for part in factors]
        factors = [few if len(few) < len(part) else part for few, part in zip(possible, factors, strict=True)]
        if not all(factors):
            return None, []
        units, factors = [part[0] for part in factors if len(part) == 1], [part for part in factors if len(part) != 1]
        if not units:
            break
        joined = _meet([certain, *units])
        if joined is None or settle(joined.values()) is None:
            return None, []
        certain = joined
    return certain, factors


def _is_possible(merged: _Merged, certain: _Merged, about: dict[str, _Merged]) -> bool:
    """Tell whether a conjunction does not contradict what is certain; `about` has what is certain by attribute."""
    both: _Merged = {}
    for predicate in merged.values():
        for name in _attributes(predicate):
            if name in about:
                both |= about[name]
    if not both and certain.keys().isdisjoint(merged):
        return True
    for key, predicate in merged.items():
        both[key] = _merge([certain[key], predicate], All) if key in certain else predicate
        if never(both[key]):
            return False
    return len(both) > _COMPARED or settle(both.values()) is not None


def _attributes(predicate: Predicate) -> tuple[str, ...]:
    """Return the attribute of a range or of a test on one attribute."""
    if isinstance(predicate, Ranges):
        return (predicate.attribute,)
    return (predicate.test.attribute,) if isinstance(predicate.test, _NULL_IF_ABSENT) else ()


def _product(certain: _Merged, factors: list[list[_Merged]], size: int) -> list[_Merged] | None:
    """Return the product of lists of alternatives; None if it has many conjunctions and is much larger than the text.

    An OR of a thousand conjunctions is no larger than its text. What grows are products.
    """
    if len(factors) > 1 and _is_large(certain, factors, size):
        return None
    product = [certain]
    for factor in factors:
        if _is_not_tried(list(map(len, product)), list(map(len, factor)), size):
            return None
        both, grown = [], 0
        for left, right in itertools.product(product, factor):
            merged = _meet([left, right])
            if merged is not None and settle(merged.values()) is not None:
                both.append(merged)
                grown += len(merged)
                if len(both) > MAX_PRODUCT and grown > MAX_GROWTH * size:
                    return None
        product = both
    return product


def _is_not_tried(lefts: list[int], rights: list[int], size: int) -> bool:
    """Tell whether a product is not formed, given the predicates of the conjunctions on both sides."""
    predicates = len(lefts) * sum(rights) + len(rights) * sum(lefts)
    return len(lefts) * len(rights) > _TRIED * MAX_PRODUCT and predicates > MAX_GROWTH * size


def _is_large(certain: _Merged, factors: list[list[_Merged]], size: int) -> bool:
    """Tell whether a product is certainly too large, by its conjunctions whose factors have no attribute in common.

    None of these is a contradiction, and to count them takes a fraction of the time of forming them.
    """
    bits: dict[Hashable, int] = {}

    def subjects(merged: _Merged) -> int:
        """Return what the predicates are about, as bits: attributes, or tests on several."""
        found = 0
        for key, predicate in merged.items():
            for name in _attributes(predicate) or (key,):
                found |= bits.setdefault(name, 1 << len(bits))
        return found

    product = [(subjects(certain), len(certain))]
    for factor in factors:
        alternatives = [(subjects(merged), len(merged)) for merged in factor]
        if _is_not_tried([count for _, count in product], [count for _, count in alternatives], size):
            return True
        product = [
            (left | right, count + more) for left, count in product for right, more in alternatives if not left & right
        ]
        if len(product) > MAX_PRODUCT and sum(count for _, count in product) > MAX_GROWTH * size:
            return True
    return False


def _meet(several: list[_Merged]) -> _Merged | None:
    """Return the AND of conjunctions, None if it is a contradiction."""
    if len(several) == 1:
        return several[0]
    result: _Merged = {}
    by_key: dict[Hashable, list[Predicate]] = {}
    """The predicates of the keys that are there more than once."""
    for merged in several:
        for key, predicate in merged.items():
            if result.setdefault(key, predicate) is not predicate:
                by_key.setdefault(key, [result[key]]).append(predicate)
    for key, predicates in by_key.items():
        result[key] = _merge(predicates, All)
        if never(result[key]):
            return None
    return result


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


def _lacks_value(predicates: list[Predicate]) -> bool:
    """Tell whether a test demands a value of an attribute that must be NULL."""
    absent = {p.attribute for p in predicates if isinstance(p, Ranges) and p.kind is Kind.ANY and p.or_null}
    return bool(absent) and any(
        isinstance(p, Tested) and Accepts.NULL not in p.accepts and not absent.isdisjoint(_attributes(p))
        for p in predicates
    )


def settle(predicates: Iterable[Predicate]) -> Conjunction | None:
    """Merge the ranges of several kinds on one attribute; return None if they contradict each other.

    A value has one kind. So a range of one kind that does not admit NULL decides: ranges of another kind then hold
    only if they admit NULL, and presence follows. A test on an attribute that must be absent is NULL.
    """
    kept = list(predicates)
    if len(kept) == 1:
        return tuple(kept)
    ranges = [p for p in kept if isinstance(p, Ranges)]
    if len(ranges) < len(kept) and (_denied(kept) or _lacks_value(kept)):
        return None
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
