"""Bitmaps: the worked example of docs/internals/bitmaps.md, the work that is saved, many columns, and damage."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from contracts.conjunction_index_contract import found, random_case
from tocsin.arrays import Float64s
from tocsin.conjunctions.bitmaps import build
from tocsin.conjunctions.bitmaps.match import BitmapIndex
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.conjunctions.protocol import Extent
from tocsin.matcher import Matcher
from tocsin.tuning import TUNING

NOTHING = np.empty(0, np.int32)
PAGES, PRICE = 0, 1
EXAMPLE = [
    *((0, PAGES, 2, 2), (0, PRICE, 1, 3), (1, PRICE, 3, 5), (2, PAGES, 0, 0), (2, PRICE, 1, 1), (2, PRICE, 5, 5)),
    *((3, PRICE, 0, 2), (4, PAGES, 0, 1), (4, PRICE, 0, 2), (4, PRICE, 4, 6)),
]
FAILS = {
    PRICE: [{0, 1, 2}, {1}, {1, 2}, {2, 3, 4}, {0, 2, 3}, {0, 3}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}],
    PAGES: [{0}, {0, 2}, {2, 4}, {0, 2, 4}, {0, 2, 4}],
}


def conjunctions_of(rows: list[tuple[int, int, int, int]], last_code: list[int]) -> Conjunctions:
    conjunction, column, low, high = np.array(rows, np.int32).T.copy()
    count = int(conjunction.max()) + 1
    return Conjunctions(
        count, np.array(last_code, np.int32), conjunction, column, low, high, NOTHING, NOTHING, NOTHING, NOTHING
    )


def evenly(last_code: list[int]) -> list[Float64s]:
    return [np.linspace(0.02, 1, last + 2) for last in last_code]


def events_of(codes: list[list[int]]) -> Events:
    starts = np.zeros(len(codes[0]) + 1, np.int64)
    return Events(np.array([*codes, [0] * len(codes[0])], np.int32), starts, NOTHING, starts, NOTHING)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> BitmapIndex:
    monkeypatch.setattr(build, "TUNING", replace(TUNING, min_named=1, min_row_cells=64))
    return BitmapIndex.build(conjunctions_of(EXAMPLE, [2, 6]), evenly([2, 6]))


def test_frequent_conjunctions_do_not_keep_rare_ones_from_being_sorted() -> None:
    """Seven of eight have narrow ranges, which descend; the others accept nearly everything."""
    last, rare = 1023, np.arange(1024) % 8 != 1
    rows = [(n, PAGES, 1023 - n, 1023 - n + 4) if rare[n] else (n, PAGES, 1, last) for n in range(1000)]
    order = BitmapIndex.build(conjunctions_of(rows, [last + 8]), evenly([last + 8])).demands.conjunction
    narrow = int(np.count_nonzero(rare[:1000]))
    assert order[:narrow].tolist() != sorted(order[:narrow].tolist()), "sorted by their ranges"
    assert rare[order[:narrow]].all()
    assert order[narrow:].tolist() == np.flatnonzero(~rare[:1000]).tolist(), "behind the others, by their numbers"


def test_who_fails_in_each_cell(example: BitmapIndex) -> None:
    example.check()
    bitmaps = example.bitmaps
    assert example.demands.conjunction.tolist() == [0, 1, 2, 3, 4]
    assert example.cells.counts.tolist() == [4, 8]
    for row, column in enumerate(bitmaps.column.tolist()):
        for cell, failing in enumerate(FAILS[column]):
            word = int(bitmaps.words[(bitmaps.first_bitset[row] + cell) * 8])
            assert {place for place in range(5) if word >> place & 1} == failing


@pytest.mark.parametrize("dense_matches", [0.0, 2.0])
def test_rare_and_dense_conjunctions_are_not_damaged(dense_matches: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "TUNING", replace(TUNING, min_named=1, dense_matches=dense_matches, min_dense=0))
    index = BitmapIndex.build(conjunctions_of(EXAMPLE, [2, 6]), evenly([2, 6]))
    assert index.rare == (5 if dense_matches else 0)
    index.check_arrays(Extent(columns=3, conjunctions=5))


def test_candidates_of_the_example(example: BitmapIndex) -> None:
    pairs, candidates = example.match(events_of([[2, 1, -1], [1, 3, 0]]))
    assert sorted(pairs.tolist()) == [[0, 0], [0, 3], [1, 1], [2, 3]]
    assert candidates == 4, "a cell is a code here, so that every candidate matches"


def test_most_groups_are_dead() -> None:
    """Ten wide ranges of 16: an event looks at few groups, and verifies little more than what matches."""
    random, count = np.random.default_rng(1), 20_000
    column = np.sort(np.argsort(random.random((count, 16)), axis=1)[:, :10], axis=1)
    low = random.integers(0, 600, (count, 10))
    rows = np.stack([np.arange(count).repeat(10), column.ravel(), low.ravel(), low.ravel() + 399], axis=1)
    said = conjunctions_of(list(map(tuple, rows.tolist())), [998] * 16)
    codes = random.integers(0, 999, (16, 30))
    pairs, candidates = BitmapIndex.build(said, evenly([998] * 16)).match(events_of(codes.tolist()))
    inside = (codes[column] >= low[:, :, None]) & (codes[column] <= low[:, :, None] + 399)
    assert sorted(map(tuple, pairs.tolist())) == sorted((e, c) for c, e in np.argwhere(inside.all(axis=1)).tolist())
    assert candidates < 3 * len(pairs) + 100


def test_ten_thousand_columns_cost_no_more_than_their_predicates() -> None:
    random, count, columns = np.random.default_rng(1), 5_000, 10_000
    column = np.sort(random.integers(0, columns, (count, 3)), axis=1)
    column = column[(np.diff(column, axis=1) > 0).all(axis=1)]
    rows = [(c, int(k), 100, 800) for c, named in enumerate(column) for k in named]
    index = BitmapIndex.build(conjunctions_of(rows, [998] * columns), evenly([998] * columns))
    index.check()
    per_column = index.cells.bounds.nbytes + index.cells.columns.nbytes + index.cells.counts.nbytes
    assert index.nbytes - per_column < 300 * len(column)
    codes = np.full((columns, 2), -1)
    codes[column[7], 0], codes[column[9], 1] = 500, 900
    assert found(index, events_of(codes.tolist())) == {(0, 7)}


def test_a_file_without_dense_blocks_gives_the_same_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """As files of earlier versions are: they had ends in blocks of another layout, which are not read."""
    monkeypatch.setattr(build, "TUNING", replace(TUNING, dense_matches=1e9))
    case = random_case(2, conjunctions=600, events=30, columns=5, tests=3, span=400)
    index = BitmapIndex.build(case.conjunctions, case.popularity)
    assert index.rare == 600
    is_new = {name: name.startswith("dense.") or name == "bitmaps.clear" for name in index.arrays()}
    older = BitmapIndex.from_arrays({name: array for name, array in index.arrays().items() if not is_new[name]})
    older.check_arrays(Extent(columns=len(case.popularity) + 1, conjunctions=600))
    assert found(older, case.events) == found(index, case.events) == case.expected()


@pytest.mark.parametrize(("low", "high"), [(0, 900), (100, 999), (100, 900), (0, 999)])
def test_a_code_that_all_ranges_accept_has_a_cell_of_its_own(low: int, high: int) -> None:
    """Also where cells are wider: events in the middle of wide ranges meet no bitset, and all of them match."""
    random, count = np.random.default_rng(1), 600
    lows, highs = random.integers(0, low + 1, count), random.integers(high, 1000, count)
    middle = int(lows.max()), int(highs.min())
    rows = [(c, 0, int(a), int(b)) for c, (a, b) in enumerate(zip(lows, highs, strict=True))]
    said = conjunctions_of(rows, [999])
    index = BitmapIndex.build(said, evenly([999]))
    index.check()
    inside = index.cells.of_codes(np.zeros(1000, np.int32), np.arange(1000, dtype=np.int32))
    own = inside[middle[0]]
    assert np.flatnonzero(inside >> 3 == own >> 3).tolist() == list(range(middle[0], middle[1] + 1))
    codes = random.integers(-1, 1000, 200)
    expected = {(e, c) for e, code in enumerate(codes.tolist()) for c in range(count) if lows[c] <= code <= highs[c]}
    assert found(index, events_of([codes.tolist()])) == expected


@pytest.mark.parametrize("events", [7, 2 * TUNING.sweep_events])
def test_dense_matches_come_in_the_order_of_conjunctions(events: int) -> None:
    """Most of 5,000 conjunctions match: they are found in bits, and in order."""
    random, count = np.random.default_rng(1), 5_000
    low = random.integers(0, 300, count)
    said = conjunctions_of([(c, 0, int(a), int(a) + 700) for c, a in enumerate(low)], [1000])
    index = BitmapIndex.build(said, evenly([1000]))
    codes = random.integers(-1, 1000, events)
    lists, _ = index.match_lists(events_of([codes.tolist()]))
    for event, code in enumerate(codes):
        numbers = lists.values[lists.starts[event] : lists.starts[event + 1]]
        assert numbers.tolist() == np.flatnonzero((low <= code) & (code <= low + 700)).tolist()


@pytest.mark.parametrize("count_of_events", [40, 2 * TUNING.sweep_events])
def test_a_matcher_finds_dense_matches_in_the_order_of_ids(count_of_events: int) -> None:
    """Some subscriptions are dropped, and one of the attributes is missing in some events."""
    random, count = np.random.default_rng(1), 1_500
    low = random.integers(0, 30, (count, 2))
    ids = [f"s{number:04}" for number in random.permutation(count)]
    texts = [f"a BETWEEN {a} AND {a + 70} AND b BETWEEN {b} AND {b + 70}" for a, b in low.tolist()]
    matcher = Matcher.from_table(pa.table({"id": ids, "where": texts}))
    assert any("in bitmaps" in step.choice for step in matcher.plan().steps)
    events = [
        {"a": int(a), "b": None if a % 5 == 0 else int(b)} for a, b in random.integers(0, 100, (count_of_events, 2))
    ]
    for dropped in ([], ids[:20]):
        for id in dropped:
            matcher.unsubscribe(id)
        table = matcher.match_batch(events)
        expected = [
            (row, id)
            for row, event in enumerate(events)
            for id, (a, b) in sorted(zip(ids, low.tolist(), strict=True))
            if id not in dropped and event["b"] is not None and a <= event["a"] <= a + 70 and b <= event["b"] <= b + 70
        ]
        assert list(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True)) == expected
        assert len(expected) > 5_000


DAMAGE: list[tuple[str, Callable[[BitmapIndex], BitmapIndex]]] = [
    ("dense bitset has its words", lambda i: replace(i, dense=i.dense._replace(words=i.dense.words[1:]))),
    ("ends of a cell ascend", lambda i: replace(i, dense=i.dense._replace(end_code=i.dense.end_code[::-1].copy()))),
    ("its own conjunction", lambda i: i.renumbered(np.zeros(len(i), np.int32))),
    ("has its words", lambda i: replace(i, bitmaps=i.bitmaps._replace(words=i.bitmaps.words[1:]))),
    ("those of its block", lambda i: replace(i, bitmaps=i.bitmaps._replace(first_bitset=i.bitmaps.first_bitset + 1))),
    ("last predicate", lambda i: replace(i, demands=i.demands._replace(predicates=i.demands.predicates[1:]))),
    ("last test", lambda i: replace(i, demands=i.demands._replace(tests=i.demands.tests[1:]))),
]


@pytest.mark.parametrize(("reason", "damage"), DAMAGE, ids=[reason for reason, _ in DAMAGE])
def test_check_finds_damage(reason: str, damage: Callable[[BitmapIndex], BitmapIndex]) -> None:
    case = random_case(1, conjunctions=600, events=1, columns=5, tests=3, span=4000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "TUNING", replace(TUNING, dense_matches=0.3, dense_columns=1, min_dense=0))
        index = BitmapIndex.build(case.conjunctions, case.popularity)
    assert 0 < index.rare < 600
    with pytest.raises(AssertionError, match=reason):
        damage(index).check()
