"""`Matcher(index="pbtree")`: trees and conjunctions lie in the files of segments and are opened, not built again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from contracts.conjunction_index_contract import CASES, Case, found
from tocsin import Matcher
from tocsin.errors import StorageError
from tocsin.papers.pbtree import PBTreeIndex
from tocsin.papers.pbtree.segment_index import PBTreeSegmentIndex
from tocsin.papers.sift.key import Key

EVENTS: list[dict[str, Any]] = [{"x": 7, "y": 3}, {"x": 500, "y": 8}, {"y": 3}, {"x": 2.5, "z": "abc"}, {}]


def rows(first: int, last: int) -> list[dict[str, Any]]:
    """Subscriptions of every operator, with equal predicates, NULL, two ranges and tests."""
    texts = ["x > {a}", "x <= {a} AND y = {b}", "x <> {a}", "x IS NULL OR y >= {b}", "x IN ({a}, {b}) AND y < 9"]
    texts += ["z LIKE '%b%' AND x < {a}", "NOT (x BETWEEN {b} AND {a})"]
    return [{"id": f"{n:05}", "where": texts[n % 7].format(a=n % 40, b=n % 11)} for n in range(first, last)]


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_opened_trees_equal_the_definition(case: Case) -> None:
    built = PBTreeSegmentIndex(case.conjunctions, "pbtree", "auto")
    opened = PBTreeSegmentIndex.from_arrays(built.arrays(), ("pbtree", "auto"))
    for index in (built, opened):
        index.check()
        assert found(index, case.events) == case.expected()
    again = opened.arrays()
    assert {name: array.tobytes() for name, array in again.items()} == {
        name: array.tobytes() for name, array in built.arrays().items()
    }


@pytest.mark.parametrize("matcher", ["auto", "count", "tree"])
def test_a_saved_index_opens_without_building(matcher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Matcher(index="pbtree", matcher=matcher)
    made.subscribe_many(rows(0, 300))
    expected = made.match_batch(EVENTS)
    made.save(tmp_path / "index")
    made.close()
    with monkeypatch.context() as patch:
        patch.setattr(PBTreeIndex, "build", None)
        patch.setattr(Key, "build", None)
        opened = Matcher.open(tmp_path / "index", mode="read")
        assert opened.match_batch(EVENTS).equals(expected)
        assert opened.match(EVENTS[0]).evidence.evaluations > 0, "pages that were read"
        assert opened.stats().bytes["pbtree"] > 0


def test_changes_go_to_trees_and_survive(tmp_path: Path) -> None:
    """Subscriptions that come, go and are merged after opening, against the default matcher."""
    Matcher.from_table(rows(0, 200), index="pbtree").save(tmp_path / "index")
    judge = Matcher.from_table(rows(0, 200))
    for step in range(3):
        opened = Matcher.open(tmp_path / "index")
        for matcher in (opened, judge):
            matcher.subscribe_many(rows(200 + 50 * step, 260 + 50 * step))
            matcher.subscribe(f"one-{step}", f"x > {step}")
            matcher.unsubscribe(f"{step:05}")
        opened.commit()
        if step == 1:
            opened.compact()
            opened.commit()
        expected = judge.match_batch(EVENTS).to_pylist()
        assert opened.match_batch(EVENTS).to_pylist() == expected
        opened.close()
        assert Matcher.open(tmp_path / "index", mode="read").match_batch(EVENTS).to_pylist() == expected


def test_changes_build_trees_of_what_is_new_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscribing, dropping, committing and opening again leave the trees that are there as they are, on disk."""
    Matcher.from_table(rows(0, 2100), index="pbtree").save(tmp_path / "index")
    [large] = (tmp_path / "index").glob("segment-*")
    before = large.stat().st_ino, large.read_bytes()
    built: list[int] = []
    build = PBTreeIndex.build.__func__  # type: ignore[attr-defined]  # of a class method

    def counted(cls: type[PBTreeIndex], low: Any, *rest: Any, **options: Any) -> PBTreeIndex:
        built.append(len(low))
        return build(cls, low, *rest, **options)  # type: ignore[no-any-return]  # as above

    monkeypatch.setattr(PBTreeIndex, "build", classmethod(counted))
    matcher = Matcher.open(tmp_path / "index")
    matcher.subscribe_many(rows(2100, 2200))
    for number in range(20):
        matcher.unsubscribe(f"{number:05}")
        matcher.subscribe(f"one-{number:02}", f"x > {number}")
    matcher.commit()
    expected = matcher.match_batch(EVENTS)
    matcher.close()
    assert 0 < sum(built) < 700, "ranges of 120 new subscriptions, not of 2,100"
    assert (large.stat().st_ino, large.read_bytes()) == before, "the file of the others is as it was"
    built.clear()
    with Matcher.open(tmp_path / "index", mode="read") as opened:
        assert opened.match_batch(EVENTS).equals(expected)
        assert large in (tmp_path / "index").glob("segment-*")
        assert sum(built) <= 20, "opening builds at most what is not in a segment yet"
    judge = Matcher.from_table([*rows(20, 2200), *({"id": f"one-{n:02}", "where": f"x > {n}"} for n in range(20))])
    assert judge.match_batch(EVENTS).to_pylist() == expected.to_pylist()


def test_a_mapped_tree_takes_no_changes_and_finds_damage() -> None:
    index = PBTreeIndex.build(list(range(500)), list(range(500, 1000)))
    image = index.image()
    mapped = PBTreeIndex.mapped(image, cache_bytes=0)
    assert mapped.probe(250).tolist() == index.probe(250).tolist()
    assert np.shares_memory(mapped.image(), image)
    with pytest.raises(StorageError, match="never changes"):
        mapped.insert(1000, 3, 5)
    mapped.close()
    damaged = image.copy()
    damaged[4096 + 100 :] ^= 1
    with pytest.raises(StorageError, match="page"):
        PBTreeIndex.mapped(damaged).probe(250)
    with pytest.raises(StorageError, match="damaged"):
        PBTreeIndex.mapped(np.zeros(8192, np.uint8))
    index.close()


def resident(file: Path) -> int:
    """The bytes of a mapped file that are in the memory of this process."""
    bytes_of, is_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line[0].isupper():
            is_file = line.endswith(str(file))
        elif is_file and line.startswith("Rss:"):
            bytes_of += int(line.split()[1]) << 10
    return bytes_of


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells what is resident")
@pytest.mark.parametrize("verify", ["open", "lazy", "full"])
def test_pages_of_the_file_are_given_back(verify: Any, tmp_path: Path) -> None:
    count = 20_000
    matcher = Matcher(index="pbtree")
    texts = [f"symbol = {number // 10} AND price > {number % 97}" for number in range(count)]
    matcher.subscribe_many([{"id": f"{number:05}", "where": text} for number, text in enumerate(texts)])
    matcher.save(tmp_path / "index")
    matcher.close()
    [file] = (tmp_path / "index").glob("segment-*")
    with Matcher.open(tmp_path / "index", mode="read", verify=verify) as opened:
        event = {"symbol": 77, "price": 50}
        found = [opened.match(event).ids, *(set(opened.match_batch([event] * 3)["subscription"].to_pylist()),)]
        assert set(found[0]) == found[1] == {f"{number:05}" for number in range(770, 780) if number % 97 < 50}
        assert resident(file) < file.stat().st_size / 4, "what a check or a batch has read is given back"
