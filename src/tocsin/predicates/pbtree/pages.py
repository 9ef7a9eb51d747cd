"""What a page holds, as bytes and as an object.

Every page starts with one header: checksum, its own number, kind, level (of an inner page; the list's number in a list
page), number of keys, the two neighbours, the numbers of inline entries and of overflow heads. Page 0 is the meta page.

An *entry* is one predicate in a SidSet: ``sid * 4 + tag``, the tag being the operator, so that a set sorted by entry is
sorted by sid and knows which of its predicates is to be deleted. A page of items (a leaf, or a page of one of the
lists) holds columns: one word per key (number of inline entries, and in a leaf which lists hold the key), the keys,
the three pointer columns of a leaf, the heads of overflown SidSets, and at the end of the page all inline entries, one
item after the other. A pointer column is stored as runs of equal pointers, since the items of a leaf point to few list
pages.
"""

import itertools
import struct
import zlib
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tocsin.errors import StorageError
from tocsin.predicates.pbtree.keys import Key, KeyType

Int64Array: TypeAlias = npt.NDArray[np.int64]

HEADER = struct.Struct("<IIBBHIIHH")
META, INNER, LEAF, LIST, OVERFLOW, FREE = range(1, 7)
KIND_NAMES = ("", "meta", "inner", "leaf", "list", "overflow", "free")

# A word per item: inline entries in the low 13 bits (all ones: the set has overflown), then one bit per list.
OVERFLOWN, MEMBER_SHIFT = 0x1FFF, 13
NO_ENTRIES = np.empty(0, np.int64)


def seal(page: bytes) -> bytes:
    """The page with its checksum, as it is written."""
    body = memoryview(page)[4:]
    return zlib.crc32(body).to_bytes(4, "little") + body


def verify(page: bytes, number: int, where: str) -> None:
    """Refuse a page that is short, damaged, or another page."""
    if len(page) < HEADER.size or int.from_bytes(page[:4], "little") != zlib.crc32(memoryview(page)[4:]):
        raise StorageError(f"page {number} of {where} is damaged", "Restore the file from a copy, or build it again")
    if int.from_bytes(page[4:8], "little") != number:
        raise StorageError(f"page {number} of {where} is another page", "Restore the file from a copy")


def kind_of(page: bytes) -> int:
    return page[8]


def inline_limit(page_size: int) -> int:
    """Entries that a SidSet keeps in its item: up to half a page, so that an overflow page is at least half full."""
    return page_size // 16


def overflow_capacity(page_size: int) -> int:
    return (page_size - HEADER.size) // 8


def _page(page_size: int, head: bytes, columns: list[bytes], tail: bytes = b"") -> bytes:
    body = b"".join([head, *columns])
    return body + bytes(page_size - len(body) - len(tail)) + tail


@dataclass(slots=True)
class Inner:
    """An inner page: child i holds the keys below separator i, child i + 1 those from it on."""

    number: int
    level: int
    keys: list[Key]
    children: list[int]

    @classmethod
    def decode(cls, page: bytes, keys: KeyType) -> "Inner":
        _, number, _, level, count, *_ = HEADER.unpack_from(page)
        separators, end = keys.unpack(page, HEADER.size, count)
        return cls(number, level, separators, list(struct.unpack_from(f"<{count + 1}I", page, end)))

    def encode(self, page_size: int, keys: KeyType) -> bytes:
        head = HEADER.pack(0, self.number, INNER, self.level, len(self.keys), 0, 0, 0, 0)
        children = struct.pack(f"<{len(self.children)}I", *self.children)
        return _page(page_size, head, [keys.pack(self.keys), children])

    def size(self, keys: KeyType) -> int:
        return HEADER.size + 4 + sum(map(keys.size, self.keys)) + 4 * len(self.keys)


@dataclass(slots=True)
class Overflow:
    """A page of an overflown SidSet: entries ascending; the next page of the chain holds smaller ones."""

    number: int
    next: int
    entries: Int64Array

    @classmethod
    def decode(cls, page: bytes) -> "Overflow":
        _, number, _, _, _, _, following, entries, _ = HEADER.unpack_from(page)
        return cls(number, following, np.frombuffer(page, "<i8", entries, len(page) - 8 * entries))

    def encode(self, page_size: int) -> bytes:
        head = HEADER.pack(0, self.number, OVERFLOW, 0, 0, 0, self.next, len(self.entries), 0)
        return _page(page_size, head, [], self.entries.tobytes())


def free_page(number: int, following: int, page_size: int) -> bytes:
    """A page of the free list."""
    return _page(page_size, HEADER.pack(0, number, FREE, 0, 0, 0, following, 0, 0), [])


def next_of(page: bytes) -> int:
    return int(HEADER.unpack_from(page)[6])


def scan(page: bytes) -> tuple[Int64Array, tuple[int, ...], int, int]:
    """All inline entries, all overflow heads, previous and next of a list page, without decoding its items."""
    _, _, _, _, _, previous, following, entries, heads = HEADER.unpack_from(page)
    start = len(page) - 8 * entries
    return (
        np.frombuffer(page, "<i8", entries, start),
        struct.unpack_from(f"<{heads}I", page, start - 4 * heads),
        previous,
        following,
    )


def _no_pointers() -> npt.NDArray[np.uint32]:
    return np.zeros((0, 0), np.uint32)


@dataclass(slots=True)
class Items:
    """A page of items: a leaf (with three pointers an item) or a page of one of the three lists (with none)."""

    number: int
    kind: int
    which: int = 0
    prev: int = 0
    next: int = 0
    keys: list[Key] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    entries: Int64Array = field(default_factory=lambda: NO_ENTRIES)
    pointers: npt.NDArray[np.uint32] = field(default_factory=_no_pointers)

    @classmethod
    def leaf(cls, number: int) -> "Items":
        return cls(number, LEAF, pointers=np.zeros((3, 0), np.uint32))

    @classmethod
    def decode(cls, page: bytes, keys: KeyType) -> "Items":
        _, number, kind, which, count, previous, following, entries, heads = HEADER.unpack_from(page)
        words = struct.unpack_from(f"<{count}H", page, HEADER.size)
        listed, position = keys.unpack(page, HEADER.size + 2 * count, count)
        pointers = np.zeros((3 if kind == LEAF else 0, count), np.uint32)
        for row in range(len(pointers)):
            (runs,) = struct.unpack_from("<H", page, position)
            starts = np.frombuffer(page, "<u2", runs, position + 2)
            targets = np.frombuffer(page, "<u4", runs, position + 2 + 2 * runs)
            pointers[row] = np.repeat(targets, np.diff(starts, append=count))
            position += 2 + 6 * runs
        start = len(page) - 8 * entries
        overflown = iter(struct.unpack_from(f"<{heads}I", page, start - 4 * heads))
        sizes = [word & OVERFLOWN for word in words]
        return cls(
            number,
            kind,
            which,
            previous,
            following,
            listed,
            [word >> MEMBER_SHIFT for word in words],
            [0 if size == OVERFLOWN else size for size in sizes],
            [next(overflown) if size == OVERFLOWN else 0 for size in sizes],
            np.frombuffer(page, "<i8", entries, start),
            pointers,
        )

    def encode(self, page_size: int, keys: KeyType) -> bytes:
        words = [
            (member << MEMBER_SHIFT) | (OVERFLOWN if head else count)
            for member, count, head in zip(self.members, self.counts, self.heads, strict=True)
        ]
        heads = [head for head in self.heads if head]
        columns = [struct.pack(f"<{len(words)}H", *words), keys.pack(self.keys)]
        for row, changes in zip(self.pointers, self._changes(), strict=True):
            starts = np.flatnonzero(changes)
            columns += [len(starts).to_bytes(2, "little"), starts.astype("<u2").tobytes(), row[starts].tobytes()]
        head = HEADER.pack(
            0, self.number, self.kind, self.which, len(words), self.prev, self.next, len(self.entries), len(heads)
        )
        return _page(page_size, head, columns, struct.pack(f"<{len(heads)}I", *heads) + self.entries.tobytes())

    def _changes(self) -> npt.NDArray[np.bool_]:
        """Per pointer column, the items where a run starts."""
        changes = np.ones(self.pointers.shape, np.bool_)
        np.not_equal(self.pointers[:, 1:], self.pointers[:, :-1], out=changes[:, 1:])
        return changes

    def sizes(self, keys: KeyType) -> list[int]:
        """Bytes of each item, the pointer runs that start at it included."""
        runs = self._changes().sum(axis=0).tolist() if len(self.pointers) else itertools.repeat(0)
        return [
            keys.size(key) + 2 + 8 * count + (4 if head else 0) + 6 * run
            for key, count, head, run in zip(self.keys, self.counts, self.heads, runs, strict=False)
        ]

    def size(self, keys: KeyType) -> int:
        """Bytes of the whole page."""
        runs = int(self._changes().sum()) if len(self.pointers) else 0
        heads = sum(1 for head in self.heads if head)
        column = 8 * len(self.keys) if keys.name != "string" else sum(map(keys.size, self.keys))
        return empty_size(self.kind) + column + 2 * len(self.keys) + 8 * len(self.entries) + 4 * heads + 6 * runs

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
        return sum(self.counts[:i])

    def inline(self, i: int) -> Int64Array:
        start = self.start(i)
        return self.entries[start : start + self.counts[i]]

    def set_inline(self, i: int, entries: Int64Array) -> None:
        start = self.start(i)
        self.entries = np.concatenate([self.entries[:start], entries, self.entries[start + self.counts[i] :]])
        self.counts[i] = len(entries)

    def insert(self, i: int, key: Key, pointers: tuple[int, ...] = ()) -> None:
        """Make room for a new item with an empty SidSet."""
        self.keys.insert(i, key)
        self.members.insert(i, 0)
        self.counts.insert(i, 0)
        self.heads.insert(i, 0)
        if self.kind == LEAF:
            self.pointers = np.insert(self.pointers, i, pointers, axis=1)

    def remove(self, i: int) -> None:
        """Drop an item whose SidSet is empty."""
        for column in (self.keys, self.members, self.counts, self.heads):
            del column[i]
        if self.kind == LEAF:
            self.pointers = np.delete(self.pointers, i, axis=1)

    def split(self, at: int, number: int) -> "Items":
        """Move the items from `at` on into a new page `number`; the caller links it."""
        start = self.start(at)
        right = Items(
            number,
            self.kind,
            self.which,
            self.number,
            self.next,
            self.keys[at:],
            self.members[at:],
            self.counts[at:],
            self.heads[at:],
            self.entries[start:],
            self.pointers[:, at:],
        )
        for column in (self.keys, self.members, self.counts, self.heads):
            del column[at:]
        self.entries, self.pointers, self.next = self.entries[:start], self.pointers[:, :at], number
        return right

    def absorb(self, right: "Items") -> None:
        """Take over all items of the next page."""
        self.keys += right.keys
        self.members += right.members
        self.counts += right.counts
        self.heads += right.heads
        self.entries = np.concatenate([self.entries, right.entries])
        self.pointers = np.concatenate([self.pointers, right.pointers], axis=1)
        self.next = right.next


def empty_size(kind: int) -> int:
    """Bytes of a page of items without items: the header, and in a leaf the lengths of three pointer columns."""
    return HEADER.size + (6 if kind == LEAF else 0)


def split_point(sizes: list[int]) -> int:
    """Where to cut a page so that the larger half is as small as possible; at least one item on each side."""
    total, left, best, best_size = sum(sizes), 0, 1, sum(sizes)
    for i, size in enumerate(sizes[:-1], start=1):
        left += size
        if max(left, total - left) < best_size:
            best, best_size = i, max(left, total - left)
    return best
