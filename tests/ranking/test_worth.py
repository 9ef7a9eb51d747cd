"""`UTILITY(condition, number)`: the score of a match is that of the best alternative that holds, by its definition."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.parse import parse
from tocsin.language.utility import alternatives_of
from tocsin.reference import evaluate

EVENTS: list[dict[str, Any]] = [
    {"a": 1, "b": 3},
    {"a": 1},
    {"b": 3, "c": "UTILITY(x, 1)"},
    {"a": None, "b": 2, "tags": ["red"]},
    {"a": 5, "b": 5, "body": "a new bell rings"},
    {},
]
CONDITIONS = (
    "a = 1", "a > 0", "b = 3", "b BETWEEN 2 AND 4", "a IS NULL", "NOT (a = 1 OR b = 3)", "c = 'UTILITY(x, 1)'",
    "array_contains(tags, 'red')", "has_words(body, 'bell rings')", "a = 1 AND b = 3", "a < b", "c LIKE '%(x, 1)'",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "0.5", " 1e2 ", "10")

Parts = list[tuple[str, str | None]]
parts_of = st.lists(
    st.tuples(st.sampled_from(CONDITIONS), st.one_of(st.none(), st.sampled_from(NUMBERS))), min_size=1, max_size=4
)
subscriptions_of = st.lists(st.tuples(parts_of, st.sampled_from([1.0, 3.0, -2.0])), min_size=1, max_size=6)


def written(parts: Parts) -> str:
    return " OR ".join(one if utility is None else f"UTILITY({one},{utility})" for one, utility in parts)


def worth(parts: Parts, score: float, event: dict[str, Any]) -> float | None:
    """The definition: the greatest utility of the alternatives that are TRUE, times the score; None: none is."""
    held = [float(utility or 1) for one, utility in parts if evaluate(parse(one), event) is True]
    return max(held) * score if held else None


def expected(said: Sequence[tuple[Parts, float]], event: dict[str, Any]) -> dict[str, float]:
    scores = {f"s{number}": worth(parts, score, event) for number, (parts, score) in enumerate(said)}
    return {id: score for id, score in scores.items() if score is not None}


def matcher_of(said: Sequence[tuple[Parts, float]], way: str, folder: Path) -> Matcher:
    rows: list[dict[str, Any]] = [
        {"id": f"s{n}", "where": written(parts), "score": score} for n, (parts, score) in enumerate(said)
    ]
    matcher = Matcher(background_merge=False, matcher="reference" if way == "reference" else "auto")
    if way == "one by one":
        for row in rows:
            matcher.subscribe(row["id"], row["where"], row["score"])
    elif way == "segments":
        for row in rows:
            matcher.subscribe_many([row])
            matcher.match_batch(EVENTS[:1])
    else:
        assert matcher.subscribe_many(rows) == []
    if way == "opened":
        matcher.save(folder / "index")
        return Matcher.open(folder / "index", mode="read")
    return matcher


@pytest.mark.parametrize("way", ["one by one", "segments", "at once", "opened", "reference"])
@settings(max_examples=10)
@given(said=subscriptions_of)
def test_scores_are_those_of_the_definition(
    said: list[tuple[Parts, float]], way: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with matcher_of(said, way, tmp_path_factory.mktemp("worth")) as matcher:
        table = matcher.match_batch(EVENTS)
        rows = list(zip(*(table[name].to_pylist() for name in ("event", "subscription", "score")), strict=True))
        assert rows == sorted(rows, key=lambda row: row[:2])
        for number, event in enumerate(EVENTS):
            wanted = expected(said, event)
            assert {id: score for row, id, score in rows if row == number} == wanted
            assert dict(matcher.match(event)) == wanted
            best = sorted(wanted.items(), key=lambda one: (-one[1], one[0]))
            for k in (1, 2, 10):
                assert list(matcher.top_k(event, k)) == best[:k]
                assert list(matcher.top_k(event, k, score_by="2 * score")) == [(id, 2 * s) for id, s in best[:k]]
            assert list(matcher.top_k(event, 3, index="ir-tree")) == best[:3]


def test_utilities_follow_rescoring_dropping_and_merges(tmp_path: Path) -> None:
    matcher = Matcher(background_merge=False)
    text = "UTILITY(a = 1, 2) OR UTILITY(b = 3, 5)"
    matcher.subscribe_many([{"id": f"s{number}", "where": text, "score": number + 1.0} for number in range(4)])
    matcher.rescore("s0", 10.0)
    matcher.unsubscribe("s1")
    assert dict(matcher.match({"a": 1})) == {"s0": 20.0, "s2": 6.0, "s3": 8.0}
    matcher.save(tmp_path / "index")
    matcher.subscribe("s4", "a = 1 AND b = 3")
    matcher.compact()
    assert list(matcher.top_k({"a": 1, "b": 3}, 3)) == [("s0", 50.0), ("s3", 20.0), ("s2", 15.0)]
    matcher.close()


def test_an_interval_counts_the_greatest_utility() -> None:
    matcher = Matcher()
    matcher.subscribe("s", "UTILITY(a < 10, 2) OR UTILITY(a > 15, 5)")
    assert list(matcher.top_k({"a": [1, 3]}, 1)) == [("s", 5.0)]
    assert list(matcher.top_k({"a": 1}, 1)) == [("s", 2.0)]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("UTILITY(a = 1, 2) AND b = 3", 0),
        ("b = 3 OR NOT UTILITY(a = 1, 2)", 13),
        ("(UTILITY(a = 1, 2) OR b = 3)", 1),
        ("UTILITY(a = 1)", 0),
        ("UTILITY(a = 1, -2)", 0),
        ("UTILITY(a = 1, b)", 0),
        ("UTILITY(a = 1, 1e999)", 0),
        ("UTILITY(a = 1, 2", 0),
        ("b = 3 OR UTILITY(a = , 2)", None),
        ("UTILITY(a > ALL (SELECT a FROM history), 2) OR b = 3", None),
    ],
)
def test_what_utility_cannot_mean_is_refused(text: str, position: int | None) -> None:
    matcher = Matcher()
    with pytest.raises(SubscriptionError) as caught:
        matcher.subscribe("s", text)
    assert position is None or caught.value.position == position
    [error] = matcher.subscribe_many([{"id": "s", "where": text}])
    assert error.subscription == "s"


def test_an_attribute_and_a_text_may_be_called_utility() -> None:
    matcher = Matcher()
    matcher.subscribe("s", "utility > 3 OR \"UTILITY(\" = 1 OR c = 'UTILITY('")
    assert matcher.match({"utility": 4}).ids == ["s"]
    assert matcher.match({"UTILITY(": 1}).ids == matcher.match({"c": "UTILITY("}).ids == ["s"]


def test_a_case_and_a_comment_are_not_cut() -> None:
    text = "CASE WHEN a = 1 OR b = 3 THEN 1 ELSE 0 END = 1 OR /* OR UTILITY( */ UTILITY(a = 5, 3)"
    assert [one.utility for one in alternatives_of(text.replace("/* OR UTILITY( */", ""))] == [1.0, 3.0]
    assert np.isclose(dict(_match(text.replace("/* OR UTILITY( */", ""), {"a": 5}))["s"], 3.0)


def _match(text: str, event: dict[str, Any]) -> Any:
    matcher = Matcher()
    matcher.subscribe("s", text)
    return matcher.match(event)
