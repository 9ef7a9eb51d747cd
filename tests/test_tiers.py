"""Kernels that are interpreted as long as that is cheaper than to load or to compile them: the answers are the same."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tocsin import _compile
from tocsin._compile import COMPILED_S, INTERPRETED_S, TieredKernel
from tocsin.arrays import Int64s


def run(program: str, mode: str, *arguments: str, cache: Path | None = None) -> str:
    """Run a program in a new process with kernels in a mode; return what it prints."""
    environment = {**os.environ, "TOCSIN_KERNELS": mode}
    if cache is not None:
        environment["TOCSIN_CACHE_DIR"] = str(cache)
    answer = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=environment
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


FIRST = """
import sys
from tocsin.compile_ahead import FAMILIES, events, subscriptions
from tocsin.matcher import Matcher

for family in FAMILIES:
    with Matcher(background_merge=False) as matcher:
        matcher.subscribe_many(subscriptions(family).slice(0, 10))
        matcher.match_batch(events(20))
        matcher.match(events(1).to_pylist()[0])
print("numba" in sys.modules)
"""


@pytest.mark.parametrize(("mode", "loaded"), [("auto", "False"), ("python", "False")])
def test_little_data_of_any_family_loads_no_compiler(mode: str, loaded: str, tmp_path: Path) -> None:
    assert run(FIRST, mode, cache=tmp_path) == loaded
    assert list(tmp_path.rglob("*.nbi")) == []


SAME_ANSWERS = """
import sys
from tocsin import _compile, _kernel_cache
from tocsin.compile_ahead import FAMILIES, events, subscriptions
from tocsin.matcher import Matcher

# Some kernels can be loaded and some would be compiled, if one asks; all can be loaded in fact. Little is interpreted.
real = _kernel_cache.has_code_of
_kernel_cache.has_code_of = lambda function: real(function) and function.__code__.co_firstlineno % 2 == int(sys.argv[1])
_compile.LOADED_S, _compile.COMPILED_S = 0.05, 1e-5

def answers(matcher, some):
    rows = matcher.match_batch(some).to_pydict()
    single = [sorted(matcher.match(event).ids) for event in some.slice(0, 5).to_pylist()]
    return sorted(zip(rows["event"], rows["subscription"])), single

for size in map(int, sys.argv[2:]):
    for family in FAMILIES:
        table, some = subscriptions(family).slice(0, size), events(size)
        with Matcher(background_merge=False) as matcher, Matcher(matcher="reference") as reference:
            matcher.subscribe_many(table)
            reference.subscribe_many(table)
            assert answers(matcher, some) == answers(reference, some), (family, size)
from tocsin import _numba
assert _compile._interpreted_s > 0
assert _compile._tiered, "all kernels are compiled"
assert any(kernel.overloads for kernel in _numba._made)
assert _numba.undeclared() == {}, _numba.undeclared()
"""


@pytest.mark.parametrize("half", ["0", "1"])
@pytest.mark.parametrize("sizes", [("40",), pytest.param(("5", "40", "300"), marks=pytest.mark.slow)])
def test_interpreted_and_compiled_kernels_together_answer_as_the_reference_does(
    half: str, sizes: tuple[str, ...]
) -> None:
    run(SAME_ANSWERS, "auto", half, *sizes)


def test_an_unknown_way_to_run_kernels_is_named() -> None:
    program = "import tocsin._compile"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "TOCSIN_KERNELS": "jit"}
    )
    assert "TOCSIN_KERNELS is 'jit'; it can be auto, compiled or python" in answer.stderr


def _total(values: Int64s, table: Int64s) -> int:
    result = 0
    for value in values:
        result += table[value]
    return result


@pytest.fixture
def tiered(monkeypatch: pytest.MonkeyPatch) -> TieredKernel:
    """A kernel in a process that has loaded no compiler and interprets; to compile it raises CompiledError."""
    monkeypatch.setattr(_compile, "_interprets", True)
    monkeypatch.setattr(_compile, "_interpreted_s", 0.0)
    monkeypatch.setattr(_compile, "_compiler", None)
    monkeypatch.setattr(TieredKernel, "_compile", _raise_compiled)
    return TieredKernel(_total, "never", ("table",))


class CompiledError(Exception):
    """Raised in the place of compiling."""


def _raise_compiled(_: TieredKernel) -> None:
    raise CompiledError


def test_what_is_walked_through_decides_and_not_what_is_looked_up(tiered: TieredKernel) -> None:
    table = np.arange(1_000_000)
    assert tiered(np.array([1, 2]), table) == 3
    with pytest.raises(CompiledError):
        tiered(table, table)


def test_a_kernel_that_can_be_loaded_is_interpreted_up_to_the_time_of_loading(
    tiered: TieredKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiered.is_cached = True
    few = np.array([1, 2])
    assert tiered(few, np.arange(9)) == 3
    monkeypatch.setattr(_compile, "_interpreted_s", _compile.LOADED_S)
    with pytest.raises(CompiledError):
        tiered(few, np.arange(9))


def test_a_kernel_that_must_be_compiled_is_interpreted_up_to_the_time_of_compiling(
    tiered: TieredKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiered.is_cached = False
    monkeypatch.setattr(_compile, "_interpreted_s", _compile.LOADED_S)
    instructions = len(_total.__code__.co_code) // 2
    assert tiered.compiled_s == pytest.approx(COMPILED_S * instructions)
    most = int(tiered.compiled_s / INTERPRETED_S)
    with pytest.raises(CompiledError):
        tiered(np.zeros(most + 10, np.int64), np.zeros(1, np.int64))
    assert tiered(np.zeros(most - 10, np.int64), np.ones(1, np.int64)) == most - 10
    # It has been quick, so that far more is interpreted now; but not ten times more at once.
    quick = np.zeros(9 * (most - 10), np.int64)
    assert tiered(quick, np.ones(1, np.int64)) == len(quick)
    tiered._interpreted_s = tiered.compiled_s
    with pytest.raises(CompiledError):
        tiered(np.array([0]), np.ones(1, np.int64))


def test_a_kernel_that_is_called_by_an_interpreted_one_is_interpreted(tiered: TieredKernel) -> None:
    _compile._thread.interprets = True
    try:
        table = np.arange(1_000_000)
        assert tiered(table, table) == table.sum()
    finally:
        _compile._thread.interprets = False
