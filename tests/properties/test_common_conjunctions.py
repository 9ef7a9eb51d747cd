"""Blocks of conjunctions that most events satisfy: answers stay those of the reference, and blocks are the work."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import conditions, events, odd_conditions, odd_events
from tocsin import Matcher
from tocsin.language.parse import parse
from tocsin.reference import evaluate
from tocsin.tuning import TUNING

Event = dict[str, Any]


def blocks(share: float = 0.0) -> Any:
    """Blocks of any number of conjunctions that hold for at least this share of events."""
    return patch("tocsin.conjunctions.common.index.TUNING", replace(TUNING, min_common=1, min_common_share=share))


def matcher_of(texts: Sequence[str]) -> Matcher:
    rows = [{"id": str(number), "where": text} for number, text in enumerate(texts)]
    matcher = Matcher.from_table(rows, background_merge=False)
    assert matcher.rejected == []
    return matcher


def by_reference(texts: Sequence[str], batch: Sequence[Event]) -> list[tuple[int, str]]:
    parsed = [(str(number), parse(text)) for number, text in enumerate(texts)]
    return sorted((row, id) for row, event in enumerate(batch) for id, one in parsed if evaluate(one, event) is True)


def found(matcher: Matcher, batch: Sequence[Event]) -> list[tuple[int, str]]:
    return [(row["event"], row["subscription"]) for row in matcher.match_batch(batch).to_pylist()]


def filed(matcher: Matcher) -> int:
    """The conjunctions that are in blocks."""
    blocks = [state.segment.index.found_as_one for state in matcher._subscriptions.current().states]
    return sum(len(each.values) for each in blocks if each is not None)


@given(
    texts=st.lists(conditions() | odd_conditions(), min_size=1, max_size=16),
    batch=st.lists(events() | odd_events(), min_size=2, max_size=6),
    share=st.sampled_from([0.0, 0.3]),
)
def test_answers_are_those_of_the_reference(texts: list[str], batch: list[Event], share: float) -> None:
    with blocks(share):
        matcher = matcher_of(texts)
    for state in matcher._subscriptions.current().states:
        state.segment.check()
    expected = by_reference(texts, batch)
    assert found(matcher, batch) == expected
    for row, event in enumerate(batch):
        assert [(row, id) for id in matcher.match(event).ids] == [pair for pair in expected if pair[0] == row]
        assert matcher.top_k(event, 3).ids == [id for at, id in expected if at == row][:3]


@given(texts=st.lists(conditions(), min_size=3, max_size=16), batch=st.lists(events(), min_size=2, max_size=6))
def test_changes_and_files(tmp_path_factory: pytest.TempPathFactory, texts: list[str], batch: list[Event]) -> None:
    path = tmp_path_factory.mktemp("index")
    with blocks():
        matcher = matcher_of(texts)
        matcher.save(path)
        matcher.close()
    with Matcher.open(path, background_merge=False) as opened, blocks():
        assert found(opened, batch) == by_reference(texts, batch)
        opened.unsubscribe("0")
        opened.subscribe("1", texts[0])
        left = [(row, id) for row, id in by_reference([texts[0], texts[0], *texts[2:]], batch) if id != "0"]
        assert found(opened, batch) == left
        opened.compact()
        assert found(opened, batch) == left


WIDE = [
    *(f"a > {-1 - number}" for number in range(200)),
    *(f"a > {-1 - number} AND b < {900 + number} AND c IS NOT NULL" for number in range(100)),
    *(f"NOT has_words(t, 'word{number}')" for number in range(200)),
    *(f"d IS NULL OR d > {-number}" for number in range(100)),
    "a IS NULL OR a IS NOT NULL",
]
NARROW = [f"a BETWEEN {number / 100} AND {number / 100 + 0.02} AND b > {number}" for number in range(100)]


def event(number: int) -> Event:
    """One of a few kinds: in all cores, with words or values that break them, with NULLs."""
    common: Event = {"a": number % 97 / 100, "b": number % 800, "c": 1, "t": "some text", "d": 5}
    odd: Event = {"a": -150.5, "b": 950, "c": None, "t": f"word{number} word7", "d": -50}
    names = [name for place, name in enumerate(common) if number >> place & 1]
    return common if number % 3 else common | {name: odd[name] for name in names} | ({"t": None} if number % 5 else {})


def test_wide_conditions_are_in_blocks_and_answers_are_right() -> None:
    texts = WIDE + NARROW
    matcher = matcher_of(texts)
    assert filed(matcher) >= 500
    batch = [event(number) for number in range(64)]
    expected = sorted(by_reference(texts, batch))
    assert found(matcher, batch) == expected
    assert [(row, id) for row, one in enumerate(batch) for id in matcher.match(one).ids] == expected
    evidence = matcher.match(batch[1]).evidence
    assert evidence.matches > 500 > 3 * evidence.candidates, "an event in all cores looks at blocks"
    assert "blocks that are found as one" in str(matcher.plan())
