"""Values inside an XML document: references decoded, numbers read as libxml2 reads them."""

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel

Bytes = npt.NDArray[np.uint8]

_MAX_FRACTION = 20


@kernel
def number_of(data: Bytes, length: int) -> float:
    """The number in the first `length` bytes by libxml2's rules and rounding, NaN if they hold none."""
    i = 0
    while i < length and (data[i] == 32 or (9 <= data[i] <= 10) or data[i] == 13):
        i += 1
    negative = i < length and data[i] == 45
    if negative:
        i += 1
    value = 0.0
    digits = False
    while i < length and 48 <= data[i] <= 57:
        value = value * 10.0 + float(data[i] - 48)
        digits = True
        i += 1
    if i < length and data[i] == 46:
        i += 1
        if not digits and (i >= length or data[i] < 48 or data[i] > 57):
            return np.nan
        digits = True
        places = 0
        while i < length and data[i] == 48:
            places += 1
            i += 1
        most = places + _MAX_FRACTION
        fraction = 0.0
        while i < length and 48 <= data[i] <= 57 and places < most:
            fraction = fraction * 10.0 + float(data[i] - 48)
            places += 1
            i += 1
        value += fraction / 10.0 ** float(places)
        while i < length and 48 <= data[i] <= 57:
            i += 1
    if not digits:
        return np.nan
    exponent = 0
    if i < length and (data[i] == 101 or data[i] == 69):
        i += 1
        down = i < length and data[i] == 45
        if i < length and (data[i] == 45 or data[i] == 43):
            i += 1
        while i < length and 48 <= data[i] <= 57:
            if exponent < 1000000:
                exponent = exponent * 10 + int(data[i]) - 48
            i += 1
        if down:
            exponent = -exponent
    while i < length and (data[i] == 32 or (9 <= data[i] <= 10) or data[i] == 13):
        i += 1
    if i < length:
        return np.nan
    if negative:
        value = -value
    if exponent != 0:
        value *= float(np.float64(10.0) ** float(exponent))
    return value


@kernel
def decode(data: Bytes, start: int, stop: int, attribute: bool, out: Bytes, place: int) -> int:
    """Write data[start:stop] to `out` from `place` with its references resolved; returns the place after it.

    Line breaks and tabs in an attribute are spaces unless written as references, as XML has it.
    """
    i = start
    while i < stop:
        byte = data[i]
        if byte != 38:
            out[place] = 32 if attribute and (byte == 9 or byte == 10) else byte
            place += 1
            i += 1
            continue
        i += 1
        if data[i] == 35:
            i += 1
            code = 0
            if data[i] == 120:
                i += 1
                while data[i] != 59:
                    digit = int(data[i])
                    code = code * 16 + (digit - 48 if digit <= 57 else (digit & 95) - 55)
                    i += 1
            else:
                while data[i] != 59:
                    code = code * 10 + int(data[i]) - 48
                    i += 1
            place = _write_utf8(code, out, place)
        else:
            # The five names differ in their first two letters: lt, gt, amp, apos, quot.
            if data[i] == 108:
                out[place] = 60
            elif data[i] == 103:
                out[place] = 62
            elif data[i] == 113:
                out[place] = 34
            elif data[i + 1] == 109:
                out[place] = 38
            else:
                out[place] = 39
            place += 1
            while data[i] != 59:
                i += 1
        i += 1
    return place


@kernel
def _write_utf8(code: int, out: Bytes, place: int) -> int:
    if code < 0x80:
        out[place] = code
        return place + 1
    if code < 0x800:
        out[place] = 0xC0 | (code >> 6)
        out[place + 1] = 0x80 | (code & 63)
        return place + 2
    if code < 0x10000:
        out[place] = 0xE0 | (code >> 12)
        out[place + 1] = 0x80 | ((code >> 6) & 63)
        out[place + 2] = 0x80 | (code & 63)
        return place + 3
    out[place] = 0xF0 | (code >> 18)
    out[place + 1] = 0x80 | ((code >> 12) & 63)
    out[place + 2] = 0x80 | ((code >> 6) & 63)
    out[place + 3] = 0x80 | (code & 63)
    return place + 4
