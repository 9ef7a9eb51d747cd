"""The writer in this process: groups of requests, and a crash between its two commits."""

import dataclasses
import datetime as dt
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tocsin import Matcher
from tocsin.delivery.inboxes import InboxBounds
from tocsin.errors import StorageError
from tocsin.model.limits import Limits
from tocsin.serve.board import ENTRY, SNAPSHOT, Board
from tocsin.serve.settings import ServerSettings
from tocsin.serve.writer import SETTLE_S, Writer

ADMIN = ["", {}, dataclasses.asdict(Limits())]


class Bench:
    """A writer with its settings; `again` opens the next one after this one has crashed."""

    def __init__(self, folder: Path) -> None:
        self.settings = ServerSettings(
            index=str(folder / "index"), state=str(folder / "state"), runtime=str(folder), workers=1, keys=""
        )
        self.board = Board(self.settings.board, 1, row=1)
        self.writer = Writer(self.settings, self.board)

    def do(self, *messages: dict[str, Any], tenant: list[Any] = ADMIN) -> list[dict[str, Any]]:
        return self.writer._carry_out([(message | {"tenant": tenant}, lambda _: None) for message in messages])

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
    return [id for of_event, _ in answer["found"] for id in of_event]


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


def test_an_event_with_too_many_matches_of_a_tenant_is_published_and_the_others_are_told(bench: Bench) -> None:
    acme = ["acme", {"tenant": "acme"}, dataclasses.asdict(Limits(matches=1))]
    bench.do(put("acme/a", "x > 0", tenant="acme"), put("acme/b", "x > 5", tenant="acme"), tenant=acme)
    bench.do(put("record", "x > ALL (SELECT x FROM history)"))
    for asks in (acme, ADMIN):
        answers = bench.do(publish(4), publish(9), publish(3), tenant=asks)
        assert [(answer["status"], answer["left_out"]) for answer in answers] == [(200, 0), (200, 1), (200, 0)]
    assert sorted(event.body["x"] for event in bench.writer._inboxes.events(None, 10)) == [3, 3, 4, 4, 9, 9]
    assert len(bench.writer._matcher.history) == 6
    assert ids(bench.do(publish(10))[0]) == ["acme/a", "record"]


def test_workers_are_told_what_published_events_cost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.serve.writer.LOOK_S", 0.0)
    bench.do(put("all", "x >= 0 OR x < 0 OR x IS NULL"), *(put(f"s{number}", f"x = {number}") for number in range(20)))
    for _ in range(2):
        bench.do(publish(*range(1000, 1300)))
    costs = json.loads(bench.settings.costs.read_text())
    assert next(iter(costs)) == "all"
    assert 0 < costs["all"] <= 1


ABOVE = "x > ALL (SELECT x FROM history)"


def test_what_a_subscription_sees_does_not_depend_on_who_looked_back_before(bench: Bench) -> None:
    bench.do(put("cheap", "x < 5"), publish(10))
    bench.do(put("record", ABOVE), put("never", "NOT EXISTS (SELECT 1 FROM history h WHERE h.x = 10)"))
    assert [ids(answer) for answer in bench.do(publish(9), publish(11))] == [[], ["record"]]


def test_events_that_nobody_looks_back_at_survive_a_crash(bench: Bench) -> None:
    bench.do()
    before = bench.board[SNAPSHOT]
    bench.do(publish(10), publish(3))
    assert bench.board[SNAPSHOT] == before, "they are not committed"
    bench.again()
    bench.do(put("record", ABOVE))
    assert [ids(answer) for answer in bench.do(publish(9), publish(11))] == [[], ["record"]]


def test_the_history_is_committed_after_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.do()
    bench.do(publish(10))
    before, now = bench.board[SNAPSHOT], time.time()
    monkeypatch.setattr("tocsin.serve.writer.time.time", lambda: now + SETTLE_S)
    bench.do()
    assert bench.board[SNAPSHOT] == before + 1
    assert len(Matcher.open(bench.settings.index, mode="read").history) == 1


def test_texts_of_the_history_are_read_as_a_new_subscription_compares_them(bench: Bench) -> None:
    def at(*hours: int) -> dict[str, Any]:
        events = [{"at": f"2026-01-01T{hour:02}:00:00", "x": 1} for hour in hours]
        return {"do": "publish", "events": events, "tags": {}, "key": None}

    bench.do(at(8), at(9))
    bench.do(put("calm", "at > TIMESTAMP '2020-01-01' AND NOT EXISTS (SELECT 1 FROM history h WHERE h.at > event.at)"))
    with Matcher.open(bench.settings.index, mode="read") as reader:
        found = [reader.match({"at": dt.datetime(2026, 1, 1, hour)}).ids for hour in (7, 10)]
    assert found == [[], ["calm"]], "a worker sees it before the next event is published"
    bench.again()
    assert [ids(answer) for answer in bench.do(at(7), at(10))] == [[], ["calm"]]
    assert len(bench.writer._matcher.history) == 4, "nothing is remembered twice"


def test_an_index_that_keeps_no_history_remembers_nothing(tmp_path: Path) -> None:
    with Matcher(history=None) as made:
        made.save(tmp_path / "index")
    bench = Bench(tmp_path)
    bench.do(publish(10))
    assert bench.do(put("record", ABOVE))[0]["status"] == 422
    assert len(bench.writer._matcher.history) == 0
    bench.crash()


def test_an_index_that_the_server_makes_keeps_so_many_events(bench: Bench) -> None:
    assert bench.writer._matcher.history.store.retain_events == InboxBounds().events
