"""The five predicates that docs/internals/pbtree.md works through by hand."""

from collections.abc import Callable

from tocsin.papers.pbtree import PBPlusTree
from tocsin.papers.pbtree.items import COUNT, Items

FIVE = [(">", 10), ("<=", 20), ("=", 15), ("!=", 15), (">=", 15)]


def test_the_worked_note(new_tree: Callable[..., PBPlusTree]) -> None:
    tree = new_tree(page_size=4096)
    for sid, (op, key) in enumerate(FIVE):
        tree.insert(op, key, sid)

    def page(number: int) -> Items:
        return Items.decode(tree._pager.read(number), tree._keys)

    leaf = page(1)
    assert leaf.keys == [10, 15, 20]
    assert (leaf.words & COUNT).tolist() == [0, 2, 1]
    assert [f"{leaf.members(i):03b}" for i in range(3)] == ["001", "101", "010"]
    assert leaf.entries.tolist() == [8, 18, 5]
    assert leaf.pointers.tolist() == [[2, 2, 2], [3, 3, 3], [0, 4, 4]]
    assert [(page(n).keys, page(n).entries.tolist()) for n in (2, 3, 4)] == [
        ([10, 15], [3, 18]),
        ([20], [5]),
        ([15], [15]),
    ]
    assert tree.search(15).tolist() == [0, 1, 2, 4]
    assert tree.search(12).tolist() == [0, 1, 3]
    before = tree.statistics.page_accesses
    tree.search(12)
    assert tree.statistics.page_accesses - before == 4
