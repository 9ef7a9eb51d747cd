"""Kernels that find equal and covered conjunctions."""

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_LOW_40_BITS = (1 << 40) - 1


@kernel
def group_slices(offsets: Int64s, terms: Int32s) -> tuple[Int32s, int]:
    """Number the distinct slices in order of first appearance: the number of each slice, and how many there are.

    An open-addressing table holds one slice of each group; slices with the same place in it are compared term by term.
    """
    slices = len(offsets) - 1
    size = 16
    while size < 2 * slices:
        size *= 2
    table = np.full(size, -1, np.int32)
    group = np.empty(slices, np.int32)
    groups = 0
    for c in range(slices):
        start, stop = offsets[c], offsets[c + 1]
        h = stop - start
        for i in range(start, stop):
            h = ((h ^ (np.int64(terms[i]) & _LOW_40_BITS)) * 8388593) & _LOW_40_BITS
            h ^= h >> 19
        place = h & (size - 1)
        while True:
            other = table[place]
            if other < 0:
                table[place] = c
                group[c] = groups
                groups += 1
                break
            same = offsets[other + 1] - offsets[other] == stop - start
            i = 0
            while same and i < stop - start:
                same = terms[offsets[other] + i] == terms[start + i]
                i += 1
            if same:
                group[c] = group[other]
                break
            place = (place + 1) & (size - 1)
    return group, groups


@kernel
def keep_uncovered(subscription_offsets: Int64s, offsets: Int64s, terms: Int32s, most: int) -> Bools:
    """Of the conjunctions of each subscription, drop those whose terms include all terms of another.

    Slices are in one order. Of equal ones the first stays. Subscriptions with more than `most` are left alone.
    """
    keep = np.ones(len(offsets) - 1, np.bool_)
    signature = np.zeros(len(offsets) - 1, np.int64)
    for c in range(len(offsets) - 1):
        for i in range(offsets[c], offsets[c + 1]):
            signature[c] |= 1 << (np.int64(terms[i]) % 63)
    for s in range(len(subscription_offsets) - 1):
        start, stop = subscription_offsets[s], subscription_offsets[s + 1]
        if stop - start > most:
            continue
        for small in range(start, stop):
            if not keep[small]:
                continue
            length = offsets[small + 1] - offsets[small]
            for large in range(start, stop):
                longer = offsets[large + 1] - offsets[large] - length
                if longer < 0 or (longer == 0 and large <= small) or not keep[large]:
                    continue
                if signature[small] & ~signature[large]:
                    continue
                i, j = offsets[small], offsets[large]
                while i < offsets[small + 1] and j < offsets[large + 1]:
                    if terms[i] == terms[j]:
                        i += 1
                    j += 1
                if i == offsets[small + 1]:
                    keep[large] = False
    return keep
