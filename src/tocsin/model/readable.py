"""Read values of events into the few Arrow layouts that the indexes know, and NULL for what cannot be read.

A column of a table may come in chunks, as run ends, as views, in dictionaries that differ from chunk to chunk. It is
read into one array without run ends, views, extensions and NULLs among the entries of a dictionary; lists become large
lists. A column of types that Arrow does not compute with (unions) becomes a list of Python values.

What cannot be read is NULL and counted: a text that is not valid Unicode, and a time so far off that 64 bits do not
hold its microseconds.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.arrays import Bools, Int64s
from tocsin.model.values import Moment, is_null, microseconds

Values: TypeAlias = pa.Array | list[Any]
Lost: TypeAlias = dict[str, int]
"""By reason, how many values could not be read."""

NO_UNICODE = "a text that is not valid Unicode"
FAR_OFF = "a time beyond 64 bits of microseconds"
UNREADABLE = "a value that Arrow cannot read"

_GREATEST = (1 << 63) - 1
_DAY = 86_400
_SAFE = (int, float, bool, type(None), bytes)
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Read(NamedTuple):
    """Values, and by reason how many of each row could not be read."""

    values: Values
    lost: Mapping[str, Int64s]

    def take(self, rows: Int64s, missing: Bools | None = None) -> "Read":
        """Return the values at these rows, NULL where they are missing."""
        gone = np.zeros(rows.size, bool) if missing is None else missing
        if gone.all():
            # There may be no value to take.
            return Read([None] * rows.size if isinstance(self.values, list) else _nulls(rows.size, self.values), {})
        lost = {reason: np.where(gone, 0, counts[rows]) for reason, counts in self.lost.items()}
        if isinstance(self.values, list):
            pairs = zip(rows.tolist(), gone.tolist(), strict=True)
            return Read([None if missed else self.values[row] for row, missed in pairs], lost)
        return Read(self.values.take(pa.array(rows, mask=gone)), lost)


def read_column(column: pa.ChunkedArray, path: Sequence[str] = ()) -> tuple[Values, Lost]:
    """Return the values of a column, or of a field of its structs, and by reason how many could not be read.

    >>> import pyarrow.compute as pc
    >>> read_column(pa.chunked_array([pc.run_end_encode(pa.array([1, 1, None]))]))[0].to_pylist()
    [1, 1, None]
    >>> read_column(pa.chunked_array([pa.array([{"a": {"b": 1}}, None])]), ["a", "b"])[0].to_pylist()
    [1, None]
    """
    chunks = column.chunks or [pa.nulls(0, column.type)]
    parts = [_read_field(chunk, path) if path else _read(chunk) for chunk in chunks]
    lost: Lost = {}
    for part in parts:
        for reason, counts in part.lost.items():
            lost[reason] = lost.get(reason, 0) + int(counts.sum())
    lost = {reason: count for reason, count in lost.items() if count}
    return _joined([part.values for part in parts]), lost


def fields_of(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields of structs in any layout; none if the type is not a struct."""
    while not pa.types.is_struct(kind):
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return []
    return list(kind)


def _read_field(array: pa.Array, path: Sequence[str]) -> Read:
    """Return a field of structs; it is NULL where a struct is, which Arrow forgets in some layouts."""
    types = pa.types
    rows, missing = np.arange(len(array)), np.zeros(len(array), bool)
    for name in path:
        while not types.is_struct(array.type):
            if isinstance(array.type, pa.BaseExtensionType):
                array = array.storage
                continue
            if types.is_dictionary(array.type):
                entry, gone = _entries(array)
                array = array.dictionary
            else:
                entry, gone = _runs(array), np.zeros(len(array), bool)
                array = array.values
            if not len(array):
                return Read(pa.nulls(rows.size), {})
            rows, missing = entry[rows], missing | gone[rows]
        missing = missing | np.asarray(array.is_null())[rows]
        array = array.field(array.type.get_field_index(name))
    return _read(array).take(rows, missing) if missing.any() or rows.size != len(array) else _read(array)


def read_values(values: Iterable[Any]) -> tuple[list[Any], Lost]:
    """Read Python values, and the items of lists among them.

    >>> read_values([1, "half of a pair: \\ud83d", ["a", "\\ud83d"]])
    ([1, None, ['a', None]], {'a text that is not valid Unicode': 2})
    """
    lost: Lost = {}
    read = []
    for given in values:
        if type(given) in _SAFE:
            read.append(given)
            continue
        value = given if type(given) in _PLAIN else _plain(given, lost)
        if isinstance(value, list):
            read.append([_read_item(item, lost) for item in value])
        else:
            read.append(_read_value(value, lost))
    return read, lost


_PLAIN = {type(None), bool, int, float, str, bytes, list, dict, dt.date, dt.datetime}


_ARROW_UNITS = {"ms": "ms", "us": "us", "ns": "ns", "ps": "ns", "fs": "ns", "as": "ns"}
"""The unit in which Arrow reads a time of NumPy; seconds for all that are coarser."""


def _plain(value: Any, lost: Lost) -> Any:
    """The Python value that a scalar of NumPy, Arrow or pandas stands for; tuples, sets and arrays as lists."""
    if isinstance(value, np.ndarray):
        if value.ndim:
            # Not `tolist`, which makes numbers of times that are finer than microseconds.
            return list(value)
        return None if value is np.ma.masked else _plain(value[()], lost)
    if isinstance(value, np.datetime64):
        exact = value.astype("datetime64[us]")
        if exact.astype(value.dtype) == value and isinstance(exact.item(), dt.datetime):
            return exact.item()
        unit = _ARROW_UNITS.get(np.datetime_data(value.dtype)[0], "s")
        return _from_arrow(pa.array(np.array([value], f"datetime64[{unit}]")), lost)[0]
    if isinstance(value, np.timedelta64):
        # It compares with nothing, and its `item` may be an integer.
        return None if np.isnat(value) else ...
    if isinstance(value, np.generic):
        return float(value) if isinstance(value, np.floating) else value.item()
    if isinstance(value, pa.Scalar):
        try:
            return value.as_py()
        except (ValueError, OverflowError):
            # Text that is not UTF-8, or a time that no datetime is.
            is_list = isinstance(value, pa.ListScalar)
            read = _from_arrow(value.values if is_list else pa.array([value], value.type), lost)
            return read if is_list else read[0]
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    # The name of its type identifies the NA of pandas without an import of pandas.
    return None if type(value).__name__ == "NAType" else value


def _from_arrow(array: pa.Array, lost: Lost) -> list[Any]:
    values, unread = read_column(pa.chunked_array([array]))
    for reason, count in unread.items():
        lost[reason] = lost.get(reason, 0) + count
    return python_values(values)


def _read_item(value: Any, lost: Lost) -> Any:
    """Read an item of a list; an object is read field by field."""
    if isinstance(value, Mapping):
        return {name: _read_item(field, lost) for name, field in value.items()}
    return _read_value(value if type(value) in _PLAIN else _plain(value, lost), lost)


def _read_value(value: Any, lost: Lost) -> Any:
    if isinstance(value, str):
        if value.isascii() or _is_unicode(value):
            return value
        lost[NO_UNICODE] = lost.get(NO_UNICODE, 0) + 1
        return None
    if isinstance(value, dt.date):
        # Times of pandas reach further than 64 bits of microseconds, and have a NaT.
        if is_null(value):
            return None
        if not _is_near(value):
            lost[FAR_OFF] = lost.get(FAR_OFF, 0) + 1
            return None
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_near(value: dt.date) -> bool:
    try:
        return -_GREATEST <= microseconds(value) <= _GREATEST
    except (OverflowError, ValueError):
        return False


def python_values(values: Values) -> list[Any]:
    """Return the values as Python has them; `...` stands for one that is there and compares with nothing."""
    if isinstance(values, list):
        return values
    types, kind = pa.types, values.type
    if types.is_dictionary(kind):
        entries = [*python_values(values.dictionary), None]
        return [entries[index] for index in values.indices.fill_null(len(entries) - 1).to_pylist()]
    if types.is_timestamp(kind) or types.is_date(kind):
        whole, beyond = moments(values)
        known = zip(whole.tolist(), beyond.tolist(), values.is_valid().to_pylist(), strict=True)
        return [Moment(*moment) if valid else None for *moment, valid in known]
    if is_number(kind) or types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        python: list[Any] = values.to_pylist()
        return python
    if types.is_large_list(kind):
        items, ends = python_values(values.flatten()), np.asarray(values.value_lengths().fill_null(0)).cumsum().tolist()
        known = zip([0, *ends], ends, values.is_valid().to_pylist(), strict=False)
        return [items[start:end] if valid else None for start, end, valid in known]
    if types.is_struct(kind):
        names = [field.name for field in kind]
        fields = [python_values(_read_field(values, [name]).values) for name in names]
        rows = zip(*fields, strict=True) if fields else [()] * len(values)
        valid_rows = zip(rows, values.is_valid().to_pylist(), strict=True)
        return [dict(zip(names, row, strict=True)) if valid else None for row, valid in valid_rows]
    return [... if valid else None for valid in values.is_valid().to_pylist()]


def python_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of a batch as mappings; a column that Arrow cannot give to Python is as the indexes read it."""
    columns = []
    for column in batch.columns:
        try:
            columns.append(column.to_pylist())
        except (ValueError, OverflowError, KeyError, pa.ArrowException):
            columns.append(python_values(read_column(pa.chunked_array([column]))[0]))
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def present(values: Values) -> Bools:
    """Tell whether there is a value: neither NULL nor NaN."""
    if isinstance(values, list):
        return np.array([not is_null(value) for value in values], bool)
    if pa.types.is_dictionary(values.type):
        of_entry = np.append(present(values.dictionary), False)
        there: Bools = of_entry[np.asarray(values.indices.cast(pa.int64()).fill_null(len(values.dictionary)))]
        return there
    return ~np.asarray(values.is_null(nan_is_null=True))


def are_null(values: pa.Array) -> Bools:
    """Tell which values are NULL, from the bits of an array that has some."""
    bits = values.buffers()[0]
    if bits is None:
        return np.asarray(values.is_null())
    byte, first = divmod(values.offset, 8)
    end = first + len(values)
    there = np.unpackbits(np.frombuffer(bits, np.uint8)[byte : byte + (end + 7) // 8], bitorder="little")
    missing: Bools = there[first:end] == 0
    return missing


def integers_under(values: pa.Array) -> npt.NDArray[Any]:
    """Return the integers of an array without copying them; any integer stands where it is NULL."""
    of_type = np.dtype(values.type.to_pandas_dtype())
    return np.frombuffer(values.buffers()[1], of_type)[values.offset : values.offset + len(values)]


def moments(times: pa.Array) -> tuple[Int64s, Int64s]:
    """Return dates or timestamps as microseconds since 1970 in UTC, and the nanoseconds beyond; 0 for NULL."""
    ticks, scale = _ticks(times)
    if scale == _TICKS["ns"]:
        return ticks // 1_000, ticks % 1_000
    return ticks * (_TICKS["us"] // scale if scale else _DAY * _TICKS["us"]), np.zeros(len(times), np.int64)


def is_number(kind: pa.DataType) -> bool:
    """Tell whether an Arrow type is one of numbers."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _ticks(times: pa.Array) -> tuple[Int64s, int]:
    """Return the integers behind times, 0 for NULL, and how many of them are a second; 0: each is a day."""
    if pa.types.is_timestamp(times.type):
        return np.asarray(times.cast(pa.int64()).fill_null(0)), _TICKS[times.type.unit]
    if pa.types.is_date32(times.type):
        return np.asarray(times.cast(pa.int32()).fill_null(0)).astype(np.int64), 0
    # A date64 means its day, whatever its milliseconds are.
    return np.asarray(times.cast(pa.int64()).fill_null(0)) // (_DAY * 1_000), 0


def _read(array: pa.Array) -> Read:
    types, kind = pa.types, array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _read_extension(array)
    if types.is_run_end_encoded(kind):
        return _read(array.values).take(_runs(array))
    if types.is_dictionary(kind):
        return _read_dictionary(array)
    if _is_list(kind):
        return _read_lists(array)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _read_texts(array)
    if types.is_timestamp(kind) or types.is_date(kind):
        return _read_times(array)
    if types.is_float16(kind):
        return Read(array.cast(pa.float32()), {})
    if types.is_binary_view(kind):
        return Read(array.cast(pa.large_binary()), {})
    if types.is_union(kind):
        return _read_one_by_one(array)
    return Read(array, {})


def _runs(array: pa.RunEndEncodedArray) -> Int64s:
    """Return the run of each row."""
    rows = np.arange(array.offset, array.offset + len(array))
    return np.searchsorted(np.asarray(array.run_ends), rows, side="right")


def _entries(array: pa.DictionaryArray) -> tuple[Int64s, Bools]:
    """Return the entry of each row, 0 if it has none, and whether it has none."""
    return np.asarray(array.indices.cast(pa.int64()).fill_null(0)), np.asarray(array.indices.is_null())


def _read_extension(array: pa.Array) -> Read:
    if array.type == pa.bool8():
        return Read(array.cast(pa.bool_()), {})
    # A UUID does not compare with anything, but may name events: it stays as it is.
    return Read(array, {}) if array.type == pa.uuid() else _read(array.storage)


def _read_dictionary(array: pa.DictionaryArray) -> Read:
    entries = _read(array.dictionary)
    rows, missing = _entries(array)
    kept = entries.values
    if (
        isinstance(kept, list)
        or _is_nested(kept.type)
        or pa.types.is_dictionary(kept.type)
        or kept.null_count == len(kept)
    ):
        return entries.take(rows, missing)
    lost = {reason: np.where(missing, 0, counts[rows]) for reason, counts in entries.lost.items()}
    gone = missing | np.asarray(kept.is_null())[rows]
    indices = pa.array(rows, mask=gone) if kept.null_count else array.indices
    return Read(pa.DictionaryArray.from_arrays(indices, kept), lost)


def _read_lists(array: pa.Array) -> Read:
    missing = np.asarray(array.is_null())
    starts, sizes = _bounds(array)
    sizes[missing] = 0
    ends = np.concatenate([[0], np.cumsum(sizes)])
    owner = np.repeat(np.arange(len(array)), sizes)
    if pa.types.is_map(array.type) or _is_list(array.type.value_type):
        read = Read(pa.nulls(owner.size), {})
    else:
        rows = np.arange(owner.size) + np.repeat(starts - ends[:-1], sizes)
        first = int(rows.min(initial=0 if rows.size == 0 else rows[0]))
        last = int(rows.max(initial=-1))
        read = _read(array.values.slice(first, last + 1 - first))
        if (np.diff(rows) != 1).any():
            read = read.take(rows - first)
    lost = {
        reason: np.bincount(owner, weights=counts, minlength=len(array)).astype(np.int64)
        for reason, counts in read.lost.items()
    }
    if isinstance(read.values, list):
        bounds = zip(ends[:-1].tolist(), ends[1:].tolist(), missing.tolist(), strict=True)
        return Read([None if gone else read.values[start:end] for start, end, gone in bounds], lost)
    mask = pa.array(missing) if missing.any() else None
    return Read(pa.LargeListArray.from_arrays(pa.array(ends), read.values, mask=mask), lost)


def _bounds(lists: pa.Array) -> tuple[Int64s, Int64s]:
    """Return where the items of each list start, and how many there are; both are undefined for NULL."""
    types, kind = pa.types, lists.type
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        return (lists.offset + np.arange(len(lists))) * size, np.full(len(lists), size)
    offsets = np.asarray(lists.offsets).astype(np.int64)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return offsets, np.asarray(lists.sizes).astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def _read_texts(array: pa.Array) -> Read:
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        bad = np.array([not _is_utf8(value) for value in array.cast(pa.large_binary()).to_pylist()], bool)
        return _without(array, bad, NO_UNICODE)
    return Read(array, {})


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _read_times(array: pa.Array) -> Read:
    ticks, scale = _ticks(array)
    each = _TICKS["us"] // scale if scale else _DAY * _TICKS["us"]
    most = _GREATEST // max(each, 1)
    far = (ticks > most) | (ticks < -most)
    return _without(array, far, FAR_OFF) if far.any() else Read(array, {})


def _read_one_by_one(array: pa.Array) -> Read:
    values = []
    lost = np.zeros(len(array), np.int64)
    for row, value in enumerate(array):
        try:
            values.append(value.as_py())
        except (ValueError, OverflowError, pa.ArrowException):
            values.append(None)
            lost[row] = 1
    return Read(values, {UNREADABLE: lost} if lost.any() else {})


def _without(array: pa.Array, bad: Bools, reason: str) -> Read:
    rows = np.arange(len(array))
    return Read(array.take(pa.array(rows, mask=bad | np.asarray(array.is_null()))), {reason: bad.astype(np.int64)})


def _joined(parts: Sequence[Values]) -> Values:
    if len(parts) == 1:
        return parts[0]
    arrays = [part for part in parts if not isinstance(part, list)]
    if len(arrays) < len(parts):
        return [value for part in parts for value in python_values(part)]
    if not all(array.type == arrays[0].type for array in arrays) or not _same_dictionary(arrays):
        # Arrow's own union of dictionaries may overflow the type of their indices.
        arrays = [decoded(array) for array in arrays]
    return pa.concat_arrays(arrays)


def decoded(values: pa.Array) -> pa.Array:
    """Return the values without a dictionary."""
    return values.dictionary.take(values.indices) if pa.types.is_dictionary(values.type) else values


def _same_dictionary(parts: Sequence[pa.Array]) -> bool:
    first = parts[0]
    return not pa.types.is_dictionary(first.type) or all(part.dictionary.equals(first.dictionary) for part in parts)


def _nulls(count: int, like: pa.Array) -> pa.Array:
    return pa.nulls(count, like.type.value_type if pa.types.is_dictionary(like.type) else like.type)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
        or types.is_map(kind)
    )


def _is_nested(kind: pa.DataType) -> bool:
    return _is_list(kind) or bool(pa.types.is_struct(kind))


def malformed(rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[int, str]]:
    """The rows with a value that its type does not allow, such as text that is not UTF-8, and what Arrow says of it.

    >>> names = pa.array([b"caf\\xe9", b"tea"]).view(pa.string())
    >>> [row for row, _ in malformed(pa.table({"name": names}))]
    [0]
    """
    try:
        rows.validate(full=True)
        return
    except pa.ArrowInvalid:
        pass
    # Each part of a dictionary has the whole of it: only values tell who has the bad one.
    values = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in rows.columns
    ]
    yield from _malformed(pa.table(values, names=rows.schema.names), 0)


def _malformed(table: pa.Table, first: int) -> Iterator[tuple[int, str]]:
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        half = len(table) // 2
        if half:
            yield from _malformed(table.slice(0, half), first)
            yield from _malformed(table.slice(half), first + half)
        else:
            yield first, str(error)
