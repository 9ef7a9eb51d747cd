"""The writer in this process: groups of requests, and a crash between its two commits."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tocsin.errors import StorageError
from tocsin.model.limits import Limits
from tocsin.serve.board import ENTRY, SNAPSHOT, Board
from tocsin.serve.settings import ServerSettings
from tocsin.serve.writer import Writer

ADMIN = ["", {}, dataclasses.asdict(Limits())]


class Bench:
    """A writer with its settings; `again` opens the next one after this one has crashed."""

    def __init__(self, folder: Path) -> None:
        self.settings = ServerSettings(
            index=str(folder / "index"), state=str(folder / "state"), runtime=str(folder), workers=1, keys=""
        )
        self.board = Board(self.settings.board, 1, row=1)
        self.writer = Writer(self.settings, self.board)

    def do(self, *messages: dict[str, Any]) -> list[dict[str, Any]]:
        return self.writer._carry_out([(message | {"tenant": ADMIN}, lambda _: None) for message in messages])

    def crash(self) -> None:
        self.writer._matcher.close()
        self.writer._inboxes.close()
        self.writer._senders.shutdown()

    def again(self) -> None:
        self.crash()
        self.writer = Writer(self.settings, self.board)


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    made = Bench(tmp_path)
    yield made
    made.crash()


def put(id: str, where: str, **tags: str) -> dict[str, Any]:
    return {"do": "put", "id": id, "where": where, "score": 1.0, "weights": {}, "tags": tags}


def publish(*values: int, key: str | None = None) -> dict[str, Any]:
    return {"do": "publish", "events": [{"x": value} for value in values], "tags": {}, "key": key}


def ids(answer: dict[str, Any]) -> list[str]:
    return [match["id"] for match in answer["matches"]]


def test_a_group_is_carried_out_in_order_with_one_commit(bench: Bench) -> None:
    before = bench.board[SNAPSHOT]
    answers = bench.do(
        publish(1),
        put("a", "x < 5", user="ada"),
        publish(1),
        put("bad", "x <"),
        {"do": "delete", "id": "a"},
        publish(1),
    )
    assert [ids(answers[place]) for place in (0, 2, 5)] == [[], ["a"], []]
    assert [answer["status"] for answer in answers] == [200, 201, 200, 422, 200, 200]
    assert bench.board[SNAPSHOT] == before + 1
    assert bench.board[ENTRY] == 1


def test_without_changes_there_is_no_commit(bench: Bench) -> None:
    bench.do(put("a", "x < 5"))
    before = bench.board[SNAPSHOT]
    bench.do(publish(1), publish(2))
    assert bench.board[SNAPSHOT] == before


def test_a_crash_between_the_commits_of_inboxes_and_index(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.do(put("record", "x > ALL (SELECT x FROM history)", user="ada"))
    bench.do(publish(5))

    def fail() -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(bench.writer._matcher, "commit", fail)
    with pytest.raises(StorageError):
        bench.do(put("lost", "x > 0"), publish(9, key="k"))
    bench.again()
    # The event was delivered, so it is history as well; the subscription was neither acknowledged nor kept.
    assert ids(bench.do(publish(8))[0]) == []
    (repeated,) = bench.do(publish(9, key="k"))
    assert (repeated["repeated"], ids(repeated)) == (True, ["lost", "record"])
    assert ids(bench.do(publish(10))[0]) == ["record"]
    told = [entry.body["event"]["x"] for entry in bench.writer._inboxes.read("/ada", 0, 10)]
    assert told == [5, 9, 10]


def test_a_fault_of_one_request_spares_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.do(put("a", "x < 5", user="ada"))
    real = bench.writer._inboxes.tell

    def sometimes(inbox: str, matches: Any, now: float) -> int:
        told = real(inbox, matches, now)
        if matches[0][1]["x"] == 2:
            raise RuntimeError("a fault of ours")
        return told

    monkeypatch.setattr(bench.writer._inboxes, "tell", sometimes)
    answers = bench.do(publish(1), publish(2), publish(3))
    assert [answer["status"] for answer in answers] == [200, 500, 200]
    assert [entry.body["event"]["x"] for entry in bench.writer._inboxes.read("/ada", 0, 10)] == [1, 3]
    assert "a fault of ours" in capsys.readouterr().err
