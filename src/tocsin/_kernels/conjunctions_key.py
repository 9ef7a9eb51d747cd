"""Kernels of Key: conjunctions filed under one of their predicates, the rest of their terms beside them.

A record of a conjunction is ``id, n, term 1 … term n``; the records of one key lie side by side, so that probing a key
is one pass over memory. The last list belongs to no predicate: conjunctions without a required term, always examined.
"""

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.conjunctions import BLOCK, count_bits, doubled32, doubled64, enter_block, leave_block, spread

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@kernel
def file_under_keys(
    ids: Int32s, offsets: Int64s, terms: Int32s, keys: Int32s, predicates: int
) -> tuple[Int64s, Int32s]:
    """Lay out the record of each slice of (ordered, distinct) terms under its key; the key itself is left out."""
    starts = np.zeros(predicates + 2, np.int64)
    for c in range(len(ids)):
        keyed = 1 if keys[c] < predicates else 0
        starts[keys[c] + 1] += 2 + offsets[c + 1] - offsets[c] - keyed
    for p in range(predicates + 1):
        starts[p + 1] += starts[p]
    at = starts[:-1].copy()
    records = np.empty(starts[-1], np.int32)
    for c in range(len(ids)):
        head = at[keys[c]]
        to = head + 2
        for i in range(offsets[c], offsets[c + 1]):
            if terms[i] != keys[c]:
                records[to] = terms[i]
                to += 1
        records[head] = ids[c]
        records[head + 1] = to - head - 2
        at[keys[c]] = to
    return starts, records


@kernel
def match_keys(
    held_offsets: Int64s, held: Int32s, starts: Int64s, records: Int32s, masks: Int64s
) -> tuple[Int64s, Int32s, int]:
    """Match blocks of events: for each key that holds, AND the events of the key with those of the other terms."""
    events = len(held_offsets) - 1
    offsets = np.zeros(events + 1, np.int64)
    found = np.empty(64, np.int32)
    touched = np.empty(256, np.int32)
    conjunctions = np.empty(256, np.int32)
    where = np.empty(256, np.int64)
    candidates = 0
    for first in range(0, events, BLOCK):
        last = min(first + BLOCK, events)
        touched, distinct = enter_block(held_offsets, held, first, last, masks, touched)
        count = 0
        for k in range(distinct + 1):
            key = touched[k] if k < distinct else len(masks) - 1
            position, end = starts[key], starts[key + 1]
            if position == end:
                continue
            of_key = masks[key]
            listed = 0
            while position < end:
                m = of_key
                following = position + 2 + records[position + 1]
                for i in range(position + 2, following):
                    t = records[i]
                    m &= masks[t] if t >= 0 else ~masks[~t]
                    if m == 0:
                        break
                if m != 0:
                    if count == len(conjunctions):
                        conjunctions = doubled32(conjunctions)
                        where = doubled64(where)
                    conjunctions[count] = records[position]
                    where[count] = m
                    count += 1
                listed += 1
                position = following
            candidates += listed * count_bits(of_key)
        leave_block(touched, distinct, masks)
        found = spread(conjunctions, where, count, first, last, offsets, found)
    return offsets, found[: offsets[-1]].copy(), candidates


@kernel
def expected_candidates(offsets: Int64s, terms: Int32s, keys: Int32s, frequency: Floats) -> tuple[float, float]:
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
