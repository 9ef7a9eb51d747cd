"""The kernels of bitmaps, against NumPy and the formulas of their docstrings."""

import numpy as np
import pytest

from contracts.conjunction_index_contract import Case, random_case
from tocsin.arrays import Bools, Int32s
from tocsin.conjunctions.bitmaps import kernels
from tocsin.conjunctions.bitmaps.kernels import (
    BITSET_WORDS,
    BLOCK,
    GROUP,
    GROUP_WORDS,
    GROUPS,
    MAX_CELLS,
    Bitmaps,
    arrange,
    cells_of_codes,
    count_dead,
    holds_tests,
    mark_dead,
    match_bitmaps,
    set_bits,
    set_edges,
    verify_candidates,
)
from tocsin.conjunctions.bitmaps.match import BitmapIndex
from tocsin.conjunctions.pairs.kernels import FoundPairs

NOTHING = np.empty(0, np.int32)


def bits_of(bitmaps: Bitmaps, block: int, bitset: int, edges: bool = False) -> Bools:
    """The BLOCK bits of a bitset of a block, by the formula of `Bitmaps.words`."""
    first, end = bitmaps.bitset_starts[block], bitmaps.bitset_starts[block + 1]
    words, start = (bitmaps.edges, bitmaps.edges_from[block]) if edges else (bitmaps.words, first * BITSET_WORDS)
    at = [start + (group * (end - first) + bitset) * GROUP_WORDS for group in range(GROUPS)]
    vectors = np.concatenate([words[place : place + GROUP_WORDS] for place in at])
    return np.unpackbits(vectors.view(np.uint8), bitorder="little").astype(bool)


def empty_bitmaps(cells: int, shift: int) -> Bitmaps:
    """One block with two rows of `cells` cells, the second with wider ones; it has edges."""
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
        edges_from=np.array([0]),
        edges=np.zeros(words, np.uint64),
        partial=np.zeros(BITSET_WORDS, np.uint64),
    )


def test_cells_of_codes() -> None:
    bounds = np.full((2, MAX_CELLS), np.iinfo(np.int32).max, np.int32)
    bounds[0, :4], bounds[1, :8] = [0, 10, 10, 30], np.arange(8)
    codes = np.array([[-1, 0, 9, 10, 29, 30, 99], [0] * 7, [-1, 0, 1, 2, 5, 6, 7]], np.int32)
    cells = cells_of_codes(codes, np.array([0, 2], np.int32), bounds, np.array([4, 8], np.int32))
    assert cells.tolist() == [[4, 0, 0, 2, 2, 3, 3], [8, 0, 1, 2, 5, 6, 7]]


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_bits_and_edges_are_those_of_the_cells(shift: int) -> None:
    """Predicates of random cells at random places: a wide cell fails if all of it does, and has an edge if any has."""
    random, cells, count = np.random.default_rng(shift), 16, 60
    place = np.sort(random.choice(BLOCK, count // 2, replace=False)).repeat(2)
    row_of = np.tile([0, 1], count // 2).astype(np.int32)
    row_of[-1] = -1
    accepted = random.random((count, cells)) < 0.5
    whole = accepted & (random.random((count, cells)) < 0.7)
    null = random.random(count) < 0.5
    as_words = [(bits << np.arange(cells, dtype=np.uint64)).sum(axis=1, dtype=np.uint64) for bits in (accepted, whole)]
    bitmaps = empty_bitmaps(cells, shift)
    order, counts = random.permutation(count), np.full(count, cells, np.int32)
    set_bits(order, row_of, place, as_words[0], null, counts, bitmaps)
    set_edges(order, row_of, place, as_words[1], null, counts, bitmaps)
    for row, (width, bitsets) in enumerate([(1, cells), (1 << shift, cells >> shift)]):
        mine = np.flatnonzero(row_of == row)
        for cell in range(bitsets + 1):
            inside = slice(cell * width, (cell + 1) * width)
            fails = ~null[mine] if cell == bitsets else ~accepted[mine, inside].any(axis=1)
            edge = ~null[mine] if cell == bitsets else ~whole[mine, inside].all(axis=1)
            bitset = bitmaps.first_bitset[row] + cell
            assert np.flatnonzero(bits_of(bitmaps, 0, bitset)).tolist() == place[mine[fails]].tolist()
            assert np.flatnonzero(bits_of(bitmaps, 0, bitset, edges=True)).tolist() == place[mine[edge]].tolist()
    partial = np.unpackbits(bitmaps.partial.view(np.uint8), bitorder="little")
    assert np.flatnonzero(partial).tolist() == [place[-1]], "the last predicate has no row"
    assert kernels._first_word(bitmaps, 0, GROUP + 65, 1, 7) == 7 + (
        (bitmaps.dead.size + bitmaps.first_bitset[1]) * GROUP_WORDS + 1
    )


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


def test_places_beyond_the_last() -> None:
    for left in (-3, 0, 1, 63, 64, 500):
        expected = [place >= left for place in range(64)]
        word = np.array([kernels._beyond(left)], np.uint64)
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


def cases() -> list[Case]:
    """Cases with and without tests, of few and of many codes."""
    return [
        random_case(seed, conjunctions=150, events=20, columns=4, tests=tests, span=span)
        for seed, tests, span in [(1, 0, 9), (2, 3, 40), (3, 3, 3000)]
    ]


@pytest.mark.parametrize("case", cases())
def test_candidates_are_verified_in_full(case: Case) -> None:
    """All pairs as candidates: what remains is what the definition says; tests alone are judged by `holds_tests`."""
    demands = BitmapIndex.build(case.conjunctions, case.popularity).demands
    events, count = case.events.codes.shape[1], case.conjunctions.count
    waiting = np.stack(np.meshgrid(np.arange(events), np.arange(count)), axis=-1).reshape(-1, 2).astype(np.int32)
    pairs = np.full((len(waiting) + 1, 2), -7, np.int32)
    used = verify_candidates(demands, case.events, waiting, pairs, 1)
    assert pairs[0].tolist() == [-7, -7]
    assert {(event, conjunction) for event, conjunction in pairs[1:used].tolist()} == case.expected()
    said = case.conjunctions
    for place, number in enumerate(demands.conjunction.tolist()):
        mine = said.test_conjunction == number
        accepted = (case.truth[said.test[mine]] & said.test_accepts[mine][:, None]) != 0
        assert [holds_tests(demands, case.events, place, event) for event in range(events)] == accepted.all(0).tolist()


@pytest.mark.parametrize("case", cases())
def test_matches_are_those_of_the_definition(case: Case) -> None:
    index = BitmapIndex.build(case.conjunctions, case.popularity)
    cells = cells_of_codes(case.events.codes, index.cells.columns, index.cells.bounds, index.cells.counts)
    found, candidates = match_bitmaps(
        index.bitmaps, index.demands, case.events, cells, FoundPairs(np.empty((1, 2), np.int32), 0)
    )
    assert {(event, number) for event, number in found.pairs[: found.used].tolist()} == case.expected()
    assert found.used <= candidates <= case.events.codes.shape[1] * case.conjunctions.count


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
