"""Long and deep texts are matched, or refused with a clear error: never a crash, never quadratic."""

import pytest

from tocsin.errors import SubscriptionError
from tocsin.language.bulk import normalise_texts
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.language.to_sql import to_sql
from tocsin.model.predicate import AnyPattern, Ranges
from tocsin.model.predicate import Tested as _Tested
from tocsin.predicates.evaluate import holds
from tocsin.reference import evaluate

N = 5_000


def test_five_thousand_patterns_in_one_or() -> None:
    text = " OR ".join(f"a LIKE '%abc {i} x%'" for i in range(N))
    condition = parse(text)
    ((predicate,),) = normalise(condition).leaves
    assert isinstance(predicate, _Tested)
    assert isinstance(predicate.test, AnyPattern)
    assert len(predicate.test.patterns) == N
    for value, expected in (("... abc 4999 x", True), ("abc 5000 x", False)):
        assert evaluate(condition, {"a": value}) is expected
        assert holds(predicate, {"a": value}) is expected


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        (" OR ".join(f"a = 'v{i}'" for i in range(N)), N),
        ("a IN (" + ", ".join(f"'v{i}'" for i in range(N)) + ")", N),
        (" AND ".join(f"a <> 'v{i}'" for i in range(N)), N + 1),
        (" OR ".join(f"a LIKE 'v{i:05}%'" for i in range(N)), N // 10),
        (" AND ".join(f"a NOT LIKE 'v{i:05}%'" for i in range(N)), N // 10 + 1),
    ],
    ids=["or", "in", "and", "like", "not like"],
)
def test_thousands_of_terms_on_one_attribute_are_one_predicate(text: str, ranges: int) -> None:
    ((predicate,),) = normalise(parse(text)).leaves
    assert isinstance(predicate, Ranges)
    # Ten prefixes that differ in their last digit touch, and are one range.
    assert len(predicate.ranges) == ranges
    assert len(normalise_texts([text] * 2).owner) == 2


def test_thousands_of_attributes() -> None:
    condition = parse(" AND ".join(f"a{i} = {i}" for i in range(N)))
    (conjunction,) = normalise(condition).leaves
    assert len(conjunction) == N
    event = {f"a{i}": i for i in range(N)}
    assert evaluate(condition, event) is True
    assert evaluate(condition, {**event, "a17": 18}) is False
    assert parse(to_sql(condition)) == condition


def test_a_text_of_300_kilobytes() -> None:
    condition = parse("a = '" + "x" * 300_000 + "'")
    assert evaluate(condition, {"a": "x" * 300_000}) is True


REFUSED = {
    "parentheses": "(" * 10_000 + "a = 1" + ")" * 10_000,
    "open parentheses": "(" * 10_000,
    "NOT": "NOT " * 10_000 + "a",
    "signs": "a > " + "- " * 10_000 + "1",
    "CASE": "CASE WHEN " * 10_000 + "a",
    "brackets": "a = " + "[" * 10_000 + "1" + "]" * 10_000,
    "subqueries": "EXISTS (SELECT 1 FROM history WHERE " * 1_000 + "a = 1" + ")" * 1_000,
    "arithmetic": "a > 1" + " + 1" * N,
    "digits": "a > " + "1" * 100_000,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused_clearly(text: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        normalise(parse(text))
    assert caught.value.hint
    assert list(normalise_texts([text, "a = 1"]).errors) == [0]


def test_operators_that_repeat_are_no_depth() -> None:
    condition = parse("a IS NOT TRUE" + " IS NOT TRUE" * 1_000)
    assert evaluate(condition, {"a": True}) is False, "1,001 times no"
    assert evaluate(condition, {"a": False}) is True
    assert len(normalise(condition).leaves) == 1
