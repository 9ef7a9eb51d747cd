"""Conditions on lists: DuckDB judges the reference, and every way to match equals it."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.parse import parse
from tocsin.language.to_sql import to_sql
from tocsin.reference import evaluate

INTEGERS: list[Any] = [None, [], [1], [5], [6], [1, 6], [1, None], [6, None], [None], [5, 5], [-(2**63), 2**63 - 1]]
FLOATS: list[Any] = [None, [], [1.5], [5.0, -0.0], [float("inf"), None], [float("-inf")], [6.5, 1.0]]
TEXTS: list[Any] = [None, [], ["a"], ["b", None], ["5", "a"], [""]]
COMPARED = [f"{{}} {op} {quantifier}(v)" for op in ("<", "<=", "=", "<>", ">", ">=") for quantifier in ("ANY", "ALL")]
NUMERIC = [
    *(text.format(5) for text in COMPARED),
    *("list_has_any(v, [1, 6])", "list_has_all(v, [1, 6])", "array_has_any(v, [7, 8])", "v && [5]", "v @> [5, 6]"),
    *("list_has_any(v, [])", "list_has_all(v, [])", "list_has_all(v, [NULL])", "list_has_any(v, [1, NULL])"),
    *("list_has_any(v, NULL)", "NOT list_has_any(v, [])", "list_has_all(v, [NULL, 5])"),
    *("len(v) > 1", "length(v) = 0", "array_length(v) = 2", "list_max(v) > 5", "list_min(v) = 1", "list_count(v) = 1"),
    *("NOT (5 < ANY(v))", "(5 < ANY(v)) IS NULL", "NOT (5 >= ALL(v))", "(5 = ANY(v)) IS NULL", "x < ANY(v)"),
]
STRINGS = [
    *(text.format("'b'") for text in COMPARED),
    "list_has_any(v, ['a', 'c'])",
    "len(v) = 2",
    "list_max(v) >= 'a'",
]
CASES = [(NUMERIC, INTEGERS, pa.int64()), (NUMERIC, FLOATS, pa.float64()), (STRINGS, TEXTS, pa.string())]


@pytest.mark.parametrize(("wheres", "lists", "type_"), CASES, ids=["integers", "floats", "texts"])
def test_all_ways_equal_duckdb(wheres: list[str], lists: list[Any], type_: pa.DataType) -> None:
    table = pa.table({"v": pa.array(lists, pa.list_(type_)), "x": pa.array([3] * len(lists), pa.int64())})
    events = [{"v": value, "x": 3} for value in lists]
    truths = duckdb.connect().execute(f'SELECT {", ".join(wheres)} FROM "table"').fetchall()
    conditions = [parse(where) for where in wheres]
    again = [parse(to_sql(condition)) for condition in conditions]
    assert [tuple(evaluate(condition, event) for condition in conditions) for event in events] == truths
    assert [tuple(evaluate(condition, event) for condition in again) for event in events] == truths
    matcher = Matcher.from_table(pa.table({"id": wheres, "where": wheres}))
    assert matcher.rejected == []
    expected = {(row, where) for row, truth in enumerate(truths) for where, t in zip(wheres, truth, strict=True) if t}
    for given in (events, table):
        found = {(row["event"], row["subscription"]) for row in matcher.match_batch(given).to_pylist()}
        assert found == expected
    for row, event in enumerate(events):
        assert {(row, id) for id in matcher.match(event).ids} == {pair for pair in expected if pair[0] == row}
        for where in wheres:
            assert matcher.explain(event, where).matches == ((row, where) in expected)


def test_a_string_constant_is_read_as_the_kind_of_the_elements() -> None:
    wheres = [
        "array_contains(v, '5')",
        "array_contains(v, 5)",
        "array_contains(v, '5.0')",
        "list_has_any(v, ['x', '05'])",
    ]
    matcher = Matcher.from_table(pa.table({"id": wheres, "where": wheres}))
    for value, expected in (([5], wheres), (["5"], wheres[:1]), ([6], []), (["05"], wheres[3:]), ([True], [])):
        assert sorted(matcher.match({"v": value}).ids) == sorted(expected)
        assert [w for w in wheres if evaluate(parse(w), {"v": value})] == expected


def test_values_that_are_no_lists_have_no_elements() -> None:
    for event in ({}, {"v": "x"}, {"v": 5}, {"v": {"a": 1}}):
        assert evaluate(parse("5 < ANY(v)"), event) is False
        assert evaluate(parse("5 < ALL(v)"), event) is True
        assert evaluate(parse("list_has_any(v, [5])"), event) is None


@pytest.mark.parametrize(
    "where", ["list_has_any(v, [x])", "list_has_all(v, ['a', [1]])", "list_has_any(v, x)", "x = ANY(v)"]
)
def test_refused(where: str) -> None:
    with pytest.raises(SubscriptionError):
        parse(where)


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        ("user-agent LIKE 'c%'", 'Quote a name such as "user-agent"'),
        ("has_words(user-agent, 'x')", 'Quote a name such as "user-agent"'),
        ("user-agent = 'curl'", 'Quote a name such as "user-agent"'),
        ("@timestamp > 5", 'Quote the name, as in "@timestamp"'),
        ("user.@id = 5", 'Quote the name, as in user."@id"'),
        ("a = 1 AND from = 'x'", 'If from is a name, quote it: "from"'),
        ("any = 5", 'If any is a name, quote it: "any"'),
        ("case = 5", 'If case is a name, quote it: "case"'),
        ("where = 'x'", 'If where is a name, quote it: "where"'),
        ("select = 5", 'If select is a name, quote it: "select"'),
        ("when = 5", 'If when is a name, quote it: "when"'),
    ],
)
def test_names_that_need_quotes(where: str, hint: str) -> None:
    with pytest.raises(SubscriptionError) as error:
        parse(where)
    assert error.value.hint == hint


@pytest.mark.parametrize("word", ["desc", "order", "group", "limit", "table", "set", "end", "key", "values", "left"])
def test_words_of_statements_are_names(word: str) -> None:
    assert evaluate(parse(f"{word} = 'x'"), {word: "x"}) is True
