"""`tocsin match` and `tocsin demo`: the main job, here and on Spark, with what is malformed, refused, interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cli.conftest import Run, WriteLines

pytestmark = pytest.mark.usefixtures("spark")

SUBSCRIPTIONS: list[dict[str, object]] = [
    {"id": "cheap", "where": "price < 10", "score": 2},
    {"id": "late", "where": "sold >= TIMESTAMP '2026-03-02 12:00:00'"},
]
EVENTS: list[dict[str, object]] = [
    {"id": 1, "price": 5, "sold": "2026-03-01T00:00:00Z"},
    {"id": 2, "price": 50.5, "sold": "2026-03-02T14:00:00+02:00"},
]
MATCHES = {(1, "cheap", 2.0), (2, "late", 1.0)}


def matches(folder: Path) -> set[tuple[object, ...]]:
    return {tuple(row.values()) for row in parquet.read_table(folder).to_pylist()}


def arguments(subscriptions: Path, events: Path, output: Path, where: str = "--spark") -> list[object]:
    return ["match", "--subscriptions", subscriptions, "--events", events, "--output", output, where]


both_ways = pytest.mark.parametrize("where", ["--no-spark", "--spark"])


@both_ways
def test_997_of_1000_subscriptions_run_and_both_reports_are_clear(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, where: str
) -> None:
    broken = {17: "n = = 3", 500: "frobnicate(n)", 999: "name = 'open"}
    subscriptions = [{"id": f"s{n}", "where": broken.get(n, f"n = {n}")} for n in range(1000)]
    events: list[dict[str, object]] = [{"id": f"e{n}", "n": n} for n in range(0, 1000, 2)]
    lines: list[dict[str, object] | str] = [*events[:10], "this is no JSON", '{"id": "half", "n":', *events[10:]]
    output = tmp_path / "out"
    answer = run(*arguments(write_lines("s.jsonl", subscriptions), write_lines("e.jsonl", lines), output, where))
    assert answer.code == 1
    assert matches(output) == {(f"e{n}", f"s{n}", 1.0) for n in range(0, 1000, 2) if n not in broken}
    assert "3 rejected subscriptions" in answer.err
    for number in broken:
        assert f"│ s{number} " in answer.err
    assert "2 malformed lines" in answer.err
    assert "│   11 │ this is no JSON" in answer.err
    assert '│   12 │ {"id": "half", "n":' in answer.err
    figures = figures_of(answer.err)
    assert (figures["events"], figures["malformed lines"]) == ("500", "2")
    assert (figures["subscriptions"], figures["rejected subscriptions"]) == ("997", "3")
    assert figures["matches"] == "499"


@both_ways
def test_values_that_no_subscription_can_use_are_counted(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, where: str
) -> None:
    subscriptions = write_lines("s.jsonl", [{"id": "cheap", "where": "price < 10 OR price = 'free'"}])
    events = write_lines("e.jsonl", [{"id": n, "price": n % 2 == 0} for n in range(5)])
    answer = run(*arguments(subscriptions, events, tmp_path / "out", where))
    assert answer.code == 0
    figures = figures_of(answer.err)
    assert (figures["events"], figures["matches"]) == ("5", "0")
    assert figures["values of another type"] == "price (5)"
    assert "unreadable values" not in figures


def figures_of(text: str) -> dict[str, str]:
    """The rows of the tables with two columns."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    return {row[0]: row[1] for row in rows if len(row) == 2}


@both_ways
@pytest.mark.parametrize("format_", ["jsonl", "csv", "parquet"])
def test_every_format_of_events_and_subscriptions(
    run: "Run", spark: "SparkSession", tmp_path: Path, format_: str, where: str
) -> None:
    for name, rows in (("subscriptions", SUBSCRIPTIONS), ("events", EVENTS)):
        path = tmp_path / f"{name}.{format_}"
        if format_ == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif format_ == "csv":
            columns = list(rows[0])
            lines = [columns, *([str(row.get(column, "")) for column in columns] for row in rows)]
            path.write_text("".join(",".join(line) + "\n" for line in lines))
        elif name == "subscriptions":
            parquet.write_table(pa.Table.from_pylist(rows), path)
        else:
            frame = spark.createDataFrame(
                [(row["id"], float(str(row["price"])), row["sold"]) for row in rows], "id long, price double, at string"
            )
            frame.selectExpr("id", "price", "CAST(at AS timestamp) AS sold").write.parquet(str(path))
    answer = run(
        *arguments(tmp_path / f"subscriptions.{format_}", tmp_path / f"events.{format_}", tmp_path / "out", where)
    )
    assert answer.code == 0, answer.err
    assert matches(tmp_path / "out") == MATCHES


def test_json_lines_out_and_the_id_column_of_choice(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    events = write_lines("e.jsonl", [{"isbn": "x-1", "price": 5}, {"isbn": "x-2", "price": 15}])
    files = arguments(write_lines("s.jsonl", SUBSCRIPTIONS), events, tmp_path / "out")
    answer = run(*files, "--id", "isbn", "--format", "jsonl")
    assert answer.code == 0
    (part,) = (tmp_path / "out").glob("part-*.json")
    assert json.loads(part.read_text()) == {"event": "x-1", "subscription": "cheap", "score": 2.0}


@both_ways
def test_an_existing_output_is_refused_unless_overwritten(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, where: str
) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "precious").write_text("data")
    files = arguments(write_lines("s.jsonl", SUBSCRIPTIONS), write_lines("e.jsonl", EVENTS), output, where)
    refused = run(*files)
    assert refused.code == 2
    assert "--overwrite" in refused.err
    assert [file.name for file in output.iterdir()] == ["precious"]
    assert run(*files, "--overwrite").code == 0
    assert matches(output) == MATCHES


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        (["--id", "isbn"], "no column 'isbn'"),
        (["--events", "nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["--subscriptions", "nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["--master", "sc://somewhere"], "Spark Connect server"),
    ],
)
def test_what_does_not_run_exits_2_and_writes_nothing(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, extra: list[str], complaint: str
) -> None:
    files = arguments(write_lines("s.jsonl", SUBSCRIPTIONS), write_lines("e.jsonl", EVENTS), tmp_path / "out")
    answer = run(*files, *extra)
    assert answer.code == 2
    assert complaint in answer.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["e.jsonl", "s.jsonl"]


@both_ways
def test_a_line_that_is_not_utf_8_is_malformed(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, where: str
) -> None:
    events = tmp_path / "e.jsonl"
    events.write_bytes(b'{"id": 1, "price": 5}\n{"id": 2, "price": 5, "sold": "caf\xe9"}\n{"id": 3, "price": 5}\n')
    answer = run(*arguments(write_lines("s.jsonl", SUBSCRIPTIONS), events, tmp_path / "out", where))
    assert answer.code == 1
    assert "1 malformed line in e.jsonl" in " ".join(answer.err.split())
    assert "│    2 │" in answer.err
    assert matches(tmp_path / "out") == {(1, "cheap", 2.0), (3, "cheap", 2.0)}


def test_subscriptions_that_look_back_are_refused(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    """Tasks have no order, so that each event would be matched as if it were the first."""
    record = "price > ALL (SELECT price FROM history)"
    looking_back = [{"id": f"record {n}", "where": f"{record} AND n = {n}"} for n in range(5)]
    subscriptions = write_lines("s.jsonl", [*SUBSCRIPTIONS, *looking_back])
    answer = run(*arguments(subscriptions, write_lines("e.jsonl", EVENTS), tmp_path / "out"))
    assert answer.code == 2
    assert "error: 5 subscriptions look back" in answer.err
    assert "record 0, record 1, record 2, …" in answer.err
    assert "--order" in answer.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["e.jsonl", "s.jsonl"]


def test_ctrl_c_leaves_no_half_output(write_lines: "WriteLines", tmp_path: Path) -> None:
    """Interrupt a job of its own while its tasks write: exit code 130, the old output untouched, nothing left over."""
    subscriptions = write_lines("s.jsonl", [{"id": f"s{n}", "where": f"n >= {n}"} for n in range(500)])
    events = write_lines("e.jsonl", [{"id": n, "n": n % 1000} for n in range(200_000)])
    output = tmp_path / "out"
    output.mkdir()
    (output / "old").write_text("data")
    before = {file.name for file in tmp_path.iterdir()}
    start = [sys.executable, "-c", "import sys; from tocsin.cli import main; sys.exit(main())"]
    command = [*start, *map(str, arguments(subscriptions, events, output)), "--overwrite"]
    job = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(".out-*/new/_temporary/**/part-*")):
        assert job.poll() is None, job.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    job.send_signal(signal.SIGINT)
    errors = job.communicate(timeout=60)[1]
    assert job.returncode == 130, errors
    assert errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in errors
    assert [file.name for file in output.iterdir()] == ["old"]
    left = {file.name for file in tmp_path.iterdir()} - before
    assert not [name for name in left if name.startswith((".out", "tocsin"))]


def test_the_demo_shows_busy_subscriptions_explanations_and_throughput(run: "Run", tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    answer = run("demo", "--folder", folder, "--events", 300, "--subscriptions", 900)
    assert answer.code == 0, answer.err
    assert "busiest subscriptions" in answer.out
    assert answer.out.count(" rang for ") == 3
    assert "events/s" in answer.out
    found = matches(folder / "matches")
    assert len(found) > 20
    again = tmp_path / "again"
    assert run("demo", "--folder", again, "--events", 300, "--subscriptions", 900).code == 0
    assert matches(again / "matches") == found
