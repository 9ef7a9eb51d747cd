"""The PB+tree of Wang, Zhang and Kitsuregawa: all predicates of one ordered attribute in one file."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int64s, UInt8s
from tocsin.papers.pbtree import bulk, sidset
from tocsin.papers.pbtree.check import check_tree
from tocsin.papers.pbtree.items import Items
from tocsin.papers.pbtree.keys import KEY_TYPE_NAMES, Key, key_type_named
from tocsin.papers.pbtree.leaves import Leaves, Outline
from tocsin.papers.pbtree.lists import GT, INEQ, LT, Lists
from tocsin.papers.pbtree.meta import Meta
from tocsin.papers.pbtree.operators import (
    OPERATORS,
    TAG_BITS,
    TAG_MASK,
    Operator,
    entry_of,
    operator_numbers,
    operator_of,
)
from tocsin.papers.pbtree.pager import MappedPager, Pager
from tocsin.papers.pbtree.pages import NO_ENTRIES

CACHE_BYTES = 64 << 20
LOG_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Statistics:
    """The size of a tree, and its work since it was opened."""

    predicates: int
    keys: int
    height: int
    pages: int
    free_pages: int
    bytes: int
    log_bytes: int
    cache_bytes: int
    page_reads: int
    page_writes: int
    cache_hits: int
    syncs: int

    @property
    def page_accesses(self) -> int:
        """Pages asked for, wherever they were found: what the paper's cost model counts."""
        return self.page_reads + self.cache_hits


class PBPlusTree:
    """A predicate index on disk for one ordered attribute: which predicates hold for a value?

    A predicate is an operator, a constant and an id (``sid``); the tree is a set of them. Changes are durable after
    `commit`; `close` drops those that were not committed. One process at a time, one thread at a time.

    >>> import tempfile
    >>> with PBPlusTree.create(tempfile.mkdtemp() + "/price.pbt", "integer") as tree:
    ...     _ = tree.insert(">", 10, sid=1), tree.insert("<=", 20, sid=2), tree.insert("!=", 15, sid=3)
    ...     tree.commit()
    ...     print(tree.search(15), tree.search(30))
    [1 2] [1 3]
    """

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        self._keys = key_type_named(KEY_TYPE_NAMES[pager.meta.key_type], pager.page_size)
        self._leaves = Leaves(pager, self._keys)
        self._lists = Lists(pager, self._keys, self._leaves)
        self._open = True

    @classmethod
    def create(
        cls,
        path: str | Path,
        key_type: str,
        *,
        page_size: int = 4096,
        cache_bytes: int = CACHE_BYTES,
        log_bytes: int = LOG_BYTES,
    ) -> "PBPlusTree":
        """Create an empty tree for ``"integer"``, ``"float"`` or ``"string"`` constants in a new file, and open it."""
        keys = key_type_named(key_type, page_size)
        Pager.create(Path(path), Meta(page_size, keys.number), [Items.leaf(1).encode(page_size, keys)])
        return cls.open(path, cache_bytes=cache_bytes, log_bytes=log_bytes)

    @classmethod
    def open(cls, path: str | Path, *, cache_bytes: int = CACHE_BYTES, log_bytes: int = LOG_BYTES) -> "PBPlusTree":
        """Open a tree as its last commit left it, however the process before ended. Reads the log and one page.

        The file is locked until `close`. Raises StorageError, naming the page, if the file is truncated or damaged;
        other pages are verified as they are read, all of them by `check`.
        """
        return cls(Pager.open(Path(path), cache_bytes, log_bytes))

    @classmethod
    def mapped(cls, image: UInt8s, cache_bytes: int = CACHE_BYTES) -> "PBPlusTree":
        """Open a tree that `image` gave, where it lies; it takes no changes. Reads one page."""
        return cls(MappedPager(image, cache_bytes))

    def image(self) -> UInt8s:
        """The whole tree as its last commit left it, as bytes."""
        return self._pager.image()

    def insert(self, op: str, key: object, sid: int) -> bool:
        """Add the predicate `op key` of `sid`; False if it is there already.

        Costs one page per level and one list page, now and then a split; a split of a list page visits every leaf that
        pointed to it.
        """
        operator = operator_of(op)
        return self._insert(operator, self._keys.constant(key), entry_of(operator, sid))

    def _insert(self, operator: Operator, constant: Key, entry: int) -> bool:
        with self._pager.change():
            leaf = self._leaves.find(constant)
            i, found = leaf.find(constant)
            if not found:
                leaf.insert(i, constant, self._leaves.neighbour_pointers(leaf, i))
                self._pager.meta.keys += 1
            if operator.in_leaf and not sidset.add(self._pager, leaf, i, entry):
                return False
            pointer = 0
            if operator.list is not None:
                leaf.set_members(i, leaf.members(i) | 1 << operator.list)
                pointer = int(leaf.pointers[operator.list, i])
            self._leaves.store(leaf)
            if operator.list is not None and not self._lists.insert(operator.list, constant, pointer, entry):
                return False
            self._pager.meta.predicates[operator.number] += 1
            return True

    def delete(self, op: str, key: object, sid: int) -> bool:
        """Remove the predicate `op key` of `sid`; False if it is not there. Costs what `insert` costs."""
        operator, constant = operator_of(op), self._keys.constant(key)
        entry = entry_of(operator, sid)
        with self._pager.change():
            leaf = self._leaves.find(constant)
            i, found = leaf.find(constant)
            if not found:
                return False
            which = operator.list
            if which is not None:
                if not leaf.members(i) & (1 << which):
                    return False
                removed, gone = self._lists.remove(which, constant, int(leaf.pointers[which, i]), entry)
                if not removed:
                    return False
                leaf = self._leaves.find(constant)  # the list may have moved its pointers
                i, _ = leaf.find(constant)
                if gone:
                    leaf.set_members(i, leaf.members(i) & ~(1 << which))
            if operator.in_leaf and not sidset.remove(self._pager, leaf, i, entry):
                return False
            self._pager.meta.predicates[operator.number] -= 1
            if leaf.members(i) or not leaf.is_empty(i):
                self._leaves.store(leaf)
            else:
                leaf.remove(i)
                self._pager.meta.keys -= 1
                self._leaves.shrink(leaf, constant)
            return True

    def search(self, value: object) -> Int64s:
        """The ids of all predicates that hold for `value`, ascending; an id stands once per predicate that holds.

        Reads one page per level, then the pages of the lists that hold the answer: log_B n + L / B (Figures 8 and 9).
        """
        probe = self._keys.probe(value)
        if probe is None:
            return NO_ENTRIES
        found = np.concatenate([NO_ENTRIES, *self._holding(probe)]) >> TAG_BITS
        found.sort()
        return found

    def _holding(self, value: Key) -> Iterator[Int64s]:
        leaf = self._leaves.find(value)
        if not leaf.keys:
            return
        i, found = leaf.find(value)
        if found:
            yield sidset.entries(self._pager, leaf, i)
        # No key lies between the value and this item, so its pointers serve even where the value is not a key.
        nearest = min(i, len(leaf.keys) - 1)
        for which in (INEQ, GT, LT):
            yield from self._lists.collect(which, value, int(leaf.pointers[which, nearest]))

    def insert_many(self, ops: npt.ArrayLike, keys: Any, sids: npt.ArrayLike, *, fill: float = 0.9) -> int:
        """Add many predicates given as columns (`ops` may be one operator for all); how many were new.

        An empty tree is built bottom up from sorted arrays, its pages filled to `fill`, and written once; a tree that
        has predicates takes them one by one, in key order.
        """
        constants = self._keys.constants(keys)
        numbers = np.broadcast_to(operator_numbers(ops), len(constants))
        ids = np.broadcast_to(np.asarray(sids, np.int64), len(constants))
        for bad in ids[(ids < 0) | (ids >> (63 - TAG_BITS) != 0)][:1]:
            entry_of(OPERATORS[0], int(bad))
        if not self._pager.meta.keys and len(constants):
            with self._pager.change():
                return bulk.build(self._pager, self._keys, numbers, constants, ids, fill)
        order = np.argsort(constants, kind="stable")
        listed = (numbers[order].tolist(), constants[order].tolist(), ids[order].tolist())
        return sum(
            self._insert(OPERATORS[number], constant, entry_of(OPERATORS[number], sid))
            for number, constant, sid in zip(*listed, strict=True)
        )

    def predicates(self) -> Iterator[tuple[str, Key, int]]:
        """Yield every predicate once, (op, key, sid): equalities, then each list, in key order. Do not change the tree.

        Reads every leaf and every list page.
        """
        pages = chain(self._leaves.pages(), *(self._lists.pages(which) for which in range(3)))
        for page in pages:
            operators = {each.tag: each.symbol for each in OPERATORS if each.list == page.list}
            for i, key in enumerate(page.keys):
                constant = key.decode("utf-8", "surrogatepass") if isinstance(key, bytes) else key
                for entry in sidset.entries(self._pager, page, i).tolist():
                    if entry & TAG_MASK in operators:
                        yield operators[entry & TAG_MASK], constant, entry >> TAG_BITS

    def sids(self, op: str, key: object) -> Int64s:
        """The ids of the predicates `op key`, ascending. Reads one page per level, and one list page unless `=`."""
        operator, constant = operator_of(op), self._keys.constant(key)
        page = self._leaves.find(constant)
        i, found = page.find(constant)
        if found and operator.list is not None:
            if not page.members(i) & (1 << operator.list):
                return NO_ENTRIES
            page = self._lists.load(int(page.pointers[operator.list, i]))
            i, found = page.find(constant)
        if not found:
            return NO_ENTRIES
        entries = sidset.entries(self._pager, page, i)
        return np.sort(entries[(entries & TAG_MASK) == operator.tag] >> TAG_BITS)

    def outline(self, depth: int = 8) -> Outline:
        """The pages from the root down, `depth` levels below it, for drawings."""
        return self._leaves.outline(depth)

    def commit(self) -> None:
        """Make all changes so far durable: one fsync of the log, now and then a checkpoint of the file."""
        self._pager.commit()

    def rollback(self) -> None:
        """Drop all changes since the last commit."""
        self._pager.rollback()

    def checkpoint(self) -> None:
        """Copy the committed pages of the log into the file and empty the log."""
        self._pager.checkpoint()

    def check(self) -> None:
        """Read every page and verify every invariant; StorageError names the page and the reason."""
        check_tree(self._pager, self._keys)

    @property
    def statistics(self) -> Statistics:
        """Sizes and counts; costs nothing."""
        meta, counters = self._pager.meta, self._pager.counters
        return Statistics(
            sum(meta.predicates),
            meta.keys,
            meta.height + 1,
            meta.pages,
            meta.free_pages,
            meta.pages * meta.page_size,
            self._pager.log_bytes,
            self._pager.cache_bytes,
            counters.page_reads,
            counters.page_writes,
            counters.cache_hits,
            counters.syncs,
        )

    def __len__(self) -> int:
        return sum(self._pager.meta.predicates)

    def close(self) -> None:
        """Drop uncommitted changes, empty the log into the file, and unlock it."""
        if self._open:
            self._open = False
            self._pager.close()

    def __enter__(self) -> "PBPlusTree":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
