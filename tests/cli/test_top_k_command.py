"""tocsin top-k: the best subscriptions of each event, from every format, with what could not be read reported."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

if TYPE_CHECKING:
    from cli.conftest import Answer, Run, WriteLines

SUBSCRIPTIONS: list[dict[str, Any]] = [
    {"id": "low", "where": "price < 10", "score": 1.0},
    {"id": "smith", "where": "author = 'Smith' AND price < 20", "score": 3.0, "weights": {"author": 0.5}},
    {"id": "new", "where": "day > DATE '2026-01-01' AND price > 0", "score": 2.0},
]
EVENTS: list[dict[str, Any]] = [
    {"id": "e1", "author": "Smith", "price": 5, "day": "2026-02-01"},
    {"id": "e2", "author": "Jones", "price": 15, "day": "2025-02-01"},
    {"id": "e3", "author": "Smith", "price": 50, "day": "2025-02-01"},
]
EXACT = [("e1", "smith", 3.0), ("e1", "new", 2.0)]
RELAXED = [
    ("e1", "new", 2.0),
    ("e1", "smith", 1.5),
    ("e2", "new", 1.0),
    ("e2", "smith", 1.0),
    ("e3", "new", 1.0),
    ("e3", "smith", 0.5),
]


def rows(answer: "Answer") -> list[tuple[Any, ...]]:
    return [tuple(json.loads(line).values()) for line in answer.out.splitlines()]


@pytest.mark.parametrize(("mode", "expected"), [("exact", EXACT), ("relaxed", RELAXED)])
def test_json_lines(run: "Run", write_lines: "WriteLines", mode: str, expected: list[tuple[str, str, float]]) -> None:
    subscriptions, events = write_lines("s.jsonl", SUBSCRIPTIONS), write_lines("e.jsonl", EVENTS)
    answer = run("top-k", "--subscriptions", subscriptions, "--events", events, "-k", 2, "--mode", mode)
    assert (answer.code, rows(answer)) == (0, expected)
    assert "│ matches" in answer.err


def test_scores_of_the_event_and_a_ranked_index(run: "Run", write_lines: "WriteLines") -> None:
    subscriptions, events = write_lines("s.jsonl", SUBSCRIPTIONS), write_lines("e.jsonl", EVENTS)
    files = ("top-k", "--subscriptions", subscriptions, "--events", events, "-k", 2)
    answer = run(*files, "--score-by", "score * event.price")
    assert (answer.code, rows(answer)) == (0, [("e1", "smith", 15.0), ("e1", "new", 10.0)])
    answer = run(*files, "--mode", "relaxed", "--ranked-index", "ir-tree")
    assert (answer.code, rows(answer)) == (0, RELAXED)
    assert "ranked index" in run(*files, "--ranked-index", "tree").err


def test_an_index_and_csv(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    subscriptions = write_lines("s.jsonl", SUBSCRIPTIONS)
    index = tmp_path / "index"
    assert run("index", "build", subscriptions, "--output", index).code == 0
    events = tmp_path / "e.csv"
    events.write_text("id,author,price,day\ne1,Smith,5,2026-02-01\ne2,Jones,cheap,\ne3,Smith\n")
    answer = run("top-k", "--index", index, "--events", events, "-k", "2")
    assert (answer.code, rows(answer)) == (1, EXACT)
    assert "1 malformed line in e.csv" in " ".join(answer.err.split())


def test_parquet_and_another_name(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    events = tmp_path / "e.parquet"
    parquet.write_table(pa.table({"isbn": [7, 8], "price": [5.0, 50.0]}), events)
    subscriptions = write_lines("s.jsonl", SUBSCRIPTIONS[:2])
    answer = run("top-k", "--subscriptions", subscriptions, "--events", events, "--id", "isbn")
    assert (answer.code, rows(answer)) == (0, [(7, "low", 1.0)])


def test_what_python_cannot_hold_sinks_no_event(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    """A year beyond those of Python has its place in time; a file of nothing but malformed rows is read to its end."""
    events = tmp_path / "e.parquet"
    texts = pa.array(["Smith", "Jones"])
    days = pa.array([4_000_000, 0], pa.int32()).cast(pa.date32())
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), texts)
    table = pa.table({"id": [1, 2], "author": texts, "day": days, "price": [5.0, 5.0], "authors": lists})
    parquet.write_table(table, events)
    listed = {"id": "listed", "where": "array_contains(authors, 'Smith')"}
    subscriptions = write_lines("s.jsonl", [*SUBSCRIPTIONS, listed])
    answer = run("top-k", "--subscriptions", subscriptions, "--events", events, "-k", 4)
    expected = [(1, "smith", 3.0), (1, "new", 2.0), (1, "listed", 1.0), (1, "low", 1.0), (2, "low", 1.0)]
    assert (answer.code, rows(answer)) == (0, expected)
    malformed = pa.array([b"\xff", b"\xfe"]).view(pa.string())
    parquet.write_table(pa.table({"id": [1, 2], "author": malformed, "price": [5.0, 5.0]}), events)
    answer = run("top-k", "--subscriptions", subscriptions, "--events", events)
    assert (answer.code, rows(answer)) == (1, [])


def test_intervals_overlap_or_are_contained(run: "Run", write_lines: "WriteLines") -> None:
    subscriptions = write_lines("s.jsonl", SUBSCRIPTIONS[:1])
    events = write_lines("e.jsonl", [{"id": i, "price": price} for i, price in enumerate(([9, 12], [10, 12], [1, 2]))])
    asked = ["top-k", "--subscriptions", subscriptions, "--events", events]
    assert rows(run(*asked)) == [(0, "low", 1.0), (2, "low", 1.0)]
    assert rows(run(*asked, "--interval", "within")) == [(2, "low", 1.0)]


@pytest.mark.parametrize(
    ("score_by", "expected"),
    [
        ("max", [("e1", "low", 1.0), ("e2", "new", 1.0), ("e3", "new", 1.0)]),
        ("price=0.25,author=4", [("e1", "smith", 2.25), ("e2", "new", 0.25), ("e3", "smith", 2.0)]),
    ],
)
def test_weights_are_combined_as_asked(
    run: "Run", write_lines: "WriteLines", score_by: str, expected: list[tuple[str, str, float]]
) -> None:
    subscriptions, events = write_lines("s.jsonl", SUBSCRIPTIONS), write_lines("e.jsonl", EVENTS)
    asked = ["top-k", "--subscriptions", subscriptions, "--events", events, "-k", 1, "--mode", "relaxed"]
    assert rows(run(*asked, "--score-by", score_by)) == expected


def test_what_cannot_be_read_is_reported(run: "Run", write_lines: "WriteLines") -> None:
    subscriptions = write_lines("s.jsonl", [*SUBSCRIPTIONS, {"id": "broken", "where": "price <"}])
    events = write_lines("e.jsonl", [EVENTS[0], "[1", "7", ""])
    answer = run("top-k", "--subscriptions", subscriptions, "--events", events, "-k", 2)
    assert (answer.code, rows(answer)) == (1, EXACT)
    assert "broken" in answer.err
    assert "2 malformed lines in e.jsonl" in " ".join(answer.err.split())


def test_malformed_text_is_reported_and_the_rest_ranked(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    subscriptions = write_lines("s.jsonl", SUBSCRIPTIONS[:1])
    json_lines, csv, table = (tmp_path / f"e.{format_}" for format_ in ("jsonl", "csv", "parquet"))
    json_lines.write_bytes(b"""{"id": "a", "price": 5}
{"id": "caf\xe9", "price": 5}
{"id": "b", "price": 5, "author": ["\\ud800"]}
{"id": "caf\xc3\xa9", "price": 5, "author": "\\ud83d\\ude00"}
""")
    csv.write_bytes(b"id,price\na,5\ncaf\xe9,5\n\xff,5\ncaf\xc3\xa9,5\n")
    names = pa.StringArray.from_buffers(
        4, pa.array([0, 1, 2, 3, 8], pa.int32()).buffers()[1], pa.py_buffer(b"a\xe9\xffcaf\xc3\xa9")
    )
    parquet.write_table(pa.table({"id": names, "price": [5, 5, 5, 5]}), table)
    for events in (json_lines, csv, table):
        answer = run("top-k", "--subscriptions", subscriptions, "--events", events)
        assert (answer.code, rows(answer)) == (1, [("a", "low", 1.0), ("café", "low", 1.0)])
        assert f"2 malformed lines in {events.name}" in " ".join(answer.err.split())


def test_subscriptions_that_look_back_see_the_events_before(
    run: "Run", write_lines: "WriteLines", tmp_path: Path
) -> None:
    record = {"id": "[/record]", "where": "price > ALL (SELECT price FROM history)"}
    index, events = tmp_path / "index", write_lines("e.jsonl", EVENTS)
    subscriptions = write_lines("s.jsonl", [record])
    assert run("index", "build", subscriptions, "--output", index).code == 0
    for source in (["--subscriptions", subscriptions], ["--index", index]):
        answer = run("top-k", *source, "--events", events)
        assert (answer.code, rows(answer)) == (0, [(id, "[/record]", 1.0) for id in ("e1", "e2", "e3")])
        assert "1 subscription looks back: events count in the order of the files" in answer.err
        by_day = run("top-k", *source, "--events", events, "--order", "day")
        assert [id for id, _, _ in rows(by_day)] == ["e2", "e3"], "e1 is the last, and cheap"


def test_what_does_not_run(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    subscriptions, events = write_lines("s.jsonl", SUBSCRIPTIONS), write_lines("e.jsonl", EVENTS)
    cases = [
        (["--events", events], "twice or not at all"),
        (
            ["--events", events, "--subscriptions", subscriptions, "--index", tmp_path],
            "twice or not at all",
        ),
        (["--events", tmp_path / "no.jsonl", "--subscriptions", subscriptions], "there is no file"),
        (["--events", write_lines("e.txt", EVENTS), "--subscriptions", subscriptions], "cannot be told"),
        (["--events", events, "--subscriptions", subscriptions, "--id", "isbn"], "author, day, id, price"),
        (["--events", events, "--subscriptions", subscriptions, "--score-by", "price=dear"], "is not a coefficient"),
        (["--events", events, "--subscriptions", subscriptions, "--score-by", "max"], "no meaning for mode 'exact'"),
    ]
    for arguments, said in cases:
        answer = run("top-k", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err.replace("\n", " ")
