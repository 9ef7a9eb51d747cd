"""Rewrite a condition into predicates under All and Some, by the ordered RULES.

A *goal* is a condition together with the truth values under which it is accepted; a subscription is the goal that its
condition be TRUE. Each rule replaces the goals of some kinds of condition by smaller ones, until only predicates are
left: pushing NOT inward is exchanging TRUE and FALSE in what is accepted. No goal accepts both TRUE and FALSE.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

from tocsin.errors import SubscriptionError
from tocsin.language.ranges import (
    canonical,
    compared,
    compared_untyped,
    complement,
    intersection,
    is_empty,
    point,
    starting_with,
    union,
)
from tocsin.language.template import Fill, fill_atom
from tocsin.model.analyzer import demanded_phrase, demanded_words
from tocsin.model.condition import (
    Aggregated,
    And,
    ArrayContains,
    AttributeComparison,
    Between,
    Comparison,
    Condition,
    Exists,
    HasPhrase,
    HasWords,
    InList,
    IsNull,
    IsTruth,
    Like,
    Not,
    Op,
    Or,
    Quantified,
    Quantifier,
    RegexpMatches,
    Truth,
    UnnestExists,
    WithinDistance,
    WithinPolygon,
    XPathExists,
)
from tocsin.model.predicate import (
    EVERYTHING,
    MANY_POINTS,
    Accepts,
    AnyPattern,
    AnyWord,
    Phrase,
    Points,
    Predicate,
    Range,
    Ranges,
    Test,
    Tested,
    WordWindow,
)
from tocsin.model.record import record
from tocsin.model.regexp import as_patterns
from tocsin.model.regexp import canonical as canonical_expression
from tocsin.model.sql_text import name
from tocsin.model.text import (
    check_words,
    like_pattern,
    like_runs,
    pattern_order,
    pattern_text,
)
from tocsin.model.untyped import is_untyped
from tocsin.model.values import Kind, Number, kind_of, scalar


class Goal(NamedTuple):
    """A condition, and the truth values under which it is accepted."""

    condition: Condition
    accepts: Accepts = Accepts.TRUE


@record
class All:
    """Every child holds; without children: always."""

    children: tuple["Node", ...] = ()


@record
class Some:
    """Some child holds; without children: never."""

    children: tuple["Node", ...] = ()


Node = Goal | All | Some | Predicate
LONGEST_WINDOW = 10_000
"""The most words between the first and the last that `near` and `slop` allow."""
ALWAYS, NEVER = All(), Some()
_OPPOSITE = {
    Accepts.TRUE: Accepts.FALSE,
    Accepts.FALSE: Accepts.TRUE,
    Accepts.TRUE | Accepts.NULL: Accepts.FALSE | Accepts.NULL,
    Accepts.FALSE | Accepts.NULL: Accepts.TRUE | Accepts.NULL,
}
_EVERY = Accepts.TRUE | Accepts.FALSE | Accepts.NULL
_TRUE, _FALSE, _NULL = Accepts.TRUE, Accepts.FALSE, Accepts.NULL
SHORT_TEXT = 64
"""A comparison with a text of at most so many characters is remembered: words come again in many conditions."""
REMEMBERED = 16_384
"""How many of them are remembered; the least recently used is forgotten first."""


def fold_truth(condition: Truth, accepts: Accepts) -> Node:
    """Fold TRUE, FALSE and NULL, which hold always or never."""
    value = {True: Accepts.TRUE, False: Accepts.FALSE, None: Accepts.NULL}[condition.value]
    return ALWAYS if value in accepts else NEVER


def push_not(condition: Not, accepts: Accepts) -> Node:
    """Push NOT inward: it accepts FALSE where its operand accepts TRUE, and vice versa."""
    return Goal(condition.operand, _OPPOSITE[accepts])


def push_is_truth(condition: IsTruth, accepts: Accepts) -> Node:
    """Push IS inward: `c IS NOT TRUE` accepts c when it is FALSE or NULL."""
    inner = Accepts.TRUE if condition.value else Accepts.FALSE
    if condition.negated == (Accepts.TRUE in accepts):
        inner = _EVERY ^ inner
    return Goal(condition.operand, inner)


def push_into_logic(condition: And | Or, accepts: Accepts) -> Node:
    """Push a goal into AND and OR, by De Morgan: `NOT (a AND b)` is `NOT a OR NOT b`."""
    goals = tuple([Goal(operand, accepts) for operand in condition.operands])
    return All(goals) if isinstance(condition, And) == _is_affirmed(accepts) else Some(goals)


def between_to_range(condition: Between, accepts: Accepts) -> Node:
    """Turn `a BETWEEN 1 AND 2` into a range of a, if both constants are of one kind."""
    low, high = condition.low, condition.high
    kind = kind_of(low)
    if kind is None or kind is not kind_of(high) or is_untyped(condition.attribute):
        return split_between(condition, accepts)
    held = Range(scalar(low), True, scalar(high), True)  # type: ignore[arg-type]  # constants, since they have a kind
    inside = () if is_empty(held) else (held,)
    return _ranges(condition.attribute, kind, inside if _is_affirmed(accepts) else complement(inside), accepts)


def split_between(condition: Between, accepts: Accepts) -> Node:
    """Split `a BETWEEN 1 AND 2` into `a >= 1 AND a <= 2`."""
    low = Comparison(condition.attribute, Op.GE, condition.low)
    return Goal(And((low, Comparison(condition.attribute, Op.LE, condition.high))), accepts)


def comparison_to_range(condition: Comparison, accepts: Accepts) -> Node:
    """Turn `a < 5` into a range of a."""
    constant: Any = condition.constant
    if type(constant) is str and len(constant) <= SHORT_TEXT:
        return _compared_with_word(condition.attribute, condition.op, constant, accepts)
    return _compared(condition.attribute, condition.op, constant, accepts)


def _compared(attribute: str, op: Op, constant: Any, accepts: Accepts) -> Ranges:
    """Return the values that compare so with a constant."""
    if is_untyped(attribute):
        return _untyped(attribute, (constant,), op, accepts)
    kind = kind_of(constant)
    assert kind is not None, "a constant has a kind"
    return _ranges(attribute, kind, compared(op if _is_affirmed(accepts) else op.negated, scalar(constant)), accepts)


_compared_with_word = lru_cache(REMEMBERED)(_compared)


def in_to_ranges(condition: InList, accepts: Accepts) -> Node:
    """Turn `a IN (1, 2)` into two points; constants of several kinds, or NULL, are an OR of equalities."""
    if is_untyped(condition.attribute):
        return _untyped(condition.attribute, condition.constants, Op.EQ, accepts)
    by_kind: dict[Kind, set[Any]] = {}
    for kind, of_type in _by_kind(condition.constants):
        by_kind.setdefault(kind, set()).update(of_type)
    affirmed = _is_affirmed(accepts)
    found: list[Node] = []
    for kind, values in by_kind.items():
        points = Points(kind, tuple(sorted(values)))
        inside = points if affirmed and len(points) >= MANY_POINTS else tuple(points)
        found.append(_ranges(condition.attribute, kind, inside if affirmed else complement(inside), accepts))
    if None in condition.constants:
        found.append(fold_truth(Truth(None), accepts))
    return Some(tuple(found)) if affirmed else All(tuple(found))


def _by_kind(constants: Sequence[Any]) -> Iterator[tuple[Kind, Iterable[Any]]]:
    """Yield the constants of each type, as `Points` has them, with their kind; NULL has none."""
    for of_type in dict.fromkeys(map(type, constants)):
        same: list[Any] = [constant for constant in constants if type(constant) is of_type]
        kind = kind_of(same[0])
        if of_type in (int, str, bool):
            yield kind, same  # type: ignore[misc]  # these have a kind
        elif kind is not None:
            exact = [scalar(constant) for constant in same]
            yield kind, [one.exact if isinstance(one, Number) else one for one in exact]


def is_null_to_presence(condition: IsNull, accepts: Accepts) -> Node:
    """Turn `a IS NULL` into an empty set of values, or NULL."""
    if _is_affirmed(accepts):
        return Ranges(condition.attribute, Kind.ANY, (), or_null=True)
    return Ranges(condition.attribute, Kind.ANY, (EVERYTHING,))


def like_to_ranges_or_pattern(condition: Like, accepts: Accepts) -> Node:
    """Turn `a LIKE 'x%'` into a range of strings and `a LIKE 'x'` into a point; other patterns stay patterns."""
    pattern, escape = str(condition.pattern), condition.escape if condition.escape is None else str(condition.escape)
    runs = like_runs(pattern, escape, condition.ignore_case)
    beginning = "".join(character for character in runs[0] if character is not None)
    if len(beginning) == len(runs[0]) and not any(runs[1:]) and not (condition.ignore_case and beginning):
        inside = starting_with(beginning) if len(runs) > 1 else point(beginning)
        if len(runs) > 1 or not condition.ignore_case:
            kept = (inside,) if Accepts.TRUE in accepts else complement((inside,))
            return _ranges(condition.attribute, Kind.STRING, kept, accepts)
    like = like_pattern(pattern, escape, condition.ignore_case)
    return Tested(AnyPattern(condition.attribute, (like,)), accepts)


def regexp_to_patterns(condition: RegexpMatches, accepts: Accepts) -> Node:
    """Turn `regexp_matches(a, '^x|y')` into `a LIKE 'x%' OR a LIKE '%y%'`; others stay expressions."""
    expression = canonical_expression(str(condition.expression), condition.flags, condition.whole)
    patterns = as_patterns(expression)
    if patterns is None:
        return Tested(RegexpMatches(condition.attribute, expression), accepts)
    if len(patterns) == 1:
        return Goal(Like(condition.attribute, pattern_text(patterns[0]), "\\", False), accepts)
    return Tested(AnyPattern(condition.attribute, tuple(sorted(patterns, key=pattern_order))), accepts)


def has_words_to_words(condition: HasWords, accepts: Accepts) -> Node:
    """Split `has_words(a, 'x y')` into the word x and the word y."""
    check_words(str(condition.text), "has_words", prefixes=True)
    demanded = demanded_words(condition.attribute, str(condition.text), condition.exact_case)
    words = demanded.words
    if not words:
        raise SubscriptionError(f"has_words({name(condition.attribute)}, …) does not name a word", "Give at least one")
    least = len(words) if condition.min_words is None else condition.min_words
    _check_option("has_words", "min_words", least, 1, len(words))
    _check_option("has_words", "near", 1 if condition.near is None else condition.near, 1, LONGEST_WINDOW)
    if least < len(words) or condition.near is not None or condition.exact_case:
        window = WordWindow(demanded.one_attribute(), words, least, condition.near, exact_case=condition.exact_case)
        return Tested(window, accepts)
    found = tuple(Tested(AnyWord(demanded.attribute(word), (word,)), accepts) for word in words)
    return All(found) if Accepts.TRUE in accepts else Some(found)


def has_phrase_to_phrase(condition: HasPhrase, accepts: Accepts) -> Node:
    """Turn `has_phrase(a, 'x y')` into a phrase, or into a word if it has only one."""
    check_words(str(condition.text), "has_phrase")
    demanded = demanded_phrase(condition.attribute, str(condition.text), condition.exact_case)
    words, attribute = demanded.words, demanded.whole
    if not words:
        raise SubscriptionError(f"has_phrase({name(condition.attribute)}, …) does not name a word", "Give at least one")
    _check_option("has_phrase", "slop", condition.slop, 0, LONGEST_WINDOW)
    if condition.slop or condition.exact_case:
        window = WordWindow(attribute, words, len(words), len(words) - 1 + condition.slop, True, condition.exact_case)
        return Tested(window, accepts)
    if len(words) == 1:
        return Tested(AnyWord(attribute, words), accepts)
    return Tested(Phrase(attribute, tuple(word.text for word in words)), accepts)


def _check_option(function: str, option: str, given: int, least: int, most: int) -> None:
    if not least <= given <= most:
        raise SubscriptionError(f"{option} => {given} of {function} is not {least} to {most:,}", "Give one of these")


def compare_attributes(condition: AttributeComparison, accepts: Accepts) -> Node:
    """Turn `NOT a < b` into `a >= b`, and `b > a` into `a < b`: the smaller name comes first."""
    op = condition.op if Accepts.TRUE in accepts else condition.op.negated
    left, right = condition.left, condition.right
    if right < left:
        left, op, right = right, op.flipped, left
    return Tested(AttributeComparison(left, op, right), Accepts.TRUE | (accepts & Accepts.NULL))


def negate_quantified(condition: Quantified, accepts: Accepts) -> Node:
    """Turn `NOT a < ANY (…)` into `a >= ALL (…)`."""
    if Accepts.FALSE in accepts:
        other = Quantifier.ALL if condition.quantifier is Quantifier.ANY else Quantifier.ANY
        condition = Quantified(condition.attribute, condition.op.negated, other, condition.old, condition.terms)
    return Tested(condition, Accepts.TRUE | (accepts & Accepts.NULL))


def negate_aggregated(condition: Aggregated, accepts: Accepts) -> Node:
    """Turn `NOT a < (SELECT avg(b) …)` into `a >= (SELECT avg(b) …)`."""
    if Accepts.FALSE in accepts:
        condition = replace(condition, op=condition.op.negated)
    return Tested(condition, Accepts.TRUE | (accepts & Accepts.NULL))


def test_exists(condition: Exists, accepts: Accepts) -> Node:
    """Test EXISTS, which is never NULL."""
    return Tested(condition, accepts & ~Accepts.NULL)


def test_elements(condition: UnnestExists, accepts: Accepts) -> Node:
    """Test EXISTS on elements, which is never NULL: without a list there is none, so that NULL may stand for FALSE."""
    # Its constants are looked at here, so that one that has no meaning is refused.
    rewrite(Goal(condition.condition))
    return Tested(condition, Accepts.TRUE if Accepts.TRUE in accepts else Accepts.FALSE | Accepts.NULL)


def distance_in_floats(condition: WithinDistance, accepts: Accepts) -> Node:
    """Turn the numbers of `within_distance(lat, lon, 48.85, 2.35, '10 km')` into floats; 0 metres are possible."""
    numbers: list[Any] = [condition.latitude, condition.longitude, condition.metres]
    latitude, longitude, metres = map(float, numbers)
    if not (abs(latitude) <= 90 and abs(longitude) <= 180 and metres >= 0):
        raise SubscriptionError(
            f"({latitude:g}, {longitude:g}) with {metres:g} m is not a circle on the Earth",
            "Give the latitude (-90 to 90), the longitude (-180 to 180) and a distance such as '10 km'",
        )
    return Tested(WithinDistance(condition.attribute, latitude, longitude, metres), accepts)


def test_as_it_is(condition: Test, accepts: Accepts) -> Node:
    """Keep a condition that is a test already."""
    return Tested(condition, accepts)


def _untyped(attribute: str, constants: Sequence[Any], op: Op, accepts: Accepts) -> Ranges:
    """Return the values that compare so with one of the constants, in the order of texts of untyped attributes.

    They are FALSE for those that compare otherwise with every constant, and NULL for all others.
    """
    holds: list[Range] = []
    fails: tuple[Range, ...] = (EVERYTHING,) if None not in constants else ()
    for constant in constants:
        if constant is not None:
            holds += compared_untyped(op, constant)
            fails = intersection(fails, compared_untyped(op.negated, constant))
    inside = union(holds) if Accepts.TRUE in accepts else fails
    if Accepts.NULL in accepts:
        inside = complement(fails if Accepts.TRUE in accepts else union(holds))
    return _ranges(attribute, Kind.STRING, inside, accepts)


def _ranges(attribute: str, kind: Kind, ranges: tuple[Range, ...] | Points, accepts: Accepts) -> Ranges:
    return Ranges(attribute, kind, canonical(kind, ranges), accepts is not _TRUE and accepts is not _FALSE)


def _is_affirmed(accepts: Accepts) -> bool:
    """Tell whether a goal accepts TRUE, and not FALSE."""
    return accepts is _TRUE or _TRUE in accepts


Rule = tuple[tuple[type, ...], Callable[[Any, Accepts], Node]]
LOGIC: tuple[Rule, ...] = (
    ((Truth,), fold_truth),
    ((Not,), push_not),
    ((IsTruth,), push_is_truth),
    ((And, Or), push_into_logic),
    ((IsNull,), is_null_to_presence),
    ((AttributeComparison,), compare_attributes),
)
"""Rules of conditions without constants."""

STRUCTURAL: tuple[Rule, ...] = (*LOGIC, ((Between,), split_between))
"""Rules that do not look at constants: they are applied to the template of a shape, once for all its texts."""

VALUES: tuple[Rule, ...] = (
    ((Comparison,), comparison_to_range),
    ((Between,), between_to_range),
    ((InList,), in_to_ranges),
    ((Like,), like_to_ranges_or_pattern),
    ((RegexpMatches,), regexp_to_patterns),
    ((HasWords,), has_words_to_words),
    ((HasPhrase,), has_phrase_to_phrase),
    ((Quantified,), negate_quantified),
    ((Exists,), test_exists),
    ((Aggregated,), negate_aggregated),
    ((UnnestExists,), test_elements),
    ((WithinDistance,), distance_in_floats),
    ((ArrayContains, WithinPolygon, XPathExists), test_as_it_is),
)
"""Rules that look at constants: they are applied to each text."""

RULES: tuple[Rule, ...] = LOGIC + VALUES


@cache
def _by_type(rules: tuple[Rule, ...]) -> dict[type, Callable[[Any, Accepts], Node]]:
    return {kind: rule for kinds, rule in rules for kind in kinds}


def rewrite(goal: Node, rules: tuple[Rule, ...] = RULES, fill: Fill | None = None) -> Node:
    """Apply the rules until none applies; `fill` puts constants into slots first. Nothing recurses on the depth."""
    by_type = _by_type(rules)
    # The nodes around the one whose children are being rewritten: their kind, the children to come, and those done.
    around: list[tuple[type[All | Some] | None, Iterator[Node], list[Node]]] = []
    kind: type[All | Some] | None = None
    left: Iterator[Node] = iter((goal,))
    done: list[Node] = []
    while True:
        for node in left:
            while type(node) is Goal:
                rule = by_type.get(type(node.condition))
                if rule is None:
                    break
                node = rule(node.condition if fill is None else fill_atom(node.condition, fill), node.accepts)
            if (type(node) is All or type(node) is Some) and node.children:
                around.append((kind, left, done))
                kind, left, done = type(node), iter(node.children), []
                break
            if type(node) is not kind:
                done.append(node)
        else:
            if kind is None:
                return done[0]
            # An AND of one is that one, and an AND in an AND is one.
            joined = done[0] if len(done) == 1 else kind(tuple(done))
            kind, left, done = around.pop()
            if type(joined) is kind:
                done += joined.children
            else:
                done.append(joined)
