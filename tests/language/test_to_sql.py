"""Conditions as SQL. DuckDB judges the meaning in tests/properties; here is the form."""

import datetime as dt

import pytest

from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.language.to_sql import to_sql
from tocsin.model.sql_text import constant


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("a < 10 AND NOT b", '("a" < 10 AND (NOT "b" = TRUE))'),
        ("a.b IN (1, NULL)", '"a.b" IN (1, NULL)'),
        ("a BETWEEN -1.50 AND 1e3", '"a" BETWEEN -1.50 AND 1000.0'),
        ("(a = 'it''s') IS NOT TRUE", "(NOT (\"a\" = 'it''s' IS TRUE))"),
        ("a ILIKE 'x$%' ESCAPE '$'", "(\"a\" ILIKE 'x$%' ESCAPE '$')"),
        ("a LIKE 'Xx%XX' ESCAPE 'X'", "(\"a\" LIKE 'Xx%XX' ESCAPE 'X')"),
        ("a < DATE '2026-01-31'", "\"a\" < DATE '2026-01-31'"),
        ("a > ALL (SELECT b FROM history)", '"a" > ALL (SELECT h."b" FROM history h)'),
        (
            "EXISTS (SELECT 1 FROM history WHERE a = event.b AND c IS NULL)",
            'EXISTS (SELECT 1 FROM history h WHERE h."a" = event."b" AND h."c" IS NULL)',
        ),
        ("xpath_exists(doc, '/a')", "xpath_exists(\"doc\", '/a')"),
        ("NULL", "NULL"),
    ],
)
def test_to_sql(text: str, sql: str) -> None:
    assert to_sql(parse(text)) == sql
    assert parse(sql) == parse(text)


def test_texts_stay_calls_if_wanted() -> None:
    condition = parse("has_words(a, 'x y*') OR has_phrase(a, 'x y')")
    assert to_sql(condition, as_written=True) == "(has_words(\"a\", 'x y*') OR has_phrase(\"a\", 'x y'))"
    assert "regexp_matches" in to_sql(condition)


def test_moments_are_written_in_utc() -> None:
    moment = dt.datetime(2026, 1, 31, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert constant(moment) == "TIMESTAMP '2026-01-31 10:00:00'"


def test_a_letter_that_escapes_in_ilike_becomes_a_sign() -> None:
    condition = parse("a ILIKE 'Xx%XX' ESCAPE 'X'")
    assert to_sql(condition) == "(\"a\" ILIKE 'x%x' ESCAPE '\\')"
    assert normalise(parse(to_sql(condition))) == normalise(condition)
