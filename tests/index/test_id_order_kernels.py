"""Rows in the order of events and ids, judged by Python's own sort."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.arrays import Strings
from tocsin.index.id_order import (
    DIGIT_BITS,
    IdOrder,
    IdOrders,
    OrderBesideLarge,
    _insert_sorted,
    _merge_behind,
    _sort_by_bits,
    _sort_by_digit,
    _sorted_until,
    append_lists,
    ids_at,
    ids_before,
    ids_in_order,
    joined_texts,
    merge_others,
    named_only,
    scores_at,
    sort_lists,
    sorted_texts,
)

IDS = st.lists(st.text(max_size=3), unique=True, max_size=12).map(sorted)


def ragged(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return starts, np.array([value for one in lists for value in one], np.int32)


def lists_of(starts: np.ndarray, values: np.ndarray) -> list[list[int]]:
    return [values[starts[i] : starts[i + 1]].tolist() for i in range(starts.size - 1)]


@given(st.lists(st.lists(st.integers(0, 3_000_000), max_size=60), max_size=5), st.integers(0, 20))
def test_lists_are_sorted_wherever_they_are_crowded(lists: list[list[int]], shift: int) -> None:
    crowded = [[value >> shift for value in one] + [7] * (len(one) * (shift % 3)) for one in lists]
    starts, values = ragged(crowded)
    sort_lists(starts, values, 3_000_000)
    assert lists_of(starts, values) == [sorted(one) for one in crowded]


@given(st.lists(st.lists(st.integers(0, 500), unique=True, max_size=200), max_size=5), st.booleans())
def test_long_lists_are_sorted(lists: list[list[int]], twice: bool) -> None:
    if twice and lists:
        lists = [*lists[:-1], lists[-1] * 2]
    starts, values = ragged(lists)
    sort_lists(starts, values, 500)
    assert lists_of(starts, values) == [sorted(one) for one in lists]


@given(st.integers(0, 300), st.lists(st.integers(0, 500), max_size=200))
def test_what_begins_in_order_is_merged_with_the_others(ordered: int, others: list[int]) -> None:
    starts, values = ragged([[3], [*range(7, 7 + ordered), *others], [2, 1]])
    sort_lists(starts, values, 500)
    assert lists_of(starts, values) == [[3], sorted([*range(7, 7 + ordered), *others]), [1, 2]]


def test_the_beginning_that_is_in_order_is_found_and_merged() -> None:
    values = np.array([9, *range(0, 400, 2), 5, 5, 401], np.int32)
    end = _sorted_until(values, 1, values.size)
    assert end == 200
    assert [_sorted_until(values, 200, last) for last in (200, 201, 204)] == [200, 200, 200]
    other = np.empty(values.size, np.int32)
    _merge_behind(values, 1, 201, values.size, other)
    assert values.tolist() == [9, *sorted([*range(0, 400, 2), 5, 5, 401])]


def test_a_part_is_sorted_by_bits_unless_a_value_is_there_twice() -> None:
    bits, other = np.zeros(3, np.uint64), np.empty(6, np.int32)
    values = np.array([9, 130, 63, 64, 0, 5], np.int32)
    assert _sort_by_bits(values, 1, 5, bits, other)
    assert (values.tolist(), bits.tolist()) == ([9, 0, 63, 64, 130, 5], [0, 0, 0])
    assert not _sort_by_bits(np.array([3, 1, 3], np.int32), 0, 3, bits, other)
    assert bits.tolist() == [0, 0, 0]


def test_a_part_is_sorted_by_insertion() -> None:
    values = np.array([9, 3, 1, 2, 3, 0], np.int32)
    _insert_sorted(values, 1, 5)
    assert values.tolist() == [9, 1, 2, 3, 3, 0]


def test_a_part_is_sorted_by_one_digit() -> None:
    values = np.array([9, 300, 5, 130, 2, 0], np.int32)
    ends, other = np.empty(1 << DIGIT_BITS, np.int32), np.empty(6, np.int32)
    assert _sort_by_digit(values, 1, 5, DIGIT_BITS, ends, other) == 2, "5 and 2 have the digit 0"
    assert values.tolist() == [9, 5, 2, 130, 300, 0], "stable"


def test_lists_are_appended_event_by_event() -> None:
    starts, numbers = ragged([[1], [], [0, 2]])
    values, ends = np.full(6, -1, np.int32), np.array([0, 2, 3], np.int64)
    append_lists(starts, numbers, np.array([10, 20, 30], np.int32), ends, values)
    assert values.tolist() == [20, -1, -1, 10, 30, -1]
    assert ends.tolist() == [1, 2, 5]


@given(st.lists(IDS, min_size=1, max_size=4), st.data())
def test_segments_give_one_list_in_the_order_of_ids(ids: list[list[str]], data: st.DataObject) -> None:
    events = data.draw(st.integers(0, 4))
    chosen = [
        [data.draw(st.lists(st.sampled_from(range(len(one))), unique=True)) if one else [] for _ in range(events)]
        for one in ids
    ]
    arrays, found = [pa.array(one, pa.large_string()) for one in ids], [ragged(one) for one in chosen]
    expected = [
        sorted(one[number] for one, of_events in zip(ids, chosen, strict=True) for number in of_events[event])
        for event in range(events)
    ]
    for of_ids, lists in ((arrays, found), named_only(arrays, found)[:2]):
        order = IdOrder(of_ids)
        ranks = lists_of(*order.ordered(lists))
        assert [order.ids.take(pa.array(one, pa.int32())).to_pylist() for one in ranks] == expected
    scores = [np.arange(len(one), dtype=np.float64) + 100 * segment for segment, one in enumerate(ids)]
    in_order = IdOrder(arrays).in_order(scores).at(IdOrder(arrays).ordered(found)[1]).tolist()
    for large in range(len(ids) if len(ids) > 1 else 0):
        beside = OrderBesideLarge([Strings.of(one) for one in ids], large)
        starts, places = beside.ordered(found)
        named = [beside.ids.take(pa.array(one, pa.int32())).to_pylist() for one in lists_of(starts, places)]
        assert named == expected
        if len({id for one in ids for id in one}) == sum(map(len, ids)):
            assert beside.in_order(scores).at(places).tolist() == in_order


@given(IDS, IDS)
def test_ids_before_others_are_counted(ids: list[str], others: list[str]) -> None:
    of_ids, of_others = Strings.of(ids), Strings.of(others)
    before = ids_before(of_ids.data, of_ids.offsets, of_others.data, of_others.offsets)
    assert before.tolist() == [sum(id < other for id in ids) for other in others]


def test_others_are_merged_where_their_ids_belong() -> None:
    (starts, numbers), (other_starts, others) = ragged([[2, 3, 7], [], [0]]), ragged([[0, 1, 2], [2], []])
    merged = np.full(8, -1, np.int32)
    merge_others(starts, numbers, other_starts, others, np.array([0, 3, 9], np.int32), 100, merged)
    assert merged.tolist() == [100, 2, 101, 3, 7, 102, 102, 0]
    found = np.empty(4)
    scores_at(np.array([1, 2, 0, 4], np.int32), np.array([0.5, 1.5]), np.array([2.5, 3.5, 4.5]), found)
    assert found.tolist() == [1.5, 2.5, 0.5, 4.5]


def test_an_order_is_kept_for_the_same_segments_and_ranks_only_the_few() -> None:
    large, few, more = (Strings.of(sorted(f"{prefix}{n}" for n in range(80))) for prefix in "xyz")
    few = Strings.of(few.at(np.arange(10, dtype=np.int32)))
    orders = IdOrders()
    beside = orders.of([few, large])
    assert isinstance(beside, OrderBesideLarge)
    assert orders.of([few, large]) is beside
    assert isinstance(orders.of([few, large, more]), IdOrder)
    assert orders.of([few, large]) is not beside


@pytest.mark.parametrize("letter", ["a", "ä", "日"])
@pytest.mark.parametrize("count", [0, 1, 8, 200, 300])
def test_ids_at_places(letter: str, count: int) -> None:
    texts = [letter * (number % 4) + str(number) for number in range(5000)]
    ids = Strings.of(texts)
    places = np.random.default_rng(count).integers(0, len(texts), count).astype(np.int32)
    expected = [texts[place] for place in places]
    assert ids_at(ids, places) == expected
    assert ids_at(ids, np.repeat(places, 2)[::2]) == expected, "places need not stand side by side"
    if count:
        assert joined_texts(places, ids.offsets, ids.data).tobytes() == "\0".join(expected).encode()
        ordered = [texts[place] for place in np.sort(places)]
        copy = places.copy()
        assert sorted_texts(copy, ids.offsets, ids.data).tobytes() == "\0".join(ordered).encode()
        assert copy.tolist() == np.sort(places).tolist()
        assert ids_in_order(ids, places) == ordered
        assert places.tolist() == copy.tolist()


def test_ids_with_nul_and_empty_ones() -> None:
    texts = ["", "\0", "a\0b", *(f"x{number}" for number in range(5000))]
    places = np.array([0, 1, 5, 2, 0], np.int32)
    assert ids_at(Strings.of(texts), places) == [texts[place] for place in places]
    assert ids_at(Strings.of(texts), places[[0, 2, 4]]) == ["", "x2", ""]
    assert ids_in_order(Strings.of(texts), places) == ["", "", "\0", "a\0b", "x2"]
