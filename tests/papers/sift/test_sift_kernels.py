"""The loops of the four matchers, one by one, against plain Python."""

import numpy as np
import pytest

from tocsin.conjunctions.key.index import first_required, lists_of, to_fail_first
from tocsin.papers.sift.kernels import (
    Directory,
    ProfileTree,
    group_slices,
    invert,
    match_brute_force,
    match_count,
    match_keys_by_event,
    match_tree,
    spread,
)
from tocsin.papers.sift.tree import Tree

PREDICATES = 20
Ragged = list[list[int]]
Csr = tuple[np.ndarray, np.ndarray]


def csr(lists: Ragged) -> Csr:
    return np.cumsum([0, *map(len, lists)]), np.array([one for each in lists for one in each], np.int32)


def lists_in(offsets: np.ndarray, values: np.ndarray) -> Ragged:
    return [sorted(part.tolist()) for part in np.split(values, offsets[1:-1])]


@pytest.fixture(scope="module")
def conjunctions() -> Ragged:
    random = np.random.default_rng(3)
    made = [random.integers(~(PREDICATES - 1), PREDICATES, size).tolist() for size in range(7) for _ in range(12)]
    return [list(dict.fromkeys(terms)) for terms in made]


@pytest.fixture(scope="module")
def events() -> Ragged:
    random = np.random.default_rng(4)
    return [np.flatnonzero(random.random(PREDICATES + 3) < share).tolist() for share in np.linspace(0, 0.9, 130)]


@pytest.fixture(scope="module")
def expected(conjunctions: Ragged, events: Ragged) -> Ragged:
    def holds(terms: list[int], held: list[int]) -> bool:
        return all((t in held) if t >= 0 else (~t not in held) for t in terms)

    return [[c + 100 for c, terms in enumerate(conjunctions) if holds(terms, held)] for held in events]


def ids_of(conjunctions: Ragged) -> np.ndarray:
    return np.arange(100, 100 + len(conjunctions), dtype=np.int32)


def test_match_brute_force(conjunctions: Ragged, events: Ragged, expected: Ragged) -> None:
    occurs = np.zeros(PREDICATES, np.int8)
    found = match_brute_force(*csr(events), ids_of(conjunctions), *csr(conjunctions), occurs)
    assert lists_in(*found) == expected
    assert not occurs.any()


@pytest.mark.parametrize("forbidden", [False, True])
def test_invert(conjunctions: Ragged, forbidden: bool) -> None:
    directory = invert(*csr(conjunctions), PREDICATES, forbidden)
    terms = [~p if forbidden else p for p in range(PREDICATES)]
    assert lists_in(*directory) == [[c for c, own in enumerate(conjunctions) if t in own] for t in terms]


def test_match_count(conjunctions: Ragged, events: Ragged, expected: Ragged) -> None:
    """Twice with the same counts: those of older events read as zero."""
    slices = csr(conjunctions)
    starts, postings = invert(*slices, PREDICATES, False)
    total = np.array([sum(t >= 0 for t in terms) for terms in conjunctions], np.int32)
    free = np.flatnonzero(total == 0).astype(np.int32)
    directory = Directory(starts, postings, *invert(*slices, PREDICATES, True), total, free)
    counts = np.zeros(len(conjunctions), np.int64)
    for epoch in (1, 1 + len(events)):
        offsets, found, candidates = match_count(*csr(events), directory, ids_of(conjunctions), counts, epoch)
        assert lists_in(offsets, found) == expected
        assert candidates >= len(found)


def test_match_keys_by_event(conjunctions: Ragged, events: Ragged, expected: Ragged) -> None:
    ordered = to_fail_first(*csr(conjunctions), np.arange(PREDICATES, dtype=np.float64))
    lists = lists_of(ids_of(conjunctions), *ordered, first_required(*ordered, PREDICATES), PREDICATES)
    masks = np.zeros(PREDICATES + 1, np.int64)
    offsets, found, candidates = match_keys_by_event(*csr(events), lists, masks)
    assert lists_in(offsets, found) == expected
    assert candidates >= len(found)
    assert not masks.any()


def test_match_tree(conjunctions: Ragged, events: Ragged, expected: Ragged) -> None:
    arrays = Tree.build(*csr(conjunctions), PREDICATES).arrays()
    tree = ProfileTree(*(arrays[name] for name in ProfileTree._fields))
    masks = np.zeros(PREDICATES + 1, np.int64)
    offsets, found, candidates = match_tree(*csr(events), tree, masks)
    assert lists_in(offsets, found + np.int32(100)) == expected
    assert candidates > 0
    assert not masks.any()


def test_spread() -> None:
    """Two blocks of a batch, the second of one event: pairs (conjunction, bits of events) event by event."""
    offsets = np.zeros(5, np.int64)
    found = spread(
        np.array([7, 8, 9], np.int32), np.array([0b101, 0b010, 0b111]), 3, 0, 3, offsets, np.empty(1, np.int32)
    )
    found = spread(np.array([5, 6, 0], np.int32), np.array([1, 1, 1]), 2, 3, 4, offsets, found)
    assert lists_in(offsets, found[: offsets[-1]]) == [[7, 9], [8, 9], [7, 9], [5, 6]]


def test_group_slices(conjunctions: Ragged) -> None:
    """Ragged are compared as they stand; more of them than places in the first table."""
    many = [terms[:2] for terms in conjunctions] * 2
    group, groups = group_slices(*csr(many))
    distinct = list(dict.fromkeys(map(tuple, many)))
    assert group.tolist() == [distinct.index(tuple(terms)) for terms in many]
    assert groups == len(distinct)
