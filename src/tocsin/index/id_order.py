"""The rows of a batch in order: by event, then by subscription id, whatever segments they come from.

Subscriptions of a segment are numbered in the order of their ids, so that one segment needs to sort numbers only. With
several segments the ids of different segments must be compared. Reading them for each match would cost more than the
match: so each subscription has a *rank*, its place among the ids of all segments. Beside a segment that has nearly all
subscriptions only the others are ranked, and each knows how many ids of the large one are before its own: after a
change, the ids of the large segment are not looked at again. Orders are kept until the list of segments changes. A
batch with few rows does without them and sorts its own ids.
"""

import operator
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin._compile import kernel, lowest_bit
from tocsin.arrays import FEW_STRINGS, MANY_PLACES, Float64s, Int32s, Int64s, Strings, UInt8s, UInt64s

T = TypeVar("T")

FEW_ROWS = 8_192
"""A batch with at most so many rows sorts its ids: about 1 µs a row, where ranking 1,000,000 ids costs 0.6 s."""
OTHERS = 8
"""The others are ranked beside a segment that has so many times as many ids. Not measured for other values."""
SHORT_LIST = 24
"""Lists up to this length, and digits that occur no more often, are left to insertion."""
DIGIT_BITS = 7
BITS_A_VALUE = 256
"""A list with a value for each so many possible ones is sorted by bits. Nanoseconds a value by digits and by bits:
1,000 values of 100,000 8.5 to 10.1 and 2.1 to 7.4, 5,000 of them 5.7 and 1.2 to 2.8, 20,000 of 120,000 5.3 and 1.0 to
1.4; 400 of 100,000 the same."""


FEW_IDS = 2
"""Fewer ids are taken one by one. 5 of 100,000 ids take 9 µs so, and 4 µs together."""
RUN_STEP = 64
"""Values that are compared at a time to see how many at the beginning of a list are in order."""


@kernel(keeps_lock=True)
def joined_texts(places: Int32s, offsets: Int64s, data: UInt8s) -> UInt8s:
    """Return the bytes of the texts at some places, one after the other, with a NUL between them."""
    total = places.size - 1
    for number in range(places.size):
        total += offsets[places[number] + 1] - offsets[places[number]]
    joined, end = np.empty(total, np.uint8), 0
    for number in range(places.size):
        if number > 0:
            joined[end] = 0
            end += 1
        for place in range(offsets[places[number]], offsets[places[number] + 1]):
            joined[end] = data[place]
            end += 1
    return joined


@kernel(keeps_lock=True)
def sorted_texts(places: Int32s, offsets: Int64s, data: UInt8s) -> UInt8s:
    """Sort some places, in place, and return the bytes of the texts there as `joined_texts` does."""
    sort_lists(np.array([0, places.size]), places, offsets.size - 2)
    return joined_texts(places, offsets, data)


def ids_in_order(ids: Strings, places: Int32s) -> list[str]:
    """Sort some places, in place, and return the ids there. Places stand side by side."""
    if _is_cut_out(ids, places):
        found = str(sorted_texts(places, ids.offsets, ids.data).data, "utf-8").split("\0")
        if len(found) == places.size:
            return found
    else:
        sort_lists(np.array([0, places.size]), places, len(ids) - 1)
    return ids.at(places)


def _is_cut_out(ids: Strings, places: Int32s) -> bool:
    """Whether ids are decoded as one text and cut at the NULs. There are more pieces if an id has a NUL in it."""
    return FEW_IDS <= places.size < MANY_PLACES and len(ids) > FEW_STRINGS


def ids_at(ids: Strings, places: Int32s) -> list[str]:
    """Return the ids at some places, as `Strings.at` does; some at once are decoded as one text and cut at the NULs.

    100 of 100,000 ids take 5 µs so, and 30 µs if each is cut out of the text by its offsets.
    """
    if _is_cut_out(ids, places):
        found = str(joined_texts(np.ascontiguousarray(places), ids.offsets, ids.data).data, "utf-8").split("\0")
        if len(found) == places.size:
            return found
    return ids.at(places)


@kernel
def _insert_sorted(values: Int32s, first: int, last: int) -> None:
    """Sort `values[first:last]` by insertion: fast for short lists and for those that are nearly sorted."""
    for start in range(first + 1, last):
        place = np.uint64(start)
        value = values[place]
        while place > np.uint64(first) and values[place - np.uint64(1)] > value:
            values[place] = values[place - np.uint64(1)]
            place -= np.uint64(1)
        values[place] = value


@kernel
def _sort_by_digit(values: Int32s, first: int, last: int, shift: int, ends: Int32s, other: Int32s) -> int:
    """Sort `values[first:last]` by the digit at `shift`, stable; return how often the most frequent digit occurs."""
    mask = (1 << DIGIT_BITS) - 1
    ends[:] = 0
    for place in range(first, last):
        ends[np.uint64((values[np.uint64(place)] >> shift) & mask)] += 1
    total, most = 0, 0
    for number in range(ends.size):
        count = ends[number]
        most = max(most, count)
        ends[number] = total
        total += count
    for place in range(first, last):
        value = values[np.uint64(place)]
        digit = np.uint64((value >> shift) & mask)
        other[np.uint64(ends[digit])] = value
        ends[digit] += 1
    for place in range(last - first):
        values[np.uint64(first + place)] = other[np.uint64(place)]
    return most


@kernel
def _sort_by_bits(values: Int32s, first: int, last: int, bits: UInt64s, other: Int32s) -> bool:
    """Sort `values[first:last]` by setting a bit for each and reading the bits, which are zeros before and afterwards.

    Returns False, and leaves the values as they are, if some value is there twice.
    """
    for place in range(first, last):
        value = np.uint64(values[np.uint64(place)])
        bits[value >> np.uint64(6)] |= np.uint64(1) << (value & np.uint64(63))
    used = np.uint64(0)
    for word in range(np.uint64(bits.size)):
        left = bits[word]
        if left == np.uint64(0):
            continue
        bits[word] = np.uint64(0)
        while left != np.uint64(0):
            other[used] = np.int32(word << np.uint64(6)) + np.int32(lowest_bit(left))
            left &= left - np.uint64(1)
            used += np.uint64(1)
    if used < np.uint64(last - first):
        return False
    for place in range(used):
        values[np.uint64(first) + place] = other[place]
    return True


@kernel
def _sorted_until(values: Int32s, first: int, last: int) -> int:
    """Return where the ascending values from `first` on end: at the last of them.

    The last one counts to those behind, since a list of one needs no sorting either.
    """
    end = first
    while end + RUN_STEP < last:
        descents = 0
        # Unsigned indexes cannot be negative, so that the compiler makes vectors of this loop.
        for place in range(np.uint64(end), np.uint64(end + RUN_STEP)):
            descents += values[place] > values[place + np.uint64(1)]
        if descents > 0:
            break
        end += RUN_STEP
    while end + 1 < last and values[end] <= values[end + 1]:
        end += 1
    return end


@kernel
def _merge_behind(values: Int32s, first: int, middle: int, last: int, other: Int32s) -> None:
    """Merge the sorted `values[first:middle]` with `values[middle:last]`, few of them and sorted as well."""
    read, written = np.uint64(first), np.uint64(0)
    for place in range(middle, last):
        value = values[np.uint64(place)]
        low, high = read, np.uint64(middle)
        while low < high:
            half = (low + high) >> np.uint64(1)
            if values[half] <= value:
                low = half + np.uint64(1)
            else:
                high = half
        for number in range(low - read):
            other[written + number] = values[read + number]
        written += low - read
        read = low
        other[written] = value
        written += np.uint64(1)
    # What is behind the last value goes to its place; what is before it is copied back.
    for number in range(np.uint64(middle) - read):
        other[written + number] = values[read + number]
    for place in range(np.uint64(last - first)):
        values[np.uint64(first) + place] = other[place]


@kernel
def sort_lists(starts: Int64s, values: Int32s, most: int) -> None:
    """Sort each list `values[starts[i]:starts[i + 1]]` in place; no value is above `most`, none below 0.

    Matches are spread over all subscriptions: sorted by their highest digit they are nearly sorted, and insertion does
    the rest. A long list is read from bits. Only a shorter one that is crowded in one place is sorted digit by digit,
    from the lowest. Of a list that begins with many values in order only the others are sorted, and merged with them.
    """
    longest = 0
    for event in range(starts.size - 1):
        longest = max(longest, starts[event + 1] - starts[event])
    other, ends = np.empty(longest, np.int32), np.empty(1 << DIGIT_BITS, np.int32)
    bits = np.zeros((most >> 6) + 1 if longest * BITS_A_VALUE > most else 0, np.uint64)
    highest = 0
    while most >> (highest + DIGIT_BITS) > 0:
        highest += 1
    for event in range(starts.size - 1):
        first, last = starts[event], starts[event + 1]
        begin, first = first, _sorted_until(values, first, last)
        # A short run is sorted again with the others: so they are not merged for little.
        if 2 * (first - begin) < last - begin:
            first = begin
        is_long = last - first > SHORT_LIST and (last - first) * BITS_A_VALUE > most
        if is_long and _sort_by_bits(values, first, last, bits, other):
            pass
        elif last - first > SHORT_LIST and _sort_by_digit(values, first, last, highest, ends, other) > SHORT_LIST:
            for shift in range(0, highest + DIGIT_BITS, DIGIT_BITS):
                _sort_by_digit(values, first, last, shift, ends, other)
        else:
            _insert_sorted(values, first, last)
        if first > begin and values[first] < values[first - 1]:
            _merge_behind(values, begin, first, last, other)


@kernel
def append_lists(starts: Int64s, numbers: Int32s, ranks: Int32s, ends: Int64s, values: Int32s) -> None:
    """Append the ranks of the numbers of each event to its list, which ends at `ends[event]` so far."""
    for event in range(starts.size - 1):
        end = ends[event]
        for place in range(starts[event], starts[event + 1]):
            values[end] = ranks[numbers[place]]
            end += 1
        ends[event] = end


@kernel
def ids_before(ids: UInt8s, offsets: Int64s, others: UInt8s, other_offsets: Int64s) -> Int32s:
    """Count the ids that are before each of the others.

    Both ascend, and are bytes of UTF-8, which have the order of their texts: id i is `ids[offsets[i]:offsets[i + 1]]`.
    """
    before = np.empty(other_offsets.size - 1, np.int32)
    least = 0
    for number in range(before.size):
        first, length = other_offsets[number], other_offsets[number + 1] - other_offsets[number]
        low, high = least, offsets.size - 1
        while low < high:
            middle = (low + high) >> 1
            at, size = offsets[middle], offsets[middle + 1] - offsets[middle]
            common = 0
            while common < size and common < length and ids[at + common] == others[first + common]:
                common += 1
            if common == length:
                is_before = False
            elif common == size:
                is_before = True
            else:
                is_before = ids[at + common] < others[first + common]
            if is_before:
                low = middle + 1
            else:
                high = middle
        before[number] = least = low
    return before


@kernel
def merge_others(
    starts: Int64s, numbers: Int32s, other_starts: Int64s, others: Int32s, before: Int32s, first: int, merged: Int32s
) -> None:
    """Merge two sorted lists of each event; other i comes behind the numbers below `before[i]`, as `first + i`."""
    written = np.uint64(0)
    for event in range(starts.size - 1):
        read, end = np.uint64(starts[event]), np.uint64(starts[event + 1])
        for place in range(other_starts[event], other_starts[event + 1]):
            low, high = read, end
            while low < high:
                half = (low + high) >> np.uint64(1)
                if numbers[half] < before[others[place]]:
                    low = half + np.uint64(1)
                else:
                    high = half
            for number in range(low - read):
                merged[written + number] = numbers[read + number]
            written += low - read
            read = low
            merged[written] = first + others[place]
            written += np.uint64(1)
        for number in range(end - read):
            merged[written + number] = numbers[read + number]
        written += end - read


@kernel
def scores_at(places: Int32s, scores: Float64s, behind: Float64s, found: Float64s) -> None:
    """Look up the score of each place: of the first ones in `scores`, of the others in `behind`."""
    for row in range(np.uint64(places.size)):
        place = np.uint64(places[row])
        if place < np.uint64(scores.size):
            found[row] = scores[place]
        else:
            found[row] = behind[place - np.uint64(scores.size)]


class ScoresInOrder(NamedTuple):
    """Scores by the places of an order: those of the first ids, and of the ids behind them."""

    first: Float64s
    behind: Float64s

    def at(self, places: Int32s) -> Float64s:
        """Return the scores of some places."""
        found = np.empty(places.size)
        scores_at(places, self.first, self.behind, found)
        return found


class IdOrder:
    """The ranks of all subscriptions of some segments.

    >>> order = IdOrder([pa.array(["a", "d"], pa.large_string()), pa.array(["b", "c", "e"], pa.large_string())])
    >>> [ranks.tolist() for ranks in order.ranks], order.ids.to_pylist()
    ([[0, 3], [1, 2, 4]], ['a', 'b', 'c', 'd', 'e'])
    """

    def __init__(self, ids: Sequence[pa.Array]) -> None:
        together = pa.concat_arrays(ids)
        by_id = pc.sort_indices(together)
        self.ids = together.take(by_id)
        """The ids of all segments in order. One that was replaced is there twice, and only one of the two matches."""
        rank = np.empty(len(together), np.int32)
        rank[np.asarray(by_id)] = np.arange(len(together), dtype=np.int32)
        self.ranks = np.split(rank, np.cumsum([len(one) for one in ids])[:-1])
        """By segment: the rank of each subscription."""

    def in_order(self, scores: Sequence[Float64s]) -> ScoresInOrder:
        """Scores that each segment has by number, by rank."""
        by_rank = np.empty(len(self.ids))
        for ranks, of_segment in zip(self.ranks, scores, strict=True):
            by_rank[ranks] = of_segment
        return ScoresInOrder(by_rank, by_rank[:0])

    def ordered(self, found: Sequence[tuple[Int64s, Int32s]]) -> tuple[Int64s, Int32s]:
        """One sorted list of ranks for each event, of the lists that each segment found."""
        starts = np.sum([starts for starts, _ in found], axis=0)
        values, ends = np.empty(int(starts[-1]), np.int32), starts[:-1].copy()
        for ranks, (of_segment, numbers) in zip(self.ranks, found, strict=True):
            append_lists(of_segment, numbers, ranks, ends, values)
        sort_lists(starts, values, len(self.ids) - 1)
        return starts, values


class OrderBesideLarge:
    """The order of the ids of a large segment and of few others: those of the large one come first, by number.

    >>> ids = [Strings.of(["b"]), Strings.of(["a", "c", "e"]), Strings.of(["d"])]
    >>> order = OrderBesideLarge(ids, 1)
    >>> order.ids.to_pylist()
    ['a', 'c', 'e', 'b', 'd']
    >>> one = np.array([0, 1])
    >>> found = [(one, np.array([0], np.int32)), (one, np.array([2], np.int32)), (one, np.array([0], np.int32))]
    >>> order.ids.take(pa.array(order.ordered(found)[1])).to_pylist()
    ['b', 'd', 'e']
    """

    def __init__(self, ids: Sequence[Strings], large: int) -> None:
        self._large, self._count = large, len(ids[large])
        self._others = IdOrder([of_segment.arrow() for of_segment in _without(large, ids)])
        self.ids = pa.concat_arrays([ids[large].arrow(), self._others.ids])
        """The ids of the large segment, then those of the others, each part in order."""
        others = Strings.of_arrow(self._others.ids)
        self._before = ids_before(ids[large].data, ids[large].offsets, others.data, others.offsets)
        """How many ids of the large segment are before each of the others."""

    def in_order(self, scores: Sequence[Float64s]) -> ScoresInOrder:
        """Scores that each segment has by number, by place among `ids`."""
        return ScoresInOrder(scores[self._large], self._others.in_order(_without(self._large, scores)).first)

    def ordered(self, found: Sequence[tuple[Int64s, Int32s]]) -> tuple[Int64s, Int32s]:
        """One list of places for each event, sorted by id, of the lists that each segment found."""
        starts, numbers = found[self._large]
        sort_lists(starts, numbers, self._count)
        other_starts, others = self._others.ordered(_without(self._large, found))
        merged = np.empty(numbers.size + others.size, np.int32)
        merge_others(starts, numbers, other_starts, others, self._before, self._count, merged)
        return starts + other_starts, merged


class IdOrders:
    """The order of the ids of a set of segments, kept for the snapshots that have the same segments."""

    def __init__(self) -> None:
        self._kept: tuple[Sequence[Strings], IdOrder | OrderBesideLarge] | None = None
        """What was asked for last, in one place: threads with other snapshots may ask at once."""

    def of(self, ids: Sequence[Strings]) -> IdOrder | OrderBesideLarge:
        """Return the order of the ids of some segments; 0.4 s for 1,000,000 of them, unless one has nearly all."""
        kept = self._kept
        if kept is not None and len(kept[0]) == len(ids) and all(map(operator.is_, kept[0], ids)):
            return kept[1]
        sizes = [len(of_segment) for of_segment in ids]
        large = int(np.argmax(sizes))
        order: IdOrder | OrderBesideLarge
        if OTHERS * (sum(sizes) - sizes[large]) <= sizes[large]:
            order = OrderBesideLarge(ids, large)
        else:
            order = IdOrder([of_segment.arrow() for of_segment in ids])
        self._kept = ids, order
        return order


def _without(place: int, items: Sequence[T]) -> list[T]:
    return [*items[:place], *items[place + 1 :]]


def named_only(
    ids: Sequence[pa.Array], found: Sequence[tuple[Int64s, Int32s]]
) -> tuple[list[pa.Array], list[tuple[Int64s, Int32s]], list[Int32s]]:
    """The ids that are found at all, the same lists by their places among those, and the numbers that they had."""
    numbers = [np.unique(values, return_inverse=True) for _, values in found]
    few = [one.take(pa.array(chosen)) for one, (chosen, _) in zip(ids, numbers, strict=True)]
    lists = [(starts, place.astype(np.int32)) for (starts, _), (_, place) in zip(found, numbers, strict=True)]
    return few, lists, [chosen for chosen, _ in numbers]
