"""Lower and fold UTF-8 in a kernel: what each code point becomes stands in a table, made of the definition in Python.

A kernel may go code point by code point only where neighbours do not matter. For `lower` they never do. For `fold`,
which composes before and after it folds, a text needs no composing if no code point of it changes by itself or joins
one before it, and combining marks stand in their order. (This is the quick check of Unicode's annex 15.) What a code
point of such a text folds to must be of this kind as well. All other texts are left to Python.
"""

import unicodedata
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int16s, Int32s, Int64s, UInt8s
from tocsin.model.text import fold, lower

ASCII = 128
"""Bytes below this one are characters by themselves; texts with others are not ASCII."""
IN_PYTHON = 255
"""The class of a code point that leaves its text to Python."""
TABLE_END = 0x30000
"""Code points from here on stay as they are, wherever they stand. (A test looks at all of them.)"""
_JOINING_JAMO = (range(0x1161, 0x1176), range(0x11A8, 0x11C3))
_SURROGATES = range(0xD800, 0xE000)
Int = int | np.int64


class Folding(NamedTuple):
    """What code points become.

    Code point c has ``class_of[c]``: IN_PYTHON, or its combining class. It becomes replacement ``new[c]``, which is
    ``data[starts[n]:starts[n + 1]]``; 0: it stays.
    """

    class_of: UInt8s
    new: Int16s
    starts: Int32s
    data: UInt8s


def _table(becomes: dict[int, str], classes: UInt8s) -> Folding:
    new = np.zeros(TABLE_END, np.int16)
    distinct = {text: number for number, text in enumerate(dict.fromkeys(becomes.values()), 1)}
    for code, text in becomes.items():
        new[code] = distinct[text]
    encoded = [b"", *(text.encode() for text in distinct)]
    starts = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return Folding(classes, new, starts, np.frombuffer(b"".join(encoded), np.uint8))


def _characters() -> list[str]:
    return [chr(code) for code in range(ASCII, TABLE_END) if code not in _SURROGATES]


@cache
def _lowering() -> Folding:
    becomes = {ord(each): lower(each) for each in _characters() if lower(each) != each}
    return _table(becomes, np.zeros(TABLE_END, np.uint8))


@cache
def _folding() -> Folding:
    composed = [unicodedata.decomposition(each).split() for each in _characters()]
    joining = {int(parts[1], 16) for parts in composed if len(parts) == 2 and parts[0][0] != "<"}
    joining.update(code for codes in _JOINING_JAMO for code in codes)

    def is_inert(each: str) -> bool:
        return ord(each) not in joining and unicodedata.normalize("NFC", each) == each

    becomes = {}
    classes = np.zeros(TABLE_END, np.uint8)
    for each in _characters():
        code, mark, folded = ord(each), unicodedata.combining(each), each.casefold()
        stays = folded == each
        if is_inert(each) and (
            stays or (not mark and all(is_inert(c) and not unicodedata.combining(c) for c in folded))
        ):
            classes[code] = mark
            if not stays:
                becomes[code] = folded
        else:
            classes[code] = IN_PYTHON
    return _table(becomes, classes)


class Rewriting(NamedTuple):
    """A function on texts, and the table that gives most texts the same; letters of ASCII stay as they are."""

    function: Callable[[str], str]
    table: Callable[[], Folding]


LOWER, FOLD = Rewriting(lower, _lowering), Rewriting(fold, _folding)


@kernel
def code_point(text: UInt8s, i: int) -> tuple[Int, int]:
    """Return the code point beyond ASCII whose UTF-8 starts at i, and the number of its bytes."""
    c = np.int64(text[i])
    if c < 0xE0:
        return ((c & 0x1F) << 6) | (np.int64(text[i + 1]) & 0x3F), 2
    if c < 0xF0:
        return ((c & 0x0F) << 12) | ((np.int64(text[i + 1]) & 0x3F) << 6) | (np.int64(text[i + 2]) & 0x3F), 3
    high = ((c & 0x07) << 18) | ((np.int64(text[i + 1]) & 0x3F) << 12)
    return high | ((np.int64(text[i + 2]) & 0x3F) << 6) | (np.int64(text[i + 3]) & 0x3F), 4


@kernel(looked_up=("table",))
def rewrite_texts(offsets: Int64s, data: UInt8s, wide: Bools, table: Folding) -> tuple[Int64s, UInt8s, Bools]:
    """Rewrite the texts that are `wide`; return all texts, and which of them are left to Python, here as they were."""
    class_of, new, starts, replacements = table
    rows = len(offsets) - 1
    in_python = np.zeros(rows, np.bool_)
    new_offsets = np.zeros(rows + 1, np.int64)
    # A code point of two bytes becomes six at most.
    room = 0
    for row in range(rows):
        room += (3 if wide[row] else 1) * (offsets[row + 1] - offsets[row])
    rewritten = np.empty(room, np.uint8)
    filled = 0
    for row in range(rows):
        i, stop = offsets[row], offsets[row + 1]
        last_class = 0
        while wide[row] and i < stop:
            if data[i] < ASCII:
                rewritten[filled] = data[i]
                filled += 1
                i += 1
                last_class = 0
                continue
            point, width = code_point(data, i)
            number = 0
            own_class = 0
            if point < TABLE_END:
                number, own_class = new[point], class_of[point]
            if own_class == IN_PYTHON or 0 < own_class < last_class:
                in_python[row] = True
                break
            last_class = own_class
            if number == 0:
                for k in range(i, i + width):
                    rewritten[filled] = data[k]
                    filled += 1
            else:
                for k in range(starts[number], starts[number + 1]):
                    rewritten[filled] = replacements[k]
                    filled += 1
            i += width
        if in_python[row] or not wide[row]:
            filled = new_offsets[row]
            for k in range(offsets[row], stop):
                rewritten[filled] = data[k]
                filled += 1
        new_offsets[row + 1] = filled
    return new_offsets, rewritten[:filled], in_python
