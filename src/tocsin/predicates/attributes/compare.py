"""Comparisons of two attributes, a whole batch at a time where the columns allow it."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.condition import AttributeComparison, Op
from tocsin.model.events import EventBatch
from tocsin.model.readable import Values, present
from tocsin.model.values import compare_values

_COMPARE = {
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.GE: pc.greater_equal,
    Op.GT: pc.greater,
}

Bools = npt.NDArray[np.bool_]


def compare_columns(test: AttributeComparison, batch: EventBatch, true: Bools, null: Bools) -> None:
    """Judge a test for a whole batch."""
    left, right = batch.column(test.left), batch.column(test.right)
    if left is None or right is None:
        null[:] = True
        return
    if _alike(left, right):
        null[:] = ~(present(left) & present(right))
        true[:] = np.asarray(_COMPARE[test.op](left, right).fill_null(False)) & ~null
        return
    pairs = zip(batch.values(test.left) or (), batch.values(test.right) or (), strict=True)
    for row, (value, other) in enumerate(pairs):
        sign = compare_values(value, other)
        null[row], true[row] = sign is None, sign is not None and test.op.holds(sign)


def _alike(left: Values, right: Values) -> bool:
    """Whether Arrow compares the two columns exactly, as Tocsin does."""
    if isinstance(left, list) or isinstance(right, list):
        return False
    types, one, other = pa.types, left.type, right.type
    if types.is_floating(one) and types.is_floating(other):
        return True
    if types.is_signed_integer(one) and types.is_signed_integer(other):
        return True
    # Durations and times of day have an order in Arrow, but are of no kind that compares here.
    is_kind = types.is_string(one) or types.is_large_string(one) or types.is_boolean(one) or types.is_timestamp(one)
    return bool(one == other and (is_kind or types.is_date32(one)))
