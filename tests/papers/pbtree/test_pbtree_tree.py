"""The PB+tree against its definition: a set of predicates, each evaluated on the value."""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.errors import OptionError
from tocsin.papers.pbtree import PBPlusTree

Predicate = tuple[str, Any, int]
Naive = Callable[[Iterable[Predicate], Any], list[int]]
NewTree = Callable[..., PBPlusTree]

OPS = ["<", "<=", "=", "!=", ">=", ">"]
CONSTANTS: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.one_of(st.integers(-4, 4), st.integers(-(2**63), 2**63 - 1)),
    "float": st.one_of(st.sampled_from([-math.inf, -0.0, 0.0, 0.5, math.inf]), st.floats(allow_nan=False)),
    "string": st.one_of(st.sampled_from(["", "a", "ab", "b"]), st.text(max_size=12)),
}

# Fixtures make fresh trees by a factory, so sharing the factory between examples is safe.
relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def grow(rng: np.random.Generator, count: int, keys: int, sids: int, ops: list[str] = OPS) -> list[Predicate]:
    """Random predicates on integer keys, with repetitions."""
    return [(ops[rng.integers(len(ops))], int(rng.integers(keys)), int(rng.integers(sids))) for _ in range(count)]


@pytest.mark.parametrize("key_type", CONSTANTS)
@given(data=st.data())
@relaxed
def test_search_is_the_definition(key_type: str, data: st.DataObject, new_tree: NewTree, naive: Naive) -> None:
    constant = CONSTANTS[key_type]
    predicate = st.tuples(st.sampled_from(OPS), constant, st.integers(0, 6))
    tree = new_tree(key_type)
    expected: set[Predicate] = set()
    for step, (is_insert, given_predicate) in enumerate(data.draw(st.lists(st.tuples(st.booleans(), predicate)))):
        # Deleting something that is there more often than chance would have it.
        chosen = given_predicate
        if not is_insert and expected and step % 2:
            chosen = sorted(expected, key=repr)[step % len(expected)]
        if is_insert:
            assert tree.insert(*chosen) == (chosen not in expected)
            expected.add(chosen)
        else:
            assert tree.delete(*chosen) == (chosen in expected)
            expected.discard(chosen)
        tree.check()
    for value in [*data.draw(st.lists(constant, max_size=5)), *(key for _, key, _ in expected)]:
        assert tree.search(value).tolist() == naive(expected, value)
    assert set(tree.predicates()) == expected
    assert len(tree) == len(expected)


@pytest.mark.parametrize(
    ("ops", "keys", "sids"),
    [
        (OPS, 2000, 50),
        (OPS, 40, 3000),
        (["=", ">", "<"], 2000, 50),
        (["<", "<="], 500, 5),
        (["!="], 300, 5),
        (OPS, 1, 5000),
    ],
    ids=["many keys", "large sets", "strict", "less than", "inequality", "one key"],
)
def test_a_tree_that_grows_and_shrinks(ops: list[str], keys: int, sids: int, new_tree: NewTree, naive: Naive) -> None:
    rng = np.random.default_rng(keys)
    tree = new_tree()
    expected: set[Predicate] = set()
    for number, predicate in enumerate(grow(rng, 900, keys, sids, ops)):
        assert tree.insert(*predicate) == (predicate not in expected)
        expected.add(predicate)
        if number % 150 == 0:
            tree.check()
    for number, predicate in enumerate(rng.permutation(np.array(sorted(expected), object))):
        assert tree.delete(*predicate)
        expected.discard(tuple(predicate))
        if number % 150 == 0:
            tree.check()
            for value in (-1, 0, keys // 3, keys / 2 + 0.5, keys + 1):
                assert tree.search(value).tolist() == naive(expected, value)
    tree.check()
    empty = tree.statistics
    assert (empty.height, empty.keys, empty.predicates) == (1, 0, 0)
    assert empty.free_pages == empty.pages - 2, "all pages but the meta page and the root are free"


@pytest.mark.parametrize("order", [1, -1], ids=["ascending", "descending"])
@pytest.mark.parametrize("op", OPS)
def test_keys_in_order_with_neighbours_of_other_operators(op: str, order: int, new_tree: NewTree, naive: Naive) -> None:
    tree = new_tree()
    expected: set[Predicate] = set()
    for key in range(400)[::order]:
        predicate = (op if key % 3 else "=", key, key)
        tree.insert(*predicate)
        expected.add(predicate)
    tree.check()
    for value in (-1, 0, 1, 150, 150.5, 399, 400):
        assert tree.search(value).tolist() == naive(expected, value)


def test_pages_are_used_again(new_tree: NewTree) -> None:
    tree = new_tree()
    rng = np.random.default_rng(1)
    sizes = []
    for _ in range(4):
        predicates = set(grow(rng, 500, 300, 20))
        for predicate in predicates:
            tree.insert(*predicate)
        for predicate in predicates:
            tree.delete(*predicate)
        sizes.append(tree.statistics.pages)
    assert max(sizes) <= 1.2 * sizes[0]
    tree.check()


def test_a_set_far_larger_than_a_page(new_tree: NewTree) -> None:
    tree = new_tree("string")
    rng = np.random.default_rng(2)
    sids = rng.permutation(1500).tolist()
    for sid in sids:
        tree.insert(">=", "x", sid)
    tree.insert("=", "y", 7)
    tree.check()
    assert tree.search("x").tolist() == list(range(1500))
    assert tree.search("y").tolist() == sorted([*range(1500), 7])
    assert tree.search("w").tolist() == []
    for sid in sids[:1490]:
        assert tree.delete(">=", "x", sid)
    assert not tree.delete(">=", "x", sids[0])
    tree.check()
    assert tree.search("x").tolist() == sorted(sids[1490:])


def test_a_growing_id_costs_the_same_however_large_the_set(new_tree: NewTree) -> None:
    tree = new_tree(cache_bytes=1 << 20)
    accesses = []
    for sid in range(2000):
        before = tree.statistics.page_accesses
        tree.insert("=", 5, sid)
        accesses.append(tree.statistics.page_accesses - before)
    assert max(accesses) <= 3


def test_one_id_under_several_operators_is_several_predicates(new_tree: NewTree) -> None:
    tree = new_tree()
    for op in OPS:
        tree.insert(op, 5, 1)
    assert tree.search(5).tolist() == [1, 1, 1], "<=, = and >= hold"
    assert tree.delete("<=", 5, 1)
    assert tree.search(5).tolist() == [1, 1]
    assert tree.search(4).tolist() == [1, 1], "< and != hold, <= is gone"
    tree.check()


def test_integers_and_floats_compare_exactly(new_tree: NewTree) -> None:
    tree = new_tree()
    tree.insert("=", 2**53 + 1, 1)
    tree.insert("<", 2**53 + 1, 2)
    assert tree.search(2**53 + 1).tolist() == [1]
    assert tree.search(float(2**53)).tolist() == [2]
    assert tree.search(np.float32(3.5)).tolist() == [2]
    assert tree.search(10**30).tolist() == []
    assert tree.search(math.inf).tolist() == []


@pytest.mark.parametrize("value", [None, math.nan, np.float64("nan")])
def test_nothing_holds_for_null(value: object, new_tree: NewTree) -> None:
    tree = new_tree("float")
    for op in OPS:
        tree.insert(op, 1.0, 1)
    assert tree.search(value).tolist() == []


@pytest.mark.parametrize(
    ("key_type", "op", "key", "sid", "says"),
    [
        ("integer", "==", 1, 1, "operator '==' is unknown"),
        ("integer", "=", 1.5, 1, "1.5 is not an integer"),
        ("integer", "=", True, 1, "True is not an integer"),
        ("integer", "=", 2**63, 1, "does not fit 64 bits"),
        ("integer", "=", 1, -1, "id -1 is outside"),
        ("integer", "=", 1, 2**61, "is outside"),
        ("float", "=", math.nan, 1, "nan is not a constant"),
        ("float", "=", 2**53 + 1, 1, "not exactly a float"),
        ("float", "=", "1", 1, "'1' is not a number"),
        ("string", "=", 1, 1, "1 is not a string"),
        ("string", "=", None, 1, "None is not a constant"),
        ("string", "=", "é" * 40, 1, "80 bytes is longer than the 48"),
    ],
)
def test_what_cannot_be_inserted(key_type: str, op: str, key: object, sid: int, says: str, new_tree: NewTree) -> None:
    tree = new_tree(key_type)
    with pytest.raises(OptionError, match=says):
        tree.insert(op, key, sid)
    assert len(tree) == 0


def test_a_value_of_another_type_is_refused(new_tree: NewTree) -> None:
    with pytest.raises(OptionError, match="'a' is not a number"):
        new_tree("integer").search("a")
    with pytest.raises(OptionError, match="5 is not a string"):
        new_tree("string").search(5)


def test_strings_compare_by_code_point(new_tree: NewTree) -> None:
    tree = new_tree("string")
    words = ["", "Z", "a", "é", "\uffff", "\U0001f600"]
    for sid, word in enumerate(words):
        tree.insert("<", word, sid)
    assert [tree.search(word).tolist() for word in words] == [list(range(i + 1, 6)) for i in range(6)]
    assert tree.search("x" * 1000).tolist() == [3, 4, 5], "a value may be longer than any key"


def test_a_search_reads_the_levels_and_the_answer(new_tree: NewTree) -> None:
    """Page accesses, not answers: the height, one page to enter each list, then pages full of the answer."""
    tree = new_tree(page_size=4096)
    tree.insert_many(">", np.arange(20_000), np.arange(20_000), fill=1.0)
    for value, held in ((0, 0), (1, 1), (10_000, 10_000), (30_000, 20_000)):
        before = tree.statistics.page_accesses
        assert len(tree.search(value)) == held
        per_page = (4096 - 24) // (8 + 2 + 8)
        assert tree.statistics.page_accesses - before <= tree.statistics.height + math.ceil(held / per_page) + 1


def test_the_paper_example(new_tree: NewTree) -> None:
    """Neighbouring keys of different operators, as in the paper's Figure 5: pointers of keys that no list holds."""
    tree = new_tree()
    for sid, (op, key) in enumerate([(">", 1), (">", 5), ("=", 6), ("!=", 7), ("<", 9), ("<", 12), ("!=", 15)]):
        tree.insert(op, key, sid)
    tree.check()
    assert tree.search(6).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert tree.search(7).tolist() == [0, 1, 4, 5, 6]
    assert tree.search(5).tolist() == [0, 3, 4, 5, 6]
    assert tree.search(20).tolist() == [0, 1, 3, 6]


def test_len_counts_distinct_predicates(new_tree: NewTree) -> None:
    tree = new_tree()
    for op, sid in itertools.product(OPS, range(3)):
        assert tree.insert(op, 1, sid)
        assert not tree.insert(op, 1, sid)
    assert len(tree) == 18
    assert tree.statistics.predicates == 18
    assert tree.statistics.keys == 1
