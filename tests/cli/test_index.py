"""`tocsin index`: build, info, add, remove, compact, reshard, verify, upgrade, export."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tocsin import Matcher, SubscriptionError
from tocsin.model.subscription import Subscription
from tocsin.storage.folder import Folder

if TYPE_CHECKING:
    from cli.conftest import Run, WriteLines

SMITH = {"id": "smith", "where": "author = 'Smith' AND price < 30", "score": 2.5, "tags": {"tenant": "acme"}}
CHEAP = {"id": "cheap", "where": "price < 10\n AND name <> 'a, \"b\"'", "weights": {"price": 0.5}}
NEVER = {"id": "never", "where": "price < 1 AND price > 2"}
ABSENT = {"id": "absent", "where": "body IS NULL OR NOT has_words(body, 'holiday')"}
BROKEN = {"id": "broken", "where": "price <"}


def standing(index: Path) -> dict[str, Subscription]:
    matcher = Matcher.open(index, background_merge=False)
    return {subscription.id: subscription for subscription in matcher.subscriptions()}


@pytest.fixture
def index(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> Path:
    assert run("index", "build", write_lines("s.jsonl", [SMITH, CHEAP]), "--output", tmp_path / "index").code == 0
    return tmp_path / "index"


def test_build_takes_the_good_and_reports_the_rest(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    file = write_lines("s.jsonl", [SMITH, BROKEN, "no JSON", CHEAP])
    answer = run("index", "build", file, "--output", tmp_path / "index")
    assert answer.code == 1
    assert "2 rejected subscriptions" in answer.err
    assert "│ broken " in answer.err
    assert "│ line 3 " in answer.err
    assert list(standing(tmp_path / "index")) == ["cheap", "smith"]
    assert standing(tmp_path / "index")["smith"] == Subscription(
        "smith", "author = 'Smith' AND price < 30", 2.5, {}, {"tenant": "acme"}
    )


def test_build_replaces_an_index_only_when_told(run: "Run", write_lines: "WriteLines", index: Path) -> None:
    file = write_lines("other.jsonl", [{"id": "other", "where": "x = 1"}])
    refused = run("index", "build", file, "--output", index)
    assert refused.code == 2
    assert "--overwrite" in refused.err
    assert set(standing(index)) == {"smith", "cheap"}
    assert run("index", "build", file, "--output", index, "--overwrite").code == 0
    assert set(standing(index)) == {"other"}


def test_build_replaces_nothing_but_an_index(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    answer = run("index", "build", write_lines("s.jsonl", [SMITH]), "--output", tmp_path / "letters", "--overwrite")
    assert answer.code == 2
    assert "exists and is not an index" in answer.err
    assert [file.name for file in (tmp_path / "letters").iterdir()] == ["dear.txt"]


def test_nothing_is_written_while_another_writes(run: "Run", write_lines: "WriteLines", index: Path) -> None:
    file = write_lines("other.jsonl", [{"id": "other", "where": "x = 1"}])
    writer = Folder(index)
    writer.lock()
    for arguments in (
        ["build", file, "--output", index, "--overwrite"],
        ["add", index, file],
        ["remove", index, "smith"],
        ["compact", index],
        ["reshard", index, "--shards", "2"],
    ):
        answer = run("index", *arguments)
        assert answer.code == 2, arguments
        assert "is being written by process" in answer.err
    writer.unlock()
    assert set(standing(index)) == {"smith", "cheap"}


def test_a_file_that_cannot_be_read_leaves_no_folder(run: "Run", tmp_path: Path) -> None:
    assert run("index", "build", tmp_path / "nowhere.jsonl", "--output", tmp_path / "index").code == 2
    assert list(tmp_path.iterdir()) == []


def test_info_shows_the_figures(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    run("index", "build", write_lines("s.jsonl", [SMITH, CHEAP, NEVER, ABSENT]), "--output", tmp_path / "index")
    run("index", "remove", tmp_path / "index", "cheap")
    shown = run("index", "info", tmp_path / "index")
    assert shown.code == 0
    for name, figure in (("subscriptions", "3"), ("segments", "1"), ("removed, not yet merged away", "1")):
        assert any(name in line and line.rstrip("│ ").endswith(f" {figure}") for line in shown.out.splitlines()), name
    assert "1 can never match" in shown.out
    assert "its predicates contradict each other" in shown.out
    told = run("index", "info", tmp_path / "index", "--json")
    stats = json.loads(told.out)
    assert (stats["subscriptions"], stats["segments"], stats["dropped"], stats["snapshot"]) == (3, [4], 1, 2)
    assert stats["never"].keys() == {"never"}
    assert stats["tests"] == {"words": 1}
    assert all(size > 0 for size in (stats["bytes"]["pairs"], stats["bytes"]["domains"], stats["bytes"]["ids"]))


def test_add_replaces_and_reports(run: "Run", write_lines: "WriteLines", index: Path) -> None:
    more = write_lines(
        "more.jsonl", [{"id": "smith", "where": "author = 'Smythe'"}, BROKEN, {"id": "new", "where": "x > 1"}]
    )
    answer = run("index", "add", index, more)
    assert answer.code == 1
    assert "1 rejected subscription" in answer.err
    now = standing(index)
    assert set(now) == {"smith", "cheap", "new"}
    assert now["smith"] == Subscription("smith", "author = 'Smythe'")


def test_remove_names_what_there_is_not(run: "Run", index: Path) -> None:
    answer = run("index", "remove", index, "smith", "nobody", "smith")
    assert answer.code == 1
    assert answer.err.rstrip().endswith("there is no subscription 'nobody'")
    assert set(standing(index)) == {"cheap"}
    assert run("index", "remove", index, "cheap").code == 0
    assert standing(index) == {}


def test_merge_leaves_one_segment_and_no_dropped(run: "Run", write_lines: "WriteLines", index: Path) -> None:
    for number in range(3):
        run("index", "add", index, write_lines("more.jsonl", [{"id": f"n{number}", "where": f"x > {number}"}]))
    run("index", "remove", index, "cheap")
    before = Matcher.open(index).stats()
    assert (len(before.segments), before.dropped) == (4, 1)
    assert run("index", "compact", index).code == 0
    after = Matcher.open(index).stats()
    assert (after.segments, after.dropped) == ((4,), 0)
    assert len(list(index.glob("segment-*"))) == 1
    assert set(standing(index)) == {"smith", "n0", "n1", "n2"}


def test_verify_lists_the_files_and_names_the_damaged(run: "Run", index: Path) -> None:
    run("index", "remove", index, "cheap")
    (segment,), (changes,) = index.glob("segment-*"), index.glob("changes-*")
    answer = run("index", "verify", index)
    assert answer.code == 0
    for name in ("snapshot-000002.json", segment.name, changes.name):
        assert f"│ {name} " in answer.out
    raw = bytearray(segment.read_bytes())
    raw[64] ^= 0xFF
    segment.write_bytes(raw)
    damaged = run("index", "verify", index)
    assert damaged.code == 2
    assert f"{segment.name} is damaged: array" in damaged.err


def test_verify_reads_the_history(run: "Run", tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.subscribe("again", "EXISTS (SELECT 1 FROM history h WHERE h.author = event.author)")
    matcher.save(tmp_path / "index")
    matcher.publish({"author": "Smith"})
    matcher.commit()
    matcher.close()
    assert "history, 1 events" in run("index", "verify", tmp_path / "index").out
    log = next((tmp_path / "index" / "history").glob("strings-*.log"))
    log.write_bytes(bytes(byte ^ 0xFF for byte in log.read_bytes()))
    damaged = run("index", "verify", tmp_path / "index")
    assert damaged.code == 2
    assert f"{log.name} is damaged" in damaged.err


@pytest.mark.parametrize("name", ["out.jsonl", "out.ndjson", "out.csv", "out.parquet", "out.arrow", "out.csv.gz"])
def test_what_was_exported_builds_the_same_index(run: "Run", index: Path, tmp_path: Path, name: str) -> None:
    matcher = Matcher.open(index)
    matcher.rescore("cheap", 0.1)
    matcher.commit()
    matcher.close()
    assert run("index", "export", index, tmp_path / name).code == 0
    assert run("index", "build", tmp_path / name, "--output", tmp_path / "again").code == 0
    again = standing(tmp_path / "again")
    assert list(again) == ["cheap", "smith"]
    assert again == standing(index)
    assert again["cheap"].where == CHEAP["where"]


def test_csv_holds_texts_that_need_quotes(run: "Run", write_lines: "WriteLines", tmp_path: Path) -> None:
    where = "price < 10\n AND name <> 'a, \"b\"'"
    run(
        "index",
        "build",
        write_lines("s.jsonl", [{"id": "a", "where": where, "score": 0.1}]),
        "--output",
        tmp_path / "i",
    )
    assert run("index", "export", tmp_path / "i", tmp_path / "out.csv").code == 0
    assert run("index", "build", tmp_path / "out.csv", "--output", tmp_path / "again").code == 0
    assert standing(tmp_path / "again") == {"a": Subscription("a", where, 0.1)}


def test_export_refuses_what_it_cannot_write(run: "Run", index: Path, tmp_path: Path) -> None:
    strange = run("index", "export", index, tmp_path / "out.xlsx")
    assert strange.code == 2
    assert "Name it with one of .jsonl" in strange.err
    (tmp_path / "out.jsonl").write_text("mine")
    assert run("index", "export", index, tmp_path / "out.jsonl").code == 2
    assert (tmp_path / "out.jsonl").read_text() == "mine"
    assert run("index", "export", index, tmp_path / "out.jsonl", "--overwrite").code == 0
    assert (tmp_path / "out.jsonl").read_text().startswith('{"id": "cheap"')


@pytest.mark.parametrize("command", [["info"], ["verify"], ["compact"], ["remove", "x"], ["export", "y.csv"]])
def test_a_folder_without_an_index_is_named(run: "Run", tmp_path: Path, command: list[str]) -> None:
    name, *rest = command
    answer = run("index", name, tmp_path, *rest)
    assert answer.code == 2
    assert f"there is no index in {tmp_path}" in answer.err


def test_upgrade_brings_an_older_index_up_to_date(run: "Run", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "index"
    shutil.copytree(Path(__file__).parent.parent / "index" / "data" / "version-3", index)
    refused = run("index", "info", index)
    assert refused.code == 2
    assert f"tocsin index upgrade {index}" in refused.err
    with monkeypatch.context() as stricter:
        stricter.setattr("tocsin.index.options.Options.check_xpath", _refuse)
        rejected = run("index", "upgrade", index)
        assert rejected.code == 2
        assert "stays at version 3: 1 subscriptions cannot be read" in rejected.err
        assert "│ path " in rejected.err
        partly = run("index", "upgrade", shutil.copytree(index, tmp_path / "copy"), "--drop-rejected")
        assert partly.code == 1
        assert "path" not in standing(tmp_path / "copy")
    answer = run("index", "upgrade", index)
    assert answer.code == 0
    assert "version before │ 3" in answer.err
    assert len(standing(index)) == 9
    assert run("index", "verify", index).code == 0


def _refuse(*_: object) -> None:
    raise SubscriptionError("no paths today")


def test_plan_says_how_and_why(run: "Run", index: Path) -> None:
    plan = Matcher.open(index, mode="read").plan()
    assert run("index", "plan", index).out == f"{plan}\n"
    assert run("index", "plan", index, "--details").out == f"{plan.details()}\n"
    steps = json.loads(run("index", "plan", index, "--json").out)
    assert [step["choice"] for step in steps] == [step.choice for step in plan.steps]


def test_plan_names_the_most_expensive_subscription_for_events(run: "Run", tmp_path: Path) -> None:
    subscriptions, events, index = tmp_path / "subs.jsonl", tmp_path / "events.jsonl", tmp_path / "index"
    rows = [{"id": f"s{n}", "where": f"a = {n}"} for n in range(50)] + [{"id": "all", "where": "a >= 0"}]
    subscriptions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    events.write_text("".join(json.dumps({"a": n % 50}) + "\n" for n in range(300)))
    run("index", "build", subscriptions, "--output", index)
    assert "most expensive" not in run("index", "plan", index).out
    assert "the most expensive subscriptions: all " in run("index", "plan", index, "--events", events).out


def test_reshard_divides_an_index_and_says_how(run: "Run", index: Path) -> None:
    answer = run("index", "reshard", index, "--shards", "2")
    assert answer.code == 0
    for line in ("shards │ 2", "largest shard │ 1", "segments before │ 1", "segments now │ 2"):
        assert line in " ".join(answer.err.split()), line
    assert set(standing(index)) == {"smith", "cheap"}
    refused = run("index", "reshard", index, "--shards", "0")
    assert refused.code == 2
    assert "at least 1" in refused.err
