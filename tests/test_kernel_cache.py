"""One signature a kernel, and code that is kept on disk: where, for how long, and what happens when it cannot be."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tocsin import _compile, _kernel_cache
from tocsin._compile import COMPILED, kernel
from tocsin.arrays import Int64s

compiled_only = pytest.mark.skipif(not COMPILED, reason="TOCSIN_KERNELS=python compiles nothing")


class Pair(NamedTuple):
    left: Int64s
    right: Int64s


@kernel
def total(pair: Pair, values: Int64s, first: int) -> int:
    result = first
    for value in values:
        result += value
    return result + _sum(pair.left, 0) + _sum(pair.right, first)


@kernel
def _sum(values: Int64s, first: int) -> int:
    result = first
    for value in values:
        result += value
    return result


@kernel
def fill(values: Int64s, value: int) -> None:
    for place in range(len(values)):
        values[place] = value


def compiled_of(function: Any) -> Any:
    """What stands behind a kernel that was decorated before the compiler was loaded."""
    _compile.load_compiler()
    return getattr(function, "compiled", None) or function


def only_read(values: Int64s) -> Int64s:
    view = values.view()
    view.flags.writeable = False
    return view


@compiled_only
def test_memory_and_mapped_files_and_numbers_of_any_type_share_one_signature() -> None:
    values = np.arange(3)
    for left in (values, only_read(values)):
        for right in (values, only_read(values)):
            for number in (1, np.int32(1), np.uint8(1), True):
                assert total(Pair(left, right), right, number) == 3 + 3 + 3 + 1 + 1  # type: ignore[arg-type]
    assert len(compiled_of(total).overloads) == 1
    # Called from a kernel with a literal and with a variable.
    assert len(compiled_of(_sum).overloads) <= 1


@compiled_only
def test_a_kernel_that_writes_refuses_an_array_that_is_only_read() -> None:
    values = np.zeros(2, np.int64)
    fill(values, 1)
    with pytest.raises(TypeError, match=r"fill writes into \['values'\], which is read-only"):
        fill(only_read(values), 2)
    assert values.tolist() == [1, 1]


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Forget where this process keeps its code, here and afterwards."""
    memories = (_kernel_cache.root, _kernel_cache._stamp, _kernel_cache._read)
    for memory in memories:
        memory.cache_clear()
    monkeypatch.delenv("TOCSIN_CACHE_DIR", raising=False)
    yield monkeypatch
    monkeypatch.undo()
    for memory in memories:
        memory.cache_clear()


def test_code_is_kept_where_it_can_be(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere = tmp_path / "file"
    nowhere.write_text("a file is not a folder")
    fresh.setenv("TOCSIN_CACHE_DIR", str(tmp_path / "chosen"))
    assert _kernel_cache.root() == tmp_path / "chosen"
    _kernel_cache.root.cache_clear()
    fresh.setenv("TOCSIN_CACHE_DIR", str(nowhere / "chosen"))
    fresh.setattr(_kernel_cache, "PACKAGE", nowhere / "package")
    fresh.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert _kernel_cache.root().parent == tmp_path / "home" / "tocsin"


def test_code_beside_a_package_that_cannot_be_written_to_is_used(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = str(Path(__file__))
    package = tmp_path / "package"
    warmed = package / "__pycache__" / "kernels" / f"m.{_kernel_cache._stamp(source)}"
    warmed.mkdir(parents=True)
    fresh.setattr(_kernel_cache, "PACKAGE", package)
    fresh.setattr(_kernel_cache, "_is_writable", lambda folder: package not in folder.parents)
    fresh.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert _kernel_cache.folder_of("m", source).is_relative_to(tmp_path / "home")
    assert _kernel_cache.read_only_folders_of("m", source) == [warmed]


def test_a_change_in_a_module_that_is_imported_changes_the_folder(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("from tocsin.one import Tuple\n")
    one = "from tocsin import (\n    A,\n    two,\n)\nif TYPE:\n    from tocsin.three import A\n"
    (tmp_path / "one.py").write_text(one)
    (tmp_path / "two.py").write_text("def read():\n    import tocsin.three\n")
    (tmp_path / "three.py").write_text("WIDTH = 1\n")
    (tmp_path / "__init__.py").write_text("from tocsin.three import WIDTH\n")
    (tmp_path / "_numba.py").write_text("from tocsin.forks import wait_for\n")
    (tmp_path / "forks.py").write_text("")
    fresh.setattr(_kernel_cache, "PACKAGE", tmp_path)

    def stamp() -> str:
        _kernel_cache._stamp.cache_clear()
        _kernel_cache._read.cache_clear()
        return _kernel_cache._stamp(str(tmp_path / "kernels.py"))

    before = stamp()
    (tmp_path / "three.py").write_text("WIDTH = 2\n")
    assert stamp() == before
    for name in ("two.py", "forks.py", "_numba.py"):
        (tmp_path / name).write_text("WIDTH = 2\n")
        assert stamp() != before, name
        before = stamp()


def test_a_kernel_does_not_depend_on_the_whole_package() -> None:
    seen, pending = set[str](), [str(_kernel_cache.PACKAGE / "predicates" / "patterns" / "kernels.py")]
    while pending:
        seen.add(source := pending.pop())
        pending.extend(_kernel_cache._read(source)[1] - seen)
    expected = {"kernels.py", "sort_kernel.py", "_compile.py", "_kernel_cache.py", "arrays.py", "forks.py"}
    assert {Path(source).name for source in seen} == expected


PROGRAM = """
import numpy as np
from tocsin import _compile
from tocsin.predicates.patterns.kernels import lower_ascii
assert lower_ascii(np.frombuffer(b"Ab", np.uint8)).tobytes() == b"ab"
from tocsin import _kernel_cache, _numba
print(len(_numba.COMPILATIONS), _kernel_cache.root())
"""


def run(environment: dict[str, str], program: str = PROGRAM) -> list[str]:
    """Run a program in a new process; return the words it prints."""
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split()


@compiled_only
def test_damaged_code_is_compiled_again(tmp_path: Path) -> None:
    environment = {"TOCSIN_CACHE_DIR": str(tmp_path)}
    assert run(environment)[0] == "1"
    assert run(environment)[0] == "0"
    damaged = list(tmp_path.rglob("*.nb*"))
    assert damaged
    for file in damaged:
        file.write_bytes(file.read_bytes()[:-10])
    assert run(environment)[0] == "1"
    assert run(environment)[0] == "0"


@compiled_only
def test_processes_that_start_at_once_compile_once(tmp_path: Path) -> None:
    environment = {**os.environ, "TOCSIN_CACHE_DIR": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    compiled = [int(process.communicate()[0].split()[0]) for process in started]
    assert sum(compiled) == 1


@compiled_only
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for a level of x86-64")
def test_code_that_came_with_the_package_is_used_by_processors_that_can_run_it(tmp_path: Path) -> None:
    shipped, cache = tmp_path / "shipped", {"TOCSIN_CACHE_DIR": str(tmp_path / "cache")}
    level = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}
    assert run({**level, "TOCSIN_CACHE_DIR": str(shipped / "x86-64-v3")})[0] == "1"
    begin = f"import pathlib\nfrom tocsin import _kernel_cache as c\nc.SHIPPED = pathlib.Path({str(shipped)!r})\n"
    features = "import numba.core.codegen as codegen\ncodegen.get_host_cpu_features = lambda: {!r}\n"
    newer = features.format("+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,-avx512f")
    assert run(cache, begin + newer + PROGRAM)[0] == "0"
    # Nor does code for a level replace what is compiled for one that the environment chose.
    assert run({**cache, "NUMBA_CPU_NAME": "x86-64-v2", "NUMBA_CPU_FEATURES": ""}, begin + PROGRAM)[0] == "1"
    older = features.format("+sse4.2,-avx2")
    assert run(cache, begin + older + PROGRAM)[0] == "1"
