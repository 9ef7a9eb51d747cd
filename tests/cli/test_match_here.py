"""`tocsin match` in this process: every way in and out, and what a person gets wrong."""

import bz2
import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tocsin import Matcher

if TYPE_CHECKING:
    from cli.conftest import Answer, Run, WriteLines

EVENTS: list[dict[str, Any]] = [
    {"id": "a", "price": 5, "shop": "north"},
    {"id": "b", "price": 50, "shop": "south"},
    {"id": "c", "price": 7, "shop": None},
]
CHEAP = [("a", "where", 1.0), ("c", "where", 1.0)]


def rows(answer: "Answer") -> list[tuple[Any, ...]]:
    return [tuple(json.loads(line).values()) for line in answer.out.splitlines()]


def test_a_condition_of_its_own(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    events = write_lines("e.jsonl", EVENTS)
    answer = run("match", "--where", "price < 10", "--events", events)
    assert (answer.code, rows(answer)) == (0, CHEAP)
    two = run("match", "--where", "price < 6", "--where", "price > 6", "--events", events)
    assert rows(two) == [("a", "where 1", 1.0), ("b", "where 2", 1.0), ("c", "where 2", 1.0)]
    file = tmp_path / "condition.sql"
    file.write_text("\ufeff-- cheap\nprice < 10\n", encoding="utf-8")
    assert rows(run("match", "--where-file", file, "--events", events)) == CHEAP


def test_attributes_that_no_event_has_are_named_and_texts_that_are_no_numbers_counted(
    run: "Run", write_lines: "WriteLines", tmp_path: Path
) -> None:
    events = write_lines("e.jsonl", [*EVENTS, {"id": "d", "price": "many", "at": {"x": 1}}, {"id": "e", "price": " "}])
    answer = run("match", "--where", "pric < 10 OR at.x = 1", "--events", events)
    assert (answer.code, rows(answer)) == (0, [("d", "where", 1.0)])
    assert [line for line in answer.err.splitlines() if line.startswith("warning")] == [
        "warning: no event has 'pric'. Did you mean 'price'?"
    ]
    cheap = run("match", "--where", "price < 10", "--events", events)
    assert rows(cheap) == CHEAP
    assert "warning" not in cheap.err
    assert any("unreadable values" in line and "price (1)" in line for line in cheap.err.splitlines())
    output = tmp_path / "m.csv"
    report = json.loads(run("match", "--where", "no = 1", "--events", events, "--json", "--output", output).out)
    assert report["warnings"] == ["no event has 'no'. There are at, id, price, shop"]
    assert "warning" not in run("match", "--where", "no = 1", "--events", events, "--quiet").err


def test_an_index(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    subscriptions = [{"id": n, "where": "price < 10", "tags": {"user": user}} for n, user in ((1, "ada"), (2, "bob"))]
    index = tmp_path / "index"
    assert run("index", "build", write_lines("s.jsonl", subscriptions), "--output", index).code == 0
    asked = ["match", "--index", index, "--events", write_lines("e.jsonl", EVENTS)]
    assert rows(run(*asked, "--tags", "user=bob")) == [("a", "2", 1.0), ("c", "2", 1.0)]
    assert rows(run(*asked, "--top-k", 1)) == [("a", "1", 1.0), ("c", "1", 1.0)]
    wrong = run(*asked, "--tags", "bob")
    assert (wrong.code, wrong.out) == (2, "")
    assert "name=value" in wrong.err


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
        (".lz4", None),
    ],
)
def test_compressed_files(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes] | None
) -> None:
    plain = write_lines("e.jsonl", EVENTS).read_bytes()
    packed = tmp_path / f"packed.jsonl{suffix}"
    if compress is None:
        with pa.output_stream(str(packed), compression="lz4") as file:
            file.write(plain)
    else:
        packed.write_bytes(compress(plain))
    assert rows(run("match", "--where", "price < 10", "--events", packed)) == CHEAP


def test_a_folder_of_files_of_several_formats(run: "Run", tmp_path: Path) -> None:
    folder = tmp_path / "events"
    (folder / "day=1").mkdir(parents=True)
    (folder / "day=1" / "1.jsonl").write_text(json.dumps(EVENTS[0]))
    (folder / "2.csv").write_text("\ufeffid,price,shop\nb,50,south\n", encoding="utf-8")
    (folder / "_SUCCESS").write_text("")
    parquet.write_table(pa.table({"id": ["c"], "price": [7.0]}), folder / "3.parquet")
    with pa.ipc.new_stream(str(folder / "4.arrow"), pa.schema([("id", pa.string()), ("price", pa.int8())])) as writer:
        writer.write_table(pa.table({"id": ["d"], "price": pa.array([1], pa.int8())}))
    answer = run("match", "--where", "price < 10", "--events", folder)
    assert (answer.code, rows(answer)) == (0, [("c", "where", 1.0), ("d", "where", 1.0), ("a", "where", 1.0)])


def test_standard_input_and_output() -> None:
    start = [sys.executable, "-m", "tocsin", "match", "--where", "price < 10", "--events", "-", "--quiet"]
    lines = "".join(json.dumps(event) + "\n" for event in EVENTS)
    done = subprocess.run([*start, "--format", "csv"], input=lines, capture_output=True, text=True, check=True)
    assert list(csv.reader(io.StringIO(done.stdout))) == [
        ["event", "subscription", "score"],
        ["a", "where", "1.0"],
        ["c", "where", "1.0"],
    ]
    assert done.stderr == ""


SMALL_COMMAND = """
import sys
from tocsin.cli import main
code = main()
print(code, sorted({"pandas", "numba", "sqlglot"} & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments", [["match"], ["match", "--explain"], ["match", "--format", "parquet"], ["check"], ["explain", "cheap"]]
)
def test_a_small_command_loads_neither_pandas_nor_a_compiler(
    write_lines: "WriteLines", arguments: list[str], tmp_path: Path
) -> None:
    subscriptions = str(write_lines("s.jsonl", [{"id": "cheap", "where": "price < 10"}]))
    given = {
        "match": ["--subscriptions", subscriptions, "--events", str(write_lines("e.jsonl", EVENTS)), "--quiet"],
        "check": [subscriptions],
        "explain": ["--subscriptions", subscriptions, "--event", '{"price": 5}'],
    }[arguments[0]]
    if "parquet" in arguments:
        given += ["--output", str(tmp_path / "m.parquet")]
    done = subprocess.run(
        [sys.executable, "-c", SMALL_COMMAND, *arguments, *given],
        capture_output=True,
        text=True,
        env={**os.environ, "TOCSIN_KERNELS": "auto"},
    )
    assert done.stderr.splitlines()[-1:] == ["0 []"], done.stderr


@pytest.mark.parametrize("name", ["m.jsonl.gz", "m.csv.zst", "m.parquet.bz2", "m.arrow.lz4"])
def test_outputs_are_compressed_as_their_names_say(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, name: str
) -> None:
    target = tmp_path / name
    asked = ["match", "--where", "price < 10", "--events", write_lines("e.jsonl", EVENTS)]
    assert run(*asked, "--output", target).code == 0
    content = target.read_bytes()
    if name.endswith((".gz", ".bz2")):
        content = gzip.decompress(content) if name.endswith(".gz") else bz2.decompress(content)
    else:
        content = pa.input_stream(str(target), compression="detect").read()
    if ".jsonl" in name:
        found: list[Any] = [json.loads(line) for line in content.splitlines()]
    elif ".csv" in name:
        found = list(csv.DictReader(content.decode().splitlines()))
    elif ".parquet" in name:
        found = parquet.read_table(pa.BufferReader(content)).to_pylist()
    else:
        found = pa.ipc.open_file(content).read_all().to_pylist()
    assert [row["event"] for row in found] == ["a", "c"]
    assert rows(run("match", "--where", "event = 'c'", "--events", target, "--id", "event")) == [("c", "where", 1.0)]


@pytest.mark.parametrize("name", ["m.jsonl", "m.csv", "m.parquet", "m.arrow", "folder"])
def test_every_format_out_with_columns_that_are_kept(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, name: str
) -> None:
    target = tmp_path / name
    asked = ["match", "--where", "price < 10", "--events", write_lines("e.jsonl", EVENTS)]
    assert run(*asked, "--output", target, "--keep", "shop", "--keep", "price").code == 0
    if name == "m.jsonl":
        found = [json.loads(line) for line in target.read_text().splitlines()]
    elif name == "m.csv":
        found = [
            row | {"score": float(row["score"]), "price": int(row["price"]), "shop": row["shop"] or None}
            for row in csv.DictReader(target.read_text().splitlines())
        ]
    elif name == "m.arrow":
        found = pa.ipc.open_file(str(target)).read_all().to_pylist()
    else:
        found = parquet.read_table(target).to_pylist()
    assert found == [
        {"event": event["id"], "subscription": "where", "score": 1.0, "shop": event["shop"], "price": event["price"]}
        for event in (EVENTS[0], EVENTS[2])
    ]
    refused = run(*asked, "--output", target)
    assert refused.code == 2
    assert "--overwrite" in refused.err
    assert run(*asked, "--output", target, "--overwrite").code == 0


def test_a_table_for_the_terminal(run: "Run", write_lines: "WriteLines") -> None:
    answer = run("match", "--where", "price < 10", "--events", write_lines("e.jsonl", EVENTS), "--format", "table")
    assert [line.split("│")[1].strip() for line in answer.out.splitlines() if line.startswith("│")] == ["a", "c"]


def test_events_without_a_name_are_numbered(run: "Run", write_lines: "WriteLines") -> None:
    events = write_lines("e.jsonl", [{"price": 50}, {"price": 5}])
    assert rows(run("match", "--where", "price < 10", "--events", events)) == [(1, "where", 1.0)]


@pytest.mark.parametrize("format_", ["jsonl", "csv", "parquet"])
def test_names_of_several_types_become_text_where_a_column_has_one_type(
    run: "Run", tmp_path: Path, format_: str
) -> None:
    events = tmp_path / "e.csv"
    events.write_text("id,price\n7,5\nseven,5\n007,5\n")
    target = tmp_path / f"m.{format_}"
    assert run("match", "--where", "price < 10", "--events", events, "--output", target).code == 0
    if format_ == "parquet":
        found = parquet.read_table(target)["event"].to_pylist()
    elif format_ == "csv":
        found = [row["event"] for row in csv.DictReader(target.read_text().splitlines())]
    else:
        found = [json.loads(line)["event"] for line in target.read_text().splitlines()]
    assert found == ["7", "seven", "007"]


def test_an_explanation_with_each_match(run: "Run", write_lines: "WriteLines") -> None:
    events = write_lines("e.jsonl", EVENTS[:1])
    answer = run("match", "--where", "price < 10 OR shop = 'x'", "--events", events, "--explain")
    [(*_, explanation)] = rows(answer)
    assert "holds  price < 10" in explanation


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_an_explanation_tells_a_text_that_is_not_a_number_from_a_missing_one(
    run: "Run", write_lines: "WriteLines", suffix: str
) -> None:
    lines = [{"id": "a", "price": "cheap"}] if suffix == "jsonl" else ["id,price", "a,cheap"]
    where = "price < 10 OR rooms > 3 OR id = 'a'"
    answer = run("match", "--where", where, "--events", write_lines(f"e.{suffix}", lines), "--explain", "--order", "id")
    [(*_, explanation)] = rows(answer)
    assert "price < 10  (price is 'cheap', not of the kind it is compared with: it counts as NULL)" in explanation
    assert "(rooms is missing)" in explanation


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
def test_events_are_ordered_for_subscriptions_that_look_back(
    run: "Run", write_lines: "WriteLines", tmp_path: Path, format_: str
) -> None:
    """By the order of the file all prices are records; by time the one without a time, and the greatest."""
    events = [{"id": n, "at": at, "price": price} for n, (at, price) in enumerate([(3, 4), (2, 5), (None, 6), (1, 9)])]
    file = write_lines("e.jsonl", events)
    if format_ == "parquet":
        file = tmp_path / "e.parquet"
        parquet.write_table(pa.Table.from_pylist(events), file)
    asked = ["match", "--where", "price > ALL (SELECT price FROM history)", "--events", file]
    assert [row[0] for row in rows(run(*asked))] == [0, 1, 2, 3]
    assert [row[0] for row in rows(run(*asked, "--order", "at"))] == [2, 3]
    assert "no column 'when'" in run(*asked, "--order", "when").err
    assert "cannot be explained" in run(*asked, "--explain").err


def test_the_report_as_json(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    events = write_lines("e.jsonl", [*EVENTS, "no JSON"])
    asked = ["match", "--where", "price < 10", "--events", events, "--json"]
    to_file = run(*asked, "--output", tmp_path / "m.csv")
    report = json.loads(to_file.out)
    assert (to_file.code, report["events"], report["malformed_lines"], report["matches"]) == (1, 3, 1, 2)
    to_terminal = run(*asked)
    assert rows(to_terminal) == CHEAP
    assert json.loads(to_terminal.err.splitlines()[-1])["matches"] == 2


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        (["--id", "isbn"], "no column 'isbn'. Choose with --id from id, price, shop"),
        (["--keep", "isbn"], "no column 'isbn'. Choose with --keep from id, price, shop"),
        (["--order", "isbn"], "no column 'isbn'. Choose with --order from id, price, shop"),
        (["--events", "nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["--events", "e.xml"], "the format of e.xml cannot be told"),
        (["--events", "broken.parquet"], "cannot read broken.parquet"),
        (["--output", "m.xml"], "the format of m.xml cannot be told"),
        (["--output", "m.txt", "--format", "table"], "a table is for the terminal"),
        (["--output", "e.jsonl/m.csv"], "e.jsonl is not a folder"),
        (["--output", "/proc/m.csv"], "cannot write /proc/m.csv: "),
        (["--output", "/proc/m"], "cannot write /proc/m: "),
        (["--spark", "--output", "out", "--id", "isbn"], "no column 'isbn'. Choose with --id from id, price, shop"),
        (["--spark", "--output", "/proc/m"], "cannot write /proc/m: "),
        (["--spark", "--output", "out", "--now", "2026-01-01"], "--now is not for Spark"),
        (["--index", "nowhere"], "given twice"),
        (["--where-file", "nowhere.sql"], "given twice"),
        (["--mode", "relaxed"], "--top-k"),
        (["--spark"], "Spark reads and writes files"),
        (["--spark", "--output", "out", "--explain"], "not for Spark"),
        (["--spark", "--output", "out", "--format", "csv"], "Spark does not write csv"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    run: "Run",
    write_lines: "WriteLines",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    extra: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines("e.jsonl", EVENTS)
    (tmp_path / "e.xml").write_text("<events/>")
    (tmp_path / "broken.parquet").write_text("broken")
    before = sorted(os.listdir())
    answer = run("match", "--where", "price < 10", "--events", "e.jsonl", *extra)
    assert (answer.code, answer.out) == (2, "")
    assert complaint in answer.err
    assert len(answer.err.splitlines()) == 1, answer.err
    assert sorted(os.listdir()) == before


MISTAKES = [
    ["match", "--subscriptions", "nowhere.jsonl", "--events", "e.jsonl"],
    ["match", "--index", "nowhere", "--events", "e.jsonl"],
    ["match", "--where-file", "nowhere", "--events", "e.jsonl"],
    ["match", "--where", "price <", "--events", "e.jsonl"],
    ["match", "--where", "xpath_exists(price, '/a[')", "--events", "e.jsonl"],
    ["match", "--where", "price < 10 AND id = 'a'", "--limit", "predicates=1", "--events", "e.jsonl"],
    ["match", "--where", "price < 10", "--events", "nowhere.jsonl"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--output", "e.jsonl"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--output", "e.jsonl/m"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--output", "e.jsonl/m", "--spark"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--output", "m", "--spark", "--id", "id", "--keep", "id"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--now", "soon"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--id", "isbn"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--order", "isbn"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--tags", "ada"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--limit", "predicates=few"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--top-k", "2", "--score-by", "most"],
    ["match", "--where", "price < 10", "--events", "e.jsonl", "--top-k", "2", "--ranked-index", "b-tree"],
    ["match", "--index", ".", "--events", "e.jsonl"],
    ["match", "--where-file", "-", "--events", "-"],
    ["explain", "--where", "price <"],
    ["explain", "nobody", "--subscriptions", "s.jsonl"],
    ["explain", "nobody", "--index", "i", "--event", '{"price": 3}'],
    ["explain", "cheap", "--subscriptions", "s.jsonl", "--event", "{"],
]


def test_a_mistake_is_found_before_anything_is_loaded(write_lines: "WriteLines", tmp_path: Path) -> None:
    write_lines("e.jsonl", EVENTS)
    write_lines("s.jsonl", [{"id": "cheap", "where": "price < 10", "weights": {"price": 1}, "tags": {"user": "ada"}}])
    with Matcher() as matcher:
        matcher.subscribe("cheap", "price < 10")
        matcher.save(tmp_path / "i")
    code = (
        "import json, sys; from tocsin.cli import main\n"
        "for mistake in json.load(sys.stdin):\n"
        "    code = main(mistake)\n"
        "    loaded = {'tocsin.matcher', 'numba', 'pandas', 'pyspark'} & set(sys.modules)\n"
        "    if loaded or code != 2: sys.exit(f'{mistake}: exit code {code}, loaded {loaded}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(MISTAKES), capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    lines = done.stderr.splitlines()
    assert [line[:6] for line in lines] == ["error:"] * len(MISTAKES)


def test_a_full_disk_is_told_by_the_name_of_the_output(write_lines: "WriteLines", tmp_path: Path) -> None:
    write_lines("e.jsonl", [{"id": number, "price": 1} for number in range(2_000)])
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)); "
        "from tocsin.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    matching = ["match", "--where", "price < 10", "--events", "e.jsonl", "--quiet", "--format", "jsonl"]
    for output in ("m.jsonl", "folder"):
        done = subprocess.run(
            [sys.executable, "-c", code, *matching, "--output", output], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 2
        assert done.stderr.startswith("error: cannot write ")
        assert f"{output}: File too large. Free some space on the disk" in done.stderr
        assert os.listdir(tmp_path) == ["e.jsonl"]


def test_a_column_may_be_missing_in_later_events(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    for name, events in (("a", EVENTS[:1]), ("b", [{"id": "z", "price": 1}])):
        write_lines(f"events/{name}.jsonl", events)
    answer = run("match", "--where", "price < 10", "--events", folder, "--keep", "shop")
    assert rows(answer) == [("a", "where", 1.0, "north"), ("z", "where", 1.0, None)]


def test_a_file_of_subscriptions_with_strange_columns_and_equal_ids(run: "Run", write_lines: "WriteLines") -> None:
    subscriptions = [
        {"id": "twice", "where": "price > 90", "colour": "red"},
        {"id": "twice", "where": "price < 6", "wehre": "price > 6"},
    ]
    answer = run(
        "match", "--subscriptions", write_lines("s.jsonl", subscriptions), "--events", write_lines("e.jsonl", EVENTS)
    )
    assert rows(answer) == [("a", "twice", 1.0)]
    assert "2 columns left out, not of a subscription: colour, wehre" in answer.err
    assert "1 id given several times; the last of each counts: twice" in answer.err


def test_the_version(run: "Run") -> None:
    assert run("--version").out.startswith("tocsin ")


def test_sigterm_leaves_no_half_output(tmp_path: Path) -> None:
    start = [sys.executable, "-m", "tocsin", "match", "--where", "price < 5", "--events", "-"]
    with subprocess.Popen([*start, "--output", str(tmp_path / "out.jsonl")], stdin=subprocess.PIPE) as job:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out.jsonl.*")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        job.send_signal(signal.SIGTERM)
        assert job.wait(60) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
