"""Events and tests on history for Hypothesis, and the definition to hold them against."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import pytest
from hypothesis import strategies as st

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
from tocsin.predicates.history.join_table import JoinTable

Event = Mapping[str, object]
Test = HistoryTest

ATTRIBUTES = ["a", "b", "c"]
VALUES: list[object] = [
    *(0, 1, 2, 3, -1, 1.0, 1.5, 2.5, 2**60, 2**63 + 1, Decimal("1.5"), Decimal("2.25"), Decimal(2), float("inf")),
    *("x", "y", "z", "", True, False, dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 12), None, float("nan"), [1]),
]
CONSTANTS = [value for value in VALUES if value is not None and not isinstance(value, list) and value == value]


@pytest.fixture(scope="session")
def mixed_events() -> st.SearchStrategy[list[Event]]:
    """Events of any kind of value, with attributes missing."""
    return st.lists(st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(VALUES)), max_size=12)


@pytest.fixture(scope="session")
def mixed_tests() -> st.SearchStrategy[list[Test]]:
    """Tests with constants of any kind."""
    return st.lists(history_tests(lambda _: st.sampled_from(CONSTANTS), ATTRIBUTES, ATTRIBUTES), max_size=8)


@pytest.fixture(scope="session")
def truth_of() -> Callable[[JoinTable, Event], list[bool | None]]:
    """The truth of tests 0, 1, 2, … of a table."""

    def truths(table: JoinTable, event: Event) -> list[bool | None]:
        true, null = (ids.tolist() for ids in table.probe(event))
        assert len({*true, *null}) == len(true) + len(null), "each id at most once"
        return [True if number in true else None if number in null else False for number in range(len(table.tests))]

    return truths


@pytest.fixture(scope="session")
def tests_over() -> Callable[..., st.SearchStrategy[Test]]:
    """`history_tests`, for files that cannot import this one."""
    return history_tests


def history_tests(
    constants: Callable[[str], st.SearchStrategy[object]],
    old: Sequence[str],
    new: Sequence[str],
    numbers: Sequence[str] = ATTRIBUTES,
) -> st.SearchStrategy[Test]:
    """Tests whose attributes come from `old` and `new`, place by place, and constants from the old attribute.

    Sums and averages are of `numbers`.
    """
    pairs = st.sampled_from([(a, b) for a in old for b in new])
    ops = st.sampled_from(list(Op))
    terms: st.SearchStrategy[HistoryTerm] = st.one_of(
        st.builds(lambda pair, op: OldComparedToNew(pair[0], op, pair[1]), pairs, ops),
        st.sampled_from(old).flatmap(
            lambda name: st.builds(OldComparedToConstant, st.just(name), ops, constants(name))
        ),
        st.builds(OldIsNull, st.sampled_from(old), st.booleans()),
    )
    several = st.lists(terms, max_size=3).map(tuple)
    return st.one_of(
        several.map(Exists),
        st.builds(
            lambda pair, op, quantifier, where: Quantified(pair[1], op, quantifier, pair[0], where),
            pairs,
            ops,
            st.sampled_from(list(Quantifier)),
            st.one_of(st.just(()), several),
        ),
        st.builds(
            lambda new, constant, op, aggregate, selected, where: Aggregated(
                new,
                constant if new is None else None,
                op,
                aggregate,
                None if aggregate is Aggregate.COUNT and len(where) == 1 else selected,
                tuple(where),
            ),
            st.none() | st.sampled_from(numbers),
            st.sampled_from([0, 1, 2, Decimal("1.5"), 7, -3.5]),
            ops,
            st.sampled_from(list(Aggregate)),
            st.sampled_from(numbers),
            st.lists(several, max_size=3) | several.map(lambda terms: [terms]),
        ),
    )
