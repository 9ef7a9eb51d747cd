"""Comparisons of two attributes, a whole batch at a time where the columns allow it."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.condition import AttributeComparison, Op
from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.predicates.definitions import DefinedFamily
from tocsin.predicates.evaluate import evaluate_test
from tocsin.predicates.protocol import Bools, Probed, Slices

_COMPARE = {
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.GE: pc.greater_equal,
    Op.GT: pc.greater,
}


class AttributeFamily(DefinedFamily):
    """Comparisons of two attributes: they are few, so each is judged by itself, for all events at once."""

    def __init__(self, attribute: str, tests: Sequence[Test]) -> None:
        super().__init__(attribute, tests)
        self._comparisons = [test for test in tests if isinstance(test, AttributeComparison)]
        self.attributes = {name for test in self._comparisons for name in (test.left, test.right)}

    def probe(self, batch: EventBatch) -> Probed:
        """Judge every comparison for every event."""
        true = np.zeros((len(batch), self.count), bool)
        null = np.zeros_like(true)
        for number, test in enumerate(self._comparisons):
            if not compare_columns(test, batch, true[:, number], null[:, number]):
                for row in range(len(batch)):
                    truth = evaluate_test(test, batch.event(row))
                    true[row, number], null[row, number] = truth is True, truth is None
        return Probed(Slices.of_table(true), null=Slices.of_table(null))


def compare_columns(test: AttributeComparison, batch: EventBatch, true: Bools, null: Bools) -> bool:
    """Judge a test for a whole Arrow batch; return False, with nothing written, if values must be read row by row."""
    left, right = batch.column(test.left), batch.column(test.right)
    if isinstance(left, list) or isinstance(right, list):
        return False
    if left is None or right is None:
        null[:] = True
        return True
    if not _alike(left.type, right.type):
        return False
    answer = _COMPARE[test.op](left, right)
    missing = pc.or_(left.is_null(nan_is_null=True), right.is_null(nan_is_null=True))
    null[:] = np.asarray(missing)
    true[:] = np.asarray(answer.fill_null(False)) & ~null
    return True


def _alike(left: pa.DataType, right: pa.DataType) -> bool:
    """Tell whether Arrow compares the two types exactly, as Tocsin does."""
    types = pa.types
    if types.is_floating(left) and types.is_floating(right):
        return True
    if types.is_signed_integer(left) and types.is_signed_integer(right):
        return True
    return bool(left == right and (types.is_string(left) or types.is_boolean(left) or types.is_temporal(left)))
