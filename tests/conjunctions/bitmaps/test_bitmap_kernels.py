"""The kernels of bitmaps, against NumPy and the formulas of their docstrings."""

from dataclasses import replace

import numpy as np
import pytest

from contracts.conjunction_index_contract import Case, random_case
from tocsin.arrays import Bools, Int32s
from tocsin.conjunctions.bitmaps import build, kernels
from tocsin.conjunctions.bitmaps.arrangement import arrange
from tocsin.conjunctions.bitmaps.kernels import (
    BEGIN,
    BITSET_WORDS,
    BLOCK,
    EVENT_SHIFT,
    GROUP,
    GROUP_WORDS,
    GROUPS,
    MAX_CELLS,
    MIDDLES,
    PLACE,
    ROOM,
    WRITTEN_AT_ONCE,
    Bitmaps,
    cells_of_codes,
    count_dead,
    fill_keys,
    holds_tests,
    mark_clear,
    mark_dead,
    match_bitmaps,
    match_bitmaps_of_one,
    set_bits,
    take_candidates,
    verify_candidates,
    weigh_columns,
)
from tocsin.conjunctions.bitmaps.match import BitmapIndex
from tocsin.conjunctions.bitmaps.one_event import addresses_of, match_ranges_of_one
from tocsin.conjunctions.runs import FoundRuns, pairs_of
from tocsin.tuning import TUNING

NOTHING = np.empty(0, np.int32)


def bits_of(bitmaps: Bitmaps, block: int, bitset: int) -> Bools:
    """The BLOCK bits of a bitset of a block, by the formula of `Bitmaps.words`."""
    first, end = bitmaps.bitset_starts[block], bitmaps.bitset_starts[block + 1]
    at = [first * BITSET_WORDS + (group * (end - first) + bitset) * GROUP_WORDS for group in range(GROUPS)]
    vectors = np.concatenate([bitmaps.words[place : place + GROUP_WORDS] for place in at])
    return np.unpackbits(vectors.view(np.uint8), bitorder="little").astype(bool)


def empty_bitmaps(cells: int, shift: int) -> Bitmaps:
    """One block with two rows of `cells` cells, the second with wider ones."""
    sizes = [cells + 1, (cells >> shift) + 1]
    words = sum(sizes) * BITSET_WORDS
    return Bitmaps(
        row_starts=np.array([0, 2]),
        pruning_ends=np.array([0]),
        column=np.array([0, 1], np.int32),
        shift=np.array([0, shift], np.int32),
        bitset_starts=np.array([0, sum(sizes)]),
        first_bitset=np.array([0, sizes[0]], np.int32),
        dead=np.zeros(sum(sizes), np.uint8),
        words=np.zeros(words, np.uint64),
        clear=np.zeros(sum(sizes), bool),
    )


def test_cells_of_codes() -> None:
    bounds = np.full((2, MAX_CELLS), np.iinfo(np.int32).max, np.int32)
    bounds[0, :4], bounds[1, :8] = [0, 10, 10, 30], np.arange(8)
    codes = np.array([[-1, 0, 9, 10, 29, 30, 99], [0] * 7, [-1, 0, 1, 2, 5, 6, 7]], np.int32)
    cells = cells_of_codes(codes, np.array([0, 2], np.int32), bounds, np.array([4, 8], np.int32))
    assert cells.tolist() == [[4, 0, 0, 2, 2, 3, 3], [8, 0, 1, 2, 5, 6, 7]]


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_bits_are_those_of_the_cells(shift: int) -> None:
    """Predicates of random cells at random places: a wide cell fails if all of it does."""
    random, cells, count = np.random.default_rng(shift), 16, 60
    place = np.sort(random.choice(BLOCK, count // 2, replace=False)).repeat(2)
    row_of = np.tile([0, 1], count // 2).astype(np.int32)
    row_of[-1] = -1
    accepted = random.random((count, cells)) < 0.5
    null = random.random(count) < 0.5
    as_words = (accepted << np.arange(cells, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
    bitmaps = empty_bitmaps(cells, shift)
    vector = place // GROUP * bitmaps.dead.size + bitmaps.first_bitset[row_of]
    first_word = np.where(row_of < 0, -1, vector * GROUP_WORDS + place % GROUP // 64)
    step, bit, counts = np.full(count, GROUP_WORDS), (place % 64).astype(np.uint8), np.full(count, cells, np.int32)
    set_bits(first_word, step, bit, as_words, null, counts, bitmaps.shift[row_of], bitmaps.words)
    for row, (width, bitsets) in enumerate([(1, cells), (1 << shift, cells >> shift)]):
        mine = np.flatnonzero(row_of == row)
        for cell in range(bitsets + 1):
            inside = slice(cell * width, (cell + 1) * width)
            fails = ~null[mine] if cell == bitsets else ~accepted[mine, inside].any(axis=1)
            bitset = bitmaps.first_bitset[row] + cell
            assert np.flatnonzero(bits_of(bitmaps, 0, bitset)).tolist() == place[mine[fails]].tolist()


def test_dead_groups_are_those_without_a_zero() -> None:
    """Two and a half groups have conjunctions; groups beyond the last one count as dead."""
    bitmaps, count = empty_bitmaps(2, 0), 2 * GROUP + GROUP // 2
    for group, bitset, bits in [(0, 0, GROUP), (1, 1, GROUP - 1), (2, 1, GROUP // 2), (2, 4, GROUP // 2 - 1)]:
        at = (group * bitmaps.dead.size + bitset) * GROUP_WORDS
        ones = np.packbits(np.arange(GROUP) < bits, bitorder="little").view(np.uint64)
        bitmaps.words[at : at + GROUP_WORDS] = ones
    mark_dead(bitmaps, count)
    beyond = 0b11111000
    assert bitmaps.dead.tolist() == [beyond | 0b001, beyond | 0b100, beyond, beyond, beyond, beyond]
    assert count_dead(bitmaps, np.array([3, 3])).tolist() == [5 + 1 + 5 + 1 + 5, 15]


def test_clear_bitsets_have_no_bit() -> None:
    bitmaps = empty_bitmaps(2, 0)
    bitmaps.words[(3 * bitmaps.dead.size + 1) * GROUP_WORDS + 5] = 4
    mark_clear(bitmaps)
    assert bitmaps.clear.tolist() == [True, False, True, True, True, True]


def test_vectors_that_events_take() -> None:
    """Three rows would not do: the last vector is repeated; a clear bitset is left out. Prefetching changes nothing."""
    bitmaps = empty_bitmaps(4, 1)
    bitmaps.clear[[2, 5]] = True
    cells = np.array([[0, 2, 4, 2], [0, 3, 4, 0]], np.uint8)
    alive, stride = np.array([0, 1, 3], np.int32), 4
    vectors, taken = np.full(3 * stride, -1, np.int32), np.full(3, 9)
    kernels._take_vectors(bitmaps, 0, cells, alive, stride, vectors, taken)
    assert taken.tolist() == [4, 4, 0]
    assert (vectors[:4] // GROUP_WORDS).tolist() == [0, 0, 0, 0]
    assert (vectors[4:8] // GROUP_WORDS).tolist() == [6, 6, 6, 6]
    before = vectors.copy()
    for group in range(GROUPS):
        kernels._fetch_vectors(bitmaps, 0, group, np.array([0, 255, 1], np.uint8), stride, vectors, taken)
    assert vectors.tolist() == before.tolist()


def test_places_beyond_the_last() -> None:
    for left in (-3, 0, 1, 63, 64, 500):
        expected = [place >= left for place in range(64)]
        word = np.array([kernels.bits_beyond(left)], np.uint64)
        assert np.unpackbits(word.view(np.uint8), bitorder="little").astype(bool).tolist() == expected


@pytest.mark.parametrize("seed", range(3))
def test_alive_events_are_those_with_a_group_that_no_row_kills(seed: int) -> None:
    random = np.random.default_rng(seed)
    bitmaps = empty_bitmaps(4, 1)._replace(pruning_ends=np.array([2 * (seed > 0)]))
    bitmaps.dead[:] = random.choice([0, 1, 127, 128, 255], bitmaps.dead.size)
    cells = random.integers(0, 5, (2, 50)).astype(np.uint8)
    alive, killed = np.empty(50, np.int32), np.empty(50, np.uint8)
    size = kernels._still_alive(bitmaps, 0, cells, alive, killed)
    dead = bitmaps.dead[cells[0]] | bitmaps.dead[5 + (cells[1] >> 1)] if seed else np.zeros(50, np.uint8)
    assert alive[:size].tolist() == np.flatnonzero(dead != 255).tolist()
    assert killed[:size].tolist() == dead[dead != 255].tolist()


@pytest.mark.parametrize("share", [0.0, 0.002, 0.03, 1.0])
def test_candidates_are_the_zeros_of_an_or(share: float) -> None:
    """None, one or several of a word, or all; they come behind others."""
    zeros = np.random.default_rng(1).random((2, GROUP)) < share
    failed = np.packbits(~zeros, axis=1, bitorder="little").view(np.uint64).reshape(-1)
    open_words = int(np.packbits(zeros[1].reshape(GROUP_WORDS, 64).any(axis=1), bitorder="little")[0])
    candidates, first = np.zeros(2 + GROUP + WRITTEN_AT_ONCE, np.int64), 7 << EVENT_SHIFT | 3 * GROUP
    candidates[:2] = 5, 6
    end = take_candidates(failed, 1, open_words, first, candidates, 2)
    assert candidates[:end].tolist() == [5, 6, *(first + np.flatnonzero(zeros[1]))]
    assert ((candidates[2:end] >> EVENT_SHIFT == 7) & (candidates[2:end] & PLACE >= 3 * GROUP)).all()


def cases() -> list[Case]:
    """Cases with and without tests, of few and of many codes."""
    return [
        random_case(seed, conjunctions=150, events=20, columns=4, tests=tests, span=span)
        for seed, tests, span in [(1, 0, 9), (2, 3, 40), (3, 3, 3000)]
    ]


@pytest.mark.parametrize("many_hold", [True, False])
@pytest.mark.parametrize("case", cases())
def test_candidates_are_verified_in_full(case: Case, many_hold: bool) -> None:
    """All pairs as candidates: what remains is what the definition says; tests alone are judged by `holds_tests`."""
    demands = BitmapIndex.build(case.conjunctions, case.popularity).demands
    events, count = case.events.codes.shape[1], case.conjunctions.count
    of_event = np.arange(events)[:, None] << EVENT_SHIFT
    candidates = (of_event | np.arange(count)).reshape(-1)
    by_event = np.ascontiguousarray(case.events.codes.T)
    before = FoundRuns.with_room(1 + candidates.size)
    before.values[0], before.runs[0] = -1, (0, 1)
    found = verify_candidates(
        demands, case.events, by_event, candidates, candidates.size, many_hold, before._replace(used=1, run_count=1)
    )
    assert len(np.unique(found.runs[: found.run_count, 0])) == found.run_count, "runs of one event that follow are one"
    assert pairs_of_runs(found) == case.expected() | {(0, -1)}
    said = case.conjunctions
    for place, number in enumerate(demands.conjunction.tolist()):
        mine = said.test_conjunction == number
        accepted = (case.truth[said.test[mine]] & said.test_accepts[mine][:, None]) != 0
        assert [holds_tests(demands, case.events, place, event) for event in range(events)] == accepted.all(0).tolist()


def test_prefetching_what_conjunctions_demand_changes_nothing() -> None:
    demands = BitmapIndex.build(cases()[0].conjunctions, cases()[0].popularity).demands
    before = [np.array(array) for array in demands]
    in_one_list = demands.predicates.reshape(-1)
    for place in range(demands.conjunction.size):
        kernels._fetch_demands(demands.starts, demands.conjunction, in_one_list, np.uint64(place))
    assert all(np.array_equal(old, np.array(new)) for old, new in zip(before, demands, strict=True))


def pairs_of_runs(found: FoundRuns) -> set[tuple[int, int]]:
    """The pairs of runs, each of which must be there once."""
    events = np.repeat(found.runs[: found.run_count, 0], found.runs[: found.run_count, 1])
    pairs = list(zip(events.tolist(), found.values[: found.used].tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


@pytest.mark.parametrize("case", cases())
def test_matches_are_those_of_the_definition(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for few matches at a time."""
    monkeypatch.setattr(build, "TUNING", replace(TUNING, min_named=1, dense_matches=1e9))
    index = BitmapIndex.build(case.conjunctions, case.popularity)
    assert index.rare == case.conjunctions.count
    cells = cells_of_codes(case.events.codes, *index._cells)
    by_event = np.ascontiguousarray(case.events.codes.T)
    progress, all_found, all_candidates = BEGIN, set[tuple[int, int]](), 0
    while progress.block < 1:
        progress, found, candidates = match_bitmaps(
            index.bitmaps, index.demands, case.events, by_event, cells, index.rare, progress, FoundRuns.with_room(GROUP)
        )
        more = pairs_of_runs(found)
        assert not more & all_found
        all_found, all_candidates = all_found | more, all_candidates + candidates
    assert all_found == case.expected()
    assert len(all_found) <= all_candidates <= case.events.codes.shape[1] * case.conjunctions.count
    lists, candidates = index.match_lists(case.events)
    assert candidates == all_candidates
    assert set(map(tuple, pairs_of(lists).tolist())) == all_found


@pytest.mark.parametrize("tests", [0, 3])
@pytest.mark.parametrize("seed", range(6))
def test_match_bitmaps_of_one(seed: int, tests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "TUNING", replace(TUNING, dense_matches=1e9))
    case = random_case(seed, conjunctions=2000, events=1, columns=2, tests=tests, span=10)
    index = BitmapIndex.build(case.conjunctions, case.popularity)
    arguments = (index.bitmaps, index.demands, case.events, *index._cells, index.rare)
    found, candidates = match_bitmaps_of_one(*arguments, ROOM + 2000)
    assert set(map(tuple, found.tolist())) == case.expected()
    assert len(found) == len(case.expected()) <= candidates
    assert set(map(tuple, index.match(case.events)[0].tolist())) == case.expected()


def test_an_event_with_more_matches_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "TUNING", replace(TUNING, dense_matches=1e9))
    case = random_case(1, conjunctions=9000, events=1, columns=2, tests=0, span=1)
    index = BitmapIndex.build(case.conjunctions, case.popularity)
    found, _ = match_bitmaps_of_one(index.bitmaps, index.demands, case.events, *index._cells, index.rare, GROUP)
    assert set(map(tuple, found.tolist())) == case.expected()
    assert len(found) == len(case.expected()) > 10 * GROUP


@pytest.mark.parametrize(("conjunctions", "span"), [(2000, 10), (9000, 1), (5000, 40)])
@pytest.mark.parametrize("seed", range(4))
def test_match_ranges_of_one(seed: int, conjunctions: int, span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A last block that is not full, more matches than there is room for, dead groups, NULL, several ranges."""
    monkeypatch.setattr(build, "TUNING", replace(TUNING, dense_matches=1e9))
    case = random_case(seed, conjunctions=conjunctions, events=1, columns=3, tests=0, span=span)
    index = BitmapIndex.build(case.conjunctions, case.popularity)
    table = addresses_of(index.bitmaps, index.demands, index._cells).rows
    arrays = index.bitmaps.words, index.demands.predicates
    found, candidates = match_ranges_of_one(*arrays, table, case.events.codes, index.rare)
    assert set(map(tuple, found.tolist())) == case.expected()
    assert len(found) == len(case.expected()) <= candidates


def of_place(order: Int32s, column: Int32s) -> list[set[int]]:
    """The columns of the conjunctions of each group, if each names one."""
    return [set(column[order[first : first + GROUP]].tolist()) for first in range(0, order.size, GROUP)]


def test_conjunctions_of_a_group_name_the_same_column_and_accept_about_the_same() -> None:
    random, count = np.random.default_rng(1), 16 * GROUP
    column = np.arange(count, dtype=np.int32) % 4
    middle = random.integers(0, 2 * MAX_CELLS - 1, count).astype(np.int32)
    order = arrange(np.arange(count + 1), column, middle, np.full(count, 400), 4)
    assert sorted(order.tolist()) == list(range(count))
    assert all(len(columns) == 1 for columns in of_place(order, column))
    spans = [np.ptp(middle[order[first : first + GROUP]]) for first in range(0, count, GROUP)]
    assert max(spans) < MAX_CELLS, "a quarter of the middles, and no more than half of them"


def test_the_column_that_rules_out_most_comes_first() -> None:
    """Column 1 is more selective; conjunctions that name nothing stand at the end."""
    count = 4 * GROUP
    starts = np.append(np.minimum(2 * np.arange(count), 2 * (count - GROUP)), 2 * (count - GROUP))
    column = np.tile([0, 1], count - GROUP).astype(np.int32)
    middle = np.stack([np.arange(count - GROUP) % 7, np.arange(count - GROUP) % 5], axis=1).reshape(-1).astype(np.int32)
    order = arrange(starts, column, middle, np.tile([900, 200], count - GROUP), 2)
    assert sorted(order[-GROUP:].tolist()) == list(range(count - GROUP, count))
    spans = [np.ptp(order[first : first + GROUP] % 5) for first in range(0, count - GROUP, GROUP)]
    assert max(spans) < 4
    assert arrange(np.zeros(601, np.int64), NOTHING, NOTHING, np.empty(0, np.int64), 0).tolist() == list(range(600))


def test_columns_are_weighed_and_conjunctions_get_keys() -> None:
    # Conjunctions 0: columns 0, 2; 1: nothing; 2: column 1; 3: columns 1, 2. Column 2 is done.
    starts, column = np.array([0, 2, 2, 3, 5]), np.array([0, 2, 1, 1, 2], np.int32)
    middle, share = np.array([5, 6, 7, 8, 9], np.int32), np.array([100, 200, 300, 400, 500])
    done, of_run = np.array([False, False, True]), np.array([3, 1, 0, 2], np.int32)
    named, ruled_out = np.zeros(3, np.int64), np.zeros(3, np.int64)
    weigh_columns(of_run, starts, column, share, done, named, ruled_out)
    assert named.tolist() == [1, 2, 0]
    assert ruled_out.tolist() == [900, 700 + 600, 0]
    key = np.empty(4, np.int64)
    fill_keys(of_run, starts, column, middle, done, np.array([1, 0, 2]), key)
    assert key.tolist() == [8, 3 * MIDDLES, MIDDLES + 5, 7]
