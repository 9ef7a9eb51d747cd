"""Every command that reports can do so as JSON and nothing else, or not at all."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from rich.console import Console

from tocsin import Matcher, SubscriptionError, cli
from tocsin.cli.console import MOST_COMPLAINTS, print_rejected

if TYPE_CHECKING:
    from cli.conftest import Run, WriteLines

GOOD, BAD = {"id": "cheap", "where": "price < 10"}, {"id": "bad", "where": "price <"}
REJECTED = {
    "subscription": "bad",
    "position": 6,
    "reason": "something is missing near '<'",
    "way_out": "Complete the condition",
}


@pytest.fixture
def files(write_lines: "WriteLines", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of each kind, and an index, in the folder of now."""
    monkeypatch.chdir(tmp_path)
    write_lines("good.jsonl", [GOOD])
    write_lines("both.jsonl", [GOOD, BAD])
    write_lines("e.jsonl", [{"id": 1, "price": 5, "day": "2026-03-01"}])
    write_lines("queries.jsonl", [{"id": "q", "query": {"term": {"price": 5}}}])
    (tmp_path / "r.yml").write_text(
        "title: r\nid: 11111111-1111-4111-8111-111111111111\nlogsource: {product: x}\n"
        "detection: {s: {a: b}, condition: s}\n"
    )
    with Matcher() as matcher:
        matcher.subscribe("cheap", "price < 10")
        matcher.save(tmp_path / "index")


REPORTS: dict[str, dict[str, Any]] = {
    "index build good.jsonl --output new": {"subscriptions": 1, "rejected": []},
    "index build both.jsonl --output new": {"subscriptions": 1, "rejected": [REJECTED]},
    "index add index both.jsonl": {"subscriptions": 1, "rejected": [REJECTED]},
    "index remove index cheap nobody": {"removed": 1, "subscriptions": 0, "unknown": ["nobody"]},
    "index compact index": {"segments_now": 1},
    "index upgrade index": {"subscriptions": 1, "rejected": []},
    "index export index out.csv.gz": {"subscriptions": 1},
    "import percolator queries.jsonl --output out.jsonl": {"subscriptions": 1, "rejected": []},
    "import sigma r.yml --output out.arrow": {"subscriptions": 1, "rejected": []},
    "match --subscriptions good.jsonl --events e.jsonl --output m.csv": {"matches": 1},
    "backtest --before good.jsonl --after both.jsonl --events e.jsonl --output m.csv": {"gained": 0, "lost": 0},
}
ONLY_JSON: dict[str, dict[str, Any]] = {
    "index info index": {"subscriptions": 1},
    "index verify index": {"history_events": None},
    "check both.jsonl": {"subscriptions": 1, "warnings": [], "rejected": [REJECTED]},
    "explain cheap --index index --event {}": {"subscription": "cheap", "matches": False},
    "warm --family ranges": {},
}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("command", "expected"), [*REPORTS.items(), *ONLY_JSON.items()])
def test_a_report_as_json_and_nothing_else(run: "Run", command: str, expected: dict[str, Any]) -> None:
    answer = run(*command.split(), "--json")
    assert answer.code == ("both" in command or "nobody" in command), answer.err
    found = json.loads(answer.out)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", REPORTS)
def test_quiet_says_only_what_is_wrong(run: "Run", command: str) -> None:
    answer = run(*command.split(), "--quiet")
    assert answer.out == ""
    assert bool(answer.err) == ("both" in command or "nobody" in command), answer.err


def test_every_command_that_reports_takes_json() -> None:
    group = typer.main.get_command(cli.app)
    found = {
        name
        for names in (group, *(group.commands[name] for name in ("index", "import", "keys")))  # type: ignore[attr-defined]
        for name, command in names.commands.items()
        if not any("--json" in one.opts for one in command.params)
    }
    # A drawing, a server, a show, keys that are printed, and groups.
    assert found == {"draw", "serve", "demo", "add", "revoke", "index", "import", "keys", "bench"}


@pytest.mark.usefixtures("files")
def test_texts_that_are_read_as_times_are_not_warned_of(run: "Run", write_lines: "WriteLines") -> None:
    file = write_lines("s.jsonl", [{"id": "march", "where": "day >= DATE '2026-03-01'"}])
    assert json.loads(run("check", file, "--events", "e.jsonl", "--json").out)["warnings"] == []
    file = write_lines("t.jsonl", [{"id": "march", "where": "dya >= DATE '2026-03-01'"}])
    [warning] = json.loads(run("check", file, "--events", "e.jsonl", "--json").out)["warnings"]
    assert "dya" in warning["reason"]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ("--id isbn", "no column 'isbn'. Choose with --id from day, id, price"),
        ("--time isbn", "no column 'isbn'. Choose with --time from"),
        ("--svg e.jsonl", "e.jsonl exists"),
        ("--svg e.jsonl/p.svg", "e.jsonl is not a folder"),
        ("--summary s.xml", "the format of s.xml cannot be told"),
        ("--after nowhere.jsonl", "there is no file nowhere.jsonl"),
        ("--events nowhere.jsonl", "there is no file nowhere.jsonl"),
        ("--before index --after index --limit tags=1", "index is an index, which keeps the options"),
        ("--limit tags=some", "the limit tags is 'some'"),
        ("--before index --namespace a=urn:a", "namespaces is {} before"),
    ],
)
def test_a_mistake_of_a_back_test_is_one_line(run: "Run", tmp_path: Path, extra: str, complaint: str) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    asked = "backtest --before good.jsonl --after good.jsonl --events e.jsonl --quiet"
    answer = run(*asked.split(), *extra.split())
    assert (answer.code, answer.out, len(answer.err.splitlines())) == (2, "", 1), answer.err
    assert complaint in answer.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.usefixtures("files")
def test_a_back_test_takes_the_options_of_a_matcher(run: "Run", write_lines: "WriteLines") -> None:
    before = write_lines("b.jsonl", [{"id": "b", "where": "xpath_exists(document, '//x:b')"}])
    after = write_lines("a.jsonl", [{"id": "b", "where": "xpath_exists(document, '//x:c')"}])
    events = write_lines("x.jsonl", [{"id": 1, "document": "<a xmlns='urn:x'><b/></a>"}])
    asked = ["backtest", "--before", before, "--after", after, "--events", events]
    answer = run(*asked, "--namespace", "x=urn:x")
    assert (answer.code, json.loads(answer.out)) == (0, {"event": 0, "subscription": "b", "change": "lost"})
    assert run(*asked).code == 1, "the prefix is not declared"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("folder", "complaint"),
    [
        ("e.jsonl", "e.jsonl is not a folder"),
        ("/proc/nowhere", "cannot write /proc/nowhere"),
        ("index", "is being written by process"),
    ],
)
def test_a_server_that_cannot_start_says_so_and_ends(run: "Run", folder: str, complaint: str) -> None:
    with Matcher.open("index") as writer:
        writer.unsubscribe("cheap")
        answer = run("serve", folder, "--port", "0")
    assert (answer.code, len(answer.err.splitlines())) == (2, 1), answer.err
    assert complaint in answer.err


def test_a_terminal_gets_the_first_of_many_complaints_and_a_file_all() -> None:
    def printed(*, is_terminal: bool) -> str:
        rejected = [SubscriptionError("no", "none", subscription=f"s{n}") for n in range(MOST_COMPLAINTS + 7)]
        written = io.StringIO()
        print_rejected(Console(file=written, force_terminal=is_terminal, width=200), rejected)
        return written.getvalue()

    assert f"s{MOST_COMPLAINTS + 6} " in printed(is_terminal=False)
    assert f"{MOST_COMPLAINTS + 7} rejected subscriptions, the first {MOST_COMPLAINTS}" in printed(is_terminal=True)
    assert f"s{MOST_COMPLAINTS} " not in printed(is_terminal=True)
