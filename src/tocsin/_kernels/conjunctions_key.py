"""Kernels of Key: conjunctions filed under one of their predicates, the rest of their terms beside them.

The list of a key is a row of *groups*, one for each number n of remaining terms: ``n, count``, then `count` times
``id, term 1 … term n``. Probing a key is one pass over memory with a fixed stride within a group. The last list
belongs to no predicate: conjunctions without a required term, always examined.
"""

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel
from tocsin._kernels.conjunctions import BLOCK, count_bits, doubled32, doubled64, enter_block, leave_block, spread

Int8s = npt.NDArray[np.int8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@kernel
def file_under_keys(
    ids: Int32s, offsets: Int64s, terms: Int32s, keys: Int32s, order: Int64s, predicates: int
) -> tuple[Int64s, Int32s]:
    """Lay out slices of (ordered, distinct) terms in the lists of their keys; the key itself is left out.

    `order` names the slices by key and then by length.
    """
    starts = np.zeros(predicates + 2, np.int64)
    records = np.empty(len(terms) + 3 * len(ids), np.int32)
    end = 0
    group = 0
    for k in range(len(order)):
        c = order[k]
        key = keys[c]
        rest = offsets[c + 1] - offsets[c] - (1 if key < predicates else 0)
        if k == 0 or keys[order[k - 1]] != key or records[group] != rest:
            group = end
            records[group] = rest
            records[group + 1] = 0
            end += 2
        records[group + 1] += 1
        records[end] = ids[c]
        end += 1
        for i in range(offsets[c], offsets[c + 1]):
            if terms[i] != key:
                records[end] = terms[i]
                end += 1
        starts[key + 1] = end
    for p in range(predicates + 1):
        starts[p + 1] = max(starts[p + 1], starts[p])
    return starts, records[:end].copy()


@kernel
def _count_records(starts: Int64s, records: Int32s, key: int) -> int:
    count = 0
    position = starts[key]
    while position < starts[key + 1]:
        count += records[position + 1]
        position += 2 + records[position + 1] * (records[position] + 1)
    return count


@kernel
def match_keys_once(held: Int32s, starts: Int64s, records: Int32s, occurs: Int8s) -> tuple[Int32s, int]:
    """Match one event: for each key that holds, probe the occurrence table for the other terms, two at a time."""
    always = len(occurs)
    candidates = _count_records(starts, records, always)
    for p in held:
        if p < always:
            occurs[p] = 1
            candidates += _count_records(starts, records, p)
    found = np.empty(candidates, np.int32)
    filled = 0
    for k in range(len(held) + 1):
        key = held[k] if k < len(held) else always
        if key > always or (key == always and k < len(held)):
            continue
        position = starts[key]
        while position < starts[key + 1]:
            length, count = records[position], records[position + 1]
            position += 2
            for head in range(position, position + count * (length + 1), length + 1):
                holds = 1
                i = head + 1
                while i < head + length:
                    t, u = records[i], records[i + 1]
                    holds = (occurs[t] if t >= 0 else 1 - occurs[~t]) & (occurs[u] if u >= 0 else 1 - occurs[~u])
                    if holds == 0:
                        break
                    i += 2
                if holds and i == head + length:
                    t = records[i]
                    holds = occurs[t] if t >= 0 else 1 - occurs[~t]
                found[filled] = records[head]
                filled += holds
            position += count * (length + 1)
    for p in held:
        if p < always:
            occurs[p] = 0
    return found[:filled], candidates


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
        filled = 0
        for k in range(distinct + 1):
            key = touched[k] if k < distinct else len(masks) - 1
            of_key = masks[key]
            position = starts[key]
            while position < starts[key + 1]:
                length, count = records[position], records[position + 1]
                position += 2
                while filled + count > len(conjunctions):
                    conjunctions, where = doubled32(conjunctions), doubled64(where)
                for head in range(position, position + count * (length + 1), length + 1):
                    m = of_key
                    for i in range(head + 1, head + 1 + length):
                        t = records[i]
                        m &= masks[t] if t >= 0 else ~masks[~t]
                        if m == 0:
                            break
                    conjunctions[filled] = records[head]
                    where[filled] = m
                    filled += m != 0
                position += count * (length + 1)
                candidates += count * count_bits(of_key)
        leave_block(touched, distinct, masks)
        found = spread(conjunctions, where, filled, first, last, offsets, found)
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
