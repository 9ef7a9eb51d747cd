"""`tocsin backtest`: files in, changes out, here and on Spark."""

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cli.conftest import Run, WriteLines

EVENTS = [{"id": f"e{n}", "n": n, "day": f"2026-05-0{1 + n // 5}"} for n in range(10)]
BEFORE = [{"id": "low", "where": "n < 3"}, {"id": "same", "where": "n > 1"}]
AFTER = [{"id": "low", "where": "n < 6"}, {"id": "same", "where": "1 < n"}]
CHANGES = [
    {"event": f"e{n}", "subscription": "low", "change": "gained", "day": f"2026-05-0{1 + n // 5}"} for n in (3, 4, 5)
]


def test_changes_summary_plot_and_report(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    sides = "--before", write_lines("b.jsonl", BEFORE), "--after", write_lines("a.jsonl", AFTER)
    command = ["backtest", "--events", write_lines("e.jsonl", EVENTS), *sides, "--id", "id", "--time", "day"]
    answer = run(*command, "--summary", tmp_path / "summary.csv", "--svg", tmp_path / "plot.svg")
    assert (answer.code, [json.loads(line) for line in answer.out.splitlines()]) == (0, CHANGES)
    assert "2026-05-01" in answer.err
    assert "bytes skipped" in answer.err
    assert list(csv.reader((tmp_path / "summary.csv").read_text().splitlines())) == [
        ["subscription", "day", "gained", "lost"],
        ["low", "2026-05-01", "2", "0"],
        ["low", "2026-05-02", "1", "0"],
    ]
    assert (tmp_path / "plot.svg").read_text().count("<rect") == 2
    report = run(*command, "--json", "--output", tmp_path / "out.parquet")
    assert {name: json.loads(report.out)[name] for name in ("subscriptions", "gained", "lost", "events")} == {
        "subscriptions": 1,
        "gained": 3,
        "lost": 0,
        "events": 10,
    }
    assert len(parquet.read_table(tmp_path / "out.parquet")) == 3
    assert run(*command, "--quiet", "--output", tmp_path / "out.parquet").code == 2, "it exists"
    assert run(*command, "--quiet", "--output", tmp_path / "out.parquet", "--overwrite").code == 0


def test_bad_subscriptions_are_reported(run: "Run", write_lines: "WriteLines") -> None:
    events, before = write_lines("e.jsonl", EVENTS), write_lines("b.jsonl", BEFORE)
    after = write_lines("a.jsonl", [*AFTER, {"id": "bad", "where": "n <"}])
    answer = run("backtest", "--events", events, "--before", before, "--after", after)
    assert (answer.code, len(answer.out.splitlines())) == (1, 3)
    assert "bad" in answer.err


@pytest.mark.usefixtures("spark")
def test_on_spark(run: "Run", write_lines: "WriteLines", tmp_path: Path, spark: "SparkSession") -> None:
    sides = ["--before", write_lines("b.jsonl", BEFORE), "--after", write_lines("a.jsonl", AFTER)]
    parquet.write_table(pa.Table.from_pylist(EVENTS), tmp_path / "e.parquet")
    lines = write_lines("e.jsonl", EVENTS)
    for number, events in enumerate((tmp_path / "e.parquet", lines)):
        out = tmp_path / f"out{number}"
        answer = run(
            "backtest", "--spark", "--events", events, *sides, "--id", "id", "--time", "day", "--output", out, "--json"
        )
        assert answer.code == 0, answer.err
        report = json.loads(answer.out)
        assert (report["events"], report["gained"], report["lost"]) == (10, 3, 0)
        found = spark.read.parquet(str(out)).orderBy("event").collect()
        assert [{**row.asDict(), "day": str(row.day)} for row in found] == CHANGES
    assert "--output" in run("backtest", "--spark", "--events", lines, *sides, "--id", "id").err
    assert "--id" in run("backtest", "--spark", "--events", lines, *sides, "--output", tmp_path / "no").err
