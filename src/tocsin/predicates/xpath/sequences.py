"""A table of distinct integer sequences with dense ids, 8 to 16 bytes over the sequences themselves."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tocsin.predicates.xpath.kernels.step_sequences import rehash_sequences, sequence_slot

Ints = npt.NDArray[np.int32]


class SequenceTable:
    """Give equal sequences of integers the same dense id.

    >>> table = SequenceTable()
    >>> table.intern([4, 2]), table.intern([7]), table.intern([4, 2])
    (0, 1, 0)
    >>> table[1].tolist()
    [7]
    """

    def __init__(self) -> None:
        self.count = 0
        self.data: Ints = np.empty(64, dtype=np.int32)
        self.offsets: Ints = np.zeros(17, dtype=np.int32)
        self.slots: Ints = np.full(32, -1, dtype=np.int32)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Ints:
        return self.data[self.offsets[index] : self.offsets[index + 1]]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.data.nbytes + self.offsets.nbytes + self.slots.nbytes

    def intern(self, sequence: Sequence[int]) -> int:
        """Return the id of a sequence, new or known, in time linear in its length."""
        if len(self.slots) == 0:
            self._rehash(1 << (self.count * 3 // 2 + 1).bit_length())
        values = np.array(sequence, dtype=np.int32)
        slot = sequence_slot(self.data, self.offsets, self.slots, values)
        if self.slots[slot] >= 0:
            return int(self.slots[slot])
        start = int(self.offsets[self.count])
        stop = start + len(values)
        self.data = _grown(self.data, stop)
        self.offsets = _grown(self.offsets, self.count + 2)
        self.data[start:stop] = values
        self.offsets[self.count + 1] = stop
        self.slots[slot] = self.count
        self.count += 1
        if 3 * self.count > 2 * len(self.slots):
            self._rehash(2 * len(self.slots))
        return self.count - 1

    @classmethod
    def from_arrays(cls, data: Ints, offsets: Ints) -> "SequenceTable":
        """The table of these sequences, all distinct, without copying; the hash table waits for the next one."""
        table = cls()
        table.count, table.data, table.offsets = len(offsets) - 1, data, offsets
        table.slots = np.empty(0, dtype=np.int32)
        return table

    def shrink(self) -> None:
        """Give back the room kept for growth; the hash table waits for the next sequence."""
        self.data = self.data[: self.offsets[self.count]].copy()
        self.offsets = self.offsets[: self.count + 1].copy()
        self.slots = np.empty(0, dtype=np.int32)

    def check(self) -> None:
        """Assert the invariants."""
        assert (np.diff(self.offsets[: self.count + 1]) >= 0).all(), "offsets ascend"
        if len(self.slots) == 0:
            return
        for i in range(self.count):
            assert self.slots[sequence_slot(self.data, self.offsets, self.slots, self[i])] == i, "each is found"
        assert (self.slots >= 0).sum() == self.count, "no slot holds a stranger"

    def _rehash(self, size: int) -> None:
        self.slots = np.full(size, -1, dtype=np.int32)
        rehash_sequences(self.data, self.offsets, self.count, self.slots)


def _grown(array: Ints, needed: int) -> Ints:
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, len(array) + len(array) // 2), dtype=np.int32)
    larger[: len(array)] = array
    return larger
