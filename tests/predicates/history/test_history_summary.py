"""Summaries: parts, merged in any grouping, restore a history on which tests have the truth they have on all."""

import datetime as dt
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import OptionError
from tocsin.model.condition import Exists, HistoryTest, OldComparedToConstant, Op, Quantified, Quantifier
from tocsin.predicates.history.join_table import JoinTable, attributes_of
from tocsin.predicates.history.store import HistoryStore
from tocsin.predicates.history.summary import merge, restore, summarise

Event = Mapping[str, object]
Test = HistoryTest
Truths = Callable[[JoinTable, Event], list[bool | None]]


def part(events: list[Event], tests: list[Test], retain: int | None = None) -> bytes:
    store = HistoryStore(attributes=attributes_of(tests), retain_events=retain)
    for event in events:
        store.append(event)
    return summarise(store, tests)


@given(data=st.data(), only_simple=st.booleans(), retain=st.none() | st.integers(1, 5))
def test_merged_parts_are_the_whole(
    data: st.DataObject,
    only_simple: bool,
    retain: int | None,
    mixed_events: st.SearchStrategy[list[Event]],
    mixed_tests: st.SearchStrategy[list[Test]],
    truth_of: Truths,
) -> None:
    tests = data.draw(mixed_tests)
    if only_simple:
        tests = [test for test in tests if len(test.terms) <= isinstance(test, Exists)]
    events, probes = data.draw(mixed_events), data.draw(mixed_events)
    cut, again = sorted((data.draw(st.integers(0, len(events))), data.draw(st.integers(0, len(events)))))
    a, b, c = (part(stretch, tests, retain) for stretch in (events[:cut], events[cut:again], events[again:]))
    whole = HistoryStore(attributes=attributes_of(tests), retain_events=retain)
    for event in events:
        whole.append(event)
    expected = JoinTable(enumerate(tests), whole)
    left, right = merge(merge(a, b), c), merge(a, merge(b, c))
    assert left == right, "merging is associative"
    for summary in (left, summarise(whole, tests)):
        table = JoinTable(enumerate(tests), restore(summary))
        for probe in probes:
            assert truth_of(table, probe) == truth_of(expected, probe)


def test_simple_tests_need_few_events() -> None:
    events: list[Event] = [{"v": number % 100, "w": number} for number in range(5000)]
    ordered: list[Test] = [Quantified("v", Op.LT, Quantifier.ANY, "v"), Quantified("w", Op.NE, Quantifier.ANY, "w")]
    assert len(restore(part(events, ordered))) == 3, (
        "the first is least in v and w; the greatest of v; the greatest of w"
    )
    unseen: list[Test] = [Quantified("v", Op.NE, Quantifier.ALL, "v")]
    assert len(restore(part(events, unseen))) == 100, "one for each value of v"
    both: list[Test] = [Exists((OldComparedToConstant("v", Op.EQ, 1), OldComparedToConstant("w", Op.GT, 1)))]
    assert len(restore(part(events, both))) == 5000, "a conjunction needs the columns themselves"


def test_age_is_applied_when_restored() -> None:
    tests: list[Test] = [Quantified("v", Op.EQ, Quantifier.ANY, "v", (OldComparedToConstant("day", Op.GT, 0),))]
    parts = [part([{"day": day, "v": day}], tests) for day in (9, 1, 12)]
    store = restore(merge(merge(parts[0], parts[1]), parts[2]), retain_age=3, age_attribute="day")
    assert [store.old_event(number)["v"] for number in range(store.first, store.next)] == [9, 1, 12]
    store = restore(merge(merge(parts[0], parts[1]), parts[2]), retain_age=2, age_attribute="day")
    assert [store.old_event(number)["v"] for number in range(store.first, store.next)] == [12]
    aged = HistoryStore(attributes=["v"], retain_age=dt.timedelta(1), age_attribute="at")
    with pytest.raises(OptionError, match="retain_age cannot be summarised"):
        summarise(aged, [])
