"""The PB+tree under the protocol of all interval indexes: predicates over codes, on disk.

Codes are not negative, so the same tree has room for a second map under negative keys: predicate ``p`` has the sorted
first and last codes of its ranges as the ids of the equalities with ``-p - 1``. So a predicate can be deleted by its
number, both maps are committed at once, and no table in memory grows with the predicates.
"""

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tocsin.arrays import Int32s, Int64s, UInt8s
from tocsin.errors import OptionError, StorageError
from tocsin.papers.pbtree.keys import Key
from tocsin.papers.pbtree.leaves import Outline
from tocsin.papers.pbtree.phase1 import ANY_HIT, EVEN_HITS, KIND_BITS, ODD_HITS, predicates_that_hold
from tocsin.papers.pbtree.tree import CACHE_BYTES, PBPlusTree
from tocsin.papers.tatbul.drawing import Drawing, as_svg, as_text
from tocsin.papers.tatbul.kernels import CODE_MAX
from tocsin.papers.tatbul.layers import bitmap, plain_names
from tocsin.papers.tatbul.protocol import Answers, CodeNames
from tocsin.papers.tatbul.structure import Entries

LEAST, GREATEST = -(2**63), 2**63 - 1

Rows = tuple[list[str], Int64s, Int64s]


class PBTreeIndex:
    """Which predicates, unions of ranges of codes, hold for a code; the predicates stay on disk.

    `evaluations` counts page accesses, the currency of an index on disk. Without a path the file is temporary.

    >>> index = PBTreeIndex.build([3, 5, 9], [7, 15, 13])
    >>> index.probe(5).tolist()
    [0, 1]
    >>> index.close()
    """

    def __init__(self, tree: PBPlusTree) -> None:
        self.tree = tree
        self.evaluations = 0

    @classmethod
    def build(
        cls,
        lo: npt.ArrayLike,
        hi: npt.ArrayLike,
        predicate: npt.ArrayLike | None = None,
        *,
        path: str | Path | None = None,
        page_size: int = 4096,
        cache_bytes: int = CACHE_BYTES,
    ) -> Self:
        """Index the ranges from ``lo[i]`` to ``hi[i]`` of predicate ``predicate[i]``, or of predicate ``i``; commit."""
        entries = Entries.of(lo, hi, predicate)
        folder = None
        if path is None:
            folder = tempfile.mkdtemp(prefix="tocsin-")
            path = Path(folder, "index.pbt")
        index = cls(PBPlusTree.create(path, "integer", page_size=page_size, cache_bytes=cache_bytes))
        if folder is not None:
            weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
        index.tree.insert_many(*_rows(entries))
        index.tree.commit()
        return index

    @classmethod
    def open(cls, path: str | Path, *, cache_bytes: int = CACHE_BYTES) -> Self:
        """Open an index that `build` made with a path, as its last commit left it."""
        return cls(PBPlusTree.open(path, cache_bytes=cache_bytes))

    @classmethod
    def mapped(cls, image: UInt8s, *, cache_bytes: int = CACHE_BYTES) -> Self:
        """Open an index that `image` gave, where it lies, without building anything; it takes no changes."""
        return cls(PBPlusTree.mapped(image, cache_bytes))

    def image(self) -> UInt8s:
        """The whole index as its last commit left it, as bytes."""
        return self.tree.image()

    def probe(self, code: int) -> Int32s:
        """Return the predicates that hold for `code`, sorted. One search of the tree."""
        if code < 0:
            return np.empty(0, np.int32)
        before = self.tree.statistics.page_accesses
        found = predicates_that_hold(self.tree.search(int(code)))
        self.evaluations += self.tree.statistics.page_accesses - before
        # Whatever a page holds, a matcher gets numbers that it can look up.
        return found[(found >= 0) & (found < 2**31)].astype(np.int32)

    def probe_batch(self, codes: npt.ArrayLike) -> Answers:
        """Return the predicates that hold for each of `codes`, sorted for each."""
        found = [self.probe(code) for code in np.asarray(codes, np.int64).tolist()]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(ids) for ids in found], dtype=np.int64)])
        return Answers(offsets, np.concatenate([np.empty(0, np.int32), *found]))

    def probe_bitmap(self, code: int) -> BitMap:
        """Return the predicates that hold for `code` as a bitmap."""
        return bitmap(self.probe(code))

    def insert(self, predicate: int, lo: int, hi: int) -> None:
        """Add a range to a predicate, new or known; an empty range adds nothing. Rewrites what the predicate has."""
        if predicate < 0 or lo < 0:
            raise OptionError(f"predicate {predicate} or its first code {lo} is negative", "Codes and ids begin at 0")
        if lo > hi:
            return
        firsts, lasts = self._ranges(predicate)
        self._replace(predicate, firsts, lasts, np.append(firsts, lo), np.append(lasts, hi))

    def delete(self, predicate: int) -> None:
        """Remove a predicate with all its ranges. OptionError if the index has no such predicate."""
        firsts, lasts = self._ranges(predicate)
        if not len(firsts):
            raise OptionError(f"the index has no predicate {predicate}", "Insert it before you delete it")
        self._replace(predicate, firsts, lasts, firsts[:0], lasts[:0])

    def _ranges(self, predicate: int) -> tuple[Int64s, Int64s]:
        bounds = self.tree.sids("=", -predicate - 1)
        return bounds[::2] >> 1, bounds[1::2] >> 1

    def _replace(self, predicate: int, lo: Int64s, hi: Int64s, new_lo: Int64s, new_hi: Int64s) -> None:
        """Change the ranges of a predicate; only what differs is written."""
        old, new = self._stored(predicate, lo, hi), self._stored(predicate, new_lo, new_hi)
        for row in old - new:
            self.tree.delete(*row)
        for row in new - old:
            self.tree.insert(*row)

    def _stored(self, predicate: int, lo: Int64s, hi: Int64s) -> set[tuple[str, Key, int]]:
        """What the tree stores for one predicate."""
        ops, keys, sids = _rows(Entries.of(lo, hi, np.full(len(lo), predicate)))
        return set(zip(ops, keys.tolist(), sids.tolist(), strict=True))

    def commit(self) -> None:
        """Make all changes so far durable."""
        self.tree.commit()

    def close(self) -> None:
        """Close the file; drop what is not committed."""
        self.tree.close()

    @property
    def nodes(self) -> int:
        """The number of pages in use."""
        return self.tree.statistics.pages - self.tree.statistics.free_pages - 1

    @property
    def nbytes(self) -> int:
        """The bytes of the file."""
        return self.tree.statistics.bytes

    def check(self) -> None:
        """Verify the tree, and that both maps say the same. StorageError names what is wrong."""
        self.tree.check()
        stored = set(self.tree.predicates())
        owned = {-key - 1 for op, key, _ in stored if op == "=" and key < 0}
        for predicate in owned:
            rows = self._stored(predicate, *self._ranges(predicate))
            if not rows <= stored:
                raise StorageError(f"predicate {predicate} is not searched by its ranges", "Build the index again")
            stored -= rows
        if stored:
            raise StorageError(f"{len(stored)} ends of ranges belong to no predicate", "Build the index again")

    def drawing(self, names: CodeNames | None = None, depth: int = 8) -> Drawing:
        """Return the tree of pages to be shown."""
        return _drawing(self.tree.outline(depth), names or plain_names)

    def draw(self, code: int | None = None, names: CodeNames | None = None, depth: int = 8) -> str:
        """Return the tree of pages as text down to `depth`, with the path of `code` marked."""
        return as_text(self.drawing(names, depth), code)

    def draw_svg(self, code: int | None = None, names: CodeNames | None = None, depth: int = 8) -> str:
        """Return the tree of pages as an SVG image down to `depth`, with the path of `code` marked."""
        return as_svg(self.drawing(names, depth), code)


def _rows(entries: Entries) -> Rows:
    """What the tree stores for ranges in normal form: predicates to search, and each predicate's own ranges.

    A first code is never infinite here: code 0 is the least. See `phase1` for the parity of hits.
    """
    lo, hi, owner = (column.astype(np.int64) for column in entries)
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    number = np.cumsum(np.diff(owner, prepend=-1) != 0) - 1  # of the predicate among those given
    several = np.bincount(number, minlength=len(starts))
    others = np.zeros(len(starts), np.bool_)  # predicates that hold for all codes but one
    pairs = starts[several == 2]
    others[several == 2] = (lo[pairs] == 0) & (hi[pairs + 1] == CODE_MAX) & (hi[pairs] + 2 == lo[pairs + 1])
    point = lo == hi
    wide = ~point & ~others[number]
    bounded = wide & (hi < CODE_MAX)
    hits = np.bincount(number, wide, len(starts)) + 1 - np.bincount(number, wide & ~bounded, len(starts))
    kind = np.where(hits % 2 == 1, ODD_HITS, EVEN_HITS)[number]
    single, shared = owner << KIND_BITS | ANY_HIT, owner << KIND_BITS | kind
    excluded = starts[others]
    point &= ~others[number]
    parts = [
        ("=", lo[point], single[point]),
        ("!=", hi[excluded] + 1, single[excluded]),
        (">=", lo[wide], shared[wide]),
        ("<=", hi[bounded], shared[bounded]),
        ("=", -owner - 1, 2 * lo),
        ("=", -owner - 1, 2 * hi + 1),
    ]
    ops = [op for op, keys, _ in parts for _ in range(len(keys))]
    return ops, np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])


def _drawing(outline: Outline, names: CodeNames, first: int = LEAST, last: int = GREATEST) -> Drawing:
    """Draw the pages below one page, which leads to the keys from `first` to `last`: inner pages, leaves, pointers."""
    below = [first, *outline.keys]
    upto = [key - 1 for key in outline.keys] + [last]
    children = tuple(
        _drawing(child, names, low, high) for child, low, high in zip(outline.children, below, upto, strict=False)
    )
    if outline.level:
        label = f"page {outline.page} splits at {', '.join(names(key, key) for key in outline.keys[:4])}"
        return Drawing(first, last, label + (", ..." if len(outline.keys) > 4 else ""), children=children)
    pointed = (
        f"{symbol} {','.join(map(str, sorted(pages)))}"
        for symbol, pages in zip(("GT", "LT", "INEQ"), outline.pointers, strict=True)
        if pages
    )
    return Drawing(first, last, f"leaf {outline.page}: {len(outline.keys)} keys", "  ".join(pointed))
