"""Dense blocks: their kernels against NumPy and the definition, with one block or region and with two."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from contracts.conjunction_index_contract import random_case
from tocsin._compile import COMPILED
from tocsin.arrays import Bools, Int64s
from tocsin.conjunctions.bitmaps import build, dense, match
from tocsin.conjunctions.bitmaps.arrangement import by_families_of_columns
from tocsin.conjunctions.bitmaps.dense import (
    DENSE_BLOCK,
    LINE,
    LINE_WORDS,
    DenseBlocks,
    match_dense,
    match_dense_of_one,
    words_of,
)
from tocsin.conjunctions.bitmaps.kernels import cells_of_codes
from tocsin.conjunctions.bitmaps.match import BitmapIndex
from tocsin.conjunctions.coded import Conjunctions, Events, popularity
from tocsin.conjunctions.protocol import Extent
from tocsin.conjunctions.runs import pairs_of
from tocsin.invariants import BrokenInvariantError
from tocsin.tuning import TUNING

NOTHING = np.empty(0, np.int32)
EVERYTHING = replace(TUNING, dense_matches=-1.0, min_dense=0, min_named_dense=1)


def test_words_fill_lines_of_the_cache() -> None:
    assert [words_of(places) for places in (1, 512, 513, DENSE_BLOCK)] == [8, 8, 16, DENSE_BLOCK // 64]


def two_rows(places: int, seed: int) -> tuple[DenseBlocks, Int64s, Int64s]:
    """One block: ranges that end in one of four cells, or span them; in the other row no end, and clear bitsets."""
    random = np.random.default_rng(seed)
    low = random.integers(0, 40, places)
    high = np.minimum(low + random.integers(0, 25, places), 39)
    width, bitsets = words_of(places), 5 + 3
    words, ends = np.zeros((bitsets, width), np.uint64), []
    for place in range(places):
        first, last = low[place] // 10, high[place] // 10
        for cell in (*range(first), *range(last + 1, 5)):
            words[cell, place // 64] |= np.uint64(1 << place % 64)
        ends += [(2 * first, low[place], place), (2 * last + 1, high[place], place)]
    ends.sort()
    words[5 + 1, 0] = 6
    counts = np.bincount([key for key, _, _ in ends], minlength=2 * bitsets)
    # The second row has the first line and no other.
    of_rows = [words[:5].reshape(-1), words[5:, :LINE_WORDS].reshape(-1)]
    blocks = DenseBlocks(
        place_starts=np.array([0, places]),
        block_starts=np.array([0, 1]),
        row_starts=np.array([0, 2]),
        column=np.array([0, 1], np.int32),
        shift=np.array([0, 1], np.int32),
        bitset_starts=np.array([0, bitsets]),
        first_bitset=np.array([0, 5], np.int32),
        line_starts=np.array([0, width // LINE_WORDS, width // LINE_WORDS + 1]),
        lines=np.append(np.arange(width // LINE_WORDS), 0).astype(np.uint16),
        word_starts=np.cumsum([0, *(part.size for part in of_rows)]),
        words=np.concatenate(of_rows),
        list_starts=np.array([0, bitsets]),
        end_starts=np.concatenate([[0], np.cumsum(counts)]),
        end_code=np.array([code for _, code, _ in ends], np.int32),
        end_place=np.array([place for _, _, place in ends], np.uint16),
        partial=np.zeros(width, np.uint64),
        clear=np.zeros(bitsets, bool),
    )
    dense.mark_clear_bitsets(blocks)
    return blocks, low, high


def test_where_lines_and_bitsets_are() -> None:
    """700 places are two lines: the first row has both, the second the first one."""
    blocks, _, _ = two_rows(700, 1)
    assert dense._width_of(blocks, 0) == 16
    assert [dense._first_word(blocks, 0, cell) for cell in range(5)] == [0, 16, 32, 48, 64]
    assert [dense._first_word(blocks, 1, cell) for cell in range(3)] == [80, 88, 96]
    blocks = blocks._replace(lines=np.array([3, 70, 2], np.uint16))
    assert [dense._first_line(blocks, 0, line) for line in (0, 3, 4, 70, 71)] == [0, 0, 1, 1, 2]
    assert [dense._first_line(blocks, 1, line) for line in (2, 3)] == [2, 3]


def test_clear_bitsets_have_no_bit_and_no_end() -> None:
    blocks, _, _ = two_rows(300, 1)
    assert blocks.clear.tolist() == [False] * 5 + [True, False, True]


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_events_fail_where_their_cell_or_an_end_says_so(seed: int, swept: bool) -> None:
    places, events = 700, 70
    blocks, low, high = two_rows(places, seed)
    random = np.random.default_rng(seed)
    codes = np.stack([np.full(events, 7), random.integers(-1, 40, events), np.full(events, 7)]).astype(np.int32)
    cells = np.stack([np.where(codes[1] < 0, 4, codes[1] // 10), random.integers(0, 5, events)]).astype(np.uint8)
    columns, failing = np.array([1, 2], np.int32), np.full((events, words_of(places)), 5, np.uint64)
    if swept:
        by_code = np.argsort(codes[1:], axis=1).astype(np.int32)
        by_code[1] = np.argsort(cells[1])
        dense._sweep(blocks, 0, 0, columns, codes, cells, by_code, failing)
    else:
        for event in range(events):
            dense._mark(blocks, 0, columns, codes, cells, event, failing[event])
    for event in range(events):
        fails = (codes[1, event] < low) | (codes[1, event] > high)
        fails[1:3] |= cells[1, event] >> 1 == 1
        marked = np.unpackbits(failing[event].view(np.uint8), bitorder="little").astype(bool)
        assert marked[:places].tolist() == fails.tolist()
        assert not marked[places:].any()


@pytest.mark.parametrize("place", [0, 5])
def test_partial_conjunctions_are_verified_and_places_behind_the_last_are_none(place: int) -> None:
    case = random_case(3, conjunctions=100, events=4, columns=3, tests=2, span=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "TUNING", EVERYTHING)
        index = BitmapIndex.build(case.conjunctions, case.popularity)
    first = index.rare
    blocks = index.dense._replace(partial=np.full_like(index.dense.partial, ~np.uint64(0)))
    failing, bits = np.zeros((2, blocks.partial.size), np.uint64), np.zeros((4, blocks.partial.size), np.uint64)
    failing[1, 0] = np.uint64(1 << place)
    by_event = np.ascontiguousarray(case.events.codes.T)
    count = dense._set_others(blocks, 0, 1, index.demands, case.events, by_event, 2, failing, bits)
    assert count == 2 * (100 - first) - 1
    is_set = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").astype(bool)
    assert not is_set[:2].any()
    numbers = index.demands.conjunction[first:]
    for event in (2, 3):
        expected = {number for number in numbers.tolist() if (event, number) in case.expected()}
        if event == 3:
            expected -= {int(numbers[place])}
        assert set(numbers[np.flatnonzero(is_set[event])].tolist()) == expected
    for number, at in zip(numbers.tolist(), range(first, 100), strict=True):
        assert dense._holds(index.demands, case.events, by_event, 1, at) == ((1, number) in case.expected())


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize(("seed", "tests", "span"), [(1, 0, 9), (2, 3, 40), (3, 3, 3000)])
def test_matches_are_those_of_the_definition(
    seed: int, tests: int, span: int, swept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = random_case(seed, conjunctions=150, events=20, columns=4, tests=tests, span=span)
    monkeypatch.setattr(build, "TUNING", EVERYTHING)
    monkeypatch.setattr(match, "TUNING", replace(TUNING, sweep_events=1 if swept else 10_000))
    index = BitmapIndex.build(case.conjunctions, case.popularity)
    index.check()
    lists, candidates = index.match_lists(case.events)
    found = list(map(tuple, pairs_of(lists).tolist()))
    assert len(found) == len(set(found)) <= candidates <= 150 * 20
    assert set(found) == case.expected()


def of_wide_ranges(count: int, events: int) -> tuple[BitmapIndex, Events, Bools]:
    """Ranges of one column that begin low and end high, one in three of them two ranges; events, some of them NULL."""
    random, last = np.random.default_rng(5), 2000
    low, high = random.integers(0, 900, count), random.integers(1100, last + 1, count)
    is_union = np.arange(count) % 3 == 0
    number = np.repeat(np.arange(count), 1 + is_union)
    first_of = np.append(True, number[1:] != number[:-1])
    begins = np.where(first_of, low[number], 1000)
    ends = np.where(first_of & is_union[number], 950, high[number])
    rows = [number, np.zeros(number.size), begins, ends]
    conjunction, column, lows, highs = (row.astype(np.int32) for row in rows)
    said = Conjunctions(count, np.array([last], np.int32), conjunction, column, lows, highs, *[NOTHING] * 4)
    codes = np.where(random.random((1, events)) < 0.2, -1, random.integers(0, last + 1, (1, events))).astype(np.int32)
    none, code = np.zeros(events + 1, np.int64), codes[0][:, None]
    holds = (code >= low) & (code <= high) & ~(is_union & (code > 950) & (code < 1000))
    batch = Events(codes, none, NOTHING, none, NOTHING)
    return BitmapIndex.build(said, [popularity(lows, highs, last)]), batch, holds


@pytest.mark.parametrize("blocks_of_a_region", [1, 2])
@pytest.mark.parametrize("events", [1, 3, 2 * TUNING.sweep_events])
def test_two_blocks(events: int, blocks_of_a_region: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second block is not full; unions of ranges, of which there are more codes than cells, are verified."""
    monkeypatch.setattr(build, "REGION_BLOCKS", blocks_of_a_region)
    count = DENSE_BLOCK + 700 if COMPILED else 900
    index, batch, holds = of_wide_ranges(count, events)
    assert index.rare == 0
    assert index.dense.place_starts.size - 1 == 1 + COMPILED
    assert index.dense.row_starts.size - 1 == 1 + (COMPILED and blocks_of_a_region == 1)
    index.check_arrays(Extent(columns=2, conjunctions=count))
    pairs, candidates = index.match(batch)
    assert sorted(map(tuple, pairs.tolist())) == list(map(tuple, np.argwhere(holds).tolist()))
    assert len(pairs) <= candidates <= 1.2 * len(pairs) + 10
    again = BitmapIndex.from_arrays(index.arrays())
    assert sorted(map(tuple, again.match(batch)[0].tolist())) == sorted(map(tuple, pairs.tolist()))


def test_blocks_of_version_8_become_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, each block was a region, rows had all lines, and `word_starts` said where the words of a block start."""
    monkeypatch.setattr(build, "REGION_BLOCKS", 1)
    count = DENSE_BLOCK + 700 if COMPILED else 900
    index, batch, holds = of_wide_ranges(count, 3)
    arrays = index.arrays()
    for name in ("block_starts", "line_starts", "lines", "list_starts"):
        del arrays[f"dense.{name}"]
    starts = index.dense.row_starts
    arrays["dense.word_starts"] = index.dense.word_starts[starts]
    read = BitmapIndex.from_arrays(arrays)
    read.check_arrays(Extent(columns=2, conjunctions=count))
    for name, array in index.dense._asdict().items():
        assert np.array_equal(getattr(read.dense, name), array), name
    assert sorted(map(tuple, read.match(batch)[0].tolist())) == list(map(tuple, np.argwhere(holds).tolist()))
    arrays["dense.place_starts"] = index.dense.place_starts * 1000
    with pytest.raises(BrokenInvariantError, match=r"'place_starts': a block has too many or too few places"):
        BitmapIndex.from_arrays(arrays)


@pytest.mark.parametrize("events", [1, 3, 2 * TUNING.sweep_events])
def test_a_row_has_the_lines_that_name_its_column(events: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each conjunction names two of six columns, in no order; those of like columns come to stand together."""
    monkeypatch.setattr(build, "TUNING", EVERYTHING)
    count, columns, last = 20 * LINE, 6, 300
    random = np.random.default_rng(4)
    named = np.sort(np.argsort(random.random((count, columns)), axis=1)[:, :2], axis=1)
    low = random.integers(0, 150, named.shape)
    high = low + random.integers(0, 150, named.shape)
    numbers, last_code = np.repeat(np.arange(count), 2).astype(np.int32), np.full(columns, last, np.int32)
    rows = [row.reshape(-1).astype(np.int32) for row in (named, low, high)]
    said = Conjunctions(count, last_code, numbers, *rows, *[NOTHING] * 4)
    popular = [popularity(rows[1][rows[0] == column], rows[2][rows[0] == column], last) for column in range(columns)]
    index = BitmapIndex.build(said, popular)
    index.check()
    index.check_arrays(Extent(columns=columns, conjunctions=count))
    assert index.rare == 0
    # 15 sets of columns: a line has those of one or two, so that a third of the lines name a column, and a few more.
    assert index.dense.lines.size < columns * 20 * 0.6
    codes = random.integers(-1, last + 1, (columns, events)).astype(np.int32)
    none = np.zeros(events + 1, np.int64)
    lists, _ = index.match_lists(Events(codes, none, NOTHING, none, NOTHING))
    of_named = codes.T[:, named]
    holds = ((of_named >= low) & (of_named <= high)).all(axis=2)
    assert sorted(map(tuple, pairs_of(lists).tolist())) == list(map(tuple, np.argwhere(holds).tolist()))


def test_conjunctions_that_name_like_columns_stand_together() -> None:
    """Four sets of three columns; neighbours differ by one column at least, and each set is found in one run."""
    column = np.array([0, 1, 2, 0, 1, 2, 0, 1], np.int32)
    order = by_families_of_columns(np.array([0, 1, 2, 4, 5, 7, 8, 8]), column, 3).tolist()
    sets = [{0}, {1}, {0, 2}, {1}, {0, 2}, {1}, set[int]()]
    runs = [sets[number] for number in order]
    assert sorted(order) == list(range(7))
    assert sum(one != other for one, other in pairwise(runs)) == 3


def test_many_events_are_matched_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    index, batch, holds = of_wide_ranges(900, 50)
    whole, candidates = index.match_lists(batch)
    monkeypatch.setattr(match, "TUNING", replace(TUNING, sweep_events=7, most_bytes_of_bits=1))
    parts, more = index.match_lists(batch)
    assert (parts.starts.tolist(), parts.values.tolist(), more) == (
        whole.starts.tolist(),
        whole.values.tolist(),
        candidates,
    )
    assert sorted(map(tuple, pairs_of(parts).tolist())) == list(map(tuple, np.argwhere(holds).tolist()))


@pytest.mark.parametrize("seed", range(4))
def test_match_dense_of_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "TUNING", EVERYTHING)
    case = random_case(seed, conjunctions=2000, events=1, columns=2, tests=0, span=10)
    index = BitmapIndex.build(case.conjunctions, case.popularity)
    assert index.rare == 0
    found, candidates = match_dense_of_one(index.dense, index.demands, case.events, *index._cells)
    assert sorted(map(tuple, found.tolist())) == sorted(case.expected())
    bits = np.zeros((1, index.dense.partial.size), np.uint64)
    cells, by_event = cells_of_codes(case.events.codes, *index._cells), np.ascontiguousarray(case.events.codes.T)
    no_order = np.empty((0, 0), np.int32)
    columns = index.cells.columns
    assert candidates == match_dense(index.dense, index.demands, case.events, by_event, columns, cells, no_order, bits)
    assert int(np.unpackbits(bits.view(np.uint8)).sum()) == len(found)


@pytest.mark.parametrize("events", [1, 40])
def test_rare_and_dense_ones_side_by_side(events: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conjunctions with tests count as rare; an event may match some of both."""
    monkeypatch.setattr(build, "TUNING", replace(EVERYTHING, dense_matches=0.2))
    for seed in range(3):
        case = random_case(seed, conjunctions=700, events=events, columns=3, tests=2, span=60)
        index = BitmapIndex.build(case.conjunctions, case.popularity)
        assert 0 < index.rare < 700
        index.check()
        assert sorted(map(tuple, index.match(case.events)[0].tolist())) == sorted(case.expected())
