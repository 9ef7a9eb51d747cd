"""Distinct integer sequences in one array, found by an open-addressing hash table."""

import numpy as np
import numpy.typing as npt

from tocsin._compile import kernel

Ints = npt.NDArray[np.int32]


@kernel
def sequence_slot(data: Ints, offsets: Ints, slots: Ints, sequence: Ints) -> int:
    """The slot that holds `sequence`, or the free slot where it belongs. `len(slots)` is a power of two."""
    mask = len(slots) - 1
    code = 2166136261
    for value in sequence:
        code = ((code ^ (int(value) & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    slot = (code ^ (code >> 15)) & mask
    while slots[slot] >= 0:
        start, stop = offsets[slots[slot]], offsets[slots[slot] + 1]
        if stop - start == len(sequence):
            same = True
            for i in range(len(sequence)):
                if data[start + i] != sequence[i]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + 1) & mask
    return slot


@kernel
def rehash_sequences(data: Ints, offsets: Ints, count: int, slots: Ints) -> None:
    """Enter the first `count` sequences, all distinct, into the empty table `slots`."""
    for i in range(count):
        slots[sequence_slot(data, offsets, slots, data[offsets[i] : offsets[i + 1]])] = i
