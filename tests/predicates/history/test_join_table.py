"""The join table against the definition, for every kind of value, retention, and way of bringing events in."""

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.errors import OptionError
from tocsin.model.condition import (
    Aggregate,
    Aggregated,
    Exists,
    HistoryTerm,
    HistoryTest,
    OldComparedToConstant,
    OldComparedToNew,
    OldIsNull,
    Op,
    Quantified,
    Quantifier,
)
from tocsin.model.lookup import lookup
from tocsin.model.totals import compare_to_total
from tocsin.predicates.evaluate import evaluate_test, judge_sign
from tocsin.predicates.history.aggregated_tests import total_of
from tocsin.predicates.history.join_table import JoinTable, attributes_of
from tocsin.predicates.history.store import HistoryStore

Event = Mapping[str, object]
Test = HistoryTest
Truths = Callable[[JoinTable, Event], list[bool | None]]


def build(tests: list[Test], retain: int | None = None) -> JoinTable:
    store = HistoryStore(attributes=attributes_of(tests), retain_events=retain)
    return JoinTable(enumerate(tests), store)


@settings(max_examples=300)
@given(data=st.data(), retain=st.none() | st.integers(1, 4))
def test_every_kind_of_value_and_test(
    data: st.DataObject,
    retain: int | None,
    mixed_events: st.SearchStrategy[list[Event]],
    mixed_tests: st.SearchStrategy[list[Test]],
    truth_of: Truths,
) -> None:
    tests, events = data.draw(mixed_tests), data.draw(mixed_events)
    table = build(tests, retain)
    for number, event in enumerate(events):
        seen = events[max(0, number - retain) if retain else 0 : number]
        expected = [evaluate_test(test, event, seen) for test in tests]
        assert truth_of(table, event) == expected
        for test, truth in zip(tests, expected, strict=True):
            if isinstance(test, Aggregated):
                check_total(table, test, event, truth)
            else:
                check_witness(table, test, event, truth, events)
        table.store.append(event)
        table.store.check()
        for name in table.store.columns:
            table.store.tree(name).check()
            table.store.aggregates(name).check()
        for totals in list(table.store.totals.values()):
            totals.check()


def test_an_old_event_that_satisfies_two_alternatives_counts_once(truth_of: Truths) -> None:
    either = ((OldIsNull("a", True),), (OldComparedToConstant("a", Op.GT, 1),))
    tests: list[Test] = [
        Aggregated(None, 2, Op.EQ, Aggregate.COUNT, None, either),
        Aggregated(None, 7, Op.EQ, Aggregate.SUM, "a", either),
        Aggregated(None, Decimal("3.5"), Op.EQ, Aggregate.AVG, "a", either),
    ]
    table = build(tests)
    for value in (2, 5, None):
        table.store.append({"a": value})
    assert truth_of(table, {}) == [True, True, True]


def check_total(table: JoinTable, test: Aggregated, event: Event, truth: bool | None) -> None:
    """What explain shows is what the test was compared with."""
    total = total_of(test, table.store, event).value(test.aggregate)
    value = test.constant if test.attribute is None else lookup(event, test.attribute)
    assert judge_sign(test.op, compare_to_total(value, total)) is truth


def check_witness(
    table: JoinTable, test: Exists | Quantified, event: Event, truth: bool | None, events: list[Event]
) -> None:
    number = table.witness(test, event)
    if isinstance(test, Quantified) and test.quantifier is Quantifier.ALL:
        assert (number is not None) == (truth is False)
        assert number is None or evaluate_test(test, event, [events[number]]) is False
    else:
        assert (number is not None) == (truth is True)
        assert number is None or evaluate_test(test, event, [events[number]]) is True


NEVER = -1000  # days: older than any age in these tests

TERMS: list[HistoryTerm] = [
    OldComparedToNew("k", Op.EQ, "k"),
    OldComparedToNew("v", Op.LT, "v"),
    OldComparedToNew("v", Op.GE, "w"),
    OldComparedToNew("w", Op.NE, "w"),
    OldIsNull("w", True),
]


@pytest.mark.parametrize("retain", [None, 1500])
def test_a_history_of_many_runs(retain: int | None, truth_of: Truths) -> None:
    """Sorted runs, blocks, compaction, and families of many constants all come into play."""
    random = np.random.default_rng(8)
    tests: list[Test] = [Exists(tuple(TERMS[:2])), Exists(tuple(TERMS[1:4])), Exists(tuple(TERMS))]
    tests += [Exists((TERMS[0], OldComparedToConstant("v", Op.GT, int(c)))) for c in range(-5, 1200, 250)]
    tests += [Exists((TERMS[0], OldComparedToConstant("v", Op.LE, int(c)))) for c in range(-5, 30, 10)]
    tests += [Exists((TERMS[0], OldComparedToConstant("v", op, 3))) for op in Op]
    tests += [Exists((TERMS[0], *(OldComparedToConstant(a, Op.EQ, c) for a in "vw"))) for c in range(3)]
    tests += [Exists((OldComparedToConstant("v", Op.EQ, c),)) for c in range(0, 1200, 400)]
    tests += [Quantified("v", op, q, "v") for op in Op for q in Quantifier]
    tests += [Quantified("v", Op.LT, q, "v", (OldComparedToConstant("k", Op.EQ, c),)) for q in Quantifier for c in "ab"]
    table = build(tests, retain)
    events: list[Event] = [
        {"k": chr(97 + k), "v": v, "w": w if w else None}
        for k, v, w in zip(
            random.zipf(1.5, 6000) % 26,
            random.integers(0, 1000, 6000).tolist(),
            random.integers(0, 50, 6000).tolist(),
            strict=True,
        )
    ]
    probes: list[Event] = [events[0], {"k": "c", "v": 5000, "w": 7}, {"k": "zz", "v": -1}, {}]
    for stop in (0, 500, 1024, 6000):
        start = table.store.next
        if start < stop:
            table.store.append_batch(pa.Table.from_pylist([dict(event) for event in events[start:stop]]))
            table.store.check()
        seen = events[max(0, stop - retain) if retain else 0 : stop]
        for probe in probes:
            assert truth_of(table, probe) == [evaluate_test(test, probe, seen) for test in tests]
    for name in table.store.columns:
        table.store.tree(name).check()
        table.store.aggregates(name).check()


@pytest.mark.parametrize("retain", [None, 40])
def test_aggregates_of_events_chosen_by_constants(retain: int | None, truth_of: Truths) -> None:
    """One event at a time through a sliding window: groups grow, lose their ends, and are empty in between."""
    random = np.random.default_rng(9)
    chosen = [(OldComparedToConstant("k", Op.EQ, c),) for c in "abz"]
    tests: list[Test] = [Quantified("v", op, q, "v", where) for op in Op for q in Quantifier for where in chosen]
    tests.append(Quantified("v", Op.LT, Quantifier.ALL, "v", (OldIsNull("w", True),)))
    table = build(tests, retain)
    events: list[Event] = []
    for number in range(200):
        values = [int(random.integers(0, 30)), float(random.integers(0, 300)) / 10, Decimal("7.3"), "text", None]
        event = {
            "k": str(random.choice(list("aaab" if number < 100 else "bc"))),
            "v": values[int(random.choice(5, p=[0.5, 0.3, 0.14, 0.03, 0.03]))],
            "w": None if random.random() < 0.5 else 1,
        }
        seen = events[-retain:] if retain else events
        assert truth_of(table, event) == [evaluate_test(test, event, seen) for test in tests]
        events.append(event)
        table.store.append(event)


def test_example_5_gives_011() -> None:
    tests = [
        Quantified("price", Op.LT, Quantifier.ANY, "price"),
        Quantified("year", Op.GT, Quantifier.ALL, "year"),
        Quantified("author", Op.EQ, Quantifier.ANY, "author"),
    ]
    store = HistoryStore(attributes=["price", "year", "author"])
    table = JoinTable(enumerate(tests), store)
    store.append({"price": 10, "year": 2000, "author": "Smith"})
    store.append({"price": 25, "year": 1999})
    new = {"price": 30, "year": 2001, "author": "Smith"}
    true = table.probe(new).true
    assert "".join("1" if profile in true else "0" for profile in range(3)) == "011"
    assert table.witness(tests[2], new) == 0, "D1 is by Smith"
    assert table.witness(tests[1], new) is None, "no document breaks ALL"
    assert table.witness(tests[1], {**new, "year": 1999}) in (0, 1), "both are of 1999 or later"


def test_example_3_only_books_not_seen_before() -> None:
    different = Quantified("isbn", Op.NE, Quantifier.ALL, "isbn")
    table = build([different])
    assert table.probe({"isbn": "1"}).true.tolist() == [0], "nothing was received yet"
    table.store.append({"isbn": "1"})
    assert table.probe({"isbn": "1"}).true.tolist() == []
    assert table.probe({"isbn": "2"}).true.tolist() == [0]
    assert table.witness(different, {"isbn": "1"}) == 0
    table.store.append({})
    assert [ids.tolist() for ids in table.probe({"isbn": "2"})] == [[], [0]], "who knows what the second isbn was"


def test_a_table_refuses_a_history_without_its_attributes() -> None:
    with pytest.raises(OptionError, match="does not keep price"):
        JoinTable([(0, Quantified("price", Op.LT, Quantifier.ANY, "price"))], HistoryStore())


@given(st.lists(st.tuples(st.none() | st.integers(0, 20), st.integers(0, 3)), max_size=15), st.integers(0, 5))
def test_retention_by_age_is_a_window_on_the_latest_time(rows: list[tuple[int | None, int]], age: int) -> None:
    store = HistoryStore(attributes=["v"], retain_age=dt.timedelta(days=age), age_attribute="day")
    start = dt.datetime(2020, 1, 1)
    times: list[int] = []
    for number, (day, value) in enumerate(rows):
        store.append({"day": None if day is None else start + dt.timedelta(days=day), "v": value})
        times.append(max([*times[-1:], NEVER if day is None else day]))
        kept = [n for n in range(number + 1) if times[-1] == NEVER or times[n] >= times[-1] - age]
        assert list(range(store.first, store.next)) == kept
