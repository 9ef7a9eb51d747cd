"""KeyIndex finds what the definition says, under any frequencies, and does only the work it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.conjunctions.key.drift import Frequencies, worth_rekeying
from tocsin.conjunctions.key.index import KeyIndex

PREDICATES, FIRST_ID = 12, 5
Terms = list[int]
CONJUNCTIONS = st.lists(st.lists(st.integers(~(PREDICATES - 1), PREDICATES - 1), max_size=6), max_size=12)
EVENTS = st.lists(st.sets(st.integers(0, PREDICATES + 2)), max_size=5)
FREQUENCY = st.lists(st.floats(0, 1), min_size=PREDICATES, max_size=PREDICATES).map(np.array)


def csr(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, lists)]), np.array([one for each in lists for one in each], np.int32)


def index_of(conjunctions: list[Terms], frequency: np.ndarray) -> KeyIndex:
    ids = np.arange(FIRST_ID, FIRST_ID + len(conjunctions), dtype=np.int32)
    return KeyIndex.build(ids, *csr(conjunctions), frequency)


def found_by(index: KeyIndex, events: list[set[int]]) -> list[tuple[int, int]]:
    pairs, candidates = index.match(*csr([sorted(held) for held in events]))
    assert candidates >= len(pairs), "what was found was looked at"
    return sorted(map(tuple, pairs.tolist()))


def expected(conjunctions: list[Terms], events: list[set[int]]) -> list[tuple[int, int]]:
    return [
        (row, FIRST_ID + number)
        for row, held in enumerate(events)
        for number, terms in enumerate(conjunctions)
        if all(t in held if t >= 0 else ~t not in held for t in terms)
    ]


@settings(deadline=None)
@given(CONJUNCTIONS, EVENTS, FREQUENCY)
def test_equals_the_definition_under_any_frequencies(
    conjunctions: list[Terms], events: list[set[int]], frequency: np.ndarray
) -> None:
    index = index_of(conjunctions, frequency)
    for _ in range(2):
        index.check()
        assert found_by(index, events) == expected(conjunctions, events)
        for held in events:
            assert found_by(index, [held]) == expected(conjunctions, [held])
        index.rekey(frequency[::-1].copy())


def test_more_events_than_a_block_and_terms_than_a_width() -> None:
    conjunctions = [[a, b] for a in range(12) for b in range(12)] + [list(range(n)) for n in range(12)] + [[~3]]
    random = np.random.default_rng(1)
    events = [set(np.flatnonzero(random.random(12) < 0.6).tolist()) for _ in range(200)]
    assert found_by(index_of(conjunctions, np.ones(12)), events) == expected(conjunctions, events)


def test_more_predicates_than_16_bits() -> None:
    conjunctions = [[70_000, 3, 69_999], [3, ~70_000]]
    index = index_of(conjunctions, np.ones(70_001))
    assert index.arrays()["places"].dtype == np.uint32
    events = [{3, 69_999, 70_000}, {3}]
    assert found_by(index, events) == expected(conjunctions, events)


def test_arrays_are_the_whole_state_and_may_be_read_only() -> None:
    conjunctions, events = [[0, 1], [1, ~2], [2]], [{0, 1}, {1, 2}]
    arrays = index_of(conjunctions, np.ones(3)).arrays()
    for array in arrays.values():
        array.setflags(write=False)
    copy = KeyIndex.from_arrays(arrays)
    copy.check()
    assert (len(copy), copy.predicate_count) == (3, 3)
    assert found_by(copy, events) == expected(conjunctions, events)
    copy.rekey(np.array([0.1, 0.2, 0.3]))
    assert found_by(copy, events) == expected(conjunctions, events)


def test_a_conjunction_without_required_terms_is_looked_at_always() -> None:
    pairs, candidates = index_of([[~0], [1]], np.ones(2)).match(np.array([0, 0, 1]), np.array([0], np.int32))
    assert (pairs.tolist(), candidates) == ([[0, FIRST_ID]], 2)


def test_keys_follow_what_events_show() -> None:
    """Subscriptions name predicate 1 least, but events hold it always: after some of them, new keys pay."""
    index = index_of([[0, 1], [0, 1], [0]], np.array([3.0, 2.0]))
    frequencies = Frequencies(np.array([3, 2]))
    assert not worth_rekeying(index.cost(frequencies.shares()))
    frequencies.observe(np.arange(10_001), np.ones(10_000, np.int32))
    now, best = index.cost(frequencies.shares())
    assert now == pytest.approx(2, abs=0.01)
    assert best == pytest.approx(0, abs=0.01)
    index.rekey(frequencies.shares())
    assert index.cost(frequencies.shares())[0] == pytest.approx(best)
    assert index.match(np.array([0, 1]), np.array([1], np.int32))[1] == 0


def test_old_events_fade() -> None:
    frequencies = Frequencies(np.array([1, 1]), memory=100, prior=0)
    frequencies.observe(np.arange(101), np.zeros(100, np.int32))
    frequencies.observe(np.arange(101), np.ones(100, np.int32))
    assert frequencies.shares().tolist() == pytest.approx([1 / 3, 2 / 3])


def test_the_note_on_words() -> None:
    """The arrays of the five conjunctions that docs/internals/words.md works through."""
    conjunctions = csr([[1, 2], [1, 0], [2], [1, 2], [1, ~3]])
    index = KeyIndex.build(np.arange(5, dtype=np.int32), *conjunctions, np.array([0.1, 0.6, 0.2, 0.3]))
    arrays = index.arrays()
    said = {
        "keys": [2, 0, 2, 2, 1],
        "starts": [0, 1, 2, 4, 4, 4],
        "groups": [[1, 0, 0, 0], [0, 1, 1, 1], [0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 5, 4]],
        "numbers": [1, 4, 2, 0, 3],
        "places": [1, 3, 1, 1],
    }
    assert {name: arrays[name].tolist() for name in said} == said
    pairs, candidates = index.match(np.array([0, 2]), np.array([1, 2], np.int32))
    assert (sorted(pairs[:, 1].tolist()), candidates) == ([0, 2, 3, 4], 4)
