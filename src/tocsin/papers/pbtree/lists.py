"""The GreaterThan, LessThan and Inequality lists: linked pages of items, entered through the pointers of the leaves.

A leaf item points to the page of the list item with the largest key not above its own (GT, INEQ), or with the smallest
key not below it (LT); 0 where there is none. So the leaf items that point to one list page are neighbours, and a change
of the list moves the end of such a run: `_repoint` walks the leaves from the changed key, forward for GT and INEQ and
backward for LT, as long as they point to the old page.
"""

from collections.abc import Iterator

from tocsin.arrays import Int64s
from tocsin.papers.pbtree import sidset
from tocsin.papers.pbtree.items import Items
from tocsin.papers.pbtree.keys import Key, KeyType
from tocsin.papers.pbtree.leaves import Leaves
from tocsin.papers.pbtree.pager import Pager
from tocsin.papers.pbtree.pages import LIST, scan, split_point

GT, LT, INEQ = 0, 1, 2
LIST_NAMES = ("GreaterThan", "LessThan", "Inequality")


class Lists:
    """The three lists of a tree."""

    def __init__(self, pager: Pager, keys: KeyType, leaves: Leaves) -> None:
        self._pager = pager
        self._keys = keys
        self._leaves = leaves

    def load(self, number: int) -> Items:
        """A page of a list."""
        return Items.decode(self._pager.read(number), self._keys)

    def _write(self, page: Items) -> None:
        self._pager.write(page.number, page.encode(self._pager.page_size, self._keys))

    def pages(self, which: int) -> Iterator[Items]:
        """All pages of a list, in key order."""
        number = self._pager.meta.heads[which]
        while number:
            page = self.load(number)
            yield page
            number = page.next

    def insert(self, which: int, key: Key, pointer: int, entry: int) -> bool:
        """Add an entry under `key`, whose leaf item points to page `pointer`; False if it is there already."""
        meta = self._pager.meta
        number = pointer or (meta.tails if which == LT else meta.heads)[which]
        page = self.load(number) if number else Items(self._pager.allocate(), LIST, which)
        if not number:
            meta.heads[which] = meta.tails[which] = page.number
        i, found = page.find(key)
        if not found:
            page.insert(i, key)
        if not sidset.add(self._pager, page, i, entry):
            return False
        right = self._store(page, i)
        if not pointer:
            self._repoint(which, key, 0, page.number if right is None or which != LT else right.number)
        return True

    def _store(self, page: Items, i: int) -> Items | None:
        """Write back a page whose item `i` has grown; split it if it is too large, and return the new page after it."""
        if page.size(self._keys) <= self._pager.page_size:
            self._write(page)
            return None
        # Keys that arrive in order leave full pages behind.
        last = not page.next and i == len(page.keys) - 1
        right = page.split(i if last else split_point(page.sizes(self._keys)), self._pager.allocate())
        self._write(page)
        self._write(right)
        self._link(right.next, page.which, prev=right.number)
        if page.which == LT:
            self._repoint(LT, right.keys[-1], page.number, right.number, stop=page.keys[-1])
        else:
            self._repoint(page.which, right.keys[0], page.number, right.number)
        return right

    def remove(self, which: int, key: Key, pointer: int, entry: int) -> tuple[bool, bool]:
        """Remove an entry under `key`: whether it was there, and whether the key has left the list."""
        page = self.load(pointer)
        i, found = page.find(key)
        if not found or not sidset.remove(self._pager, page, i, entry):
            return False, False
        if not page.is_empty(i):
            self._store(page, i)  # a set that returns from its chain into the page makes the page grow
            return True, False
        page.remove(i)
        if not page.keys:
            self._unlink(page)
            self._repoint(which, key, page.number, page.next if which == LT else page.prev)
            return True, True
        self._write(page)
        if which == LT and i == len(page.keys):
            self._repoint(which, key, page.number, page.next, stop=page.keys[-1])
        elif which != LT and i == 0:
            self._repoint(which, key, page.number, page.prev, stop=page.keys[0])
        if page.size(self._keys) < self._pager.page_size // 4:
            self._merge(page)
        return True, True

    def _merge(self, page: Items) -> None:
        """Put a small page together with a neighbour, if the two fit one page."""
        for left, right in ((page.number, page.next), (page.prev, page.number)):
            if not left or not right:
                continue
            kept, gone = self.load(left), self.load(right)
            kept.absorb(gone)
            if kept.size(self._keys) <= self._pager.page_size:
                self._write(kept)
                self._link(kept.next, kept.which, prev=kept.number)
                self._pager.release(gone.number)
                start = gone.keys[-1] if gone.which == LT else gone.keys[0]
                self._repoint(gone.which, start, gone.number, kept.number)
                return

    def _unlink(self, page: Items) -> None:
        self._link(page.prev, page.which, next=page.next)
        self._link(page.next, page.which, prev=page.prev)
        self._pager.release(page.number)

    def _link(self, number: int, which: int, *, prev: int | None = None, next: int | None = None) -> None:  # noqa: A002
        """Set the links of list page `number`; page 0 stands for both ends of the list."""
        meta = self._pager.meta
        if not number:
            if prev is not None:
                meta.tails[which] = prev
            if next is not None:
                meta.heads[which] = next
            return
        page = self.load(number)
        page.prev = page.prev if prev is None else prev
        page.next = page.next if next is None else next
        self._write(page)

    def _repoint(self, which: int, start: Key, old: int, new: int, stop: Key | None = None) -> None:
        """Let the leaf items from `start` on that point to `old` point to `new`, up to but not including key `stop`."""
        leaf = self._leaves.find(start)
        step = -1 if which == LT else 1
        i = leaf.find(start)[0]
        while True:
            row = leaf.pointers[which]
            changed = False
            while 0 <= i < len(row) and row[i] == old and leaf.keys[i] != stop:
                row[i] = new
                changed = True
                i += step
            following = leaf.prev if which == LT else leaf.next
            ended = 0 <= i < len(row) or not following
            if changed:
                self._leaves.store(leaf)
            if ended:
                return
            leaf = self._leaves.load(following)
            i = len(leaf.keys) - 1 if which == LT else 0

    def collect(self, which: int, value: Key, pointer: int) -> Iterator[Int64s]:
        """The entries of the list that hold for `value` (Figure 9), entered at the page that a leaf item points to."""
        if which == INEQ:
            start = pointer or self._pager.meta.heads[which]
            if not start:
                return
            page = self.load(start)
            i, found = page.find(value)
            yield from self._span(page, 0, i)
            yield from self._span(page, i + found, len(page.keys))
            yield from self._walk(page.prev, forward=False)
            yield from self._walk(page.next, forward=True)
        elif pointer:
            page = self.load(pointer)
            i, found = page.find(value)
            if which == GT:
                yield from self._span(page, 0, i)
                yield from self._walk(page.prev, forward=False)
            else:
                yield from self._span(page, i + found, len(page.keys))
                yield from self._walk(page.next, forward=True)

    def _span(self, page: Items, start: int, stop: int) -> Iterator[Int64s]:
        yield page.entries[page.start(start) : page.start(stop)]
        for head in filter(None, map(page.head, range(start, stop)) if page.heads else ()):
            yield from sidset.chain(self._pager, head)

    def _walk(self, number: int, *, forward: bool) -> Iterator[Int64s]:
        while number:
            entries, heads, previous, following = scan(self._pager.read(number))
            yield entries
            for head in heads:
                yield from sidset.chain(self._pager, head)
            number = following if forward else previous
