"""The folder of an index: the newest snapshot counts, what it does not name goes, one writer at a time."""

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tocsin.errors import StorageError
from tocsin.storage.container import VERSION
from tocsin.storage.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def names(folder: Folder) -> set[str]:
    return {file.name for file in folder.path.iterdir()}


def commit(folder: Folder, number: int, content: dict[str, Any], files: Sequence[str] = ()) -> None:
    """What a writer does."""
    folder.lock()
    folder.commit(number, content, files)
    folder.clean()


def test_a_folder_without_snapshots_has_no_newest(folder: Folder) -> None:
    assert folder.newest() is None
    assert Folder(folder.path / "missing").newest() is None


@pytest.mark.parametrize("number", [1, 999_999, 1_000_000, 12_345_678])
def test_the_highest_number_counts(folder: Folder, number: int) -> None:
    (folder.path / "snapshot-000000.json").write_text("{}")
    content = {"parts": [{"segment": "segment-0a.tocsin", "changes": None}], "options": {"prefix": "é"}}
    commit(folder, number, content)
    assert folder.newest() == number
    assert folder.read(number).items() >= content.items()
    assert names(folder) == {f"snapshot-{number:06}.json", "write.lock"}


def test_a_commit_removes_what_it_does_not_name_and_nothing_of_others(folder: Folder) -> None:
    ours = {"segment-0a.tocsin", "segment-0b.tocsin", "changes-0c.tocsin", ".segment-0d.tocsin.4711"}
    others = {"notes.txt", "segment.txt", "write.lock", "my-segment-0a.tocsin"}
    for name in ours | others:
        (folder.path / name).write_text("")
    (folder.path / "history").mkdir()
    commit(folder, 7, {}, ["segment-0a.tocsin"])
    assert names(folder) == {"segment-0a.tocsin", "snapshot-000007.json", "history"} | others


def damage(folder: Folder, change: dict[str, Any] | str) -> None:
    commit(folder, 1, {"parts": []})
    path = folder.path / "snapshot-000001.json"
    if isinstance(change, str):
        path.write_text(change)
    else:
        document = json.loads(path.read_text())
        document["content"] |= change
        path.write_text(json.dumps(document))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"content": {}}', "null"])
def test_what_is_no_snapshot_is_named(folder: Folder, text: str) -> None:
    damage(folder, text)
    with pytest.raises(StorageError, match=r"snapshot-000001\.json is damaged: it is not a snapshot"):
        folder.read(1)


def test_a_changed_snapshot_is_named(folder: Folder) -> None:
    damage(folder, {"parts": [1]})
    with pytest.raises(StorageError, match=r"snapshot-000001\.json is damaged: it does not match its checksum"):
        folder.read(1)


def test_bytes_that_are_no_text_are_named(folder: Folder) -> None:
    damage(folder, "")
    (folder.path / "snapshot-000001.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StorageError, match=r"snapshot-000001\.json is damaged"):
        folder.read(1)


def test_another_version_is_refused_by_number(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr("tocsin.storage.folder.VERSION", 0)
        commit(folder, 1, {"parts": []})
    said = rf"snapshot-000001\.json has format version 0, .* {VERSION}\. Run `tocsin index upgrade {folder.path}`"
    with pytest.raises(StorageError, match=said):
        folder.read(1)
    assert folder.read(1, oldest=0)["version"] == 0


def test_a_snapshot_that_is_gone_is_told_apart(folder: Folder) -> None:
    with pytest.raises(FileNotFoundError):
        folder.read(1)


def test_there_is_one_writer(folder: Folder) -> None:
    assert folder.lock(), "it was free"
    assert not folder.lock(), "we have it already"
    other = Folder(folder.path)
    with pytest.raises(StorageError, match=f"is being written by process {os.getpid()}"):
        other.lock()
    folder.unlock()
    folder.unlock()
    assert other.lock()
    other.unlock()


def test_the_lock_makes_the_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a" / "b")
    assert folder.lock()
    folder.unlock()
    assert names(folder) == {"write.lock"}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write to .*file/index"):
        Folder(tmp_path / "file" / "index").lock()


def test_a_snapshot_replaces_no_other(folder: Folder) -> None:
    commit(folder, 1, {"parts": [], "mine": True})
    for number in (1, 0):
        with pytest.raises(StorageError, match="was committed by another process, as snapshot 1"):
            folder.commit(number, {"parts": []}, [])
    with pytest.raises(StorageError, match=r"snapshot-000001\.json exists already"):
        folder.write(1, {"parts": []})
    assert folder.read(1)["mine"]
    assert names(folder) == {"snapshot-000001.json", "write.lock"}


def test_a_number_that_another_writer_has_used_and_removed_is_not_used_again(folder: Folder) -> None:
    """Both began at snapshot 5: the other has made 6 and 7 when we make 6."""
    commit(folder, 5, {"parts": []}, ["segment-0a.tocsin"])

    class Late(Folder):
        def write(self, number: int, content: dict[str, Any]) -> None:
            (self.path / "snapshot-000007.json").write_text("{}")
            super().write(number, content)

    folder.unlock()
    late = Late(folder.path)
    late.lock()
    with pytest.raises(StorageError, match="was committed by another process, as snapshot 7"):
        late.commit(6, {"parts": []}, [])
    assert names(folder) == {"snapshot-000005.json", "snapshot-000007.json", "write.lock"}


def test_an_interrupted_commit_leaves_no_snapshot(folder: Folder) -> None:
    class Interrupted(Folder):
        def write(self, number: int, content: dict[str, Any]) -> None:
            super().write(number, content)
            raise KeyboardInterrupt

    interrupted = Interrupted(folder.path)
    interrupted.lock()
    with pytest.raises(KeyboardInterrupt):
        interrupted.commit(1, {"parts": []}, [])
    assert folder.newest() is None


def test_a_writer_removes_nothing_that_came_from_elsewhere_since_it_took_the_lock(folder: Folder) -> None:
    (folder.path / "segment-0a.tocsin").write_text("left behind by a writer that died")
    folder.lock()
    own = folder.new_name("segment")
    for name in (own, "segment-0b.tocsin", "changes-0b.tocsin", "snapshot-000000.json"):
        (folder.path / name).write_text("")
    commit(folder, 1, {"parts": []})
    assert names(folder) == {
        *("snapshot-000001.json", "write.lock"),
        *("segment-0b.tocsin", "changes-0b.tocsin", "snapshot-000000.json"),
    }


@pytest.mark.parametrize("other_writes", [True, False])
def test_a_lock_whose_file_was_removed_is_none(folder: Folder, other_writes: bool) -> None:
    folder.lock()
    (folder.path / "write.lock").unlink()
    other = Folder(folder.path)
    if other_writes:
        assert other.lock()
    for use in (folder.lock, lambda: folder.commit(1, {"parts": []}, [])):
        with pytest.raises(StorageError, match=r"write\.lock was removed or replaced"):
            use()
    assert folder.newest() is None
    folder.unlock()
    other.unlock()


def test_a_commit_needs_the_lock(folder: Folder) -> None:
    with pytest.raises(StorageError, match="is not locked by this process"):
        folder.commit(1, {"parts": []}, [])


def test_a_folder_stays_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Folder(Path("index"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    commit(folder, 1, {"parts": []})
    assert not list((tmp_path / "elsewhere").iterdir())
    assert Folder(tmp_path / "index").newest() == 1


def test_the_lock_follows_no_symbolic_link(folder: Folder, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    (folder.path / "write.lock").symlink_to(victim)
    with pytest.raises(StorageError, match=r"write\.lock is a symbolic link"):
        folder.lock()
    assert victim.read_text() == "precious"


def test_what_is_no_file_is_no_lock(folder: Folder) -> None:
    os.mkfifo(folder.path / "write.lock")
    with pytest.raises(StorageError, match=r"write\.lock is not a regular file"):
        folder.lock()


@pytest.mark.parametrize("kind", ["segment", "changes"])
@pytest.mark.parametrize(
    "name", ["../segment-0a.tocsin", "/tmp/segment-0a.tocsin", "a/segment-0a.tocsin", "..", "", "notes.txt", 7, ["x"]]
)
def test_a_snapshot_names_files_of_its_folder_only(folder: Folder, kind: str, name: object) -> None:
    content = {"parts": [{"segment": "segment-0a.tocsin", "changes": None} | {kind: name}], "version": VERSION}
    crc = zlib.crc32(json.dumps(content, sort_keys=True).encode())
    (folder.path / "snapshot-000001.json").write_text(json.dumps({"content": content, "crc": crc}))
    with pytest.raises(StorageError, match="which is not a file of an index"):
        folder.read(1)


@pytest.mark.parametrize("number", [1, 12])
def test_a_new_history_takes_its_place_with_the_snapshot_that_it_belongs_to(folder: Folder, number: int) -> None:
    for name in ("history", f".history-{number:06}", ".history-000099"):
        (folder.path / name).mkdir()
        (folder.path / name / name).write_text("")
    assert folder.history(number - 1) == folder.path / "history"
    assert folder.history(number) == folder.path / f".history-{number:06}"
    assert folder.settle_history(number) == folder.history(number) == folder.path / "history"
    assert [file.name for file in (folder.path / "history").iterdir()] == [f".history-{number:06}"]
    assert names(folder) == {"history"}
