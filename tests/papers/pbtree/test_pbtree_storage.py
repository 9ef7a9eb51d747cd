"""The file under a PB+tree: commit, rollback, recovery, damage, a full disk."""

import errno
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tocsin.errors import OptionError, StorageError
from tocsin.papers.pbtree import PBPlusTree

NewTree = Callable[..., PBPlusTree]
Predicate = tuple[str, Any, int]
OPS = ["<", "<=", "=", "!=", ">=", ">"]


def some(count: int, start: int = 0) -> list[Predicate]:
    return [(OPS[i % 6], (i * 37) % 101, i // 3) for i in range(start, start + count)]


def add(tree: PBPlusTree, predicates: list[Predicate]) -> None:
    for predicate in predicates:
        tree.insert(*predicate)


def content(path: Path) -> set[Predicate]:
    with PBPlusTree.open(path) as tree:
        tree.check()
        return set(tree.predicates())


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "t.pbt"


@pytest.fixture
def filled(new_tree: NewTree, path: Path) -> Path:
    """A closed tree of 300 predicates with free pages and overflown sets."""
    tree = new_tree(path=path)
    add(tree, some(300))
    tree.insert_many("=", np.full(100, 5), np.arange(1000, 1100))
    for predicate in some(270):
        tree.delete(*predicate)
    tree.commit()
    assert tree.statistics.free_pages > 0
    tree.close()
    return path


def test_close_drops_what_is_not_committed(new_tree: NewTree, path: Path) -> None:
    tree = new_tree(path=path)
    add(tree, some(50))
    tree.commit()
    add(tree, some(200, start=50))
    assert tree.statistics.log_bytes > 0, "the small cache has sent uncommitted pages to the log"
    tree.close()
    assert content(path) == set(some(50))
    assert not path.with_name("t.pbt.log").exists()


def test_rollback_returns_to_the_last_commit(new_tree: NewTree) -> None:
    tree = new_tree()
    add(tree, some(50))
    tree.commit()
    add(tree, some(200, start=50))
    tree.rollback()
    tree.check()
    assert set(tree.predicates()) == set(some(50))
    add(tree, some(10, start=70))
    tree.commit()
    assert set(tree.predicates()) == set(some(50)) | set(some(10, start=70))


def test_a_commit_whose_pages_all_went_to_the_log_early(new_tree: NewTree, path: Path) -> None:
    """Counts are as before and no changed page is left in the cache; there is something to commit nevertheless."""
    tree = new_tree(path=path)
    add(tree, [(">", key, 1) for key in range(300)])
    tree.commit()
    assert tree.delete(">", 0, 1)
    assert tree.insert(">", 0, 2)
    for key in range(300):
        tree.search(key)
    tree.commit()
    tree.rollback()
    assert (">", 0, 2) in set(tree.predicates())


def test_the_cache_is_bounded(new_tree: NewTree) -> None:
    tree = new_tree(cache_bytes=20 * 512)
    add(tree, some(600))
    assert tree.statistics.pages > 25
    assert tree.statistics.cache_bytes <= 20 * 512
    tree.commit()
    for value in range(101):
        tree.search(value)
    assert tree.statistics.cache_bytes <= 20 * 512


def test_checkpoints_keep_the_log_short(new_tree: NewTree) -> None:
    tree = new_tree(log_bytes=20_000)
    for start in range(0, 600, 20):
        add(tree, some(20, start))
        tree.commit()
        assert tree.statistics.log_bytes <= 20_000
    tree.check()


def test_checkpoint_refuses_uncommitted_changes(new_tree: NewTree) -> None:
    tree = new_tree()
    add(tree, some(1))
    with pytest.raises(StorageError, match="uncommitted changes"):
        tree.checkpoint()
    tree.commit()
    tree.checkpoint()
    assert tree.statistics.log_bytes == 0


def test_a_log_cut_anywhere_gives_one_of_the_commits(new_tree: NewTree, path: Path, folder: Path) -> None:
    tree = new_tree(path=path, log_bytes=1 << 30)
    commits: list[set[Predicate]] = [set()]
    for start in (0, 5, 10, 15):
        add(tree, some(5, start))
        tree.commit()
        commits.append(commits[-1] | set(some(5, start)))
    log = path.with_name("t.pbt.log").read_bytes()
    left = []
    for length in [*range(0, len(log), 61), len(log)]:
        copy = folder / "copy.pbt"
        shutil.copy(path, copy)
        copy.with_name("copy.pbt.log").write_bytes(log[:length])
        left.append(commits.index(content(copy)))
    assert left == sorted(left), "a longer log holds no fewer commits"
    assert set(left) == {0, 1, 2, 3, 4}


def test_a_damaged_log_is_refused(new_tree: NewTree, path: Path, folder: Path) -> None:
    """Damage before the last commit is refused; damage in it is a commit that was never finished."""
    tree = new_tree(path=path, log_bytes=1 << 30)
    ends = []
    for start in (0, 5, 10):
        add(tree, some(5, start))
        tree.commit()
        ends.append(tree.statistics.log_bytes)
    log = path.with_name("t.pbt.log").read_bytes()
    copy = folder / "copy.pbt"

    def damage(place: int) -> None:
        shutil.copy(path, copy)
        damaged = bytearray(log)
        damaged[place] ^= 1
        copy.with_name("copy.pbt.log").write_bytes(damaged)

    for place in (0, 20, 40, 100, ends[0] - 1, ends[0], ends[0] + 100, ends[1] - 530, ends[1] - 1):
        damage(place)
        with pytest.raises(StorageError, match=r"(header|frame \d+) of .*copy.pbt.log is damaged, and commits follow"):
            PBPlusTree.open(copy)
    for place in (ends[1], ends[1] + 100, ends[2] - 1):
        damage(place)
        assert content(copy) == set(some(10))


def test_the_log_of_another_tree_is_refused(new_tree: NewTree, path: Path, folder: Path) -> None:
    tree = new_tree(path=path)
    add(tree, some(5))
    tree.commit()
    other = folder / "other.pbt"
    new_tree(path=other).close()
    shutil.copy(path.with_name("t.pbt.log"), other.with_name("other.pbt.log"))
    with pytest.raises(StorageError, match="is not the log of this tree"):
        PBPlusTree.open(other)


def test_a_flipped_bit_is_refused_and_its_page_named(filled: Path) -> None:
    sound = filled.read_bytes()
    rng = np.random.default_rng(3)
    pages = len(sound) // 512
    for place in [*(page * 512 + int(rng.integers(512)) for page in range(pages)), *rng.integers(len(sound), size=100)]:
        damaged = bytearray(sound)
        damaged[place] ^= 1 << int(rng.integers(8))
        filled.write_bytes(damaged)
        with pytest.raises(StorageError, match=rf"page {place // 512} of .*t.pbt is damaged"):
            content(filled)


def test_a_truncated_file_is_refused_and_its_page_named(filled: Path) -> None:
    sound = filled.read_bytes()
    for length in (len(sound) - 1, len(sound) - 512, 5 * 512 + 100, 512):
        filled.write_bytes(sound[:length])
        with pytest.raises(StorageError, match=rf"truncated: page {length // 512} of {len(sound) // 512} is missing"):
            PBPlusTree.open(filled)
    for length in (0, 10, 100):
        filled.write_bytes(sound[:length])
        with pytest.raises(StorageError, match=r"page 0 of .* is damaged"):
            PBPlusTree.open(filled)


def test_a_page_in_the_place_of_another_is_refused(filled: Path) -> None:
    sound = bytearray(filled.read_bytes())
    sound[3 * 512 : 4 * 512] = sound[4 * 512 : 5 * 512]
    filled.write_bytes(sound)
    with pytest.raises(StorageError, match=r"page 3 of .* is another page"):
        content(filled)


def test_a_read_of_a_damaged_page_undoes_a_change_that_meets_it(filled: Path) -> None:
    before = content(filled)
    sound = filled.read_bytes()
    damaged = bytearray(sound)
    damaged[4 * 512 + 99] ^= 4
    filled.write_bytes(damaged)
    with PBPlusTree.open(filled) as tree, pytest.raises(StorageError, match="page 4 of"):
        add(tree, [(op, key, 5000) for key in range(101) for op in OPS])
    assert filled.read_bytes() == damaged
    filled.write_bytes(sound)
    assert content(filled) == before


def test_one_process_at_a_time(new_tree: NewTree, path: Path) -> None:
    new_tree(path=path)
    with pytest.raises(StorageError, match="is locked"):
        PBPlusTree.open(path)


def test_what_create_and_open_refuse(new_tree: NewTree, path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        PBPlusTree.open(path)
    with pytest.raises(OptionError, match="page_size 1000"):
        new_tree(path=path, page_size=1000)
    with pytest.raises(OptionError, match="key type 'date' is unknown"):
        new_tree("date", path=path)
    path.write_bytes(b"something else" * 100)
    with pytest.raises(StorageError, match="not a page of a PB"):
        PBPlusTree.open(path)
    with pytest.raises(StorageError, match="exists"):
        new_tree(path=path)


def test_the_disk_is_full_at_any_write(new_tree: NewTree, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write fails: the error says so, the tree is as committed, and it goes on once there is room."""
    tree = new_tree(path=path, log_bytes=10_000)
    add(tree, some(100))
    tree.commit()
    committed = set(some(100))
    real, failures = os.pwrite, 0
    for allowed in range(0, 80, 3):
        left = allowed

        def full(handle: int, data: bytes, offset: int) -> int:
            nonlocal left
            if left == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left -= 1
            return real(handle, data[: len(data) // 2 + 1], offset)

        batch = some(20, start=100 + 20 * allowed)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            try:
                add(tree, batch)
                tree.commit()
                committed |= set(batch)
            except StorageError as error:
                assert "No space left on device" in str(error)  # noqa: PT017 - some of the writes suffice
                failures += 1
        tree.check()
        assert set(tree.predicates()) == committed
    assert failures > 3
    tree.close()
    assert content(path) == committed


def test_a_search_that_finds_the_disk_full_loses_no_change(new_tree: NewTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read may have to send changed pages to the log first."""
    tree = new_tree()
    add(tree, [(">", key, 1) for key in range(300)])
    tree.commit()
    tree.insert("=", 5, 2)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StorageError, match="could not grow: No space left"):
            tree.search(299)
    tree.commit()
    tree.rollback()
    tree.check()
    assert tree.search(5).tolist() == [1] * 5 + [2]


def test_a_closed_tree_says_so(new_tree: NewTree) -> None:
    tree = new_tree()
    tree.insert("=", 1, 1)
    tree.close()
    tree.close()
    for use in (lambda: tree.search(1), lambda: tree.insert("=", 1, 1), tree.rollback, tree.checkpoint, tree.check):
        with pytest.raises(StorageError, match="is closed"):
            use()


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let the operating system itself refuse to grow a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_system_refuses_to_grow_a_file(new_tree: NewTree, path: Path) -> None:
    tree = new_tree(path=path)
    add(tree, some(50))
    tree.commit()
    with (
        no_file_larger_than(60_000),
        pytest.raises(StorageError, match="File too large; the work since the last commit is undone"),
    ):
        add(tree, some(3000, start=50))
    assert set(tree.predicates()) == set(some(50))
    empty = new_tree()
    with no_file_larger_than(60_000), pytest.raises(StorageError, match="could not grow"):
        empty.insert_many("=", np.arange(20_000), np.arange(20_000))
    assert len(empty) == 0
    empty.insert_many("=", np.arange(20_000), np.arange(20_000))
    empty.check()
