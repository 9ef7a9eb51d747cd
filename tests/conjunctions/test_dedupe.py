"""Equal conjunctions are found, and covered ones dropped, as the definitions say."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.conjunctions.coded import Conjunctions
from tocsin.conjunctions.dedupe import Shared, share
from tocsin.tuning import TUNING

COLUMNS, CODES, TESTS = 2, 3, 3
RANGES = st.sampled_from([(0, 0), (0, 1), (1, 2), (0, 2), (-1, -1)])
CONJUNCTION = st.tuples(
    st.dictionaries(st.integers(0, COLUMNS - 1), RANGES), st.dictionaries(st.integers(0, TESTS - 1), st.integers(1, 6))
)
Conjunction = tuple[dict[int, tuple[int, int]], dict[int, int]]


def arrays_of(conjunctions: list[Conjunction]) -> Conjunctions:
    rows = [(c, column, *r) for c, (ranges, _) in enumerate(conjunctions) for column, r in sorted(ranges.items())]
    tests = [(c, *tested) for c, (_, tested_by) in enumerate(conjunctions) for tested in tested_by.items()]
    conjunction, column, low, high = np.array(rows, np.int32).reshape(-1, 4).T
    owner, test, accepts = np.array(tests, np.int32).reshape(-1, 3).T
    last = np.full(COLUMNS, CODES - 1, np.int32)
    nothing = np.full(TESTS, -1, np.int32)
    return Conjunctions(len(conjunctions), last, conjunction, column, low, high, owner, test, accepts, nothing)


def owners_of(shared: Shared, conjunction: int) -> list[int]:
    owner, starts, members = shared.owners
    one = int(owner[conjunction])
    return [one] if one >= 0 else members[starts[~one] : starts[~one + 1]].tolist()


def covers(wide: Conjunction, narrow: Conjunction) -> bool:
    """Demand by demand: whatever `wide` demands, `narrow` demands as much of."""
    ranges = all(
        c in narrow[0] and low <= narrow[0][c][0] and narrow[0][c][1] <= high for c, (low, high) in wide[0].items()
    )
    return ranges and all(t in narrow[1] and not narrow[1][t] & ~accepts for t, accepts in wide[1].items())


@settings(deadline=None)
@given(st.lists(st.lists(CONJUNCTION, min_size=1, max_size=4), max_size=8))
def test_equal_and_covered_conjunctions_are_stored_once(subscriptions: list[list[Conjunction]]) -> None:
    given_ones = [c for conjunctions in subscriptions for c in conjunctions]
    owner = np.repeat(np.arange(len(subscriptions)), [len(s) for s in subscriptions]).astype(np.int32)
    behind = np.array([not ranges for ranges, _ in given_ones], bool)
    shared = share(arrays_of(given_ones), owner, behind, np.ones(behind.size, bool))
    expected: dict[tuple[frozenset[Any], ...], list[int]] = {}
    keys: list[tuple[frozenset[Any], ...] | None] = []
    for place, own in enumerate(given_ones):
        others = [o for o in range(len(given_ones)) if o != place and owner[o] == owner[place]]
        superfluous = any(covers(given_ones[o], own) and (o < place or not covers(own, given_ones[o])) for o in others)
        key = (frozenset(own[0].items()), frozenset(own[1].items()))
        keys.append(None if superfluous else key)
        if not superfluous:
            expected.setdefault(key, []).append(int(owner[place]))
    # Those without ranges come last.
    expected = dict(sorted(expected.items(), key=lambda item: not item[0][0]))
    numbers = [-1 if key is None else list(expected).index(key) for key in keys]
    assert shared.number.tolist() == numbers
    assert [owners_of(shared, c) for c in range(shared.conjunctions.count)] == list(expected.values())
    assert [given_ones[c] for c in shared.representatives] == [
        (dict(ranges), dict(tests)) for ranges, tests in expected
    ]
    kept = arrays_of([given_ones[c] for c in shared.representatives])
    for name in ("conjunction", "column", "low", "high", "test_conjunction"):
        assert getattr(shared.conjunctions, name).tolist() == getattr(kept, name).tolist()
    tests = shared.conjunctions.test_conjunction, shared.conjunctions.test, shared.conjunctions.test_accepts
    assert sorted(zip(*tests, strict=True)) == sorted(
        zip(kept.test_conjunction, kept.test, kept.test_accepts, strict=True)
    )


def test_more_conjunctions_than_are_compared_are_still_owned_once() -> None:
    many: list[Conjunction] = [({0: (0, 1)}, {}), ({}, {0: 1})] * TUNING.max_compared
    shared = share(arrays_of(many), np.zeros(len(many), np.int32), np.zeros(len(many), bool), np.ones(len(many), bool))
    assert [owners_of(shared, c) for c in range(shared.conjunctions.count)] == [[0], [0]]


def test_a_million_equal_conjunctions_are_one_and_a_list() -> None:
    tests = np.tile(np.array([5, 9], np.int32), 1_000_000)
    nothing = np.empty(0, np.int32)
    rows = np.repeat(np.arange(1_000_000, dtype=np.int32), 2)
    last, null = np.zeros(1, np.int32), np.zeros(10, np.int32)
    same = Conjunctions(1_000_000, last, nothing, nothing, nothing, nothing, rows, tests, np.ones_like(tests), null)
    all_of_them = np.ones(1_000_000, bool)
    shared = share(same, np.arange(1_000_000, dtype=np.int32), all_of_them, all_of_them)
    assert shared.conjunctions.count == 1
    assert shared.conjunctions.test.tolist() == [5, 9]
    assert owners_of(shared, 0) == list(range(1_000_000))
