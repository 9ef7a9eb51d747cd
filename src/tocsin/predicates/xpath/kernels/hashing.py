"""Hash tables with open addressing, and arrays that grow."""

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s, UInt8s

FNV_PRIME = 16777619
"""The multiplier of the 32-bit hash FNV-1a."""
LOW_32_BITS = 0xFFFFFFFF


@kernel
def hash_byte(code: int, byte: int) -> int:
    """Continue the 32-bit hash `code` by one byte."""
    return ((code ^ byte) * FNV_PRIME) & LOW_32_BITS


@kernel
def hash_bytes(data: UInt8s, start: int, stop: int, code: int) -> int:
    """Continue the 32-bit hash `code` over data[start:stop]."""
    for i in range(start, stop):
        code = hash_byte(code, int(data[i]))
    return code


@kernel
def key_slot(keys: Int64s, slots: Int32s, key: int, shift: int) -> int:
    """Return the slot of a row with ``keys[row] >> shift == key``, or the free slot (-1) where its row belongs."""
    mask = len(slots) - 1
    slot = ((key ^ (key >> 17)) * 40503) & mask
    while slots[slot] >= 0 and keys[slots[slot]] >> shift != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _enter_keys(keys: Int64s, slots: Int32s, shift: int) -> None:
    for row in range(len(keys)):
        slot = key_slot(keys, slots, keys[row] >> shift, shift)
        if slots[slot] < 0:
            slots[slot] = row


def hash_table(keys: Int64s, shift: int = 0) -> Int32s:
    """Return the slots that `key_slot` searches: for each distinct ``key >> shift``, the first row that has it.

    The number of slots is a power of two and more than that of the keys, so that a search meets a free one.
    """
    slots = np.full(1 << (len(keys) * 3 // 2).bit_length(), -1, dtype=np.int32)
    _enter_keys(keys, slots, shift)
    return slots


@kernel
def with_room(out: Int32s, used: int, more: int) -> Int32s:
    """Return `out`, or a larger copy of its first `used` entries, with room for `more`."""
    if used + more <= len(out):
        return out
    larger = np.empty(2 * len(out) + more, dtype=np.int32)
    for place in range(used):
        larger[place] = out[place]
    return larger
