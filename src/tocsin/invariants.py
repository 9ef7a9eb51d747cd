"""What kernels rely on: whatever bytes a file holds, no kernel may read outside its arrays.

Kernels do not check their indexes. So each structure states what must hold of its arrays, and a structure that comes
from a file is checked once, vectorised, before anything reads it: types, lists that follow each other, numbers within
their bounds. A failure names the array. These are not `assert` statements, which `python -O` leaves out.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.arrays import Strings

Array = npt.NDArray[Any]


class BrokenInvariantError(AssertionError):
    """An array that is not what the kernels rely on: which one, and what does not hold."""

    def __init__(self, array: str, reason: str) -> None:
        super().__init__(f"array {array!r}: {reason}")
        self.array = array
        self.reason = reason


@contextmanager
def under(prefix: str) -> Iterator[None]:
    """Name the arrays of what is checked within as its file does, under a prefix."""
    try:
        yield
    except BrokenInvariantError as error:
        raise BrokenInvariantError(prefix + error.array, error.reason) from None


_give_back: ContextVar[Callable[[], None] | None] = ContextVar("_give_back", default=None)


@contextmanager
def giving_back(pages: Callable[[], None]) -> Iterator[None]:
    """Call `pages` after each step of a check: so a check of arrays beyond memory does not hold them all in memory."""
    token = _give_back.set(pages)
    try:
        yield
    finally:
        _give_back.reset(token)


def step_done() -> None:
    """Give back the pages that were read for a step of a check, if its caller wants that."""
    if (pages := _give_back.get()) is not None:
        pages()


def demand(holds: Any, array: str, reason: str) -> None:
    """Raise BrokenInvariantError, which names the array, unless the condition holds (for all, if it is an array)."""
    if not (holds.all() if isinstance(holds, np.ndarray) else holds):
        raise BrokenInvariantError(array, reason)
    step_done()


def check_type(name: str, array: Array, dtype: type[np.generic], width: int | None = None) -> None:
    """Demand the type of an array that a kernel is compiled for; with a width, rows of so many columns.

    >>> check_type("starts", np.zeros(2, np.int64), np.int64)
    >>> check_type("starts", np.zeros(2, np.int32), np.int64)
    Traceback (most recent call last):
    ...
    tocsin.invariants.BrokenInvariantError: array 'starts': it has int32, not int64
    """
    demand(array.dtype == dtype, name, f"it has {array.dtype}, not {np.dtype(dtype)}")
    if width is None:
        demand(array.ndim == 1, name, f"it has {array.ndim} dimensions, not one")
    else:
        demand(array.ndim == 2 and array.shape[1] == width, name, f"it has no rows of {width} columns")
    if dtype is np.bool_:
        demand(array.view(np.uint8).max(initial=0) <= 1, name, "a truth value is neither 0 nor 1")


def check_fields(kind: type, arrays: Any, widths: Mapping[str, int] | None = None) -> None:
    """Demand the types that a class of arrays declares; `widths` has the fields that are tables, by their columns."""
    for name, scalar in _scalars_of(kind):
        check_type(name, getattr(arrays, name), scalar, (widths or {}).get(name))


@cache
def _scalars_of(kind: type) -> list[tuple[str, type[np.generic]]]:
    """Return the fields of a class that are arrays, with what they are arrays of."""
    # npt.NDArray[np.int32] is ndarray[shape, dtype[int32]].
    hints = [(name, hint) for name, hint in get_type_hints(kind).items() if get_origin(hint) is np.ndarray]
    return [(name, get_args(get_args(hint)[1])[0]) for name, hint in hints]


def check_starts(name: str, starts: Array, count: int, end: int) -> None:
    """Demand where `count` lists start that follow each other from 0 to `end`.

    >>> check_starts("starts", np.array([0, 2, 1]), 2, 1)
    Traceback (most recent call last):
    ...
    tocsin.invariants.BrokenInvariantError: array 'starts': a list ends before it starts
    """
    demand(starts.size == count + 1, name, f"it has {starts.size} entries, not {count + 1}")
    demand(starts[0] == 0, name, "the first list does not start at 0")
    demand(starts[-1] == end, name, f"the last list does not end at {end}")
    demand((starts[1:] >= starts[:-1]).all(), name, "a list ends before it starts")


def check_within(name: str, values: Array, low: int, high: int) -> None:
    """Demand numbers from `low` to before `high`.

    >>> check_within("owner", np.array([0, 7]), 0, 7)
    Traceback (most recent call last):
    ...
    tocsin.invariants.BrokenInvariantError: array 'owner': it has numbers from 0 to 7, not from 0 to before 7
    """
    if values.size:
        least, most = values.min(), values.max()
        reason = f"it has numbers from {least} to {most}, not from {low} to before {high}"
        demand(low <= least and most < high, name, reason)


def check_tagged(name: str, values: Array, high: int) -> None:
    """Demand numbers below `high`, or the complement (~) of such numbers."""
    check_within(name, values, -high, high)


def check_ascending(name: str, values: Array) -> None:
    """Demand distinct numbers in order."""
    demand((values[1:] > values[:-1]).all(), name, "its numbers do not ascend")


def check_ranges(name: str, first: Array, end: Array, size: int) -> None:
    """Demand that each slice from `first` to `end` lies within an array of so many entries."""
    demand(((first >= 0) & (first <= end) & (end <= size)).all(), name, f"a slice is not within {size} entries")


def check_slots(name: str, slots: Array, rows: int, free: int) -> None:
    """Demand a hash table by open addressing: a power of two of slots, some of them free, so that a search ends."""
    demand(slots.size > 0 and slots.size & (slots.size - 1) == 0, name, "its slots are not a power of two")
    demand((slots == free).any(), name, "it has no free slot")
    check_within(name, slots, free, rows + free + 1)


def check_strings(name: str, strings: Strings, joint: str = ".") -> None:
    """Demand strings in UTF-8, one after the other, in the arrays `name.offsets` and `name.bytes`."""
    check_type(f"{name}{joint}offsets", strings.offsets, np.int64)
    check_type(f"{name}{joint}bytes", strings.data, np.uint8)
    demand(strings.offsets.size > 0, f"{name}{joint}offsets", "it is empty")
    check_starts(f"{name}{joint}offsets", strings.offsets, strings.offsets.size - 1, int(strings.offsets[-1]))
    demand(strings.offsets[-1] <= strings.data.size, f"{name}{joint}offsets", "a string ends behind the bytes")
    try:
        strings.arrow().validate(full=True)
    except pa.ArrowInvalid:
        raise BrokenInvariantError(f"{name}{joint}bytes", "it is not UTF-8") from None
