"""Access pairs, bitmaps and both together keep the contract of an index of conjunctions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from contracts.conjunction_index_contract import Case, ConjunctionIndexContract, Index
from tocsin.arrays import Bools, Float64s
from tocsin.conjunctions.bitmaps import build
from tocsin.conjunctions.bitmaps.match import BitmapIndex
from tocsin.conjunctions.choose import CombinedIndex
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
    """Rows for columns that one conjunction names, in few or many cells, and edges everywhere."""

    def build(self, case: Case) -> Index:
        cells = 4 << case.conjunctions.count % 5
        with pytest.MonkeyPatch.context() as patch:
            small = replace(TUNING, min_named=1, named_per_cell=1, min_row_cells=cells, edge_matches=-1.0)
            patch.setattr(build, "TUNING", small)
            return BitmapIndex.build(case.conjunctions, case.popularity)


class TestCombined(ConjunctionIndexContract):
    def build(self, case: Case) -> Index:
        return CombinedIndex.build(filing_of(case))

    def from_arrays(self, arrays: Arrays) -> Index:
        return CombinedIndex.from_arrays(arrays)


class TestCombinedHalfInBitmaps(TestCombined):
    def build(self, case: Case) -> Index:
        def every_other(_: Float64s, can_be: Bools) -> Bools:
            chosen: Bools = can_be & (np.arange(can_be.size) % 2 == 0)
            return chosen

        return CombinedIndex._of(filing_of(case), every_other)


class TestCombinedByOneWay(TestCombined):
    def build(self, case: Case) -> Index:
        return CombinedIndex.by_one_way(filing_of(case), in_bitmaps=True)
