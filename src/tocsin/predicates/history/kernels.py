"""Kernels over old events.

An old value is a *lane* and a 64-bit *payload*. Within a lane, values have an order, and `key_of` maps them to int64 in
that order: the payload itself, or the label of a dictionary code. A condition on an old value is one interval of keys
per lane, `low[lane] <= key <= high[lane]`, or every key of the lane `outside` it. An empty interval is 1..0.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int32s, Int64s, UInt8s, UInt64s

LANES = 8
"""How many lanes there are (see `encode.Lane`)."""
EXACT = 5
STRING = 6
"""The two lanes whose payloads are codes of a dictionary."""
WORD = 64
"""The bits in a word of a bitmap, 2 to the power of _WORD_SHIFT."""
_WORD_SHIFT = 6
_GREATEST = np.iinfo(np.int64).max


class OldValues(NamedTuple):
    """The old values of one attribute by position, and the labels of the codes of both dictionaries."""

    payloads: Int64s
    lanes: UInt8s
    strings: Int64s
    exacts: Int64s


class Bounds(NamedTuple):
    """A condition on an old value: for each lane an interval of keys, or all of the lane outside it.

    Several conditions are arrays with more dimensions; the lane is always the last.
    """

    low: Int64s
    high: Int64s
    outside: Bools


@kernel
def key_of(lane: int, payload: int, old: OldValues) -> int:
    """Return the key of a value in the order of its lane."""
    if lane == STRING:
        return int(old.strings[payload])
    if lane == EXACT:
        return int(old.exacts[payload])
    return payload


@kernel
def keys_at(positions: Int32s, old: OldValues) -> Int64s:
    """Return the keys of the old values at `positions`."""
    keys = np.empty(positions.size, dtype=np.int64)
    for i in range(positions.size):
        at = positions[i]
        keys[i] = key_of(old.lanes[at], old.payloads[at], old)
    return keys


@kernel
def narrow(positions: Int32s, old: OldValues, bounds: Bounds) -> Int32s:
    """Return those of `positions` whose old value satisfies the condition."""
    kept = np.empty(positions.size, dtype=np.int32)
    count = 0
    for i in range(positions.size):
        at = positions[i]
        lane = old.lanes[at]
        key = key_of(lane, old.payloads[at], old)
        if (bounds.low[lane] <= key <= bounds.high[lane]) != bounds.outside[lane]:
            kept[count] = at
            count += 1
    return kept[:count]


@kernel
def tally(start: int, stop: int, old: OldValues, counts: Int64s, least: Int64s, greatest: Int64s) -> None:
    """Add the old values at `start <= position < stop` to the count, least and greatest payload of each lane."""
    for at in range(start, stop):
        lane = old.lanes[at]
        payload = old.payloads[at]
        if counts[lane] == 0:
            least[lane] = payload
            greatest[lane] = payload
        else:
            key = key_of(lane, payload, old)
            if key < key_of(lane, least[lane], old):
                least[lane] = payload
            if key > key_of(lane, greatest[lane], old):
                greatest[lane] = payload
        counts[lane] += 1


@kernel
def first_not_below(order: Int32s, start: int, stop: int, key: int, old: OldValues) -> int:
    """Return the first place in `order[start:stop]`, which is sorted by key, whose key is at least `key`, or `stop`."""
    while start < stop:
        middle = (start + stop) >> 1
        at = order[middle]
        if key_of(old.lanes[at], old.payloads[at], old) < key:
            start = middle + 1
        else:
            stop = middle
    return start


@kernel
def slices(order: Int32s, lane_starts: Int64s, old: OldValues, bounds: Bounds) -> Int64s:
    """Return the slices (start, stop) of `order` that satisfy the condition.

    `order` is a sequence of runs, each sorted by lane and key; lane l of run r is
    `order[lane_starts[r, l]:lane_starts[r, l + 1]]`.
    """
    found = np.empty((lane_starts.shape[0] * LANES * 2, 2), dtype=np.int64)
    count = 0
    low, high, outside = bounds.low, bounds.high, bounds.outside
    for run in range(lane_starts.shape[0]):
        for lane in range(LANES):
            start = lane_starts[run, lane]
            stop = lane_starts[run, lane + 1]
            if start == stop or (low[lane] > high[lane] and not outside[lane]):
                continue
            left = start
            right = start
            if low[lane] <= high[lane]:
                left = first_not_below(order, start, stop, low[lane], old)
                right = stop if high[lane] == _GREATEST else first_not_below(order, left, stop, high[lane] + 1, old)
            if not outside[lane]:
                if left < right:
                    found[count] = left, right
                    count += 1
            else:
                if start < left:
                    found[count] = start, left
                    count += 1
                if right < stop:
                    found[count] = right, stop
                    count += 1
    return found[:count]


@kernel
def contains(
    order: Int32s, lane_starts: Int64s, old: OldValues, equality: Bounds, first: int, sorted_up_to: int, stop: int
) -> bool:
    """Tell whether an old value at `first <= position < stop` satisfies an equality.

    `order` and `lane_starts` are as in `slices` and cover the positions before `sorted_up_to`. Within a run, equal
    values are in the order of their positions, so the last of them has expired only if all have.
    """
    low, high = equality.low, equality.high
    for run in range(lane_starts.shape[0]):
        for lane in range(LANES):
            start = lane_starts[run, lane]
            end = lane_starts[run, lane + 1]
            if low[lane] > high[lane] or start == end:
                continue
            if low[lane] < _GREATEST:
                end = first_not_below(order, start, end, low[lane] + 1, old)
            at = order[end - 1]
            if end > start and at >= first and key_of(old.lanes[at], old.payloads[at], old) == low[lane]:
                return True
    for at in range(max(first, sorted_up_to), stop):
        lane = old.lanes[at]
        if low[lane] <= key_of(lane, old.payloads[at], old) <= high[lane]:
            return True
    return False


@kernel
def gather(order: Int32s, found: Int64s, first: int) -> Int32s:
    """Return the positions in the slices `found` of `order` that are not before `first`."""
    size = 0
    for i in range(found.shape[0]):
        size += found[i, 1] - found[i, 0]
    positions = np.empty(size, dtype=np.int32)
    count = 0
    for i in range(found.shape[0]):
        for j in range(found[i, 0], found[i, 1]):
            if order[j] >= first:
                positions[count] = order[j]
                count += 1
    return positions[:count]


@kernel
def any_within(keys: Int64s, starts: Int64s, bounds: Bounds) -> Bools:
    """Tell for each condition (row of `bounds`) whether some key satisfies it.

    The keys of lane l are `keys[starts[l]:starts[l + 1]]`, sorted.
    """
    low, high, outside = bounds.low, bounds.high, bounds.outside
    holds = np.zeros(low.shape[0], dtype=np.bool_)
    for lane in range(LANES):
        start = starts[lane]
        stop = starts[lane + 1]
        if start == stop:
            continue
        for i in range(low.shape[0]):
            if holds[i]:
                continue
            if outside[i, lane]:
                holds[i] = low[i, lane] > high[i, lane] or keys[start] < low[i, lane] or keys[stop - 1] > high[i, lane]
            elif low[i, lane] <= high[i, lane]:
                left = start
                right = stop
                while left < right:
                    middle = (left + right) >> 1
                    if keys[middle] < low[i, lane]:
                        left = middle + 1
                    else:
                        right = middle
                holds[i] = left < stop and keys[left] <= high[i, lane]
    return holds


@kernel(signatures=2)
def last_satisfying(keys: Int64s, lanes: UInt8s, bounds: Bounds, wanted: Bools) -> Int64s:
    """Return for each wanted condition the last event that satisfies all its terms; -1 if none does.

    `keys[t, e]` and `lanes[t, e]` are the old value that term t compares in event e; `bounds.low[t, c]` is term t of
    condition c.
    """
    low, high, outside = bounds.low, bounds.high, bounds.outside
    terms, conditions, _ = low.shape
    events = keys.shape[1]
    last = np.full(conditions, -1, dtype=np.int64)
    for c in range(conditions):
        if not wanted[c]:
            continue
        for e in range(events - 1, -1, -1):
            holds = True
            for t in range(terms):
                lane = lanes[t, e]
                if (low[t, c, lane] <= keys[t, e] <= high[t, c, lane]) == outside[t, c, lane]:
                    holds = False
                    break
            if holds:
                last[c] = e
                break
    return last


@kernel
def any_satisfying(keys: Int64s, lanes: UInt8s, starts: Int64s, pivot: int, bounds: Bounds) -> Bools:
    """Tell for each condition whether some event satisfies all its terms.

    The arguments are those of `last_satisfying`, with the events sorted by lane and key of the term `pivot`: its lane l
    is `starts[l] <= event < starts[l + 1]`. Only the events in the interval of that term are examined.
    """
    low, high, outside = bounds.low, bounds.high, bounds.outside
    terms, conditions, _ = low.shape
    holds = np.zeros(conditions, dtype=np.bool_)
    for c in range(conditions):
        for lane in range(LANES):
            start = starts[lane]
            stop = starts[lane + 1]
            if start == stop or holds[c]:
                continue
            if not outside[pivot, c, lane]:
                start += np.searchsorted(keys[pivot, start:stop], low[pivot, c, lane])
            for e in range(start, stop):
                if not outside[pivot, c, lane] and keys[pivot, e] > high[pivot, c, lane]:
                    break
                holds[c] = True
                for t in range(terms):
                    at = lanes[t, e]
                    if (low[t, c, at] <= keys[t, e] <= high[t, c, at]) == outside[t, c, at]:
                        holds[c] = False
                        break
                if holds[c]:
                    break
    return holds


@kernel
def fill_fences(order: Int32s, start: int, before: Int64s, bitmaps: UInt64s) -> None:
    """Set in `bitmaps[fence]` the bits of the positions `order[:before[fence]]`; bit 0 is position `start`."""
    for fence in range(1, before.size):
        bitmaps[fence] = bitmaps[fence - 1]
        for i in range(before[fence - 1], before[fence]):
            bit = order[i] - start
            bitmaps[fence, bit >> _WORD_SHIFT] |= np.uint64(1) << np.uint64(bit & (WORD - 1))


@kernel
def marked_positions(words: UInt64s, offset: int, first: int, stop: int) -> Int32s:
    """Return the positions `first <= position < stop` whose bit is set; bit 0 of `words` is position `offset`."""
    positions = np.empty(words.size * WORD, dtype=np.int32)
    count = 0
    for w in range(words.size):
        word = words[w]
        if word != 0:
            for bit in range(WORD):
                at = offset + w * WORD + bit
                if (word >> np.uint64(bit)) & np.uint64(1) and first <= at < stop:
                    positions[count] = at
                    count += 1
    return positions[:count]


class Groups(NamedTuple):
    """Aggregates by group and lane, where a group is the old events that satisfy some constants.

    `least` and `greatest` are payloads, `least_at` and `greatest_at` the numbers of the latest events with them, and
    `latest` is the number of the latest event; -1 if there is none.
    """

    least: Int64s
    greatest: Int64s
    least_at: Int64s
    greatest_at: Int64s
    latest: Int64s


@kernel
def add_to_group(group: int, lane: int, payload: int, number: int, old: OldValues, groups: Groups) -> None:
    """Add the value of the event `number` to a group."""
    key = key_of(lane, payload, old)
    if groups.latest[group, lane] < 0 or key < key_of(lane, groups.least[group, lane], old):
        groups.least[group, lane] = payload
        groups.least_at[group, lane] = number
    elif payload == groups.least[group, lane]:
        groups.least_at[group, lane] = max(number, groups.least_at[group, lane])
    if groups.latest[group, lane] < 0 or key > key_of(lane, groups.greatest[group, lane], old):
        groups.greatest[group, lane] = payload
        groups.greatest_at[group, lane] = number
    elif payload == groups.greatest[group, lane]:
        groups.greatest_at[group, lane] = max(number, groups.greatest_at[group, lane])
    groups.latest[group, lane] = max(number, groups.latest[group, lane])


@kernel
def fill_group(group: int, positions: Int32s, base: int, old: OldValues, groups: Groups) -> None:
    """Compute one group from the positions of its events; the event at position p has the number `base + p`."""
    groups.latest[group, :] = -1
    for i in range(positions.size):
        at = positions[i]
        add_to_group(group, old.lanes[at], old.payloads[at], base + at, old, groups)


@kernel
def extend_groups(
    at: int, base: int, keys: Int64s, lanes: UInt8s, bounds: Bounds, old: OldValues, groups: Groups
) -> None:
    """Add the event at position `at` to its groups; term t compares its value `keys[t]`, `lanes[t]`."""
    terms, count, _ = bounds.low.shape
    for group in range(count):
        holds = True
        for t in range(terms):
            lane = lanes[t]
            inside = bounds.low[t, group, lane] <= keys[t] <= bounds.high[t, group, lane]
            if inside == bounds.outside[t, group, lane]:
                holds = False
                break
        if holds:
            add_to_group(group, old.lanes[at], old.payloads[at], base + at, old, groups)


@kernel
def groups_reaching(groups: Groups, first: int, old: OldValues, bounds: Bounds) -> Bools:
    """Tell for each group whether some event in it, not before number `first`, satisfies a condition.

    The condition is `<>` or an interval that is open to one side, so that the least and greatest value decide.
    """
    holds = np.zeros(groups.latest.shape[0], dtype=np.bool_)
    for lane in range(LANES):
        low = bounds.low[lane]
        high = bounds.high[lane]
        outside = bounds.outside[lane]
        if low > high and not outside:
            continue
        for group in range(holds.size):
            if not holds[group] and groups.latest[group, lane] >= first:
                least = key_of(lane, groups.least[group, lane], old)
                greatest = key_of(lane, groups.greatest[group, lane], old)
                if outside:
                    holds[group] = low > high or least < low or greatest > high
                else:
                    holds[group] = least <= high and greatest >= low
    return holds
