"""Matchers and forks: the child has what stood, is a reader until it takes the lock, and never waits for a thread."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from forking import child_of, forked
from tocsin import Matcher, StorageError
from tocsin.index.commit import verify
from tocsin.index.segment import Segment
from tocsin.language.normal_form import NormalForm
from tocsin.model.subscription import Subscription
from tocsin.storage.folder import Folder

RECORD = "price > ALL (SELECT price FROM history)"


@pytest.fixture
def matcher(tmp_path: Path) -> Matcher:
    matcher = Matcher(background_merge=False)
    matcher.subscribe("before", "x > 1")
    matcher.save(tmp_path / "index")
    return matcher


def add(matcher: Matcher, id: str) -> str:
    try:
        matcher.subscribe(id, "x > 1")
        matcher.commit()
    except StorageError as error:
        return error.message
    return "committed"


def test_both_sides_of_a_fork_commit(matcher: Matcher, tmp_path: Path) -> None:
    index = tmp_path / "index"
    for number in range(4):
        with child_of(lambda: [add(matcher, f"child{place}") for place in range(3)]) as answer:
            assert [add(matcher, f"parent{number}-{place}") for place in range(3)] == ["committed"] * 3
            assert answer() == [f"{index} is being written by process {os.getpid()}"] * 3
    verify(Folder(index))
    expected = sorted(["before", *(f"parent{number}-{place}" for number in range(4) for place in range(3))])
    assert list(Matcher.open(index)) == expected


def test_a_child_takes_the_lock_when_it_is_free(matcher: Matcher, tmp_path: Path) -> None:
    free, closed = os.pipe()

    def wait_and_add() -> str:
        os.read(free, 1)
        return add(matcher, "child")

    with child_of(wait_and_add) as answer:
        assert add(matcher, "parent") == "committed"
        matcher.close()
        os.write(closed, b".")
        assert answer() == "committed", "it has read what the parent committed"
    verify(Folder(tmp_path / "index"))
    assert list(Matcher.open(tmp_path / "index")) == ["before", "child", "parent"]
    assert matcher.refresh()
    assert add(matcher, "again") == "committed"
    assert list(Matcher.open(tmp_path / "index")) == ["again", "before", "child", "parent"]


def test_a_child_does_not_commit_over_what_it_has_not_read(matcher: Matcher, tmp_path: Path) -> None:
    free, closed = os.pipe()
    matcher.subscribe("not yet committed", "x > 1")

    def wait_and_add() -> str:
        os.read(free, 1)
        return add(matcher, "child")

    with child_of(wait_and_add) as answer:
        matcher.commit()
        matcher.close()
        os.write(closed, b".")
        assert "was committed by another process" in answer()
    assert list(Matcher.open(tmp_path / "index")) == ["before", "not yet committed"]


def test_a_child_keeps_no_lock_of_its_parent(matcher: Matcher, tmp_path: Path) -> None:
    free, closed = os.pipe()
    with child_of(lambda: len(os.read(free, 1))) as answer:
        matcher.close()
        other = Matcher.open(tmp_path / "index")
        assert add(other, "other") == "committed", "while the child lives"
        os.write(closed, b".")
        answer()


def test_a_child_matches_while_another_thread_was_changing(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher, building = Matcher(background_merge=False), threading.Event()
    build = matcher._subscriptions._build

    def build_slowly(subscriptions: Sequence[Subscription], forms: Sequence[NormalForm]) -> Segment:
        building.set()
        time.sleep(0.2)
        return build(subscriptions, forms)

    monkeypatch.setattr(matcher._subscriptions, "_build", build_slowly)
    # Single events build what they cannot judge by its definition.
    monkeypatch.setattr("tocsin.index.buffer.FEW_COMPLEX", -1)
    for _ in range(3):
        matcher.subscribe("a", "x > 1")
        building.clear()
        thread = threading.Thread(target=lambda: matcher.match({"x": 2}), daemon=True)
        thread.start()
        building.wait()
        assert forked(lambda: [matcher.match({"x": 2}).ids for _ in range(2)]) == [["a"], ["a"]]
        thread.join()


def test_children_see_whole_changes() -> None:
    """A subscription is replaced again and again: it is there in every child, once."""
    matcher = Matcher()
    for number in range(20):
        matcher.subscribe(f"s{number}", "x = 0")
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            matcher.subscribe("a", f"x > 1 AND y > {number % 7}")
            number += 1

    matcher.subscribe("a", "x > 1")
    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        for _ in range(20):
            assert forked(lambda: [matcher.match({"x": 2, "y": 9}).ids, len(matcher)]) == [["a"], 21]
    finally:
        stop.set()
        thread.join()


def test_a_child_of_a_process_that_matches_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes make way for matches of other threads; a child has none."""
    matcher = Matcher(background_merge=False)
    matcher.subscribe("a", "x > 1")
    inside, leave = threading.Event(), threading.Event()

    def match() -> None:
        with matcher._subscriptions.matching():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=match, daemon=True)
    thread.start()
    inside.wait()

    def change() -> list[float]:
        rests: list[float] = []
        monkeypatch.setattr("tocsin.index.write_throttle.time.sleep", rests.append)
        for number in range(50):
            matcher.subscribe(f"b{number}", "x > 1")
            matcher.match({"x": 2})
        return rests

    assert forked(change) == []
    leave.set()
    thread.join()


def test_a_child_sees_the_committed_history_and_leaves_the_folder_alone(tmp_path: Path) -> None:
    matcher = Matcher(background_merge=False)
    matcher.subscribe("record", RECORD)
    matcher.save(tmp_path / "index")
    matcher.publish({"price": 10, "stock": 1})
    matcher.commit()
    matcher.publish({"price": 20, "stock": 1})
    files = sorted(tmp_path.rglob("*"))

    def look() -> list[object]:
        found = matcher.match({"price": 15}).ids
        try:
            matcher.publish({"price": 30})
        except StorageError as error:
            return [found, error.message]
        return [found, "published"]

    found, message = forked(look)
    assert found == ["record"], "20 is not committed"
    assert message == f"{tmp_path / 'index'} is being written by process {os.getpid()}"
    assert sorted(tmp_path.rglob("*")) == files
    assert matcher.publish({"price": 15}).ids == []
    matcher.commit()
    matcher.close()
    assert len(Matcher.open(tmp_path / "index").history) == 3


@pytest.mark.parametrize("detached", [True, False])
def test_a_history_in_memory_goes_its_own_way_in_the_child(tmp_path: Path, detached: bool) -> None:
    matcher = Matcher(background_merge=False)
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10})
    if detached:
        matcher.save(tmp_path)
        matcher.close()
        matcher = Matcher.open(tmp_path, background_merge=False, mode="copy")
        assert matcher.publish({"price": 11}).ids == ["record"]
    free, closed = os.pipe()

    def publish() -> list[Sequence[str]]:
        os.read(free, 1)
        return [matcher.publish({"price": price}).ids for price in (20, 15)]

    with child_of(publish) as answer:
        assert [matcher.publish({"price": price}).ids for price in (50, 40)] == [["record"], []]
        os.write(closed, b".")
        assert answer() == [["record"], []], "it knows nothing of 50"
    assert [matcher.publish({"price": price}).ids for price in (45, 60)] == [[], ["record"]]
