"""A Matcher that files what it can in bitmaps equals the reference, with live changes."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies import conditions, events, odd_conditions, odd_events
from tocsin import Matcher
from tocsin.conjunctions import choose
from tocsin.conjunctions.bitmaps import build, match
from tocsin.language.parse import parse
from tocsin.reference import evaluate
from tocsin.tuning import TUNING

Event = dict[str, Any]
Found = set[tuple[int, str]]
SUBSCRIPTIONS = st.lists(conditions(), min_size=1, max_size=12)
EVENTS = st.lists(events(), min_size=1, max_size=6)

SAME_WAY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def by_reference(texts: Sequence[str], batch: Sequence[Event]) -> Found:
    numbered = [(str(number), parse(text)) for number, text in enumerate(texts)]
    return {(row, id) for row, event in enumerate(batch) for id, said in numbered if evaluate(said, event) is True}


def matcher_of(texts: Sequence[str]) -> Matcher:
    return Matcher.from_table(pa.table({"id": list(map(str, range(len(texts)))), "where": list(texts)}))


def found_in(table: pa.Table) -> Found:
    return {(row["event"], row["subscription"]) for row in table.select(["event", "subscription"]).to_pylist()}


@pytest.fixture(autouse=True, params=["as chosen", "dense, marked", "dense, swept, in lists"])
def everything_in_bitmaps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can be in bitmaps is, however few there are; in dense blocks, too."""
    monkeypatch.setattr(choose, "_cheaper", lambda _, __, can_be: can_be)
    if request.param != "as chosen":
        monkeypatch.setattr(build, "TUNING", replace(TUNING, dense_matches=-1.0, min_dense=0, min_named_dense=1))
    if request.param == "dense, swept, in lists":
        monkeypatch.setattr(match, "TUNING", replace(TUNING, sweep_events=1))
        monkeypatch.setattr(choose, "TUNING", replace(TUNING, many_dense=1))


@SAME_WAY
@given(SUBSCRIPTIONS, EVENTS)
def test_events_as_mappings(texts: list[str], batch: list[Event]) -> None:
    matcher = matcher_of(texts)
    expected = by_reference(texts, batch)
    assert found_in(matcher.match_batch(batch)) == expected
    assert {(0, id) for id in matcher.match(batch[0]).ids} == {pair for pair in expected if pair[0] == 0}


@SAME_WAY
@given(st.lists(odd_conditions(), min_size=1, max_size=12), st.lists(odd_events(), min_size=1, max_size=6))
def test_odd_values(texts: list[str], batch: list[Event]) -> None:
    assert found_in(matcher_of(texts).match_batch(batch)) == by_reference(texts, batch)


@SAME_WAY
@given(st.lists(conditions(), min_size=4, max_size=12), st.lists(events(), min_size=1, max_size=4), st.data())
def test_live_changes(texts: list[str], batch: list[Event], data: st.DataObject) -> None:
    """Half of the subscriptions come after a match, some go after it, and `explain` says what matched."""
    matcher = Matcher(background_merge=False)
    half = len(texts) // 2
    for number in range(half):
        matcher.subscribe(str(number), texts[number])
    assert found_in(matcher.match_batch(batch)) == by_reference(texts[:half], batch)
    for number in range(half, len(texts)):
        matcher.subscribe(str(number), texts[number])
    gone = data.draw(st.sets(st.integers(0, len(texts) - 1)))
    for number in gone:
        matcher.unsubscribe(str(number))
    expected = {pair for pair in by_reference(texts, batch) if int(pair[1]) not in gone}
    assert found_in(matcher.match_batch(batch)) == expected
    matcher.compact()
    assert found_in(matcher.match_batch(batch)) == expected


def test_a_plan_says_what_is_in_bitmaps_and_why() -> None:
    matcher = matcher_of([f"a BETWEEN {n} AND {n + 50} AND b < {n}" for n in range(20)])
    plan = str(matcher.plan())
    assert re.search(r"20 conjunctions( that often match)?: in bitmaps: 1 blocks", plan)
    assert "bitmaps on a (number), b (number)" in plan or "bitmaps on b (number), a (number)" in plan
    assert "µs an event by access pairs" in plan


def test_a_saved_index_has_its_bitmaps(tmp_path: object) -> None:
    matcher = matcher_of(["a BETWEEN 1 AND 5 AND b <> 3", "a IS NULL OR b IN (1, 4)"])
    batch = [{"a": 2, "b": 4}, {"b": 3}, {"a": 9, "b": 1}]
    matcher.save(f"{tmp_path}/index")
    opened = Matcher.open(f"{tmp_path}/index", mode="read")
    assert found_in(opened.match_batch(batch)) == {(0, "0"), (0, "1"), (1, "1"), (2, "1")}
