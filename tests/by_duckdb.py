"""DuckDB as the judge: it evaluates many conditions on many events in one query."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

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
        ("v", pa.list_(pa.int64())),
        ("items", pa.list_(_ELEMENT)),
    ]
)


def typed(events: Sequence[dict[str, Any]]) -> pa.Table:
    """Events as an Arrow table with a type for each attribute, and the number of its row."""
    # NaN is NULL in Tocsin: the one difference.
    rows = [
        {key: None if isinstance(value, float) and value != value else value for key, value in event.items()}
        for event in events
    ]
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in SCHEMA]
    return pa.table(columns, schema=SCHEMA).append_column("row", pa.array(range(len(rows)), pa.int64()))


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def judge(
    conditions: Sequence[str], events: Sequence[dict[str, Any]], history: Sequence[dict[str, Any]] = ()
) -> list[tuple[bool | None, ...]]:
    """The truth value of each condition (inner) on each event (outer)."""
    connection = _connection()
    connection.register("event", typed(events))
    connection.register("history", typed(history))
    selected = ", ".join(f"({condition})::BOOLEAN" for condition in conditions)
    return connection.execute(f"SELECT {selected} FROM event ORDER BY row").fetchall()
