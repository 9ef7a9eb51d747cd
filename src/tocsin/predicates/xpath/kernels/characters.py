"""Values inside an XML document: references decoded, numbers read as libxml2 reads them."""

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import UInt8s

TAB, NEWLINE, RETURN, SPACE = map(ord, "\t\n\r ")
BANG, QUOTE, HASH, AMPERSAND, APOSTROPHE, PLUS, MINUS, DOT, SLASH = map(ord, "!\"#&'+-./")
ZERO, NINE, COLON, SEMICOLON, LESS_THAN, EQUALS, GREATER_THAN, QUESTION = map(ord, "09:;<=>?")
UPPER_A, UPPER_E, LOWER_E, LOWER_G, LOWER_L, LOWER_M, LOWER_Q, LOWER_X = map(ord, "AEeglmqx")
OPENING_BRACE, CLOSING_BRACE = map(ord, "{}")

EMPTY_REFERENCE = "&;"
"""How `document` writes a text node without characters, which no well-formed document can write plainly."""
_MAX_FRACTION = 20
"""Digits of a fraction that libxml2 reads behind its leading zeros; it skips the others."""
_MAX_EXPONENT = 1_000_000
"""Where libxml2 stops reading the digits of an exponent."""


@kernel
def _is_digit(byte: int) -> bool:
    return ZERO <= byte <= NINE


@kernel
def _skip_space(data: UInt8s, i: int, length: int) -> int:
    while i < length and (data[i] in (SPACE, TAB, NEWLINE, RETURN)):
        i += 1
    return i


@kernel
def number_of(data: UInt8s, length: int) -> float:
    """Return the number in the first `length` bytes by libxml2's rules and rounding; NaN if they hold none."""
    i = _skip_space(data, 0, length)
    negative = i < length and data[i] == MINUS
    if negative:
        i += 1
    value = 0.0
    digits = False
    while i < length and _is_digit(data[i]):
        value = value * 10.0 + float(data[i] - ZERO)
        digits = True
        i += 1
    if i < length and data[i] == DOT:
        i += 1
        if not digits and (i >= length or not _is_digit(data[i])):
            return np.nan
        digits = True
        places = 0
        while i < length and data[i] == ZERO:
            places += 1
            i += 1
        most = places + _MAX_FRACTION
        fraction = 0.0
        while i < length and _is_digit(data[i]) and places < most:
            fraction = fraction * 10.0 + float(data[i] - ZERO)
            places += 1
            i += 1
        value += fraction / 10.0 ** float(places)
        while i < length and _is_digit(data[i]):
            i += 1
    if not digits:
        return np.nan
    exponent = 0
    if i < length and (data[i] == LOWER_E or data[i] == UPPER_E):
        i += 1
        down = i < length and data[i] == MINUS
        if i < length and (data[i] == MINUS or data[i] == PLUS):
            i += 1
        while i < length and _is_digit(data[i]):
            if exponent < _MAX_EXPONENT:
                exponent = exponent * 10 + int(data[i]) - ZERO
            i += 1
        if down:
            exponent = -exponent
    if _skip_space(data, i, length) < length:
        return np.nan
    if negative:
        value = -value
    if exponent != 0:
        value *= float(np.float64(10.0) ** float(exponent))
    return value


@kernel
def decode(data: UInt8s, start: int, stop: int, attribute: bool, out: UInt8s, place: int) -> int:
    """Write data[start:stop] to `out` from `place` with its references resolved; return the place behind it.

    Line breaks and tabs in an attribute become spaces unless they are written as references, as XML requires.
    """
    i = start
    while i < stop:
        byte = data[i]
        if byte != AMPERSAND:
            out[place] = SPACE if attribute and byte in (TAB, NEWLINE) else byte
            place += 1
            i += 1
            continue
        i += 1
        if data[i] == SEMICOLON:
            i += 1
            continue
        if data[i] == HASH:
            i += 1
            code = 0
            if data[i] == LOWER_X:
                i += 1
                while data[i] != SEMICOLON:
                    digit = int(data[i])
                    # Clearing bit 5 turns a to f into A to F, which are worth 10 to 15.
                    code = code * 16 + (digit - ZERO if digit <= NINE else (digit & ~32) - UPPER_A + 10)
                    i += 1
            else:
                while data[i] != SEMICOLON:
                    code = code * 10 + int(data[i]) - ZERO
                    i += 1
            place = _write_utf8(code, out, place)
        else:
            # The five names differ in their first two letters: lt, gt, quot, amp, apos.
            if data[i] == LOWER_L:
                out[place] = LESS_THAN
            elif data[i] == LOWER_G:
                out[place] = GREATER_THAN
            elif data[i] == LOWER_Q:
                out[place] = QUOTE
            elif data[i + 1] == LOWER_M:
                out[place] = AMPERSAND
            else:
                out[place] = APOSTROPHE
            place += 1
            while data[i] != SEMICOLON:
                i += 1
        i += 1
    return place


@kernel
def _write_utf8(code: int, out: UInt8s, place: int) -> int:
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
