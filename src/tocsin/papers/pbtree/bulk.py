"""Build a tree from sorted arrays: lists first, then the leaves that point into them, then the levels above."""

from dataclasses import dataclass

import numpy as np

from tocsin.arrays import Int64s, UInt16s, UInt32s
from tocsin.papers.pbtree.items import MEMBER_SHIFT, OVERFLOWN, Items, empty_size
from tocsin.papers.pbtree.keys import Key, KeyArray, KeyType
from tocsin.papers.pbtree.lists import LT
from tocsin.papers.pbtree.operators import OPERATORS, TAG_BITS
from tocsin.papers.pbtree.pager import Pager
from tocsin.papers.pbtree.pages import HEADER, LEAF, LIST, Inner, Overflow, inline_limit, overflow_capacity

BATCH_PAGES = 1024  # pages per write

_TAGS = np.array([operator.tag for operator in OPERATORS], np.int64)
_IN_LEAF = np.array([operator.in_leaf for operator in OPERATORS])
_LISTS = np.array([-1 if operator.list is None else operator.list for operator in OPERATORS], np.int64)


def build(pager: Pager, keys: KeyType, numbers: Int64s, constants: KeyArray, ids: Int64s, fill: float) -> int:
    """Fill an empty tree; how many distinct predicates it got."""
    distinct, codes = np.unique(constants, return_inverse=True)
    entries = (ids << TAG_BITS) | _TAGS[numbers]
    # One sort serves the leaves and the lists. Tag 3 stands for three operators, hence their number as well.
    order = np.lexsort((numbers, entries, codes))
    codes, entries, numbers = codes[order].astype(np.int64), entries[order], numbers[order]
    new = np.ones(len(codes), np.bool_)
    new[1:] = (np.diff(codes) != 0) | (np.diff(entries) != 0) | (np.diff(numbers) != 0)
    codes, entries, numbers = codes[new], entries[new], numbers[new]

    writer = _Writer(pager, keys, max(0.5, min(1.0, fill)))
    members = np.zeros(len(distinct), np.int64)
    pointers = np.zeros((3, len(distinct)), np.uint32)
    for which in range(3):
        mine = _LISTS[numbers] == which
        columns = _Columns.of(distinct, codes[mine], entries[mine], writer)
        if not len(columns.codes):
            continue
        members[columns.codes] |= 1 << which
        starts = writer.cut(columns, LIST)
        first = writer.items(columns, starts, LIST, which)
        pager.meta.heads[which], pager.meta.tails[which] = first, first + len(starts) - 1
        pointers[which] = _pointers(which, columns.codes, starts, first, len(distinct))
    mine = _IN_LEAF[numbers]
    columns = _Columns.of(distinct, codes[mine], entries[mine], writer, every_key=True)
    columns.words |= (members << MEMBER_SHIFT).astype(np.uint16)
    columns.pointers = pointers
    starts = writer.cut(columns, LEAF)
    first = writer.items(columns, starts, LEAF, 0)
    writer.levels(columns.keys[starts].tolist(), first)
    pager.meta.keys = len(distinct)
    pager.meta.predicates = np.bincount(numbers, minlength=len(OPERATORS)).tolist()
    return len(codes)


def _pointers(which: int, codes: Int64s, starts: Int64s, first: int, keys: int) -> Int64s:
    """For every key, the list page that its leaf item points to."""
    if which == LT:
        item = np.searchsorted(codes, np.arange(keys), "left")
    else:
        item = np.searchsorted(codes, np.arange(keys), "right") - 1
    page = first + np.searchsorted(starts, item, "right") - 1
    return np.where((item >= 0) & (item < len(codes)), page, 0)


@dataclass(slots=True)
class _Columns:
    """Items in key order: code and key, inline entries (flat, `offsets`), heads of the overflown sets."""

    codes: Int64s
    keys: KeyArray
    offsets: Int64s
    entries: Int64s
    heads: Int64s
    words: UInt16s
    pointers: UInt32s

    @classmethod
    def of(
        cls, distinct: KeyArray, codes: Int64s, entries: Int64s, writer: "_Writer", *, every_key: bool = False
    ) -> "_Columns":
        if every_key:
            mine, sizes = np.arange(len(distinct)), np.bincount(codes, minlength=len(distinct)).astype(np.int64)
        else:
            mine, sizes = np.unique(codes, return_counts=True)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        heads = np.zeros(len(mine), np.int64)
        large = np.flatnonzero(sizes > inline_limit(writer.page_size))
        for item in large:
            heads[item] = writer.chain(entries[offsets[item] : offsets[item + 1]])
        entries = entries[~np.repeat(heads > 0, sizes)]
        sizes[large] = 0
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        words = (sizes + np.where(heads > 0, OVERFLOWN, 0)).astype(np.uint16)
        return cls(mine, distinct[mine], offsets, entries, heads, words, np.zeros((0, 0), np.uint32))

    def sizes(self, keys: KeyType) -> Int64s:
        """Bytes of each item, as `Items.sizes` counts them."""
        sizes: Int64s = keys.sizes(self.keys) + 2 + 8 * np.diff(self.offsets) + 4 * (self.heads > 0)
        if len(self.pointers):
            sizes[1:] += 6 * (self.pointers[:, 1:] != self.pointers[:, :-1]).sum(axis=0)
        return sizes


class _Writer:
    """Pages in the order of their numbers, written in large pieces behind the end of the file."""

    def __init__(self, pager: Pager, keys: KeyType, fill: float) -> None:
        self.page_size = pager.page_size
        self._pager = pager
        self._keys = keys
        self._fill = fill
        self._pages: list[bytes] = []

    def _next(self) -> int:
        return self._pager.meta.pages + len(self._pages)

    def _add(self, page: bytes) -> None:
        self._pages.append(page)
        if len(self._pages) >= BATCH_PAGES:
            self._flush()

    def _flush(self) -> None:
        self._pager.append(self._pages)
        self._pages = []

    def chain(self, entries: Int64s) -> int:
        """Write an overflown SidSet; its head. The last page of the chain, with the smallest entries, comes first."""
        capacity, below = overflow_capacity(self.page_size), 0
        for start in range(0, len(entries), capacity):
            number = self._next()
            self._add(Overflow(number, below, entries[start : start + capacity]).encode(self.page_size))
            below = number
        return below

    def cut(self, columns: _Columns, kind: int) -> Int64s:
        """The first item of each page. A leaf starts a run in each of its three pointer columns."""
        room = int(self._fill * (self.page_size - empty_size(kind))) - (18 if kind == LEAF else 0)
        ends = np.cumsum(columns.sizes(self._keys))
        starts, used = [0], 0
        while True:
            # At least one item a page: a large SidSet may exceed what `fill` allows, never the page.
            following = max(int(np.searchsorted(ends, used + room, "right")), starts[-1] + 1)
            if following >= len(ends):
                return np.array(starts, np.int64)
            starts.append(following)
            used = int(ends[following - 1])

    def items(self, columns: _Columns, starts: Int64s, kind: int, which: int) -> int:
        """Write the pages of a list or of the leaves; the number of the first."""
        first = self._next()
        stops = [*starts[1:].tolist(), len(columns.codes)]
        for i, (start, stop) in enumerate(zip(starts.tolist(), stops, strict=True)):
            number = first + i
            page = Items(
                number,
                kind,
                which,
                number - 1 if i else 0,
                number + 1 if stop < len(columns.codes) else 0,
                columns.keys[start:stop].tolist(),
                columns.words[start:stop],
                [head for head in columns.heads[start:stop].tolist() if head],
                columns.entries[columns.offsets[start] : columns.offsets[stop]],
                columns.pointers[:, start:stop],
            )
            self._add(page.encode(self.page_size, self._keys))
        return first

    def levels(self, firsts: list[Key], first: int) -> None:
        """Write the levels above pages `first`, `first` + 1, ... whose smallest keys are `firsts`; set the root."""
        level, children = 0, list(range(first, first + len(firsts)))
        while len(children) > 1:
            level += 1
            starts = self._cut_inner(firsts)
            stops = [*starts[1:], len(children)]
            above = []
            for start, stop in zip(starts, stops, strict=True):
                above.append(self._next())
                inner = Inner(above[-1], level, firsts[start + 1 : stop], children[start:stop])
                self._add(inner.encode(self.page_size, self._keys))
            firsts, children = [firsts[start] for start in starts], above
        self._flush()
        meta = self._pager.meta
        self._pager.release(meta.root)
        meta.root, meta.height = children[0], level

    def _cut_inner(self, firsts: list[Key]) -> list[int]:
        """The first child of each inner page; every page gets at least two children."""
        # The last child may come on top of a full page, rather than be alone in one.
        largest = max(map(self._keys.size, firsts)) + 4
        room, used, starts = int(self._fill * (self.page_size - HEADER.size)) - largest, 0, [0]
        for i, key in enumerate(firsts):
            size = self._keys.size(key) + 4
            if used + size > room and i - starts[-1] >= 2 and i < len(firsts) - 1:
                starts.append(i)
                used = 0
            used += size
        return starts
