"""check, explain, help and usage errors."""

import itertools
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException

from tocsin import Matcher, cli

if TYPE_CHECKING:
    from cli.conftest import Run, WriteLines


@pytest.mark.parametrize("command", ["match", "check", "explain", "demo", "bench"])
def test_every_command_has_help(run: "Run", command: str) -> None:
    answer = run(command, "--help")
    assert answer.code == 0
    assert f"{command} [OPTIONS]" in answer.out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from tocsin.cli import main; main(['--help']); "
        "heavy = {'pyspark', 'pandas', 'duckdb', 'polars', 'matplotlib'}; "
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or None)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["frobnicate"], "No such command 'frobnicate'. See tocsin --help"),
        (["mtach"], "No such command 'mtach'. Did you mean 'match'? See tocsin --help"),
        (["check"], ". See tocsin check --help"),
        (["match", "--where", "x = 1"], "Missing option '--events'. See tocsin match --help"),
        (["match", "--frobnicate"], "No such option: --frobnicate"),
        (
            ["match", "--where", "x = 1", "--events", "e.jsonl", "--format", "xml"],
            "'xml' is not one of 'table', 'jsonl'",
        ),
        (["match", "--where", "x = 1", "--events", "e.jsonl", "--top-k", "few"], "Invalid value for '--top-k'"),
        (["demo", "--events", "0"], "Invalid value for '--events'"),
        (["index", "frobnicate"], "No such command 'frobnicate'. See tocsin index --help"),
    ],
)
def test_options_that_cannot_be_read_are_told_in_one_line(run: "Run", arguments: list[str], complaint: str) -> None:
    answer = run(*arguments)
    assert (answer.code, answer.out, len(answer.err.splitlines())) == (2, "", 1), answer.err
    assert answer.err.startswith("error: ")
    assert complaint in answer.err


def test_an_error_of_spark_is_told_in_one_line(run: "Run", monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        error = PySparkException(
            "[STREAM_FAILED] ended\nTraceback (most recent call last):\nOSError: [Errno 28] full\nPlan"
        )
        error.add_note("What Spark wrote is in s.log")
        raise error

    monkeypatch.setattr(cli, "app", fail)
    answer = run("match")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "error: Spark failed: OSError: [Errno 28] full. What Spark wrote is in s.log\n"


@pytest.mark.parametrize("arguments", [[], ["index"]])
def test_without_a_command_there_is_help(run: "Run", arguments: list[str]) -> None:
    answer = run(*arguments)
    assert answer.code == 2
    assert "Usage: tocsin" in answer.out + answer.err


def test_check_of_a_clean_file(run: "Run", write_lines: "WriteLines") -> None:
    file = write_lines("s.jsonl", [{"id": "a", "where": "x = 1"}, {"id": "b", "where": "y LIKE 'z%'"}])
    answer = run("check", file)
    assert (answer.code, answer.out) == (0, "2 subscriptions, all well\n")


def test_check_reports_all_errors_in_one_table(run: "Run", write_lines: "WriteLines") -> None:
    wheres = {
        "good": "x = 1",
        "function": "frobnicate(x)",
        "aggregate": "sum(x) > 3",
        "subquery": "x IN (SELECT y FROM orders)",
        "type": "has_words(body, 5)",
        "empty": "  ",
        "quotes": "name = 'Smith",
        "markup": "[bold]x[/bold] = 1",
    }
    file = write_lines("s.jsonl", [*({"id": id_, "where": where} for id_, where in wheres.items()), "no JSON"])
    answer = run("check", file)
    assert answer.code == 1
    assert f"{len(wheres)} rejected subscriptions" in answer.out
    for id_ in [*wheres, "line 9"]:
        assert (f"│ {id_} " in answer.out) == (id_ != "good")


@pytest.mark.parametrize("format_", ["jsonl", "csv", "parquet"])
def test_malformed_text_does_not_sink_the_others(run: "Run", tmp_path: Path, format_: str) -> None:
    wheres = {"first": b"x = 1", "cafe": b"x = 'caf\xe9'", "last": b"x = 2"}
    file = tmp_path / f"s.{format_}"
    if format_ == "parquet":
        offsets = pa.array([0, *itertools.accumulate(map(len, wheres.values()))], pa.int32())
        data = pa.py_buffer(b"".join(wheres.values()))
        texts = pa.StringArray.from_buffers(len(wheres), offsets.buffers()[1], data)
        parquet.write_table(pa.table({"id": list(wheres), "where": texts}), file)
    elif format_ == "csv":
        file.write_bytes(b"id,where\n" + b"".join(id_.encode() + b"," + where + b"\n" for id_, where in wheres.items()))
    else:
        lines = [b'{"id": "%s", "where": "%s"}\n' % (id_.encode(), where) for id_, where in wheres.items()]
        file.write_bytes(b"".join(lines))
    answer = run("check", file)
    assert answer.code == 1
    assert "1 rejected subscription" in answer.out
    assert "│ cafe " in answer.out
    answer = run("index", "build", file, "--output", tmp_path / "index")
    assert answer.code == 1
    assert list(Matcher.open(tmp_path / "index")) == ["first", "last"]


def test_half_a_surrogate_pair_does_not_sink_the_others(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    first, last = ({"id": id_, "where": "x = 1"} for id_ in ("first", "last"))
    halves = ['{"id": "half", "where": "x = \'\\ud800\'"}', '{"id": "\\ud800"}']
    file = write_lines("s.jsonl", [first, *halves, last])
    answer = run("check", file)
    assert answer.code == 1
    assert "2 rejected subscriptions" in answer.out
    assert "│ half " in answer.out
    assert "│ line 3 " in answer.out
    assert run("index", "build", file, "--output", tmp_path / "index").code == 1
    assert list(Matcher.open(tmp_path / "index")) == ["first", "last"]


def test_a_missing_file_exits_2_with_the_way_out(run: "Run") -> None:
    answer = run("check", "nowhere.jsonl")
    assert answer.code == 2
    assert answer.err.startswith("error: there is no file nowhere.jsonl. Give the subscriptions as")


@pytest.fixture
def subscriptions(write_lines: "WriteLines") -> str:
    wheres = {"smith": "author = 'Smith' AND price < 30 AND sold >= DATE '2026-01-01'", "broken": "price <"}
    return str(write_lines("s.jsonl", [{"id": id_, "where": where} for id_, where in wheres.items()]))


def test_explain_shows_what_held_and_what_failed(run: "Run", subscriptions: str) -> None:
    event = '{"author": "Smith", "price": 40, "sold": "2026-02-03"}'
    answer = run("explain", "smith", "--subscriptions", subscriptions, "--event", event)
    assert answer.code == 0
    for word in ("author", "price", "sold"):
        assert word in answer.out
    matching = run("explain", "smith", "--subscriptions", subscriptions, "--event", event.replace("40", "20"))
    assert matching.out != answer.out


def test_explain_says_that_the_history_is_empty(run: "Run", write_lines: "WriteLines") -> None:
    wheres = {"record": "price > ALL (SELECT price FROM history)", "plain": "price > 1"}
    file = write_lines("s.jsonl", [{"id": id_, "where": where} for id_, where in wheres.items()])
    said = "the history is empty"
    for id_, looks_back in (("record", True), ("plain", False)):
        answer = run("explain", id_, "--subscriptions", file, "--event", '{"price": 5}')
        assert (answer.code, said in answer.out) == (0, looks_back)


@pytest.mark.parametrize(
    ("subscription", "event", "complaint"),
    [
        ("smith", "{", "the event is not JSON"),
        ("smith", "[1]", "not a JSON object"),
        ("smith", '{"author": "\\ud800"}', "half a surrogate pair"),
        ("smiht", "{}", "there is no subscription 'smiht'. There are smith"),
        ("broken", "{}", "subscription 'broken'"),
    ],
)
def test_explain_names_what_is_wrong(
    run: "Run", subscriptions: str, subscription: str, event: str, complaint: str
) -> None:
    answer = run("explain", subscription, "--subscriptions", subscriptions, "--event", event)
    assert answer.code == 2
    assert complaint in answer.err


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        (["--schema", "id wrong"], "'id wrong' is not a column and its type"),
        (["--output", "file/m"], "cannot write file/m"),
        (["--output", "/proc/m"], "cannot write /proc/m"),
        (["--checkpoint", "file/c"], "cannot write file/c"),
        (["--index", "nowhere"], "there is no folder nowhere"),
        (
            ["--schema", "id long, price double", "--keep", "isbn"],
            "no column 'isbn'. Choose with --keep from id, price",
        ),
        (["--id", "isbn"], "no column 'isbn'. Choose with --id from id, price"),
        (["--order", "isbn"], "no column 'isbn'. Choose with --order from id, price"),
        (["--inbox-tag", "user", "--dedupe", "subscription, isbn"], "the matches have no column 'isbn'"),
        (["--inbox-tag", "user", "--dedupe", "subscription, id"], "score; id is called event there"),
        (["--keep", "id"], "the matches have 'id' already: it is called event. Leave out --keep id"),
        (["--digest"], "--dedupe and --digest are for inboxes"),
    ],
)
def test_a_stream_that_cannot_be_is_refused_before_spark_starts(
    tmp_path: Path, extra: list[str], complaint: str
) -> None:
    with Matcher() as matcher:
        matcher.save(tmp_path / "index")
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.jsonl").write_text('{"id": 1, "price": 2}')
    (tmp_path / "file").touch()
    code = (
        "import sys; from tocsin.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(9 if 'pyspark' in sys.modules else code)"
    )
    arguments = ["stream", "--index", "index", "--events", "events", "--output", "m", "--checkpoint", "c", *extra]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert complaint in done.stderr


def test_explain_tells_a_text_that_is_no_number_from_a_missing_one(run: "Run") -> None:
    answer = run("explain", "--where", "a > 3 AND b.c = 4", "--event", '{"b": {"c": "four"}}')
    assert answer.code == 0
    assert "(b.c is 'four', not of the kind it is compared with: it counts as NULL)" in answer.out
    assert "(a is missing)" in answer.out
    assert answer.out.count("four") == 1
