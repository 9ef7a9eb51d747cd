"""Columns of one value: the scores of subscriptions that were all given the same one."""

from functools import lru_cache

import numpy as np
import pyarrow as pa

from tocsin.tuning import TUNING


class ConstantColumn:
    """Columns of one value, as slices of arrays that are kept: filling a new one costs more than finding a match."""

    def __init__(self, value: float) -> None:
        self._value = value
        self._kept: dict[int, pa.Array] = {}
        """By the bits of their lengths: a pickled slice takes the whole array along, at most twice its length."""

    def of_length(self, length: int) -> pa.Array | pa.ChunkedArray:
        """Return the value `length` times; a column that is longer than any that is kept repeats the longest."""
        most = TUNING.max_constant_column
        if length > most:
            whole, rest = divmod(length, most)
            return pa.chunked_array([self._slice(most)] * whole + ([self._slice(rest)] if rest else []))
        return self._slice(length)

    def _slice(self, length: int) -> pa.Array:
        bits = length.bit_length()
        if bits not in self._kept:
            self._kept[bits] = pa.array(np.full(1 << bits, self._value))
        return self._kept[bits].slice(0, length)


@lru_cache(maxsize=2)
def constant_column(value: float) -> ConstantColumn:
    """Return the kept columns of a value, for all indexes of this process."""
    return ConstantColumn(value)
