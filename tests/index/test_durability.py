"""What is committed survives: kills, full disks, damaged files, other versions; one writer, many readers."""

import multiprocessing
import os
import random
import shutil
import struct
import time
from pathlib import Path

import pytest

import children
from tocsin import Matcher, StorageError
from tocsin.index.commit import verify
from tocsin.index.subscriptions import FEW
from tocsin.predicates.history.store import HistoryStore
from tocsin.storage.container import READABLE, VERSION
from tocsin.storage.folder import Folder

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["children"])


@pytest.fixture
def index(tmp_path: Path) -> Path:
    matcher = Matcher()
    matcher.save(tmp_path / "index")
    matcher.close()
    return tmp_path / "index"


def check_after_a_kill(index: Path, seed: int) -> None:
    """Let a child write, kill it at a random moment, and look at what it left."""
    numbers, told = processes.Pipe(duplex=False)
    child = processes.Process(target=children.write_forever, args=(index, told))
    child.start()
    told.close()
    last = numbers.recv()
    time.sleep(random.Random(seed).uniform(0.0, 0.15))
    child.kill()
    child.join()
    while numbers.poll():
        try:
            last = numbers.recv()
        except EOFError:
            break
    verify(Folder(index))
    matcher = Matcher.open(index)
    # The commit under way may have been finished before the kill, but not told.
    assert list(matcher) in (children.expected_ids(last), children.expected_ids(last + 1))
    assert set(matcher.match({"x": 10, "y": -1}).ids) == set(matcher)


def test_a_killed_writer_loses_nothing_committed(index: Path) -> None:
    for seed in range(8):
        check_after_a_kill(index, seed)


@pytest.mark.slow
def test_two_hundred_killed_writers_lose_nothing_committed(index: Path, tmp_path: Path) -> None:
    for seed in range(200):
        if seed % 20 == 0:
            index = tmp_path / f"index-{seed}"
            Matcher().save(index)
        check_after_a_kill(index, seed)


def check_reading_while_writing(index: Path, commits: int) -> None:
    writer = processes.Process(target=children.write_commits, args=(index, commits))
    writer.start()
    states = {tuple(children.expected_ids(number)) for number in range(commits + 1)}
    reader = Matcher.open(index)
    seen = set()
    while writer.is_alive():
        reader.refresh()
        found = tuple(reader.match({"x": 10, "y": -1}).ids)
        assert found in states
        seen.add(found)
    writer.join()
    assert writer.exitcode == 0
    reader.refresh()
    assert reader.match({"x": 10, "y": -1}).ids == children.expected_ids(commits)
    assert len(seen) > 1, "the reader saw the index change"


def test_a_reader_sees_only_committed_states(index: Path) -> None:
    check_reading_while_writing(index, 60)


@pytest.mark.slow
def test_a_reader_sees_only_committed_states_for_long(index: Path) -> None:
    check_reading_while_writing(index, 1_000)


def test_there_is_one_writer_and_a_dead_one_does_not_keep_the_lock(index: Path) -> None:
    ready, told = processes.Pipe(duplex=False)
    child = processes.Process(target=children.hold_the_lock, args=(index, told))
    child.start()
    told.close()
    pid = ready.recv()
    matcher = Matcher.open(index)
    with pytest.raises(StorageError, match=f"is being written by process {pid}"):
        matcher.subscribe("mine", "x > 1")
    child.kill()
    child.join()
    matcher.subscribe("mine", "x > 1")
    matcher.commit()
    assert list(Matcher.open(index)) == ["mine"]


def test_a_full_disk_leaves_the_last_commit_whole(index: Path) -> None:
    matcher = Matcher.open(index)
    matcher.subscribe("first", "x > 1")
    matcher.commit()
    matcher.close()
    answer, told = processes.Pipe(duplex=False)
    child = processes.Process(target=children.write_beyond_the_limit, args=(index, 50_000, told))
    child.start()
    told.close()
    error = answer.recv()
    child.join()
    assert error.startswith("StorageError: cannot write")
    assert "Free some space" in error
    verify(Folder(index))
    assert list(Matcher.open(index)) == ["first"]


def test_a_commit_of_a_few_subscriptions_is_one_file(index: Path) -> None:
    writer = Matcher.open(index, background_merge=False)
    reader = Matcher.open(index)
    kept = []
    for name in ("b", "a", "c"):
        writer.subscribe(name, "x > 1", score=2.0, weights={"x": 0.5}, tags={"tenant": name})
        writer.match({"x": 2})
        writer.commit()
        kept.append(name)
        assert {file.name.partition("-")[0] for file in index.iterdir()} == {"snapshot", "write.lock"}
        assert reader.refresh()
        assert list(reader) == sorted(kept)
        assert reader[name] == writer[name]
        assert reader.match({"x": 2}, tags={"tenant": name}).ids == [name]
    writer.unsubscribe("a")
    writer.rescore("b", 3.0)
    writer.commit()
    writer.close()
    again = Matcher.open(index, background_merge=False)
    assert {name: again[name].score for name in again} == {"b": 3.0, "c": 2.0}
    again.unsubscribe("b")
    again.subscribe("d", "x > 2")
    again.commit()
    assert reader.refresh()
    assert list(reader) == ["c", "d"]
    assert not reader.refresh()
    assert reader.match({"x": 3}).ids == ["c", "d"]


def test_many_new_subscriptions_become_a_segment(index: Path) -> None:
    matcher = Matcher.open(index, background_merge=False)
    for number in range(FEW + 1):
        matcher.subscribe(str(number), "x > 1")
    matcher.commit()
    assert len(list(index.glob("segment-*.tocsin"))) == 1
    assert len(Matcher.open(index)) == FEW + 1


def test_own_changes_are_not_overwritten_by_refresh(index: Path) -> None:
    reader = Matcher.open(index)
    reader.refresh()
    writer = Matcher.open(index)
    writer.subscribe("a", "x > 1")
    writer.commit()
    writer.subscribe("b", "x > 1")
    writer.close()
    other = Matcher.open(index)
    other.subscribe("c", "x > 1")
    other.commit()
    with pytest.raises(StorageError, match="changes of our own"):
        writer.refresh()
    assert reader.refresh()
    assert list(reader) == ["a", "c"]


def test_a_version_that_is_too_old_is_refused_by_name(index: Path) -> None:
    matcher = Matcher.open(index)
    matcher.subscribe("a", "x > 1")
    matcher.compact()
    matcher.commit()
    segment = next(index.glob("segment-*.tocsin"))
    raw = bytearray(segment.read_bytes())
    struct.pack_into("<I", raw, 8, READABLE - 1)
    segment.write_bytes(raw)
    said = f"{segment.name} has format version {READABLE - 1}, this Tocsin reads version {VERSION}"
    with pytest.raises(StorageError, match=said):
        Matcher.open(index)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.999])
def test_a_damaged_file_is_named(index: Path, place: float) -> None:
    matcher = Matcher.open(index)
    matcher.subscribe("a", "x > 1 AND has_words(body, 'holiday in milos') AND y LIKE '%a%'")
    matcher.compact()
    matcher.commit()
    segment = next(index.glob("segment-*.tocsin"))
    raw = bytearray(segment.read_bytes())
    # Bytes between arrays are padding that nothing reads: damage all around the place.
    start = int(len(raw) * place) - 40
    for offset in range(start, min(start + 80, len(raw))):
        raw[offset] ^= 0xFF
    segment.write_bytes(raw)
    with pytest.raises(StorageError, match=rf"{segment.name} is damaged"):
        verify(Folder(index))


def test_a_damaged_or_missing_snapshot_is_named(index: Path, tmp_path: Path) -> None:
    snapshot = next(index.glob("snapshot-*.json"))
    text = snapshot.read_text()
    damaged = text.replace('"predicates": 1', '"predicates": 2', 1)
    assert damaged != text
    snapshot.write_text(damaged)
    with pytest.raises(StorageError, match=f"{snapshot.name} is damaged"):
        Matcher.open(index)
    with pytest.raises(StorageError, match="there is no index in"):
        Matcher.open(tmp_path / "nowhere")


def test_a_missing_segment_is_named(index: Path) -> None:
    matcher = Matcher.open(index)
    matcher.subscribe("a", "x > 1")
    matcher.compact()
    matcher.commit()
    segment = next(index.glob("segment-*.tocsin"))
    segment.unlink()
    with pytest.raises(StorageError, match=f"lacks its file {segment.name}"):
        Matcher.open(index)


def test_a_reader_keeps_what_it_has_mapped_and_the_disk_is_reclaimed(index: Path) -> None:
    writer = Matcher.open(index, background_merge=False)
    for name in ("a", "b"):
        writer.subscribe(name, "x > 1")
        writer.commit()
    reader = Matcher.open(index)
    writer.compact()
    writer.commit()
    assert len(list(index.glob("segment-*.tocsin"))) == 1, "the merged segments are gone from the folder"
    assert reader.match({"x": 2}).ids == ["a", "b"], "and still there for who has them mapped"


RECORD = "price > ALL (SELECT price FROM history)"


def saved(path: Path, id: str) -> Matcher:
    matcher = Matcher(background_merge=False)
    matcher.subscribe(id, "x > 1")
    matcher.save(path)
    return matcher


def refuse(*_: object, **__: object) -> None:
    raise StorageError("cannot write it: no space left on device")


def test_another_working_directory_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    matcher = saved(Path("idx"), "mine")
    (tmp_path / "elsewhere").mkdir()
    saved(tmp_path / "elsewhere" / "idx", "other").close()
    reader = Matcher.open("idx")
    monkeypatch.chdir(tmp_path / "elsewhere")
    matcher.subscribe("later", "x > 1")
    matcher.publish({"x": 1})
    matcher.commit()
    assert reader.refresh()
    assert list(reader) == list(Matcher.open(tmp_path / "idx")) == ["later", "mine"]
    verify(Folder(tmp_path / "elsewhere" / "idx"))
    assert list(Matcher.open("idx")) == ["other"]


def test_a_second_writer_after_the_lock_was_removed(index: Path) -> None:
    """Whoever comes second fails, and the index stays whole."""
    first = Matcher.open(index, background_merge=False)
    first.subscribe("record", RECORD)
    first.publish({"price": 10})
    first.commit()
    first.subscribe("first", "x > 1")
    (index / "write.lock").unlink()
    second = Matcher.open(index, background_merge=False)
    second.subscribe("second", "x > 1")
    second.compact()
    assert second.publish({"price": 20}).ids == ["record"]
    for change in (
        lambda: first.publish({"price": 30}),
        lambda: first.subscribe("more", "x > 1"),
        first.compact,
        first.commit,
    ):
        with pytest.raises(StorageError, match=r"write\.lock was removed or replaced: another process may be writing"):
            change()
        second.commit()
        verify(Folder(index))
    assert list(Matcher.open(index)) == ["record", "second"]
    assert Matcher.open(index).match({"price": 19}).ids == []
    first.save(index.parent / "other")
    assert list(Matcher.open(index.parent / "other")) == ["first", "record"], "the way out"


def test_an_index_that_was_removed_is_written_anew(index: Path) -> None:
    matcher = Matcher.open(index, background_merge=False)
    matcher.subscribe("a", "x > 1")
    matcher.commit()
    matcher.close()
    shutil.rmtree(index)
    matcher.subscribe("b", "x > 1")
    matcher.commit()
    verify(Folder(index))
    assert list(Matcher.open(index)) == ["a", "b"]


def test_no_snapshot_names_a_file_that_is_gone(index: Path) -> None:
    matcher = Matcher.open(index, background_merge=False)
    matcher.subscribe("a", "x > 1")
    matcher.compact()
    matcher.commit()
    segment = next(index.glob("segment-*.tocsin"))
    content = segment.read_bytes()
    segment.unlink()
    matcher.subscribe("b", "x > 1")
    with pytest.raises(StorageError, match=f"lacks its file {segment.name}"):
        matcher.commit()
    segment.write_bytes(content)
    assert list(Matcher.open(index)) == ["a"]
    matcher.commit()
    assert list(Matcher.open(index)) == ["a", "b"]


def test_what_a_dead_writer_left_is_removed_by_the_next(index: Path) -> None:
    for name in ("segment-0a.tocsin", ".segment-0b.tocsin.4711", "changes-0c.tocsin", ".snapshot-000009.json.4711"):
        (index / name).write_text("")
    (index / ".history-000009").mkdir()
    matcher = Matcher.open(index, background_merge=False)
    matcher.subscribe("a", "x > 1")
    matcher.compact()
    matcher.commit()
    named = {name.split("-")[0] for name in os.listdir(index)}
    assert named == {"segment", "snapshot", "write.lock"}
    assert len(os.listdir(index)) == 3


def test_a_history_that_cannot_be_committed_leaves_a_snapshot_that_counts(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = Matcher.open(index, background_merge=False), Matcher.open(index)
    writer.subscribe("record", RECORD)
    writer.publish({"price": 10})
    with monkeypatch.context() as full:
        full.setattr(HistoryStore, "commit", refuse)
        with pytest.raises(StorageError, match="no space left"):
            writer.commit()
    assert reader.refresh()
    assert list(reader) == ["record"]
    writer.subscribe("b", "x > 1")
    writer.commit()
    assert reader.refresh(), "the next commit has the next number"
    assert list(reader) == ["b", "record"]
    assert reader.match({"price": 9}).ids == [], "and the history with it"
    verify(Folder(index))


@pytest.mark.parametrize("failing", ["tocsin.index.commit.container.write", "Folder.commit", "HistoryStore.commit"])
@pytest.mark.parametrize("there", [True, False])
def test_a_failed_save_changes_neither_folder(
    tmp_path: Path, failing: str, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = saved(tmp_path / "a", "mine")
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10})
    matcher.commit()
    if there:
        other = saved(tmp_path / "b", "other")
        other.subscribe("record", RECORD)
        other.publish({"price": 5})
        other.commit()
        other.close()
    before = sorted((tmp_path / "b").rglob("*"))
    with monkeypatch.context() as full:
        owners = {"Folder.commit": Folder, "HistoryStore.commit": HistoryStore}
        if failing in owners:
            full.setattr(owners[failing], "commit", refuse)
        else:
            full.setattr(failing, refuse)
        with pytest.raises(StorageError, match="no space left"):
            matcher.save(tmp_path / "b")
    if there:
        assert sorted((tmp_path / "b").rglob("*")) == before
        verify(Folder(tmp_path / "b"))
        assert list(Matcher.open(tmp_path / "b")) == ["other", "record"]
        assert Matcher.open(tmp_path / "b").match({"price": 9}).ids == ["record"], "its own history"
    else:
        assert os.listdir(tmp_path / "b") == ["write.lock"]
    with pytest.raises(StorageError, match="is being written by process"):
        Matcher.open(tmp_path / "a").subscribe("foreign", "x > 1")
    matcher.subscribe("later", "x > 1")
    assert matcher.publish({"price": 9}).ids == []
    matcher.commit()
    verify(Folder(tmp_path / "a"))
    assert list(Matcher.open(tmp_path / "a")) == ["later", "mine", "record"]
    assert len(Matcher.open(tmp_path / "a").history) == 2
    matcher.save(tmp_path / "b")
    assert list(Matcher.open(tmp_path / "b")) == ["later", "mine", "record"]
    assert Matcher.open(tmp_path / "b").match({"price": 9}).ids == []


def test_a_matcher_that_is_saved_over_another_brings_its_own_history(tmp_path: Path) -> None:
    for history in (True, False):
        other = saved(tmp_path / "index", "other")
        other.publish({"price": 50})
        other.commit()
        other.close()
        matcher = Matcher(background_merge=False)
        matcher.subscribe("record", RECORD)
        if history:
            matcher.publish({"price": 10})
        matcher.save(tmp_path / "index")
        assert matcher.publish({"price": 20}).ids == ["record"], "the history of the other is gone"
        matcher.commit()
        matcher.close()
        assert Matcher.open(tmp_path / "index").match({"price": 19}).ids == []
        assert len(Matcher.open(tmp_path / "index").history) == 1 + history


def test_a_writer_that_died_after_its_snapshot_has_put_its_history_in_place(tmp_path: Path) -> None:
    """The moment between the snapshot and the renaming of the new history."""
    for path, price in ((tmp_path / "index", 50), (tmp_path / "new", 10)):
        matcher = Matcher(background_merge=False)
        matcher.subscribe("record", RECORD)
        matcher.publish({"price": price})
        matcher.save(path)
        matcher.close()
    (tmp_path / "new" / "history").rename(tmp_path / "index" / ".history-000001")
    assert Matcher.open(tmp_path / "index").match({"price": 20}).ids == ["record"]
    again = Matcher.open(tmp_path / "index", background_merge=False)
    assert [again.publish({"price": price}).ids for price in (20, 15)] == [["record"], []]
    again.commit()
    assert not (tmp_path / "index" / ".history-000001").exists()
    assert Matcher.open(tmp_path / "index").match({"price": 21}).ids == ["record"]


def test_a_pipe_in_place_of_any_file_is_refused_at_once(index: Path, tmp_path: Path) -> None:
    matcher = Matcher.open(index, background_merge=False)
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10, "author": "Smith"})
    matcher.compact()
    matcher.commit()
    matcher.rescore("record", 2.0)
    matcher.commit()
    matcher.close()
    files = [file for file in index.rglob("*") if file.is_file() and file.name != "write.lock"]
    assert len(files) == 7, "a snapshot, a segment, changes; of the history the record, a column and the log of events"
    for file in files:
        shutil.copytree(index, tmp_path / "bad")
        bad = tmp_path / "bad" / file.relative_to(index)
        bad.unlink()
        os.mkfifo(bad)
        with pytest.raises(StorageError, match=file.name):
            Matcher.open(tmp_path / "bad").match({"price": 10})
        with pytest.raises(StorageError, match=file.name):
            Matcher.open(tmp_path / "bad").publish({"price": 10})
        shutil.rmtree(tmp_path / "bad")
