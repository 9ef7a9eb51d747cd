"""Events that arrive in one turn of the event loop are matched together where that pays, each with its own answer."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from tocsin import EventError, Matcher
from tocsin.conjunctions.choose import CombinedIndex
from tocsin.serve import match_queue
from tocsin.serve.board import Board
from tocsin.serve.match_queue import Found, MatchQueue
from tocsin.tuning import TUNING


@pytest.fixture
def matcher() -> Matcher:
    made = Matcher()
    for number in range(5):
        made.subscribe(f"s{number}", f"x > {number * 10} AND y <> 3", number + 0.5, tags={"odd": str(number % 2)})
    return made


def ask(queue: MatchQueue, events: list[dict[str, int]], tags: dict[str, str] | None) -> list[Found]:
    async def all_at_once() -> list[Found]:
        return list(await asyncio.gather(*(queue.match(event, tags) for event in events)))

    return asyncio.run(all_at_once())


@pytest.mark.parametrize("count", [1, TUNING.match_together - 1, TUNING.match_together, 60])
@pytest.mark.parametrize("tags", [None, {"odd": "1"}])
def test_each_event_gets_its_own_answer(
    matcher: Matcher, tmp_path: Path, count: int, tags: dict[str, str] | None
) -> None:
    board = Board(tmp_path / "board", 1, row=2)
    events = [{"x": value, "y": value % 5} for value in range(count)]
    found = ask(MatchQueue(matcher, board), events, tags)
    expected = [matcher.match(event, tags=tags) for event in events]
    assert found == [(list(matches.ids), list(matches.scores)) for matches in expected]
    assert board.totals()["micro_batches"] == (count >= TUNING.match_together)
    assert board.totals()["matched_events"] == count
    assert board.totals()["matches"] == sum(map(len, expected))


@pytest.mark.usefixtures("unhurried_audit")
@pytest.mark.parametrize("count", [1, 60])
def test_what_an_audit_finds_is_counted(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made, board = Matcher(audit=1.0), Board(tmp_path / "board", 1, row=2)
    made.subscribe_many([{"id": f"s{number}", "where": f"x > {number} AND y <> 3"} for number in range(100)])
    with monkeypatch.context() as broken:
        broken.setattr(CombinedIndex, "match", lambda *_, **__: (np.empty((0, 2), np.int32), 0))
        queue = MatchQueue(made, board)
        ask(queue, [{"x": 50, "y": 1}] * count, None)
    assert made.audit is not None
    expected = [f"s{number}" for number in range(100) if number < 50]
    [(ids, _)] = ask(queue, [{"x": 50, "y": 1}], None)
    assert ids == sorted(expected)
    assert board.totals()["audited_pairs"] > 0
    assert board.totals()["audit_disagreements"] > 0


def test_an_event_that_cannot_be_read_spares_the_others(matcher: Matcher, tmp_path: Path) -> None:
    queue = MatchQueue(matcher, Board(tmp_path / "board", 1, row=2))
    real = matcher.match_batch

    def refuse(*_: object, **__: object) -> None:
        raise EventError("one of them is bad")

    matcher.match_batch = refuse  # type: ignore[method-assign]
    found = ask(queue, [{"x": 45, "y": 1}] * 20, None)
    matcher.match_batch = real  # type: ignore[method-assign]
    assert found == [(["s0", "s1", "s2", "s3", "s4"], [0.5, 1.5, 2.5, 3.5, 4.5])] * 20


@pytest.mark.parametrize("most", [60.0, 0.0])
def test_few_events_are_answered_together_unless_that_takes_long(
    matcher: Matcher, tmp_path: Path, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_queue, "LONGEST_WAIT_S", most)
    board = Board(tmp_path / "board", 1, row=2)
    queue, order = MatchQueue(matcher, board), []
    real = matcher.match

    def match(event: dict[str, int], **options: object) -> object:
        order.append(("match", event["x"]))
        return real(event, **options)  # type: ignore[arg-type]

    matcher.match = match  # type: ignore[method-assign,assignment]

    async def submit() -> None:
        for value, tag in ((1, "0"), (2, "1")):
            queue.submit({"x": value}, {"odd": tag}, lambda _, value=value: order.append(("answer", value)))  # type: ignore[misc]
        queue.flush()

    asyncio.run(submit())
    together = [("match", 1), ("match", 2), ("answer", 1), ("answer", 2)]
    assert order == (together if most else [("match", 1), ("answer", 1), ("match", 2), ("answer", 2)])
    assert board.totals()["matched_events"] == 2
    assert board.totals()["match_seconds"] > 0


def test_many_events_are_matched_together_by_their_tags(matcher: Matcher, tmp_path: Path) -> None:
    board = Board(tmp_path / "board", 1, row=2)
    queue, event = MatchQueue(matcher, board), {"x": 45, "y": 1}
    tags: list[dict[str, str] | None] = [None] * 20 + [{"odd": "1"}] * 20 + [{"odd": "0"}] * 3
    found: list[tuple[int, object]] = []

    async def submit() -> None:
        for number, tag in enumerate(tags):
            queue.submit(event, tag, lambda one, number=number: found.append((number, one)))  # type: ignore[misc]
        queue.flush()

    asyncio.run(submit())
    expected = [matcher.match(event, tags=tag) for tag in tags]
    assert dict(found) == dict(enumerate((list(one.ids), list(one.scores)) for one in expected))
    assert board.totals()["micro_batches"] == 2
    assert board.totals()["matched_events"] == len(tags)
