"""The types of arrays, and two shapes of data in arrays that are used everywhere."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.forks import cached

Int8s = npt.NDArray[np.int8]
Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt8s = npt.NDArray[np.uint8]
UInt16s = npt.NDArray[np.uint16]
UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MANY_PLACES = 256
"""So many strings at once are worth a copy of all strings as one text: 150 ns a string without it, 45 with it. Those
that were asked for before are kept: 25 ns a string, where nearly the same subscriptions match event after event."""
FEW_STRINGS = 4096
"""Of so few strings, 16 at once are worth keeping: 35 of 100 take 2 µs instead of 10. It takes 9 bytes a string."""
FENCED = 32
"""Strings for each one that is kept in Python to find the others by: 2 bytes a string in all."""
MOST_KEPT = 1 << 16
"""Strings that are kept. When there would be more, all are forgotten."""


def reused_memory(size: int) -> Int32s:
    """Return numbers to be filled, in memory of Arrow's pool, which keeps for a while what is freed.

    Memory that is new to the process costs 0.3 ns a number more, when it is first written.
    """
    return np.frombuffer(pa.allocate_buffer(4 * size), np.int32)


@dataclass(frozen=True)
class Ragged:
    """A list of numbers for each event: those of event i are `values[starts[i]:starts[i + 1]]`, ascending."""

    starts: Int64s
    values: Int32s

    def __len__(self) -> int:
        return self.starts.size - 1

    @classmethod
    def of_table(cls, table: Bools) -> "Ragged":
        """Return the lists of a truth table with a row for each event and a column for each number."""
        starts = np.concatenate([[0], np.cumsum(table.sum(axis=1))])
        return cls(starts.astype(np.int64), np.nonzero(table)[1].astype(np.int32))

    @classmethod
    def side_by_side(cls, parts: Sequence["Ragged"], first_numbers: Sequence[int], events: int) -> "Ragged":
        """Join the lists of several families event by event, numbered from the first number of each family."""
        # Of 166 families on patterns, most have nothing to say about a batch.
        said = [(part, first) for part, first in zip(parts, first_numbers, strict=True) if part.values.size]
        if not said:
            return cls(np.zeros(events + 1, np.int64), np.empty(0, np.int32))
        if len(said) == 1:
            [(part, first)] = said
            return cls(part.starts, part.values + np.int32(first))
        sizes = [np.diff(part.starts) for part, _ in said]
        starts = np.zeros(events + 1, np.int64)
        for size in sizes:
            starts[1:] += size
        np.cumsum(starts, out=starts)
        values = np.empty(int(starts[-1]), np.int32)
        free = starts[:-1].copy()
        for (part, first), size in zip(said, sizes, strict=True):
            shift = np.repeat(free - part.starts[:-1], size)
            values[np.arange(part.values.size) + shift] = part.values + first
            free += size
        return cls(starts, values)


@dataclass(frozen=True)
class Strings:
    """Sorted or unsorted strings in two arrays: string i is `data[offsets[i]:offsets[i + 1]]` in UTF-8."""

    offsets: Int64s
    data: UInt8s

    @classmethod
    def of(cls, strings: Sequence[str]) -> "Strings":
        """Pack Python strings."""
        return cls.of_arrow(pa.array(strings, pa.large_string()))

    @classmethod
    def of_arrow(cls, array: pa.Array) -> "Strings":
        """View an Arrow string array without copying its text; NULL becomes the empty string."""
        array = array.cast(pa.large_string())
        offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
        data = array.buffers()[2]
        return cls(offsets, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, index: int) -> str:
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes().decode()

    def find(self, string: str) -> int | None:
        """Return the place of a string among these, which ascend. O(log n)."""
        # Bytes of UTF-8 have the order of their strings, and memoryviews are the fastest to look into.
        wanted = string.encode(errors="surrogatepass")
        data, offsets = self.data.data, self.offsets.data
        fence = bisect_left(self._fences, wanted)
        low, high = max(fence - 1, 0) * FENCED, min(fence * FENCED, len(self))
        while low < high:
            middle = (low + high) // 2
            if bytes(data[offsets[middle] : offsets[middle + 1]]) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self[low] == string else None

    def at(self, places: Int32s) -> list[str]:
        """Return the strings at some places."""
        many = min(16, MANY_PLACES) if len(self) <= FEW_STRINGS else MANY_PLACES
        if many <= places.size <= MOST_KEPT:
            return self._kept.at(places)
        return self.made(places)

    def made(self, places: Int32s) -> list[str]:
        """Return new strings for some places."""
        starts, ends = self.offsets.take(places).tolist(), self.offsets.take(places + 1).tolist()
        if places.size >= MANY_PLACES and self._as_text is not None:
            text = self._as_text
            return [text[start:end] for start, end in zip(starts, ends, strict=True)]
        data = self.data.data
        return [str(data[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]

    @cached
    def _fences(self) -> list[bytes]:
        """Every `FENCED`th string, among which `find` starts: of a million, 5 steps of 20 are left to be made."""
        data = self.data.data
        starts, ends = self.offsets[:-1:FENCED].tolist(), self.offsets[1::FENCED].tolist()
        return [bytes(data[start:end]) for start, end in zip(starts, ends, strict=True)]

    @cached
    def _kept(self) -> "_KeptStrings":
        return _KeptStrings(self)

    @cached
    def _as_text(self) -> str | None:
        """All strings as one text, if it has a byte for each character; slices of it need no decoding."""
        data = self.data.tobytes()
        return data.decode() if data.isascii() else None

    def arrow(self) -> pa.Array:
        """View as an Arrow array without copying."""
        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(self.offsets), pa.py_buffer(self.data))


class _KeptStrings:
    """Strings that were made before. Threads may use it at once: at worst they make a string twice."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._forget()

    def _forget(self) -> None:
        self._count = 0
        self._made = np.empty(len(self._strings), object), np.zeros(len(self._strings), bool)
        """The strings, and which of them were made before."""

    def at(self, places: Int32s) -> list[str]:
        """Return the strings at some places, at most MOST_KEPT."""
        texts, known = self._made
        there = known[places]
        if not there.all():
            new = places[~there]
            if self._count + new.size > MOST_KEPT:
                self._forget()
                texts, known = self._made
                new = places
            texts[new] = np.array(self._strings.made(new), object)
            # After the texts: another thread takes what is known.
            known[new] = True
            self._count += new.size
        found: list[str] = texts[places].tolist()
        return found
