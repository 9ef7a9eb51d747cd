"""The compiled loops of Tocsin: plain functions over arrays, and the only home of Numba.

Kernel bodies are plain Python. Set ``TOCSIN_KERNELS=python`` in the environment before the first import to run them
uncompiled, for a debugger or for coverage.
"""

import os
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np

from tocsin.forks import wait_for

_Function = TypeVar("_Function", bound=Callable[..., object])

COMPILED = os.environ.get("TOCSIN_KERNELS", "compiled") != "python"

if COMPILED:
    from numba.core.compiler_lock import global_compiler_lock

    # Else a child that is forked while another thread compiles could never compile anything.
    wait_for(global_compiler_lock)


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
