"""Ids that are read without the library are those of the index, after every kind of change."""

from pathlib import Path

import pytest

from tocsin import Matcher, StorageError
from tocsin.index import stored_ids as module
from tocsin.index.stored_ids import stored_ids
from tocsin.storage import container
from tocsin.storage.container import Container
from tocsin.storage.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index with segments, dropped subscriptions, and fresh ones in its snapshot."""
    path = tmp_path / "index"
    with Matcher() as matcher:
        matcher.subscribe_many([{"id": f"many {number}", "where": f"price < {number}"} for number in range(200)])
        matcher.save(path)
    with Matcher.open(path, mode="write") as writer:
        writer.unsubscribe("many 7")
        writer.subscribe("fresh ü", "price > 3")
        writer.commit()
    return path


def test_ids_are_those_of_the_index(folder: Path) -> None:
    """Dropped ones are not there, those in the snapshot are."""
    ids = stored_ids(Folder(folder))
    assert ids is not None
    assert sorted(ids) == sorted(Matcher.open(folder))
    assert "many 7" not in ids
    assert "fresh ü" in ids


def test_a_huge_index_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks opens it instead."""
    monkeypatch.setattr(module, "MOST_READ", 100)
    assert stored_ids(Folder(folder)) is None


def test_damage_is_named(folder: Path) -> None:
    """A flipped byte among the ids is found by its checksum."""
    segment = next(folder.glob("segment-*"))
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b"many 100", b"many \xff00", 1))
    with pytest.raises(StorageError, match=segment.name):
        stored_ids(Folder(folder))


def test_changes_that_do_not_say_what_was_dropped_are_named(folder: Path) -> None:
    """A file with a right checksum that is not what it should be."""
    changes = next(folder.glob("changes-*"))
    changes.unlink()
    container.write(changes, Container({}, {}))
    with pytest.raises(StorageError, match=changes.name):
        stored_ids(Folder(folder))
