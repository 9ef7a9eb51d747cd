"""`tocsin stream`: files to a table, live subscriptions, bad lines, Ctrl-C."""

import datetime as dt
import json
import os
import re
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tocsin import cli
from tocsin.matcher import Matcher
from tocsin.spark.sinks import BatchTable

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    matcher = Matcher()
    matcher.subscribe("new", "at >= TIMESTAMP '2026-01-01 00:00:00' AND shop.city = 'Milos'")
    matcher.save("index")
    matcher.close()
    (tmp_path / "events").mkdir()
    return tmp_path


COMMAND = ["stream", "--index", "index", "--events", "events", "--output", "matches", "--checkpoint", "checkpoint"]


def rows(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "matches").glob("batch=*/*.json"))
    return [json.loads(line) for file in files if file.name[0] != "_" for line in file.read_text().splitlines()]


def test_files_are_matched_once_and_bad_lines_counted(
    folder: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    good = {"id": 1, "at": "2026-05-05T10:00:00Z", "shop": {"city": "Milos"}}
    (folder / "events" / "a.jsonl").write_text(json.dumps(good) + "\nno json\n" + json.dumps({**good, "id": 2}) + "\n")
    for _ in range(2):
        assert cli.main([*COMMAND, "--format", "jsonl", "--until-now"]) == 0
    assert [row["event"] for row in rows(folder)] == [1, 2]
    (folder / "events" / "b.jsonl").write_text(json.dumps({**good, "id": 3, "at": "2025-01-01T00:00:00Z"}) + "\n")
    assert cli.main([*COMMAND, "--format", "jsonl", "--until-now"]) == 0
    assert len(rows(folder)) == 2
    counts = [(record.batch, record.events, record.matches) for record in BatchTable("matches", "jsonl").records()]
    assert counts == [(0, 2, 2), (1, 1, 0)]
    assert re.findall(r"malformed lines\W+(\d+)", capfd.readouterr().err) == ["1", "0", "0"]
    # Texts that are read as times are not warned of.
    assert "compared with a time" not in caplog.text


def test_ctrl_c_ends_it_after_the_batch(folder: Path) -> None:
    event = {"id": 1, "at": "2026-05-05T10:00:00Z", "shop": {"city": "Milos"}}
    (folder / "events" / "a.jsonl").write_text(json.dumps(event) + "\n")
    table = BatchTable("matches")

    def interrupt() -> None:
        while 0 not in table:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    assert cli.main(COMMAND) == 0
    thread.join()
    assert [record.batch for record in table.records()] == [0]


def test_a_lost_checkpoint_is_an_error_and_no_silence(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    event = {"id": 1, "at": "2026-05-05T10:00:00Z", "shop": {"city": "Milos"}}
    (folder / "events" / "a.jsonl").write_text(json.dumps(event) + "\n")
    assert cli.main([*COMMAND, "--format", "jsonl", "--until-now"]) == 0
    shutil.rmtree(folder / "checkpoint")
    assert cli.main([*COMMAND, "--format", "jsonl", "--until-now"]) == 2
    owner = BatchTable("matches").stream
    assert f"error: {folder / 'matches'} belongs to the stream {owner}" in capfd.readouterr().err
    assert len(rows(folder)) == 1


def test_a_folder_that_is_not_there_is_named(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "events").rmdir()
    assert cli.main(COMMAND) == 2
    assert "there is no folder events" in capfd.readouterr().err


def test_subscriptions_that_look_back_take_an_order(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    matcher = Matcher.open(folder / "index")
    matcher.subscribe("later", "at > ALL (SELECT at FROM history)")
    matcher.publish({"at": dt.datetime(2026, 5, 5, 9, 30)})
    matcher.commit()
    matcher.close()
    hours = {1: 9, 2: 11, 3: 10}
    lines = [json.dumps({"id": id, "at": f"2026-05-05T{hour:02}:00:00Z"}) for id, hour in hours.items()]
    (folder / "events" / "a.jsonl").write_text("\n".join(lines))
    assert cli.main([*COMMAND, "--format", "jsonl", "--until-now"]) == 2
    assert "order=" in capfd.readouterr().err
    assert cli.main([*COMMAND, "--format", "jsonl", "--until-now", "--order", "at"]) == 0
    assert sorted(row["event"] for row in rows(folder) if row["subscription"] == "later") == [2, 3]


def test_it_waits_for_the_first_file(folder: Path) -> None:
    event = {"id": 1, "at": "2026-05-05T10:00:00Z", "shop": {"city": "Milos"}}
    table = BatchTable("matches")

    def put_and_interrupt() -> None:
        (folder / "whole.jsonl").write_text(json.dumps(event) + "\n")
        (folder / "whole.jsonl").rename(folder / "events" / "a.jsonl")
        while 0 not in table:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Timer(1.0, put_and_interrupt)
    thread.start()
    assert cli.main(COMMAND) == 0
    thread.join()
    assert [(record.batch, record.matches) for record in table.records()] == [(0, 1)]


def test_an_empty_folder_until_now_matches_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*COMMAND, "--until-now"]) == 0
    assert "no file came to events" in capfd.readouterr().err
    assert not (folder / "matches").exists()


def test_matches_are_delivered_to_inboxes(folder: Path) -> None:
    with Matcher.open("index") as matcher:
        matcher.subscribe("ada-1", "shop.city = 'Milos'", tags={"user": "ada"})
        matcher.commit()
    events = [
        {"id": number, "isbn": isbn, "shop": {"city": "Milos"}, "at": "2026-05-05T10:00:00Z"}
        for number, isbn in enumerate(["x", "x", "y"])
    ]
    (folder / "events" / "a.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    delivery = ["--inbox-tag", "user", "--dedupe", "isbn", "--keep", "isbn", "--format", "jsonl", "--until-now"]
    assert cli.main([*COMMAND, *delivery]) == 0
    got = [(row["inbox"], row["subscription"], row["event"], row["isbn"]) for row in rows(folder)]
    assert got == [("ada", "ada-1", 0, "x"), ("ada", "ada-1", 2, "y")]
    (folder / "events" / "b.jsonl").write_text(json.dumps({**events[0], "id": 4}) + "\n")
    assert cli.main([*COMMAND, *delivery]) == 0
    assert len(rows(folder)) == 2


def test_a_digest_is_one_row_an_inbox(folder: Path) -> None:
    with Matcher.open("index") as matcher:
        matcher.subscribe("ada-1", "shop.city = 'Milos'", tags={"user": "ada"})
        matcher.commit()
    event = {"shop": {"city": "Milos"}, "at": "2026-05-05T10:00:00Z"}
    lines = [json.dumps({"id": number, **event}) + "\n" for number in range(3)]
    (folder / "events" / "a.jsonl").write_text("".join(lines))
    assert cli.main([*COMMAND, "--inbox-tag", "user", "--digest", "--format", "jsonl", "--until-now"]) == 0
    [row] = rows(folder)
    assert isinstance(row["matches"], list)
    assert (row["inbox"], [match["event"] for match in row["matches"]]) == ("ada", [0, 1, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--digest"], "--dedupe and --digest are for inboxes"),
        (["--dedupe", "isbn"], "--dedupe and --digest are for inboxes"),
        (["--index", "nowhere"], "nowhere"),
        (["--schema", "id long, price dubble"], "--schema"),
        (["--keep", "colour"], "colour"),
        (["--inbox-tag", "user", "--dedupe", "colour", "--until-now"], "colour"),
    ],
)
def test_a_mistake_is_one_line(
    folder: Path, options: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    event = {"id": 1, "at": "2026-05-05T10:00:00Z", "shop": {"city": "Milos"}}
    (folder / "events" / "a.jsonl").write_text(json.dumps(event) + "\n")
    assert cli.main([*COMMAND, *options]) == 2
    said = capfd.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert not (folder / "matches").exists()
