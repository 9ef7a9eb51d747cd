"""Relaxed top-k by ranked indexes equals its definition, whatever else stands in the segment."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranked_by_the_book import ATTRIBUTES, Event, as_row, best, relaxed_scores, rows_of
from tocsin import Matcher, Subscription
from tocsin.papers.ranked import range_rows
from tocsin.ranking import relaxed as weighing
from tocsin.ranking.question import ScoreBy

WHERE = st.sampled_from(
    [
        *("i > 2 AND j < 5", "i BETWEEN 1 AND 4", "j = 3 AND d >= 2 AND i < 6", "d < 5", "s = 'a' AND i > 0"),
        *("i = 1 OR j = 2", "i <> 3", "s LIKE '%a%' AND j > 1", "i IS NULL", "TRUE", "i > 5 AND i < 2", "s > 'a'"),
    ]
)
WEIGHTS = st.dictionaries(st.sampled_from(ATTRIBUTES[:4]), st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.3, -0.5]), max_size=3)
TAGS = st.sampled_from([{"tenant": "acme"}, {"tenant": "zeta"}])
NUMBERS = st.integers(0, 7) | st.none()
EVENTS = st.fixed_dictionaries({"i": NUMBERS, "j": NUMBERS, "d": NUMBERS, "s": st.sampled_from(["a", "ab", None])})
SCORE_BY = st.sampled_from(["sum", "max", {"i": 2.0, "d": 0.3}])


@pytest.fixture(scope="module", autouse=True)
def indexes_at_once() -> Iterator[None]:
    """Ask the indexes from the first event on, however many columns and predicates there are."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("FEW_COLUMNS", 99), ("LARGE", 0), ("MANY", 0)):
            patch.setattr(weighing, name, value)
        patch.setattr(range_rows, "prefer_counting", lambda *_: False)
        yield


def made_of(rows: list[tuple[str, dict[str, float], dict[str, str]]]) -> tuple[Matcher, list[Subscription]]:
    # The order of ids is not the order of numbers.
    subscriptions = [
        Subscription(f"s{place * 7 % 31:02}", where, 1.0, weights, tags)
        for place, (where, weights, tags) in enumerate(rows)
    ]
    table = pa.Table.from_pylist([as_row(subscription) for subscription in subscriptions])
    return Matcher.from_table(table), subscriptions


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(WHERE, WEIGHTS, TAGS), min_size=1, max_size=20),
    st.lists(EVENTS, min_size=1, max_size=3),
    st.sampled_from([0, 1, 4, 50]),
    SCORE_BY,
    st.integers(0, 3),
)
def test_indexes_equal_the_definition(
    rows: list[tuple[str, dict[str, float], dict[str, str]]], batch: list[Event], k: int, score_by: ScoreBy, drops: int
) -> None:
    matcher, subscriptions = made_of(rows)
    for dropped in subscriptions[:drops]:
        matcher.unsubscribe(dropped.id)
    standing = subscriptions[drops:]
    for event in batch:
        found = matcher.top_k(event, k, mode="relaxed", score_by=score_by)
        assert list(found) == best(relaxed_scores(standing, event, score_by), k)
    table = matcher.match_batch(batch, tags={"tenant": "acme"}, top_k=k, mode="relaxed")
    acme = [subscription for subscription in standing if subscription.tags == {"tenant": "acme"}]
    assert rows_of(table, len(batch)) == [best(relaxed_scores(acme, event), k) for event in batch]


def test_indexes_hold_single_ranges_only() -> None:
    given_: list[tuple[str, dict[str, float], dict[str, str]]] = [
        ("i > 2 AND j < 5", {}, {}),
        ("i = 1 OR j = 2", {}, {}),
        ("i <> 3", {}, {}),
        ("s LIKE '%a%'", {}, {}),
        ("i > 1", {"i": -1.0}, {}),
        ("s = 'a'", {"s": 2.0}, {}),
    ]
    matcher, subscriptions = made_of(given_)
    event: Mapping[str, Any] = {"i": 3, "s": "a"}
    assert list(matcher.top_k(event, 2, mode="relaxed")) == best(relaxed_scores(subscriptions, dict(event)), 2)
    weights = matcher._subscriptions.current().states[0].ranking.weights()
    [rows] = weights._range_rows.values()
    chosen = [id for id, is_chosen in zip(matcher, rows.chosen.tolist(), strict=True) if is_chosen]
    assert chosen == sorted([subscriptions[0].id, subscriptions[5].id])
