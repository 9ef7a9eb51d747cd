"""Views of an index, without Spark: one snapshot, whatever is committed later; or a share of it."""

import errno
import os
from pathlib import Path

import pytest

from tocsin.engine.matcher import Matcher
from tocsin.errors import StorageError
from tocsin.spark.views import pin


@pytest.fixture
def writer(tmp_path: Path) -> Matcher:
    matcher = Matcher(background_merge=False)
    matcher.subscribe("low", "price < 10")
    matcher.save(tmp_path / "index")
    return matcher


def ids(path: Path) -> list[str]:
    return list(Matcher.open(path, background_merge=False))


def test_a_view_outlives_the_files_of_its_snapshot(writer: Matcher, tmp_path: Path) -> None:
    index = tmp_path / "index"
    view = pin(index, "me")
    writer.subscribe("high", "price > 10")
    writer.merge()
    writer.commit()
    linked = {file.name for file in view.path.glob("segment-*")}
    assert linked
    assert not linked & {file.name for file in index.glob("segment-*")}
    assert (ids(view.path), view.snapshot) == (["low"], 1)
    assert Matcher.open(view.path).match({"price": 5}).ids == ["low"]


def test_views_follow_the_commits_and_older_ones_of_the_same_owner_go(writer: Matcher, tmp_path: Path) -> None:
    index = tmp_path / "index"
    first, other = pin(index, "me"), pin(index, "you")
    assert pin(index, "me") == first
    writer.unsubscribe("low")
    writer.subscribe("high", "price > 10")
    writer.commit()
    second = pin(index, "me")
    assert (ids(second.path), second.snapshot) == (["high"], 2)
    assert not first.path.exists()
    assert ids(other.path) == ["low"]
    assert sorted(path.name for path in (index / "views").iterdir()) == ["me-000002", "you-000001"]


def test_a_folder_without_an_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no index in"):
        pin(tmp_path, "me")


def test_where_there_are_no_hard_links_files_are_copied(
    writer: Matcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "not permitted", str(source), None, str(target))

    monkeypatch.setattr(os, "link", refuse)
    view = pin(tmp_path / "index", "me")
    writer.unsubscribe("low")
    writer.commit()
    assert ids(view.path) == ["low"]
