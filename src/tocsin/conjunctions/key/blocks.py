"""Kernels that every phase 2 matcher shares, and the loops of Brute Force and Count.

A *term* is a predicate id p that must hold, or ~p (negative) for a predicate that must not. A conjunction is a slice of
terms. `held` lists the predicates that hold for each event.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]

# An event is one bit of a positive int64, so that a block of events is matched by AND.
BLOCK = 63
# 2**k % 67 differs for each k below 66: the number of a single bit by one table look-up.
BIT_NUMBERS = np.zeros(67, np.int64)
for _bit in range(BLOCK):
    BIT_NUMBERS[2**_bit % 67] = _bit


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
        if len(keys) > 24:
            keys.sort()
        else:
            for i in range(1, len(keys)):
                key, j = keys[i], i - 1
                while j >= 0 and keys[j] > key:
                    keys[j + 1] = keys[j]
                    j -= 1
                keys[j + 1] = key
        for i in range(len(keys)):
            if i > 0 and keys[i] == keys[i - 1]:
                continue
            key = keys[i]
            ordered[filled] = by_rank[key] if key < predicates else ~by_rank[2 * predicates - 1 - key]
            filled += 1
        new_offsets[c + 1] = filled
    return new_offsets, ordered[:filled].copy()


@kernel
def doubled32(array: Int32s) -> Int32s:
    """A copy of twice the length, the second half not set."""
    longer = np.empty(2 * len(array) + 16, np.int32)
    longer[: len(array)] = array
    return longer


@kernel
def doubled64(array: Int64s) -> Int64s:
    """A copy of twice the length, the second half not set."""
    longer = np.empty(2 * len(array) + 16, np.int64)
    longer[: len(array)] = array
    return longer


@kernel
def enter_block(
    held_offsets: Int64s, held: Int32s, first: int, last: int, masks: Int64s, touched: Int32s
) -> tuple[Int32s, int]:
    """Set in masks[p] the bits of the events first..last that hold p; return the distinct p and their number.

    The last mask belongs to no predicate: it stands for "always" and gets every event of the block.
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
    """The number of events in a mask."""
    bits = 0
    while mask:
        mask &= mask - 1
        bits += 1
    return bits


@kernel
def spread(
    conjunctions: Int32s, masks: Int64s, count: int, first: int, last: int, offsets: Int64s, found: Int32s
) -> Int32s:
    """Append the pairs (conjunction, events) of a block to the CSR (offsets, found), event by event."""
    here = offsets[first]
    for event in range(first, last):
        offsets[event + 1] = 0
    for i in range(count):
        m = masks[i]
        while m:
            low = m & -m
            offsets[first + 1 + BIT_NUMBERS[low % 67]] += 1
            m ^= low
    at = np.empty(last - first, np.int64)
    for event in range(first, last):
        at[event - first] = here
        here += offsets[event + 1]
        offsets[event + 1] = here
    while here > len(found):
        found = doubled32(found)
    if last == first + 1:
        found[offsets[first] : here] = conjunctions[:count]
        return found
    for i in range(count):
        m = masks[i]
        while m:
            low = m & -m
            event = BIT_NUMBERS[low % 67]
            found[at[event]] = conjunctions[i]
            at[event] += 1
            m ^= low
    return found


@kernel
def match_brute_force(
    held_offsets: Int64s, held: Int32s, ids: Int32s, offsets: Int64s, terms: Int32s, occurs: Int8s
) -> tuple[Int64s, Int32s]:
    """Probe the occurrence table for each term of each conjunction, failing at the first that is wrong."""
    events = len(held_offsets) - 1
    found_offsets = np.zeros(events + 1, np.int64)
    found = np.empty(64, np.int32)
    filled = 0
    for event in range(events):
        for i in range(held_offsets[event], held_offsets[event + 1]):
            if held[i] < len(occurs):
                occurs[held[i]] = 1
        # Room is made outside the inner loop: an array that may be replaced within it cannot stay in registers.
        for chunk in range(0, len(ids), 1024):
            while filled + 1024 > len(found):
                found = doubled32(found)
            for c in range(chunk, min(chunk + 1024, len(ids))):
                holds = 1
                for i in range(offsets[c], offsets[c + 1]):
                    t = terms[i]
                    if (occurs[t] if t >= 0 else 1 - occurs[~t]) == 0:
                        holds = 0
                        break
                found[filled] = ids[c]
                filled += holds
        for i in range(held_offsets[event], held_offsets[event + 1]):
            if held[i] < len(occurs):
                occurs[held[i]] = 0
        found_offsets[event + 1] = filled
    return found_offsets, found[:filled].copy()


@kernel
def invert(offsets: Int64s, terms: Int32s, predicates: int, forbidden: bool) -> tuple[Int64s, Int32s]:
    """The slices that contain each predicate as a required (or else as a forbidden) term: the profile directory."""
    starts = np.zeros(predicates + 1, np.int64)
    for t in terms:
        if (t < 0) == forbidden:
            starts[(~t if forbidden else t) + 1] += 1
    for p in range(predicates):
        starts[p + 1] += starts[p]
    at = starts[:-1].copy()
    postings = np.empty(starts[-1], np.int32)
    for c in range(len(offsets) - 1):
        for i in range(offsets[c], offsets[c + 1]):
            t = terms[i]
            if (t < 0) == forbidden:
                p = ~t if forbidden else t
                postings[at[p]] = c
                at[p] += 1
    return starts, postings


class Directory(NamedTuple):
    """Count's arrays: the conjunctions under each required and each forbidden predicate, and TOTAL.

    `free` are the conjunctions whose TOTAL is 0.
    """

    starts: Int64s
    postings: Int32s
    forbidden_starts: Int64s
    forbidden_postings: Int32s
    total: Int32s
    free: Int32s


@kernel
def match_count(
    held_offsets: Int64s,
    held: Int32s,
    directory: Directory,
    ids: Int32s,
    found_counts: Int64s,
    epoch: int,
) -> tuple[Int64s, Int32s, int]:
    """Count the required terms that hold, per conjunction, and report it when its count reaches TOTAL.

    An entry of FOUND is (number of the event) << 32 | count; an entry of an older event counts as 0. A forbidden term
    that holds sets the count so high that it never equals TOTAL.
    """
    events = len(held_offsets) - 1
    starts, postings, forbidden_starts, forbidden_postings, total, free = directory
    predicates = len(starts) - 1
    ruled_out = 1 << 31
    found_offsets = np.zeros(events + 1, np.int64)
    found = np.empty(64, np.int32)
    filled = 0
    candidates = 0
    for event in range(events):
        now = (epoch + event) << 32
        if len(forbidden_postings):
            for i in range(held_offsets[event], held_offsets[event + 1]):
                p = held[i]
                if p < predicates:
                    for j in range(forbidden_starts[p], forbidden_starts[p + 1]):
                        found_counts[forbidden_postings[j]] = now | ruled_out
        for i in range(held_offsets[event], held_offsets[event + 1]):
            p = held[i]
            if p >= predicates:
                continue
            while filled + starts[p + 1] - starts[p] > len(found):
                found = doubled32(found)
            for j in range(starts[p], starts[p + 1]):
                c = postings[j]
                count = found_counts[c]
                if count < now:
                    count = now
                    candidates += 1
                count += 1
                found_counts[c] = count
                if count - now == total[c]:
                    found[filled] = ids[c]
                    filled += 1
        candidates += len(free)
        while filled + len(free) > len(found):
            found = doubled32(found)
        for c in free:
            if found_counts[c] < now:
                found[filled] = ids[c]
                filled += 1
        found_offsets[event + 1] = filled
    return found_offsets, found[:filled].copy(), candidates
