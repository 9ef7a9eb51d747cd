"""What is committed survives: kills, full disks, damaged files, other versions; one writer, many readers."""

import multiprocessing
import random
import struct
import time
from pathlib import Path

import pytest

import children
from tocsin import Matcher, StorageError
from tocsin.index.commit import verify
from tocsin.storage.container import VERSION
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


def test_an_older_version_is_refused_by_name(index: Path) -> None:
    matcher = Matcher.open(index)
    matcher.subscribe("a", "x > 1")
    matcher.commit()
    segment = next(index.glob("segment-*.tocsin"))
    raw = bytearray(segment.read_bytes())
    struct.pack_into("<I", raw, 8, VERSION - 1)
    segment.write_bytes(raw)
    said = f"{segment.name} has format version {VERSION - 1}, this Tocsin reads version {VERSION}"
    with pytest.raises(StorageError, match=said):
        Matcher.open(index)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.999])
def test_a_damaged_file_is_named(index: Path, place: float) -> None:
    matcher = Matcher.open(index)
    matcher.subscribe("a", "x > 1 AND has_words(body, 'holiday in milos') AND y LIKE '%a%'")
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
    snapshot.write_text(snapshot.read_text().replace('"max_conjunctions": 4096', '"max_conjunctions": 4097'))
    with pytest.raises(StorageError, match=f"{snapshot.name} is damaged"):
        Matcher.open(index)
    with pytest.raises(StorageError, match="there is no index in"):
        Matcher.open(tmp_path / "nowhere")


def test_a_missing_segment_is_named(index: Path) -> None:
    matcher = Matcher.open(index)
    matcher.subscribe("a", "x > 1")
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
