"""The B+tree over the keys: descend, store a leaf (split it if it is too large), rebalance a small one.

Pages are cut by bytes, not by number of items, since SidSets and strings vary. A page below a quarter is put together
with a neighbour under the same parent: one page if they fit, two even ones if not.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from tocsin.papers.pbtree.items import Items
from tocsin.papers.pbtree.keys import Key, KeyType
from tocsin.papers.pbtree.pager import Pager
from tocsin.papers.pbtree.pages import Inner, split_point


class Outline(NamedTuple):
    """A page of the tree with the pages below it; in a leaf, the pages of each list that its items point to."""

    page: int
    level: int
    keys: list[Key]
    children: tuple["Outline", ...] = ()
    pointers: tuple[frozenset[int], ...] = ()


class Leaves:
    """The inner pages and the linked leaves of a tree."""

    def __init__(self, pager: Pager, keys: KeyType) -> None:
        self._pager = pager
        self._keys = keys

    def load(self, number: int) -> Items:
        return Items.decode(self._pager.read(number), self._keys)

    def find(self, key: Key) -> Items:
        """The leaf where `key` is or belongs. Reads one page per level."""
        return self.load(self._descend(key, 0))

    def pages(self) -> Iterator[Items]:
        """All leaves, in key order."""
        number = self._pager.meta.root
        for _ in range(self._pager.meta.height):
            number = self._inner(number).children[0]
        while number:
            leaf = self.load(number)
            yield leaf
            number = leaf.next

    def outline(self, depth: int) -> Outline:
        """The pages of the tree from the root down, `depth` levels below it."""
        meta = self._pager.meta
        return self._outline(meta.root, meta.height, depth)

    def _outline(self, number: int, level: int, depth: int) -> Outline:
        if level == 0:
            leaf = self.load(number)
            pointers = tuple(frozenset(row.tolist()) - {0} for row in leaf.pointers)
            return Outline(number, 0, leaf.keys, (), pointers)
        inner = self._inner(number)
        children = [self._outline(child, level - 1, depth - 1) for child in inner.children if depth > 0]
        return Outline(number, level, inner.keys, tuple(children))

    def _inner(self, number: int) -> Inner:
        return Inner.decode(self._pager.read(number), self._keys)

    def _descend(self, key: Key, level: int) -> int:
        """The page of `level` on the way to `key`."""
        meta = self._pager.meta
        number = meta.root
        for _ in range(meta.height - level):
            inner = self._inner(number)
            number = inner.children[bisect_right(inner.keys, key)]
        return number

    def neighbour_pointers(self, leaf: Items, i: int) -> tuple[int, int, int]:
        """Pointers of a new item at `i` (the paper's Figure 6): GT, INEQ of the item before, LT of the item after."""
        greater = unequal = less = 0
        before, at = (leaf, i - 1) if i else (self.load(leaf.prev) if leaf.prev else None, -1)
        if before is not None:
            greater, _, unequal = before.pointers[:, at].tolist()
        after, at = (leaf, i) if i < len(leaf.keys) else (self.load(leaf.next) if leaf.next else None, 0)
        if after is not None:
            less = int(after.pointers[1, at])
        return greater, less, unequal

    def store(self, leaf: Items) -> None:
        """Write a leaf back; split it if it has grown too large."""
        if leaf.size(self._keys) <= self._pager.page_size:
            self._write(leaf)
            return
        right = leaf.split(split_point(leaf.sizes(self._keys)), self._pager.allocate())
        self._link_back(right)
        self._write(leaf)
        self._write(right)
        self._add_separator(0, right.keys[0], right.number)

    def _write(self, page: Items | Inner) -> None:
        self._pager.write(page.number, page.encode(self._pager.page_size, self._keys))

    def _link_back(self, leaf: Items) -> None:
        """Let the leaf after `leaf` know that `leaf` is before it."""
        if leaf.next:
            after = self.load(leaf.next)
            after.prev = leaf.number
            self._write(after)

    def _add_separator(self, level: int, key: Key, right: int) -> None:
        """Enter the new page `right` of `level`, whose keys start at `key`, into its parent."""
        meta = self._pager.meta
        if level == meta.height:
            root = Inner(self._pager.allocate(), level + 1, [key], [meta.root, right])
            self._write(root)
            meta.root, meta.height = root.number, level + 1
            return
        parent = self._inner(self._descend(key, level + 1))
        at = bisect_right(parent.keys, key)
        parent.keys.insert(at, key)
        parent.children.insert(at + 1, right)
        self._store_inner(parent)

    def _store_inner(self, inner: Inner) -> None:
        if inner.size(self._keys) <= self._pager.page_size:
            self._write(inner)
            return
        up, right = self._split_inner(inner, self._pager.allocate())
        self._write(inner)
        self._write(right)
        self._add_separator(inner.level, up, right.number)

    def _split_inner(self, inner: Inner, number: int) -> tuple[Key, Inner]:
        """Move the upper half into a new page; the separator between the halves moves up."""
        at = min(max(1, split_point([self._keys.size(key) + 4 for key in inner.keys])), len(inner.keys) - 2)
        up = inner.keys[at]
        right = Inner(number, inner.level, inner.keys[at + 1 :], inner.children[at + 1 :])
        del inner.keys[at:], inner.children[at + 1 :]
        return up, right

    def shrink(self, leaf: Items, key: Key) -> None:
        """Write back a leaf that lost the item of `key`; put it together with a neighbour if it is small."""
        self._write(leaf)
        if leaf.size(self._keys) < self._pager.page_size // 4:
            self._rebalance(0, key)

    def _rebalance(self, level: int, key: Key) -> None:
        """Put the page of `level` on the way to `key` together with a neighbour under the same parent."""
        if level == self._pager.meta.height:
            return
        parent = self._inner(self._descend(key, level + 1))
        at = min(bisect_right(parent.keys, key), len(parent.keys) - 1)
        left, right = parent.children[at], parent.children[at + 1]
        separator = self._join_leaves(left, right) if level == 0 else self._join_inner(left, right, parent.keys[at])
        if separator is not None:
            parent.keys[at] = separator
            self._store_inner(parent)
            return
        del parent.keys[at], parent.children[at + 1]
        if not parent.keys and parent.number == self._pager.meta.root:
            self._pager.meta.root, self._pager.meta.height = left, level
            self._pager.release(parent.number)
            return
        self._write(parent)
        if parent.size(self._keys) < self._pager.page_size // 4:
            self._rebalance(level + 1, key)

    def _join_leaves(self, left_number: int, right_number: int) -> Key | None:
        """Make one leaf of two, or two even ones; the separator of the two, None if one is left."""
        left, right = self.load(left_number), self.load(right_number)
        left.absorb(right)
        if left.size(self._keys) <= self._pager.page_size:
            self._link_back(left)
            self._write(left)
            self._pager.release(right_number)
            return None
        right = left.split(split_point(left.sizes(self._keys)), right_number)
        self._write(left)
        self._write(right)
        return right.keys[0]

    def _join_inner(self, left_number: int, right_number: int, separator: Key) -> Key | None:
        """The same for inner pages; the separator between them comes down."""
        left, right = self._inner(left_number), self._inner(right_number)
        left.keys += [separator, *right.keys]
        left.children += right.children
        if left.size(self._keys) <= self._pager.page_size:
            self._write(left)
            self._pager.release(right_number)
            return None
        up, right = self._split_inner(left, right_number)
        self._write(left)
        self._write(right)
        return up
