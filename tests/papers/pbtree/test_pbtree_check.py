"""`check` finds each kind of damage that checksums cannot see: pages that are whole, but wrong."""

from collections.abc import Callable

import numpy as np
import pytest

from tocsin.errors import StorageError
from tocsin.papers.pbtree import PBPlusTree
from tocsin.papers.pbtree.items import Items
from tocsin.papers.pbtree.pages import Inner, Overflow, free_page

OPS = ["<", "<=", "=", "!=", ">=", ">"]
GT, LT, INEQ = 0, 1, 2


class Saboteur:
    """Changes pages of a tree behind its back."""

    def __init__(self, tree: PBPlusTree) -> None:
        self.pager = tree._pager
        self._keys = tree._keys

    def first_leaf(self) -> Items:
        number = self.pager.meta.root
        for _ in range(self.pager.meta.height):
            number = Inner.decode(self.pager.read(number), self._keys).children[0]
        return self.items(number)

    def items(self, number: int) -> Items:
        return Items.decode(self.pager.read(number), self._keys)

    def head(self, which: int) -> Items:
        return self.items(self.pager.meta.heads[which])

    def root(self) -> Inner:
        return Inner.decode(self.pager.read(self.pager.meta.root), self._keys)

    def write(self, page: Items | Inner) -> None:
        self.pager.write(page.number, page.encode(self.pager.page_size, self._keys))


def swap_keys(do: Saboteur) -> None:
    leaf = do.first_leaf()
    leaf.keys[0], leaf.keys[1] = leaf.keys[1], leaf.keys[0]
    do.write(leaf)


def wrong_separator(do: Saboteur) -> None:
    root = do.root()
    root.keys[0] += 1
    do.write(root)


def wrong_link(do: Saboteur) -> None:
    leaf = do.first_leaf()
    leaf.next = 0
    do.write(leaf)


def wrong_pointer(do: Saboteur) -> None:
    leaf = do.first_leaf()
    leaf.pointers[GT, -1] = 0
    do.write(leaf)


def forgotten_membership(do: Saboteur) -> None:
    leaf = do.first_leaf()
    leaf.set_members(0, leaf.members(0) ^ (1 << LT))
    do.write(leaf)


def lost_list_key(do: Saboteur) -> None:
    head = do.head(LT)
    head.keys[0] = -1000
    do.write(head)


def wrong_list_link(do: Saboteur) -> None:
    head = do.head(INEQ)
    second = do.items(head.next)
    second.prev = 0
    do.write(second)


def wrong_tail(do: Saboteur) -> None:
    do.pager.meta.tails[GT] = do.pager.meta.heads[GT]


def foreign_operator(do: Saboteur) -> None:
    head = do.head(INEQ)
    head.entries = head.entries & ~3
    do.write(head)


def unsorted_entries(do: Saboteur) -> None:
    head = do.head(INEQ)
    head.set_inline(0, head.inline(0)[::-1])
    do.write(head)


def only_in_the_leaf(do: Saboteur) -> None:
    head = do.head(GT)
    changed = head.entries.copy()
    changed[changed == (4 << 2 | 2)] -= 4  # another id, in the same order
    head.entries = changed
    do.write(head)


def miscounted_keys(do: Saboteur) -> None:
    do.pager.meta.keys += 1


def miscounted_predicates(do: Saboteur) -> None:
    do.pager.meta.predicates[3] += 1


def miscounted_free_pages(do: Saboteur) -> None:
    do.pager.meta.free_pages += 1


def lost_page(do: Saboteur) -> None:
    number = do.pager.allocate()
    do.pager.write(number, free_page(number, 0, do.pager.page_size))


def shared_page(do: Saboteur) -> None:
    root = do.root()
    root.children[1] = root.children[0]
    do.write(root)


def page_of_another_kind(do: Saboteur) -> None:
    root = do.root()
    root.children[0] = do.pager.meta.heads[LT]
    root.level = 1
    do.write(root)


def empty_overflow_page(do: Saboteur) -> None:
    page = next(page for page in _leaves(do) if page.heads)
    number = do.pager.allocate()
    do.pager.write(number, Overflow(number, page.heads[0], np.empty(0, np.int64)).encode(do.pager.page_size))
    page.heads[0] = number
    do.write(page)


def _leaves(do: Saboteur) -> list[Items]:
    leaves = [do.first_leaf()]
    while leaves[-1].next:
        leaves.append(do.items(leaves[-1].next))
    return leaves


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (swap_keys, "keys ascend"),
        (wrong_separator, "keys lie between the separators"),
        (wrong_link, "leaves are linked in key order"),
        (wrong_pointer, "items point to the GreaterThan page"),
        (forgotten_membership, "knows whether the LessThan list has it"),
        (lost_list_key, "every key of a list has a leaf item"),
        (wrong_list_link, "links of a list agree"),
        (wrong_tail, "knows the end of each list"),
        (foreign_operator, "predicates of its operators only"),
        (unsorted_entries, "entries of a SidSet ascend"),
        (only_in_the_leaf, "stands in its list and in its leaf item"),
        (miscounted_keys, "counts the keys"),
        (miscounted_predicates, "counts the predicates"),
        (miscounted_free_pages, "counts the free pages"),
        (lost_page, "in use or free"),
        (shared_page, "a page has one owner"),
        (page_of_another_kind, "a page has one owner|expected by what points to it"),
        (empty_overflow_page, "an empty overflow page is unlinked"),
    ],
)
def test_check_finds(damage: Callable[[Saboteur], None], reason: str, new_tree: Callable[..., PBPlusTree]) -> None:
    tree = new_tree(cache_bytes=1 << 20)
    for key in range(120):
        for number, op in enumerate(OPS):
            tree.insert(op, key, number)
            tree.insert(op, key, number + 10)
    for sid in range(100):
        tree.insert("=", 60, sid)
    tree.check()
    damage(Saboteur(tree))
    with pytest.raises(StorageError, match=rf"page \d+ of .*({reason})"):
        tree.check()
