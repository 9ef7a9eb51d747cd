"""The kernels that all tables of access pairs share, against NumPy and the formulas of their docstrings."""

import itertools

import numpy as np
import pytest

from pair_cases import random_case
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Events
from tocsin.conjunctions.pairs import kernels
from tocsin.conjunctions.pairs.kernels import (
    COLUMN_C,
    HIGH_A,
    HIGH_B,
    HIGH_C,
    LOW_A,
    LOW_B,
    SHORT_COLUMN_C,
    SHORT_FIELDS,
    file_rectangles,
    grown,
    sort_by_bucket,
    verify_rest,
)


@pytest.mark.parametrize("seed", range(3))
def test_buckets_and_filing(seed: int) -> None:
    """A rectangle has one posting in each bucket first_bucket + ((x * multiplier_a + y * multiplier_b) & mask)."""
    case = random_case(seed, rectangles=40, events=1, buckets=16)
    tables, cut = case.tables, case.rectangles
    expected: list[set[int]] = [set() for _ in range(32)]
    for number, table in enumerate(case.of_table):
        for x in range(
            (cut[number, LOW_A] + 1) >> tables.shift_a[table], ((cut[number, HIGH_A] + 1) >> tables.shift_a[table]) + 1
        ):
            for y in range(
                (cut[number, LOW_B] + 1) >> tables.shift_b[table],
                ((cut[number, HIGH_B] + 1) >> tables.shift_b[table]) + 1,
            ):
                place = (x * tables.multiplier_a[table] + y * tables.multiplier_b[table]) & tables.mask[table]
                bucket = tables.first_bucket[table] + place
                assert kernels._bucket_of(tables, table, x, y) == bucket
                expected[bucket].add(number)
    starts = np.zeros(33, np.int64)
    posted = file_rectangles(tables, case.of_table, cut, starts)
    assert [posted[a:b].tolist() for a, b in itertools.pairwise(starts)] == [sorted(bucket) for bucket in expected]
    counts = np.zeros(32, np.int64)
    kernels._file(tables, case.of_table, cut, counts, np.empty(0, np.int32))
    assert counts.tolist() == list(map(len, expected))


def test_short_fields_stand_where_the_docstring_says() -> None:
    """Field i of posting j of a bucket of n from f on is `short[SHORT_FIELDS * f + i * n + j]`."""
    case = random_case(2, rectangles=30, events=1, shift=3)
    starts, short = case.postings.starts, case.postings.short
    for first, end in itertools.pairwise(starts):
        for place in range(end - first):
            rectangle = case.rectangles[case.postings.rectangle[first + place]]
            for field in range(SHORT_FIELDS):
                value = rectangle[field + 1]
                expected = value if field == SHORT_COLUMN_C else (value >> 3) + 1
                assert short[SHORT_FIELDS * first + field * (end - first) + place] == expected


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_contains_and_in_ranges(count: int) -> None:
    values = np.sort(np.random.default_rng(count).choice(40, count + 2, replace=False)).astype(np.int32)
    ranges = np.stack([3 * np.arange(12), 3 * np.arange(12) + 1], axis=1).astype(np.int32)
    for wanted in range(-1, 42):
        assert kernels.contains(values, 1, 1 + count, wanted) == (wanted in values[1 : 1 + count])
        inside = (ranges[1 : 1 + count, 0] <= wanted) & (wanted <= ranges[1 : 1 + count, 1])
        assert kernels.in_ranges(ranges, 1, 1 + count, wanted) == inside.any()


def test_grown() -> None:
    rows = np.arange(12, dtype=np.int32).reshape(-1, 4)
    for wanted in (0, 3, 10):
        larger = grown(rows, wanted)
        assert larger.shape == (2 * max(3, wanted), 4)
        assert np.array_equal(larger[:3], rows)


def test_sort_by_bucket() -> None:
    bucket_of = np.random.default_rng(0).integers(0, 7, 50).astype(np.int32)
    ends, order = np.zeros(7, np.int32), np.full(50, -1, np.int32)
    sort_by_bucket(bucket_of, 40, ends, order)
    assert order[:40].tolist() == np.argsort(bucket_of[:40], kind="stable").tolist()
    assert ends.tolist() == np.cumsum(np.bincount(bucket_of[:40], minlength=7)).tolist()


@pytest.mark.parametrize("several", [False, True], ids=["by conjunction", "by rectangle"])
@pytest.mark.parametrize("seed", range(3))
def test_verify_rest(seed: int, several: bool) -> None:
    """A rest list of unions of ranges and of tests, whose NULL comes from a column or from phase 1."""
    random = np.random.default_rng(seed)
    conjunctions, events, columns, tests = 12, 10, 3, 4
    codes = random.integers(-1, 9, (columns, events)).astype(np.int32)
    null_column = np.array([-1, -1, 0, 2], np.int32)
    truth = random.choice([TRUE, FALSE, NULL], (tests, events))
    truth[2:] = np.where(truth[2:] == NULL, FALSE, truth[2:])
    truth[2:][codes[null_column[2:]] < 0] = NULL
    true = [np.flatnonzero(truth[:, event] == TRUE) for event in range(events)]
    null = [np.flatnonzero((truth[:, event] == NULL) & (null_column < 0)) for event in range(events)]
    batch = Events(
        codes,
        np.cumsum([0, *map(len, true)]),
        np.concatenate(true).astype(np.int32),
        np.cumsum([0, *map(len, null)]),
        np.concatenate(null).astype(np.int32),
    )
    rest: list[tuple[int, int, int]] = []
    ranges: list[tuple[int, int]] = []
    starts = [0]
    holds = np.ones((conjunctions, events), bool)
    for number in range(conjunctions):
        for column in np.flatnonzero(random.random(columns) < 0.4).tolist():
            wanted = [(0, 2), (4, 4), (6, 8)][: random.integers(1, 4)]
            rest.append((column, len(ranges), len(ranges) + len(wanted)))
            ranges += wanted
            holds[number] &= np.any([(low <= codes[column]) & (codes[column] <= high) for low, high in wanted], axis=0)
        for test in np.flatnonzero(random.random(tests) < 0.3).tolist():
            accepts = int(random.integers(1, 7))
            rest.append((~accepts, test, null_column[test]))
            holds[number] &= (truth[test] & accepts) != 0
        starts.append(len(rest))
    postings = random_case(0, rectangles=0, events=0).postings._replace(
        rest_starts=np.array(starts),
        rest=np.array(rest, np.int32).reshape(-1, 3),
        ranges=np.array(ranges, np.int32).reshape(-1, 2),
    )
    conjunction_of = random.permutation(conjunctions).astype(np.int32) if several else np.empty(0, np.int32)
    pairs = np.array([(event, number) for event in range(events) for number in range(conjunctions)], np.int32)
    plain = random.random(len(pairs)) < 0.3
    given = pairs.copy()
    given[:, 1] = np.where(plain, given[:, 1], ~given[:, 1])
    end = verify_rest(postings, batch, conjunction_of, given, 5, len(given) - 5)
    of = conjunction_of[pairs[:, 1]] if several else pairs[:, 1]
    stays = (plain | holds[of, pairs[:, 0]])[5:-5]
    assert given[5:end].tolist() == np.stack([pairs[:, 0], of], axis=1)[5:-5][stays].tolist()
    assert 0 < stays.sum() < stays.size


def test_fields_of_postings_are_columns_of_rectangles() -> None:
    assert HIGH_C == SHORT_FIELDS
    assert COLUMN_C == SHORT_COLUMN_C + 1
