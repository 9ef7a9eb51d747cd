"""Short codes: 16 bits for a code, so that many are compared at once."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tocsin.conjunctions.coded import Conjunctions
from tocsin.conjunctions.pairs.kernels import RULER
from tocsin.predicates.ranges.quantize import LAST, ShortCodes

Int32 = npt.NDArray[np.int32]

_CROWD = 16
"""So many ranges, and so many times the mean, may end at one short code."""


def shifts_by_rank(last_code: Int32) -> Int32:
    """How far the codes of each column must be shifted to be short."""
    shift = np.zeros(last_code.size, np.int32)
    while (too_long := (last_code >> shift) + 1 > LAST).any():
        shift[too_long] += 1
    return shift


def shorten(conjunctions: Conjunctions, short: Mapping[int, ShortCodes]) -> tuple[Conjunctions, Int32]:
    """The conjunctions with their ranges in short codes less one, and the shift of each column.

    Columns that are not in `short` have the code shifted until it is short: (code >> shift) + 1. The last shift is that
    of ANYTHING.

    >>> nothing = np.empty(0, np.int32)
    >>> low, high = np.array([-1, 70_000], np.int32), np.array([-1, 99_999], np.int32)
    >>> one, column = np.array([0, 0], np.int32), np.array([0, 0], np.int32)
    >>> said = Conjunctions(1, np.array([99_999], np.int32), one, column, low, high, *[nothing] * 4)
    >>> shorter, shift = shorten(said, {})
    >>> shorter.low.tolist(), shorter.high.tolist(), shorter.last_code.tolist(), shift.tolist()
    ([-1, 35000], [-1, 49999], [49999], [1, 0])
    """
    last = np.append(conjunctions.last_code, np.int32(0))
    shift = shifts_by_rank(last)
    last_short = last >> shift
    low, high = conjunctions.low >> shift[conjunctions.column], conjunctions.high >> shift[conjunctions.column]
    for column, codes in short.items():
        rows = np.flatnonzero(conjunctions.column == column)
        low[rows] = codes.lowest[conjunctions.low[rows] + 1].astype(np.int32) - 1
        high[rows] = codes.highest[conjunctions.high[rows] + 1].astype(np.int32) - 1
        shift[column] = RULER
        last_short[column] = LAST - 1
    return replace(conjunctions, low=low, high=high, last_code=last_short[:-1]), shift


def crowded(conjunctions: Conjunctions, column: int, short: ShortCodes) -> bool:
    """Whether many ranges of a column end at the same short code: an event there leaves all of them to be decided."""
    rows = conjunctions.column == column
    ends = np.concatenate([short.lowest[conjunctions.low[rows] + 1], short.highest[conjunctions.high[rows] + 1]])
    return bool(np.bincount(ends, minlength=1).max() > _CROWD * (1 + ends.size / LAST))
