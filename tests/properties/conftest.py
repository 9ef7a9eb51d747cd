"""DuckDB as the judge: it evaluates many conditions on many events in one query."""

from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

_ELEMENT = pa.struct({"i": pa.int64(), "d": pa.float64(), "s": pa.string(), "flag": pa.bool_(), "day": pa.date32()})
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int32()),
        ("d", pa.float64()),
        ("e", pa.float64()),
        ("m", pa.decimal128(18, 3)),
        ("s", pa.string()),
        ("user.name", pa.string()),
        ("flag", pa.bool_()),
        ("other", pa.bool_()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us")),
        ("body", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("items", pa.list_(_ELEMENT)),
    ]
)

Judge = Callable[[Sequence[str], Sequence[dict[str, Any]], Sequence[dict[str, Any]]], list[tuple[bool | None, ...]]]


def _table(events: Sequence[dict[str, Any]]) -> pa.Table:
    # NaN is NULL in Tocsin: the one difference.
    rows = [
        {key: None if isinstance(value, float) and value != value else value for key, value in event.items()}
        for event in events
    ]
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in SCHEMA]
    return pa.table(columns, schema=SCHEMA).append_column("row", pa.array(range(len(rows)), pa.int64()))


@pytest.fixture(scope="session")
def judge() -> Judge:
    """The truth value of each condition (inner) on each event (outer)."""
    connection = duckdb.connect()

    def run(
        conditions: Sequence[str], events: Sequence[dict[str, Any]], history: Sequence[dict[str, Any]] = ()
    ) -> list[tuple[bool | None, ...]]:
        connection.register("event", _table(events))
        connection.register("history", _table(history))
        selected = ", ".join(f"({condition})::BOOLEAN" for condition in conditions)
        return connection.execute(f"SELECT {selected} FROM event ORDER BY row").fetchall()

    return run


@pytest.fixture(scope="session")
def typed() -> Callable[[Sequence[dict[str, Any]]], pa.Table]:
    """Events as an Arrow table with a type for each attribute."""
    return _table
