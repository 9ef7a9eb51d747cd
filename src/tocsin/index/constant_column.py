"""A value again and again: the scores of subscriptions that were all given the same one."""

from functools import lru_cache

import numpy as np
import pyarrow as pa

MOST = (1 << 22) - 1
"""Longer columns are not kept: what is kept of a value has 64 MB at most."""


class Repeated:
    """Columns of one value, as slices of arrays that are kept: to fill a new one costs more than to find a match."""

    def __init__(self, value: float) -> None:
        self._value = value
        self._kept: dict[int, pa.Array] = {}
        """By the bits of their lengths: who pickles a slice takes the whole array along, never twice the column."""

    def column(self, length: int) -> pa.Array:
        """The value so many times."""
        if length > MOST:
            return pa.array(np.full(length, self._value))
        bits = length.bit_length()
        if bits not in self._kept:
            self._kept[bits] = pa.array(np.full(1 << bits, self._value))
        return self._kept[bits].slice(0, length)


@lru_cache(maxsize=2)
def repeated(value: float) -> Repeated:
    """What is kept of a value, for all indexes of this process."""
    return Repeated(value)
