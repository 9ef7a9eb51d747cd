"""Kernels of KeyIndex: conjunctions filed under one of their predicates, the rest of their terms beside them.

A *term* is a predicate p that must hold, or ~p (negative) for a predicate that must not. A conjunction is a slice of
terms. `held` lists the predicates that hold for each event.

The list of a key is a row of *groups*. The conjunctions of a group have the same number of places: the predicates of
their other terms that must hold, filled up with ALWAYS to a *width* of 0, 1, 2 or a multiple of 4, then those of
`forbidden` terms that must not. So a key is probed in one pass over memory, with a fixed stride in each group: in one
document against 2,500,000 profiles, this halved the time (59 times a NumPy copy of the matches before, 30 after).
ALWAYS is the number of predicates; its list has the conjunctions without a required term, which are always examined.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import inlined_kernel, kernel
from tocsin.arrays import Float64s, Int32s, Int64s, UInt8s, UInt16s, UInt32s

Places = UInt16s | UInt32s
# Kernels that take them have two signatures.

# An event is one bit of a positive int64, so that a block of events is matched by AND.
BLOCK = 63
# 2**k % 67 differs for each k below 66: the number of a single bit by one table look-up.
BIT_NUMBERS = np.zeros(67, np.int64)
for _bit in range(BLOCK):
    BIT_NUMBERS[2**_bit % 67] = _bit

WIDTH, FORBIDDEN, FIRST, FIRST_PLACE = 0, 1, 2, 3
"""The columns of `Lists.groups`."""


class Lists(NamedTuple):
    """The lists of all keys."""

    starts: Int32s
    """Where the groups of each key start; one more entry at the end."""
    groups: Int32s
    """Rows (width, forbidden, first conjunction, first place); the last row is only the end of the one before."""
    numbers: Int32s
    """The conjunctions, group by group."""
    places: Places
    """Their other terms as predicates, in 16 bits if all fit: probing reads little else."""


@kernel
def order_terms(offsets: Int64s, terms: Int32s, by_rank: Int32s, rank: Int32s) -> tuple[Int64s, Int32s]:
    """Sort each slice so that it fails first (rare required terms, then frequent forbidden ones); drop repeats."""
    predicates = len(rank)
    new_offsets = np.zeros(len(offsets), np.int64)
    ordered = np.empty(len(terms), np.int32)
    filled = 0
    for c in range(len(offsets) - 1):
        start, stop = offsets[c], offsets[c + 1]
        keys = np.empty(stop - start, np.int64)
        for i in range(start, stop):
            t = terms[i]
            keys[i - start] = rank[t] if t >= 0 else 2 * predicates - 1 - rank[~t]
        # Shell's sort: NumPy's takes Numba longer to compile (1.2 s) than the rest of this kernel.
        gap = 1
        while gap < len(keys):
            gap = 3 * gap + 1
        while gap > 1:
            gap //= 3
            for i in range(gap, len(keys)):
                key, j = keys[i], i - gap
                while j >= 0 and keys[j] > key:
                    keys[j + gap] = keys[j]
                    j -= gap
                keys[j + gap] = key
        for i in range(len(keys)):
            if i > 0 and keys[i] == keys[i - 1]:
                continue
            key = keys[i]
            ordered[filled] = by_rank[key] if key < predicates else ~by_rank[2 * predicates - 1 - key]
            filled += 1
        new_offsets[c + 1] = filled
    return new_offsets, ordered[:filled].copy()


@kernel
def padded(terms: int) -> int:
    """Round a number of other terms up to a width."""
    return terms if terms < 3 else (terms + 3) // 4 * 4


@kernel
def shapes(offsets: Int64s, terms: Int32s, keys: Int32s, predicates: int) -> tuple[Int32s, Int32s]:
    """Return the width and the number of forbidden terms of each slice, without its key."""
    width, forbidden = np.empty(len(keys), np.int32), np.zeros(len(keys), np.int32)
    for c in range(len(keys)):
        for i in range(offsets[c], offsets[c + 1]):
            forbidden[c] += terms[i] < 0
        others = offsets[c + 1] - offsets[c] - forbidden[c] - (1 if keys[c] < predicates else 0)
        width[c] = padded(others)
    return width, forbidden


@kernel(signatures=2)
def file_under_keys(
    offsets: Int64s,
    terms: Int32s,
    keys: Int32s,
    shape: tuple[Int32s, Int32s],
    order: Int64s,
    starts: Int32s,
    places: Places,
) -> Int32s:
    """Fill `starts` and `places` from slices of (ordered, distinct) terms; return the groups.

    `order` names the slices by key and then by shape, which is their width and number of forbidden terms.
    """
    always = len(starts) - 2
    width, forbidden = shape
    groups = np.empty((len(order) + 1, 4), np.int32)
    count = 0
    end = 0
    for k in range(len(order)):
        c = order[k]
        before = order[k - 1]
        if k == 0 or keys[before] != keys[c] or width[before] != width[c] or forbidden[before] != forbidden[c]:
            groups[count, WIDTH], groups[count, FORBIDDEN] = width[c], forbidden[c]
            groups[count, FIRST], groups[count, FIRST_PLACE] = k, end
            count += 1
            starts[keys[c] + 1] = count
        filled = end
        for i in range(offsets[c], offsets[c + 1]):
            if terms[i] >= 0 and terms[i] != keys[c]:
                places[filled] = terms[i]
                filled += 1
        end += width[c]
        while filled < end:
            places[filled] = always
            filled += 1
        for i in range(offsets[c], offsets[c + 1]):
            if terms[i] < 0:
                places[end] = ~terms[i]
                end += 1
    for key in range(always + 1):
        starts[key + 1] = max(starts[key + 1], starts[key])
    groups[count, WIDTH], groups[count, FORBIDDEN] = 0, 0
    groups[count, FIRST], groups[count, FIRST_PLACE] = len(order), end
    return groups[: count + 1].copy()


@inlined_kernel
def _size(lists: Lists, key: int) -> int:
    """Count the conjunctions that have this key."""
    size: int = lists.groups[lists.starts[key + 1], FIRST] - lists.groups[lists.starts[key], FIRST]
    return size


@kernel(signatures=2)
def _probe_group(lists: Lists, group: int, occurs: UInt8s, found: Int32s, filled: int) -> int:
    """Append the conjunctions of a group whose places all hold to `found`; return its new end.

    Each width has its own loop without a branch: a processor cannot predict which conjunctions hold.
    """
    groups = lists.groups
    numbers = lists.numbers[groups[group, FIRST] : groups[group + 1, FIRST]]
    stride = groups[group, WIDTH] + groups[group, FORBIDDEN]
    places = lists.places[groups[group, FIRST_PLACE] : groups[group + 1, FIRST_PLACE]].reshape(len(numbers), stride)
    if groups[group, FORBIDDEN] == 0 and stride <= 4:
        if stride == 0:
            for c in range(len(numbers)):
                found[filled + c] = numbers[c]
            filled += len(numbers)
        elif stride == 1:
            for c in range(len(numbers)):
                found[filled] = numbers[c]
                filled += occurs[places[c, 0]]
        elif stride == 2:
            for c in range(len(numbers)):
                found[filled] = numbers[c]
                filled += occurs[places[c, 0]] & occurs[places[c, 1]]
        else:
            for c in range(len(numbers)):
                found[filled] = numbers[c]
                filled += occurs[places[c, 0]] & occurs[places[c, 1]] & occurs[places[c, 2]] & occurs[places[c, 3]]
        return filled
    for c in range(len(numbers)):
        holds = True
        for i in range(stride):
            if (occurs[places[c, i]] == 1) == (i >= groups[group, WIDTH]):
                holds = False
                break
        found[filled] = numbers[c]
        filled += holds
    return filled


@kernel(signatures=2)
def match_keys_of_event(held: Int32s, lists: Lists, occurs: UInt8s) -> tuple[Int32s, int]:
    """Match one event: for each key that holds, probe the occurrence table for the other terms."""
    always = len(occurs) - 1
    candidates = _size(lists, always)
    occurs[always] = 1
    for p in held:
        if p < always:
            occurs[p] = 1
            candidates += _size(lists, p)
    found = np.empty(candidates + 1, np.int32)
    filled = 0
    for k in range(len(held) + 1):
        key = held[k] if k < len(held) else always
        if key < always or k == len(held):
            for group in range(lists.starts[key], lists.starts[key + 1]):
                filled = _probe_group(lists, group, occurs, found, filled)
    occurs[always] = 0
    for p in held:
        if p < always:
            occurs[p] = 0
    return found[:filled], candidates


@kernel
def doubled32(array: Int32s) -> Int32s:
    """Copy an array to one of twice the length, the second half not set."""
    longer = np.empty(2 * len(array) + 16, np.int32)
    for place in range(len(array)):
        longer[place] = array[place]
    return longer


@kernel
def doubled64(array: Int64s) -> Int64s:
    """Copy an array to one of twice the length, the second half not set."""
    longer = np.empty(2 * len(array) + 16, np.int64)
    for place in range(len(array)):
        longer[place] = array[place]
    return longer


@kernel
def enter_block(
    held_offsets: Int64s, held: Int32s, first: int, last: int, masks: Int64s, touched: Int32s
) -> tuple[Int32s, int]:
    """Set in masks[p] the bits of the events first..last that hold p; return the distinct p and their number.

    The last mask is that of ALWAYS and gets every event of the block.
    """
    predicates = len(masks) - 1
    count = 0
    for event in range(first, last):
        bit = 1 << (event - first)
        for i in range(held_offsets[event], held_offsets[event + 1]):
            p = held[i]
            if p >= predicates:
                continue
            if masks[p] == 0:
                if count == len(touched):
                    touched = doubled32(touched)
                touched[count] = p
                count += 1
            masks[p] |= bit
    masks[predicates] = (1 << (last - first)) - 1
    return touched, count


@kernel
def leave_block(touched: Int32s, count: int, masks: Int64s) -> None:
    """Set the masks of a block back to zero."""
    for i in range(count):
        masks[touched[i]] = 0
    masks[len(masks) - 1] = 0


@kernel
def count_bits(mask: int) -> int:
    """Count the events in a mask."""
    bits = 0
    while mask:
        mask &= mask - 1
        bits += 1
    return bits


@kernel(signatures=2)
def _probe_block(
    lists: Lists, group: int, of_key: int, masks: Int64s, found: Int32s, where: Int64s, filled: int
) -> int:
    """Append the conjunctions of a group and the events for which they hold; return the new end."""
    groups = lists.groups
    numbers = lists.numbers[groups[group, FIRST] : groups[group + 1, FIRST]]
    width = groups[group, WIDTH]
    stride = width + groups[group, FORBIDDEN]
    places = lists.places[groups[group, FIRST_PLACE] : groups[group + 1, FIRST_PLACE]].reshape(len(numbers), stride)
    if stride == 0:
        for c in range(len(numbers)):
            found[filled + c], where[filled + c] = numbers[c], of_key
        return filled + len(numbers)
    if stride == 1 and width == 1:
        for c in range(len(numbers)):
            events = of_key & masks[places[c, 0]]
            found[filled], where[filled] = numbers[c], events
            filled += events != 0
        return filled
    for c in range(len(numbers)):
        events = of_key
        for i in range(width):
            events &= masks[places[c, i]]
            if events == 0:
                break
        for i in range(width, stride):
            events &= ~masks[places[c, i]]
        found[filled], where[filled] = numbers[c], events
        filled += events != 0
    return filled


class Matched(NamedTuple):
    """The first `filled` conjunctions that hold for some event of a block, and the bits of these events."""

    conjunctions: Int32s
    where: Int64s
    filled: int
    candidates: int


@kernel(signatures=2)
def match_block(lists: Lists, touched: Int32s, distinct: int, masks: Int64s, matched: Matched) -> Matched:
    """For each key that holds, AND the events of the key with those of the other terms."""
    conjunctions, where = matched.conjunctions, matched.where
    filled, candidates = 0, matched.candidates
    for k in range(distinct + 1):
        key = touched[k] if k < distinct else len(masks) - 1
        size = _size(lists, key)
        if size == 0:
            continue
        while filled + size > len(conjunctions):
            conjunctions, where = doubled32(conjunctions), doubled64(where)
        for group in range(lists.starts[key], lists.starts[key + 1]):
            filled = _probe_block(lists, group, masks[key], masks, conjunctions, where, filled)
        candidates += size * count_bits(masks[key])
    return Matched(conjunctions, where, filled, candidates)


@kernel(signatures=2)
def match_keys(held_offsets: Int64s, held: Int32s, lists: Lists, masks: Int64s) -> tuple[Int32s, int]:
    """Match blocks of events; return pairs (event, conjunction), and how many were looked at.

    In a block, the events of a conjunction follow each other: the list of its subscriptions, which is read next, is
    then in the cache.
    """
    events = len(held_offsets) - 1
    pairs = np.empty((64, 2), np.int32)
    used = 0
    touched = np.empty(256, np.int32)
    matched = Matched(np.empty(256, np.int32), np.empty(256, np.int64), 0, 0)
    for first in range(0, events, BLOCK):
        last = min(first + BLOCK, events)
        touched, distinct = enter_block(held_offsets, held, first, last, masks, touched)
        matched = match_block(lists, touched, distinct, masks, matched)
        leave_block(touched, distinct, masks)
        for i in range(matched.filled):
            if used + BLOCK > len(pairs):
                larger = np.empty((2 * len(pairs), 2), np.int32)
                for row in range(used):
                    larger[row, 0], larger[row, 1] = pairs[row, 0], pairs[row, 1]
                pairs = larger
            conjunction, where = matched.conjunctions[i], matched.where[i]
            while where:
                low = where & -where
                pairs[used, 0], pairs[used, 1] = first + BIT_NUMBERS[low % 67], conjunction
                used += 1
                where ^= low
    return pairs[:used], matched.candidates


@kernel
def expected_candidates(offsets: Int64s, terms: Int32s, keys: Int32s, frequency: Float64s) -> tuple[float, float]:
    """Sum over the conjunctions the frequency of the key they have, and of the best key they could have."""
    now = 0.0
    best = 0.0
    for c in range(len(keys)):
        if keys[c] >= len(frequency):
            now += 1.0
            best += 1.0
            continue
        rarest = 1.0
        for i in range(offsets[c], offsets[c + 1]):
            if terms[i] >= 0:
                rarest = min(rarest, frequency[terms[i]])
        now += frequency[keys[c]]
        best += rarest
    return now, best
