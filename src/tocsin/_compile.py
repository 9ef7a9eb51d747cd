"""How kernels are compiled: the decorator, and comparisons of many short codes at once. The only import of Numba.

Kernels are plain functions over arrays, in plain Python, beside the structure that they serve. Set
``TOCSIN_KERNELS=python`` in the environment before the first import to run them uncompiled, for a debugger or for
coverage.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

_Function = TypeVar("_Function", bound=Callable[..., object])

COMPILED = os.environ.get("TOCSIN_KERNELS", "compiled") != "python"


def kernel(function: _Function) -> _Function:
    """Compile `function` with a cache on disk, without the interpreter lock; or leave it as it is."""
    if not COMPILED:
        # Kernels count on integers that wrap around, which NumPy's scalars warn about.
        return np.errstate(over="ignore")(function)
    import numba

    return cast(_Function, numba.njit(cache=True, nogil=True)(function))


def inlined_kernel(function: _Function) -> _Function:
    """A kernel whose body is copied into those that call it: for inner loops that take many arrays."""
    if not COMPILED:
        return kernel(function)
    import numba

    return cast(_Function, numba.njit(cache=True, nogil=True, inline="always")(function))


# Vectors of short codes. The compiler makes vectors of a loop that compares, but not one word of their outcomes: these
# functions are written in its own language. Uncompiled, NumPy does the same.

Short = npt.NDArray[np.uint16]

LANES = 32
"""Short codes in a vector."""


def _word(marks: npt.NDArray[np.bool_]) -> np.uint64:
    return np.uint64(np.packbits(marks, bitorder="little").view(np.uint32)[0])


def _are_within(codes: Short, places: tuple[Any, ...], lows: tuple[Any, ...], highs: tuple[Any, ...]) -> np.uint64:
    """Bit i says whether `low <= codes[place + i] <= high` for each of the places, with its low and high."""
    marks = np.ones(LANES, bool)
    for place, low, high in zip(map(int, places), lows, highs, strict=True):
        lanes = codes[place : place + LANES]
        marks &= (lanes >= low) & (lanes <= high)
    return _word(marks)


def _lie_on_ends(
    codes: Short, places: tuple[Any, ...], lows: tuple[Any, ...], highs: tuple[Any, ...], wanted: tuple[Any, ...]
) -> np.uint64:
    """Bit i says whether `codes[place + i]` is low or high, for one of the places whose `wanted` bit i is set."""
    word = np.uint64(0)
    for place, low, high, bits in zip(map(int, places), lows, highs, wanted, strict=True):
        lanes = codes[place : place + LANES]
        word |= _word((lanes == low) | (lanes == high)) & bits
    return word


def _contain(fields: Short, lows: tuple[Any, ...], highs: tuple[Any, ...], codes: tuple[Any, ...]) -> np.uint64:
    """Bit i says whether `fields[low + i] <= code <= fields[high + i]` for each of the codes, with its two places."""
    marks = np.ones(LANES, bool)
    for low, high, code in zip(map(int, lows), map(int, highs), codes, strict=True):
        marks &= (fields[low : low + LANES] <= code) & (fields[high : high + LANES] >= code)
    return _word(marks)


def _admit(fields: Short, columns: Any, lows: Any, highs: Any, rows: Short, first: Any) -> np.uint64:
    """Bit i says whether `fields[low + i] <= row[column] <= fields[high + i]`, for the column `fields[columns + i]`.

    The row is that of LANES codes from `rows[first]` on; columns beyond it are admitted.
    """
    column, low, high = (fields[int(place) : int(place) + LANES] for place in (columns, lows, highs))
    code = rows[int(first) + column % LANES]
    return _word(((low <= code) & (code <= high)) | (column >= LANES))


def _count_bits(word: np.uint64) -> int:
    """How many bits of a word are set."""
    return int(word).bit_count()


def _lowest_bit(word: np.uint64) -> int:
    """The place of the lowest bit of a word that is set; LANES or more if none is."""
    return (int(word) & -int(word)).bit_length() - 1 if word else 2 * LANES


def _fetch(array: npt.NDArray[Any], place: np.uint64) -> None:
    """Ask for what stands at a place of an array to come into the cache, without waiting for it."""


def _compiled() -> tuple[Callable[..., Any], ...]:
    """The same functions for kernels."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils, codegen, config
    from numba.extending import intrinsic

    vector = ir.VectorType(ir.IntType(16), LANES)
    function_of: Any = cgutils.get_or_insert_function
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)

    def loaded(builder: Any, data: Any, place: Any) -> Any:
        pointer = builder.bitcast(builder.gep(data, [place]), vector.as_pointer())
        lanes = builder.load(pointer)
        lanes.align = 2
        return lanes

    def repeated(builder: Any, code: Any) -> Any:
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), code, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

    def word_of(builder: Any, conditions: list[Any]) -> Any:
        marks = conditions[0]
        for condition in conditions[1:]:
            marks = builder.and_(marks, condition)
        return builder.zext(builder.bitcast(marks, ir.IntType(LANES)), ir.IntType(64))

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
                lanes = loaded(builder, data, place)
                conditions.append(builder.icmp_unsigned(">=", lanes, repeated(builder, low)))
                conditions.append(builder.icmp_unsigned("<=", lanes, repeated(builder, high)))
            return word_of(builder, conditions)

        return signature_of(codes, places.count, (types.uint64, types.uint16, types.uint16)), generate

    @intrinsic
    def lie_on_ends(_: Any, codes: Any, places: Any, _lows: Any, _highs: Any, _wanted: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = data_of(context, builder, signature, args)
            word = ir.Constant(ir.IntType(64), 0)
            for place, low, high, bits in unpacked(builder, args[1:]):
                lanes = loaded(builder, data, place)
                is_low = builder.icmp_unsigned("==", lanes, repeated(builder, low))
                is_high = builder.icmp_unsigned("==", lanes, repeated(builder, high))
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

    # Where the processor cannot pick from a vector by the numbers in another one, each lane is read by itself.
    features_of_this: Any = codegen.get_host_cpu_features
    picks = "+avx512bw" in features_of_this() and vars(config)["CPU_NAME"] is None

    def picked(builder: Any, data: Any, first: Any, numbers: Any) -> Any:
        if picks:
            kind = ir.FunctionType(vector, [vector, vector])
            pick = function_of(builder.module, kind, "llvm.x86.avx512.permvar.hi.512")
            return builder.call(pick, [loaded(builder, data, first), numbers])
        codes = ir.Constant(vector, ir.Undefined)
        inside = builder.and_(numbers, ir.Constant(vector, [LANES - 1] * LANES))
        for lane in range(LANES):
            at = ir.Constant(ir.IntType(32), lane)
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
            is_beyond = builder.icmp_unsigned(">=", columns, ir.Constant(vector, [LANES] * LANES))
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
