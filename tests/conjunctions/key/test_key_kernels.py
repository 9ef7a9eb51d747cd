"""The kernels of KeyIndex, one by one, against plain Python."""

import numpy as np
import pytest

from tocsin.conjunctions.key.index import first_required, lists_of, to_fail_first
from tocsin.conjunctions.key.kernels import (
    BIT_NUMBERS,
    BLOCK,
    FIRST,
    FIRST_PLACE,
    FORBIDDEN,
    WIDTH,
    Lists,
    Matched,
    count_bits,
    doubled32,
    doubled64,
    enter_block,
    expected_candidates,
    file_under_keys,
    leave_block,
    match_block,
    match_keys,
    match_keys_of_event,
    order_terms,
    padded,
    shapes,
)

PREDICATES = 30
Ragged = list[list[int]]


def csr(lists: Ragged) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, lists)]), np.array([one for each in lists for one in each], np.int32)


@pytest.fixture(scope="module")
def conjunctions() -> Ragged:
    """Of no, few and many terms, with repeats; the last is too long for an insertion sort."""
    random = np.random.default_rng(5)
    made = [random.integers(~(PREDICATES - 1), PREDICATES, size).tolist() for size in [0, 1, 1, 2, 3, 4, 5, 6, 9] * 8]
    return [*made, [~p for p in range(20)], [*range(10, 30), 12, *(~p for p in range(9))]]


@pytest.fixture(scope="module")
def frequency() -> np.ndarray:
    return np.random.default_rng(6).random(PREDICATES).round(1)


@pytest.fixture(scope="module")
def events() -> Ragged:
    """More than two blocks; predicates that no conjunction knows are among those that hold."""
    random = np.random.default_rng(7)
    return [
        np.flatnonzero(random.random(PREDICATES + 5) < share).tolist() for share in np.linspace(0, 1, 2 * BLOCK + 9)
    ]


@pytest.fixture(scope="module")
def lists(conjunctions: Ragged, frequency: np.ndarray) -> Lists:
    offsets, terms = to_fail_first(*csr(conjunctions), frequency)
    keys = first_required(offsets, terms, PREDICATES)
    return lists_of(np.arange(len(keys), dtype=np.int32), offsets, terms, keys, PREDICATES)


def holding(conjunctions: Ragged, held: list[int]) -> list[int]:
    return [
        c for c, terms in enumerate(conjunctions) if all((t in held) if t >= 0 else (~t not in held) for t in terms)
    ]


def looked_at(conjunctions: Ragged, frequency: np.ndarray, held: list[int]) -> int:
    """The conjunctions whose rarest required term holds, and those that require none."""
    rank = np.argsort(np.argsort(frequency, kind="stable"))
    required = [sorted((t for t in terms if t >= 0), key=lambda t: rank[t]) for terms in conjunctions]
    return sum(not terms or terms[0] in held for terms in required)


def test_order_terms(conjunctions: Ragged) -> None:
    by_rank = np.random.default_rng(8).permutation(PREDICATES).astype(np.int32)
    rank = np.argsort(by_rank).astype(np.int32)
    offsets, terms = order_terms(*csr(conjunctions), by_rank, rank)
    expected = [
        sorted(set(one), key=lambda t: rank[t] if t >= 0 else 2 * PREDICATES - rank[~t]) for one in conjunctions
    ]
    assert [part.tolist() for part in np.split(terms, offsets[1:-1])] == expected


def test_padded_and_shapes() -> None:
    assert [padded(terms) for terms in range(10)] == [0, 1, 2, 4, 4, 8, 8, 8, 8, 12]
    width, forbidden = shapes(*csr([[], [3], [1, 2, ~4], [~5], [0, 1, 2, 3]]), np.array([9, 3, 1, 9, 0], np.int32), 9)
    assert (width.tolist(), forbidden.tolist()) == ([0, 0, 1, 0, 4], [0, 0, 1, 1, 0])


def test_file_under_keys() -> None:
    """Under key 1, two of the same shape are one group; what requires nothing is under ALWAYS, which is 6 here."""
    offsets, terms = csr([[1, 2, ~3], [1, 4, ~5], [0, 2, 3, 4], [~1]])
    keys, always = np.array([1, 1, 0, 6], np.int32), 6
    shape = shapes(offsets, terms, keys, always)
    starts, places = np.zeros(always + 2, np.int32), np.zeros(9, np.uint16)
    groups = file_under_keys(offsets, terms, keys, shape, np.array([2, 0, 1, 3]), starts, places)
    assert starts.tolist() == [0, 1, 2, 2, 2, 2, 2, 3]
    assert groups[:, [WIDTH, FORBIDDEN, FIRST, FIRST_PLACE]].tolist() == [
        [4, 0, 0, 0],
        [1, 1, 1, 4],
        [0, 1, 3, 8],
        [0, 0, 4, 9],
    ]
    assert places.tolist() == [2, 3, 4, always, 2, 3, 4, 5, 1]


def test_match_keys_of_event(conjunctions: Ragged, frequency: np.ndarray, lists: Lists, events: Ragged) -> None:
    occurs = np.zeros(PREDICATES + 1, np.uint8)
    for held in events[::7]:
        found, candidates = match_keys_of_event(np.array(held, np.int32), lists, occurs)
        assert sorted(found.tolist()) == holding(conjunctions, held)
        assert candidates == looked_at(conjunctions, frequency, held)
        assert not occurs.any(), "the table is given back as it was taken"


def test_match_keys(conjunctions: Ragged, frequency: np.ndarray, lists: Lists, events: Ragged) -> None:
    masks = np.zeros(PREDICATES + 1, np.int64)
    pairs, candidates = match_keys(*csr(events), lists, masks)
    expected = [(event, c) for event, held in enumerate(events) for c in holding(conjunctions, held)]
    assert sorted(map(tuple, pairs.tolist())) == expected
    assert candidates == sum(looked_at(conjunctions, frequency, held) for held in events)
    assert not masks.any(), "the masks are given back as they were taken"


def test_a_block(conjunctions: Ragged, lists: Lists, events: Ragged) -> None:
    """Bit b of a mask is event 5 + b; `touched` grows, and `matched` too."""
    first, last = 5, 5 + BLOCK
    masks = np.zeros(PREDICATES + 1, np.int64)
    touched, distinct = enter_block(*csr(events), first, last, masks, np.empty(1, np.int32))
    expected = [sum((p in events[e]) << (e - first) for e in range(first, last)) for p in range(PREDICATES)]
    assert masks.tolist() == [*expected, (1 << BLOCK) - 1]
    assert sorted(touched[:distinct].tolist()) == [p for p in range(PREDICATES) if expected[p]]
    matched = match_block(lists, touched, distinct, masks, Matched(np.empty(1, np.int32), np.empty(1, np.int64), 0, 0))
    found = dict(zip(matched.conjunctions[: matched.filled].tolist(), matched.where.tolist(), strict=False))
    holds = [set(holding(conjunctions, events[e])) for e in range(first, last)]
    where = {c: sum((c in of) << bit for bit, of in enumerate(holds)) for c in range(len(conjunctions))}
    assert found == {c: events for c, events in where.items() if events}
    leave_block(touched, distinct, masks)
    assert not masks.any()


def test_bits_and_rooms() -> None:
    assert [count_bits(mask) for mask in (0, 1, 0b1011, (1 << 63) - 1)] == [0, 1, 3, 63]
    assert [int(BIT_NUMBERS[(1 << bit) % 67]) for bit in range(BLOCK)] == list(range(BLOCK))
    for doubled, kind in ((doubled32, np.int32), (doubled64, np.int64)):
        longer = doubled(np.arange(5, dtype=kind))
        assert longer.dtype == kind
        assert len(longer) >= 10
        assert longer[:5].tolist() == list(range(5))


def test_expected_candidates() -> None:
    slices = csr([[0, 1], [1, 2, ~0], [~1], [2]])
    now, best = expected_candidates(*slices, np.array([0, 2, 3, 2], np.int32), np.array([0.5, 0.25, 0.75]))
    assert (now, best) == (0.5 + 0.75 + 1 + 0.75, 0.25 + 0.25 + 1 + 0.75)
