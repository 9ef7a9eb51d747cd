"""Pre-filtering: the table of implied constraints, entry by entry, and that nothing that can hold is ruled out."""

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from tocsin.model import predicate as normal
from tocsin.model.condition import (
    Exists,
    HistoryTest,
    OldComparedToConstant,
    OldComparedToNew,
    Op,
    Quantified,
    Quantifier,
)
from tocsin.model.predicate import EVERYTHING, Accepts, Predicate, Range, Ranges
from tocsin.model.values import Kind, Number
from tocsin.predicates.evaluate import holds
from tocsin.predicates.history.join_table import JoinTable, attributes_of
from tocsin.predicates.history.order import OrderStatistics, choose_order
from tocsin.predicates.history.prefilter import Prefilter, gaps, implied_range, is_point
from tocsin.predicates.history.store import HistoryStore

Event = Mapping[str, object]

COMPARISONS = {
    Op.EQ: lambda c: Range(c, True, c, True),
    Op.LT: lambda c: Range(None, False, c, False),
    Op.LE: lambda c: Range(None, False, c, True),
    Op.GT: lambda c: Range(c, False, None, False),
    Op.GE: lambda c: Range(c, True, None, False),
}
# The paper's Table 2: {OP2 of `a OP2 c`: {OP1 of `d.a OP1 a`: the operator of `d.a … c`}}; nothing where it is blank.
TABLE_2 = {
    Op.EQ: {Op.EQ: Op.EQ, Op.LT: Op.LT, Op.LE: Op.LE, Op.GT: Op.GT, Op.GE: Op.GE},
    Op.LT: {Op.EQ: Op.LT, Op.LT: Op.LT, Op.LE: Op.LT},
    Op.LE: {Op.EQ: Op.LE, Op.LT: Op.LT, Op.LE: Op.LE},
    Op.GT: {Op.EQ: Op.GT, Op.GT: Op.GT, Op.GE: Op.GT},
    Op.GE: {Op.EQ: Op.GE, Op.GT: Op.GT, Op.GE: Op.GE},
}
# Old values lie on half numbers and new ones on quarters, so that between an old value and an end lies a new one.
OLD = [Fraction(n, 2) for n in range(-1, 8)]
NEW = [Fraction(n, 4) for n in range(-4, 17)]
ENDS = [None, 0, 1, 2, 3]


def inside(value: Fraction, wanted: Range) -> bool:
    low, high = wanted.low, wanted.high
    above = low is None or value > low or (wanted.low_closed and value == low)  # type: ignore[operator]  # plain numbers
    below = high is None or value < high or (wanted.high_closed and value == high)  # type: ignore[operator]
    return above and below


INTERVALS = [
    Range(low, low_closed, high, high_closed)
    for low, low_closed, high, high_closed in itertools.product(ENDS, [True, False], ENDS, [True, False])
    if not (low is None and low_closed)
    and not (high is None and high_closed)
    and any(inside(value, Range(low, low_closed, high, high_closed)) for value in NEW)
]


def joined(old: Fraction, op: Op, new: Fraction) -> bool:
    return op.holds((old > new) - (old < new))


@pytest.mark.parametrize("op", Op)
def test_each_entry_of_the_interval_table_is_sound_and_tight(op: Op) -> None:
    for new in INTERVALS:
        values = [value for value in NEW if inside(value, new)]
        possible = {old for old in OLD if any(joined(old, op, value) for value in values)}
        if op is Op.NE and is_point(new):
            assert possible == {old for old in OLD if old != new.low}
        else:
            assert possible == {old for old in OLD if inside(old, implied_range(op, new))}, (op, new)


@pytest.mark.parametrize(("second", "first"), list(itertools.product(COMPARISONS, COMPARISONS)))
def test_table_2_of_the_paper(second: Op, first: Op) -> None:
    implied = TABLE_2[second].get(first)
    expected = EVERYTHING if implied is None else COMPARISONS[implied](7)
    assert implied_range(first, COMPARISONS[second](7)) == expected


@pytest.mark.parametrize("first", INTERVALS, ids=str)
def test_an_equal_old_value_is_in_no_gap(first: Range) -> None:
    for second in INTERVALS:
        below = first.high is not None and second.low is not None and first.high <= second.low  # type: ignore[operator]
        if below and not (first.high == second.low and (first.high_closed or second.low_closed)):
            [gap] = gaps([first, second])
            for old in OLD:
                new = any(inside(old, part) for part in (first, second))
                between = first.high <= old <= second.low  # type: ignore[operator]  # plain numbers
                assert inside(old, gap) == (between and not new)


def test_not_equal_to_a_constant() -> None:
    """`a <> 7 AND ∃ d (d.a = a)` needs an old value other than 7; so does `a = 7 AND ∃ d (d.a <> a)`."""
    seven = COMPARISONS[Op.EQ](Number(7))
    other = Ranges("price", Kind.NUMBER, tuple(COMPARISONS[op](Number(7)) for op in (Op.LT, Op.GT)))
    different = normal.Tested(Exists((OldComparedToNew("price", Op.NE, "price"),)))
    conjunctions = [(other, SAME_PRICE), (Ranges("price", Kind.NUMBER, (seven,)), different)]
    store = HistoryStore(attributes=["price"])
    prefilter = Prefilter(enumerate(conjunctions), store)
    store.append({"price": 7})
    assert list(prefilter.surviving()) == []
    store.append({"price": 7.5})
    assert list(prefilter.surviving()) == [0, 1]


def at(attribute: str, op: Op, constant: int) -> Ranges:
    return Ranges(attribute, Kind.NUMBER, (COMPARISONS[op](Number(constant)),))


SAME_PRICE = normal.Tested(Exists((OldComparedToNew("price", Op.EQ, "price"),)))


@pytest.mark.parametrize(
    ("op", "price", "survives"),
    [(Op.EQ, 9, False), (Op.EQ, 10, True), (Op.LT, 10, False), (Op.LT, 9.5, True), (Op.EQ, None, False)],
    ids=str,
)
def test_examples_6_and_7(op: Op, price: float | None, survives: bool) -> None:
    """`price = 10 AND ∃ d (d.price = price)` needs d.price = 10; with `price < 10` it needs d.price < 10."""
    store = HistoryStore(attributes=["price"])
    prefilter = Prefilter([(0, (at("price", op, 10), SAME_PRICE))], store)
    assert 0 not in prefilter.surviving(), "there is no old event at all"
    store.append({"price": price})
    assert (0 in prefilter.surviving()) == survives


def test_a_constant_on_the_old_event_and_expiry() -> None:
    store = HistoryStore(attributes=["author", "price"], retain_events=2)
    smith = normal.Tested(
        Exists((OldComparedToConstant("author", Op.EQ, "Smith"), OldComparedToNew("price", Op.LT, "price")))
    )
    above = normal.Tested(Quantified("price", Op.GT, Quantifier.ALL, "price"))
    prefilter = Prefilter([(0, (smith,)), (1, (at("price", Op.LE, 20), above)), (2, (above,)), (3, ())], store)
    assert list(prefilter.surviving()) == [1, 2, 3]
    steps: list[tuple[Event, list[int]]] = [
        ({"author": "Smith", "price": 5}, [0, 1, 2, 3]),
        ({"author": "Jones", "price": 20}, [0, 2, 3]),  # no price up to 20 is above 20
        ({"author": "Smith"}, [3]),  # its Smith has no price; who knows if it is below
        ({"author": "Jones", "price": 1}, [3]),
        ({"author": "Jones", "price": 2}, [1, 2, 3]),
    ]
    for event, expected in steps:
        store.append(event)
        assert list(prefilter.surviving()) == expected, event
    assert prefilter.savings().ruled_out == 1
    assert prefilter.savings().conjunctions == 4


@given(data=st.data(), retain=st.none() | st.integers(1, 3))
def test_nothing_that_holds_is_ruled_out(
    data: st.DataObject,
    retain: int | None,
    mixed_events: st.SearchStrategy[list[Event]],
    mixed_tests: st.SearchStrategy[list[HistoryTest]],
) -> None:
    ends = st.sampled_from([Number(0), Number(1), Number(2)])
    comparisons = st.builds(lambda op, end: COMPARISONS[op](end), st.sampled_from(list(COMPARISONS)), ends)
    ranges = st.builds(
        Ranges,
        st.sampled_from("abc"),
        st.just(Kind.NUMBER),
        st.tuples(comparisons),
        st.sampled_from([False, False, True]),
    )
    tests = data.draw(mixed_tests)
    accepts = st.sampled_from([Accepts.TRUE, Accepts.TRUE, Accepts.FALSE, Accepts.TRUE | Accepts.NULL])
    conjunctions: list[tuple[Predicate, ...]] = [
        (
            *data.draw(st.lists(ranges, max_size=2, unique_by=lambda r: r.attribute)),
            normal.Tested(test, data.draw(accepts)),
        )
        for test in tests
    ]
    store = HistoryStore(attributes=attributes_of(tests), retain_events=retain)
    prefilter = Prefilter(enumerate(conjunctions), store)
    events = data.draw(mixed_events)
    for number, event in enumerate(events):
        seen = events[max(0, number - retain) if retain else 0 : number]
        surviving = prefilter.surviving()
        for conjunction, predicates in enumerate(conjunctions):
            if all(holds(predicate, event, seen) for predicate in predicates):
                assert conjunction in surviving
        store.append(event)


def test_probing_the_wanted_tests_alone(truth_of: Callable[[JoinTable, Event], list[bool | None]]) -> None:
    tests = [Quantified("a", Op.LT, Quantifier.ANY, "a"), Quantified("b", Op.LT, Quantifier.ANY, "b")]
    store = HistoryStore(attributes=["a", "b"])
    table = JoinTable(enumerate(tests), store)
    store.append({"a": 1, "b": 1})
    assert table.probe({"a": 0, "b": 0}, BitMap([1])).true.tolist() == [1]
    assert truth_of(table, {"a": 0, "b": 0}) == [True, True]


def test_the_cheaper_phase_comes_first() -> None:
    few_tests = choose_order(OrderStatistics(1_000_000, 1000, 2, 10, 2, 1))
    assert not few_tests.constants_first
    assert few_tests.reason.startswith("history first: 2 log D + 1 log N = 40 evaluations, constants first 10 log N")
    many_tests = choose_order(OrderStatistics(1000, 1_000_000, 500, 3, 5, 3))
    assert many_tests.constants_first
    assert choose_order(OrderStatistics(1000, 0, 0, 3, 0, 3)).constants_first, "equal costs need no history"


def test_one_and_true_are_two_conditions_on_old_events() -> None:
    conjunctions = [
        (normal.Tested(Exists((OldComparedToConstant("x", Op.EQ, constant),))),) for constant in (1, True, 1.0, "1")
    ]
    store = HistoryStore(attributes=["x"])
    prefilter = Prefilter(enumerate(conjunctions), store)
    store.append({"x": True})
    assert list(prefilter.surviving()) == [1]
    store.append({"x": 1})
    assert list(prefilter.surviving()) == [0, 1, 2]
    assert prefilter.savings().constraints == 3, "1 and 1.0 are one condition"
