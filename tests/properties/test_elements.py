"""EXISTS on the elements of lists: DuckDB = the reference = the Matcher, however events come."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strategies import elements, events, logic, odd_events
from tocsin import Matcher
from tocsin.language.parse import parse
from tocsin.reference import evaluate

Event = dict[str, Any]
Judge = Callable[..., list[tuple[bool | None, ...]]]

TEXTS = st.lists(logic(elements(), max_leaves=3), min_size=1, max_size=6)


def found_by(matcher: Matcher, given: Any, count: int) -> list[list[bool]]:
    held = {(row["event"], row["subscription"]) for row in matcher.match_batch(given).to_pylist()}
    return [[(row, id) in held for id in matcher] for row in range(count)]


def matcher_of(texts: Sequence[str]) -> Matcher:
    return Matcher.from_table(pa.table({"id": [f"{n:02}" for n in range(len(texts))], "where": texts}))


@given(TEXTS, st.lists(events(), min_size=1, max_size=10))
def test_elements_equal_duckdb(
    judge: Judge, typed: Callable[[Sequence[Event]], pa.Table], texts: list[str], batch: list[Event]
) -> None:
    truths = judge(texts, batch)
    assert [tuple(evaluate(parse(text), event) for text in texts) for event in batch] == truths
    expected = [[truth is True for truth in row] for row in truths]
    matcher = matcher_of(texts)
    assert found_by(matcher, batch, len(batch)) == expected
    assert found_by(matcher, typed(batch), len(batch)) == expected
    for event, row in zip(batch, expected, strict=True):
        assert [id in matcher.match(event).ids for id in matcher] == row
        assert [matcher.explain(event, id).matches for id in matcher] == row


@given(TEXTS, st.lists(odd_events(), min_size=1, max_size=10))
def test_elements_of_any_kind_equal_the_reference(texts: list[str], batch: list[Event]) -> None:
    expected = [[evaluate(parse(text), event) is True for text in texts] for event in batch]
    matcher = matcher_of(texts)
    assert found_by(matcher, batch, len(batch)) == expected
    fresh = Matcher()
    for number, text in enumerate(texts):
        fresh.subscribe(f"{number:02}", text)
    for event, row in zip(batch, expected, strict=True):
        assert [id in matcher.match(event).ids for id in matcher] == row
        assert [id in fresh.match(event).ids for id in fresh] == row
