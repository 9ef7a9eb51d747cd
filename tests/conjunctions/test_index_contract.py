"""Access pairs, bitmaps and both together keep the contract of an index of conjunctions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from contracts.conjunction_index_contract import Case, ConjunctionIndexContract, Index
from tocsin.arrays import Bools, Float64s, Int32s
from tocsin.conjunctions.bitmaps import build
from tocsin.conjunctions.bitmaps.match import BitmapIndex
from tocsin.conjunctions.choose import CombinedIndex, _cheaper
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.common.index import _can_be_common
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.conjunctions.protocol import Filing
from tocsin.tuning import TUNING

Arrays = Mapping[str, npt.NDArray[Any]]


def filing_of(case: Case) -> Filing:
    """A case as a segment hands it over; Key gets nothing."""
    tests = case.conjunctions.test_null_column.size
    return Filing(
        case.conjunctions,
        case.conjunctions.count,
        case.popularity,
        case.filed_under,
        np.ones(tests),
        {},
        np.zeros(tests, bool),
    )


class TestPairs(ConjunctionIndexContract):
    def build(self, case: Case) -> Index:
        return PairIndex.build(case.conjunctions, case.popularity, case.filed_under)

    def from_arrays(self, arrays: Arrays) -> Index:
        return PairIndex.from_arrays(arrays)


class TestBitmaps(ConjunctionIndexContract):
    def build(self, case: Case) -> Index:
        return BitmapIndex.build(case.conjunctions, case.popularity)

    def from_arrays(self, arrays: Arrays) -> Index:
        return BitmapIndex.from_arrays(arrays)


class TestBitmapsWithManyRows(TestBitmaps):
    """Rows for columns that one conjunction names, in few or many cells; all conjunctions in dense blocks, or half."""

    def build(self, case: Case) -> Index:
        cells = 4 << case.conjunctions.count % 5
        with pytest.MonkeyPatch.context() as patch:
            named = {"min_named": 1, "min_named_dense": 1, "named_per_cell": 2, "min_row_cells": cells}
            patch.setattr(build, "TUNING", replace(TUNING, **named, dense_matches=-1.0, min_dense=0))
            return BitmapIndex.build(case.conjunctions, case.popularity)


class TestCombined(ConjunctionIndexContract):
    def build(self, case: Case) -> Index:
        return CombinedIndex.build(filing_of(case))

    def from_arrays(self, arrays: Arrays) -> Index:
        return CombinedIndex.from_arrays(arrays)


class TestCombinedHalfInBitmaps(TestCombined):
    def build(self, case: Case) -> Index:
        def every_other(_: Float64s, __: Float64s, can_be: Bools) -> Bools:
            chosen: Bools = can_be & (np.arange(can_be.size) % 2 == 0)
            return chosen

        filing = filing_of(case)
        return CombinedIndex._of(filing, every_other, np.zeros(filing.split, bool))


class Expanded:
    """An index whose blocks are found by their conjunctions."""

    def __init__(self, index: CombinedIndex) -> None:
        self._index, self.arrays, self.check = index, index.arrays, index.check

    def match(self, events: Events) -> tuple[Int32s, int]:
        pairs, candidates = self._index.match(events)
        blocks = self._index.found_as_one
        if blocks is None:
            return pairs, candidates
        first = self._index.split
        whole = [(event, number - first) for event, number in pairs.tolist() if number >= first]
        expanded = [
            (event, conjunction)
            for event, block in whole
            for conjunction in blocks.values[blocks.starts[block] : blocks.starts[block + 1]].tolist()
        ]
        rows = np.array(expanded, np.int32).reshape(-1, 2)
        return np.concatenate([pairs[pairs[:, 1] < first], rows]), candidates


class TestCombinedInBlocks(TestCombined):
    """Whatever can be in a block is, or every other one of them."""

    def build(self, case: Case) -> Index:
        filing = filing_of(case)
        common = _can_be_common(filing)
        if filing.split % 2:
            common[::2] = False
        return Expanded(CombinedIndex._of(filing, _cheaper, common))

    def from_arrays(self, arrays: Arrays) -> Index:
        return Expanded(CombinedIndex.from_arrays(arrays))


class TestCombinedByOneWay(TestCombined):
    def build(self, case: Case) -> Index:
        return CombinedIndex.by_one_way(filing_of(case), in_bitmaps=True)
