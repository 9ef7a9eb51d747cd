"""Conjunctions in runs of one event: how bitmaps find them, many of the same event in a row.

A pair (event, conjunction) for each match is eight bytes to write, to count and to read again. Where an event has many
matches, most of them are found beside others of the same event: a *run* has the event once and the conjunctions as a
list. From runs to lists by event, each run is copied as a whole.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tocsin._compile import count_bits, fetch, kernel, lowest_bit, put_eight
from tocsin.arrays import Int32s, Int64s, Ragged, UInt8s, UInt64s, reused_memory

RUN_EVENT, RUN_LENGTH = range(2)
"""The columns of a run."""
WRITTEN_AT_ONCE = 4
"""Conjunctions of a word of matches that are written without a branch."""
BEHIND_THE_LAST = 8
"""Numbers that are written behind the last one of a list at most."""
_WORDS_AHEAD = 16
"""Conjunctions are prefetched for a word so far ahead."""
_FEW_OF_A_WORD = 8
"""Up to so many bits of a word are gone through one by one. 175,000 of 300,000 set: 0.82 ns each so, by bytes 0.28."""


def _places_of_bits() -> UInt8s:
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    places = np.argsort(1 - bits, axis=1, kind="stable").astype(np.uint8)
    return places.reshape(-1)


PLACES_OF_BITS = _places_of_bits()
"""Eight entries for each byte: the places of its bits, then those of its zeros."""


class FoundRuns(NamedTuple):
    """The first `used` of `values` are conjunctions; the first `run_count` rows of `runs` say of which events."""

    values: Int32s
    used: int
    runs: Int32s
    run_count: int

    @classmethod
    def with_room(cls, room: int) -> "FoundRuns":
        """Return no runs, with room for so many conjunctions; what is not used costs no memory."""
        return cls(np.empty(room, np.int32), 0, np.empty((room, 2), np.int32), 0)


@kernel
def count_of_runs(runs: Int32s, count: int, starts: Int64s) -> None:
    """Add the lengths of the first `count` runs to `starts[event + 1]`."""
    for run in range(np.uint64(count)):
        starts[np.uint64(runs[run, RUN_EVENT]) + np.uint64(1)] += runs[run, RUN_LENGTH]


@kernel
def append_runs(found: FoundRuns, ends: Int64s, values: Int32s) -> None:
    """Copy each run to the list of its event, which ends at `ends[event]` so far."""
    source, runs = found.values, found.runs
    first = np.uint64(0)
    for run in range(np.uint64(found.run_count)):
        event, length = np.uint64(runs[run, RUN_EVENT]), np.uint64(runs[run, RUN_LENGTH])
        target = np.uint64(ends[event])
        for number in range(length):
            values[target + number] = source[first + number]
        ends[event] += length
        first += length


@kernel
def count_of_bits(bits: UInt64s, starts: Int64s) -> None:
    """Add the bits of each event to `starts[event + 1]`."""
    for event in range(len(bits)):
        total = 0
        for word in bits[event]:
            total += count_bits(word)
        starts[event + 1] += total


@kernel
def append_bits(
    bits: UInt64s, conjunction: Int32s, in_order: bool, places: UInt8s, ends: Int64s, values: Int32s
) -> None:
    """Append the conjunctions of the bits of each event to its list, which ends at `ends[event]` so far.

    `in_order`: conjunction i is that of bit i; then a byte with many bits is looked up in `places`, PLACES_OF_BITS. The
    list of an event is overwritten before its end, but not behind it, by up to BEHIND_THE_LAST of the event before.
    """
    words = min(bits.shape[1], (conjunction.size + 63) >> 6)
    for event in range(len(bits)):
        used = ends[event]
        of_event = bits[event]
        for word in range(words):
            left, at = of_event[np.uint64(word)], word * 64
            after = used + count_bits(left)
            if in_order and after - used > _FEW_OF_A_WORD:
                for first in range(at, at + 64, 8):
                    put_eight(places, left & np.uint64(255), np.int32(first), values, np.uint64(used))
                    used += count_bits(left & np.uint64(255))
                    left >>= np.uint64(8)
                continue
            if not in_order and word + _WORDS_AHEAD < words:
                ahead = np.uint64(word + _WORDS_AHEAD)
                fetch(conjunction, (ahead << np.uint64(6)) + np.uint64(lowest_bit(of_event[ahead]) & 63))
            # The first ones are written even if there are none: whether there are can hardly be predicted.
            while True:
                for step in range(WRITTEN_AT_ONCE):
                    place = at + (lowest_bit(left) & 63)
                    values[np.uint64(used + step)] = place if in_order else conjunction[np.uint64(place)]
                    left &= left - np.uint64(1)
                used += WRITTEN_AT_ONCE
                if used >= after:
                    break
            used = after
        ends[event] = used


@kernel
def _fill_pairs_of_lists(starts: Int64s, values: Int32s, pairs: Int32s) -> None:
    for event in range(starts.size - 1):
        for place in range(np.uint64(starts[event]), np.uint64(starts[event + 1])):
            pairs[place, 0] = event
            pairs[place, 1] = values[place]


def lists_of(parts: Sequence[FoundRuns], bits: UInt64s, conjunction: Int32s, in_order: bool, events: int) -> Ragged:
    """Return the conjunctions of each event: those of runs, then those of bits, if there are any.

    Bit i is that of `conjunction[i]`; `in_order`: that is i.

    >>> found = FoundRuns(np.array([7, 8, 9], np.int32), 3, np.array([[1, 2], [0, 1]], np.int32), 2)
    >>> lists_of([found], np.array([[0], [0b110]], np.uint64), np.arange(64, dtype=np.int32), True, 2)
    Ragged(starts=array([0, 1, 5]), values=array([9, 7, 8, 1, 2], dtype=int32))
    """
    starts = np.zeros(events + 1, np.int64)
    for part in parts:
        count_of_runs(part.runs, part.run_count, starts)
    in_runs = starts[1:].copy()
    count_of_bits(bits, starts)
    np.cumsum(starts, out=starts)
    values = reused_memory(int(starts[-1]) + BEHIND_THE_LAST)
    # Runs come first and are written last: the bits of the event before may be written over them.
    append_bits(bits, conjunction, in_order, PLACES_OF_BITS, starts[:-1] + in_runs, values)
    ends = starts[:-1].copy()
    for part in parts:
        append_runs(part, ends, values)
    return Ragged(starts, values[: starts[-1]])


def pairs_of(lists: Ragged) -> Int32s:
    """Return a pair (event, conjunction) for each conjunction of the lists.

    >>> pairs_of(Ragged(np.array([0, 1, 3]), np.array([7, 8, 9], np.int32))).tolist()
    [[0, 7], [1, 8], [1, 9]]
    """
    pairs = np.empty((lists.values.size, 2), np.int32)
    _fill_pairs_of_lists(lists.starts, lists.values, pairs)
    return pairs
