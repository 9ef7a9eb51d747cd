"""The PB+tree under the contract of all interval indexes, and what it promises besides."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.interval_index_contract import IntervalIndexContract
from tocsin.errors import StorageError
from tocsin.papers.pbtree import PBTreeIndex
from tocsin.papers.tatbul import PredicateIndex


class TestPBTree(IntervalIndexContract):
    @pytest.fixture(autouse=True)
    def _close(self, folder: Path) -> Iterator[None]:
        """Close what the tests of the contract leave open."""
        type(self).folder = folder
        yield
        for index in type(self).opened:
            index.close()
        type(self).opened = []

    folder: Path
    opened: list[PBTreeIndex] = []  # noqa: RUF012 - Hypothesis calls one instance many times

    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.pbt"
        index = PBTreeIndex.build(lo, hi, predicate, path=path, page_size=512)
        self.opened.append(index)
        return index


def test_both_maps_are_committed_together(folder: Path) -> None:
    index = PBTreeIndex.build([3, 10], [7, 20], path=folder / "t.pbt")
    index.insert(1, 30, 40)
    index.commit()
    index.delete(0)
    index.close()
    again = PBTreeIndex.open(folder / "t.pbt")
    again.check()
    assert [again.probe(code).tolist() for code in (5, 15, 35, 25)] == [[0], [1], [1], []]
    again.delete(0)
    assert again.probe(5).tolist() == []
    again.close()


def test_a_temporary_file_goes_with_its_index(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    index = PBTreeIndex.build([1], [2])
    assert len(list(folder.iterdir())) == 1
    index.close()
    del index
    assert list(folder.iterdir()) == []


def test_check_compares_the_two_maps(folder: Path) -> None:
    index = PBTreeIndex.build([3, 10], [7, 20], path=folder / "t.pbt")
    op, key, sid = next(each for each in index.tree.predicates() if each[0] == "<=")
    index.tree.delete(op, key, sid)
    with pytest.raises(StorageError, match="predicate 0 is not searched by its ranges"):
        index.check()
    index.tree.insert(op, key, sid)
    index.check()
    index.tree.insert("<=", 99, sid)
    with pytest.raises(StorageError, match="1 ends of ranges belong to no predicate"):
        index.check()
    index.close()
