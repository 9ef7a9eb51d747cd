"""The same tests over the same rows, answered by DuckDB: the earlier events are the rows with a lower number."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.model.condition import Aggregated, Exists, HistoryTerm, HistoryTest, OldComparedToConstant, OldComparedToNew
from tocsin.predicates.history.join_table import JoinTable, attributes_of
from tocsin.predicates.history.store import HistoryStore

Event = Mapping[str, object]
Test = HistoryTest
Truths = Callable[[JoinTable, Event], list[bool | None]]

# Two attributes of each kind, so that tests compare different names; DuckDB's columns have one type each.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [None, 0, 1, 2, 3, -7]),
    "j": (pa.float64(), [None, 0.0, 1.0, 1.5, 2.25, -7.0, 19.99]),
    "m": (pa.decimal128(12, 2), [None, Decimal("1.50"), Decimal("2.25"), Decimal("2.00"), Decimal("19.99")]),
    # Sums of these floats are exact.
    "f": (pa.float64(), [None, 0.0, 0.5, 1.25, -7.0]),
    "s": (pa.string(), [None, "", "Smith", "Jones", "é", "smith"]),
    "t": (pa.string(), [None, "", "Smith", "Zorn", "e"]),
    "x": (pa.bool_(), [None, True, False]),
    "y": (pa.bool_(), [None, True, False]),
    "d": (pa.timestamp("us"), [None, dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2, 3), dt.datetime(1950, 1, 1)]),
    "e": (pa.date32(), [None, dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(1950, 1, 1)]),
}
KINDS = ["ijm", "st", "xy", "de"]


def constants(name: str) -> st.SearchStrategy[object]:
    return st.sampled_from([value for value in COLUMNS[name][1] if value is not None])


SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
EVENTS = st.lists(
    st.fixed_dictionaries({name: st.sampled_from(values) for name, (_, values) in COLUMNS.items()}), max_size=10
)


@pytest.fixture(scope="module")
def judge() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@pytest.fixture(scope="module")
def typed_tests(tests_over: Callable[..., st.SearchStrategy[Test]]) -> st.SearchStrategy[list[Test]]:
    kinds = [tests_over(constants, list(names), list(names), ["i", "f", "m"]) for names in KINDS]
    return st.lists(st.one_of(kinds), min_size=1, max_size=6)


def literal(constant: object) -> str:
    if isinstance(constant, bool):
        return str(constant)
    if isinstance(constant, dt.date):
        return f"TIMESTAMP '{constant}'" if isinstance(constant, dt.datetime) else f"DATE '{constant}'"
    return (
        f"'{constant}'"
        if isinstance(constant, str)
        else repr(constant)
        if isinstance(constant, float)
        else str(constant)
    )


def sql(test: Test, retain: int | None) -> str:
    """The test on row e of `events`; what came before it are the rows h."""
    earlier = "h.n < e.n" + (f" AND h.n >= e.n - {retain}" if retain else "")
    if isinstance(test, Aggregated):
        where = " OR ".join(f"({conjunction(terms)})" for terms in test.alternatives) or "FALSE"
        value = literal(test.constant) if test.attribute is None else f"e.{test.attribute}"
        selected = "*" if test.old is None else f"h.{test.old}"
        subquery = f"SELECT {test.aggregate.value}({selected}) FROM events h WHERE {earlier} AND ({where})"
        return f"{value} {test.op.value} ({subquery})"
    condition = f"{earlier} AND {conjunction(test.terms)}"
    if isinstance(test, Exists):
        return f"EXISTS (SELECT 1 FROM events h WHERE {condition})"
    old = f"SELECT h.{test.old} FROM events h WHERE {condition}"
    return f"e.{test.attribute} {test.op.value} {test.quantifier.value} ({old})"


def conjunction(terms: tuple[HistoryTerm, ...]) -> str:
    where = ["TRUE"]
    for term in terms:
        if isinstance(term, OldComparedToNew):
            where.append(f"h.{term.old} {term.op.value} e.{term.new}")
        elif isinstance(term, OldComparedToConstant):
            where.append(f"h.{term.old} {term.op.value} {literal(term.constant)}")
        else:
            where.append(f"h.{term.old} IS {'NOT ' if term.negated else ''}NULL")
    return " AND ".join(where)


@pytest.mark.parametrize("examples", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_duckdb_agrees(
    examples: int,
    typed_tests: st.SearchStrategy[list[Test]],
    truth_of: Truths,
    judge: duckdb.DuckDBPyConnection,
) -> None:
    @settings(max_examples=examples)
    @given(events=EVENTS, tests=typed_tests, retain=st.none() | st.integers(1, 3), by_batch=st.booleans())
    def agree(events: list[Event], tests: list[Test], retain: int | None, by_batch: bool) -> None:
        rows = pa.Table.from_pylist([dict(event) for event in events], SCHEMA)
        judge.register("events", rows.append_column("n", pa.array(range(len(events)), pa.int64())))
        expressions = ", ".join(sql(test, retain) for test in tests)
        expected = judge.execute(f"SELECT {expressions} FROM events e ORDER BY e.n").fetchall()
        store = HistoryStore(attributes=attributes_of(tests), retain_events=retain)
        table = JoinTable(enumerate(tests), store)
        for number, event in enumerate(events):
            assert tuple(truth_of(table, event)) == expected[number], (event, expressions)
            if by_batch:
                store.append_batch(rows.slice(number, 1))
            else:
                store.append(event)

    agree()
