"""Small arrays of access pairs, drawn at random, for the tests of their kernels; and what must be found, by NumPy."""

import itertools
from dataclasses import dataclass

import numpy as np

from tocsin.arrays import Bools, Int32s
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.pairs.build import _short_fields
from tocsin.conjunctions.pairs.kernels import (
    BY_TEST,
    COLUMN_C,
    CONJUNCTION,
    HIGH_A,
    HIGH_B,
    HIGH_C,
    LOW_A,
    LOW_B,
    LOW_C,
    PairTables,
    Postings,
    file_rectangles,
)
from tocsin.predicates.ranges.kernels import short_codes_by_rank

NOTHING = np.empty(0, np.int32)
Found = set[tuple[int, int]]


@dataclass
class PairCase:
    """Rectangles filed in tables, and events; rectangle i is that of conjunction i."""

    tables: PairTables
    of_table: Int32s
    postings: Postings
    rectangles: Int32s
    events: Events

    def accepted(self) -> Bools:
        """Whether each rectangle accepts the full codes of each event; by test, whether the test is TRUE."""
        codes, rectangles = self.events.codes, self.rectangles
        column_a, column_b = self.tables.column_a[self.of_table], self.tables.column_b[self.of_table]
        a, b, c = codes[column_a], codes[column_b], codes[rectangles[:, COLUMN_C]]
        test, starts = rectangles[:, LOW_A], self.events.true_starts
        true = [np.isin(test, self.events.true[start:end]) for start, end in itertools.pairwise(starts)]
        in_a = (rectangles[:, [LOW_A]] <= a) & (a <= rectangles[:, [HIGH_A]])
        holds = np.where(column_a[:, None] == BY_TEST, np.array(true).T, in_a)
        holds &= (rectangles[:, [LOW_B]] <= b) & (b <= rectangles[:, [HIGH_B]])
        return holds & (rectangles[:, [LOW_C]] <= c) & (c <= rectangles[:, [HIGH_C]])

    def expected(self) -> Found:
        """The pairs (event, rectangle) that match."""
        return {(int(event), int(rectangle)) for rectangle, event in np.argwhere(self.accepted())}


def random_ends(random: np.random.Generator, last: Int32s) -> tuple[Int32s, Int32s]:
    """Ranges of codes up to `last`, some of them with NULL."""
    one, other = random.integers(-1, last + 1), random.integers(-1, last + 1)
    return np.minimum(one, other).astype(np.int32), np.maximum(one, other).astype(np.int32)


def random_case(
    seed: int, rectangles: int, events: int, columns: int = 4, shift: int = 0, buckets: int = 8, tests: int = 0
) -> PairCase:
    """Two tables, over columns 0 and 1 and over columns 1 and 2; the first is by test if there are any tests.

    Short codes are codes shifted by `shift`; the last column is ANYTHING.
    """
    random = np.random.default_rng(seed)
    last = np.append(random.integers(5, 40, columns) << shift, 0).astype(np.int32)
    codes = random.integers(-1, last[:, None] + 1, (columns + 1, events)).astype(np.int32)
    codes[-1] = 0
    true = [np.flatnonzero(random.random(tests) < 0.4) for _ in range(events)]
    starts = np.cumsum([0, *map(len, true)]).astype(np.int64)
    shifts = np.full(columns + 1, shift, np.int32)
    short = short_codes_by_rank(codes, shifts)
    row_of = np.arange(columns + 1, dtype=np.int32)
    true_tests = np.concatenate([NOTHING, *true]).astype(np.int32)
    batch = Events(codes, starts, true_tests, np.zeros(events + 1, np.int64), NOTHING, short, row_of)

    tables = PairTables(
        column_a=np.array([BY_TEST if tests else 0, 1], np.int32),
        shift_a=np.array([0, 2], np.int32),
        column_b=np.array([1, 2], np.int32),
        shift_b=np.array([2, 1], np.int32),
        multiplier_a=np.array([64, 0x9E3779B1]),
        multiplier_b=np.array([1, 0x85EBCA6B]),
        mask=np.array([buckets - 1, buckets - 1]),
        first_bucket=np.array([0, buckets]),
        needs_value=np.zeros(2, bool),
        used_starts=np.array([0, columns + 1, 2 * columns + 2]),
        used=np.tile(row_of, 2),
    )
    of_table = random.integers(0, 2, rectangles).astype(np.int32)
    full = np.zeros((rectangles, HIGH_C + 1), np.int32)
    full[:, CONJUNCTION] = np.arange(rectangles)
    full[:, COLUMN_C] = random.integers(0, columns, rectangles)
    for low, high, column in (
        (LOW_A, HIGH_A, tables.column_a[of_table]),
        (LOW_B, HIGH_B, tables.column_b[of_table]),
        (LOW_C, HIGH_C, full[:, COLUMN_C]),
    ):
        full[:, low], full[:, high] = random_ends(random, last[column])
    cut = full.copy()
    cut[:, [LOW_A, HIGH_A, LOW_B, HIGH_B, LOW_C, HIGH_C]] >>= shift
    if tests:
        by_test = of_table == 0
        test = random.integers(0, tests, rectangles)
        for rows in (full, cut):
            rows[by_test, LOW_A] = rows[by_test, HIGH_A] = test[by_test]
    starts = np.zeros(2 * buckets + 1, np.int64)
    posted = file_rectangles(tables, of_table, cut, starts)
    by_tests = int(starts[buckets]) if tests else 0
    postings = Postings(
        starts=starts,
        rows=full[posted[:by_tests]],
        short=_short_fields(cut, posted[by_tests:], np.maximum(starts - by_tests, 0)),
        short_shift=shifts,
        rectangle=posted[by_tests:].astype(np.int32),
        rectangles=full,
        conjunction_of=NOTHING,
        rest_starts=np.zeros(rectangles + 1, np.int64),
        rest=np.empty((0, 3), np.int32),
        ranges=np.empty((0, 2), np.int32),
    )
    return PairCase(tables, of_table, postings, full, batch)


def as_set(pairs: Int32s) -> Found:
    """Pairs as a set; none may come twice."""
    found = {(event, number) for event, number in pairs.tolist()}
    assert len(found) == len(pairs)
    return found
