"""`Matcher(index="pbtree")`: trees and conjunctions of a segment lie in its file and are mapped, not built again.

A segment never changes: new subscriptions get a segment and trees of their own, which a merge joins with others.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.conjunctions.coded import Conjunctions
from tocsin.conjunctions.protocol import Extent
from tocsin.invariants import BrokenInvariantError, check_type, check_within, demand, under
from tocsin.papers.pbtree.index import PBTreeIndex
from tocsin.papers.tatbul.two_phase import PHASE_2, Choice, TestTerms, TwoPhaseIndex

TREE, LISTS = "pbtree.", "lists."
CACHE_BYTES = 1 << 18
"""Decoded pages of each tree that stay in memory: those near the root. The others are in the cache of the system."""


@contextmanager
def _pages_of(column: int) -> Iterator[None]:
    """Name the array of a column's pages in whatever is wrong with them."""
    try:
        yield
    except Exception as error:
        raise BrokenInvariantError(f"{TREE}{column}", str(error)) from error


class PBTreeSegmentIndex(TwoPhaseIndex):
    """Conjunctions by a PB+tree for each column, and a matcher of conjunctions, both in the file of a segment."""

    stays_on_disk: ClassVar[bool] = True

    def __init__(self, conjunctions: Conjunctions, index: str, matcher: str) -> None:
        self._on_disk: dict[int, PBTreeIndex] = {}
        super().__init__(conjunctions, index, matcher)

    def _phase_1(self, column: int, rows: Int64s, predicate: Int32s) -> PBTreeIndex:
        low, high = self._shifted(column, rows)
        self.choices.append(Choice(column, self.index, "asked for"))
        self._on_disk[column] = PBTreeIndex.build(low, high, predicate)
        return self._on_disk[column]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The conjunctions, every tree as its pages, and the lists of the matcher."""
        shifts = np.array(list(self._shifts.items()), np.int64).reshape(-1, 2)
        arrays = super().arrays() | {f"{TREE}shifts": shifts, f"{TREE}terms": np.array([self._terms], np.int64)}
        arrays |= {f"{TREE}{column}": tree.image() for column, tree in self._on_disk.items()}
        return arrays | {f"{LISTS}{name}": array for name, array in self._phase_2.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], algorithms: tuple[str, str]) -> Self:
        """Open the trees where they lie. Reads a page of each."""
        opened = cls.__new__(cls)
        opened._open(cls.stored(arrays), arrays, *algorithms)
        return opened

    def _open(
        self, conjunctions: Conjunctions, arrays: Mapping[str, npt.NDArray[Any]], index: str, matcher: str
    ) -> None:
        self._conjunctions, self.index, self.matcher = conjunctions, index, matcher
        check_type(f"{TREE}shifts", arrays[f"{TREE}shifts"], np.int64, 2)
        self._shifts = dict(arrays[f"{TREE}shifts"].tolist())
        self._on_disk = {}
        for column in self._shifts:
            with _pages_of(column):
                self._on_disk[column] = PBTreeIndex.mapped(arrays[f"{TREE}{column}"], cache_bytes=CACHE_BYTES)
        self._indexes = {**self._on_disk}
        self.choices = [Choice(column, index, "asked for") for column in self._shifts]
        self._terms = int(arrays[f"{TREE}terms"][0])
        self._tests = TestTerms(conjunctions, self._terms)
        lists = {name.removeprefix(LISTS): array for name, array in arrays.items() if name.startswith(LISTS)}
        self._phase_2_name = "key" if matcher == "auto" else matcher
        self._phase_2 = PHASE_2[self._phase_2_name].from_arrays(lists)

    def check_arrays(self, bounds: Extent) -> None:
        """Demand what keeps the kernels within their arrays, and sound trees: 3 s for a million predicates."""
        super().check_arrays(bounds)
        check_within(f"{TREE}terms", np.array([self._terms]), 0, 2**30)
        named = self._terms + 3 * self._conjunctions.test_null_column.size
        demand(self._phase_2.predicate_count == named, f"{TREE}terms", f"the matcher does not know {named} terms")
        for column, tree in self._on_disk.items():
            demand(0 <= column < self._conjunctions.last_code.size, f"{TREE}shifts", "there is no such column")
            demand(self._shifts[column] in (0, 1), f"{TREE}shifts", "a shift is neither 0 nor 1")
            with _pages_of(column):
                tree.tree.check()
        with under(LISTS):
            self._phase_2.check_arrays(bounds.conjunctions)

    def derived_bytes(self) -> dict[str, int]:
        """Nothing: all that matching needs is in `arrays`."""
        return {}
