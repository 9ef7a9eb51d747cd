"""Comparisons of two attributes, a whole batch at a time where the columns allow it."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.condition import AttributeComparison, Op
from tocsin.model.events import EventBatch

_COMPARE = {
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.GE: pc.greater_equal,
    Op.GT: pc.greater,
}

Bools = npt.NDArray[np.bool_]


def compare_columns(test: AttributeComparison, batch: EventBatch, true: Bools, null: Bools) -> bool:
    """Judge a test for a whole Arrow batch; False, with nothing written, if the columns must be read row by row."""
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
    """Whether Arrow compares the two types exactly, as Tocsin does."""
    types = pa.types
    if types.is_floating(left) and types.is_floating(right):
        return True
    if types.is_signed_integer(left) and types.is_signed_integer(right):
        return True
    return bool(left == right and (types.is_string(left) or types.is_boolean(left) or types.is_temporal(left)))
