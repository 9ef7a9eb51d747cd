"""The file of inboxes: bounded, whole after a crash, dead letters."""

import contextlib
from pathlib import Path
from typing import Any

from tocsin.delivery.inboxes import InboxBounds, InboxStore
from tocsin.delivery.policy import Settings


def match(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"subscription": "s", "score": 1.0, "event_number": number}, {"x": number}


def due_times(inboxes: InboxStore) -> list[float]:
    return [] if inboxes.next_release is None else [inboxes.next_release]


def test_an_inbox_keeps_its_newest_entries(tmp_path: Path) -> None:
    inboxes = InboxStore(tmp_path / "i", bounds=InboxBounds(entries=5))
    for number in range(12):
        with inboxes.transaction():
            inboxes.tell("/ada", [match(number)], now=1.0)
            inboxes.tell("/bob", [match(number)] if number == 0 else [], now=1.0)
    assert [entry.body["event"]["x"] for entry in inboxes.read("/ada", 0, 100)] == [7, 8, 9, 10, 11]
    assert len(inboxes.read("/bob", 0, 100)) == 1
    assert 0 < inboxes.removed("/ada") < inboxes.read("/ada", 0, 1)[0].number
    assert inboxes.removed("/bob") == 0
    inboxes.close()


def test_a_repetition_is_told_again_after_a_week(tmp_path: Path) -> None:
    inboxes = InboxStore(tmp_path / "i", bounds=InboxBounds(key_seconds=10.0))
    with inboxes.transaction():
        inboxes.set("/ada", Settings.of({"dedupe": "subscription"}))
        assert [inboxes.tell("/ada", [match(1)], now) for now in (1.0, 10.0, 12.0, 13.0)] == [0, 1, 0, 1]
    inboxes.close()


def test_events_and_keys_are_bounded(tmp_path: Path) -> None:
    inboxes = InboxStore(tmp_path / "i", bounds=InboxBounds(events=1000, key_seconds=10.0))
    with inboxes.transaction():
        for _ in range(30):
            inboxes.add_events(['{"x": 1}'] * 100, "", now=1.0)
        inboxes.remember_answer("old", {"a": 1}, now=1.0)
        inboxes.remember_answer("new", {"a": 2}, now=20.0)
    assert 1000 <= len(inboxes.events(None, 10_000)) <= 2000
    assert inboxes.answer_of("old") is None
    assert inboxes.answer_of("new") == {"a": 2}
    inboxes.close()


def test_what_is_not_committed_is_not_there_and_numbers_are_not_used_twice(tmp_path: Path) -> None:
    inboxes = InboxStore(tmp_path / "i")
    with inboxes.transaction():
        inboxes.tell("/ada", [match(1)], now=1.0)
    with contextlib.suppress(RuntimeError), inboxes.transaction():
        inboxes.tell("/ada", [match(2)], now=1.0)
        raise RuntimeError
    with inboxes.transaction():
        with contextlib.suppress(RuntimeError), inboxes.savepoint():
            inboxes.tell("/ada", [match(3)], now=1.0)
            raise RuntimeError
        inboxes.tell("/ada", [match(4)], now=1.0)
    reader = InboxStore(tmp_path / "i", read_only=True)
    found = reader.read("/ada", 0, 100)
    assert [entry.body["event"]["x"] for entry in found] == [1, 4]
    assert found[0].number < found[1].number
    reader.close()
    inboxes.close()


def test_held_matches_survive_and_are_released(tmp_path: Path) -> None:
    inboxes = InboxStore(tmp_path / "i")
    with inboxes.transaction():
        inboxes.set("/ada", Settings.of({"digest": {"minutes": 1}}))
        inboxes.tell("/ada", [match(1), match(2)], now=100.0)
    inboxes.close()
    again = InboxStore(tmp_path / "i")
    with again.transaction():
        again.release(120.0)
    assert again.read("/ada", 0, 10) == []
    assert due_times(again) == [160.0]
    with again.transaction():
        again.release(160.0)
    (entry,) = again.read("/ada", 0, 10)
    assert [one["event"]["x"] for one in entry.body["digest"]] == [1, 2]
    assert due_times(again) == []
    again.close()


def test_dead_letters_can_be_tried_again(tmp_path: Path) -> None:
    inboxes = InboxStore(tmp_path / "i")
    with inboxes.transaction():
        inboxes.set("/ada", Settings.of({"webhook": {"url": "http://x", "secret": "0123456789abcdef"}}))
        inboxes.tell("/ada", [match(1)], now=100.0)
        (parcel,) = inboxes.parcels(100.0, 10)
        inboxes.failed(parcel.number, "status 500", again=110.0)
        assert inboxes.parcels(105.0, 10) == []
        (parcel,) = inboxes.parcels(110.0, 10)
        assert parcel.attempts == 1
        inboxes.failed(parcel.number, "status 500", again=None)
        assert inboxes.parcels(1e9, 10) == []
        (dead,) = inboxes.dead_letters("/ada", 10)
        assert (dead["number"], dead["attempts"], dead["reason"]) == (parcel.number, 2, "status 500")
        assert inboxes.retry("/ada", 200.0) == 1
        (parcel,) = inboxes.parcels(200.0, 10)
        inboxes.sent(parcel.number)
        assert inboxes.parcels(1e9, 10) == []
        assert inboxes.next_parcel() is None
        inboxes.tell("/ada", [match(2), match(3)], now=300.0)
        assert [one.number for one in inboxes.parcels(300.0, 10)] == [parcel.number + 1]
        assert inboxes.parcels(300.0, 10, {"/ada"}) == []
        assert inboxes.next_parcel({"/ada"}) is None
    inboxes.close()
