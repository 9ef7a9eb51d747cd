"""Run kernels interpreted or compiled, compare vectors of short codes, and OR vectors of bits.

Kernels are plain functions over arrays, in plain Python, beside the structure that they serve. ``TOCSIN_KERNELS`` in
the environment, before the first import, says how they run:

- ``auto``, the default: a kernel is interpreted as long as that takes less time than to compile it, or to load it where
  an earlier process has compiled it. So the first matches of a new user, and a command on a few events, wait for no
  compiler: 20 subscriptions of ranges and 100 events take 0.04 s interpreted, 0.8 s with code that is loaded, 8 s with
  code that is compiled first.
- ``compiled``: every kernel is compiled or loaded at its first call. `load_compiler` has the same effect from then on.
- ``python``: all kernels are interpreted, for a debugger or for coverage.

The compiler (`_numba.py`, the only import of Numba) takes 65 MB and 0.2 s, which a process that only parses, ships or
interprets does not pay.

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
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from tocsin import _kernel_cache
from tocsin.arrays import Bools, Float64s, Int8s, Int16s, Int32s, Int64s, UInt8s, UInt16s, UInt64s
from tocsin.forks import wait_for

Inline = Literal["never", "always"]
_Function = TypeVar("_Function", bound=Callable[..., object])

_MODE = os.environ.get("TOCSIN_KERNELS", "auto")
if _MODE not in ("auto", "compiled", "python"):
    raise ValueError(f"TOCSIN_KERNELS is {_MODE!r}; it can be auto, compiled or python")
COMPILED = _MODE != "python"

LOADED_S = 0.6
"""Processor time to load the compiler and the kernels of a first match."""
COMPILED_S = 1e-3
"""Processor time to compile an instruction of Python: over the kernels, 0.4 to 1.3 ms but for the smallest ones."""
INTERPRETED_S = 20e-6
"""Processor time to interpret a kernel, for each element of its arrays, before it is known: that of the slowest."""

KERNELS: dict[tuple[str, str], int] = {}
"""The signatures that every imported kernel declares, by its module and its name: a test asks for a test of each."""

_loading = threading.RLock()
# Else a child that is forked while another thread loads the compiler could never load it.
wait_for(_loading)
_tiered: "list[TieredKernel]" = []
"""The kernels that are not compiled yet."""
_compiler: Any = None
"""The module `_numba`, once it is loaded."""
_interprets = _MODE == "auto"
_interpreted_s = 0.0
"""Processor time that this process has spent interpreting kernels."""
_thread = threading.local()
"""Whether this thread is interpreting a kernel: then it interprets those that it calls, too."""


class TieredKernel:
    """A kernel that is interpreted until it is worth compiling; then the compiled one takes its place everywhere."""

    def __init__(
        self, function: Callable[..., Any], inline: Inline, looked_up: tuple[str, ...], keeps_lock: bool = False
    ) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._keeps_lock = keeps_lock
        self.targetoptions = {"inline": inline}
        self.compiled: Any = None
        """What took its place: modules that were being imported meanwhile still call this one."""
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        self._is_walked = [name not in looked_up for name in names]
        self._interpreted_s, self._interpreted, self._largest = 0.0, 0, 0
        """The time and the elements that were interpreted, and the most elements of a call."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.compiled is None:
            if getattr(_thread, "interprets", False):
                return self.py_func(*arguments, **named)
            if _interprets:
                walked = (argument for argument, counts in zip(arguments, self._is_walked, strict=False) if counts)
                size = sum(map(_size, walked))
                if self._is_cheaper_interpreted(size):
                    return self._interpret(arguments, named, size)
            self._compile()
        return self.compiled(*arguments, **named)

    @functools.cached_property
    def made(self) -> Any:
        """The compiled kernel, which compiles at its first call."""
        with _loading:
            return _numba().Kernel(self.py_func, self.targetoptions["inline"], keeps_lock=self._keeps_lock)

    @property
    def _numba_type_(self) -> Any:
        return _numba().type_of(self.made)

    @functools.cached_property
    def is_cached(self) -> bool:
        """Whether an earlier process has compiled it."""
        return _kernel_cache.has_code_of(self.py_func)

    def with_called(self) -> list[Any]:
        """Return it and all kernels that it calls, directly or not, whether they are compiled or not."""
        kinds = (TieredKernel,) if _compiler is None else (TieredKernel, _compiler.Kernel)
        found: dict[Callable[..., Any], Any] = {self.py_func: self}
        pending = [self.py_func]
        while pending:
            function = pending.pop()
            for name in function.__code__.co_names:
                called = function.__globals__.get(name)
                if isinstance(called, kinds) and called.py_func not in found:
                    found[called.py_func] = called
                    pending.append(called.py_func)
        return list(found.values())

    @functools.cached_property
    def compiled_s(self) -> float:
        """How long it takes to compile."""
        return COMPILED_S * sum(len(one.py_func.__code__.co_code) // 2 for one in self.with_called())

    def _is_cheaper_interpreted(self, size: int) -> bool:
        """Tell whether to interpret it so far, and now, takes less time than to load or to compile it."""
        rate = self._interpreted_s / self._interpreted if self._interpreted else INTERPRETED_S
        if size > 10 * self._largest:
            # Time may grow faster than size.
            rate = max(rate, INTERPRETED_S)
        if _compiler is None and _interpreted_s + size * rate < LOADED_S:
            return True
        if self.is_cached or self._interpreted_s + size * rate > self.compiled_s:
            return False
        # An interpreted kernel hands over numbers of other types than a compiled one, and each type is compiled for.
        return all(isinstance(one, TieredKernel) for one in self.with_called())

    def _interpret(self, arguments: tuple[Any, ...], named: dict[str, Any], size: int) -> Any:
        global _interpreted_s
        start = time.thread_time()
        _thread.interprets = True
        try:
            # Kernels count on integers that wrap around, which NumPy's scalars warn about.
            with np.errstate(over="ignore"):
                return self.py_func(*arguments, **named)
        finally:
            _thread.interprets = False
            taken = time.thread_time() - start
            _interpreted_s += taken
            self._interpreted_s += taken
            self._interpreted += size
            self._largest = max(self._largest, size)

    def _compile(self) -> None:
        """Let the compiled kernel take the place of this one, and with the first all those that can be loaded."""
        with _loading:
            loaded = [one for one in _tiered if one.is_cached] if _compiler is None else []
            _replace([self, *loaded])


def _size(argument: Any) -> int:
    """Count the elements of an array, or of all arrays of a tuple."""
    if isinstance(argument, np.ndarray):
        return argument.size
    return sum(map(_size, argument)) if isinstance(argument, tuple) else 0


@overload
def kernel(function: _Function, /) -> _Function: ...
@overload
def kernel(
    *, signatures: int = 1, looked_up: tuple[str, ...] = (), keeps_lock: bool = False
) -> Callable[[_Function], _Function]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    inline: Inline = "never",
    signatures: int = 1,
    looked_up: tuple[str, ...] = (),
    keeps_lock: bool = False,
) -> Callable[..., Any]:
    """Make a kernel of `function`: without the interpreter lock, compiled once, whoever calls it, and cached on disk.

    One that takes arrays of several types says for how many `signatures`. Parameters that are large and `looked_up`
    place by place, such as a table of all characters, do not count where the size of the arguments says how long it
    will run. One that runs for microseconds only `keeps_lock`: another thread that gets the interpreter meanwhile keeps
    it for longer than that.
    """
    if function is None:
        return functools.partial(
            kernel, inline=inline, signatures=signatures, looked_up=looked_up, keeps_lock=keeps_lock
        )
    KERNELS[function.__module__, function.__name__] = signatures
    if not COMPILED:
        # Kernels count on integers that wrap around, which NumPy's scalars warn about.
        return np.errstate(over="ignore")(function)
    one = TieredKernel(function, inline, looked_up, keeps_lock)
    with _loading:
        if _compiler is not None and (one.is_cached or not _interprets):
            return cast(Callable[..., Any], one.made)
        _tiered.append(one)
    return one


def inlined_kernel(function: _Function) -> _Function:
    """Make a kernel whose body is copied into those that call it."""
    return kernel(function, inline="always")  # type: ignore[call-overload,no-any-return]  # of this module only


def load_compiler() -> None:
    """Load the compiler; put compiled kernels in the place of all others, and interpret none from now on."""
    global _interprets
    with _loading:
        _interprets = False
        _numba()
        _replace(list(_tiered))


def _numba() -> Any:
    """Return the module of the compiler."""
    global _compiler
    with _loading:
        if _compiler is None:
            from tocsin import _numba

            _compiler = _numba
        return _compiler


def _replace(kernels: list[TieredKernel]) -> None:
    """Put compiled kernels in the place of some, in all modules that name them."""
    for one in kernels:
        one.compiled = one.made
    _tiered[:] = [one for one in _tiered if one.compiled is None]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tocsin":
            for key, value in list(vars(module).items()):
                if type(value) is TieredKernel and value.compiled is not None:
                    setattr(module, key, value.compiled)


class Intrinsic:
    """A function of this module that compiled kernels find in `_numba.py`, under the same name, in LLVM's language."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    @property
    def _numba_type_(self) -> Any:
        return _numba().type_of(self._compiled)

    @property
    def _compiled(self) -> Any:
        return _numba().INTRINSICS[self._function.__name__]

    # What Numba asks of a function that may be copied into those that call it.

    @property
    def targetoptions(self) -> Any:
        return self._compiled.targetoptions

    @property
    def py_func(self) -> Any:
        return self._compiled.py_func


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


def _or_vectors(
    words: UInt64s, first_word: int, places: Int32s, first: int, count: int, unions: UInt64s, at: int
) -> int:
    """Write the OR of the 512 bits at `words[first_word + place]`, for `count` places from `first` on, to `unions[at]`.

    `count` is a multiple of OR_AT_ONCE. Return which of the eight words have a bit that is not set, as bits; if none
    has, some of the places may have been left out.
    """
    union = np.zeros(8, np.uint64)
    for place in places[first : first + count].tolist():
        union |= words[first_word + place : first_word + place + union.size]
    unions[at : at + union.size] = union
    return int(np.packbits(~union != 0, bitorder="little")[0])


def _or_line(words: UInt64s, at: np.uint64, target: UInt64s, first: np.uint64) -> None:
    """OR the 512 bits at `words[at]` into those at `target[first]`."""
    target[int(first) : int(first) + 8] |= words[int(at) : int(at) + 8]


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


def _int32s_at(address: int, size: int) -> Int32s:
    """The array of `size` integers of 32 bits that lies at an address."""
    return _at(address, size, ctypes.c_int32)


def _uint16s_at(address: int, size: int) -> UInt16s:
    """The array of `size` integers of 16 bits that lies at an address."""
    return _at(address, size, ctypes.c_uint16)


def _int16s_at(address: int, size: int) -> Int16s:
    """The array of `size` integers of 16 bits with a sign that lies at an address."""
    return _at(address, size, ctypes.c_int16)


def _int8s_at(address: int, size: int) -> Int8s:
    """The array of `size` integers of 8 bits with a sign that lies at an address."""
    return _at(address, size, ctypes.c_int8)


def _bools_at(address: int, size: int) -> Bools:
    """The array of `size` truth values that lies at an address."""
    return _at(address, size, ctypes.c_bool)


def _bytes_at(address: int, size: int) -> UInt8s:
    """The array of `size` bytes that lies at an address."""
    return _at(address, size, ctypes.c_uint8)


class AddressTable:
    """A table of arrays for a kernel that is called for a single event.

    Numba takes 0.2 µs for each array that it is handed, and the match of one event may need 30 of them. Row i of `rows`
    has the address and the size of array i. The arrays are kept, and must be contiguous, as those of an index are.
    """

    def __init__(self, *arrays: npt.NDArray[Any]) -> None:
        self._arrays = [np.ascontiguousarray(array) for array in arrays]
        self.rows = np.array([(array.ctypes.data, array.size) for array in self._arrays], np.int64)


_VECTORIZED: tuple[Any, ...] = (
    _are_within,
    _lie_on_ends,
    _contain,
    _admit,
    _count_bits,
    _lowest_bit,
    _fetch,
    _or_vectors,
    _or_line,
    _put_eight,
    _floats_at,
    _integers_at,
    _int32s_at,
    _uint16s_at,
    _int16s_at,
    _int8s_at,
    _bools_at,
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
    or_line,
    put_eight,
    floats_at,
    integers_at,
    int32s_at,
    uint16s_at,
    int16s_at,
    int8s_at,
    bools_at,
    bytes_at,
) = map(Intrinsic, _VECTORIZED) if COMPILED else _VECTORIZED
