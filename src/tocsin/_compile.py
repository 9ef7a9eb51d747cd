"""Compile kernels, and compare vectors of short codes. The only import of Numba.

Kernels are plain functions over arrays, in plain Python, beside the structure that they serve. Set
``TOCSIN_KERNELS=python`` in the environment before the first import to run them uncompiled, for a debugger or for
coverage.

Some kernels take long flat lists of arrays instead of NamedTuples. Inside a loop, Numba counts references for each
array that it takes out of a tuple or hands to an inlined kernel. Measured: text scanning 14.2 to 3.4 ns a byte when the
arrays were taken out of tuples before the loop; scans of ten segments 5.9 to 4.6 µs an event when their inner loops
stopped handing arrays to inlined kernels.
"""

import os
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, UInt16s
from tocsin.forks import wait_for

_Function = TypeVar("_Function", bound=Callable[..., object])

COMPILED = os.environ.get("TOCSIN_KERNELS", "compiled") != "python"

if COMPILED:
    from numba.core.compiler_lock import global_compiler_lock

    # Else a child that is forked while another thread compiles could never compile anything.
    wait_for(global_compiler_lock)

KERNELS: list[tuple[str, str]] = []
"""The module and the name of every kernel that was imported: a test asks for a test of each."""


def kernel(function: _Function, inline: Literal["never", "always"] = "never") -> _Function:
    """Compile `function` with a cache on disk, without the interpreter lock; or leave it as it is."""
    KERNELS.append((function.__module__, function.__name__))
    if not COMPILED:
        # Kernels count on integers that wrap around, which NumPy's scalars warn about.
        return np.errstate(over="ignore")(function)
    import numba

    return cast(_Function, numba.njit(cache=True, nogil=True, inline=inline)(function))


def inlined_kernel(function: _Function) -> _Function:
    """Compile a kernel whose body is copied into those that call it."""
    return kernel(function, inline="always")


# Vectors of short codes. The compiler makes vectors of a loop that compares, but it does not pack their outcomes into
# one word of bits. So these functions are written in LLVM's own language; uncompiled, NumPy does the same.


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


def _compiled() -> tuple[Callable[..., Any], ...]:
    """Define the same functions for compiled kernels."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils, codegen, config
    from numba.extending import intrinsic

    vector = ir.VectorType(ir.IntType(16), VECTOR_WIDTH)
    function_of: Any = cgutils.get_or_insert_function
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), VECTOR_WIDTH), [0] * VECTOR_WIDTH)

    def loaded(builder: Any, data: Any, place: Any) -> Any:
        pointer = builder.bitcast(builder.gep(data, [place]), vector.as_pointer())
        codes = builder.load(pointer)
        codes.align = 2
        return codes

    def repeated(builder: Any, code: Any) -> Any:
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), code, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

    def word_of(builder: Any, conditions: list[Any]) -> Any:
        marks = conditions[0]
        for condition in conditions[1:]:
            marks = builder.and_(marks, condition)
        return builder.zext(builder.bitcast(marks, ir.IntType(VECTOR_WIDTH)), ir.IntType(64))

    def unpacked(builder: Any, tuples: Any) -> Any:
        unpack: Any = cgutils.unpack_tuple
        return zip(*(unpack(builder, one) for one in tuples), strict=True)

    def data_of(context: Any, builder: Any, signature: Any, args: Any, number: int = 0) -> Any:
        return context.make_array(signature.args[number])(context, builder, args[number]).data

    def signature_of(array: Any, count: Any, kinds: tuple[Any, ...]) -> Any:
        of_tuple: Any = types.UniTuple
        return types.uint64(array, *(of_tuple(kind, count) for kind in kinds))

    @intrinsic
    def are_within(_: Any, codes: Any, places: Any, _lows: Any, _highs: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature, args)
            conditions = []
            for place, low, high in unpacked(builder, args[1:]):
                vector_there = loaded(builder, data, place)
                conditions.append(builder.icmp_unsigned(">=", vector_there, repeated(builder, low)))
                conditions.append(builder.icmp_unsigned("<=", vector_there, repeated(builder, high)))
            return word_of(builder, conditions)

        return signature_of(codes, places.count, (types.uint64, types.uint16, types.uint16)), generate

    @intrinsic
    def lie_on_ends(_: Any, codes: Any, places: Any, _lows: Any, _highs: Any, _wanted: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature, args)
            word = ir.Constant(ir.IntType(64), 0)
            for place, low, high, bits in unpacked(builder, args[1:]):
                vector_there = loaded(builder, data, place)
                is_low = builder.icmp_unsigned("==", vector_there, repeated(builder, low))
                is_high = builder.icmp_unsigned("==", vector_there, repeated(builder, high))
                word = builder.or_(word, builder.and_(word_of(builder, [builder.or_(is_low, is_high)]), bits))
            return word

        kinds = (types.uint64, types.uint16, types.uint16, types.uint64)
        return signature_of(codes, places.count, kinds), generate

    @intrinsic
    def contain(_: Any, fields: Any, lows: Any, _highs: Any, _codes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature, args)
            conditions = []
            for low, high, code in unpacked(builder, args[1:]):
                wanted = repeated(builder, code)
                conditions.append(builder.icmp_unsigned("<=", loaded(builder, data, low), wanted))
                conditions.append(builder.icmp_unsigned(">=", loaded(builder, data, high), wanted))
            return word_of(builder, conditions)

        return signature_of(fields, lows.count, (types.uint64, types.uint64, types.uint16)), generate

    # Where the processor cannot pick from a vector by the numbers in another one, each of its codes is read by itself.
    features_of_this: Any = codegen.get_host_cpu_features
    picks = "+avx512bw" in features_of_this() and vars(config)["CPU_NAME"] is None

    def picked(builder: Any, data: Any, first: Any, numbers: Any) -> Any:
        if picks:
            kind = ir.FunctionType(vector, [vector, vector])
            pick = function_of(builder.module, kind, "llvm.x86.avx512.permvar.hi.512")
            return builder.call(pick, [loaded(builder, data, first), numbers])
        codes = ir.Constant(vector, ir.Undefined)
        inside = builder.and_(numbers, ir.Constant(vector, [VECTOR_WIDTH - 1] * VECTOR_WIDTH))
        for number in range(VECTOR_WIDTH):
            at = ir.Constant(ir.IntType(32), number)
            place = builder.add(first, builder.zext(builder.extract_element(inside, at), ir.IntType(64)))
            codes = builder.insert_element(codes, builder.load(builder.gep(data, [place])), at)
        return codes

    @intrinsic
    def admit(_: Any, fields: Any, _columns: Any, _lows: Any, _highs: Any, rows: Any, _first: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature, args)
            columns, lows, highs = (loaded(builder, data, place) for place in args[1:4])
            codes = picked(builder, data_of(context, builder, signature, args, 4), args[5], columns)
            holds = builder.and_(builder.icmp_unsigned("<=", lows, codes), builder.icmp_unsigned("<=", codes, highs))
            is_beyond = builder.icmp_unsigned(">=", columns, ir.Constant(vector, [VECTOR_WIDTH] * VECTOR_WIDTH))
            return word_of(builder, [builder.or_(holds, is_beyond)])

        return types.uint64(fields, types.uint64, types.uint64, types.uint64, rows, types.uint64), generate

    @intrinsic
    def fetch(_: Any, array: Any, _place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            fetch = function_of(builder.module, kind, "llvm.prefetch.p0i8")
            place = builder.gep(data_of(context, builder, signature, args), [args[1]])
            # To read, to be kept in all caches, data.
            builder.call(fetch, [builder.bitcast(place, pointer), number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.none(array, types.uint64), generate

    @intrinsic
    def count_bits(_: Any, _word: Any) -> Any:
        return types.int64(types.uint64), lambda _context, builder, _signature, args: builder.ctpop(args[0])

    @intrinsic
    def lowest_bit(_: Any, _word: Any) -> Any:
        no = ir.Constant(ir.IntType(1), 0)
        return types.int64(types.uint64), lambda _context, builder, _signature, args: builder.cttz(args[0], no)

    return are_within, lie_on_ends, contain, admit, count_bits, lowest_bit, fetch


are_within, lie_on_ends, contain, admit, count_bits, lowest_bit, fetch = (
    _compiled() if COMPILED else (_are_within, _lie_on_ends, _contain, _admit, _count_bits, _lowest_bit, _fetch)
)
