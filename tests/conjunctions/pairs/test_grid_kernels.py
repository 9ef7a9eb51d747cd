"""The kernels of grids and of their buckets, against NumPy on full codes."""

import numpy as np
import pytest

from pair_cases import Found, PairCase, as_set, random_case
from tocsin._compile import VECTOR_WIDTH
from tocsin.arrays import Bools, Int32s, Int64s
from tocsin.conjunctions.pairs import bucket_kernels, grid_kernels
from tocsin.conjunctions.pairs.bucket_kernels import GridMatches, GridTable, match_few, match_table
from tocsin.conjunctions.pairs.grid_kernels import match_event, match_grids, transpose_short_codes
from tocsin.conjunctions.pairs.kernels import (
    COLUMN_C,
    HIGH_A,
    HIGH_B,
    HIGH_C,
    LOW_A,
    LOW_B,
    LOW_C,
    WORDS_PER_FLUSH,
    FoundPairs,
)
from tocsin.conjunctions.pairs.layout_kernels import (
    NO_LAYOUTS,
    SKIP_TABLE,
    empty_layouts,
    lay_out,
    lay_out_tables,
    write_entries,
)


def on_an_end(case: PairCase, shift: int) -> Bools:
    """For each rectangle and event: the short codes fit, and one of them is that of an end."""
    short, rectangles = case.events.short.astype(int), case.rectangles
    fits, is_end = np.ones((len(rectangles), short.shape[1]), bool), np.zeros((len(rectangles), short.shape[1]), bool)
    for column, low, high in (
        (case.tables.column_a[case.of_table], LOW_A, HIGH_A),
        (case.tables.column_b[case.of_table], LOW_B, HIGH_B),
        (rectangles[:, COLUMN_C], LOW_C, HIGH_C),
    ):
        first, last = (rectangles[:, [low]] >> shift) + 1, (rectangles[:, [high]] >> shift) + 1
        fits &= (first <= short[column]) & (short[column] <= last)
        is_end |= (short[column] == first) | (short[column] == last)
    return fits & is_end


def without_codes(case: PairCase) -> PairCase:
    case.events = case.events._replace(codes=case.events.codes[:, :0])
    return case


def doubts_of(doubts: Int32s, case: PairCase) -> Found:
    """Doubts as pairs; their columns are those of the table of the rectangle."""
    of_table = case.of_table[doubts[:, bucket_kernels.DOUBT_TAGGED]]
    assert np.array_equal(doubts[:, bucket_kernels.DOUBT_COLUMN_A], case.tables.column_a[of_table])
    assert np.array_equal(doubts[:, bucket_kernels.DOUBT_COLUMN_B], case.tables.column_b[of_table])
    return as_set(doubts[:, [bucket_kernels.DOUBT_EVENT, bucket_kernels.DOUBT_TAGGED]])


def some_room(rows: int = 2) -> GridMatches:
    return GridMatches(np.empty((rows, 2), np.int32), 0, np.empty((rows, 4), np.int32), 0)


@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize("has_codes", [True, False])
@pytest.mark.parametrize("columns", [4, VECTOR_WIDTH + 5])
def test_match_few(shift: int, has_codes: bool, columns: int) -> None:
    """One bucket after the other, with some events: also columns that a vector does not have, and tagged rectangles."""
    case = random_case(columns, rectangles=300, events=12, columns=columns, shift=shift, buckets=2)
    expected, unsure = case.accepted(), on_an_end(case, shift) if shift else np.zeros((300, 12), bool)
    if not has_codes:
        case = without_codes(case)
        expected = np.where(unsure, False, expected)
    postings, events = case.postings, case.events
    tagged = np.where(postings.rectangle % 2, ~postings.rectangle, postings.rectangle)
    order = np.random.default_rng(0).permutation(12).astype(np.int32)
    by_event = transpose_short_codes(events.short, events.row_of)
    sizes = np.diff(postings.starts)
    assert sizes.max() > VECTOR_WIDTH
    for bucket in range(4):
        table, first, size = bucket // 2, int(postings.starts[bucket]), int(sizes[bucket])
        pairs, used, doubts, doubted = match_few(
            postings.short,
            tagged,
            postings.short_shift,
            postings.rectangles,
            events.codes,
            events.short,
            events.row_of,
            by_event,
            case.tables.column_a[table],
            case.tables.column_b[table],
            first,
            size,
            order,
            3,
            10,
            *some_room(),
        )
        there, chosen = postings.rectangle[first : first + size], order[3:10]
        found = {(event, number if number >= 0 else ~number) for event, number in pairs[:used].tolist()}
        assert len(found) == used
        assert ((pairs[:used, 1] < 0) == (np.maximum(pairs[:used, 1], ~pairs[:used, 1]) % 2 == 1)).all()
        assert found == {(e, r) for e in chosen.tolist() for r in there.tolist() if expected[r, e]}
        doubts[:doubted, 1] = np.maximum(doubts[:doubted, 1], ~doubts[:doubted, 1])
        doubtful = {(e, r) for e in chosen.tolist() for r in there.tolist() if unsure[r, e] and not has_codes}
        assert doubts_of(doubts[:doubted], case) == doubtful


@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize("has_codes", [True, False])
@pytest.mark.parametrize("with_few", [True, False], ids=["few one by one", "all in blocks"])
def test_match_table(shift: int, has_codes: bool, with_few: bool) -> None:
    """Events in any buckets: those that are few in theirs, and blocks that are full or not."""
    case = random_case(7, rectangles=250, events=200, shift=shift, buckets=8)
    accepted, unsure = case.accepted(), on_an_end(case, shift) if shift else np.zeros((250, 200), bool)
    if not has_codes:
        case = without_codes(case)
    postings, events, tables = case.postings, case.events, case.tables
    by_event = transpose_short_codes(events.short, events.row_of) if with_few else np.empty(0, np.uint16)
    bucket = np.random.default_rng(1).choice(8, 200, p=[0.4, 0.02, 0.3, 0.02, 0.2, 0.02, 0.04, 0]).astype(np.int32)
    rows = np.arange(5, dtype=np.int32)[::-1].copy()
    ends, order = np.zeros(8, np.int32), np.empty(200, np.int32)
    blocks = np.zeros(40 * 5 * VECTOR_WIDTH, np.uint16)
    lay_out(np.arange(200, dtype=np.int32), bucket.copy(), 200, events.short, rows, ends, order, blocks)
    words_of, words = np.empty((WORDS_PER_FLUSH + 1, 2), np.int32), np.empty(WORDS_PER_FLUSH + 1, np.uint64)
    for table in range(2):
        starts = postings.starts[8 * table : 8 * table + 9]
        column_a, column_b = tables.column_a[table], tables.column_b[table]
        grid = GridTable(
            column_a, column_b, starts, order, ends, blocks, 5 * VECTOR_WIDTH, np.argsort(rows).astype(np.int32)
        )
        matches, candidates = match_table(postings, events, by_event, grid, words_of, words, some_room())
        together = np.zeros((250, 200), bool)
        for number in range(8):
            there = postings.rectangle[starts[number] : starts[number + 1]]
            together[np.ix_(there, np.flatnonzero(bucket == number))] = True
        certain = accepted & together if has_codes else accepted & together & ~unsure
        assert as_set(matches.pairs[: matches.used]) == {(int(e), int(r)) for r, e in np.argwhere(certain)}
        doubtful = {(int(e), int(r)) for r, e in np.argwhere(together & unsure)} if not has_codes else set()
        assert doubts_of(matches.doubts[: matches.doubted], case) == doubtful
        assert candidates == int((np.diff(starts) * np.bincount(bucket, minlength=8)).sum())


@pytest.mark.parametrize("events", [1, 4, 300])
@pytest.mark.parametrize("buckets", [4, 64])
@pytest.mark.parametrize("shift", [0, 2])
def test_match_grids(events: int, buckets: int, shift: int) -> None:
    """Few events for many buckets, and many for few; with private and shared layouts, and a table that is skipped."""
    case = random_case(events, rectangles=400, events=events, shift=shift, buckets=buckets)
    found = FoundPairs(np.full((3, 2), -7, np.int32), 1)
    result, candidates, doubts = match_grids(case.tables, case.postings, case.events, NO_LAYOUTS, found)
    assert result.pairs[0].tolist() == [-7, -7], "what was found before stays"
    assert as_set(result.pairs[1 : result.used]) == case.expected()
    assert len(doubts) == 0
    assert candidates >= result.used - 1

    layouts = empty_layouts(case.tables, events)
    lay_out_tables(case.tables, case.events.short, layouts)
    skipping = layouts._replace(of_table=np.array([SKIP_TABLE, 1], np.int32))
    result, _, _ = match_grids(case.tables, case.postings, case.events, skipping, found)
    assert as_set(result.pairs[1 : result.used]) == {pair for pair in case.expected() if case.of_table[pair[1]] == 1}

    unsure = on_an_end(case, shift) if shift else np.zeros((400, events), bool)
    expected = case.expected()
    short_only = without_codes(case)
    result, _, doubts = match_grids(case.tables, case.postings, short_only.events, layouts, found)
    certain = {(event, number) for event, number in expected if not unsure[number, event]}
    assert as_set(result.pairs[1 : result.used]) == certain
    assert doubts_of(doubts, case) >= expected - certain


def test_entries_and_candidates_agree() -> None:
    """The candidates are the postings of the buckets that the events look into."""
    case = random_case(9, rectangles=200, events=50, buckets=16)
    event_of, bucket_of = np.empty(50, np.int32), np.empty(50, np.int32)
    sizes, expected = np.diff(case.postings.starts), 0
    for table in range(2):
        count = write_entries(case.tables, table, case.events.short, case.events.row_of, event_of, bucket_of)
        expected += int(sizes[case.tables.first_bucket[table] + bucket_of[:count]].sum())
    nothing = FoundPairs(np.empty((1, 2), np.int32), 0)
    assert match_grids(case.tables, case.postings, case.events, NO_LAYOUTS, nothing)[1] == expected


@pytest.mark.parametrize("columns", [3, VECTOR_WIDTH + 3])
def test_transpose_short_codes(columns: int) -> None:
    short = np.random.default_rng(0).integers(0, 9, (columns, 6)).astype(np.uint16)
    row_of = np.random.default_rng(1).permutation(columns).astype(np.int32)
    by_event = transpose_short_codes(short, row_of).reshape(6, VECTOR_WIDTH)
    assert by_event[:, :columns].tolist() == short[row_of].T[:, :VECTOR_WIDTH].tolist()


def test_set_places() -> None:
    columns, row_of = np.array([0, 2, 3], np.int32), np.array([5, 1, 0, 4], np.int32)
    rows = np.array([0, 4, 5], np.int32)
    place_of_row, place_of = np.full(6, -1, np.int32), np.full(4, -1, np.int32)
    grid_kernels._set_places(columns, row_of, rows, place_of_row, place_of)
    assert place_of.tolist() == [2, -1, 0, 1]
    assert (rows[place_of[columns]] == row_of[columns]).all()


def test_is_end_and_holds_in_full() -> None:
    fields = np.array([3, 9, 9, 5, 9, 9], np.uint16)
    assert [bucket_kernels.is_end(fields, 0, 3, code) for code in (2, 3, 4, 5)] == [False, True, False, True]
    case = random_case(5, rectangles=60, events=30)
    accepted = case.accepted()
    for number in range(60):
        a, b = (column[case.of_table[number]] for column in (case.tables.column_a, case.tables.column_b))
        for event in range(30):
            for tagged in (number, ~number):
                holds = bucket_kernels.holds_in_full(case.rectangles, tagged, case.events.codes, a, b, event)
                assert holds == accepted[number, event]


def test_write_doubt() -> None:
    doubts = np.zeros((3, 4), np.int32)
    assert bucket_kernels.write_doubt(doubts, 1, 5, ~6, 7, 8) == 2
    assert doubts.tolist() == [[0] * 4, [5, ~6, 7, 8], [0] * 4]


def test_decide() -> None:
    case = random_case(6, rectangles=20, events=VECTOR_WIDTH + 3)
    accepted, order = case.accepted(), np.arange(VECTOR_WIDTH + 3, dtype=np.int32)[::-1].copy()
    doubts = np.empty((VECTOR_WIDTH, 4), np.int32)
    for number in range(20):
        bits = int(np.random.default_rng(number).integers(0, 2**VECTOR_WIDTH))
        a, b = (column[case.of_table[number]] for column in (case.tables.column_a, case.tables.column_b))
        codes = case.events.codes
        matching, doubted = bucket_kernels._decide(
            np.uint64(bits), number, a, b, case.rectangles, codes, order, 3, doubts, 0
        )
        asked = [bit for bit in range(VECTOR_WIDTH) if bits >> bit & 1]
        assert int(matching) == sum(1 << bit for bit in asked if accepted[number, order[3 + bit]])
        assert doubted == 0
        matching, doubted = bucket_kernels._decide(
            np.uint64(bits), number, a, b, case.rectangles, codes[:, :0], order, 3, doubts, 0
        )
        assert int(matching) == 0
        assert doubts[:doubted].tolist() == [[order[3 + bit], number, a, b] for bit in asked]


@pytest.mark.parametrize("count", [0, 1, 20])
def test_expand_words(count: int) -> None:
    random = np.random.default_rng(count)
    order = random.permutation(100).astype(np.int32)
    words_of = random.integers(0, 60, (count + 1, 2)).astype(np.int32)
    words = random.integers(1, 2**VECTOR_WIDTH, count + 1).astype(np.uint64)
    expected = []
    for number in range(count):
        bits = np.flatnonzero([int(words[number]) >> bit & 1 for bit in range(VECTOR_WIDTH)])
        expected += [(order[words_of[number, 1] + bit], words_of[number, 0]) for bit in bits]
    pairs = np.full((2, 2), -7, np.int32)
    pairs, used = bucket_kernels._expand_words(order, words_of, words, count, len(expected), pairs, 1)
    assert used == 1 + len(expected)
    assert pairs[0].tolist() == [-7, -7]
    assert list(map(tuple, pairs[1:used])) == expected


def grids_of(case: PairCase) -> Int64s:
    return np.stack([getattr(case.tables, name) for name in grid_kernels.GRIDS], axis=1, dtype=np.int64)


@pytest.mark.parametrize("shift", [0, 2])
@pytest.mark.parametrize("codes", [True, False])
@pytest.mark.parametrize("rectangles", [0, 5, 300])
def test_match_event(rectangles: int, codes: bool, shift: int) -> None:
    for seed in range(8):
        case = random_case(seed, rectangles, 1, shift=shift)
        expected, doubtful = case.expected(), on_an_end(case, shift) if shift else np.zeros((rectangles, 1), bool)
        # Both tables are for every event: they stand behind the last column.
        grids, starts_of = grids_of(case), np.array([0, 0, 0, 0, 0, 0, 2])
        if not codes:
            case = without_codes(case)
        pairs, candidates, doubts = match_event(grids, starts_of, case.postings, case.events)
        sizes = np.diff(case.postings.starts)
        look, count = grid_kernels._buckets_of_event(
            grids, starts_of, case.postings, case.events.short, case.events.row_of
        )
        assert candidates == look[:count, grid_kernels.LOOK_SIZE].sum() <= sizes.sum()
        if codes:
            assert as_set(pairs) == expected
            assert len(doubts) == 0
        else:
            certain = {(0, int(number)) for number in np.flatnonzero(~doubtful[:, 0])}
            assert as_set(pairs) == expected & certain
            assert doubts_of(doubts, case) == {(0, int(number)) for number in np.flatnonzero(doubtful[:, 0])}


def test_an_event_looks_only_into_tables_on_its_columns() -> None:
    case = random_case(1, 200, 1)
    short = case.events.short.copy()
    short[:3, 0] = 1
    starts_of = np.array([0, 1, 2, 2, 2, 2, 2])

    def tables(*without: int) -> set[int]:
        some = short.copy()
        some[list(without), 0] = 0
        look, count = grid_kernels._buckets_of_event(grids_of(case), starts_of, case.postings, some, case.events.row_of)
        return set(look[:count, grid_kernels.LOOK_COLUMN_A].tolist())

    assert tables() == {0, 1}
    assert tables(0) == {1}, "column a of the first table is NULL"
    assert tables(2) == {0}, "column b of the second table is NULL"
    assert tables(1) == set()
