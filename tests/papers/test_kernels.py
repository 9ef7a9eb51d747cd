"""Every kernel of the papers and of KeyIndex has a direct test; `tests/test_kernels.py` runs them uncompiled."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "tocsin"
DIRECT = sorted([*TESTS.glob("papers/*/test_*_kernels.py"), TESTS / "conjunctions" / "key" / "test_key_kernels.py"])


def kernels() -> set[str]:
    """The functions with the kernel decorator that other modules may call; the others are parts of these."""
    files = [*SOURCE.glob("papers/**/*.py"), *SOURCE.glob("conjunctions/key/*.py")]
    functions = (node for file in files for node in ast.parse(file.read_text(encoding="utf-8")).body)
    return {
        node.name
        for node in functions
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(decorator).endswith("kernel") for decorator in node.decorator_list)
        and not node.name.startswith("_")
    }


def test_every_kernel_has_a_direct_test() -> None:
    called = {
        node.func.id
        for file in DIRECT
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert len(kernels()) > 50
    assert sorted(kernels() - called - {"doubled32", "doubled64"}) == [], "those two are called in a loop over both"
