"""The folder of an index: the newest snapshot counts, what it does not name goes, one writer at a time."""

import json
import os
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


def test_a_folder_without_snapshots_has_no_newest(folder: Folder) -> None:
    assert folder.newest() is None
    assert Folder(folder.path / "missing").newest() is None


@pytest.mark.parametrize("number", [1, 999_999, 1_000_000, 12_345_678])
def test_the_highest_number_counts(folder: Folder, number: int) -> None:
    (folder.path / "snapshot-000000.json").write_text("{}")
    content = {"parts": [{"segment": "é", "subscriptions": 3}], "options": {}}
    folder.commit(number, content, [])
    assert folder.newest() == number
    assert folder.read(number)["parts"] == content["parts"]
    assert names(folder) == {f"snapshot-{number:06}.json"}


def test_a_commit_removes_what_it_does_not_name_and_nothing_of_others(folder: Folder) -> None:
    ours = {"segment-0a.tocsin", "segment-0b.tocsin", "changes-0c.tocsin", ".segment-0d.tocsin.4711"}
    others = {"notes.txt", "segment.txt", "write.lock", "my-segment-0a.tocsin"}
    for name in ours | others:
        (folder.path / name).write_text("")
    (folder.path / "history").mkdir()
    folder.commit(7, {}, ["segment-0a.tocsin"])
    assert names(folder) == {"segment-0a.tocsin", "snapshot-000007.json", "history"} | others


def damage(folder: Folder, change: dict[str, Any] | str) -> None:
    folder.commit(1, {"parts": []}, [])
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
    with pytest.raises(StorageError, match=r"snapshot-000001\.json is damaged: it is no snapshot"):
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
        folder.commit(1, {}, [])
    with pytest.raises(
        StorageError, match=rf"snapshot-000001\.json has format version 0, this Tocsin reads version {VERSION}"
    ):
        folder.read(1)


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
