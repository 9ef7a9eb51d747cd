"""Give values that do not fit into 64 bits a code each, and labels in their order."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from tocsin.arrays import Int64s

_STRIDE = 1 << 32
"""The gap between a label and that of a value beyond either end."""
_EDGE = 1 << 61
"""After a relabelling, labels lie evenly between -_EDGE and _EDGE."""
_BLOCK = 1024
"""Values in a block of the sorted list; a block of twice as many is split."""


class OrderedDictionary:
    """Codes for values of one kind, in order of arrival, and int64 labels in the order of the values.

    A label is set between the labels of its neighbours, so that adding a value changes no other label. Only when no
    number is left between two neighbours do all values get new labels (`relabellings` counts that). `intern` costs
    O(log n) and moves at most a block of 1,024 values.

    >>> words = OrderedDictionary()
    >>> words.intern("pear"), words.intern("apple"), words.intern("pear")
    (0, 1, 0)
    >>> bool(words.labels[1] < words.labels[0])
    True
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.relabellings = 0
        self._last = 0
        self._codes: dict[Any, int] = {}
        self._blocks: list[list[Any]] = []
        self._highest: list[Any] = []
        self._labels: Int64s = np.zeros(16, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> Int64s:
        """The label of each code."""
        return self._labels[: max(1, len(self.values))]

    def code(self, value: object) -> int | None:
        """Return the code of a value, or None if it has none. Cost: O(1)."""
        return self._codes.get(value)

    def intern(self, value: Any) -> int:
        """Return the code of a value, a new one if it has none."""
        code = self._codes.get(value)
        return self._add(value) if code is None else code

    def intern_all(self, values: Iterable[Any]) -> Int64s:
        """Return the codes of many values. Cost: one sort if many of them are new."""
        values = list(values)
        new = list(dict.fromkeys(value for value in values if value not in self._codes))
        if len(new) > _BLOCK + len(self) // 16:
            for value in new:
                self._register(value)
            self._relabel(sorted(self.values))
        else:
            for value in new:
                self._add(value)
        return np.fromiter((self._codes[value] for value in values), dtype=np.int64, count=len(values))

    def floor(self, value: Any) -> tuple[int | None, bool]:
        """Return the label of the greatest value not above `value`, None if all are above; and whether it is equal."""
        code = self._codes.get(value)
        if code is not None:
            return int(self._labels[code]), True
        below = self._neighbours(value)[0]
        return (None if below is None else int(self._labels[self._codes[below[0]]])), False

    def _register(self, value: Any) -> int:
        code = len(self.values)
        self._codes[value] = code
        self.values.append(value)
        if code >= self._labels.size:
            self._labels = np.concatenate([self._labels, np.zeros(self._labels.size // 4 + 16, dtype=np.int64)])
        return code

    def _add(self, value: Any) -> int:
        below, above = self._neighbours(value)
        code = self._register(value)
        low = None if below is None else int(self._labels[self._codes[below[0]]])
        high = None if above is None else int(self._labels[self._codes[above[0]]])
        label = self._label_between(low, high)
        self._labels[code] = self._last = label
        self._insert(value)
        if label in (low, high) or abs(label) > 2 * _EDGE - _STRIDE:
            self._relabel([value for block in self._blocks for value in block])
        return code

    def _label_between(self, low: int | None, high: int | None) -> int:
        """Return a label between two; near the last label that was given if it is one of them, for sorted arrivals."""
        if low is None or high is None:
            return 0 if low is None and high is None else low + _STRIDE if low is not None else (high or 0) - _STRIDE
        step = min(_STRIDE, (high - low) // 2)
        return low + step if low == self._last else high - step if high == self._last else (low + high) // 2

    def _neighbours(self, value: Any) -> tuple[tuple[Any] | None, tuple[Any] | None]:
        """Return the values next to one that is absent, each in a tuple of its own."""
        at = bisect_left(self._highest, value)
        if at == len(self._blocks):
            return ((self._highest[-1],) if self._highest else None), None
        block = self._blocks[at]
        inside = bisect_right(block, value)
        if inside > 0:
            return (block[inside - 1],), (block[inside],)
        return ((self._highest[at - 1],) if at > 0 else None), (block[0],)

    def _insert(self, value: Any) -> None:
        if not self._blocks:
            self._blocks, self._highest = [[value]], [value]
            return
        at = min(bisect_left(self._highest, value), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block, value)
        self._highest[at] = block[-1]
        if len(block) > 2 * _BLOCK:
            self._blocks[at : at + 1] = [block[:_BLOCK], block[_BLOCK:]]
            self._highest[at : at + 1] = [block[_BLOCK - 1], block[-1]]

    def _relabel(self, ordered: list[Any]) -> None:
        self._blocks = [ordered[at : at + _BLOCK] for at in range(0, len(ordered), _BLOCK)]
        self._highest = [block[-1] for block in self._blocks]
        step = 2 * _EDGE // max(1, len(ordered))
        codes = np.fromiter((self._codes[value] for value in ordered), dtype=np.int64, count=len(ordered))
        self._labels[codes] = (np.arange(len(ordered), dtype=np.int64) - len(ordered) // 2) * step
        self.relabellings += 1

    def check(self) -> None:
        """Assert the invariants."""
        ordered = [value for block in self._blocks for value in block]
        assert ordered == sorted(self.values), "the blocks hold every value once, in order"
        assert self._highest == [block[-1] for block in self._blocks], "searches start at the highest of each block"
        labels = [int(self._labels[self._codes[value]]) for value in ordered]
        assert all(a < b for a, b in pairwise(labels)), "labels are in the order of the values"
        assert all(self.values[code] == value for value, code in self._codes.items()), "a code leads to its value"
