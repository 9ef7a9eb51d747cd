"""What `tocsin warm` has compiled, nothing compiles again: not changes, not commits, not merges, not mapped files."""

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tocsin
from tocsin._compile import COMPILED, KERNELS
from tocsin.compile_ahead import FAMILIES, warm
from tocsin.errors import OptionError

pytestmark = pytest.mark.skipif(not COMPILED, reason="TOCSIN_KERNELS=python compiles nothing")

STEPS = """
import os, random, sys
import pyarrow as pa
from tocsin.matcher import Matcher
from tocsin.compile_ahead import drive, events, subscriptions
from tocsin import _numba

os.fsync = lambda _: None  # the disk is not what is tested
families, folder, steps = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
texts = [text for family in families for text in subscriptions(family)["where"].to_pylist()]
chance = random.Random(1)
some = events(500)
singles = some.slice(0, 50).to_pylist()
Matcher(background_merge=False).save(folder)
writer = Matcher.open(folder, background_merge=False)
reader = Matcher.open(folder, mode="read", background_merge=False)
alive, matches = [], 0
for step in range(steps):
    do = chance.choice("subscribe subscribe many unsubscribe match batch commit refresh merge".split())
    if do == "subscribe":
        writer.subscribe(str(step), chance.choice(texts))
        alive.append(str(step))
    elif do == "many":
        chosen = chance.sample(texts, 5)
        writer.subscribe_many(pa.table({"id": [f"{step}.{n}" for n in range(5)], "where": chosen}))
    elif do == "unsubscribe" and alive:
        writer.unsubscribe(alive.pop())
    elif do == "match":
        matches += len(writer.match(chance.choice(singles)))
        reader.match(chance.choice(singles))
    elif do == "batch":
        size = chance.choice([1, 2, 30, 400])
        matches += writer.match_batch(some.slice(0, size)).num_rows
        reader.match_batch(some.slice(0, size))
    elif do == "commit":
        writer.commit()
    elif do == "refresh":
        reader.refresh()
    elif do == "merge" and step % 3 == 0:
        writer.compact()
assert matches > steps, matches
for family in families:
    drive(family)
print(sorted({f"{module}.{name}" for module, name, _ in _numba.COMPILATIONS}))
"""


def test_a_family_that_is_not_known_is_named() -> None:
    with pytest.raises(OptionError, match=r"there is no family 'wodrs'\. Choose among ranges"):
        warm(["wodrs"])


@pytest.mark.parametrize("families", [["ranges", "trees"], ["words", "patterns", "arrays", "attributes"], ["xpath"]])
@pytest.mark.parametrize("steps", [300, pytest.param(1_000, marks=pytest.mark.slow)])
def test_after_warming_neither_steps_nor_warming_again_compile(families: list[str], steps: int, tmp_path: Path) -> None:
    told: list[str] = []
    warm(families, lambda name, _kernels, _seconds: told.append(name))
    assert sorted(told) == sorted(families)
    command = [sys.executable, "-c", STEPS, ",".join(families), str(tmp_path / "index"), str(steps)]
    answer = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == "[]"


DRIVE = """
import sys
from tocsin.compile_ahead import drive
for family in sys.argv[1].split(","):
    drive(family)
from tocsin import _numba
assert _numba.undeclared() == {}, _numba.undeclared()
# A kernel that is loaded from the cache brings those that it calls in its code.
made = {(kernel.py_func.__module__, kernel.py_func.__name__): kernel for kernel in _numba._made}
reached, found = set(), [name for name, kernel in made.items() if kernel.overloads]
while found:
    name = found.pop()
    if name in made and name not in reached:
        reached.add(name)
        function = made[name].py_func
        called = [getattr(function.__globals__.get(other), "py_func", None) for other in function.__code__.co_names]
        found += [(other.__module__, other.__name__) for other in called if other is not None]
for module, name in reached:
    print(f"{module}.{name}")
"""


def test_every_kernel_is_compiled_ahead_with_the_signatures_that_it_declares() -> None:
    """In memory and mapped, and whatever size makes another structure cheaper."""
    for module in pkgutil.walk_packages(tocsin.__path__, "tocsin."):
        if module.name.split(".")[1] in ("conjunctions", "index", "predicates", "ranking"):
            importlib.import_module(module.name)
    others = ("tocsin.papers.", "tocsin.bench.")
    product = {f"{m}.{name}" for m, name in KERNELS if m.startswith("tocsin.") and not m.startswith(others)}
    answer = subprocess.run([sys.executable, "-c", DRIVE, ",".join(FAMILIES)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert product - set(answer.stdout.split()) == set()


PROGRAM = (
    "import logging; logging.basicConfig(level=logging.INFO); "
    "from tocsin.matcher import Matcher; m = Matcher(); m.subscribe('low', 'a < 3 AND b > 1'); "
    "print(m.match({'a': 1, 'b': 2}).ids)"
)


def test_where_nothing_can_be_written_a_temporary_folder_is_used(tmp_path: Path) -> None:
    """With no home, and beside the package a file where the cache would be: not even root can write there."""
    temporary, package = tmp_path / "tmp", tmp_path / "src" / "tocsin"
    temporary.mkdir()
    shutil.copytree(Path(tocsin.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__pycache__").write_text("a file is not a folder")
    environment = {**os.environ, "HOME": "/dev/null", "TMPDIR": str(temporary), "PYTHONPATH": str(tmp_path / "src")}
    environment.pop("TOCSIN_CACHE_DIR", None)
    environment.pop("XDG_CACHE_HOME", None)
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert answer.stdout.strip() == "['low']", answer.stderr
    assert "set TOCSIN_CACHE_DIR" in answer.stderr
    assert "compiling kernels at their first use" in answer.stderr
    assert list(temporary.rglob("*.nbi"))
