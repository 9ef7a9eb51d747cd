"""Views of an index, without Spark: one snapshot, whatever is committed later; or a share of it."""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.errors import StorageError
from tocsin.matcher import Matcher
from tocsin.spark._placement import lease
from tocsin.spark._placement.lease import EXPIRY_SECONDS
from tocsin.spark._placement.ship import fingerprint
from tocsin.spark._placement.snapshot_dir import drop_older, pin, share
from tocsin.storage.folder import Folder


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
    writer.compact()
    writer.commit()
    linked = {file.name for file in view.path.glob("segment-*")}
    assert linked
    assert not linked & {file.name for file in index.glob("segment-*")}
    assert (ids(view.path), view.snapshot) == (["low"], 1)
    assert Matcher.open(view.path).match({"price": 5}).ids == ["low"]


def test_views_follow_the_commits_and_older_ones_for_the_same_purpose_can_go(writer: Matcher, tmp_path: Path) -> None:
    index = tmp_path / "index"
    first, other = pin(index, "me"), pin(index, "you")
    assert pin(index, "me") == first
    shares = share(first, [Folder(first.path).read(1)["parts"], []])
    assert [ids(view.path) for view in shares] == [["low"], []]
    writer.unsubscribe("low")
    writer.subscribe("high", "price > 10")
    writer.commit()
    second = pin(index, "me")
    assert (ids(second.path), second.snapshot) == (["high"], 2)
    assert ids(first.path) == ["low"]
    drop_older(second)
    assert not any(view.path.exists() for view in (first, *shares))
    assert (ids(second.path), ids(other.path)) == (["high"], ["low"])


@pytest.mark.usefixtures("writer")
def test_what_is_pinned_again_looks_the_same(tmp_path: Path) -> None:
    """Otherwise a job would ship the index once more."""
    view = pin(tmp_path / "index", "again")
    (shared,) = share(view, [Folder(view.path).read(1)["parts"]])
    seen = [fingerprint(path) for path in (view.path, shared.path)]
    for path in (view.path, shared.path):
        shutil.rmtree(path)
    time.sleep(0.01)
    again = pin(tmp_path / "index", "again")
    (shared,) = share(again, [Folder(again.path).read(1)["parts"]])
    assert [fingerprint(path) for path in (again.path, shared.path)] == seen


LEAVE = """
import os, sys
from pathlib import Path
from tocsin.spark._placement.snapshot_dir import drop_older, pin, share
print(pin(Path(sys.argv[1])).path, flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
elif sys.argv[2] == "forks and is killed":
    if os.fork():
        os.kill(os.getpid(), 9)
    print("the child runs", flush=True)
    sys.stdin.read()
elif sys.argv[2] == "lives":
    sys.stdin.read()
"""


@contextlib.contextmanager
def other_process(index: Path, end: str) -> Iterator[Path]:
    """A process that views the index and ends in one way or another, or lives on; yields its view."""
    with subprocess.Popen(
        [sys.executable, "-c", LEAVE, str(index), end], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        if end != "lives":
            process.wait()
        if end == "forks and is killed":
            process.stdout.readline()  # the child lets go of what its parent held before it says so
        yield path


@pytest.mark.usefixtures("writer")
def test_what_a_killed_process_has_left_goes_and_what_a_living_one_needs_stays(tmp_path: Path) -> None:
    index = tmp_path / "index"
    with other_process(index, "returns") as view:
        assert not view.exists()
    with other_process(index, "killed") as killed, other_process(index, "lives") as needed:
        assert not killed.exists(), "the next process has removed it"
        assert ids(needed) == ["low"]
        pin(index)
        assert ids(needed) == ["low"]
        assert len(list((index / "views").glob("*.lock"))) == 2


@pytest.mark.usefixtures("writer")
def test_a_child_that_lives_on_keeps_no_views_of_its_parent(tmp_path: Path) -> None:
    index = tmp_path / "index"
    with other_process(index, "forks and is killed") as killed:
        pin(index)
        assert not killed.exists()


@pytest.mark.usefixtures("writer")
def test_a_pipe_among_the_locks_is_passed_over(tmp_path: Path) -> None:
    views = tmp_path / "index" / "views"
    views.mkdir()
    os.mkfifo(views / "0a.lock")
    assert ids(pin(tmp_path / "index").path) == ["low"]
    assert (views / "0a.lock").exists()


def test_a_view_of_a_snapshot_that_names_files_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    index = Folder(tmp_path / "index")
    index.path.mkdir()
    index.write(1, {"parts": [{"segment": "../secret", "changes": None, "subscriptions": 1}], "options": {}})
    with pytest.raises(StorageError, match=r"names '\.\./secret', which is not a file of an index"):
        pin(index.path)


@pytest.mark.usefixtures("writer")
def test_what_a_process_of_another_host_owns_stays_until_its_lease_expires(tmp_path: Path) -> None:
    index = tmp_path / "index"
    with other_process(index, "killed") as killed:
        (lock,) = (index / "views").glob("*.lock")
        lock.write_text("elsewhere 1\n")
        pin(index)
        assert killed.exists(), "it may live"
    with other_process(index, "returns"):
        assert killed.exists()
    long_ago = time.time() - EXPIRY_SECONDS - 1
    os.utime(lock, (long_ago, long_ago))
    with other_process(index, "returns"):
        assert not killed.exists(), "it has not renewed its lease"
        assert not lock.exists()


@pytest.mark.usefixtures("writer")
def test_a_process_renews_its_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(lease, "_beating", [])
    view = pin(tmp_path / "index", "renewed")
    lock = view.path.parent / f"{view.path.name.partition('-')[0]}.lock"
    os.utime(lock, (0, 0))
    deadline = time.monotonic() + 60
    while lock.stat().st_mtime == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert lock.stat().st_mtime > 0


@pytest.mark.usefixtures("writer")
def test_an_index_that_cannot_be_written_is_its_own_view_unless_one_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise OSError(errno.EROFS, "read-only file system", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert pin(tmp_path / "index", required=False).path == tmp_path / "index"
    with pytest.raises(StorageError, match=r"cannot write to .*views: read-only file system"):
        pin(tmp_path / "index")


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
