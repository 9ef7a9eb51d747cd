"""What `explain` prints of a condition is SQL that means the condition."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import Dialect

import strategies
from tocsin import Matcher
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.language.to_sql import describe
from tocsin.model.condition import AttributeComparison, Op
from tocsin.model.predicate import (
    EVERYTHING,
    Accepts,
    AnyPattern,
    AnyWord,
    Pattern,
    Predicate,
    Ranges,
    Test,
    Tested,
    Word,
)
from tocsin.model.values import Kind
from tocsin.predicates.evaluate import holds
from tocsin.reference import evaluate

Events = list[dict[str, Any]]

EVENTS = st.lists(strategies.events() | strategies.odd_events(), min_size=1, max_size=6)
# A value of every kind, and of none.
VALUES: list[object] = [None, True, False, 0, 1, 5, -1.5, float("inf"), "", "x", "y", "xy", "z", *strategies.DATES, [1]]


def described(text: str) -> str:
    """All that is printed of a condition, as one condition."""
    conjunctions = [
        " AND ".join(f"({describe(p)})" for p in found) or "TRUE" for found in normalise(parse(text)).leaves
    ]
    return " OR ".join(f"({conjunction})" for conjunction in conjunctions) or "FALSE"


@given(
    text=st.one_of(strategies.conditions(), strategies.odd_conditions(), strategies.conditions_on_history()),
    events=EVENTS,
    history=st.lists(strategies.events() | strategies.odd_events(), max_size=4),
)
@example("NOT (s LIKE '%a%' OR s LIKE '%b%')", [{"s": "b"}, {"s": "z"}, {}], [])
@example("(flag <= 'true') IS NOT TRUE", [{"flag": value} for value in (True, False, 1, "true", "z", None, [1])], [])
@example("(i < 5) IS NOT TRUE", [{"i": "x"}, {"i": 5}, {}], [])
def test_what_is_printed_means_the_condition(text: str, events: Events, history: Events) -> None:
    condition, printed = parse(text), parse(described(text))
    for event in events:
        assert (evaluate(printed, event, history) is True) == (evaluate(condition, event, history) is True)


ACCEPTS = [Accepts(value) for value in range(1, 7)]
TESTS: list[Test] = [
    AnyWord("a", (Word("x"), Word("z", prefix=True))),
    AnyWord("a", (Word("x"),)),
    AnyPattern("a", (Pattern(("x",), True), Pattern(("y",)))),
    AttributeComparison("a", Op.LT, "b"),
]
PREDICATES: list[Predicate] = [
    *(Tested(test, accepts) for test in TESTS for accepts in ACCEPTS),
    *(Ranges("a", kind, (EVERYTHING,)) for kind in Kind),
    *(Ranges("a", kind, (), or_null=True) for kind in Kind),
]


@pytest.mark.parametrize("predicate", PREDICATES, ids=repr)
def test_every_form_of_predicate(predicate: Predicate) -> None:
    condition = parse(describe(predicate))
    for value in VALUES:
        event = {"a": value, "b": 3}
        assert (evaluate(condition, event) is True) == holds(predicate, event), event


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("price >= 10 AND price < 30", "price >= 10 AND price < 30"),
        ("a IN (1, 2, 3, 4)", "a IN (1, 2, 3, 4)"),
        ("NOT (a LIKE '%x%' OR a LIKE '%y%')", "NOT (a LIKE '%x%' OR a LIKE '%y%')"),
        ("NOT a LIKE '%x%'", "NOT a LIKE '%x%'"),
        ("NOT (has_words(a, 'x') OR has_words(a, 'y'))", "NOT (has_words(a, 'x') OR has_words(a, 'y'))"),
        ("(a < 5) IS NOT TRUE", "(a >= 5) IS NOT FALSE"),
        ("a IS NULL", "a IS NULL"),
        ("a IS NOT NULL", "a IS NOT NULL"),
        ("a LIKE '%'", "a LIKE '%'"),
        ("event.event.a = 1", '"event.a" = 1'),
        ('"not" = 1', '"not" = 1'),
        ("user.name = 'x'", "user.name = 'x'"),
        ("a < TIMESTAMP '0001-01-01 00:00:00+14:00'", "a < TIMESTAMP '0001-01-01 09:59:00+23:59'"),
        ("a > TIMESTAMP '9999-12-31 23:00:00-14:00'", "a > TIMESTAMP '9999-12-31 13:01:00-23:59'"),
    ],
)
def test_the_form(text: str, printed: str) -> None:
    [[predicate]] = normalise(parse(text)).leaves
    assert describe(predicate) == printed
    assert normalise(parse(printed)).leaves == ((predicate,),)


def test_names_that_are_words_of_the_language_are_quoted() -> None:
    dialect = Dialect.get_or_raise("duckdb")
    words = {*dialect.tokenizer_class.KEYWORDS, *dialect.parser_class.FUNCTIONS, "LAMBDA", "EVENT", "IF", "HISTORY"}
    names = {word.lower() for word in words if re.fullmatch(r"\w+", word)}
    assert len(names) > 500
    shapes = ["{} >= 1 AND {} < 2", "{} LIKE '%x'", "has_words({}, 'x')", "({} = 1) IS NOT FALSE", "{} IS NULL"]
    for name in sorted({*names, *(f"{name}.a" for name in names), *(f"a.{name}" for name in names)}):
        for shape in shapes:
            form = normalise(parse(shape.replace("{}", f'"{name}"')))
            assert normalise(parse(describe(form.leaves[0][0]))) == form


def test_explain_prints_what_was_judged() -> None:
    matcher = Matcher()
    matcher.subscribe("none of them", "NOT (a LIKE '%x%' OR a LIKE '%y%')")
    explanation = matcher.explain({"a": "y"}, "none of them")
    assert not explanation.matches
    assert "FAILS  NOT (a LIKE '%x%' OR a LIKE '%y%')" in str(explanation)
