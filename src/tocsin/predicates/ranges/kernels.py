"""Encode values: one binary search among the sorted constants of a domain; and cut codes to 16 bits.

Constant i has code 2i + 1; the gap before it has code 2i, the gap behind the last of n constants code 2n; NULL is -1.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import bytes_at, floats_at, inlined_kernel, int32s_at, integers_at, kernel, uint16s_at
from tocsin.arrays import Float64s, Int32s, Int64s, UInt8s, UInt16s
from tocsin.tuning import TUNING

NULL_CODE = -1
_COMPARED = TUNING.guide_compared
_LEAST = np.iinfo(np.int64).min


@inlined_kernel
def _first_at_least(constants: npt.NDArray[Any], base: int, length: int, value: float) -> int:
    """Return the place of the first of `length` sorted constants from `base` on that is not below the value."""
    while length > 1:
        half = length >> 1
        if constants[base + half - 1] < value:
            base += half
        length -= half
    if length == 1 and constants[base] < value:
        base += 1
    return base


@inlined_kernel
def _guide_bucket(value: float, first: float, scale: float, last_bucket: float) -> float:
    """Return (value - first) * scale, at least 0 and at most `last_bucket`; its whole part is the bucket. NaN: any."""
    place = (value - first) * scale
    place = place if place > 0.0 else 0.0
    return place if place < last_bucket else last_bucket


@kernel
def codes_of_numbers(
    constants: Float64s,
    guide: Int32s,
    values: Float64s,
    codes: Int32s,
) -> None:
    """Write the code of each value into `codes`; NaN is NULL.

    The guide cuts the span of the constants into equal buckets: those of bucket b stand from `guide[b]` to
    `guide[b + 1]`, so that few constants are left to search. It is empty if there are few in all.
    """
    if guide.size == 0:
        _codes_without_guide(constants, values, codes)
        return
    count, buckets = constants.size, guide.size - 1
    first, last_bucket = constants[0], buckets - 1.0
    scale = buckets / (constants[count - 1] - first)
    # One step at a time for all values, so that no step waits for the memory that the one before asked for.
    for row in range(np.uint64(values.size)):
        codes[row] = np.int32(_guide_bucket(values[row], first, scale, last_bucket))
    for row in range(np.uint64(values.size)):
        codes[row] = guide[np.uint64(codes[row])]
    for row in range(np.uint64(values.size)):
        value = values[row]
        # All constants before `base` are below the value. Counting the next ones needs no branch.
        base = min(int(codes[row]), count - _COMPARED)
        below = 0
        for place in range(_COMPARED):
            below += int(constants[np.uint64(base + place)] < value)
        base += below
        if below == _COMPARED:
            end = int(guide[int(_guide_bucket(value, first, scale, last_bucket)) + 1])
            base = _first_at_least(constants, base, end - base, value)
        code = 2 * base + (base < count and constants[base] == value)
        codes[row] = code if value == value else NULL_CODE


@kernel
def _codes_without_guide(constants: Float64s, values: Float64s, codes: Int32s) -> None:
    for row in range(values.size):
        value = values[row]
        base = _first_at_least(constants, 0, constants.size, value)
        code = 2 * base + (base < constants.size and constants[base] == value)
        codes[row] = code if value == value else NULL_CODE


def guide_of(constants: Float64s) -> Int32s:
    """Return the guide for `codes_of_numbers`: half as many buckets as constants, or none."""
    count = constants.size
    span = float(constants[-1]) - float(constants[0]) if count >= TUNING.guide_min_constants else 0.0
    buckets = count // 2
    if not 0.0 < span < np.inf or not 0.0 < buckets / span < np.inf:
        return np.empty(0, np.int32)
    # The same arithmetic as in the kernel, and monotonic: a value gets the bucket of the constant that it equals.
    bucket = np.minimum(((constants - constants[0]) * (buckets / span)).astype(np.int64), buckets - 1)
    guide = np.zeros(buckets + 1, np.int32)
    np.cumsum(np.bincount(bucket, minlength=buckets), out=guide[1:])
    return guide


@kernel
def codes_of_integers(constants: Int64s, values: Int64s, codes: Int32s) -> None:
    """Write the code of each value into `codes`."""
    count = constants.size
    for row in range(values.size):
        value = values[row]
        base = _first_at_least(constants, 0, count, value)
        codes[row] = 2 * base + 1 if base < count and constants[base] == value else 2 * base


@kernel
def compare_bytes(
    left: UInt8s,
    left_start: int,
    left_end: int,
    right: UInt8s,
    right_start: int,
    right_end: int,
) -> int:
    """Return the sign of left compared with right, byte by byte: for UTF-8, the order of code points."""
    left_size = left_end - left_start
    right_size = right_end - right_start
    for step in range(min(left_size, right_size)):
        difference = np.int64(left[left_start + step]) - np.int64(right[right_start + step])
        if difference != 0:
            return -1 if difference < 0 else 1
    if left_size == right_size:
        return 0
    return -1 if left_size < right_size else 1


@kernel
def codes_of_strings(
    constant_offsets: Int64s,
    constant_bytes: UInt8s,
    value_offsets: Int64s,
    value_bytes: UInt8s,
    codes: Int32s,
) -> None:
    """Write the code of each UTF-8 value into `codes`."""
    for row in range(value_offsets.size - 1):
        codes[row] = code_of_bytes(
            constant_offsets, constant_bytes, value_bytes, value_offsets[row], value_offsets[row + 1]
        )


@kernel
def code_of_bytes(constant_offsets: Int64s, constant_bytes: UInt8s, value: UInt8s, start: int, end: int) -> int:
    """Return the code of the UTF-8 value that is `value[start:end]`."""
    low, high = 0, constant_offsets.size - 1
    while low < high:
        middle = (low + high) >> 1
        sign = compare_bytes(constant_bytes, constant_offsets[middle], constant_offsets[middle + 1], value, start, end)
        if sign == 0:
            return 2 * middle + 1
        if sign < 0:
            low = middle + 1
        else:
            high = middle
    return 2 * low


@kernel
def short_codes_by_rank(codes: Int32s, shift: Int32s) -> UInt16s:
    """Return the short codes of a batch, (code >> shift) + 1, a row for each column; NULL is 0."""
    columns, events = codes.shape
    short = np.empty((columns, events), np.uint16)
    for column in range(columns):
        for event in range(events):
            short[column, event] = (codes[column, event] >> shift[column]) + 1
    return short


@kernel
def quantize_values(origin: float, steps_per_unit: float, last: int, values: Float64s, short: UInt16s) -> None:
    """Write the short code of each value: 2 + step, where step = int((value - origin) * steps_per_unit).

    Steps are at least -1 and at most `last` - 2, so that codes are from 1 to `last`; NaN has code 0.
    """
    for row in range(np.uint64(values.size)):
        value = values[row]
        step = (value - origin) * steps_per_unit
        step = step if step > -1.0 else -1.0
        step = step if step < last - 2.0 else last - 2.0
        short[row] = np.uint16(int(step) + 2) if value == value else np.uint16(0)


class ColumnCoders(NamedTuple):
    """How the columns of a segment make codes of values, a row each; constants by the address of their array."""

    constants: Int64s
    """The floats of a column of numbers, the bytes of one of strings."""
    offsets: Int64s
    """Where each string starts in the bytes."""
    size: Int64s
    """The constants."""
    shift: Int32s
    """How far codes are shifted to be short, unless there is a quantizer."""
    line: UInt8s
    """What makes short codes: NO_LINE: they are codes, shifted; else a quantizer on a STRAIGHT or LOGARITHMIC line."""
    origin: Float64s
    steps_per_unit: Float64s


NO_LINE, STRAIGHT, LOGARITHMIC = range(3)
TIME_GIVEN, NUMBER_GIVEN, TEXT_GIVEN = -4, -3, -2
"""Instead of the code of a value: it is to be found by the microseconds, by the number, or by the next text."""


@kernel
def encode_event(
    coders: ColumnCoders,
    last_short: int,
    before: Int32s,
    columns: Int32s,
    given: Int32s,
    numbers: Float64s,
    bits: Int64s,
    count: int,
    texts: UInt8s,
    text_ends: Int64s,
    codes: Int32s,
    short: UInt16s,
) -> None:
    """Write the codes and short codes of one event; those of columns without a value are NULL.

    Value i, of `count`, is for column `columns[i]` and has the code `given[i]`, or TIME_, NUMBER_ or TEXT_GIVEN.
    In a column of numbers it is `numbers[i]`, at least nearly; `bits` has the bits of the numbers, and the microseconds
    of times; the texts follow each other in `texts`. `before` has the number of columns that the event before had
    values in, and these; they are forgotten.
    """
    for place in range(1, before[0] + 1):
        codes[before[place], 0], short[before[place], 0] = NULL_CODE, 0
    text, start = 0, 0
    for place in range(count):
        column, code, line = columns[place], int(given[place]), coders.line[columns[place]]
        if code == TEXT_GIVEN:
            offsets = integers_at(coders.offsets[column], coders.size[column] + 1)
            constants = bytes_at(coders.constants[column], offsets[offsets.size - 1])
            code = code_of_bytes(offsets, constants, texts, start, text_ends[text])
            start = text_ends[text]
            text += 1
        elif code == NUMBER_GIVEN:
            size = coders.size[column]
            floats = floats_at(coders.constants[column], size)
            base = _first_at_least(floats, 0, size, numbers[place])
            code = 2 * base + int(base < size and floats[base] == numbers[place])
        elif code == TIME_GIVEN:
            size = coders.size[column]
            times = integers_at(coders.constants[column], size)
            base = _first_at_least(times, 0, size, bits[place])
            code = 2 * base + int(base < size and times[base] == bits[place])
        codes[column, 0] = code
        if line == NO_LINE:
            short[column, 0] = (code >> coders.shift[column]) + 1
        else:
            value = numbers[place]
            if line == LOGARITHMIC:
                value = float(bits[place] if bits[place] >= 0 else _LEAST - bits[place])
            step = (value - coders.origin[column]) * coders.steps_per_unit[column]
            step = step if step > -1.0 else -1.0
            step = step if step < last_short - 2.0 else last_short - 2.0
            short[column, 0] = int(step) + 2
        before[place + 1] = column
    before[0] = count


@kernel(keeps_lock=True)
def encode_event_at(coders: Int64s, scratch: Int64s, last_short: int, count: int, texts: UInt8s) -> None:
    """Do what `encode_event` does with arrays that are given by tables of addresses and sizes.

    `coders` are ColumnCoders, `scratch` what an event is written to, in the order of the parameters there: before,
    columns, given, numbers, bits, text_ends, codes, short.
    """
    encode_event(
        ColumnCoders(
            integers_at(coders[0, 0], coders[0, 1]),
            integers_at(coders[1, 0], coders[1, 1]),
            integers_at(coders[2, 0], coders[2, 1]),
            int32s_at(coders[3, 0], coders[3, 1]),
            bytes_at(coders[4, 0], coders[4, 1]),
            floats_at(coders[5, 0], coders[5, 1]),
            floats_at(coders[6, 0], coders[6, 1]),
        ),
        last_short,
        int32s_at(scratch[0, 0], scratch[0, 1]),
        int32s_at(scratch[1, 0], scratch[1, 1]),
        int32s_at(scratch[2, 0], scratch[2, 1]),
        floats_at(scratch[3, 0], scratch[3, 1]),
        integers_at(scratch[4, 0], scratch[4, 1]),
        count,
        texts,
        integers_at(scratch[5, 0], scratch[5, 1]),
        int32s_at(scratch[6, 0], scratch[6, 1]).reshape(-1, 1),
        uint16s_at(scratch[7, 0], scratch[7, 1]).reshape(-1, 1),
    )
