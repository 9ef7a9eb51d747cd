"""What a page holds, as bytes and as an object.

Every page starts with one header: checksum, its own number, kind, level (of an inner page; the list's number in a list
page), number of keys, the two neighbours, the numbers of inline entries and of overflow heads. Page 0 is the meta page.
Leaves and list pages, the pages of items, are in `items`.

An *entry* is one predicate in a SidSet: ``sid * 4 + tag``, the tag being the operator, so that a set sorted by entry is
sorted by sid and knows which of its predicates is to be deleted.
"""

import struct
import zlib
from dataclasses import dataclass

import numpy as np

from tocsin.arrays import Int64s
from tocsin.errors import StorageError
from tocsin.papers.pbtree.keys import Key, KeyType

HEADER = struct.Struct("<IIBBHIIHH")
META, INNER, LEAF, LIST, OVERFLOW, FREE = range(1, 7)
KIND_NAMES = ("", "meta", "inner", "leaf", "list", "overflow", "free")

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
    return min(page_size // 16, 4095)


def overflow_capacity(page_size: int) -> int:
    return (page_size - HEADER.size) // 8


def fill_page(page_size: int, head: bytes, columns: list[bytes], tail: bytes = b"") -> bytes:
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
        return fill_page(page_size, head, [keys.pack(self.keys), children])

    def size(self, keys: KeyType) -> int:
        return HEADER.size + 4 + keys.column(self.keys) + 4 * len(self.keys)


@dataclass(slots=True)
class Overflow:
    """A page of an overflown SidSet: entries ascending; the next page of the chain holds smaller ones."""

    number: int
    next: int
    entries: Int64s

    @classmethod
    def decode(cls, page: bytes) -> "Overflow":
        _, number, _, _, _, _, following, entries, _ = HEADER.unpack_from(page)
        return cls(number, following, np.frombuffer(page, "<i8", entries, len(page) - 8 * entries))

    def encode(self, page_size: int) -> bytes:
        head = HEADER.pack(0, self.number, OVERFLOW, 0, 0, 0, self.next, len(self.entries), 0)
        return fill_page(page_size, head, [], self.entries.tobytes())


def free_page(number: int, following: int, page_size: int) -> bytes:
    """A page of the free list."""
    return fill_page(page_size, HEADER.pack(0, number, FREE, 0, 0, 0, following, 0, 0), [])


def next_of(page: bytes) -> int:
    return int(HEADER.unpack_from(page)[6])


def scan(page: bytes) -> tuple[Int64s, tuple[int, ...], int, int]:
    """All inline entries, all overflow heads, previous and next of a list page, without decoding its items."""
    _, _, _, _, _, previous, following, entries, heads = HEADER.unpack_from(page)
    start = len(page) - 8 * entries
    return (
        np.frombuffer(page, "<i8", entries, start),
        struct.unpack_from(f"<{heads}I", page, start - 4 * heads),
        previous,
        following,
    )


def split_point(sizes: list[int]) -> int:
    """Where to cut a page so that the larger half is as small as possible; at least one item on each side."""
    total, left, best, best_size = sum(sizes), 0, 1, sum(sizes)
    for i, size in enumerate(sizes[:-1], start=1):
        left += size
        if max(left, total - left) < best_size:
            best, best_size = i, max(left, total - left)
    return best
