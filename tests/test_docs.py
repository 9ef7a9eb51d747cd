"""The documents are honest: examples run, and every export, operator, command and option is named."""

import ast
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

from tocsin import cli
from tocsin.bench.page import page
from tocsin.bench.rivals_chart import rivals_chart
from tocsin.cli import bench
from tocsin.model.condition import Op

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
OPERATORS = [
    *(op.value for op in Op),
    *("!=", "BETWEEN", "IN", "IS NULL", "IS NOT NULL", "LIKE", "ESCAPE", "ILIKE", "AND", "OR", "NOT", "IS TRUE"),
    *("IS NOT TRUE", "array_contains", "has_words", "has_phrase", "xpath_exists", "ANY", "ALL", "EXISTS"),
    *("NOT EXISTS", "DATE", "TIMESTAMP"),
]


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_holds_a_merge_conflict(path: Path) -> None:
    assert not re.search(r"^(<<<<<<<|=======|>>>>>>>)", path.read_text(encoding="utf-8"), re.MULTILINE)


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(document), re.MULTILINE | re.DOTALL)


class Checked(ast.NodeTransformer):
    """Turns each expression that ends with a literal as its comment into an assertion that it has this value."""

    def __init__(self, source: str) -> None:
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        self.said = {token.end[0]: token.string[1:].strip() for token in tokens if token.type == tokenize.COMMENT}
        self.count = 0

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        said = self.said.get(node.end_lineno or 0)
        if said is None:
            return node
        self.count += 1
        expected = ast.parse(repr(ast.literal_eval(said)), mode="eval").body
        test = ast.Compare(node.value, [ast.Eq()], [expected])
        message = ast.Constant(f"{ast.unparse(node)} is not {said}")
        return ast.fix_missing_locations(ast.copy_location(ast.Assert(test, message), node))


def run_example(source: str, names: dict[str, object]) -> int:
    """Run an example and check what its comments say; return how many checks there were."""
    checked = Checked(source)
    tree = checked.visit(ast.parse(source))
    exec(compile(tree, "example", "exec"), names)
    return checked.count


def test_an_example_that_lies_is_found() -> None:
    assert run_example("x = [1]\nx + [2]  # [1, 2]\nlen(x)\nfor y in x:\n    y  # 1\n", {}) == 2
    with pytest.raises(AssertionError, match=r"len\(x\) is not 2"):
        run_example("x = [1]\nlen(x)  # 2", {})


@pytest.mark.parametrize(
    ("document", "checks"),
    [
        ("README.md", 15),
        ("docs/index.md", 2),
        ("docs/ranking.md", 10),
        ("docs/spark.md", 22),
        ("docs/recipes.md", 7),
        ("docs/tutorials/ads.md", 7),
        ("docs/tutorials/classifieds.md", 7),
        ("docs/tutorials/security.md", 5),
        ("docs/tutorials/xml-routing.md", 5),
    ],
)
def test_python_examples_run(
    document: str, checks: int, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"spark": spark}
    assert sum(run_example(source, names) for source in blocks(document, "python")) == checks


@pytest.mark.usefixtures("spark")
def test_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in re.findall(r"`(\S+\.jsonl)`:\n\n```json\n(.*?)```", text_of("README.md"), re.DOTALL):
        Path(name).write_text(content)
    commands = [line for block in blocks("README.md", "sh") for line in block.splitlines() if line[:7] == "tocsin "]
    commands = [command for command in commands if not command.startswith("tocsin warm")]  # has tests of its own
    assert len(commands) == 5
    for command in commands:
        assert cli.main(shlex.split(command)[1:]) == 0, command


@pytest.mark.parametrize("module", ["tocsin", "tocsin.spark"])
def test_every_export_is_documented(module: str) -> None:
    documents = " ".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    exports = importlib.import_module(module).__all__
    assert exports
    assert [name for name in exports if not re.search(rf"\b{name}\b", documents)] == []


def test_every_operator_is_documented() -> None:
    language = re.sub(r"\[NOT\]", "NOT", text_of("docs/language.md")) + re.sub(
        r"\[NOT\] ", "", text_of("docs/language.md")
    )
    assert [operator for operator in OPERATORS if operator not in language] == []


def test_every_command_and_option_is_documented() -> None:
    commands = text_of("docs/commands.md")
    group = typer.main.get_command(cli.app)
    missing = []
    for name, command in group.commands.items():  # type: ignore[attr-defined]  # a group has commands
        if f"## `tocsin {name}" not in commands:
            missing.append(name)
        section = commands.partition(f"## `tocsin {name}")[2].partition("\n## ")[0]
        if "(#options-of-the-matcher)" in section:
            section += commands.partition("## Options of the matcher")[2].partition("\n## ")[0]
        options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
        missing += [f"{name} {option}" for option in options if option != "--help" and f"`{option}`" not in section]
    assert missing == []


def test_every_benchmark_is_named_in_the_documents() -> None:
    documents = " ".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    assert [name for name in bench.benchmarks() if f"bench {name}" not in documents] == []


def test_the_page_and_the_chart_of_figures_are_those_of_the_reports() -> None:
    assert text_of("docs/performance.md") == page(ROOT / "docs" / "performance")
    assert text_of("docs/pictures/rivals.svg") == rivals_chart(ROOT / "docs" / "performance")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        mkdocs, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "reference" / "index.html").exists()
