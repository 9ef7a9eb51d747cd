"""Compile kernels, compare vectors of short codes, and OR vectors of bits.

Kernels are plain functions over arrays, in plain Python, beside the structure that they serve. Set
``TOCSIN_KERNELS=python`` in the environment before the first import to run them uncompiled, for a debugger or for
coverage.

The compiler is loaded by the first call of a kernel (`_numba.py`, the only import of Numba): it takes 65 MB and 0.2 s,
which a process that only parses or ships subscriptions does not pay. Until then a kernel is a `Waiting`.

Some kernels take long flat lists of arrays instead of NamedTuples. Inside a loop, Numba counts references for each
array that it takes out of a tuple or hands to an inlined kernel. Measured: text scanning 14.2 to 3.4 ns a byte when the
arrays were taken out of tuples before the loop; scans of ten segments 5.9 to 4.6 µs an event when their inner loops
stopped handing arrays to inlined kernels.

Kernels copy arrays by loops, which become long copies. An assignment of an array to a slice compiles Numba's message
for shapes that differ, with all that it takes to write numbers: 1.8 s.
"""

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, UInt8s, UInt16s, UInt64s
from tocsin.forks import wait_for

Inline = Literal["never", "always"]
_Function = TypeVar("_Function", bound=Callable[..., object])

COMPILED = os.environ.get("TOCSIN_KERNELS", "compiled") != "python"

KERNELS: dict[tuple[str, str], int] = {}
"""The signatures that every imported kernel declares, by its module and its name: a test asks for a test of each."""

_loading = threading.RLock()
# Else a child that is forked while another thread loads the compiler could never load it.
wait_for(_loading)
_waiting: "list[Waiting]" = []
_compiler: Any = None
"""The module `_numba`, once it is loaded."""


class Waiting:
    """A kernel that nothing has been called of yet. Its first call loads the compiler and takes the place of all."""

    def __init__(self, function: Callable[..., Any], inline: Inline) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = {"inline": inline}
        self.compiled: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        load_compiler()
        return self.compiled(*arguments, **named)

    @property
    def _numba_type_(self) -> Any:
        # A module that was being imported while the compiler was loaded keeps this object: kernels may call it there.
        load_compiler()
        return _compiler.type_of(self.compiled)


@overload
def kernel(function: _Function, /) -> _Function: ...
@overload
def kernel(*, signatures: int) -> Callable[[_Function], _Function]: ...
def kernel(
    function: Callable[..., Any] | None = None, /, *, inline: Inline = "never", signatures: int = 1
) -> Callable[..., Any]:
    """Compile `function` at its first call, cached on disk, without the interpreter lock; or leave it as it is.

    Whoever calls it, it is compiled once; one that takes arrays of several types says for how many `signatures`.
    """
    if function is None:
        return functools.partial(kernel, inline=inline, signatures=signatures)
    KERNELS[function.__module__, function.__name__] = signatures
    if not COMPILED:
        # Kernels count on integers that wrap around, which NumPy's scalars warn about.
        return np.errstate(over="ignore")(function)
    return cast(Callable[..., Any], _made_or_waiting(function, inline))


def inlined_kernel(function: _Function) -> _Function:
    """Compile a kernel whose body is copied into those that call it."""
    return kernel(function, inline="always")  # type: ignore[call-overload,no-any-return]  # of this module only


def load_compiler() -> None:
    """Load the compiler, once; put compiled kernels in the place of all that wait."""
    global _compiler
    with _loading:
        if _compiler is not None:
            return
        from tocsin import _numba

        _compiler = _numba
        while _waiting:
            one = _waiting.pop()
            one.compiled = _made_or_waiting(one.py_func, one.targetoptions["inline"])
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "tocsin":
                for key, value in list(vars(module).items()):
                    if type(value) is Waiting:
                        setattr(module, key, value.compiled)


def _made_or_waiting(function: Callable[..., Any], inline: Inline = "never") -> Any:
    """Make the kernel of a function, or the intrinsic of its name; if the compiler is not loaded, let it wait."""
    with _loading:
        if _compiler is None:
            _waiting.append(Waiting(function, inline))
            return _waiting[-1]
        is_intrinsic = function.__module__ == __name__
        return _compiler.INTRINSICS[function.__name__] if is_intrinsic else _compiler.Kernel(function, inline)


# Vectors of short codes. The compiler makes vectors of a loop that compares, but it does not pack their outcomes into
# one word of bits. So these functions are written in LLVM's own language in `_numba.py`; uncompiled, NumPy does so.


VECTOR_WIDTH = 32
"""Short codes in a vector: 512 bits, one register of AVX-512."""


def _word(marks: Bools) -> np.uint64:
    """Pack the marks of a vector into a word, the first mark into the lowest bit."""
    return np.uint64(np.packbits(marks, bitorder="little").view(np.uint32)[0])


def _are_within(codes: UInt16s, places: tuple[Any, ...], lows: tuple[Any, ...], highs: tuple[Any, ...]) -> np.uint64:
    """Bit i says whether `low <= codes[place + i] <= high` for each of the places, with its low and high."""
    marks = np.ones(VECTOR_WIDTH, bool)
    for place, low, high in zip(map(int, places), lows, highs, strict=True):
        vector = codes[place : place + VECTOR_WIDTH]
        marks &= (vector >= low) & (vector <= high)
    return _word(marks)


def _lie_on_ends(
    codes: UInt16s, places: tuple[Any, ...], lows: tuple[Any, ...], highs: tuple[Any, ...], wanted: tuple[Any, ...]
) -> np.uint64:
    """Bit i says whether `codes[place + i]` is low or high, for one of the places whose `wanted` bit i is set."""
    word = np.uint64(0)
    for place, low, high, bits in zip(map(int, places), lows, highs, wanted, strict=True):
        vector = codes[place : place + VECTOR_WIDTH]
        word |= _word((vector == low) | (vector == high)) & bits
    return word


def _contain(fields: UInt16s, lows: tuple[Any, ...], highs: tuple[Any, ...], codes: tuple[Any, ...]) -> np.uint64:
    """Bit i says whether `fields[low + i] <= code <= fields[high + i]` for each of the codes, with its two places."""
    marks = np.ones(VECTOR_WIDTH, bool)
    for low, high, code in zip(map(int, lows), map(int, highs), codes, strict=True):
        marks &= (fields[low : low + VECTOR_WIDTH] <= code) & (fields[high : high + VECTOR_WIDTH] >= code)
    return _word(marks)


def _admit(fields: UInt16s, columns: Any, lows: Any, highs: Any, rows: UInt16s, first: Any) -> np.uint64:
    """Bit i says whether `fields[low + i] <= row[column] <= fields[high + i]`, for the column `fields[columns + i]`.

    The row is that of VECTOR_WIDTH codes from `rows[first]` on; columns beyond it are admitted.
    """
    column, low, high = (fields[int(place) : int(place) + VECTOR_WIDTH] for place in (columns, lows, highs))
    code = rows[int(first) + column.astype(np.int64) % VECTOR_WIDTH]
    return _word(((low <= code) & (code <= high)) | (column >= VECTOR_WIDTH))


def _count_bits(word: np.uint64) -> int:
    """Count the bits of a word that are set."""
    return int(word).bit_count()


def _lowest_bit(word: np.uint64) -> int:
    """The place of the lowest bit of a word that is set; 64 if none is."""
    return (int(word) & -int(word)).bit_length() - 1 if word else 64


def _fetch(array: npt.NDArray[Any], place: np.uint64) -> None:
    """Prefetch a place of an array into the cache."""


OR_AT_ONCE = 4
"""Vectors that are ORed before anybody looks whether all bits are set."""


def _or_vectors(words: UInt64s, first_word: int, places: Int32s, first: int, count: int, union: UInt64s) -> int:
    """Fill `union` with the OR of the 512 bits at `words[first_word + place]`, for `count` places from `first` on.

    `count` is a multiple of OR_AT_ONCE. Return which of the eight words have a bit that is not set, as bits; if none
    has, some of the places may have been left out.
    """
    union[:] = 0
    for place in places[first : first + count].tolist():
        union |= words[first_word + place : first_word + place + union.size]
    return int(np.packbits(~union != 0, bitorder="little")[0])


def _put_eight(table: UInt8s, row: np.uint64, base: np.int32, values: Int32s, first: np.uint64) -> None:
    """Write `base` + the eight entries of a row of `table`, from `values[first]` on."""
    values[int(first) : int(first) + 8] = base + table[8 * int(row) : 8 * int(row) + 8].astype(np.int32)


# Arrays by address: a kernel that meets one of many arrays takes a table of addresses, where a list of arrays would be
# counted and checked array by array at every call. Who makes the table keeps the arrays.


def _at(address: int, size: int, item: Any) -> npt.NDArray[Any]:
    there: Any = (item * int(size)).from_address(int(address))
    return np.ctypeslib.as_array(there)


def _floats_at(address: int, size: int) -> Float64s:
    """The array of `size` floats that lies at an address."""
    return _at(address, size, ctypes.c_double)


def _integers_at(address: int, size: int) -> Int64s:
    """The array of `size` integers that lies at an address."""
    return _at(address, size, ctypes.c_int64)


def _bytes_at(address: int, size: int) -> UInt8s:
    """The array of `size` bytes that lies at an address."""
    return _at(address, size, ctypes.c_uint8)


_VECTORIZED: tuple[Any, ...] = (
    _are_within,
    _lie_on_ends,
    _contain,
    _admit,
    _count_bits,
    _lowest_bit,
    _fetch,
    _or_vectors,
    _put_eight,
    _floats_at,
    _integers_at,
    _bytes_at,
)
count_bits: Callable[[np.uint64], int]
lowest_bit: Callable[[np.uint64], int]
(
    are_within,
    lie_on_ends,
    contain,
    admit,
    count_bits,
    lowest_bit,
    fetch,
    or_vectors,
    put_eight,
    floats_at,
    integers_at,
    bytes_at,
) = map(_made_or_waiting, _VECTORIZED) if COMPILED else _VECTORIZED
