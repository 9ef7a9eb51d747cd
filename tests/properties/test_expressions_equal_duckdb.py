"""Expressions: the definition equals DuckDB, vectors equal the definition, the Matcher equals both."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expression_strategies import MACROS, Pair, comparisons, conditions, events, expressions, has_value, odd_events
from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.parse import parse
from tocsin.language.to_sql import to_sql
from tocsin.model.condition import IsNull
from tocsin.model.derive import FEW_ROWS
from tocsin.model.events import EventBatch
from tocsin.model.expression_tree import is_derived
from tocsin.model.lookup import lookup
from tocsin.model.values import compare_values
from tocsin.reference import evaluate

Event = dict[str, Any]
Typed = Callable[[Sequence[Event]], pa.Table]

BATCH = st.lists(events(), min_size=1, max_size=6)
EXPRESSIONS = expressions().filter(lambda pair: is_derived(derived(pair[0])))
CONDITIONS = st.lists(conditions(), min_size=1, max_size=8)


@pytest.fixture(scope="session")
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute(MACROS)
    return made


def judged(connection: duckdb.DuckDBPyConnection, table: pa.Table, sqls: Sequence[str]) -> list[tuple[Any, ...]]:
    connection.register("event", table)
    return connection.execute(f"SELECT {', '.join(f'({sql})' for sql in sqls)} FROM event ORDER BY row").fetchall()


def derived(text: str) -> str:
    """The derived attribute of an expression; the empty text for a constant."""
    try:
        condition = parse(f"({text}) IS NULL")
    except SubscriptionError:
        return ""
    return condition.attribute if isinstance(condition, IsNull) else ""


def expected_matches(pairs: Sequence[Pair], batch: Sequence[Event]) -> set[tuple[int, str]]:
    parsed = [parse(text) for text, _ in pairs]
    return {
        (row, str(number))
        for row, event in enumerate(batch)
        for number, condition in enumerate(parsed)
        if evaluate(condition, event) is True
    }


def matcher_of(wheres: Sequence[str]) -> Matcher:
    matcher = Matcher.from_table(pa.table({"id": list(map(str, range(len(wheres)))), "where": list(wheres)}))
    assert matcher.rejected == []
    return matcher


def found_in(table: pa.Table) -> set[tuple[int, str]]:
    return {(row["event"], row["subscription"]) for row in table.to_pylist()}


@given(pairs=CONDITIONS, batch=BATCH)
def test_reference_equals_duckdb(
    connection: duckdb.DuckDBPyConnection, typed: Typed, pairs: list[Pair], batch: list[Event]
) -> None:
    truths = [tuple(evaluate(parse(text), event) for text, _ in pairs) for event in batch]
    assert truths == judged(connection, typed(batch), [sql for _, sql in pairs])


@given(pairs=CONDITIONS, batch=st.lists(events() | odd_events(), min_size=1, max_size=6))
def test_sql_means_the_condition(pairs: list[Pair], batch: list[Event]) -> None:
    for text, _ in pairs:
        condition, again = parse(text), parse(to_sql(parse(text)))
        assert [evaluate(condition, event) for event in batch] == [evaluate(again, event) for event in batch]


def same(value: object, other: object) -> bool:
    return value is other or compare_values(value, other) == 0


@given(pair=EXPRESSIONS, batch=st.lists(events() | odd_events(), min_size=1, max_size=6))
def test_vectors_equal_the_definition(pair: Pair, batch: list[Event]) -> None:
    name = derived(pair[0])
    expected = [lookup(event, name) for event in batch] * FEW_ROWS
    found = EventBatch(batch * FEW_ROWS).values(name)
    assert found is not None
    assert all(map(same, found, expected)), (found, expected)


@given(pair=EXPRESSIONS, batch=BATCH)
def test_vectors_of_typed_columns_equal_the_definition(typed: Typed, pair: Pair, batch: list[Event]) -> None:
    name = derived(pair[0])
    expected = [lookup(event, name) for event in batch] * FEW_ROWS
    found = EventBatch(typed(batch * FEW_ROWS)).values(name)
    assert found is not None
    assert all(map(same, found, expected)), (found, expected)


@given(pairs=CONDITIONS, batch=BATCH)
def test_matcher_equals_reference(typed: Typed, pairs: list[Pair], batch: list[Event]) -> None:
    matcher, expected = matcher_of([text for text, _ in pairs]), expected_matches(pairs, batch)
    many = {(turn * len(batch) + row, id) for turn in range(FEW_ROWS) for row, id in expected}
    assert found_in(matcher.match_batch(batch)) == expected
    assert found_in(matcher.match_batch(batch * FEW_ROWS)) == many
    assert found_in(matcher.match_batch(typed(batch * FEW_ROWS))) == many
    assert {(0, id) for id in matcher.match(batch[0]).ids} == {pair for pair in expected if pair[0] == 0}
    for id in map(str, range(len(pairs))):
        assert matcher.explain(batch[0], id).matches == ((0, id) in expected)


@given(pair=comparisons().filter(has_value), batch=st.lists(events() | odd_events(), min_size=1, max_size=6))
def test_exactly_one_of_true_false_and_null(pair: Pair, batch: list[Event]) -> None:
    p = f"({pair[0]})"
    matcher = matcher_of([f"{p} IS TRUE", f"{p} IS FALSE", f"{p} IS NULL", p, f"NOT {p}", f"NOT NOT {p}"])
    by_event: dict[int, set[str]] = {row: set() for row in range(len(batch))}
    for row, id in found_in(matcher.match_batch(batch)):
        by_event[row].add(id)
    for found in by_event.values():
        assert len(found & {"0", "1", "2"}) == 1
        assert ("0" in found) == ("3" in found) == ("5" in found)
        assert ("1" in found) == ("4" in found)


@pytest.mark.slow
@settings(max_examples=7_000)
@given(pairs=st.lists(conditions(), min_size=6, max_size=12), batch=st.lists(events(), min_size=8, max_size=14))
def test_all_equal_duckdb_for_long(
    connection: duckdb.DuckDBPyConnection, typed: Typed, pairs: list[Pair], batch: list[Event]
) -> None:
    """Half a million decisions: each condition and its negation on each event, by the Matcher and by the reference."""
    truths = judged(connection, typed(batch), [sql for _, sql in pairs])
    parsed = [parse(text) for text, _ in pairs]
    assert [tuple(evaluate(condition, event) for condition in parsed) for event in batch] == truths
    texts = [text for text, _ in pairs] + [f"NOT ({text})" for text, _ in pairs]
    wanted = [(*row, *(None if value is None else not value for value in row)) for row in truths]
    expected = {(row, str(n)) for row, values in enumerate(wanted) for n, value in enumerate(values) if value is True}
    assert found_in(matcher_of(texts).match_batch(typed(batch))) == expected
    DECIDED.append(len(pairs) * len(batch))


DECIDED: list[int] = []


@pytest.fixture(scope="module", autouse=True)
def _tell_how_many() -> Iterator[None]:
    yield
    if DECIDED:
        print(f"{sum(DECIDED):,} decisions")
