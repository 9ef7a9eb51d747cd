"""Each rule by cases: what stands before it and what after."""

import pytest

from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.language.rewrite import RULES, STRUCTURAL, Goal, rewrite
from tocsin.model.condition import (
    Aggregate,
    Aggregated,
    And,
    AttributeComparison,
    Comparison,
    Op,
    Or,
    Quantified,
    Quantifier,
    RegexpMatches,
    WithinDistance,
)
from tocsin.model.expression_tree import AttributeValue, Call, derived_name
from tocsin.model.predicate import (
    EVERYTHING,
    Accepts,
    AnyPattern,
    AnyWord,
    Conjunction,
    Pattern,
    Phrase,
    Range,
    Ranges,
    Wildcard,
    Word,
)
from tocsin.model.predicate import Tested as _Tested
from tocsin.model.values import Kind, Number

MANY, ONE = Wildcard(0, True), Wildcard(1, False)


def number(low: int | None, brackets: str, high: int | None) -> Range:
    return Range(
        None if low is None else Number(low),
        brackets[0] == "[",
        None if high is None else Number(high),
        brackets[1] == "]",
    )


def a(*ranges: Range, kind: Kind = Kind.NUMBER, null: bool = False) -> Ranges:
    return Ranges("a", kind, ranges, null)


def words(*found: str) -> AnyWord:
    return AnyWord("a", tuple(Word(word.rstrip("*"), word.endswith("*")) for word in found))


def patterns(*found: Pattern) -> AnyPattern:
    return AnyPattern("a", found)


POINT = derived_name(Call("point", (AttributeValue("a"), AttributeValue("b"))))
NEAR = WithinDistance(POINT, 1.0, -2.5, 1000.0)
X_TO_Y = Range("x", True, "y", False)
POINTS = (number(1, "[]", 1), number(2, "[]", 2))
OUTSIDE = (number(None, "()", 1), number(1, "()", 2), number(2, "()", None))

# One line per rule and way of accepting: a text, and its conjunctions.
CASES: dict[str, list[tuple[str, list[Conjunction]]]] = {
    "fold_truth": [("TRUE", [()]), ("FALSE", []), ("NULL", []), ("NOT NULL", []), ("NULL IS NOT TRUE", [()])],
    "push_not": [
        ("NOT a < 1", [(a(number(1, "[)", None)),)]),
        ("NOT NOT a < 1", [(a(number(None, "()", 1)),)]),
    ],
    "push_is_truth": [
        ("(a < 1) IS TRUE", [(a(number(None, "()", 1)),)]),
        ("(a < 1) IS NOT TRUE", [(a(number(1, "[)", None), null=True),)]),
        ("(a < 1) IS FALSE", [(a(number(1, "[)", None)),)]),
        ("(a < 1) IS NOT FALSE", [(a(number(None, "()", 1), null=True),)]),
        ("NOT ((a < 1) IS NOT TRUE)", [(a(number(None, "()", 1)),)]),
        ("((a < 1) IS NOT TRUE) IS FALSE", [(a(number(None, "()", 1)),)]),
    ],
    "push_into_logic": [
        ("NOT (a >= 2 OR a < 1)", [(a(number(1, "[)", 2)),)]),
        ("NOT (a >= 1 AND a < 2)", [(a(number(None, "()", 1), number(2, "[)", None)),)]),
        ("(a > 1 AND a < 2) IS NOT TRUE", [(a(number(None, "(]", 1), number(2, "[)", None), null=True),)]),
    ],
    "between_to_range": [
        ("a BETWEEN 1 AND 2", [(a(number(1, "[]", 2)),)]),
        ("a NOT BETWEEN 1 AND 2", [(a(number(None, "()", 1), number(2, "()", None)),)]),
        ("a BETWEEN 2 AND 1", []),
        ("a NOT BETWEEN 2 AND 1", [(a(EVERYTHING),)]),
        ("(a BETWEEN 1 AND 2) IS NOT TRUE", [(a(number(None, "()", 1), number(2, "()", None), null=True),)]),
        ("(a BETWEEN 2 AND 1) IS NOT FALSE", [(a(null=True),)]),
        ("a BETWEEN FALSE AND TRUE", [(a(EVERYTHING, kind=Kind.BOOLEAN),)]),
    ],
    "split_between": [
        ("a BETWEEN 1 AND 'x'", []),
        (
            "a NOT BETWEEN 1 AND 'x'",
            [(a(number(None, "()", 1)),), (a(Range("x", False, None, False), kind=Kind.STRING),)],
        ),
    ],
    "is_null_to_presence": [
        ("a IS NULL", [(a(kind=Kind.ANY, null=True),)]),
        ("a IS NOT NULL", [(a(EVERYTHING, kind=Kind.ANY),)]),
        ("(a IS NULL) IS NOT TRUE", [(a(EVERYTHING, kind=Kind.ANY),)]),
    ],
    "compare_attributes": [
        ("b > a", [(_Tested(AttributeComparison("a", Op.LT, "b")),)]),
        ("NOT a < b", [(_Tested(AttributeComparison("a", Op.GE, "b")),)]),
        ("(a < b) IS NOT TRUE", [(_Tested(AttributeComparison("a", Op.GE, "b"), Accepts.TRUE | Accepts.NULL),)]),
    ],
    "comparison_to_range": [
        ("a <> 1", [(a(number(None, "()", 1), number(1, "()", None)),)]),
        ("a = 1.0", [(a(POINTS[0]),)]),
        ("a <> TRUE", [(a(Range(False, True, False, True), kind=Kind.BOOLEAN),)]),
        ("a = DATE '1970-01-02'", [(a(Range(86400000000, True, 86400000000, True), kind=Kind.TIME),)]),
    ],
    "in_to_ranges": [
        ("a IN (2, 1, 2.0)", [(a(*POINTS),)]),
        ("a IN (1, 2, NULL)", [(a(*POINTS),)]),
        ("a NOT IN (1, 2)", [(a(*OUTSIDE),)]),
        ("a NOT IN (1, NULL)", []),
        ("a NOT IN (1, 'x')", []),
        ("a IN (1, 'x')", [(a(POINTS[0]),), (a(Range("x", True, "x", True), kind=Kind.STRING),)]),
    ],
    "distance_in_floats": [
        ("NOT within_distance(a, b, 1, -2.5, '1 km')", [(_Tested(NEAR, Accepts.FALSE),)]),
    ],
    "regexp_to_patterns": [
        ("a ~ '^x'", [(a(X_TO_Y, kind=Kind.STRING),)]),
        ("a SIMILAR TO 'x'", [(a(Range("x", True, "x", True), kind=Kind.STRING),)]),
        ("a ~ 'y$|x'", [(_Tested(patterns(Pattern((MANY, "x", MANY)), Pattern((MANY, "y")))),)]),
        ("a !~ '(?s)x.'", [(_Tested(patterns(Pattern((MANY, "x", Wildcard(1, True)))), Accepts.FALSE),)]),
        ("a ~ 'x.'", [(_Tested(RegexpMatches("a", "x.")),)]),
        ("regexp_full_match(a, 'x.', 'i')", [(_Tested(RegexpMatches("a", r"(?i)\A(?:x.)\z")),)]),
    ],
    "like_to_ranges_or_pattern": [
        ("a LIKE 'x%'", [(a(X_TO_Y, kind=Kind.STRING),)]),
        ("a LIKE 'x%%'", [(a(X_TO_Y, kind=Kind.STRING),)]),
        ("a LIKE 'x'", [(a(Range("x", True, "x", True), kind=Kind.STRING),)]),
        ("a LIKE 'x$%' ESCAPE '$'", [(a(Range("x%", True, "x%", True), kind=Kind.STRING),)]),
        ("a LIKE '%'", [(a(EVERYTHING, kind=Kind.STRING),)]),
        ("a ILIKE '%'", [(a(EVERYTHING, kind=Kind.STRING),)]),
        ("a LIKE 'x_'", [(_Tested(patterns(Pattern(("x", ONE)))),)]),
        ("a LIKE '%x_%y'", [(_Tested(patterns(Pattern((MANY, "x", Wildcard(1, True), "y")))),)]),
        ("a ILIKE 'X%'", [(_Tested(patterns(Pattern(("x", MANY), True))),)]),
        ("a ILIKE 'X'", [(_Tested(patterns(Pattern(("x",), True))),)]),
        ("a NOT LIKE '%x'", [(_Tested(patterns(Pattern((MANY, "x"))), Accepts.FALSE),)]),
    ],
    "has_words_to_words": [
        ("has_words(a, 'Y x*')", [(_Tested(words("y")), _Tested(words("x*")))]),
        ("NOT has_words(a, 'x y')", [(_Tested(words("x"), Accepts.FALSE),), (_Tested(words("y"), Accepts.FALSE),)]),
    ],
    "has_phrase_to_phrase": [
        ("has_phrase(a, 'New York')", [(_Tested(Phrase("a", ("new", "york"))),)]),
        ("has_phrase(a, 'York')", [(_Tested(words("york")),)]),
    ],
    "negate_quantified": [
        (
            "NOT a < ANY (SELECT b FROM history)",
            [(_Tested(Quantified("a", Op.GE, Quantifier.ALL, "b")),)],
        ),
        (
            "a NOT IN (SELECT b FROM history)",
            [(_Tested(Quantified("a", Op.NE, Quantifier.ALL, "b")),)],
        ),
    ],
    "negate_aggregated": [
        (
            "NOT a < (SELECT avg(b) FROM history)",
            [(_Tested(Aggregated("a", None, Op.GE, Aggregate.AVG, "b")),)],
        ),
    ],
    "test_exists": [
        ("NOT EXISTS (SELECT 1 FROM history)", None),  # type: ignore[list-item]  # looked at below
    ],
    "test_elements": [
        ("NOT EXISTS (SELECT 1 FROM UNNEST(a) x WHERE x > 1)", None),  # type: ignore[list-item]  # looked at below
    ],
    "test_as_it_is": [("array_contains(a, 1)", None)],  # type: ignore[list-item]  # looked at below
    # Merging.
    "alternatives": [
        ("a = 1 OR a = 2", [(a(*POINTS),)]),
        ("a < 1 OR a >= 1", [(a(EVERYTHING),)]),
        ("a < 1 OR a >= 1 OR a IS NULL", [(a(EVERYTHING),), (a(kind=Kind.ANY, null=True),)]),
        ("a IS NULL OR a IS NOT NULL", [()]),
        ("(a < 1) IS NOT TRUE OR a < 1", [()]),
        ("has_words(a, 'x') OR has_words(a, 'w')", [(_Tested(words("w", "x")),)]),
        ("a LIKE '%x' OR a LIKE '%w'", [(_Tested(patterns(Pattern((MANY, "w")), Pattern((MANY, "x")))),)]),
        (
            "NOT (a LIKE '%x' OR a LIKE '%w')",
            [(_Tested(patterns(Pattern((MANY, "w")), Pattern((MANY, "x"))), Accepts.FALSE),)],
        ),
        ("a = 1 OR TRUE", [()]),
        ("a = 1 OR FALSE OR a = 1", [(a(POINTS[0]),)]),
    ],
    "contradictions": [
        ("a > 2 AND a < 1", []),
        ("a > 1 AND a < 1", []),
        ("a = 1 AND a = 'x'", []),
        ("a IS NULL AND a > 1", []),
        ("a < b AND a >= b AND FALSE", []),
        ("has_words(a, 'x y') AND NOT has_words(a, 'y')", []),
        ("EXISTS (SELECT 1 FROM history) AND NOT EXISTS (SELECT 1 FROM history)", []),
    ],
    "kinds": [
        ("a > 1 AND a IS NOT NULL", [(a(number(1, "()", None)),)]),
        ("(a < 1) IS NOT TRUE AND a = 'x'", [(a(Range("x", True, "x", True), kind=Kind.STRING),)]),
        ("(a < 1) IS NOT TRUE AND a IS NULL", [(a(kind=Kind.ANY, null=True),)]),
    ],
}
FLAT = [(text, after) for cases in CASES.values() for text, after in cases if after is not None]


@pytest.mark.parametrize(("text", "after"), FLAT, ids=[text for text, _ in FLAT])
def test_cases(text: str, after: list[Conjunction]) -> None:
    assert list(normalise(parse(text)).leaves) == after


def test_every_rule_has_cases() -> None:
    assert {rule.__name__ for _, rule in (*RULES, *STRUCTURAL)} <= set(CASES)


@pytest.mark.parametrize("text", ["NOT EXISTS (SELECT 1 FROM history)", "(EXISTS (SELECT 1 FROM history)) IS NOT TRUE"])
def test_exists_is_never_null(text: str) -> None:
    ((predicate,),) = normalise(parse(text)).leaves
    assert isinstance(predicate, _Tested)
    assert predicate.accepts is Accepts.FALSE


def test_no_list_has_no_elements() -> None:
    ((predicate,),) = normalise(parse("NOT EXISTS (SELECT 1 FROM UNNEST(a) x WHERE x > 1)")).leaves
    assert isinstance(predicate, _Tested)
    assert predicate.accepts == Accepts.FALSE | Accepts.NULL


def test_a_test_keeps_null_apart() -> None:
    ((predicate,),) = normalise(parse("(array_contains(a, 1)) IS NOT TRUE")).leaves
    assert isinstance(predicate, _Tested)
    assert predicate.accepts == Accepts.FALSE | Accepts.NULL


def test_structural_rules_look_at_no_constant() -> None:
    one, other = (rewrite(Goal(parse(f"NOT (a BETWEEN {n} AND 9 OR b LIKE 'x')")), STRUCTURAL) for n in (1, 2))
    assert repr(one).replace("constant=1", "constant=2") == repr(other)


def test_a_join_of_one_is_that_one() -> None:
    """Else the order of a conjunction depended on how the condition was nested."""
    alone, other = Comparison("a", Op.GT, 1), Comparison("b", Op.GT, 2)
    nested = And((Or((And((alone,)),)), other))
    assert rewrite(Goal(nested)) == rewrite(Goal(And((alone, other))))
