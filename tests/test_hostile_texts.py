"""Texts made to be slow: refused before they are parsed, by a limit that says how to raise it, or answered rightly.

What is accepted is judged on an event that it was made for, and on one that lacks one thing, by a single match, in a
batch and by `explain`. The sizes are those at which a quadratic step takes longer than the whole run.
"""

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from by_duckdb import judge
from tocsin import Limits, Matcher, SubscriptionError
from tocsin.index import fresh_rows
from tocsin.index.buffer import FEW_TESTS
from tocsin.index.options import Options
from tocsin.language.shape import split
from tocsin.language.shape_plan import MAX_BOUNDS, Plans
from tocsin.model import text
from tocsin.predicates import evaluate

REFUSED = {
    "a chain of ANDs of 10 MB": " AND ".join(["a > 1"] * 1_000_000),
    "100,000 ANDs on distinct attributes": " AND ".join(f"z{number} = 1" for number in range(100_000)),
    "100,000 ORs on one attribute": " OR ".join(f"a = {number}" for number in range(100_000)),
    "an IN list of 1,000,000": f"a IN ({', '.join(map(str, range(1_000_000)))})",
    "has_words with 1,000,000 words": f"has_words(t, '{'word ' * 1_000_000}')",
    "a LIKE pattern of 9 MB": f"t LIKE '{'ab%' * 3_000_000}'",
    "4,096 conjunctions of 100 predicates each": " OR ".join(
        "(" + " AND ".join(f"p{(31 * row + k) % 3000} = {k}" for k in range(100)) + ")" for row in range(4096)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_text_beyond_the_limits_is_refused_before_it_is_parsed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(Options, "normalise_one", never)
    with pytest.raises(SubscriptionError, match=r"at most 1,000,000 .* raise the limit: Limits\(text_bytes=\.\.\.\)"):
        Matcher().subscribe("a", REFUSED[name])


LONG_STRINGS = {
    "a LIKE pattern of 1 MB": f"t LIKE '{'ab%' * 330_000}'",
    "has_words with 120,000 words": f"has_words(t, '{' '.join(f'w{number}' for number in range(120_000))}')",
}


@pytest.mark.parametrize("name", LONG_STRINGS)
def test_a_long_string_is_refused_before_it_is_parsed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Options, "normalise_one", Mock(side_effect=AssertionError("it was parsed")))
    with pytest.raises(SubscriptionError, match=r"at most 100,000 .* raise the limit: Limits\(string_bytes=\.\.\.\)"):
        Matcher().subscribe("a", LONG_STRINGS[name])


TOO_MANY = {
    "120,000 predicates": " AND ".join(["a>1"] * 120_000),
    "65,000 distinct attributes": " AND ".join(f"z{number} = 1" for number in range(65_000)),
}


@pytest.mark.parametrize("count", TOO_MANY)
def test_too_many_predicates_or_attributes_are_refused_when_they_are_counted(count: str) -> None:
    name = count.split()[-1]
    with pytest.raises(SubscriptionError, match=rf"{count}.*raise the limit: Limits\({name}=\.\.\.\)"):
        Matcher().subscribe("a", TOO_MANY[count])


@pytest.mark.parametrize("operator", ["<", "<>"])
def test_a_long_text_is_not_planned_clause_by_clause(operator: str) -> None:
    # Bounds on one column were joined one by one, and each join remembered: 20,000 took 3 GB.
    texts = [" AND ".join(f"a {operator} {number + more}" for number in range(2_000)) for more in range(4)]
    matcher, plans = Matcher(), Plans({})
    assert matcher.subscribe_many([{"id": str(n), "where": where} for n, where in enumerate(texts)]) == []
    assert matcher.match({"a": -1}).ids == ["0", "1", "2", "3"]
    assert plans.of_clauses(split(texts[0]), False) is None
    joined = plans.of_clauses(split(" AND ".join(f"a < {number}" for number in range(MAX_BOUNDS))), False)
    assert joined is not None
    [(part, _, _)], _ = joined
    assert len(part.bounds) == MAX_BOUNDS
    assert plans.of_clauses(split(" AND ".join(f"a < {number}" for number in range(MAX_BOUNDS + 1))), False) is None


def test_a_million_tags_are_refused() -> None:
    with pytest.raises(SubscriptionError, match=r"1,000,000 tags.*raise the limit: Limits\(tags=\.\.\.\)"):
        Matcher().subscribe("a", "a > 1", tags={str(number): "x" for number in range(1_000_000)})


def ones(letter: str, count: int) -> dict[str, int]:
    return {f"{letter}{number}": 1 for number in range(count)}


WORDS = " ".join(f"w{number}" for number in range(10_000))
PHRASES = " AND ".join(f"has_phrase(t, 'w{number} x')" for number in range(1_000))
SHARED = " AND ".join(f"z{number} > 0" for number in range(300))
TEN_EACH = " OR ".join(
    "(" + " AND ".join(f"p{(31 * row + k) % 3000} = {k}" for k in range(10)) + ")" for row in range(4096)
)
ACCEPTED: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "a product of 12 ORs, 300 predicates shared by 4,096 conjunctions": (
        " AND ".join(f"(x{number} = 1 OR y{number} = 1)" for number in range(12)) + " AND " + SHARED,
        {**ones("x", 11), "y11": 1, **ones("z", 300)},
        {**ones("x", 12), **ones("z", 300), "z299": 0},
    ),
    "1,000 conjunctions that share 300 predicates": (
        " OR ".join("(" + " AND ".join(f"p{(7 * row + k) % 300} = 1" for k in range(5)) + ")" for row in range(1000)),
        {f"p{number}": 1 for number in range(140, 145)},
        {f"p{number}": 1 for number in range(0, 300, 2)},
    ),
    "4,096 conjunctions of 10": (TEN_EACH, {f"p{31 + k}": k for k in range(10)}, {f"p{31 + k}": k for k in range(9)}),
    "a chain of ANDs": (" AND ".join(["a > 1"] * 10_000), {"a": 2}, {"a": 1}),
    "ANDs on distinct attributes": (
        " AND ".join(f"z{number} = 1" for number in range(3_000)),
        ones("z", 3_000),
        ones("z", 2_999),
    ),
    "ORs on one attribute": (" OR ".join(f"a = {number}" for number in range(5_000)), {"a": 4_999}, {"a": 5_000}),
    "an IN list": (f"a IN ({', '.join(map(str, range(0, 60_000, 2)))})", {"a": 59_998}, {"a": 59_997}),
    "words": (f"has_words(t, '{WORDS}')", {"t": WORDS}, {"t": WORDS[:-6]}),
    "starts of words": (
        f"has_words(t, '{' '.join(f'w{number}*' for number in range(3_000))}')",
        {"t": " ".join(f"w{number}y" for number in range(3_000))},
        {"t": " ".join(f"w{number}y" for number in range(2_999))},
    ),
    "phrases": (
        PHRASES,
        {"t": " ".join(f"w{number} x" for number in range(1_000))},
        {"t": " ".join(f"w{number} x" for number in range(999)) + " w999"},
    ),
    "a LIKE pattern of many parts": (f"t LIKE '{'ab%' * 5_000}'", {"t": "ab-" * 5_000}, {"t": "ab-" * 4_999}),
    "a LIKE pattern that would backtrack": (
        f"t LIKE '{'%(a_)' * 10_000}'",
        {"t": "(ab)" * 10_000},
        {"t": "(a" * 50_000},
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_text_within_the_limits_is_answered_rightly(name: str) -> None:
    where, right, lacking = ACCEPTED[name]
    matcher = Matcher()
    matcher.subscribe("a", where)
    assert [matcher.match(event).ids for event in (right, lacking)] == [["a"], []]
    assert matcher.match_batch([lacking, right, lacking])["event"].to_pylist() == [1]
    assert [matcher.match(event).ids for event in (right, lacking)] == [["a"], []]
    assert [matcher.explain(event, "a").matches for event in (right, lacking)] == [True, False]


def test_many_predicates_of_one_condition_are_not_judged_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Mock(wraps=evaluate.holds)
    monkeypatch.setattr(fresh_rows, "holds", judged)
    for count in (FEW_TESTS, FEW_TESTS + 1):
        matcher = Matcher()
        matcher.subscribe("a", " AND ".join(f"has_phrase(t, 'w{number} x')" for number in range(count)))
        assert matcher.match({"t": " ".join(f"w{number} x" for number in range(count))}).ids == ["a"]
    assert judged.call_count == FEW_TESTS


def test_a_text_is_split_into_words_once(monkeypatch: pytest.MonkeyPatch) -> None:
    split = Mock(wraps=text.tokens)
    monkeypatch.setattr(text, "tokens", split)
    matcher = Matcher()
    matcher.subscribe("a", "has_words(t, 'one two three four five six seven')")
    assert matcher.explain({"t": "seven six five four three two one, once"}, "a").matches
    split.assert_called_once()


def test_an_in_list_beyond_a_raised_limit_is_answered_rightly() -> None:
    where = f"a IN ({','.join(map(str, range(0, 4000, 2)))})"
    with pytest.raises(SubscriptionError, match=r"2,000 items, and at most 1,000.*Limits\(list_items=\.\.\.\)"):
        Matcher(limits=Limits(list_items=1_000)).subscribe("a", where)
    matcher = Matcher(limits=Limits(list_items=2_000))
    matcher.subscribe("a", where)
    assert matcher.match_batch([{"a": number} for number in range(4100)])["event"].to_pylist() == [*range(0, 4000, 2)]


@pytest.mark.parametrize(("pattern", "escape"), [("A", "a"), ("aA%", "A"), ("Aba_", "a"), ("%a%B", "a"), ("Ba%", "a")])
def test_the_escape_of_ilike_may_be_a_letter(pattern: str, escape: str) -> None:
    """DuckDB folds the pattern before it looks for the escape, so that it is asked with an escape that has no case."""
    values = ["A", "a", "a%", "A%", "Ab_", "ab_", "abc", "%b", "x%B", "b%", "B%", "", "ba"]
    matcher = Matcher()
    matcher.subscribe("a", f"s ILIKE '{pattern}' ESCAPE '{escape}'")
    found = set(matcher.match_batch([{"s": value} for value in values])["event"].to_pylist())
    condition = f"s ILIKE '{pattern.replace(escape, '$')}' ESCAPE '$'"
    expected = [truth for (truth,) in judge([condition], [{"s": value} for value in values])]
    assert [number in found for number in range(len(values))] == expected
    assert True in expected
