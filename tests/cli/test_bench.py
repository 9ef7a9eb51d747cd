"""`tocsin bench`: options from the signature of `run`, one JSON shape, an exit code for disagreements."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tocsin.bench.runner import Figure, Report, Result
from tocsin.cli import bench

if TYPE_CHECKING:
    from cli.conftest import Run


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark named `toy-bench`, as if it were a module of `tocsin.bench`."""

    def run(*, subscriptions: int = 10, quick: bool = False, dump: Path | None = None, lie: bool = False) -> Report:
        """Measure a toy."""
        report = Report("toy", {"subscriptions": subscriptions, "quick": quick, "dump": str(dump)})
        report.results = [Result("tocsin", matches=3), Result("rival", matches=4 if lie else 3)]
        report.figures = [Figure("curve", "Toy", "x", "y", {"tocsin": [(1, 2), (2, 3)]})]
        report.expect_equal_matches()
        return report

    module = ModuleType("tocsin.bench.toy_bench")
    module.run = run  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, "tocsin.bench.toy_bench", module)
    monkeypatch.setattr(bench.app, "registered_commands", list(bench.app.registered_commands))
    bench._register("toy-bench", "A toy.")


def test_json_and_nothing_else_goes_to_standard_output(run: "Run") -> None:
    answer = run("bench", "toy-bench", "--json", "--subscriptions", 7, "--quick", "--dump", "folder")
    assert answer.code == 0
    document = json.loads(answer.out)
    assert document["workload"] == "toy"
    assert document["parameters"] == {"subscriptions": 7, "quick": True, "dump": "folder"}
    assert [result["engine"] for result in document["results"]] == ["tocsin", "rival"]


def test_a_table_without_json(run: "Run") -> None:
    answer = run("bench", "toy-bench")
    assert answer.code == 0
    assert "│ rival  │       3 │" in answer.out


def test_engines_that_disagree_exit_1_also_with_json(run: "Run") -> None:
    answer = run("bench", "toy-bench", "--lie", "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["disagreements"]
    assert "engines disagree" in answer.err


def test_a_figure_that_the_paper_does_not_have(run: "Run") -> None:
    answer = run("bench", "gpx", "--figure", 2, "--figure", 7)
    assert answer.code == 2
    assert "no experiment in Figure 7. Choose from 2 to 6." in answer.err


def test_output_writes_the_report_and_the_figures(run: "Run", tmp_path: Path) -> None:
    answer = run("bench", "toy-bench", "--json", "--output", tmp_path / "results")
    assert answer.code == 0
    assert sorted(file.name for file in (tmp_path / "results").iterdir()) == ["curve.csv", "curve.svg", "toy.json"]
    assert "curve.svg" in answer.err


def test_the_reports_of_a_folder_become_a_page(run: "Run", tmp_path: Path) -> None:
    toy, other = Report("toy", {"most_events": 5_000}), Report("other", {})
    toy.results = [Result("tocsin", events_per_s=12_345.6, extra={"p|q": 0.5}), Result("rival")]
    toy.claim("faster", "at least 2", "3.1", True)
    other.claim("smaller", "at most 1", "1.5", False)
    other.disagreements = ["match counts differ"]
    for report in (toy, other):
        report.write(tmp_path)
    answer = run("bench", "report", tmp_path)
    assert answer.code == 0
    _, missed, met, measured = answer.out.split("\n## ")
    assert missed.splitlines()[0] == "Goals that are not met: 1 of 2"
    assert missed.splitlines()[-2] == "| smaller | at most 1 | 1.5 | - |"
    assert met.splitlines()[0] == "Goals that are met: 1 of 2"
    assert met.splitlines()[-2] == "| faster | at least 2 | 3.1 |"
    _, first, second = measured.split("\n### ")
    assert first.splitlines()[0] == "other"
    assert first.endswith("**Engines disagree:** match counts differ\n")
    assert second.splitlines() == [
        "toy",
        "",
        "most events 5,000.",
        "",
        "| engine | events per s | p\\|q |",
        "| --- | ---: | ---: |",
        "| tocsin | 12,346 | 0.5 |",
        "| rival | - | - |",
    ]


def test_a_wide_table_of_figures_is_told_row_by_row(run: "Run", tmp_path: Path) -> None:
    toy = Report("toy", {})
    toy.results = [Result("tocsin", events_per_s=5.0, extra=dict.fromkeys("abcdef", 1)), Result("rival", build_s=2.0)]
    toy.write(tmp_path)
    page = run("bench", "report", tmp_path).out
    assert page.endswith("| tocsin | events per s 5, a 1, b 1, c 1, d 1, e 1, f 1 |\n| rival | build s 2 |\n")


def test_a_folder_without_reports_is_named(run: "Run", tmp_path: Path) -> None:
    answer = run("bench", "report", tmp_path)
    assert answer.code == 2
    assert "has no reports" in answer.err


def test_help_of_a_benchmark_shows_its_options(run: "Run") -> None:
    answer = run("bench", "toy-bench", "--help")
    assert answer.code == 0
    for option in ("--subscriptions", "--quick", "--dump", "--json", "--output", "Measure a toy"):
        assert option in answer.out


def test_an_unknown_option_exits_2(run: "Run") -> None:
    assert run("bench", "toy-bench", "--frobnicate").code == 2


def test_every_benchmark_can_become_a_command() -> None:
    names = bench.benchmarks()
    assert "runner" not in names
    for name, summary in names.items():
        assert summary
        assert callable(bench.command_of(name))
