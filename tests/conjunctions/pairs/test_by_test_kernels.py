"""The kernels of tables by test, against NumPy on full codes."""

import numpy as np
import pytest

from pair_cases import PairCase, as_set, random_case
from tocsin._compile import VECTOR_WIDTH
from tocsin.conjunctions.pairs import by_test_kernels
from tocsin.conjunctions.pairs.by_test_kernels import block_marks, match_by_test, match_event_with_tests
from tocsin.conjunctions.pairs.kernels import (
    COLUMN_C,
    CONJUNCTION,
    HIGH_A,
    HIGH_B,
    HIGH_C,
    LOW_A,
    LOW_B,
    LOW_C,
    FoundPairs,
)
from tocsin.conjunctions.pairs.match import PairIndex


def by_test_case(seed: int, events: int, rectangles: int = 200) -> PairCase:
    return random_case(seed, rectangles=rectangles, events=events, buckets=16, tests=6)


@pytest.mark.parametrize("events", [1, 3, 30, 300])
@pytest.mark.parametrize("with_rest", [False, True])
def test_match_by_test(events: int, with_rest: bool) -> None:
    """Buckets of few events and of many; a rest list, here of ranges of column 0, is verified at the end."""
    case = by_test_case(events, events)
    postings, expected = case.postings, {pair for pair in case.expected() if case.of_table[pair[1]] == 0}
    if with_rest:
        rows = postings.rows.copy()
        has_rest = rows[:, CONJUNCTION] % 2 == 0
        rows[has_rest, COLUMN_C] = ~rows[has_rest, COLUMN_C]
        starts = (np.arange(201) + 1) // 2
        rest = np.tile(np.array([[0, 0, 1]], np.int32), (100, 1))
        postings = postings._replace(rows=rows, rest_starts=starts, rest=rest, ranges=np.array([[0, 3]], np.int32))
        code = case.events.codes[0]
        expected = {(event, number) for event, number in expected if number % 2 or 0 <= code[event] <= 3}
    found = FoundPairs(np.full((3, 2), -7, np.int32), 1)
    result, candidates = match_by_test(case.tables, postings, case.events, found, *block_marks())
    assert result.pairs[0].tolist() == [-7, -7], "what was found before stays"
    assert as_set(result.pairs[1 : result.used]) == expected
    assert candidates >= len(expected)


@pytest.mark.parametrize("seed", range(4))
def test_match_event_with_tests(seed: int) -> None:
    """One call finds what an index finds in its grids and in its tables by test."""
    case = by_test_case(seed, events=1)
    index = PairIndex(case.tables, case.postings)
    found, candidates = match_event_with_tests(*index._grids, case.tables, case.postings, case.events, *block_marks())
    expected = case.expected()
    assert as_set(found) == expected
    assert len(found) == len(expected)
    assert candidates >= len(expected)


@pytest.mark.parametrize("needs_value", [False, True])
def test_write_test_entries(needs_value: bool) -> None:
    """Test t and short code b are in cell ((t + 1) >> shift_a, b >> shift_b)."""
    case = by_test_case(1, 40)
    tables, events = case.tables._replace(needs_value=np.array([needs_value, False])), case.events
    size = events.true.size
    event_of, test_of, bucket_of = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    count = by_test_kernels._write_test_entries(tables, 0, events, event_of, test_of, bucket_of)
    event = np.repeat(np.arange(40), np.diff(events.true_starts))
    looks = events.codes[1, event] >= 0 if needs_value else np.ones(size, bool)
    cells = ((events.true.astype(np.int64) + 1) >> tables.shift_a[0]) * tables.multiplier_a[0]
    cells += (events.short[1, event].astype(np.int64) >> tables.shift_b[0]) * tables.multiplier_b[0]
    assert event_of[:count].tolist() == event[looks].tolist()
    assert test_of[:count].tolist() == events.true[looks].tolist()
    assert bucket_of[:count].tolist() == (cells & tables.mask[0])[looks].tolist()


def accepts(case: PairCase, posting: int, event: int, test: int) -> bool:
    """Whether a posting accepts an event with this test; its column c may be a complement."""
    row, codes = case.postings.rows[posting], case.events.codes
    column_c = max(row[COLUMN_C], ~row[COLUMN_C])
    values = ((test, LOW_A, HIGH_A), (codes[1, event], LOW_B, HIGH_B), (codes[column_c, event], LOW_C, HIGH_C))
    return all(row[low] <= value <= row[high] for value, low, high in values)


def test_scan_event_and_tagged() -> None:
    case = by_test_case(2, 20)
    rows = case.postings.rows
    rows[::3, COLUMN_C] = ~rows[::3, COLUMN_C]
    pairs = np.empty((len(rows), 2), np.int32)
    for event in range(20):
        for test in range(6):
            used = by_test_kernels._scan_event(
                rows, 2, len(rows), case.events.codes, event, test, case.events.codes[1, event], pairs, 0
            )
            there = [posting for posting in range(2, len(rows)) if accepts(case, posting, event, test)]
            tagged = [rows[p, CONJUNCTION] if p % 3 else ~rows[p, CONJUNCTION] for p in there]
            assert pairs[:used].tolist() == [[event, number] for number in tagged]
            assert [by_test_kernels._tagged(rows, p) for p in there] == tagged


def test_bits_of() -> None:
    for seed in range(20):
        marks = np.random.default_rng(seed).integers(0, 2, VECTOR_WIDTH).astype(np.uint8)
        expected = sum(int(mark) << place for place, mark in enumerate(marks))
        assert int(by_test_kernels._bits_of(marks.view(np.uint64))) == expected


@pytest.mark.parametrize("width", [1, 5, VECTOR_WIDTH])
def test_scan_and_write_block(width: int) -> None:
    case = by_test_case(3, 50)
    rows, codes = case.postings.rows, case.events.codes
    rows[::3, COLUMN_C] = ~rows[::3, COLUMN_C]
    members = np.random.default_rng(width).permutation(50)[:VECTOR_WIDTH].astype(np.int32)
    tests = np.random.default_rng(width).integers(0, 6, VECTOR_WIDTH)
    block = np.zeros((codes.shape[0] + 2) * VECTOR_WIDTH, np.int32)
    block[-2 * VECTOR_WIDTH :][:VECTOR_WIDTH] = np.where(
        np.arange(VECTOR_WIDTH) < width, tests, by_test_kernels._NO_CODE
    )
    block[-VECTOR_WIDTH:] = codes[1, members]
    filled, marks = np.zeros(codes.shape[0], bool), np.empty(VECTOR_WIDTH, np.uint8)
    marked, bits = np.empty(len(rows) + 1, np.int32), np.empty(len(rows) + 1, np.uint64)
    count = by_test_kernels._scan_block(
        rows, 1, len(rows), codes, members, width, block, filled, marks, marks.view(np.uint64), marked, bits
    )
    expected = []
    for posting in range(1, len(rows)):
        slots = [slot for slot in range(width) if accepts(case, posting, members[slot], int(tests[slot]))]
        if slots:
            expected.append((posting, sum(1 << slot for slot in slots)))
    assert list(zip(marked[:count].tolist(), bits[:count].tolist(), strict=True)) == expected

    pairs = np.empty((VECTOR_WIDTH * len(rows), 2), np.int32)
    used = by_test_kernels._write_block(rows, members, marked, bits, count, pairs, 0)
    by_hand = [
        [members[slot], by_test_kernels._tagged(rows, posting)]
        for posting, word in expected
        for slot in range(width)
        if word >> slot & 1
    ]
    assert pairs[:used].tolist() == by_hand
