"""Domains: how the values of one attribute become codes.

The sorted distinct constants of an attribute's predicates cut its values into elementary intervals: constant i has code
2i + 1, the gap before it 2i, the gap behind the last of n constants 2n. An event's value becomes a code by one binary
search; every comparison is then an integer range over codes, whatever the type. NULL is -1, and so is every value of
another kind.

Three constants 10, 20, 30 give the codes

    value   5   10   15   20   25   30   99   NULL
    code    0    1    2    3    4    5    6     -1

and `BETWEEN 10 AND 20` is [1, 3], `> 10` is [2, 6], `<> 20` is [0, 2] or [4, 6].
"""

import datetime as dt
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, Strings
from tocsin.forks import cached
from tocsin.invariants import check_starts, check_strings, check_type, demand
from tocsin.model.predicate import Range
from tocsin.model.readable import are_null, integers_under, moments, present
from tocsin.model.values import Kind, Moment, Number, Scalar, compare_to_constant, kind_of, moment
from tocsin.predicates.ranges.kernels import NULL_CODE, codes_of_integers, codes_of_numbers, codes_of_strings, guide_of
from tocsin.tuning import TUNING

Arrays = Mapping[str, npt.NDArray[Any]]

_NO_GUIDE = np.empty(0, np.int32)
_EXACT_AS_FLOAT = 2**53
_DIGITS_OF_FLOAT = 15
"""Decimals of so many digits are different floats, in the same order."""
_POWERS_OF_FLOAT = 22
"""Up to here every power of ten is a float64."""


def sorted_distinct(kind: Kind, constants: Sequence[Any]) -> list[Any]:
    """Return the distinct constants in their order. Linear if they are nearly in order, as those of IN lists are."""
    return sorted(dict.fromkeys(constants), key=attrgetter("exact") if kind is Kind.NUMBER else None)


class Domain:
    """The constants of one attribute and kind, sorted and distinct.

    >>> domain = Domain.of(Kind.NUMBER, [Number(30), Number(10), Number(20)])
    >>> [domain.code(value) for value in (5, 10, 15.0, 99, None, "x")]
    [0, 1, 2, 6, -1, -1]
    >>> domain.codes(pa.array([5, 10, None])).tolist()
    [0, 1, -1]
    """

    def __init__(
        self,
        kind: Kind,
        constants: Float64s | Int64s | Strings,
        exact: Mapping[int, int | Decimal] | None = None,
        guide: Int32s | None = None,
    ) -> None:
        self.kind = kind
        self.constants = constants
        self.exact = dict(exact or {})
        """Number constants that no float64 is, by position; `constants` holds the nearest float64 there."""
        if guide is None:
            numbers: Any = constants
            guide = guide_of(numbers) if kind is Kind.NUMBER else _NO_GUIDE
        self.guide = guide
        """Where to begin to search among numbers (see `codes_of_numbers`); empty in other domains."""
        self.last = 2 * len(constants)
        """The largest code."""

    @classmethod
    def of(cls, kind: Kind, constants: Sequence[Scalar]) -> "Domain":
        """Build from constants in any order, with repetitions. O(n log n)."""
        return cls.of_sorted(kind, sorted_distinct(kind, constants))

    @classmethod
    def of_sorted(cls, kind: Kind, distinct: Sequence[Any]) -> "Domain":
        """Build from distinct constants in their order."""
        if kind is Kind.NUMBER:
            nearest = np.array([number.nearest for number in distinct], np.float64)
            exact = {place: number.exact for place, number in enumerate(distinct) if not number.is_float}
            return cls(kind, nearest, exact)
        if kind is Kind.STRING:
            return cls(kind, Strings.of(distinct))
        return cls(kind, np.array(distinct, np.int64))

    def code(self, value: object) -> int:
        """The code of one Python value. O(log n)."""
        kind = kind_of(value)
        if self.kind is Kind.ANY:
            return NULL_CODE if value is None or (kind is None and isinstance(value, (float, Decimal))) else 0
        if kind is not self.kind:
            return NULL_CODE
        if isinstance(self.constants, Strings):
            strings = self.constants
            place = bisect_left(range(len(strings)), str(value), key=strings.__getitem__)
            return 2 * place + (place < len(strings) and strings[place] == value)
        if kind is Kind.NUMBER:
            return self._code_of_number(value)
        number, beyond = moment(value) if isinstance(value, (dt.date, Moment)) else (int(value), 0)  # type: ignore[call-overload]
        place = int(np.searchsorted(self.constants, number))
        is_constant = place < len(self.constants) and self.constants[place] == number
        return 2 * place + (2 if is_constant and beyond else bool(is_constant))

    def _code_of_number(self, value: Any) -> int:
        constants: Any = self.constants
        if not self.exact and (isinstance(value, float) or (isinstance(value, int) and abs(value) <= _EXACT_AS_FLOAT)):
            place = int(constants.searchsorted(float(value)))
            return 2 * place + bool(place < constants.size and constants[place] == value)
        low, high = 0, int(constants.size)
        while low < high:
            middle = (low + high) // 2
            sign = compare_to_constant(value, self._number(middle))
            if sign == 0:
                return 2 * middle + 1
            low, high = (middle + 1, high) if sign == 1 else (low, middle)
        return 2 * low

    @cached
    def nearest_to_exact(self) -> Float64s:
        """The floats nearest to constants that no float is: of all floats, only these need the exact constants."""
        constants: Any = self.constants
        nearest: Float64s = constants[sorted(self.exact)]
        return nearest

    def _number(self, place: int) -> int | float | Decimal:
        constants: Any = self.constants
        return self.exact.get(place) or float(constants[place])

    def codes(self, array: pa.Array) -> Int32s:
        """The codes of a column. O(rows log n)."""
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if pa.types.is_dictionary(array.type):
            return self._codes_of_dictionary(array)
        if self.kind is Kind.ANY:
            return np.where(present(array), 0, NULL_CODE).astype(np.int32)
        encode = _encoder(self.kind, array.type)
        if encode is None:
            return np.full(len(array), NULL_CODE, np.int32)
        codes = np.empty(len(array), np.int32)
        encode(self, array, codes)
        if array.null_count:
            codes[are_null(array)] = NULL_CODE
        return codes

    def _codes_of_dictionary(self, array: pa.DictionaryArray) -> Int32s:
        of_value = np.append(self.codes(array.dictionary), np.int32(NULL_CODE))
        indices = np.asarray(array.indices.fill_null(len(array.dictionary)).cast(pa.int64()))
        codes: Int32s = of_value[indices]
        return codes

    def code_range(self, wanted: Range) -> tuple[int, int]:
        """The first and the last code inside a range whose ends are constants of this domain."""
        low, high = 0, self.last
        if wanted.low is not None:
            low = self._code_of_constant(wanted.low) + (not wanted.low_closed)
        if wanted.high is not None:
            high = self._code_of_constant(wanted.high) - (not wanted.high_closed)
        return low, high

    def _code_of_constant(self, constant: Scalar) -> int:
        if isinstance(constant, Number):
            return self._code_of_number(constant.nearest if constant.is_float else constant.exact)
        if self.kind is Kind.TIME:
            return 2 * int(np.searchsorted(self.constants, constant)) + 1  # type: ignore[arg-type]  # an integer here
        return self.code(constant)

    def constant(self, place: int) -> Scalar:
        """The constant at a position."""
        if self.kind is Kind.NUMBER:
            return Number(self._number(place))
        if isinstance(self.constants, Strings):
            return self.constants[place]
        value = int(self.constants[place])
        return bool(value) if self.kind is Kind.BOOLEAN else value

    def even_shares(self) -> Float64s | None:
        """The share of values that has each code, if they lie evenly between nearly the first and the last constant.

        None if the constants are not numbers or times, or have no span. The values of a constant itself have no width.

        >>> Domain(Kind.NUMBER, np.array([10.0, 20.0, 50.0])).even_shares().tolist()
        [0.0, 0.0, 0.25, 0.0, 0.75, 0.0, 0.0]
        """
        if self.kind not in (Kind.NUMBER, Kind.TIME) or len(self.constants) < 2:
            return None
        constants: Any = self.constants
        beyond = constants.size >> TUNING.tail_bits
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            first, last = constants[beyond].astype(np.float64), constants[-1 - beyond].astype(np.float64)
            inside = np.clip(constants.astype(np.float64), first, last)
            widths = np.diff(inside) / (last - first)
        if not np.isfinite(widths).all():
            return None
        shares = np.zeros(self.last + 1)
        shares[2:-1:2] = widths
        return shares

    def values_at(self, places: Int64s) -> npt.NDArray[Any]:
        """The constants at some positions as the columns of a normal form have them; anything where it is -1."""
        if isinstance(self.constants, Strings):
            strings = np.empty(len(places), object)
            if len(self.constants):
                strings[:] = self.constants.arrow().take(pa.array(np.maximum(places, 0))).to_pylist()
            return strings
        if self.exact:
            numbers = np.empty(len(places), object)
            numbers[:] = [Number(self._number(place)) if place >= 0 else None for place in places.tolist()]
            return numbers
        if self.kind is Kind.ANY:
            return np.zeros(len(places), bool)
        values = np.append(self.constants, 0)[places]
        return values.astype(bool) if self.kind is Kind.BOOLEAN else values

    def arrays(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""
        if isinstance(self.constants, Strings):
            return {f"{prefix}.offsets": self.constants.offsets, f"{prefix}.bytes": self.constants.data}
        arrays: dict[str, npt.NDArray[Any]] = {f"{prefix}.constants": self.constants}
        if self.kind is Kind.NUMBER:
            arrays[f"{prefix}.guide"] = self.guide
        if self.exact:
            text = json.dumps({place: str(number) for place, number in self.exact.items()})
            arrays[f"{prefix}.exact"] = np.frombuffer(text.encode(), np.uint8)
        return arrays

    @classmethod
    def from_arrays(cls, kind: Kind, prefix: str, arrays: Arrays) -> "Domain":
        """The domain that `arrays` came from, without copying."""
        if kind is Kind.STRING:
            return cls(kind, Strings(arrays[f"{prefix}.offsets"], arrays[f"{prefix}.bytes"]))
        exact: dict[int, int | Decimal] = {}
        if f"{prefix}.exact" in arrays:
            texts = json.loads(arrays[f"{prefix}.exact"].tobytes())
            exact = {int(place): _exact_number(text) for place, text in texts.items()}
        return cls(kind, arrays[f"{prefix}.constants"], exact, arrays.get(f"{prefix}.guide"))

    def check_arrays(self) -> None:
        """Demand constants in order, and what keeps the kernels within their arrays."""
        if isinstance(self.constants, Strings):
            check_strings("", self.constants, joint="")
            texts = self.constants.arrow()
            in_order = pc.all(pc.less(texts[:-1], texts[1:])).as_py()
            demand(in_order is not False, "bytes", "the constants do not ascend")
            return
        count = self.constants.size
        check_type("constants", self.constants, np.float64 if self.kind is Kind.NUMBER else np.int64)
        # Two numbers that no float is may have the same float beside them. NaN has no place in an order.
        demand(self.constants[1:] >= self.constants[:-1], "constants", "they do not ascend")
        demand(
            self.kind is not Kind.NUMBER or not np.isnan(self.constants[:1]).any(), "constants", "they do not ascend"
        )
        check_type("guide", self.guide, np.int32)
        if self.guide.size:
            enough = self.guide.size > 1 and count >= TUNING.guide_compared
            demand(enough, "guide", "there are too few constants for it")
            check_starts("guide", self.guide, self.guide.size - 1, count)
        demand(all(0 <= place < count for place in self.exact), "exact", "a number has no place")

    @cached
    def digest(self) -> bytes:
        """Equal for domains of equal constants only."""
        digest = blake2b(self.kind.value.encode(), digest_size=16)
        for name, array in self.arrays("").items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.digest()

    @property
    def nbytes(self) -> int:
        """Bytes of the constants."""
        return sum(array.nbytes for array in self.arrays("").values())


def _exact_number(text: str) -> int | Decimal:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number


def _encoder(kind: Kind, column: pa.DataType) -> Any:
    """The function that encodes a column of this Arrow type for this kind; None if the two do not compare."""
    types = pa.types
    if kind is Kind.NUMBER:
        if types.is_floating(column):
            return _encode_floats
        if types.is_integer(column):
            return _encode_integers
        if types.is_decimal(column):
            return _encode_floats if _is_short_decimal(column) else _encode_one_by_one
    if kind is Kind.STRING and (
        types.is_string(column) or types.is_large_string(column) or types.is_string_view(column)
    ):
        return _encode_strings
    if kind is Kind.BOOLEAN and types.is_boolean(column):
        return _encode_booleans
    if kind is Kind.TIME and (types.is_timestamp(column) or types.is_date(column)):
        return _encode_times
    return None


def _is_short_decimal(column: pa.DataType) -> bool:
    is_short: bool = column.precision <= _DIGITS_OF_FLOAT and 0 <= column.scale <= _POWERS_OF_FLOAT
    return is_short and pa.types.is_decimal128(column)


def floats_of(array: pa.Array) -> Float64s:
    """The numbers of a column as the nearest floats; NaN for NULL and for what is not a number.

    >>> floats_of(pa.array([2**53 + 1, None])).tolist(), floats_of(pa.array(["x"])).tolist()
    ([9007199254740992.0, nan], [nan])
    """
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    types, column = pa.types, array.type
    if types.is_dictionary(column):
        indices = np.asarray(array.indices.fill_null(len(array.dictionary)).cast(pa.int64()))
        decoded: Float64s = np.append(floats_of(array.dictionary), np.nan)[indices]
        return decoded
    if types.is_floating(column):
        if array.null_count or column != pa.float64():
            array = array.cast(pa.float64()).fill_null(np.nan)
        return np.asarray(array)
    if types.is_integer(column):
        floats = np.asarray(array.fill_null(0)).astype(np.float64)
    elif types.is_decimal(column) and _is_short_decimal(column):
        # Digits and power of ten are floats, so that one division rounds as it must. Arrow's own cast does not: it
        # makes 19.990000000000002 of 19.990.
        low_words = np.frombuffer(array.buffers()[1], np.int64)[::2]
        floats = low_words[array.offset : array.offset + len(array)].astype(np.float64) / 10.0**column.scale
    elif types.is_decimal(column):
        floats = np.array([np.nan if value is None else float(value) for value in array.to_pylist()], np.float64)
    else:
        floats = np.full(len(array), np.nan)
    if array.null_count:
        floats[np.asarray(array.is_null())] = np.nan
    return floats


def _encode_floats(domain: Domain, array: pa.Array, codes: Int32s) -> None:
    _encode_float_values(domain, floats_of(array), codes)


def _encode_float_values(domain: Domain, values: Float64s, codes: Int32s) -> None:
    codes_of_numbers(domain.constants, domain.guide, values, codes)  # type: ignore[arg-type]  # a number domain
    if domain.exact:
        _decide_exactly(domain, np.isin(values, domain.nearest_to_exact), values, codes)


def _encode_integers(domain: Domain, array: pa.Array, codes: Int32s) -> None:
    # What stands under a NULL is some integer, whose code nobody reads. Filling costs a batch of few values more than
    # all else that is done with a column.
    filled = integers_under(array) if array.null_count else np.asarray(array)
    values = filled.astype(np.float64)
    codes_of_numbers(domain.constants, domain.guide, values, codes)  # type: ignore[arg-type]  # a number domain
    if filled.size and max(int(filled.max()), -int(filled.min())) > _EXACT_AS_FLOAT:
        _decide_exactly(domain, np.isin(values, domain.constants), filled, codes)  # type: ignore[arg-type]  # numbers
    elif domain.exact:
        _decide_exactly(domain, np.isin(values, domain.nearest_to_exact), filled, codes)


def _decide_exactly(domain: Domain, doubtful: Bools, values: npt.NDArray[Any], codes: Int32s) -> None:
    """Find the codes of doubtful values one by one: those whose nearest float is that of a constant.

    Rounding keeps the order, so that all other values lie on the same side of a constant as their nearest floats do.
    """
    rows = np.flatnonzero(doubtful)
    codes[rows] = [domain.code(value) for value in values[rows].tolist()]


def _encode_one_by_one(domain: Domain, array: pa.Array, codes: Int32s) -> None:
    codes[:] = [domain.code(value) for value in array.to_pylist()]


def _encode_strings(domain: Domain, array: pa.Array, codes: Int32s) -> None:
    values = Strings.of_arrow(array)
    constants = domain.constants
    assert isinstance(constants, Strings)
    codes_of_strings(constants.offsets, constants.data, values.offsets, values.data, codes)


def _encode_booleans(domain: Domain, array: pa.Array, codes: Int32s) -> None:
    values = np.asarray(array.fill_null(False)).astype(np.int64)
    codes_of_integers(domain.constants, values, codes)  # type: ignore[arg-type]  # a boolean domain


def _encode_times(domain: Domain, array: pa.Array, codes: Int32s) -> None:
    """Encode in microseconds; a finer value lies in the gap behind its microsecond."""
    values, beyond = moments(array)
    codes_of_integers(domain.constants, values, codes)  # type: ignore[arg-type]  # a time domain
    codes[(beyond != 0) & (codes % 2 == 1)] += 1
