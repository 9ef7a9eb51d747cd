"""The most expensive subscriptions are named, each with its share of the time of an event."""

from typing import Any

import pytest

from tocsin import Matcher
from tocsin.index.work import EVERY, FIRST_AFTER, SAMPLE

SELECTIVE = [f"a BETWEEN {number} AND {number + 1} AND b = {number % 7}" for number in range(200)]


def matcher_of(*expensive: str) -> Matcher:
    rows = [{"id": f"s{number}", "where": text} for number, text in enumerate(SELECTIVE)]
    rows += [{"id": f"x{number}", "where": text} for number, text in enumerate(expensive)]
    return Matcher.from_table(rows, background_merge=False)


def events(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"a": number % 200, "b": number % 7, **more} for number in range(count)]


def test_one_that_matches_every_event_is_named_first() -> None:
    matcher = matcher_of("b >= 0 OR b < 0")
    matcher.match_batch(events(FIRST_AFTER - 1))
    assert matcher.stats().expensive == {}
    assert "most expensive" not in str(matcher.plan())
    matcher.match_batch(events(2))
    stats = matcher.stats()
    assert next(iter(stats.expensive)) == "x0"
    assert stats.measured_events == 2
    assert "the most expensive subscriptions: x0" in str(matcher.plan())
    matcher.match_batch(events(2 * FIRST_AFTER))
    assert matcher.stats().measured_events == 2 + SAMPLE


def test_one_with_an_expensive_test_is_named_first() -> None:
    """It matches nothing, and its texts take most of the time."""
    matcher = matcher_of("regexp_matches(t, '(x+x+)+y')", "a > -1")
    matcher.match_batch(events(FIRST_AFTER, t="x" * 20_000))
    expensive = matcher.stats().expensive
    assert next(iter(expensive)) == "x0"
    assert sum(expensive.values()) <= 1.0 + 1e-9


def test_one_that_looks_back_is_named_first() -> None:
    matcher = matcher_of("a > ALL (SELECT a FROM history)")
    for _ in range(0, 2 * FIRST_AFTER, SAMPLE):
        matcher.publish_batch(events(SAMPLE))
    assert next(iter(matcher.stats().expensive)) == "x0"


def test_single_events_are_measured_and_what_is_dropped_is_not_named() -> None:
    matcher = matcher_of("a >= 0", "b >= 0", "NOT has_words(t, 'word')")
    for event in events(FIRST_AFTER, t="some text"):
        matcher.match(event)
    assert set(list(matcher.stats().expensive)[:3]) == {"x0", "x1", "x2"}
    matcher.unsubscribe("x0")
    assert "x0" not in matcher.stats().expensive


def test_samples_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = matcher_of()
    [state] = matcher._subscriptions.current().states
    taken: list[int] = []
    monkeypatch.setattr(type(state.work), "_measure", lambda *_: taken.append(state.work._next))
    for _ in range(200):
        matcher.match_batch(events(FIRST_AFTER))
    assert taken == [2 * FIRST_AFTER << step for step in range(8) if 2 * FIRST_AFTER << step <= EVERY][: len(taken)]
    assert len(taken) <= 8
