"""The kernels that make lists by event of runs and bits, against Python lists."""

import itertools

import numpy as np
import pytest

from tocsin.arrays import Int32s, Int64s, Ragged
from tocsin.conjunctions import owners, runs
from tocsin.conjunctions.runs import (
    BEHIND_THE_LAST,
    PLACES_OF_BITS,
    FoundRuns,
    append_bits,
    append_runs,
    count_of_bits,
    count_of_runs,
    lists_of,
    pairs_of,
)

EVENTS, WORDS = 5, 3


def by_event(starts: Int64s, values: Int32s) -> list[list[int]]:
    return [values[start:end].tolist() for start, end in itertools.pairwise(starts)]


def some_runs(seed: int) -> tuple[FoundRuns, list[list[int]]]:
    """Runs of random events and lengths, and the conjunctions of each event."""
    random = np.random.default_rng(seed)
    rows = np.stack([random.integers(0, EVENTS, 12), random.integers(1, 30, 12)], axis=1).astype(np.int32)
    values = random.integers(0, 1000, int(rows[:, 1].sum())).astype(np.int32)
    expected: list[list[int]] = [[] for _ in range(EVENTS)]
    first = 0
    for event, length in rows.tolist():
        expected[event] += values[first : first + length].tolist()
        first += length
    return FoundRuns(np.append(values, [-1, -1]).astype(np.int32), first, np.append(rows, [[0, 99]], 0), 12), expected


@pytest.mark.parametrize("seed", range(3))
def test_runs_by_event(seed: int) -> None:
    found, expected = some_runs(seed)
    found = found._replace(runs=found.runs.astype(np.int32))
    starts = np.zeros(EVENTS + 1, np.int64)
    count_of_runs(found.runs, found.run_count, starts)
    assert starts[1:].tolist() == [len(one) for one in expected]
    ends, values = np.cumsum(starts)[:-1], np.empty(found.used, np.int32)
    append_runs(found, ends, values)
    assert by_event(np.cumsum(starts), values) == expected


@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("in_order", [False, True])
def test_lists_have_runs_and_then_bits(density: float, in_order: bool) -> None:
    """Few bits of a word are gone through, many looked up by bytes; two parts of runs come first."""
    random = np.random.default_rng(1)
    first, of_first = some_runs(1)
    second, of_second = some_runs(2)
    parts = [one._replace(runs=one.runs.astype(np.int32)) for one in (first, second)]
    is_set = random.random((EVENTS, 64 * WORDS)) < density
    bits = np.packbits(is_set, axis=1, bitorder="little").view(np.uint64)
    numbers = np.arange(64 * WORDS) if in_order else random.permutation(64 * WORDS)
    conjunction = numbers.astype(np.int32)
    of_bits = [conjunction[np.flatnonzero(row)].tolist() for row in is_set]
    lists = lists_of(parts, bits, conjunction, in_order, EVENTS)
    expected = [a + b + c for a, b, c in zip(of_first, of_second, of_bits, strict=True)]
    assert by_event(lists.starts, lists.values) == expected
    assert pairs_of(lists).tolist() == [[event, one] for event, some in enumerate(expected) for one in some]
    pairs = np.empty((lists.values.size, 2), np.int32)
    runs._fill_pairs_of_lists(lists.starts, lists.values, pairs)
    assert pairs.tolist() == pairs_of(lists).tolist()
    starts = np.zeros(EVENTS + 1, np.int64)
    count_of_bits(bits, starts)
    assert starts[1:].tolist() == is_set.sum(axis=1).tolist()
    ends, values = np.cumsum(starts)[:-1].copy(), np.empty(int(starts.sum()) + BEHIND_THE_LAST, np.int32)
    append_bits(bits, conjunction, in_order, PLACES_OF_BITS, ends, values)
    assert ends.tolist() == np.cumsum(starts)[1:].tolist()
    assert by_event(np.cumsum(starts), values) == of_bits


@pytest.mark.parametrize("seed", range(3))
def test_what_is_dropped_leaves_the_lists(seed: int) -> None:
    random = np.random.default_rng(seed)
    dropped = random.random(50) < 0.4
    some = [np.sort(random.choice(50, size, replace=False)).tolist() for size in (0, 7, 50, 1)]
    starts = np.cumsum([0, *map(len, some)])
    values = np.array([one for numbers in some for one in numbers], np.int32)
    expected = [[one for one in numbers if not dropped[one]] for numbers in some]
    lists = Ragged(starts.copy(), values.copy())
    assert by_event(*owners.without(dropped, lists)) == expected
    owners._drop_from_lists(starts, values, dropped)
    assert by_event(starts, values) == expected
