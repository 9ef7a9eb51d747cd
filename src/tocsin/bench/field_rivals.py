"""REIN and HEM, the rivals of `tocsin bench field`, written from the descriptions of their papers.

Both mark the subscriptions that an event does not match in a bitset, attribute by attribute, and read the zeros in the
end. REIN (Qian et al., 2014) keeps the low and the high ends of an attribute's ranges in buckets: all low ends behind
the bucket of the event's value and all high ends before it are marked, and the two buckets of the value are compared.
HEM (2022) groups the buckets and caches for each group the bitset of the ranges that fail in all of it, so that only
the buckets of one group are gone through. An event without an attribute fails all ranges on it.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel, lowest_bit
from tocsin.arrays import Int32s, Int64s, UInt64s

BUCKETS = 1024
"""Buckets of an attribute."""
GROUPS = 64
"""Groups of buckets of an attribute that have a cached bitset."""
CACHE_BYTES = 1 << 30
"""HEM caches bitsets up to so many bytes; beyond it, it is REIN."""


class Ranges(NamedTuple):
    """Ranges (attribute, low, high) of subscriptions, both ends inclusive, one row each."""

    subscription: Int32s
    attribute: Int32s
    low: Int32s
    high: Int32s


class Ends(NamedTuple):
    """The low and the high ends of all ranges, by attribute and bucket, and the cached bitsets."""

    subscriptions: int
    domain: int
    low_starts: Int64s
    """Where the low ends of bucket b of attribute a start: at a * BUCKETS + b; one more entry at the end."""
    low: Int32s
    low_subscription: Int32s
    high_starts: Int64s
    high: Int32s
    high_subscription: Int32s
    cached: UInt64s
    """`cached[a, g]`: the subscriptions that fail for every value of group g of attribute a; the last group is that of
    no value. Nothing: REIN."""


def rein(ranges: Ranges, subscriptions: int, attributes: int, domain: int) -> Ends:
    """Sort the ends of ranges into buckets."""

    def in_buckets(value: Int32s) -> tuple[Int64s, Int32s, Int32s]:
        bucket = ranges.attribute.astype(np.int64) * BUCKETS + value.astype(np.int64) * BUCKETS // domain
        order = np.argsort(bucket, kind="stable")
        starts = np.searchsorted(bucket[order], np.arange(attributes * BUCKETS + 1))
        return starts.astype(np.int64), value[order], ranges.subscription[order]

    low_starts, low, low_subscription = in_buckets(ranges.low)
    high_starts, high, high_subscription = in_buckets(ranges.high)
    nothing = np.empty((0, 0, 0), np.uint64)
    return Ends(subscriptions, domain, low_starts, low, low_subscription, high_starts, high, high_subscription, nothing)


def hem(ranges: Ranges, subscriptions: int, attributes: int, domain: int) -> Ends:
    """The same with cached bitsets, as far as there is room for them."""
    ends = rein(ranges, subscriptions, attributes, domain)
    words = -(-subscriptions // 64)
    if attributes * (GROUPS + 1) * words * 8 > CACHE_BYTES:
        return ends
    cached = np.zeros((attributes, GROUPS + 1, words), np.uint64)
    fill_cache(ends, cached)
    return ends._replace(cached=cached)


@kernel
def mark(bits: UInt64s, subscriptions: Int32s, first: int, end: int) -> None:
    """Set the bits of some subscriptions."""
    for place in range(np.uint64(first), np.uint64(end)):
        subscription = subscriptions[place]
        bits[np.uint64(subscription >> 6)] |= np.uint64(1) << np.uint64(subscription & 63)


@kernel
def fill_cache(ends: Ends, cached: UInt64s) -> None:
    """Mark for each group the low ends behind it and the high ends before it; for no value, all."""
    of_group = BUCKETS // GROUPS
    for attribute in range(len(cached)):
        first = attribute * BUCKETS
        for group in range(GROUPS):
            after, before = first + (group + 1) * of_group, first + group * of_group
            bits = cached[attribute, group]
            mark(bits, ends.low_subscription, ends.low_starts[after], ends.low_starts[first + BUCKETS])
            mark(bits, ends.high_subscription, ends.high_starts[first], ends.high_starts[before])
        bits = cached[attribute, GROUPS]
        mark(bits, ends.low_subscription, ends.low_starts[first], ends.low_starts[first + BUCKETS])


@kernel
def match_one(ends: Ends, values: Int32s, bits: UInt64s, found: Int32s) -> int:
    """Write the subscriptions that an event matches to `found`; return how many. The value -1 is none."""
    bits[:] = np.uint64(0)
    has_cache = ends.cached.size > 0
    of_group = BUCKETS // GROUPS
    for attribute in range(values.size):
        value, first = values[attribute], attribute * BUCKETS
        bucket = int(np.int64(value) * BUCKETS // ends.domain)
        begin, end = first, first + BUCKETS
        if has_cache:
            group = bucket // of_group if value >= 0 else GROUPS
            cached = ends.cached[attribute, group]
            for word in range(bits.size):
                bits[word] |= cached[word]
            if value < 0:
                continue
            begin, end = first + group * of_group, first + (group + 1) * of_group
        if value < 0:
            mark(bits, ends.low_subscription, ends.low_starts[begin], ends.low_starts[end])
            continue
        at = first + bucket
        mark(bits, ends.low_subscription, ends.low_starts[at + 1], ends.low_starts[end])
        mark(bits, ends.high_subscription, ends.high_starts[begin], ends.high_starts[at])
        for place in range(ends.low_starts[at], ends.low_starts[at + 1]):
            if ends.low[place] > value:
                mark(bits, ends.low_subscription, place, place + 1)
        for place in range(ends.high_starts[at], ends.high_starts[at + 1]):
            if ends.high[place] < value:
                mark(bits, ends.high_subscription, place, place + 1)
    used = 0
    for word in range(bits.size):
        left = ~bits[word]
        while left != np.uint64(0):
            subscription = word * 64 + lowest_bit(left)
            left &= left - np.uint64(1)
            if subscription < ends.subscriptions:
                found[used] = subscription
                used += 1
    return used


def match_events(ends: Ends, values: Int32s) -> int:
    """Match the events `values[attribute, event]` one by one; return the number of matches."""
    bits = np.empty(-(-ends.subscriptions // 64), np.uint64)
    found = np.empty(ends.subscriptions, np.int32)
    by_event = np.ascontiguousarray(values.T)
    return sum(int(match_one(ends, event, bits, found)) for event in by_event)


def nbytes(ends: Ends) -> int:
    """Bytes of the arrays."""
    return sum(field.nbytes for field in ends if isinstance(field, np.ndarray))
