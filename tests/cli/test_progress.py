"""What takes long says what it is at, how far it is, and how fast."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tocsin.cli import progress

if TYPE_CHECKING:
    from cli.conftest import Run, WriteLines


def test_a_line_has_the_count_the_rate_and_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 14.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(times))
    running = progress.Stage("reading", "rows", 8_000, lambda: "5 bad")
    running(2_000)
    assert running.line() == "reading: 2,000 of 8,000 rows, 500 rows/s, 5 bad, 4.0 s"


def test_every_long_stage_is_told(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriptions = write_lines("s.jsonl", [{"id": "a", "where": "price > 1"}, {"id": "b", "where": "price > 2"}])
    fewer = write_lines("f.jsonl", [{"id": "a", "where": "price > 1"}])
    queries = write_lines("q.jsonl", [{"id": "q", "query": {"term": {"price": 2}}}])
    events, index = write_lines("e.jsonl", [{"id": 1, "price": 5}]), tmp_path / "index"
    reading = ["reading subscriptions: 2 rows", "indexing: 2 of 2 subscriptions"]
    cases: list[tuple[list[object], list[str]]] = [
        (["index", "build", subscriptions, "--output", index], [*reading, "writing the index"]),
        (["index", "add", index, subscriptions], [*reading, "writing the index"]),
        (["index", "compact", index], ["merging: 2 of 2 subscriptions", "writing the index"]),
        (["index", "verify", index], ["comparing checksums: "]),
        (["index", "info", index], ["reading the index"]),
        (["index", "plan", index], ["reading the index"]),
        (["index", "export", index, tmp_path / "out.csv"], ["reading the index: 2", "writing the file: 2"]),
        (["match", "--subscriptions", subscriptions, "--events", events], reading),
        (["backtest", "--before", subscriptions, "--after", fewer, "--events", events], ["matching: 1 events"]),
        (
            ["check", subscriptions, "--events", events],
            [*reading, "reading events: 1", "comparing with the events: 2 of 2"],
        ),
        (["import", "percolator", queries, "--output", tmp_path / "q.csv"], ["translating"]),
    ]
    monkeypatch.setattr(progress, "TOLD_FROM", 0.0)
    for arguments, stages in cases:
        answer = run(*arguments)
        assert answer.code == 0, answer.err
        places = [answer.err.find(stage) for stage in stages]
        assert min(places) >= 0, (arguments, answer.err)
        assert places == sorted(places)
    quiet = run("match", "--subscriptions", subscriptions, "--events", events, "--quiet")
    assert (quiet.code, quiet.err) == (0, "")
