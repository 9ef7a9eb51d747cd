"""The kernels that find equal and covered conjunctions, against comparisons of Python values."""

import itertools

import numpy as np
import pytest

from tocsin.conjunctions import kernels
from tocsin.conjunctions.kernels import Demands, drop_covered, first_equals, sort_tests

Conjunction = tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int], ...]]
"""Ranges (column, low, high) and tests (test, accepts), both sorted."""


def random_conjunctions(seed: int, count: int) -> list[Conjunction]:
    """Few columns, codes and tests, so that many are equal and many cover another."""
    random = np.random.default_rng(seed)
    conjunctions: list[Conjunction] = []
    for _ in range(count):
        ranges = []
        for column in np.flatnonzero(random.random(3) < 0.5).tolist():
            cuts = np.unique(random.integers(0, 7, 4))
            ends = cuts[: len(cuts) // 2 * 2].tolist()
            ranges += [(column, low, high) for low, high in zip(ends[::2], ends[1::2], strict=True)]
        tests = [(test, int(random.integers(1, 8))) for test in np.flatnonzero(random.random(3) < 0.4).tolist()]
        conjunctions.append((tuple(ranges), tuple(tests)))
    return conjunctions


def demands_of(conjunctions: list[Conjunction]) -> Demands:
    column, low, high = np.array([row for rows, _ in conjunctions for row in rows], np.int32).reshape(-1, 3).T.copy()
    test, accepts = np.array([row for _, rows in conjunctions for row in rows], np.int32).reshape(-1, 2).T.copy()
    range_starts = np.cumsum([0, *(len(rows) for rows, _ in conjunctions)])
    test_starts = np.cumsum([0, *(len(rows) for _, rows in conjunctions)])
    return Demands(range_starts, column, low, high, test_starts, test, accepts)


def covers(wide: Conjunction, narrow: Conjunction) -> bool:
    """Each predicate and test of `wide` must contain that of `narrow` on the same column, or the same test."""
    for column in {column for column, _, _ in wide[0]}:
        outer = [(low, high) for c, low, high in wide[0] if c == column]
        inner = [(low, high) for c, low, high in narrow[0] if c == column]
        if not inner or not all(any(a <= low and high <= b for a, b in outer) for low, high in inner):
            return False
    accepted = dict(narrow[1])
    return all(test in accepted and accepted[test] & ~accepts == 0 for test, accepts in wide[1])


@pytest.mark.parametrize("seed", range(5))
def test_first_equals(seed: int) -> None:
    conjunctions = random_conjunctions(seed, 60)
    keep = np.random.default_rng(seed).random(60) < 0.8
    kept = [conjunction if keep[number] else None for number, conjunction in enumerate(conjunctions)]
    first = first_equals(demands_of(conjunctions), keep)
    assert first.tolist() == [-1 if conjunction is None else kept.index(conjunction) for conjunction in kept]


@pytest.mark.parametrize("seed", range(3))
def test_equal_and_covers(seed: int) -> None:
    conjunctions = random_conjunctions(seed, 25)
    demands = demands_of(conjunctions)
    found = set()
    for one, wide in enumerate(conjunctions):
        for other, narrow in enumerate(conjunctions):
            assert kernels._equal(demands, one, other) == (wide == narrow)
            assert kernels._covers(demands, one, other) == covers(wide, narrow)
            found.add((wide == narrow, covers(wide, narrow)))
    assert found == {(True, True), (False, True), (False, False)}


@pytest.mark.parametrize("most", [2, 100])
def test_drop_covered(most: int) -> None:
    conjunctions = random_conjunctions(1, 80)
    owner = np.sort(np.random.default_rng(1).integers(0, 20, 80)).astype(np.int32)
    given = np.random.default_rng(2).random(80) < 0.8
    keep = given.copy()
    drop_covered(demands_of(conjunctions), owner, most, keep)
    for subscription in np.unique(owner):
        numbers = np.flatnonzero(owner == subscription).tolist()
        expected = {number for number in numbers if given[number]}
        if len(numbers) <= most:
            for wide in numbers:
                for narrow in numbers:
                    if (
                        wide != narrow
                        and {wide, narrow} <= expected
                        and covers(conjunctions[wide], conjunctions[narrow])
                    ):
                        expected.remove(narrow)
        assert set(np.flatnonzero(keep & (owner == subscription)).tolist()) == expected


def test_sort_tests() -> None:
    random = np.random.default_rng(0)
    starts = np.cumsum([0, *random.integers(0, 6, 20)])
    rows = random.integers(0, 4, (int(starts[-1]), 2)).astype(np.int32)
    test, accepts = rows.T.copy()
    sort_tests(starts, test, accepts)
    for start, end in itertools.pairwise(starts):
        assert list(zip(test[start:end], accepts[start:end], strict=True)) == sorted(map(tuple, rows[start:end]))
