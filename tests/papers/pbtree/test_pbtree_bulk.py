"""The bottom-up build is a tree like any other, with fuller pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.errors import OptionError
from tocsin.papers.pbtree import PBPlusTree

Predicate = tuple[str, Any, int]
NewTree = Callable[..., PBPlusTree]
OPS = ["<", "<=", "=", "!=", ">=", ">"]
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-20, 20),
    "float": st.sampled_from([float(i) / 4 for i in range(-40, 40)]),
    "string": st.text("ab", max_size=4),
}


@pytest.mark.parametrize("key_type", KEYS)
@given(data=st.data(), fill=st.sampled_from([0.5, 0.9, 1.0]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_built_and_then_changed(
    key_type: str, data: st.DataObject, fill: float, new_tree: NewTree, naive: Callable[..., list[int]]
) -> None:
    predicate = st.tuples(st.sampled_from(OPS), KEYS[key_type], st.integers(0, 3))
    built = data.draw(st.lists(predicate, min_size=1, max_size=60))
    tree = new_tree(key_type)
    ops, keys, sids = zip(*built, strict=True)
    assert tree.insert_many(ops, keys, sids, fill=fill) == len(set(built))
    tree.check()
    expected = set(built)
    for each in data.draw(st.lists(predicate, max_size=10)):
        assert tree.insert(*each) == (each not in expected)
        expected.add(each)
        tree.check()
    for each in sorted(expected)[::2]:
        assert tree.delete(*each)
        expected.discard(each)
        tree.check()
    for value in data.draw(st.lists(KEYS[key_type], min_size=1, max_size=5)):
        assert tree.search(value).tolist() == naive(expected, value)


@pytest.mark.parametrize("key_type", KEYS)
@pytest.mark.parametrize("distinct", [3, 200, 20_000])
def test_many_pages_and_levels(
    key_type: str, distinct: int, new_tree: NewTree, naive: Callable[..., list[int]]
) -> None:
    rng = np.random.default_rng(distinct)
    numbers = rng.integers(0, distinct, 6000).tolist()
    keys: list[Any] = [f"{'long key ' * 3}{n}" for n in numbers] if key_type == "string" else numbers
    ops = [OPS[i] for i in rng.integers(0, 6, 6000)]
    tree = new_tree(key_type, page_size=1024)
    expected = set(zip(ops, keys, range(6000), strict=True))
    assert tree.insert_many(ops, keys, range(6000)) == 6000
    tree.check()
    tree.commit()
    assert set(tree.predicates()) == expected
    for value in keys[:3]:
        assert tree.search(value).tolist() == naive(expected, value)
    for predicate in sorted(expected)[::5]:
        assert tree.delete(*predicate)
    tree.check()


def test_a_tree_with_predicates_takes_more(new_tree: NewTree) -> None:
    tree = new_tree("string")
    tree.insert("=", "b", 1)
    assert tree.insert_many("=", ["c", "b", "a"], [1, 1, 1]) == 2
    tree.check()
    assert set(tree.predicates()) == {("=", "a", 1), ("=", "b", 1), ("=", "c", 1)}


def test_an_uncommitted_build_leaves_no_trace(new_tree: NewTree, folder: Path) -> None:
    path = folder / "t.pbt"
    tree = new_tree(path=path)
    tree.insert_many(">", np.arange(5000), np.arange(5000))
    tree.search(100)
    tree.rollback()
    tree.check()
    assert len(tree) == 0
    tree.insert_many("<", np.arange(5000), np.arange(5000))
    tree.check()
    assert tree.search(4000).tolist() == list(range(4001, 5000))
    tree.close()
    with PBPlusTree.open(path) as again:
        assert len(again) == 0
        assert path.stat().st_size == again.statistics.bytes == 2 * 512


@pytest.mark.parametrize(
    ("distinct", "ops"),
    [(10**6, [">="]), (10**6, OPS), (300, OPS), (20, ["=", "<="])],
    ids=["worst case", "all operators", "large sets", "very large sets"],
)
def test_the_file_is_at_most_three_times_the_raw_predicates(distinct: int, ops: list[str], new_tree: NewTree) -> None:
    """Raw: 8 bytes of key, 8 of id, 1 of operator. The worst case stands twice and shares no key."""
    count = 60_000
    rng = np.random.default_rng(4)
    tree = new_tree("integer", page_size=4096)
    keys = rng.permutation(count) if distinct > count else rng.integers(0, distinct, count)
    tree.insert_many(rng.choice(ops, count), keys, np.arange(count))
    assert tree.statistics.bytes <= 3 * 17 * count


@pytest.mark.parametrize(
    ("keys", "sids", "says"),
    [
        ([1.5], [1], "not integers"),
        ([1], [-1], "id -1 is outside"),
        ([1], [2**62], "is outside"),
        (np.array([2**63], np.uint64), [1], "does not fit 64 bits"),
    ],
)
def test_bad_columns_change_nothing(keys: Any, sids: list[int], says: str, new_tree: NewTree) -> None:
    tree = new_tree("integer")
    with pytest.raises(OptionError, match=says):
        tree.insert_many("=", keys, sids)
    assert len(tree) == 0
    assert tree.insert_many("=", [], []) == 0
