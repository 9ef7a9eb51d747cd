"""Arrow columns of every type in every layout, each with the values that it holds."""

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

NOON = dt.datetime(2026, 2, 28, 12)
CONDITIONS = (
    "v = 1",
    "v > 1.5",
    "v = 'b'",
    "v < 'b'",
    "v = TRUE",
    "v > TIMESTAMP '2026-02-28 12:00:00'",
    "v = DATE '2026-03-01'",
    "v IS NULL",
    "v < w",
    "v = w",
    "v LIKE '%b%'",
    "v ILIKE 'A%'",
    "has_words(v, 'b')",
    "has_phrase(v, 'a b')",
    "xpath_exists(v, '/a')",
    "array_contains(v, 1)",
    "array_contains(v, 'b')",
    "array_contains(v, FALSE)",
    "array_contains(v, DATE '2026-03-01')",
)
# With its negation, a condition that is FALSE differs from one that is NULL.
WHERES = {f"{n}{sign}": f"{sign} ({where})" for n, where in enumerate(CONDITIONS) for sign in ("", "NOT")}

Values = list[Any]


def array(kind: pa.DataType, values: Values) -> pa.Array:
    """An array of values, also of types that Arrow makes none of."""
    if kind == pa.bool8():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.bool_()).cast(pa.int8()))
    if kind == pa.float16():
        return pa.array([None if value is None else np.float16(value) for value in values], kind)
    if kind == UNION:
        tags = pa.array([1 if isinstance(value, str) else 0 for value in values], pa.int8())
        numbers = pa.array([None if isinstance(value, str) else value for value in values], pa.int64())
        texts = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
        return pa.UnionArray.from_sparse(tags, [numbers, texts], ["number", "text"])
    if isinstance(kind, pa.BaseExtensionType):
        storage = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
        return pa.ExtensionArray.from_storage(kind, pa.array(storage, kind.storage_type))
    return pa.array(values, kind)


UNION = pa.sparse_union([pa.field("number", pa.int64()), pa.field("text", pa.string())])
INTEGERS = [1, 2, 3]
FLOATS = [1.0, 2.5, float("nan")]
DECIMALS = [Decimal("1.00"), Decimal("2.50"), Decimal("-1.00")]
TEXTS = ["b", "a b c", "<a/>"]
DAYS = [dt.date(2026, 3, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]
MOMENTS = [NOON, NOON + dt.timedelta(seconds=1), dt.datetime(2026, 3, 1)]
TYPES: dict[pa.DataType, Values] = {
    pa.null(): [None, None, None],
    pa.bool_(): [True, False, True],
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), INTEGERS),
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32()), INTEGERS),
    pa.uint64(): [1, 2, 2**64 - 1],
    **dict.fromkeys((pa.float16(), pa.float32(), pa.float64()), FLOATS),
    **{kind(5, 2): DECIMALS for kind in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)},
    pa.decimal128(30, 2): DECIMALS,
    pa.decimal256(50, 2): DECIMALS,
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view(), pa.json_()), TEXTS),
    **{kind: [b"<a/>", b"b", b"<a>"] for kind in (pa.binary(), pa.large_binary(), pa.binary_view())},
    pa.binary(4): [b"<a/>", b"bbbb", b"aaaa"],
    pa.date32(): DAYS,
    pa.date64(): DAYS,
    **{pa.timestamp(unit): MOMENTS for unit in ("s", "ms", "us", "ns")},
    **{
        pa.timestamp(unit, zone): [moment.replace(tzinfo=dt.UTC) for moment in MOMENTS]
        for unit in ("s", "ms", "us", "ns")
        for zone in ("UTC", "+02:00", "America/New_York")
    },
    **{kind: [dt.time(1), dt.time(2)] for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))},
    **{pa.duration(unit): [dt.timedelta(1), dt.timedelta(2)] for unit in ("s", "ms", "us", "ns")},
    **{kind: [[1, 2], [], [None, 3]] for kind in (pa.list_(pa.int64()), pa.large_list(pa.int8()))},
    **{kind: [[1, 2], [], [None, 3]] for kind in (pa.list_view(pa.int64()), pa.large_list_view(pa.float32()))},
    pa.list_(pa.int64(), 2): [[1, 2], [3, 4], [None, 1]],
    pa.list_(pa.list_(pa.int64())): [[[1]], [], [None]],
    pa.list_(pa.struct([("x", pa.int64())])): [[{"x": 1}], [], [None]],
    pa.struct([("x", pa.int64())]): [{"x": 1}, {"x": None}],
    pa.map_(pa.string(), pa.int64()): [[("b", 1)], []],
    pa.bool8(): [True, False, True],
    pa.uuid(): [uuid.UUID(int=1), uuid.UUID(int=2)],
    UNION: [1, "b", "<a/>"],
}

Layout = Callable[[pa.DataType, Values], tuple[pa.Array | pa.ChunkedArray, Values]]


def plain(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:
    return array(kind, values), values


def with_nulls(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:
    values = [None, *values, None]
    return array(kind, values), values


def sliced(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:
    whole = [values[0], None, *values, None, values[-1]]
    return array(kind, whole).slice(1, len(whole) - 2), whole[1:-1]


def chunked(kind: pa.DataType, values: Values) -> tuple[pa.ChunkedArray, Values]:
    parts = [values, [None], [], [values[-1], values[0]]]
    return pa.chunked_array([array(kind, part) for part in parts]), [value for part in parts for value in part]


def empty(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:  # noqa: ARG001  # a layout
    return array(kind, []), []


def no_chunks(kind: pa.DataType, values: Values) -> tuple[pa.ChunkedArray, Values]:  # noqa: ARG001  # a layout
    return pa.chunked_array([], kind), []


def dictionary(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:
    indices = [0, None, len(values) - 1, 0]
    rows = [None if index is None else values[index] for index in indices]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), array(kind, values)), rows


def dictionary_with_null(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:
    entries = [None, *values]
    indices = [1, 0, None, 2]
    rows = [None if index is None else entries[index] for index in indices]
    whole = pa.DictionaryArray.from_arrays(pa.array([0, *indices], pa.int32()), array(kind, entries))
    return whole.slice(1), rows


def different_dictionaries(kind: pa.DataType, values: Values) -> tuple[pa.ChunkedArray, Values]:
    parts = [values, [values[-1], None], values[::-1]]
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array(range(len(part)), pa.uint8()), array(kind, part)) for part in parts
    ]
    return pa.chunked_array(chunks), [value for part in parts for value in part]


def runs(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:
    entries = [*values, None]
    ends = pa.array([2 * (place + 1) for place in range(len(entries))], pa.int32())
    rows = [value for value in entries for _ in range(2)]
    return pa.RunEndEncodedArray.from_arrays(ends, array(kind, entries)).slice(1), rows[1:]


def chunks_of_runs(kind: pa.DataType, values: Values) -> tuple[pa.ChunkedArray, Values]:
    chunks = [pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int64()), array(kind, [value])) for value in values]
    return pa.chunked_array(chunks), [value for value in values for _ in range(2)]


def runs_of_dictionaries(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:
    entries, rows = dictionary(kind, values)
    ends = pa.array(range(1, len(rows) + 1), pa.int16())
    return pa.RunEndEncodedArray.from_arrays(ends, entries), rows


def lists_of(make: Callable[[pa.Array, list[int]], pa.Array]) -> Layout:
    def layout(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:
        items = [values[-1], *values, None]
        lists = make(array(kind, items), [0, 1, 1, len(items)])
        return lists.slice(1), [[], items[1:]]

    return layout


def lists_in(inner: Layout) -> Layout:
    """Lists of one item each, whose items have a layout."""

    def layout(kind: pa.DataType, values: Values) -> tuple[pa.Array, Values]:
        items, rows = inner(kind, values)
        return pa.ListArray.from_arrays(pa.array(range(len(rows) + 1), pa.int32()), items), [[row] for row in rows]

    return layout


LAYOUTS: dict[str, Layout] = {
    "plain": plain,
    "with NULLs": with_nulls,
    "sliced": sliced,
    "chunked": chunked,
    "empty": empty,
    "no chunks": no_chunks,
    "dictionary": dictionary,
    "dictionary with a NULL entry": dictionary_with_null,
    "different dictionaries": different_dictionaries,
    "runs": runs,
    "chunks of runs": chunks_of_runs,
    "runs of dictionaries": runs_of_dictionaries,
    "lists": lists_of(lambda items, ends: pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items)),
    "large lists": lists_of(lambda items, ends: pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), items)),
    "list views": lists_of(
        lambda items, ends: pa.ListViewArray.from_arrays(
            pa.array(ends[:-1], pa.int32()), pa.array(np.diff(ends), pa.int32()), items
        )
    ),
    "lists of runs": lists_in(runs),
    "lists of dictionaries": lists_in(dictionary_with_null),
}


def columns_of(
    layout: str, kind: pa.DataType, values: Values | None = None, others: Values | None = None
) -> tuple[list[pa.Array | pa.ChunkedArray], list[dict[str, Any]]]:
    """The columns v and w of some values, or of those that stand for the type; and the same events as mappings."""
    column, first = LAYOUTS[layout](kind, TYPES[kind] if values is None else values)
    other, second = LAYOUTS[layout](kind, TYPES[kind][::-1] if others is None else others)
    return [column, other], [{"v": value, "w": other} for value, other in zip(first, second, strict=True)]
