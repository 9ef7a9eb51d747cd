"""Comparisons of two attributes by columns say what the definition says row by row, and survive their arrays."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from tocsin.arrays import Ragged
from tocsin.model.condition import AttributeComparison, Op
from tocsin.model.events import EventBatch
from tocsin.predicates.attributes.family import AttributeFamily
from tocsin.predicates.evaluate import evaluate_test
from tocsin.predicates.families import family_of

COLUMNS = {
    "int": pa.array([1, 2, None, 3, 2**53 + 1]),
    "float": pa.array([1.0, 2.5, 3.0, float("nan"), 2.0**53]),
    "small": pa.array([1, -2, None, 3, 2**53]),
    "unsigned": pa.array([1, 2, None, 3, 2**64 - 1], pa.uint64()),
    "text": pa.array(["a", "b", None, "1", ""]),
    "flag": pa.array([True, False, None, True, False]),
}
PAIRS = [*product(COLUMNS, COLUMNS), ("int", "missing")]


def lists(slices: Ragged) -> list[list[int]]:
    return [part.tolist() for part in np.split(slices.values, slices.starts[1:-1])]


@pytest.mark.parametrize("columnar", [True, False])
def test_columns_say_what_rows_say(columnar: bool) -> None:
    tests = [AttributeComparison(left, op, right) for left, right in PAIRS for op in Op]
    table = pa.RecordBatch.from_pydict(COLUMNS)
    rows = table.to_pylist()
    family = AttributeFamily.build("", tests, {})
    assert {family_of(test) for test in tests} == {("attributes", "")}
    assert family.attributes == {*COLUMNS, "missing"}
    for each in (family, AttributeFamily.from_arrays("", family.arrays())):
        probed = each.probe(EventBatch(table if columnar else rows))
        truths = [[evaluate_test(test, row) for test in tests] for row in rows]
        assert probed.null is not None
        assert lists(probed.true) == [[n for n, truth in enumerate(row) if truth is True] for row in truths]
        for row, of_row in zip(rows, truths, strict=True):
            alone = each.probe(EventBatch([row]))
            assert alone.null is not None
            assert lists(alone.true) == [[n for n, truth in enumerate(of_row) if truth is True]]
            assert lists(alone.null) == [[n for n, truth in enumerate(of_row) if truth is None]]
        assert lists(probed.null) == [[n for n, truth in enumerate(row) if truth is None] for row in truths]
