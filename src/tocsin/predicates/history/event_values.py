"""Write whole events as tables that Parquet holds, and read them back without a loss.

A column whose values have one plain type is a column of that type, which any tool reads. Values of several types,
decimals of Python, integers beyond 64 bits, lists and nested mappings become JSON text, marked in the metadata of its
field; what JSON does not have is an object with one key that begins with `$`.
"""

import base64
import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.model.events import EventBatch, read_attribute
from tocsin.model.readable import Values, python_rows, read_values
from tocsin.model.values import Moment, is_null

_JSON = {b"tocsin": b"json"}
_PLAIN = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.large_string(),
    bytes: pa.large_binary(),
    dt.date: pa.date32(),
}
_UNWRITABLE = (pa.ArrowException, OverflowError, UnicodeEncodeError, ValueError, TypeError)


def stored(batch: EventBatch, kept: frozenset[str] | None) -> pa.Table:
    """Return the events of a batch as Parquet holds them; with `kept`, only what these attributes are read from.

    A name that two columns have is left out: no attribute can mean either.
    """
    names = [name for name in batch.names() if kept is None or leads_to_some(name, kept)]
    if batch.table is not None:
        fields = {name: _stored_column(batch.table.column(name)) for name in names if names.count(name) == 1}
    else:
        rows = batch.rows
        fields = {name: _encoded([row.get(name) for row in rows]) for name in names}
    return _table(fields, len(batch))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the events of several tables as one; a column of different types becomes JSON."""
    if len(tables) == 1:
        return tables[0]
    names = list(dict.fromkeys(name for table in tables for name in table.column_names))
    return _table({name: _joined_column(name, tables) for name in names}, sum(map(len, tables)))


def attribute_of(table: pa.Table, attribute: str) -> Values | None:
    """Return the values of an attribute in a stored table, as `EventBatch.column` does."""
    as_json = [field.name for field in table.schema if is_json(field)]
    if attribute not in as_json:
        found, _ = read_attribute(table.drop_columns(as_json), attribute)
        if found is not None:
            return found
    led = [name for name in as_json if _leads_to(name, attribute)]
    if not led:
        return None
    columns = [_decoded(table.column(name)) for name in led]
    rows = [dict(zip(led, values, strict=True)) for values in zip(*columns, strict=True)]
    return EventBatch(rows).column(attribute)


def rows_of(table: pa.Table) -> Iterable[dict[str, Any]]:
    """Yield the events of a stored table; attributes that are NULL are left out."""
    as_json = {field.name for field in table.schema if is_json(field)}
    for batch in table.to_batches():
        for row in python_rows(batch):
            yield {
                name: json.loads(value, object_hook=_unpacked) if name in as_json else value
                for name, value in row.items()
                if value is not None
            }


def is_json(field: pa.Field) -> bool:
    """Tell whether a field of a stored table holds JSON."""
    return (field.metadata or {}).get(b"tocsin") == b"json"


def leads_to_some(name: str, attributes: Iterable[str]) -> bool:
    """Tell whether one of the attributes is read from the column of this name."""
    return any(_leads_to(name, attribute) for attribute in attributes)


def _leads_to(name: str, attribute: str) -> bool:
    return attribute == name or attribute.startswith(f"{name}.")


def _table(columns: Mapping[str, pa.Array | pa.ChunkedArray | list[Any]], length: int) -> pa.Table:
    """Return a table of columns; lists are written as JSON. Without a column, one of NULLs keeps the number of rows."""
    fields, arrays = [], []
    for name, values in columns.items():
        is_text = isinstance(values, list)
        arrays.append(_as_json(values) if isinstance(values, list) else values)
        fields.append(pa.field(name, arrays[-1].type, metadata=_JSON if is_text else None))
    if not fields:
        return pa.table({"": pa.nulls(length)})
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _encoded(values: list[Any]) -> pa.Array | list[Any]:
    """Return Python values as an array of their one plain type, or as they are."""
    types = set(map(type, values)) - {type(None)}
    if not types:
        return pa.nulls(len(values))
    kind = types.pop()
    try:
        if not types and kind in _PLAIN:
            return pa.array(values, _PLAIN[kind])
        if not types and kind is dt.datetime and len({value.tzinfo is None for value in values if value}) == 1:
            is_local = all(value.tzinfo is None for value in values if value)
            return pa.array(values, pa.timestamp("us") if is_local else pa.timestamp("us", "UTC"))
    except _UNWRITABLE:
        pass
    return values


def _stored_column(column: pa.ChunkedArray) -> pa.ChunkedArray | list[Any]:
    """Return a column as it is if Parquet holds its type, else its Python values."""
    return column if _fits(column.type) else _python(column)


def _fits(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_dictionary(kind):
        return _fits(kind.value_type)
    if types.is_struct(kind):
        return kind.num_fields > 0 and all(_fits(field.type) for field in kind)
    if types.is_timestamp(kind):
        # Parquet has no seconds, and makes milliseconds of them, which may overflow.
        return bool(kind.unit != "s")
    tests: list[Callable[[pa.DataType], bool]] = [
        types.is_null,
        types.is_boolean,
        types.is_integer,
        types.is_float32,
        types.is_float64,
        types.is_decimal128,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
        types.is_date32,
    ]
    return any(test(kind) for test in tests)


def _joined_column(name: str, tables: Sequence[pa.Table]) -> pa.ChunkedArray | list[Any]:
    found = [(table.schema.field(name) if name in table.column_names else None, table) for table in tables]
    kinds = {(field.type, is_json(field)) for field, _ in found if field is not None and not _is_null(field)}
    if len(kinds) > 1 or any(as_json for _, as_json in kinds):
        values: list[Any] = []
        for field, table in found:
            read = _decoded if field is not None and is_json(field) else _python
            values += [None] * len(table) if field is None else read(table.column(name))
        return values
    kind = next(iter(kinds))[0] if kinds else pa.null()
    chunks: list[pa.Array] = []
    for field, table in found:
        has = field is not None and field.type == kind
        chunks += table.column(name).chunks if has else [pa.nulls(len(table), kind)]
    return pa.chunked_array(chunks, kind)


def _is_null(field: pa.Field) -> bool:
    return bool(pa.types.is_null(field.type))


def _python(column: pa.ChunkedArray) -> list[Any]:
    return [row[""] for batch in pa.table({"": column}).to_batches() for row in python_rows(batch)]


def _as_json(values: Sequence[Any]) -> pa.Array:
    texts = [None if is_null(value) else json.dumps(_packed(value)) for value in values]
    return pa.array(texts, pa.large_string())


def _decoded(column: pa.ChunkedArray) -> list[Any]:
    return [None if text is None else json.loads(text, object_hook=_unpacked) for text in column.to_pylist()]


def _packed(value: Any) -> Any:
    """Return a value as JSON has it; what it does not have becomes an object whose key says what it is."""
    if isinstance(value, (bool, str, float)) or is_null(value):
        return None if is_null(value) else value
    if isinstance(value, int):
        # JSON as Python writes it has a limit of 4,300 digits.
        return value if -(1 << 63) <= value < 1 << 63 else {"$integer": f"{value:x}"}
    if isinstance(value, Mapping):
        items = {str(name): _packed(item) for name, item in value.items()}
        return {"$mapping": list(items.items())} if any(name.startswith("$") for name in items) else items
    if isinstance(value, (list, tuple, set, frozenset)) or (isinstance(value, np.ndarray) and value.ndim):
        return [_packed(item) for item in value]
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, dt.datetime):
        return {"$timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"$date": value.isoformat()}
    if isinstance(value, Moment):
        return {"$moment": [value.microseconds, value.nanoseconds]}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    [plain], _ = read_values([value])
    return {"$other": str(value)} if plain is value else _packed(plain)


_UNPACK: dict[str, Callable[[Any], Any]] = {
    "$integer": lambda digits: int(digits, 16),
    "$mapping": dict,
    "$decimal": Decimal,
    "$timestamp": dt.datetime.fromisoformat,
    "$date": dt.date.fromisoformat,
    "$moment": lambda parts: Moment(*parts),
    "$bytes": base64.b64decode,
    "$other": lambda _: ...,
}


def _unpacked(found: dict[str, Any]) -> Any:
    if len(found) == 1:
        [(name, value)] = found.items()
        if name in _UNPACK:
            return _UNPACK[name](value)
    return found
