"""Each piece of syntax gives the condition that it means."""

import datetime as dt
from decimal import Decimal

import pytest

from tocsin.errors import SubscriptionError
from tocsin.language import parse as module
from tocsin.language.names import NAMES, OPERANDS
from tocsin.language.parse import parse
from tocsin.language.shape import Shape
from tocsin.language.template import Template
from tocsin.model.condition import (
    Aggregate,
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
    OldComparedToConstant,
    OldComparedToNew,
    OldIsNull,
    Op,
    Or,
    Quantified,
    Quantifier,
    Truth,
    XPathExists,
)

A5 = Comparison("a", Op.EQ, 5)
X1 = Comparison("x", Op.EQ, 1)

CASES: list[tuple[str, Condition]] = [
    ("a = 5", A5),
    ("a == 5", A5),
    ("((a)) = (5)", A5),
    ("5 = a", A5),
    ("event.a = 5", A5),
    ("EVENT.a = 5", A5),
    ("A = 5", Comparison("A", Op.EQ, 5)),
    ('"event".a = 5', Comparison("event.a", Op.EQ, 5)),
    ("event = 5", Comparison("event", Op.EQ, 5)),
    ("a.b.c.d.e = 5", Comparison("a.b.c.d.e", Op.EQ, 5)),
    ("\"user-agent\" = 'x'", Comparison("user-agent", Op.EQ, "x")),
    ('"say ""hi""" = 1', Comparison('say "hi"', Op.EQ, 1)),
    ("a <> 5", Comparison("a", Op.NE, 5)),
    ("a != 5", Comparison("a", Op.NE, 5)),
    ("5 < a", Comparison("a", Op.GT, 5)),
    ("5 >= a", Comparison("a", Op.LE, 5)),
    ("a < -5", Comparison("a", Op.LT, -5)),
    ("a < - 5", Comparison("a", Op.LT, -5)),
    ("a < -(-5)", Comparison("a", Op.LT, 5)),
    ("a < +5", Comparison("a", Op.LT, 5)),
    ("a = 2.5", Comparison("a", Op.EQ, Decimal("2.5"))),
    ("a = .5", Comparison("a", Op.EQ, Decimal("0.5"))),
    ("a = 1e3", Comparison("a", Op.EQ, 1000.0)),
    ("a = 1_000", Comparison("a", Op.EQ, 1000)),
    ("a = 'O''Brien'", Comparison("a", Op.EQ, "O'Brien")),
    ("a = TRUE", Comparison("a", Op.EQ, True)),
    ("a", Comparison("a", Op.EQ, True)),
    ("NOT a", Not(Comparison("a", Op.EQ, True))),
    ("a = DATE '2026-01-31'", Comparison("a", Op.EQ, dt.date(2026, 1, 31))),
    ("a = '2026-01-31'::DATE", Comparison("a", Op.EQ, dt.date(2026, 1, 31))),
    ("a > TIMESTAMP '2026-01-31 12:00:00'", Comparison("a", Op.GT, dt.datetime(2026, 1, 31, 12))),
    (
        "a > TIMESTAMPTZ '2026-01-31 12:00:00+02:00'",
        Comparison("a", Op.GT, dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
    ),
    ("a > CAST('2026-01-31' AS TIMESTAMP)", Comparison("a", Op.GT, dt.datetime(2026, 1, 31))),
    ("date > 5 AND timestamp < 3", And((Comparison("date", Op.GT, 5), Comparison("timestamp", Op.LT, 3)))),
    ("a BETWEEN 1 AND 2", Between("a", 1, 2)),
    ("a NOT BETWEEN 1 AND 2", Not(Between("a", 1, 2))),
    ("a BETWEEN 1 AND NULL", And((Comparison("a", Op.GE, 1), Truth(None)))),
    ("a BETWEEN b AND 2", And((AttributeComparison("a", Op.GE, "b"), Comparison("a", Op.LE, 2)))),
    ("a IN (1, 'x', NULL)", InList("a", (1, "x", None))),
    ("a NOT IN (1)", Not(InList("a", (1,)))),
    ("1 IN (a, 1)", Or((Comparison("a", Op.EQ, 1), Truth(True)))),
    ("a IS NULL", IsNull("a")),
    ("a ISNULL", IsNull("a")),
    ("a IS NOT NULL", Not(IsNull("a"))),
    ("5 IS NULL", Truth(False)),
    ("a = NULL", Truth(None)),
    ("a IS NOT DISTINCT FROM 5", IsTruth(A5, True, False)),
    ("a IS DISTINCT FROM 5", Not(IsTruth(A5, True, False))),
    ("a IS NOT DISTINCT FROM NULL", IsNull("a")),
    ("1 < 2", Truth(True)),
    ("'a' = 'b'", Truth(False)),
    ("1 = 'a'", Truth(None)),
    ("NULL", Truth(None)),
    ("high > open", AttributeComparison("high", Op.GT, "open")),
    ("a LIKE 'x%'", Like("a", "x%", None, False)),
    ("a NOT LIKE 'x%'", Not(Like("a", "x%", None, False))),
    ("a ILIKE 'x%' ESCAPE '!'", Like("a", "x%", "!", True)),
    ("a LIKE NULL", Truth(None)),
    ("a = 5 IS TRUE", IsTruth(A5, True, False)),
    ("(a = 5) IS NOT FALSE", Not(IsTruth(A5, False, False))),
    ("a = 5 AND a = 5 AND a = 5", And((A5, A5, A5))),
    ("a = 5 AND (a = 5 AND a = 5)", And((A5, A5, A5))),
    ("a = 5 OR a = 5 AND a = 5", Or((A5, And((A5, A5))))),
    ("array_contains(tags, 'x')", ArrayContains("tags", "x")),
    ("list_contains(tags, 5)", ArrayContains("tags", 5)),
    ("HAS_WORDS(body, 'x y')", HasWords("body", "x y")),
    ("has_phrase(a.body, 'x y')", HasPhrase("a.body", "x y")),
    ("xpath_exists(doc, '/a')", XPathExists("doc", "/a")),
    ("a < ANY (SELECT b FROM history)", Quantified("a", Op.LT, Quantifier.ANY, "b")),
    ("a < SOME (SELECT b FROM history)", Quantified("a", Op.LT, Quantifier.ANY, "b")),
    ("a >= ALL (SELECT h.b AS c FROM history AS h)", Quantified("a", Op.GE, Quantifier.ALL, "b")),
    ("a IN (SELECT b FROM History)", Quantified("a", Op.EQ, Quantifier.ANY, "b")),
    ("a NOT IN (SELECT b FROM history)", Not(Quantified("a", Op.EQ, Quantifier.ANY, "b"))),
    ("EXISTS (SELECT * FROM history)", Exists(())),
    (
        "EXISTS (SELECT 1 FROM history h WHERE h.a = event.b AND event.c < h.d AND e > 5 AND NOT h.f)",
        Exists(
            (
                OldComparedToNew("a", Op.EQ, "b"),
                OldComparedToNew("d", Op.GT, "c"),
                OldComparedToConstant("e", Op.GT, 5),
                OldComparedToConstant("f", Op.NE, True),
            )
        ),
    ),
    (
        "EXISTS (SELECT 1 FROM history WHERE history.a BETWEEN 1 AND event.b AND c IS NOT NULL)",
        Exists(
            (OldComparedToConstant("a", Op.GE, 1), OldComparedToNew("a", Op.LE, "b"), OldIsNull("c", True)),
        ),
    ),
    (
        "EXISTS (SELECT 1 FROM history WHERE event.x LIKE 'p' AND a = 1)",
        And((IsTruth(Like("x", "p", None, False), True, False), Exists((OldComparedToConstant("a", Op.EQ, 1),)))),
    ),
    ("(SELECT count(*) FROM history) > 0", Exists(())),
    ("(SELECT count(*) FROM history) > 5", Aggregated(None, 5, Op.LT, Aggregate.COUNT, None)),
    ("NULL < (SELECT sum(b) FROM history)", Truth(None)),
    (
        "a > (SELECT avg(b) FROM history h WHERE h.c = event.c OR NOT (h.b < 5))",
        Aggregated(
            "a",
            None,
            Op.GT,
            Aggregate.AVG,
            "b",
            ((OldComparedToNew("c", Op.EQ, "c"),), (OldComparedToConstant("b", Op.GE, 5),)),
        ),
    ),
    (
        "a > (SELECT sum(b) FROM history WHERE event.x = 1)",
        Or(
            (
                And((IsTruth(And((X1,)), True, False), Aggregated("a", None, Op.GT, Aggregate.SUM, "b"))),
                And((IsTruth(And((X1,)), True, True), Aggregated("a", None, Op.GT, Aggregate.SUM, "b", ()))),
            )
        ),
    ),
    (
        "a < ALL (SELECT b FROM history WHERE event.x = 1)",
        Or((IsTruth(Comparison("x", Op.EQ, 1), True, True), Quantified("a", Op.LT, Quantifier.ALL, "b"))),
    ),
]


@pytest.mark.parametrize(("text", "condition"), CASES, ids=[text for text, _ in CASES])
def test_parse(text: str, condition: Condition) -> None:
    assert parse(text) == condition
    assert parse(text) == condition, "the second time from the cache"


def test_sqlglot_parses_a_shape_that_the_grammar_declines_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    original = module.template_by_sqlglot

    def note(shape: Shape) -> Template:
        parsed.append(shape.text)
        return original(shape)

    monkeypatch.setattr(module, "_templates", {})
    monkeypatch.setattr(module, "template_by_sqlglot", note)
    assert [parse(f"a < - {i} AND b = 'x{i}'") for i in range(3)] == [
        And((Comparison("a", Op.LT, -i), Comparison("b", Op.EQ, f"x{i}"))) for i in range(3)
    ]
    assert parse("a < - 1 AND b = 2") == And((Comparison("a", Op.LT, -1), Comparison("b", Op.EQ, 2)))
    assert parse("a < 1 AND b = 2") == And((Comparison("a", Op.LT, 1), Comparison("b", Op.EQ, 2)))
    assert parsed == ["a < - 0 AND b = '1'", "a < - 0 AND b = 1"]


def test_a_condition_folded_from_literals_is_not_shared() -> None:
    assert [parse(text) for text in ("1 < 2", "2 < 1", "1 < 2")] == [Truth(True), Truth(False), Truth(True)]


def test_the_cache_forgets_the_shape_that_was_not_used_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    templates: dict[object, object] = {}
    monkeypatch.setattr(module, "_templates", templates)
    monkeypatch.setattr(module, "CACHED_SHAPES", 2)
    for text in ("a = +1", "b = +1", "a = +2", "c = +1"):
        parse(text)
    assert [key[0] for key in templates] == ["a = +\0", "c = +\0"]  # type: ignore[index]


def test_texts_of_one_shape_share_a_tree_and_keep_their_own_constants_and_positions() -> None:
    found = [parse(f"a * {factor} + b > 5") for factor in (10, 200, 10)]
    assert found[0] == found[2] != found[1]
    for factor in ("7", "12345"):
        text = f"a * {factor} > foo(b)"
        with pytest.raises(SubscriptionError) as caught:
            parse(text)
        assert caught.value.position == text.index("foo")


@pytest.mark.parametrize(
    "text",
    ["{} = 1", "x = 1 AND {} LIKE 'a'", "{} IS NULL", "5 < ANY({})", "lower({}) = 'x'", "x > {} + 1", "a.{} IN (1, 2)"],
)
def test_words_of_statements_are_names_in_a_condition(text: str) -> None:
    for word in sorted(NAMES | OPERANDS):
        assert parse(text.format(word.lower())) == parse(text.format(f'"{word.lower()}"')), word
