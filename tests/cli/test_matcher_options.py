"""What `Matcher(...)` takes are options of each command that makes one."""

import datetime as dt
import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

from tocsin import Limits, Matcher, cli
from tocsin.cli.matcher_options import MatcherOptions
from tocsin.index import commit
from tocsin.index.options import Options
from tocsin.storage.folder import Folder

if TYPE_CHECKING:
    from cli.conftest import Run, WriteLines

XML = {"id": 1, "document": "<a xmlns='urn:x'><b/></a>", "price": 5}


def test_every_keyword_of_a_matcher_is_an_option() -> None:
    # A command ends before a merge or an audit in the background would pay.
    keywords = set(inspect.signature(Matcher).parameters) - {"background_merge", "audit", "audit_log"}
    assert set(MatcherOptions().keywords()) == keywords


def test_every_command_that_makes_a_matcher_takes_them() -> None:
    group = typer.main.get_command(cli.app)
    commands = group.commands | group.commands["index"].commands  # type: ignore[attr-defined]  # groups have them
    taking = {name for name, command in commands.items() if any(one.name == "retain_age" for one in command.params)}
    assert taking == {"match", "backtest", "top-k", "check", "explain", "serve", "build"}


def test_an_index_keeps_what_was_given(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    file, index = write_lines("s.jsonl", [{"id": "a", "where": "price > 1"}]), tmp_path / "index"
    given = "--limit predicates=7 --limit tags=none --namespace b=urn:x --range-index lazy --matcher count --xpath gpx"
    history = "--retain-events 9 --retain-age 36h --age-attribute at --history price --history at"
    assert run("index", "build", file, "--output", index, *given.split(), *history.split()).code == 0
    assert commit.load(Folder(index)).options == Options(
        limits=Limits(predicates=7, tags=None),
        namespaces={"b": "urn:x"},
        index="lazy",
        matcher="count",
        xpath="gpx",
        retain_events=9,
        retain_age=dt.timedelta(hours=36),
        age_attribute="at",
        history=("price", "at"),
    )


def test_analyzers_reach_an_index(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    subscriptions = write_lines("s.jsonl", [{"id": "run", "where": "has_words(body, 'running')"}])
    events = write_lines("e.jsonl", [{"body": "he runs"}])
    (tmp_path / "a.json").write_text('{"body": {"stem": "english", "synonyms": "words.txt"}}')
    (tmp_path / "words.txt").write_text("run, race")
    index = tmp_path / "index"
    declared = ["--analyzers", tmp_path / "a.json"]
    assert run("index", "build", subscriptions, "--output", index, *declared).code == 0
    assert Matcher.open(index, mode="read").match({"body": "racing"}).ids == ["run"]
    assert "run" in run("match", "--subscriptions", subscriptions, "--events", events, *declared).out
    assert "run" in run("match", "--index", index, "--events", events).out
    assert (
        "cannot be read" in run("match", "--subscriptions", subscriptions, "--events", events, *missing(tmp_path)).err
    )


def missing(folder: Path) -> list[str | Path]:
    (folder / "b.json").write_text('{"body": {"synonyms": "nowhere.txt"}}')
    return ["--analyzers", folder / "b.json"]


def test_prefixes_limits_and_history_reach_each_command(run: "Run", write_lines: "WriteLines") -> None:
    subscriptions = write_lines("s.jsonl", [{"id": "b", "where": "xpath_exists(document, '//x:b')"}])
    events = write_lines("e.jsonl", [XML])
    declared = ["--namespace", "x=urn:x"]
    for command in ("match", "top-k"):
        found = run(command, "--subscriptions", subscriptions, "--events", events, *declared)
        assert json.loads(found.out)["subscription"] == "b"
    explained = run("explain", "b", "--subscriptions", subscriptions, "--event", json.dumps(XML), *declared)
    assert "b: matches" in explained.out
    assert run("check", subscriptions, *declared).code == 0
    refused = run("check", subscriptions)
    assert refused.code == 1
    assert "--namespace" in refused.out
    assert run("check", subscriptions, *declared, "--limit", "text_bytes=10").code == 1
    record = "price > ALL (SELECT price FROM history)"
    for kept, code in (("none", 2), ("price", 0), ("all", 0), ("day", 2)):
        assert run("match", "--where", record, "--events", events, "--history", kept).code == code


def test_the_newest_events_are_history(run: "Run", write_lines: "WriteLines") -> None:
    events = write_lines("e.jsonl", [{"id": n, "price": price} for n, price in enumerate([9, 1, 5, 6])])
    arguments = ["match", "--where", "price > ALL (SELECT price FROM history)", "--events", events]

    def found(*options: str) -> list[int]:
        return [json.loads(line)["event"] for line in run(*arguments, *options).out.splitlines()]

    assert found() == [0]
    assert found("--retain-events", "1") == [0, 2, 3]
    assert found("--retain-age", "1", "--age-attribute", "id") == [0, 3]


def test_the_time_of_now(run: "Run", write_lines: "WriteLines") -> None:
    events = write_lines("e.jsonl", [{"id": 1, "at": "2026-01-10"}, {"id": 2, "at": "2026-01-01"}])
    where = ["--where", "at > now() - INTERVAL 7 DAYS"]
    for now, expected in (("2026-01-15", [1]), ("2026-01-02T12:00", [1, 2]), ("2026-02-15T12:00+01:00", [])):
        found = run("match", *where, "--events", events, "--now", now, "--explain")
        assert [json.loads(line)["event"] for line in found.out.splitlines()] == expected
        assert found.out.count("holds") == len(expected)
        explained = run("explain", *where, "--event", '{"at": "2026-01-10"}', "--now", now).out
        assert (": matches" in explained) == (1 in expected)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--limit", "predicates"], "--limit is 'predicates'. Write it as in predicates=200"),
        (["--limit", "words=3"], "there is no limit 'words'. There are predicates"),
        (["--limit", "tags=many"], "the limit tags is 'many'"),
        (["--limit", "tags=0"], "the limit tags is 0"),
        (["--namespace", "b"], "--namespace is 'b'"),
        (["--retain-age", "soon"], "--retain-age is 'soon'. Write 7d"),
        (["--matcher", "best"], "'best' is not one of"),
        (["--now", "today"], "--now is 'today'"),
    ],
)
def test_a_mistake_is_named(run: "Run", write_lines: "WriteLines", options: list[str], complaint: str) -> None:
    answer = run("match", "--where", "price > 1", "--events", write_lines("e.jsonl", [XML]), *options)
    assert (answer.code, answer.out) == (2, "")
    assert complaint in answer.err


def test_an_index_that_stands_takes_none(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    index = tmp_path / "index"
    with Matcher() as matcher:
        matcher.save(index)
    events = write_lines("e.jsonl", [XML])
    for command in (
        ["match", "--index", index, "--events", events],
        ["explain", "a", "--index", index],
        ["serve", index],
    ):
        answer = run(*command, "--limit", "tags=5")
        assert answer.code == 2
        assert "keeps the options that it was built with: --limit. Give them to tocsin index build" in answer.err
