"""Numba: one signature a kernel, its cache, and vectors of short codes. The only import of Numba.

An array in memory, one mapped from a file and one of Arrow differ in whether they may be written to, and Numba would
compile a kernel for each mixture of them: `match_grids` had 8 signatures, `verify_rest` 9. So the arguments of a call
from Python are typed as if every array could be written to. NumPy and the uncompiled tests refuse writes to an array
that is only read; here, `Kernel` refuses a read-only array where its source assigns to an element of that argument.
Numbers are typed by the annotation of their parameter: an ``int`` is 64 bits, whoever calls.
"""

import ast
import gc
import inspect
import logging
import textwrap
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import ffi
from numba import carray, njit, types
from numba.core import cgutils, codegen, compiler, config, sigutils, typed_passes, typing, untyped_passes
from numba.core import ir as numba_ir
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]  # private
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import intrinsic

from tocsin import _kernel_cache
from tocsin._compile import KERNELS, OR_AT_ONCE, VECTOR_WIDTH
from tocsin.forks import wait_for

_log = logging.getLogger(__name__)

# Else a child that is forked while another thread compiles could never compile anything.
wait_for(global_compiler_lock)

COMPILATIONS: list[tuple[str, str, float]] = []
"""Module, name and processor time (with that of kernels it calls) of what this process compiled itself."""


_made: "list[Kernel]" = []

_features_of_this: Any = codegen.get_host_cpu_features
_FEATURES = frozenset(_features_of_this().split(","))
_CHOSEN_LEVEL = vars(config)["CPU_NAME"]
_X86_64_V3 = frozenset(("+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe"))
_X86_64_V4 = _X86_64_V3 | frozenset(("+avx512f", "+avx512bw", "+avx512cd", "+avx512dq", "+avx512vl"))
_LEVELS = {"x86-64-v4": _X86_64_V4, "x86-64-v3": _X86_64_V3, "generic": frozenset({"+neon"})}
"""What processors must have to run code that was compiled for a level (`make wheel`); the best comes first."""
_SHIPPED_LEVELS = [
    name
    for name, needed in _LEVELS.items()
    if _CHOSEN_LEVEL is None and needed <= _FEATURES and (_kernel_cache.SHIPPED / name).is_dir()
]
"""The levels whose code this process loads: none where the environment chose one to compile for."""


# Numba has an event for each call of LLVM, two in a hundred of the time to compile, and nobody listens.
ffi.lib._lock._cblist.clear()

_resolve: Any = types.functions.BaseFunction.get_call_type
_resolved: dict[tuple[Any, ...], Any] = {}


def _resolve_once(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a call of an operator or a function of NumPy.

    Numba tries all definitions of it again at each place that calls it: 14,700 times for words and ranges, of 1,200
    sorts. That was 0.12 of the time to compile them.
    """
    call = function, args, tuple(kws.items())
    found = _resolved.get(call)
    if found is None or found.args not in function._impl_keys:
        found = _resolve(function, context, args, kws)
        if found is not None and all(arg.is_precise() for arg in args):
            _resolved[call] = found
    return found


types.functions.BaseFunction.get_call_type = _resolve_once


class _Locator(_CacheLocator):  # type: ignore[misc]  # Numba has no types
    """Tell Numba where the code of a function is cached."""

    def __init__(self, function: Callable[..., Any], source: str) -> None:
        self._py_file = source
        self._lineno = function.__code__.co_firstlineno
        self.folder = _kernel_cache.folder_of(function.__module__, source)

    def ensure_cache_path(self) -> None:
        """Make the folder."""
        _kernel_cache.prepare(self.folder)

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self.folder)

    def get_source_stamp(self) -> str:
        """Return what changes with the source: the name of the folder does."""
        return self.folder.name

    def get_disambiguator(self) -> str:
        """Return what tells functions of one name and module apart."""
        return str(self._lineno)

    @classmethod
    def from_function(cls, function: Callable[..., Any], source: str) -> "_Locator":
        """Locate the cache of a function in a file."""
        return cls(function, source)


class _CacheImpl(CompileResultCacheImpl):  # type: ignore[misc]  # Numba has no types
    _locator_classes = (_Locator,)

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Return the code that the cache holds."""
        generator = target_context.codegen()
        if payload[0][1] == "bitcode":
            generator._library_class = _LinkedLibrary
        try:
            return super().rebuild(target_context, payload)
        finally:
            vars(generator).pop("_library_class", None)


class _Cache(FunctionCache):  # type: ignore[misc]  # Numba has no types
    """The cache of one kernel: what cannot be loaded is compiled again, by one process of this machine at a time."""

    _impl_class = _CacheImpl

    def __init__(self, function: Callable[..., Any], linked: bool) -> None:
        super().__init__(function)
        if linked:
            self._impl._filename_base += ".linked"
            self._cache_file = IndexDataCacheFile(
                self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
            )
        self._locks: list[_kernel_cache.CompileLock] = []
        folders = _kernel_cache.read_only_folders_of(function.__module__, self._impl.locator._py_file)
        self._read_only = [IndexDataCacheFile(str(folder), self._impl.filename_base, folder.name) for folder in folders]
        self._shipped = []
        for level in _SHIPPED_LEVELS:
            folder = _kernel_cache.shipped_folder_of(level, function.__module__, self._impl.locator._py_file)
            self._shipped.append((IndexDataCacheFile(str(folder), self._impl.filename_base, folder.name), level))

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._stored(sig, target_context)
        if found is None:
            lock = _kernel_cache.CompileLock(self._impl.locator.folder, self._impl.filename_base)
            # Another process may have compiled it while we waited.
            if lock.waited and (found := self._stored(sig, target_context)) is not None:
                lock.release()
            else:
                self._locks.append(lock)
        return found

    def _stored(self, sig: Any, target_context: Any) -> Any:
        key = self._index_key(sig, target_context.codegen())
        of_signature, (triple, *_processor), of_function = key
        places = [(file, key) for file in (self._cache_file, *self._read_only)]
        places += [(file, (of_signature, (triple, level, ""), of_function)) for file, level in self._shipped]
        for file, key in places:
            try:
                data = file.load(key)
                if data is not None:
                    return self._impl.rebuild(target_context, data)
            except Exception:
                _log.debug("cached code of %s cannot be loaded", self._name, exc_info=True)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code of a signature; where that fails, it is compiled again in the next process."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _log.warning("compiled code cannot be kept in %s: %s", self.cache_path, error)
        except Exception:
            # The file of the index is damaged.
            self.flush()
            super().save_overload(sig, data)
        finally:
            self.release()

    def release(self) -> None:
        """Let other processes go on."""
        while self._locks:
            self._locks.pop().release()


_PARTS = frozenset(("getitem", "static_getitem", "typed_getitem", "getattr", "build_tuple", "getiter", "iternext"))
"""What gives parts of arguments, which outlive them; but an array that is picked by another is new."""


@register_pass(mutates_CFG=False, analysis_only=False)
class _CountNothing(FunctionPass):  # type: ignore[misc]  # Numba has no types
    """Let a kernel that neither makes arrays nor returns any count no references to those that it is given.

    Of the code of a kernel that takes arrays in tuples, a third counted references to all of them at each use.
    """

    _name = "count_nothing"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Choose how the kernel is lowered."""
        kinds = {state.return_type}
        for block in state.func_ir.blocks.values():
            # An array that is assigned to a part of one is copied first, if they overlap.
            for copy in block.find_insts((numba_ir.SetItem, numba_ir.StaticSetItem)):
                kinds.add(state.typemap[copy.value.name])
            for assignment in block.find_insts(numba_ir.Assign):
                value = assignment.value
                if isinstance(value, numba_ir.Expr):
                    call = state.calltypes.get(value)
                    picks = call is not None and any(isinstance(kind, types.Array) for kind in call.args[1:])
                    if picks or value.op not in _PARTS:
                        kinds.add(state.typemap[assignment.target.name])
        models = state.targetctx.data_model_manager
        if not any(models[kind].contains_nrt_meminfo() for kind in kinds):
            state.targetctx = state.targetctx.subtarget(enable_nrt=False)
            vars(state.targetctx).pop("nrt", None)
        return False


class _Compiler(compiler.CompilerBase):  # type: ignore[misc]  # Numba has no types
    """Numba's pipeline without what kernels have no use for: closures, contexts, literals, annotations of types."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        passes = PassManager("kernel")
        for one in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            untyped_passes.GenericRewrites,
            untyped_passes.InlineInlinables,
            untyped_passes.ReconstructSSA,
            typed_passes.NopythonTypeInference,
            typed_passes.PreLowerStripPhis,
            _CountNothing,
            typed_passes.IRLegalization,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]


class _LinkedLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]  # Numba has no types
    """The code of a kernel for those that call it: it becomes machine code only as a part of theirs."""

    codegen = SimpleNamespace(set_env=lambda _name, _environment: None)

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager(
            loop_vectorize=False, slp_vectorize=False, opt=self._codegen._opt_level, cost="cheap"
        )
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        """Return that there is none."""
        return 0

    def serialize_using_object_code(self) -> Any:
        """Return what the cache keeps."""
        return self.serialize_using_bitcode()


class _LinkedCompiler(_FunctionCompiler):  # type: ignore[misc]  # Numba has no types
    """Compile into a linked library."""

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        context = self.targetdescr.target_context
        library = _LinkedLibrary(context.codegen(), self.py_func.__qualname__)
        library.enable_object_caching()
        return compiler.compile_extra(
            self.targetdescr.typing_context,
            context,
            self.py_func,
            args,
            return_type,
            flags,
            self.locals,
            library=library,
            pipeline_class=self.pipeline_class,
        )


class Kernel(CPUDispatcher):  # type: ignore[misc]  # Numba has no types
    """A compiled function whose arguments from Python are typed in one way."""

    def __init__(
        self, function: Callable[..., Any], inline: str, linked: bool = False, keeps_lock: bool = False
    ) -> None:
        # Nothing calls kernels from C: without wrappers for it, they compile in 0.9 of the time.
        options = {"nopython": True, "nogil": not keeps_lock, "boundscheck": None, "inline": inline}
        options["no_cfunc_wrapper"] = True
        super().__init__(
            py_func=function, targetoptions={**options, "no_cpython_wrapper": linked}, pipeline_class=_Compiler
        )
        if linked:
            self._compiler = _LinkedCompiler(function, self.targetdescr, self.targetoptions, {}, _Compiler)
        self._cache = _Cache(function, linked)
        self._linked: Kernel | None = self if linked else None
        self._known: set[tuple[Any, ...]] = set()
        """Types of arguments that the dispatcher was told of beside those that the kernel was compiled for."""
        _made.append(self)
        self._annotations = [function.__annotations__.get(name) for name in inspect.signature(function).parameters]

    def compile(self, sig: Any) -> Any:
        """Compile for arguments from Python, or load from the cache; return the function."""
        with global_compiler_lock:
            arguments = tuple(sigutils.normalize_signature(sig)[0])
            wanted = tuple(map(_from_python, self._numbers_typed(arguments)))
            function = self._compiled(wanted)
            if wanted != arguments and arguments not in self._known:
                self._refuse_writes(arguments)
                # So that the next call with such arguments finds it without coming here. Two threads may come here with
                # the same ones: of two equal entries the dispatcher takes neither, and each call would come here.
                self._insert([argument._code for argument in arguments], function, False)
                self._known.add(arguments)
            return function

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for a call from another kernel; return the signature to call."""
        with global_compiler_lock:
            if self._linked is None:
                self._linked = Kernel(self.py_func, self.targetoptions["inline"], linked=True)
            if self._linked is not self:
                return self._linked.get_call_template(args, kws)
            signature, arguments = self._compiler.fold_argument_types(args, kws)
            wanted = tuple(self._numbers_typed(arguments))
            self._compiled(wanted)
            name = self.py_func.__name__
            template = typing.make_concrete_template(name, key=name, signatures=[self.overloads[wanted].signature])
            return template, signature, arguments, {}

    def get_overload(self, sig: Any) -> Any:
        """Return what stands for a signature in calls from other kernels."""
        return super().get_overload(sig) if self._linked in (None, self) else self._linked.get_overload(sig)

    def _compiled(self, arguments: tuple[Any, ...]) -> Any:
        if (known := self.overloads.get(arguments)) is not None:
            return known.entry_point
        misses = sum(self._cache_misses.values())
        start = time.process_time()
        # The compiler makes objects by the million and few cycles: a tenth of its time went to looking for them.
        collects = gc.isenabled()
        gc.disable()
        try:
            function = super().compile(arguments)
            if self._linked is not self:
                made = self.overloads[arguments]
                for environment in made._find_referenced_environments():
                    made.library.codegen.set_env(environment.env_name, environment)
            return function
        finally:
            if collects:
                gc.enable()
            self._cache.release()
            if sum(self._cache_misses.values()) > misses:
                seconds = time.process_time() - start
                COMPILATIONS.append((self.py_func.__module__, self.py_func.__name__, seconds))
                _kernel_cache.tell(self.py_func.__module__, self.py_func.__name__, seconds)

    def _numbers_typed(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return the types of arguments: not those of literals, and integers as the annotations say."""
        arguments = tuple(map(types.unliteral, arguments))
        return [
            types.int64 if annotation is int and _fits_int64(argument) else argument
            for annotation, argument in zip(self._annotations, arguments, strict=True)
        ]

    def _refuse_writes(self, arguments: tuple[Any, ...]) -> None:
        """Raise if an array that may only be read is one that the kernel assigns to."""
        names = tuple(inspect.signature(self.py_func).parameters)
        only_read = {
            name for name, of in zip(names, arguments, strict=True) if isinstance(of, types.Array) and not of.mutable
        }
        if only_read:
            tree = ast.parse(textwrap.dedent(inspect.getsource(self.py_func)))
            written = {
                node.value.id
                for node in ast.walk(tree)
                if isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
            }
            if only_read & written:
                raise TypeError(
                    f"{self.py_func.__name__} writes into {sorted(only_read & written)}, which is read-only"
                )


def _fits_int64(argument: Any) -> bool:
    """Tell whether every value of a type is one of 64 bits with a sign."""
    return isinstance(argument, (types.Integer, types.Boolean)) and argument != types.uint64


def _from_python(argument: Any) -> Any:
    """Return the type of an argument as if all arrays in it could be written to."""
    if isinstance(argument, types.Array) and not argument.mutable:
        return argument.copy(readonly=False)
    if isinstance(argument, types.BaseNamedTuple):
        return types.BaseTuple.from_types(tuple(map(_from_python, argument.types)), argument.instance_class)
    if isinstance(argument, types.BaseTuple):
        return types.BaseTuple.from_types(tuple(map(_from_python, argument.types)))
    return argument


def undeclared() -> dict[tuple[str, str], list[str]]:
    """Return the signatures of kernels that have more of them than they declare, by module and name."""
    found = {(kernel.py_func.__module__, kernel.py_func.__name__): list(map(str, kernel.overloads)) for kernel in _made}
    return {name: signatures for name, signatures in found.items() if len(signatures) > KERNELS[name]}


def type_of(value: Any) -> Any:
    """Return Numba's type of a kernel or an intrinsic."""
    return cpu_target.typing_context.resolve_value_type(value)


# Vectors of short codes: the functions of `_compile.py` in LLVM's own language.

_VECTOR = ir.VectorType(ir.IntType(16), VECTOR_WIDTH)
_function_of: Any = cgutils.get_or_insert_function
_ZEROS = ir.Constant(ir.VectorType(ir.IntType(32), VECTOR_WIDTH), [0] * VECTOR_WIDTH)


def _loaded(builder: Any, data: Any, place: Any) -> Any:
    pointer = builder.bitcast(builder.gep(data, [place]), _VECTOR.as_pointer())
    codes = builder.load(pointer)
    codes.align = 2
    return codes


def _repeated(builder: Any, code: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), code, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), _ZEROS)


def _word_of(builder: Any, conditions: list[Any]) -> Any:
    marks = conditions[0]
    for condition in conditions[1:]:
        marks = builder.and_(marks, condition)
    return builder.zext(builder.bitcast(marks, ir.IntType(VECTOR_WIDTH)), ir.IntType(64))


def _unpacked(builder: Any, tuples: Any) -> Any:
    unpack: Any = cgutils.unpack_tuple
    return zip(*(unpack(builder, one) for one in tuples), strict=True)


def _data_of(context: Any, builder: Any, signature: Any, args: Any, number: int = 0) -> Any:
    return context.make_array(signature.args[number])(context, builder, args[number]).data


def _signature_of(array: Any, count: Any, kinds: tuple[Any, ...]) -> Any:
    of_tuple: Any = types.UniTuple
    return types.uint64(array, *(of_tuple(kind, count) for kind in kinds))


@intrinsic
def are_within(_: Any, codes: Any, places: Any, _lows: Any, _highs: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data_of(context, builder, signature, args)
        conditions = []
        for place, low, high in _unpacked(builder, args[1:]):
            vector_there = _loaded(builder, data, place)
            conditions.append(builder.icmp_unsigned(">=", vector_there, _repeated(builder, low)))
            conditions.append(builder.icmp_unsigned("<=", vector_there, _repeated(builder, high)))
        return _word_of(builder, conditions)

    return _signature_of(codes, places.count, (types.uint64, types.uint16, types.uint16)), generate


@intrinsic
def lie_on_ends(_: Any, codes: Any, places: Any, _lows: Any, _highs: Any, _wanted: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data_of(context, builder, signature, args)
        word = ir.Constant(ir.IntType(64), 0)
        for place, low, high, bits in _unpacked(builder, args[1:]):
            vector_there = _loaded(builder, data, place)
            is_low = builder.icmp_unsigned("==", vector_there, _repeated(builder, low))
            is_high = builder.icmp_unsigned("==", vector_there, _repeated(builder, high))
            word = builder.or_(word, builder.and_(_word_of(builder, [builder.or_(is_low, is_high)]), bits))
        return word

    kinds = (types.uint64, types.uint16, types.uint16, types.uint64)
    return _signature_of(codes, places.count, kinds), generate


@intrinsic
def contain(_: Any, fields: Any, lows: Any, _highs: Any, _codes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data_of(context, builder, signature, args)
        conditions = []
        for low, high, code in _unpacked(builder, args[1:]):
            wanted = _repeated(builder, code)
            conditions.append(builder.icmp_unsigned("<=", _loaded(builder, data, low), wanted))
            conditions.append(builder.icmp_unsigned(">=", _loaded(builder, data, high), wanted))
        return _word_of(builder, conditions)

    return _signature_of(fields, lows.count, (types.uint64, types.uint64, types.uint16)), generate


# Where the processor cannot pick from a vector by the numbers in another one, each of its codes is read by itself.
_PICKS = "+avx512bw" in (_FEATURES if _CHOSEN_LEVEL is None else _LEVELS.get(_CHOSEN_LEVEL, ()))


def _picked(builder: Any, data: Any, first: Any, numbers: Any) -> Any:
    if _PICKS:
        kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR])
        pick = _function_of(builder.module, kind, "llvm.x86.avx512.permvar.hi.512")
        return builder.call(pick, [_loaded(builder, data, first), numbers])
    codes = ir.Constant(_VECTOR, ir.Undefined)
    inside = builder.and_(numbers, ir.Constant(_VECTOR, [VECTOR_WIDTH - 1] * VECTOR_WIDTH))
    for number in range(VECTOR_WIDTH):
        at = ir.Constant(ir.IntType(32), number)
        place = builder.add(first, builder.zext(builder.extract_element(inside, at), ir.IntType(64)))
        codes = builder.insert_element(codes, builder.load(builder.gep(data, [place])), at)
    return codes


@intrinsic
def admit(_: Any, fields: Any, _columns: Any, _lows: Any, _highs: Any, rows: Any, _first: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _data_of(context, builder, signature, args)
        columns, lows, highs = (_loaded(builder, data, place) for place in args[1:4])
        codes = _picked(builder, _data_of(context, builder, signature, args, 4), args[5], columns)
        holds = builder.and_(builder.icmp_unsigned("<=", lows, codes), builder.icmp_unsigned("<=", codes, highs))
        is_beyond = builder.icmp_unsigned(">=", columns, ir.Constant(_VECTOR, [VECTOR_WIDTH] * VECTOR_WIDTH))
        return _word_of(builder, [builder.or_(holds, is_beyond)])

    return types.uint64(fields, types.uint64, types.uint64, types.uint64, rows, types.uint64), generate


@intrinsic
def fetch(_: Any, array: Any, _place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        fetch = _function_of(builder.module, kind, "llvm.prefetch.p0i8")
        place = builder.gep(_data_of(context, builder, signature, args), [args[1]])
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


_BITS = ir.VectorType(ir.IntType(64), 8)


@intrinsic
def or_vectors(
    _: Any, words: Any, _first_word: Any, places: Any, _first: Any, _count: Any, unions: Any, _at: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = ir.IntType(64)
        data, starts, target = (_data_of(context, builder, signature, args, place) for place in (0, 2, 5))
        before, loop, after = builder.block, builder.append_basic_block("or"), builder.append_basic_block("done")
        nothing = ir.Constant(_BITS, [0] * 8)
        builder.cbranch(builder.icmp_signed(">", args[4], number(0)), loop, after)
        builder.position_at_end(loop)
        row, so_far = builder.phi(number), builder.phi(_BITS)
        joined = so_far
        for step in range(OR_AT_ONCE):
            place = builder.load(builder.gep(starts, [builder.add(builder.add(args[3], row), number(step))]))
            place = builder.add(args[1], builder.sext(place, number))
            vector_there = builder.load(builder.bitcast(builder.gep(data, [place]), _BITS.as_pointer()))
            vector_there.align = 8
            joined = builder.or_(joined, vector_there)
        some = builder.icmp_signed("!=", joined, ir.Constant(_BITS, [-1] * 8))
        open_words = builder.zext(builder.bitcast(some, ir.IntType(8)), number)
        row_after = builder.add(row, number(OR_AT_ONCE))
        for phi, first, later in ((row, number(0), row_after), (so_far, nothing, joined)):
            phi.add_incoming(first, before)
            phi.add_incoming(later, loop)
        is_full = builder.icmp_signed("==", open_words, number(0))
        ends = builder.or_(is_full, builder.icmp_signed(">=", row_after, args[4]))
        builder.cbranch(ends, after, loop)
        builder.position_at_end(after)
        result, still_open = builder.phi(_BITS), builder.phi(number)
        for phi, of_nothing, of_loop in ((result, nothing, joined), (still_open, number(255), open_words)):
            phi.add_incoming(of_nothing, before)
            phi.add_incoming(of_loop, loop)
        builder.store(result, builder.bitcast(builder.gep(target, [args[6]]), _BITS.as_pointer()), align=8)
        return still_open

    number = types.int64
    return types.int64(words, number, places, number, number, unions, number), generate


@intrinsic
def or_line(_: Any, words: Any, _at: Any, target: Any, _first: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, into = (
            builder.bitcast(
                builder.gep(_data_of(context, builder, signature, args, number), [args[number + 1]]), _BITS.as_pointer()
            )
            for number in (0, 2)
        )
        there, here = builder.load(source), builder.load(into)
        there.align = here.align = 8
        builder.store(builder.or_(there, here), into, align=8)
        return context.get_dummy_value()

    return types.none(words, types.uint64, target, types.uint64), generate


@intrinsic
def put_eight(_: Any, table: Any, _row: Any, _base: Any, values: Any, _first: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        eight = ir.VectorType(ir.IntType(32), 8)
        source, target = (_data_of(context, builder, signature, args, place) for place in (0, 3))
        row = builder.gep(source, [builder.shl(args[1], ir.IntType(64)(3))])
        small = builder.load(builder.bitcast(row, ir.VectorType(ir.IntType(8), 8).as_pointer()))
        small.align = 1
        base = builder.insert_element(ir.Constant(eight, ir.Undefined), args[2], ir.IntType(32)(0))
        base = builder.shuffle_vector(base, ir.Constant(eight, ir.Undefined), ir.Constant(eight, [0] * 8))
        numbers = builder.add(builder.zext(small, eight), base)
        there = builder.bitcast(builder.gep(target, [args[4]]), eight.as_pointer())
        builder.store(numbers, there, align=4)
        return context.get_dummy_value()

    return types.none(table, types.uint64, types.int32, values, types.uint64), generate


@intrinsic
def _pointer(_: Any, _address: Any) -> Any:
    void = ir.IntType(8).as_pointer()
    return types.voidptr(types.int64), lambda _context, builder, _signature, args: builder.inttoptr(args[0], void)


_pointer_of: Any = _pointer


@njit(inline="always")
def floats_at(address: Any, size: Any) -> Any:
    return carray(_pointer_of(address), (size,), np.float64)


@njit(inline="always")
def integers_at(address: Any, size: Any) -> Any:
    return carray(_pointer_of(address), (size,), np.int64)


@njit(inline="always")
def int32s_at(address: Any, size: Any) -> Any:
    return carray(_pointer_of(address), (size,), np.int32)


@njit(inline="always")
def uint16s_at(address: Any, size: Any) -> Any:
    return carray(_pointer_of(address), (size,), np.uint16)


@njit(inline="always")
def int16s_at(address: Any, size: Any) -> Any:
    return carray(_pointer_of(address), (size,), np.int16)


@njit(inline="always")
def int8s_at(address: Any, size: Any) -> Any:
    return carray(_pointer_of(address), (size,), np.int8)


@njit(inline="always")
def bools_at(address: Any, size: Any) -> Any:
    return carray(_pointer_of(address), (size,), np.bool_)


@njit(inline="always")
def bytes_at(address: Any, size: Any) -> Any:
    return carray(_pointer_of(address), (size,), np.uint8)


INTRINSICS = {
    "_are_within": are_within,
    "_lie_on_ends": lie_on_ends,
    "_contain": contain,
    "_admit": admit,
    "_count_bits": count_bits,
    "_lowest_bit": lowest_bit,
    "_or_vectors": or_vectors,
    "_or_line": or_line,
    "_put_eight": put_eight,
    "_floats_at": floats_at,
    "_integers_at": integers_at,
    "_int32s_at": int32s_at,
    "_uint16s_at": uint16s_at,
    "_int16s_at": int16s_at,
    "_int8s_at": int8s_at,
    "_bools_at": bools_at,
    "_bytes_at": bytes_at,
    "_fetch": fetch,
}
"""Those that take the place of functions in `_compile.py`, by the name there."""
