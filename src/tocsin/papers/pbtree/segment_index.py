"""`Matcher(index="pbtree")`: trees and conjunctions of a segment lie in its file and are mapped, not built again.

A segment never changes: new subscriptions get a segment and trees of their own, which a merge joins with others.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.conjunctions.coded import Conjunctions
from tocsin.papers.pbtree.index import PBTreeIndex
from tocsin.papers.tatbul.two_phase import PHASE_2, Choice, TestTerms, TwoPhaseIndex

TREE, LISTS = "pbtree.", "lists."


class PBTreeSegmentIndex(TwoPhaseIndex):
    """Conjunctions by a PB+tree for each column, and a matcher of conjunctions, both in the file of a segment."""

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
        self._shifts = dict(arrays[f"{TREE}shifts"].tolist())
        self._on_disk = {column: PBTreeIndex.mapped(arrays[f"{TREE}{column}"]) for column in self._shifts}
        self._indexes = {**self._on_disk}
        self.choices = [Choice(column, index, "asked for") for column in self._shifts]
        self._terms = int(arrays[f"{TREE}terms"][0])
        self._tests = TestTerms(conjunctions, self._terms)
        lists = {name.removeprefix(LISTS): array for name, array in arrays.items() if name.startswith(LISTS)}
        self._phase_2_name = "key" if matcher == "auto" else matcher
        self._phase_2 = PHASE_2[self._phase_2_name].from_arrays(lists)

    def derived_bytes(self) -> dict[str, int]:
        """Nothing: all that matching needs is in `arrays`."""
        return {}
