"""Every kernel has a direct test, and the tests of kernels pass uncompiled as well."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tocsin
from tocsin._compile import KERNELS

TESTS = Path(__file__).parent
SOURCE = Path(tocsin.__file__).parent
KERNEL_TESTS = sorted([TESTS / "test_compile.py", *TESTS.rglob("test_*_kernels.py")])
"""Modules of direct tests: each calls kernels with small arrays and judges them by NumPy."""
PARTS = 4
"""They run uncompiled in so many processes, so that those of a parallel run share them."""

WITHOUT_DIRECT_TESTS = (
    "tocsin.conjunctions.key.",
    "tocsin.papers.",
    "tocsin.predicates.history.",
    "tocsin.predicates.patterns.",
    "tocsin.predicates.texts",
    "tocsin.predicates.words.",
    "tocsin.predicates.xpath.",
)
"""Beginnings of modules whose kernels are tested through the structures that they serve."""
BY_THEIR_CALLERS = {
    "tocsin.conjunctions.kernels": {"_mixed", "mix_hash", "group_slices"},
}
"""A hash has no right value: whoever uses it compares what has the same one."""


def modules_with_kernels() -> list[str]:
    """The modules of the package that decorate a kernel."""
    with_kernels = [
        path for path in SOURCE.rglob("*.py") if re.search(r"^@(inlined_)?kernel\b", path.read_text(), re.M)
    ]
    return sorted(".".join(["tocsin", *path.relative_to(SOURCE).with_suffix("").parts]) for path in with_kernels)


@pytest.mark.parametrize(
    "module", [name for name in modules_with_kernels() if not name.startswith(WITHOUT_DIRECT_TESTS)]
)
def test_every_kernel_has_a_direct_test(module: str) -> None:
    import_module(module)
    kernels = {name for of_module, name in KERNELS if of_module == module}
    assert kernels, "a decorated function is registered"
    texts = "\n".join(path.read_text() for path in KERNEL_TESTS)
    named = {name for name in kernels if re.search(rf"(?<![\w]){name}\(", texts)}
    assert kernels - named - BY_THEIR_CALLERS.get(module, set()) == set()


@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_uncompiled(part: int) -> None:
    environment = {**os.environ, "TOCSIN_KERNELS": "python"}
    options = ["-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *map(str, KERNEL_TESTS[part::PARTS])]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS.parent)
    assert answer.returncode == 0, answer.stdout
