"""Page 0: what the file is, and where everything starts."""

import os
import struct
import zlib
from dataclasses import dataclass, field, fields

from tocsin.errors import StorageError
from tocsin.papers.pbtree.pages import HEADER, META

MAGIC = b"TOCSPBT1"
_BODY = struct.Struct("<8sQIIQIIIII3I3I6Q")


@dataclass(slots=True)
class Meta:
    """The fields of page 0, in their order on disk."""

    page_size: int
    key_type: int
    identity: int = field(default_factory=lambda: int.from_bytes(os.urandom(8), "little"))
    keys: int = 0
    root: int = 1
    height: int = 0  # the level of the root; leaves are level 0
    pages: int = 2
    free: int = 0
    free_pages: int = 0
    heads: list[int] = field(default_factory=lambda: [0, 0, 0])  # first page of each list
    tails: list[int] = field(default_factory=lambda: [0, 0, 0])
    predicates: list[int] = field(default_factory=lambda: [0] * 6)  # per operator

    def encode(self) -> bytes:
        body = _BODY.pack(
            MAGIC,
            self.identity,
            self.page_size,
            self.key_type,
            self.keys,
            self.root,
            self.height,
            self.pages,
            self.free,
            self.free_pages,
            *self.heads,
            *self.tails,
            *self.predicates,
        )
        head = HEADER.pack(0, 0, META, 0, 0, 0, 0, 0, 0)
        return head + body + bytes(self.page_size - len(head) - len(body))

    @classmethod
    def decode(cls, page: bytes) -> "Meta":
        magic, identity, page_size, key_type, keys, root, height, pages, free, free_pages, *rest = _BODY.unpack_from(
            page, HEADER.size
        )
        if magic != MAGIC or page_size != len(page):
            raise StorageError("page 0 is not the first page of a PB+tree of this version", "Build the file again")
        return cls(
            page_size, key_type, identity, keys, root, height, pages, free, free_pages, rest[:3], rest[3:6], rest[6:]
        )

    def restore(self, page: bytes) -> None:
        """Take every field from an encoded meta page."""
        old = Meta.decode(page)
        for each in fields(self):
            setattr(self, each.name, getattr(old, each.name))

    @staticmethod
    def peek(start: bytes) -> tuple[int, int] | None:
        """Identity and page size from the start of a file; None unless page 0 is whole."""
        if len(start) < HEADER.size + _BODY.size:
            return None
        magic, identity, page_size, *_ = _BODY.unpack_from(start, HEADER.size)
        if magic != MAGIC or int.from_bytes(start[:4], "little") != zlib.crc32(start[4:page_size]):
            return None
        return identity, page_size
