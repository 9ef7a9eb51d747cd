"""A page of items: a leaf of the tree, or a page of one of the three lists.

It holds columns: one word per item, the keys, the three pointer columns of a leaf, the heads of overflown SidSets, and
at the end of the page all inline entries, one item after the other. A pointer column is stored as runs of equal
pointers, since the items of a leaf point to few list pages.
"""

import struct
from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from tocsin.arrays import Bools, Int64s, UInt16s, UInt32s
from tocsin.papers.pbtree.keys import Key, KeyType
from tocsin.papers.pbtree.pages import HEADER, LEAF, LIST, NO_ENTRIES, fill_page

# A word: number of inline entries; in a leaf, one bit for each list that holds the key; whether the set has overflown.
COUNT, MEMBER_SHIFT, MEMBERS, OVERFLOWN = 0x0FFF, 12, 0x7000, 0x8000
_NO_WORDS = np.empty(0, np.uint16)


@dataclass(slots=True)
class Items:
    """A leaf, with three pointers an item, or a list page, with none. Arrays are replaced, never changed in place."""

    number: int
    kind: int
    which: int = 0
    prev: int = 0
    next: int = 0
    keys: list[Key] = field(default_factory=list)
    words: UInt16s = field(default_factory=lambda: _NO_WORDS)
    heads: list[int] = field(default_factory=list)  # of the overflown items, in their order
    entries: Int64s = field(default_factory=lambda: NO_ENTRIES)
    pointers: UInt32s = field(default_factory=lambda: np.zeros((0, 0), np.uint32))

    @classmethod
    def leaf(cls, number: int) -> "Items":
        """An empty leaf."""
        return cls(number, LEAF, pointers=np.zeros((3, 0), np.uint32))

    @classmethod
    def decode(cls, page: bytes, keys: KeyType) -> "Items":
        _, number, kind, which, count, previous, following, entries, heads = HEADER.unpack_from(page)
        words = np.frombuffer(page, "<u2", count, HEADER.size)
        listed, position = keys.unpack(page, HEADER.size + 2 * count, count)
        pointers = np.zeros((3 if kind == LEAF else 0, count), np.uint32)
        for row in pointers:
            runs = page[position] | page[position + 1] << 8
            starts = struct.unpack_from(f"<{runs}H", page, position + 2)
            targets = struct.unpack_from(f"<{runs}I", page, position + 2 + 2 * runs)
            for start, target in zip(starts, targets, strict=True):
                row[start:] = target
            position += 2 + 6 * runs
        start = len(page) - 8 * entries
        overflown = list(struct.unpack_from(f"<{heads}I", page, start - 4 * heads))
        inline = np.frombuffer(page, "<i8", entries, start)
        return cls(number, kind, which, previous, following, listed, words, overflown, inline, pointers)

    def encode(self, page_size: int, keys: KeyType) -> bytes:
        columns = [self.words.tobytes(), keys.pack(self.keys)]
        for row, changes in zip(self.pointers, self._changes(), strict=True):
            starts = changes.nonzero()[0]
            columns += [len(starts).to_bytes(2, "little"), starts.astype("<u2").tobytes(), row[starts].tobytes()]
        head = HEADER.pack(
            0,
            self.number,
            self.kind,
            self.which,
            len(self.keys),
            self.prev,
            self.next,
            len(self.entries),
            len(self.heads),
        )
        heads = struct.pack(f"<{len(self.heads)}I", *self.heads)
        return fill_page(page_size, head, columns, heads + self.entries.tobytes())

    def _changes(self) -> Bools:
        """Per pointer column, the items where a run starts."""
        changes = np.ones(self.pointers.shape, np.bool_)
        np.not_equal(self.pointers[:, 1:], self.pointers[:, :-1], out=changes[:, 1:])
        return changes

    def sizes(self, keys: KeyType) -> list[int]:
        """Bytes of each item, the pointer runs that start at it included."""
        runs = self._changes().sum(axis=0) if len(self.pointers) else 0
        sizes = 2 + 8 * (self.words & COUNT).astype(np.int64) + 4 * (self.words >= OVERFLOWN) + 6 * runs
        return [keys.size(key) + size for key, size in zip(self.keys, sizes.tolist(), strict=True)]

    def size(self, keys: KeyType) -> int:
        """Bytes of the whole page."""
        runs = int(np.count_nonzero(self._changes())) if len(self.pointers) else 0
        fixed = empty_size(self.kind) + 2 * len(self.keys) + 8 * len(self.entries) + 4 * len(self.heads)
        return fixed + keys.column(self.keys) + 6 * runs

    @property
    def list(self) -> int | None:
        """The list that the page belongs to; None for a leaf."""
        return self.which if self.kind == LIST else None

    def find(self, key: Key) -> tuple[int, bool]:
        """Where `key` is, or would be."""
        i = bisect_left(self.keys, key)
        return i, i < len(self.keys) and self.keys[i] == key

    def start(self, i: int) -> int:
        """Where the inline entries of item `i` start."""
        return int((self.words[:i] & COUNT).sum())

    def inline(self, i: int) -> Int64s:
        """The entries inside item `i`."""
        start = self.start(i)
        return self.entries[start : start + int(self.words[i] & COUNT)]

    def set_inline(self, i: int, entries: Int64s) -> None:
        """Replace the entries inside item `i`."""
        start = self.start(i)
        self.entries = np.concatenate(
            [self.entries[:start], entries, self.entries[start + int(self.words[i] & COUNT) :]]
        )
        self._set_word(i, COUNT, len(entries))

    def _set_word(self, i: int, mask: int, bits: int) -> None:
        self.words = self.words.copy()
        self.words[i] = (int(self.words[i]) & ~mask) | bits

    def head(self, i: int) -> int:
        """The first overflow page of item `i`; 0 if its set has not overflown."""
        return self.heads[self._heads_before(i)] if self.words[i] & OVERFLOWN else 0

    def set_head(self, i: int, number: int) -> None:
        """Let item `i` start its overflow chain at page `number`; 0 for none."""
        at = self._heads_before(i)
        self.heads[at : at + bool(self.words[i] & OVERFLOWN)] = [number] if number else []
        self._set_word(i, OVERFLOWN, OVERFLOWN if number else 0)

    def _heads_before(self, i: int) -> int:
        return int(np.count_nonzero(self.words[:i] & OVERFLOWN)) if self.heads else 0

    def is_empty(self, i: int) -> bool:
        """Whether the SidSet of item `i` is empty."""
        return not self.words[i] & (COUNT | OVERFLOWN)

    def members(self, i: int) -> int:
        """The lists that hold the key of leaf item `i`, a bit each."""
        return int(self.words[i] & MEMBERS) >> MEMBER_SHIFT

    def set_members(self, i: int, members: int) -> None:
        """Record which lists hold the key of leaf item `i`."""
        self._set_word(i, MEMBERS, members << MEMBER_SHIFT)

    def insert(self, i: int, key: Key, pointers: tuple[int, ...] = ()) -> None:
        """Make room for a new item with an empty SidSet."""
        self.keys.insert(i, key)
        self.words = np.concatenate([self.words[:i], np.zeros(1, np.uint16), self.words[i:]])
        if self.kind == LEAF:
            column = np.array(pointers, np.uint32).reshape(3, 1)
            self.pointers = np.concatenate([self.pointers[:, :i], column, self.pointers[:, i:]], axis=1)

    def remove(self, i: int) -> None:
        """Drop an item whose SidSet is empty."""
        del self.keys[i]
        self.words = np.concatenate([self.words[:i], self.words[i + 1 :]])
        if self.kind == LEAF:
            self.pointers = np.concatenate([self.pointers[:, :i], self.pointers[:, i + 1 :]], axis=1)

    def split(self, at: int, number: int) -> "Items":
        """Move the items from `at` on into a new page `number`, linked behind this one."""
        start, heads = self.start(at), self._heads_before(at)
        right = Items(
            number,
            self.kind,
            self.which,
            self.number,
            self.next,
            self.keys[at:],
            self.words[at:],
            self.heads[heads:],
            self.entries[start:],
            self.pointers[:, at:],
        )
        del self.keys[at:], self.heads[heads:]
        self.words, self.entries, self.pointers = self.words[:at], self.entries[:start], self.pointers[:, :at]
        self.next = number
        return right

    def absorb(self, right: "Items") -> None:
        """Take over all items of the next page."""
        self.keys += right.keys
        self.heads += right.heads
        self.words = np.concatenate([self.words, right.words])
        self.entries = np.concatenate([self.entries, right.entries])
        self.pointers = np.concatenate([self.pointers, right.pointers], axis=1)
        self.next = right.next


def empty_size(kind: int) -> int:
    """Bytes of a page of items without items: the header, and in a leaf the lengths of three pointer columns."""
    return HEADER.size + (6 if kind == LEAF else 0)
