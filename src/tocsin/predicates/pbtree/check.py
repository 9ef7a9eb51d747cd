"""Every invariant of a PB+tree, each with its reason."""

import itertools

import numpy as np

from tocsin.errors import StorageError
from tocsin.predicates.pbtree.keys import Key, KeyType
from tocsin.predicates.pbtree.lists import LIST_NAMES, LT
from tocsin.predicates.pbtree.operators import OPERATORS, TAG_MASK
from tocsin.predicates.pbtree.pager import Pager
from tocsin.predicates.pbtree.pages import (
    FREE,
    INNER,
    KIND_NAMES,
    LEAF,
    LIST,
    OVERFLOW,
    Inner,
    Int64Array,
    Items,
    Overflow,
    inline_limit,
    kind_of,
    next_of,
)


def check_tree(pager: Pager, keys: KeyType) -> None:
    """Read every page and verify it; StorageError names the first that is wrong, and why."""
    _Check(pager, keys).run()


class _Check:
    def __init__(self, pager: Pager, keys: KeyType) -> None:
        self._pager = pager
        self._keys = keys
        self._seen: set[int] = {0}

    def run(self) -> None:
        pager, meta = self._pager, self._pager.meta
        listed = [self._list(which) for which in range(3)]
        leaves = self._leaves(meta.root, meta.height, None, None)
        counts = self._items(leaves, listed)
        free, number = 0, meta.free
        while number:
            self._visit(number, FREE)
            free, number = free + 1, next_of(pager.read(number))
        self._require(free == meta.free_pages, 0, "the meta page counts the free pages")
        self._require(counts == meta.predicates, 0, "the meta page counts the predicates of each operator")
        for number in range(1, meta.pages):
            self._require(number in self._seen, number, "a page is in use or free, or its space is lost")

    def _require(self, holds: bool, page: int, reason: str) -> None:
        if not holds:
            raise StorageError(f"page {page} of {self._pager.path} breaks an invariant: {reason}", "Build it again")

    def _visit(self, number: int, kind: int) -> bytes:
        self._require(number not in self._seen, number, "a page has one owner, or a change to one harms the other")
        self._seen.add(number)
        page = self._pager.read(number)
        self._require(kind_of(page) == kind, number, f"a {KIND_NAMES[kind]} page is expected by what points to it")
        return page

    def _leaves(self, number: int, level: int, low: Key | None, high: Key | None) -> list[Items]:
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
        return [
            leaf
            for i, child in enumerate(inner.children)
            for leaf in self._leaves(child, level - 1, bounds[i], bounds[i + 1])
        ]

    def _ordered(self, number: int, keys: list[Key], low: Key | None, high: Key | None) -> None:
        ascending = all(left < right for left, right in itertools.pairwise(keys))
        self._require(ascending, number, "keys ascend, so that a binary search finds them")
        inside = not keys or ((low is None or low <= keys[0]) and (high is None or keys[-1] < high))
        self._require(inside, number, "keys lie between the separators above, or a search misses them")

    def _list(self, which: int) -> dict[Key, tuple[int, Int64Array]]:
        """Page and entries of each key of a list."""
        found: dict[Key, tuple[int, Int64Array]] = {}
        number, previous, last = self._pager.meta.heads[which], 0, None
        while number:
            page = Items.decode(self._visit(number, LIST), self._keys)
            self._require(page.which == which, number, f"a page of the {LIST_NAMES[which]} list belongs to it")
            self._require(page.prev == previous, number, "links of a list agree in both directions")
            self._require(bool(page.keys), number, "an empty list page is unlinked")
            self._ordered(number, page.keys, last, None)
            self._require(last is None or last < page.keys[0], number, "keys ascend from page to page")
            tags = {operator.tag for operator in OPERATORS if operator.list == which}
            for i, key in enumerate(page.keys):
                found[key] = (number, self._set(page, i, tags))
                self._require(len(found[key][1]) > 0, number, "an item of a list has a predicate")
            previous, last, number = number, page.keys[-1], page.next
        self._require(self._pager.meta.tails[which] == previous, 0, "the meta page knows the end of each list")
        return found

    def _set(self, page: Items, i: int, tags: set[int]) -> Int64Array:
        """The entries of an item, ascending."""
        entries = page.inline(i)
        self._require(
            len(entries) <= inline_limit(self._pager.page_size), page.number, "a large SidSet overflows to pages"
        )
        head = page.heads[i]
        while head:
            part = Overflow.decode(self._visit(head, OVERFLOW))
            self._require(len(part.entries) > 0, head, "an empty overflow page is unlinked")
            entries = np.concatenate([part.entries, entries])
            head = part.next
        self._require(bool((np.diff(entries) > 0).all()), page.number, "entries of a SidSet ascend, each once")
        self._require(
            set(np.unique(entries & TAG_MASK).tolist()) <= tags, page.number, "a SidSet holds its operators only"
        )
        return entries

    def _items(self, leaves: list[Items], listed: list[dict[Key, tuple[int, Int64Array]]]) -> list[int]:
        """Verify links, pointers and SidSets of all leaf items; the predicates of each operator."""
        self._require(sum(len(leaf.keys) for leaf in leaves) == self._pager.meta.keys, 0, "the meta page counts keys")
        for position, leaf in enumerate(leaves):
            before = leaves[position - 1].number if position else 0
            after = leaves[position + 1].number if position + 1 < len(leaves) else 0
            self._require((leaf.prev, leaf.next) == (before, after), leaf.number, "leaves are linked in key order")
        counts = [0] * len(OPERATORS)
        for which, lists in enumerate(listed):
            self._pointers(which, leaves, {key: page for key, (page, _) in lists.items()})
        seen = [0, 0, 0]
        for leaf in leaves:
            for i, key in enumerate(leaf.keys):
                own = self._set(leaf, i, {operator.tag for operator in OPERATORS if operator.in_leaf})
                used = len(own) > 0
                for which in range(3):
                    member = bool(leaf.members[i] >> which & 1)
                    self._require(
                        member == (key in listed[which]), leaf.number, "a leaf item knows which lists hold its key"
                    )
                    used, seen[which] = used or member, seen[which] + member
                self._require(used, leaf.number, "a key without predicates is removed")
                for operator in OPERATORS:
                    entries = own if operator.list is None else listed[operator.list].get(key, (0, own[:0]))[1]
                    mine = entries[(entries & TAG_MASK) == operator.tag]
                    counts[operator.number] += len(mine)
                    self._require(
                        not operator.in_leaf or np.array_equal(mine, own[(own & TAG_MASK) == operator.tag]),
                        leaf.number,
                        "a non-strict predicate stands in its list and in its leaf item",
                    )
        self._require(seen == [len(each) for each in listed], 0, "every key of a list has a leaf item")
        return counts

    def _pointers(self, which: int, leaves: list[Items], pages: dict[Key, int]) -> None:
        """Each leaf item points to the page of its nearest list item: not above for GT and INEQ, not below for LT."""
        expected = 0
        for leaf in reversed(leaves) if which == LT else leaves:
            positions = range(len(leaf.keys))
            for i in reversed(positions) if which == LT else positions:
                expected = pages.get(leaf.keys[i], expected)
                self._require(
                    leaf.pointers[which, i] == expected,
                    leaf.number,
                    f"item {i} points to the {LIST_NAMES[which]} page where a search for its key has to start",
                )
