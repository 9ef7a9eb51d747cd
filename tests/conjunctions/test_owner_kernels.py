"""The kernels that turn pairs of event and conjunction into subscriptions of each event, against Python lists."""

import itertools

import numpy as np
import pytest

from tocsin.arrays import Bools, Int32s, Int64s, Ragged
from tocsin.conjunctions import owners as owner_kernels
from tocsin.conjunctions.owners import (
    Owners,
    _fill_events,
    count_by_event,
    events_of,
    fill_by_event,
    group_by_event,
    group_conjunctions,
    owners_of_lists,
    pairs_with_owners,
    subscriptions_of_one,
)

EVENTS, CONJUNCTIONS, SUBSCRIPTIONS = 6, 12, 9
NONE = np.empty(0, np.bool_)


def random_case(seed: int) -> tuple[Int32s, Owners, list[list[int]]]:
    """Pairs in any order, owners of which some are lists, and the lists of all conjunctions."""
    random = np.random.default_rng(seed)
    pairs = np.ascontiguousarray(np.argwhere(random.random((EVENTS, CONJUNCTIONS)) < 0.5))
    random.shuffle(pairs)
    lists = [np.unique(random.integers(0, SUBSCRIPTIONS, random.integers(1, 4))).tolist() for _ in range(CONJUNCTIONS)]
    shared = [members for members in lists if len(members) > 1]
    numbers = iter(range(len(shared)))
    owner = [members[0] if len(members) == 1 else ~next(numbers) for members in lists]
    starts = np.cumsum([0, *map(len, shared)])
    members = np.array([member for members in shared for member in members], np.int32)
    return pairs.astype(np.int32), Owners(np.array(owner, np.int32), starts, members), lists


def by_event(starts: Int64s, values: Int32s) -> list[list[int]]:
    return [values[start:end].tolist() for start, end in itertools.pairwise(starts)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("some_dropped", [False, True])
def test_count_and_fill_by_event(seed: int, some_dropped: bool) -> None:
    pairs, owners, lists = random_case(seed)
    dropped = np.random.default_rng(seed).random(SUBSCRIPTIONS) < 0.3 if some_dropped else NONE
    expected: list[list[int]] = [[] for _ in range(EVENTS)]
    lists_first = sorted(pairs.tolist(), key=lambda pair: len(lists[pair[1]]) == 1)
    for event, conjunction in lists_first:
        expected[event] += [one for one in lists[conjunction] if not (some_dropped and dropped[one])]
    starts, sizes = count_by_event(pairs, owners, dropped, EVENTS)
    assert starts.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    values = np.empty(starts[-1], np.int32)
    fill_by_event(pairs, owners, sizes, dropped, starts, values)
    assert by_event(starts, values) == expected
    several = np.ones(SUBSCRIPTIONS, bool)
    assert by_event(*group_by_event(pairs, owners, dropped, several, EVENTS)) == [
        list(dict.fromkeys(subscriptions)) for subscriptions in expected
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("some_dropped", [False, True])
@pytest.mark.parametrize("several", [NONE, np.ones(SUBSCRIPTIONS, bool)])
def test_owners_of_lists_and_pairs_are_those_of_all_pairs(seed: int, some_dropped: bool, several: Bools) -> None:
    """Half of the conjunctions are found as lists, the others as pairs."""
    pairs, owners, lists = random_case(seed)
    dropped = np.random.default_rng(seed).random(SUBSCRIPTIONS) < 0.3 if some_dropped else NONE
    in_lists = pairs[:, 1] % 2 == 0
    starts, values = group_conjunctions(pairs[in_lists], EVENTS)
    assert owner_kernels._size_of_lists(values, owners) == sum(len(lists[number]) for number in values.tolist())
    found = by_event(*owners_of_lists(Ragged(starts, values), pairs[~in_lists], owners, dropped, several))
    expected = by_event(*group_by_event(pairs, owners, dropped, several, EVENTS))
    assert list(map(sorted, found)) == list(map(sorted, expected))


def test_append_lists_writes_what_was_found_before_first() -> None:
    owners = Owners(np.array([3, ~0, 1], np.int32), np.array([0, 2]), np.array([0, 4], np.int32))
    first, before = np.array([0, 1, 1]), np.array([8], np.int32)
    starts, listed = np.array([0, 2, 3]), np.array([1, 0, 2], np.int32)
    values, dropped = np.full(6, -1, np.int32), np.array([False, True, False, False, False])
    ends = owner_kernels._append_lists(first, before, starts, listed, owners, dropped, values)
    assert ends.tolist() == [0, 4, 4]
    assert values[:4].tolist() == [8, 0, 4, 3]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("some_dropped", [False, True])
@pytest.mark.parametrize("several", [NONE, np.ones(SUBSCRIPTIONS, bool)])
def test_subscriptions_of_one(seed: int, some_dropped: bool, several: Bools) -> None:
    pairs, owners, _ = random_case(seed)
    dropped = np.random.default_rng(seed).random(SUBSCRIPTIONS) < 0.3 if some_dropped else NONE
    for event in range(EVENTS):
        of_event = pairs[pairs[:, 0] == event]
        _, expected = group_by_event(of_event, owners, dropped, several, EVENTS)
        found = subscriptions_of_one(of_event, owners, dropped, several)
        everything, repeatable = owner_kernels.owners_of_one(of_event, owners, dropped, several)
        assert set(everything.tolist()) == set(found.tolist())
        assert repeatable == (everything.size if several.size else 0)
        assert np.array_equal(np.sort(found), np.sort(expected))


@pytest.mark.parametrize("seed", range(3))
def test_pairs_with_owners(seed: int) -> None:
    pairs, owners, lists = random_case(seed)
    expected = [[event, one] for event, conjunction in pairs.tolist() for one in lists[conjunction]]
    assert pairs_with_owners(pairs, owners).tolist() == expected


@pytest.mark.parametrize("seed", range(3))
def test_count_and_fill_pairs(seed: int) -> None:
    pairs, _, _ = random_case(seed)
    expected = [pairs[pairs[:, 0] == event, 1].tolist() for event in range(EVENTS)]
    starts = owner_kernels._count_pairs(pairs, EVENTS)
    values = np.empty(len(pairs), np.int32)
    owner_kernels._fill_pairs(pairs, starts, values)
    assert by_event(starts, values) == expected
    assert by_event(*group_conjunctions(pairs, EVENTS)) == expected


def test_events_of() -> None:
    starts = np.array([0, 2, 2, 5])
    numbers = np.repeat([10, 11, 12], np.diff(starts)).tolist()
    assert events_of(starts, 10).tolist() == numbers
    events = np.zeros(starts[-1], np.int64)
    _fill_events(starts, 10, events)
    assert events.tolist() == numbers


def test_append_kept() -> None:
    target, source = np.full(6, -1, np.int32), np.array([3, 0, 2, 1], np.int32)
    dropped = np.array([True, False, True, False])
    end = owner_kernels._append_kept(target, 1, source, dropped)
    assert end == 3
    assert target.tolist() == [-1, *source[~dropped[source]], -1, -1, -1]


def test_drop_repeated() -> None:
    starts, values = np.array([0, 4, 4, 7]), np.array([5, 1, 5, 1, 5, 5, 1], np.int32)
    several = np.arange(6) == 5
    owner_kernels._drop_repeated(starts, values, several, 3)
    assert by_event(starts, values) == [[5, 1, 1], [], [5, 1]], "only what may come several times is looked for"
