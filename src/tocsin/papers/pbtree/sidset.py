"""The SidSet of an item: sorted entries inside the item, or, when they are many, a chain of overflow pages.

The chain is in descending order of entry. Predicate ids mostly grow, so a new one goes into the first page: one page,
however long the chain. Any other entry is found by walking: O(entries / entries per page).
"""

import numpy as np

from tocsin.arrays import Int64s
from tocsin.papers.pbtree.items import Items
from tocsin.papers.pbtree.pager import Pager
from tocsin.papers.pbtree.pages import Overflow, inline_limit, overflow_capacity


def chain(pager: Pager, head: int) -> list[Int64s]:
    """The entries of every page of a chain."""
    found = []
    while head:
        page = Overflow.decode(pager.read(head))
        found.append(page.entries)
        head = page.next
    return found


def entries(pager: Pager, items: Items, i: int) -> Int64s:
    """All entries of item `i`, in no order."""
    head = items.head(i)
    return np.concatenate(chain(pager, head)) if head else items.inline(i)


def add(pager: Pager, items: Items, i: int, entry: int) -> bool:
    """Add an entry to the set of item `i`; False if it is there already. The caller stores the page of items."""
    if items.head(i):
        return _add_to_chain(pager, items, i, entry)
    inline = items.inline(i)
    at = int(np.searchsorted(inline, entry))
    if at < len(inline) and inline[at] == entry:
        return False
    grown = np.insert(inline, at, entry)
    if len(grown) <= inline_limit(pager.page_size):
        items.set_inline(i, grown)
        return True
    items.set_inline(i, grown[:0])
    items.set_head(i, _write(pager, Overflow(pager.allocate(), 0, grown)))
    return True


def remove(pager: Pager, items: Items, i: int, entry: int) -> bool:
    """Remove an entry from the set of item `i`; False if it is not there. The caller stores the page of items."""
    if items.head(i):
        return _remove_from_chain(pager, items, i, entry)
    inline = items.inline(i)
    at = int(np.searchsorted(inline, entry))
    if at == len(inline) or inline[at] != entry:
        return False
    items.set_inline(i, np.delete(inline, at))
    return True


def _write(pager: Pager, page: Overflow) -> int:
    pager.write(page.number, page.encode(pager.page_size))
    return page.number


def _link(pager: Pager, items: Items, i: int, before: Overflow | None, number: int) -> None:
    """Let `before`, or the item where there is none, point to page `number`."""
    if before is None:
        items.set_head(i, number)
    else:
        before.next = number
        _write(pager, before)


def _find(pager: Pager, head: int, entry: int) -> tuple[Overflow | None, Overflow]:
    """The page where `entry` is or belongs, and the one before it in the chain."""
    before, page = None, Overflow.decode(pager.read(head))
    while entry < page.entries[0] and page.next:
        before, page = page, Overflow.decode(pager.read(page.next))
    return before, page


def _add_to_chain(pager: Pager, items: Items, i: int, entry: int) -> bool:
    before, page = _find(pager, items.head(i), entry)
    at = int(np.searchsorted(page.entries, entry))
    if at < len(page.entries) and page.entries[at] == entry:
        return False
    page.entries = np.insert(page.entries, at, entry)
    capacity = overflow_capacity(pager.page_size)
    if len(page.entries) > capacity:
        # A growing id leaves full pages behind; any other entry splits its page in the middle.
        cut = capacity if at == capacity and before is None else len(page.entries) // 2
        upper = Overflow(pager.allocate(), page.number, page.entries[cut:])
        page.entries = page.entries[:cut]
        _link(pager, items, i, before, _write(pager, upper))
    _write(pager, page)
    return True


def _remove_from_chain(pager: Pager, items: Items, i: int, entry: int) -> bool:
    before, page = _find(pager, items.head(i), entry)
    at = int(np.searchsorted(page.entries, entry))
    if at == len(page.entries) or page.entries[at] != entry:
        return False
    page.entries = np.delete(page.entries, at)
    if len(page.entries) == 0:
        _link(pager, items, i, before, page.next)
        pager.release(page.number)
        return True
    capacity = overflow_capacity(pager.page_size)
    if page.next and len(page.entries) < capacity // 4:
        following = Overflow.decode(pager.read(page.next))
        if len(page.entries) + len(following.entries) <= capacity:
            page.entries = np.concatenate([following.entries, page.entries])
            page.next = following.next
            pager.release(following.number)
    if before is None and not page.next and len(page.entries) <= inline_limit(pager.page_size) // 2:
        items.set_head(i, 0)
        items.set_inline(i, page.entries)
        pager.release(page.number)
        return True
    _write(pager, page)
    return True
