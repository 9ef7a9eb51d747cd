"""Costs that are estimated part by part are those of all conjunctions at once."""

import numpy as np
import pytest

from contracts.conjunction_index_contract import random_case
from tocsin.conjunctions import estimate
from tocsin.conjunctions.coded import range_predicates
from tocsin.conjunctions.pairs.build import prepare


@pytest.mark.parametrize("at_once", [1, 40, 1 << 21])
@pytest.mark.parametrize("conjunctions", [0, 1, 150])
def test_costs_in_bitmaps_by_parts(conjunctions: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(3, conjunctions=conjunctions, events=1, columns=4, tests=2, span=40)
    prepared = prepare(case.conjunctions, case.popularity, np.full(conjunctions, -1, np.int32), {})
    predicates = prepared.predicates
    columns = np.unique(predicates.column).size
    at_a_time = estimate._cost_in_bitmaps(predicates, conjunctions, columns, estimate._columns_in_use(predicates))
    monkeypatch.setattr(estimate, "_AT_ONCE", at_once)
    assert estimate.cost_in_bitmaps(prepared).tolist() == at_a_time.tolist()


def test_a_part_of_predicates_is_numbered_from_0_on() -> None:
    case = random_case(1, conjunctions=20, events=1, columns=4, tests=0, span=40)
    predicates = range_predicates(case.conjunctions, case.popularity)
    part = predicates.part(5, 9)
    inside = (predicates.conjunction >= 5) & (predicates.conjunction < 9)
    assert (part.conjunction + 5).tolist() == predicates.conjunction[inside].tolist()
    assert part.selectivity.tolist() == predicates.selectivity[inside].tolist()
    assert np.diff(part.starts).tolist() == np.diff(predicates.starts)[5:9].tolist()
