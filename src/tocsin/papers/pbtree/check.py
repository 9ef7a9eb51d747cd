"""Every invariant of a PB+tree, each with its reason."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Int64s, UInt16s
from tocsin.errors import StorageError
from tocsin.papers.pbtree.items import COUNT, MEMBER_SHIFT, OVERFLOWN, Items
from tocsin.papers.pbtree.keys import Key, KeyArray, KeyType
from tocsin.papers.pbtree.lists import LIST_NAMES, LT
from tocsin.papers.pbtree.operators import OPERATORS, TAG_MASK
from tocsin.papers.pbtree.pager import Pager
from tocsin.papers.pbtree.pages import (
    FREE,
    INNER,
    KIND_NAMES,
    LEAF,
    LIST,
    NO_ENTRIES,
    OVERFLOW,
    Inner,
    Overflow,
    inline_limit,
    kind_of,
    next_of,
)


def check_tree(pager: Pager, keys: KeyType) -> None:
    """Read every page and verify it; StorageError names the first that is wrong, and why."""
    _Check(pager, keys).run()


@dataclass(slots=True)
class _Flat:
    """The items of many pages as arrays: per item its key and page, per entry the item it belongs to."""

    keys: KeyArray
    pages: Int64s
    words: UInt16s
    owners: Int64s
    entries: Int64s

    def with_tag(self, tag: int) -> tuple[Int64s, Int64s]:
        """The entries of one operator, and their items."""
        mine = (self.entries & TAG_MASK) == tag
        return self.owners[mine], self.entries[mine]


class _Check:
    def __init__(self, pager: Pager, keys: KeyType) -> None:
        self._pager = pager
        self._keys = keys
        self._seen: set[int] = {0}

    def run(self) -> None:
        pager, meta = self._pager, self._pager.meta
        lists = [self._flatten(self._list(which)) for which in range(3)]
        leaves = self._leaves(meta.root, meta.height, None, None)
        for before, leaf, after in zip([None, *leaves], leaves, [*leaves[1:], None], strict=False):
            links = (before.number if before else 0, after.number if after else 0)
            self._require((leaf.prev, leaf.next) == links, leaf.number, "leaves are linked in key order")
        flat = self._flatten(leaves)
        self._require(len(flat.keys) == meta.keys, 0, "the meta page counts the keys")
        used = (flat.words & (COUNT | OVERFLOWN)) > 0
        for which, listed in enumerate(lists):
            used |= self._membership(which, flat, listed)
            pointers = np.concatenate([leaf.pointers[which] for leaf in leaves])
            self._pointers(which, flat, listed, pointers)
        self._require_all(used, flat.pages, "a key without predicates is removed")
        self._predicates(flat, lists)
        free, number = 0, meta.free
        while number:
            self._visit(number, FREE)
            free, number = free + 1, next_of(pager.read(number))
        self._require(free == meta.free_pages, 0, "the meta page counts the free pages")
        for number in range(1, meta.pages):
            self._require(number in self._seen, number, "a page is in use or free, or its space is lost")

    def _require(self, holds: bool, page: int, reason: str) -> None:
        if not holds:
            raise StorageError(f"page {page} of {self._pager.path} breaks an invariant: {reason}", "Build it again")

    def _require_all(self, holds: Bools, pages: Int64s, reason: str) -> None:
        for wrong in np.flatnonzero(~holds)[:1]:
            self._require(False, int(pages[wrong]), reason)

    def _visit(self, number: int, kind: int) -> bytes:
        self._require(number not in self._seen, number, "a page has one owner, or a change to one harms the other")
        self._seen.add(number)
        page = self._pager.read(number)
        self._require(kind_of(page) == kind, number, f"a {KIND_NAMES[kind]} page is expected by what points to it")
        return page

    def _leaves(self, number: int, level: int, low: Key, high: Key) -> list[Items]:
        """The leaves below a page, in key order; all keys lie in [low, high)."""
        if level == 0:
            leaf = Items.decode(self._visit(number, LEAF), self._keys)
            self._ordered(number, leaf.keys, low, high)
            self._require(bool(leaf.keys) or number == self._pager.meta.root, number, "only a root may be empty")
            return [leaf]
        inner = Inner.decode(self._visit(number, INNER), self._keys)
        self._require(inner.level == level, number, "all leaves are equally deep, so that each search costs the same")
        self._require(len(inner.keys) > 0, number, "an inner page separates at least two children")
        self._ordered(number, inner.keys, low, high)
        bounds = [low, *inner.keys, high]
        below = [self._leaves(child, level - 1, bounds[i], bounds[i + 1]) for i, child in enumerate(inner.children)]
        return list(itertools.chain.from_iterable(below))

    def _ordered(self, number: int, keys: list[Key], low: Key, high: Key) -> None:
        ascending = all(left < right for left, right in itertools.pairwise(keys))
        self._require(ascending, number, "keys ascend, so that a binary search finds them")
        inside = not keys or ((low is None or low <= keys[0]) and (high is None or keys[-1] < high))
        self._require(inside, number, "keys lie between the separators above, or a search misses them")

    def _list(self, which: int) -> list[Items]:
        """The pages of a list, in key order."""
        found: list[Items] = []
        number, previous, last = self._pager.meta.heads[which], 0, None
        while number:
            page = Items.decode(self._visit(number, LIST), self._keys)
            self._require(page.which == which, number, f"a page of the {LIST_NAMES[which]} list belongs to it")
            self._require(page.prev == previous, number, "links of a list agree in both directions")
            self._require(bool(page.keys), number, "an empty list page is unlinked")
            self._ordered(number, page.keys, last, None)
            self._require(last is None or last < page.keys[0], number, "keys ascend from page to page")
            self._require(
                all(not page.is_empty(i) for i in range(len(page.keys))), number, "a list item has a predicate"
            )
            found.append(page)
            previous, last, number = number, page.keys[-1], page.next
        self._require(self._pager.meta.tails[which] == previous, 0, "the meta page knows the end of each list")
        return found

    def _flatten(self, pages: Iterable[Items]) -> _Flat:
        """The items of pages; every SidSet is verified on the way."""
        keys: list[Key] = []
        numbers, words, owners, entries = [], [], [NO_ENTRIES], [NO_ENTRIES]
        for page in pages:
            tags = {
                operator.tag
                for operator in OPERATORS
                if operator.list == page.list or (page.list is None and operator.in_leaf)
            }
            counts = (page.words & COUNT).astype(np.int64)
            limit = inline_limit(self._pager.page_size)
            self._require(int(counts.max(initial=0)) <= limit, page.number, "a large SidSet overflows to other pages")
            self._require(int(counts.sum()) == len(page.entries), page.number, "an entry belongs to an item")
            mine = [np.repeat(np.arange(len(counts)), counts)]
            held = [page.entries]
            overflown = np.flatnonzero(page.words & OVERFLOWN)
            self._require(len(overflown) == len(page.heads), page.number, "a chain belongs to an overflown item")
            for i, head in zip(overflown.tolist(), page.heads, strict=True):
                chained = self._chain(head)
                mine.append(np.full(len(chained), i))
                held.append(chained)
            owner = np.concatenate(mine)
            order = np.argsort(owner, kind="stable")
            owner, entry = owner[order], np.concatenate(held)[order]
            ascending = (np.diff(owner) > 0) | (np.diff(entry) > 0)
            self._require(bool(ascending.all()), page.number, "the entries of a SidSet ascend, each once")
            found = set(np.unique(entry & TAG_MASK).tolist())
            self._require(found <= tags, page.number, "a SidSet holds predicates of its operators only")
            owners.append(owner + len(keys))
            entries.append(entry)
            keys += page.keys
            numbers.append(np.full(len(counts), page.number))
            words.append(page.words)
        array = np.empty(len(keys), {"integer": np.int64, "float": np.float64}.get(self._keys.name, np.object_))
        array[:] = keys
        return _Flat(
            array,
            np.concatenate([NO_ENTRIES, *numbers]),
            np.concatenate([np.empty(0, np.uint16), *words]),
            np.concatenate(owners),
            np.concatenate(entries),
        )

    def _chain(self, head: int) -> Int64s:
        """The entries of an overflow chain, ascending."""
        parts = [NO_ENTRIES]
        while head:
            part = Overflow.decode(self._visit(head, OVERFLOW))
            self._require(len(part.entries) > 0, head, "an empty overflow page is unlinked")
            parts.append(part.entries)
            head = part.next
        return np.concatenate(parts[::-1])

    def _membership(self, which: int, leaves: _Flat, listed: _Flat) -> Bools:
        """Which keys are in a list, as the list says; the leaf items must say the same."""
        place = np.searchsorted(leaves.keys, listed.keys)
        known = place < len(leaves.keys)
        known[known] = leaves.keys[place[known]] == listed.keys[known]
        self._require_all(known, listed.pages, "every key of a list has a leaf item")
        member: Bools = np.zeros(len(leaves.keys), np.bool_)
        member[place] = True
        told = (leaves.words >> (MEMBER_SHIFT + which) & 1) > 0
        self._require_all(
            told == member, leaves.pages, f"a leaf item knows whether the {LIST_NAMES[which]} list has it"
        )
        return member

    def _pointers(self, which: int, leaves: _Flat, listed: _Flat, pointers: npt.NDArray[Any]) -> None:
        """Each leaf item points to the page of its nearest list item: not above for GT and INEQ, not below for LT."""
        if which == LT:
            nearest = np.searchsorted(listed.keys, leaves.keys, "left")
        else:
            nearest = np.searchsorted(listed.keys, leaves.keys, "right") - 1
        expected = np.zeros(len(leaves.keys), np.int64)
        exists = (nearest >= 0) & (nearest < len(listed.keys))
        expected[exists] = listed.pages[nearest[exists]]
        self._require_all(
            pointers == expected, leaves.pages, f"items point to the {LIST_NAMES[which]} page where a search starts"
        )

    def _predicates(self, leaves: _Flat, lists: list[_Flat]) -> None:
        """Non-strict predicates stand twice; the meta page counts the predicates of each operator."""
        for operator in OPERATORS:
            if operator.list is None:
                owners, entries = leaves.with_tag(operator.tag)
            else:
                listed = lists[operator.list]
                owners, entries = listed.with_tag(operator.tag)
                if operator.in_leaf:
                    items, own = leaves.with_tag(operator.tag)
                    place = np.searchsorted(leaves.keys, listed.keys)[owners]
                    twice = np.array_equal(place, items) and np.array_equal(entries, own)
                    self._require(twice, 0, f"a {operator.symbol} predicate stands in its list and in its leaf item")
            counted = self._pager.meta.predicates[operator.number]
            self._require(len(entries) == counted, 0, "the meta page counts the predicates of each operator")
