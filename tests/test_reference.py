"""The reference by cases that DuckDB cannot judge: other kinds, missing attributes, XML, and its matcher."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from reference_matcher import ReferenceMatcher
from tocsin.errors import UnknownSubscriptionError
from tocsin.language.parse import parse
from tocsin.reference import evaluate

UTC = dt.UTC


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("a = 1", {}, None),
        ("a = 1", {"a": "1"}, None),
        ("a = 1", {"a": True}, None),
        ("a = 1", {"a": [1]}, None),
        ("a = 1", {"a": float("nan")}, None),
        ("a IS NULL", {"a": float("nan")}, True),
        ("a IS NULL", {"a": []}, False),
        ("a < 1", {"a": float("-inf")}, True),
        ("a = 19.99", {"a": 19.99}, True),
        ("a = 19.99", {"a": Decimal("19.99")}, True),
        ("a = 9007199254740993", {"a": float(2**53)}, False),
        ("a = 9007199254740993", {"a": 2**53 + 1}, True),
        ("a > 9007199254740992.5", {"a": 2**53 + 1}, True),
        ("a = 0.10000000000000001", {"a": 0.1}, False),
        ("a > 0.1", {"a": Decimal("0.1000000000000000001")}, True),
        ("a = b", {"a": 0.1, "b": Decimal("0.1")}, True),
        ("a > b", {"a": "x", "b": 1}, None),
        ("a = DATE '2026-01-31'", {"a": dt.datetime(2026, 1, 31)}, True),
        ("a = DATE '2026-01-31'", {"a": dt.datetime(2026, 1, 31, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))}, True),
        ("a < TIMESTAMP '2026-01-31 00:00:00'", {"a": dt.date(2026, 1, 30)}, True),
        ("a = '2026-01-31'", {"a": dt.date(2026, 1, 31)}, True),
        ("a = 'yesterday'", {"a": dt.date(2026, 1, 31)}, None),
        ("user.name = 'Ada'", {"user": {"name": "Ada"}}, True),
        ("user.name = 'Ada'", {"user.name": "Ada", "user": {"name": "Bob"}}, True),
        ("a.b.c = 1", {"a": {"b.c": 1}}, True),
        ("a.b = 1", {"a": 5}, None),
        ("array_contains(tags, 'x')", {"tags": ["y", None, "x"]}, True),
        ("array_contains(tags, 'x')", {"tags": [1, None]}, False),
        ("array_contains(tags, 'x')", {"tags": "x"}, None),
        ("has_words(body, 'STRASSE')", {"body": "Die Straße."}, True),
        ("has_words(body, 'x')", {"body": 5}, None),
        ("NOT has_words(body, 'x')", {}, None),
        ("has_phrase(body, 'new york')", {"body": "York, New York"}, True),
        ("s LIKE '_'", {"s": "\U0001f600"}, True),
        ("s LIKE 'a'", {"s": 5}, None),
        ("xpath_exists(doc, '/a/b')", {"doc": "<a><b/></a>"}, True),
        ("xpath_exists(doc, '/a/c')", {"doc": "<a><b/></a>"}, False),
        ("xpath_exists(doc, '/a')", {"doc": "<a>"}, None),
        ("xpath_exists(doc, '/a')", {}, None),
    ],
)
def test_evaluate(text: str, event: dict[str, Any], expected: bool | None) -> None:
    assert evaluate(parse(text), event) is expected


HISTORY: list[dict[str, Any]] = [{"price": 10, "author": "Smith"}, {"price": None, "author": "Jones"}, {"price": 30}]


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("price < ANY (SELECT price FROM history)", {"price": 20}, True),
        ("price > ANY (SELECT price FROM history)", {"price": 5}, None),
        ("price < ALL (SELECT price FROM history)", {"price": 5}, None),
        ("price < ALL (SELECT price FROM history)", {"price": 20}, False),
        ("price < ALL (SELECT price FROM history WHERE price IS NOT NULL)", {"price": 5}, True),
        ("price < ALL (SELECT price FROM history WHERE author = 'Nobody')", {}, True),
        ("price < ANY (SELECT price FROM history WHERE author = 'Nobody')", {}, False),
        ("price IN (SELECT price FROM history)", {"price": 30}, True),
        ("EXISTS (SELECT 1 FROM history h WHERE h.author = event.author)", {"author": "Jones"}, True),
        ("EXISTS (SELECT 1 FROM history h WHERE h.author = event.author)", {}, False),
        (
            "EXISTS (SELECT 1 FROM history h WHERE h.author = event.author AND event.price < h.price)",
            {"author": "Smith", "price": 9},
            True,
        ),
        ("EXISTS (SELECT 1 FROM history WHERE price = NULL)", {}, False),
        ("price < ALL (SELECT price FROM history WHERE price = NULL)", {"price": 99}, True),
    ],
)
def test_history(text: str, event: dict[str, Any], expected: bool | None) -> None:
    assert evaluate(parse(text), event, HISTORY) is expected


def test_matcher() -> None:
    matcher = ReferenceMatcher()
    matcher.subscribe("cheap", "price < 10")
    matcher.subscribe("lower", "price < ALL (SELECT price FROM history)", score=2.0)
    assert (list(matcher), len(matcher), "cheap" in matcher) == (["cheap", "lower"], 2, True)
    assert matcher.match({"price": 5}) == [("cheap", 1.0), ("lower", 2.0)]
    assert matcher.publish({"price": 5}) == [("cheap", 1.0), ("lower", 2.0)]
    assert matcher.match({"price": 6}) == [("cheap", 1.0)], "publish remembers, match does not"
    matcher.rescore("cheap", 3.0)
    assert matcher.match({"price": 6}) == [("cheap", 3.0)]
    matcher.subscribe("cheap", "price > 100")
    assert matcher.match({"price": 101}) == [("cheap", 1.0)], "an id is replaced"
    matcher.unsubscribe("cheap")
    assert matcher.match({"price": 101}) == []
    with pytest.raises(UnknownSubscriptionError, match="cheap"):
        matcher.unsubscribe("cheap")
    with pytest.raises(UnknownSubscriptionError, match="cheap"):
        matcher.rescore("cheap", 1.0)
