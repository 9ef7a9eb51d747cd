"""Comparisons of two attributes, a whole batch at a time where the columns allow it."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Bools, Ragged
from tocsin.model.condition import AttributeComparison, Op
from tocsin.model.events import EventBatch
from tocsin.model.expression_tree import expression_of, is_derived
from tocsin.model.functions import result_kind
from tocsin.model.predicate import Test
from tocsin.model.readable import Values, present
from tocsin.model.values import Kind, compare_values
from tocsin.predicates.definitions import DefinedFamily
from tocsin.predicates.protocol import Probed

_COMPARE = {
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.GE: pc.greater_equal,
    Op.GT: pc.greater,
}


_EXACT_AS_FLOAT = 2**53
"""Integers up to this are floats."""


class AttributeFamily(DefinedFamily):
    """Comparisons of two attributes: they are few, so each is judged by itself, for all events at once."""

    def __init__(self, attribute: str, tests: Sequence[Test]) -> None:
        super().__init__(attribute, tests)
        self._comparisons = [test for test in tests if isinstance(test, AttributeComparison)]
        self.attributes = {name for test in self._comparisons for name in (test.left, test.right)}
        self.kinds = set(kinds_told(self._comparisons))

    def probe(self, batch: EventBatch) -> Probed:
        """Judge every comparison for every event."""
        if batch.single is not None:
            return self._probe_one(batch)
        true = np.zeros((len(batch), self.count), bool)
        null = np.zeros_like(true)
        for number, test in enumerate(self._comparisons):
            compare_columns(test, batch, true[:, number], null[:, number])
        return Probed(Ragged.of_table(true), null=Ragged.of_table(null))

    def _probe_one(self, batch: EventBatch) -> Probed:
        """Judge every comparison for a batch of one event, without columns."""
        true, null = [], []
        for number, test in enumerate(self._comparisons):
            sign = compare_values(batch.value(test.left), batch.value(test.right))
            if sign is None:
                null.append(number)
            elif test.op.holds(sign):
                true.append(number)
        return _probed_one(tuple(true), tuple(null))


def kinds_told(comparisons: Sequence[AttributeComparison]) -> Iterator[tuple[str, Kind]]:
    """Give an attribute the kind of the expression that it is compared with: `day > date_trunc('month', now())`."""
    for test in comparisons:
        for name, other in ((test.left, test.right), (test.right, test.left)):
            kind = result_kind(expression_of(other)) if is_derived(other) else None
            if kind is not None:
                yield name, kind


@lru_cache(1000)
def _probed_one(true: tuple[int, ...], null: tuple[int, ...]) -> Probed:
    """Return what a single event makes of the tests. They are few, and to make arrays costs more than to compare."""
    lists = (Ragged(np.array([0, len(numbers)]), np.array(numbers, np.int32)) for numbers in (true, null))
    return Probed(next(lists), null=next(lists))


def compare_columns(test: AttributeComparison, batch: EventBatch, true: Bools, null: Bools) -> None:
    """Judge a comparison for a whole batch, row by row where Arrow does not compare the columns."""
    left, right = batch.column(test.left), batch.column(test.right)
    if left is None or right is None:
        null[:] = True
        return
    if not _alike(left, right):
        left, right = _as_floats(left), _as_floats(right)
    if _alike(left, right):
        null[:] = ~(present(left) & present(right))
        true[:] = np.asarray(_COMPARE[test.op](left, right).fill_null(False)) & ~null
        return
    pairs = zip(batch.values(test.left) or (), batch.values(test.right) or (), strict=True)
    for row, (value, other) in enumerate(pairs):
        sign = compare_values(value, other)
        null[row], true[row] = sign is None, sign is not None and test.op.holds(sign)


def _as_floats(column: Values) -> Values:
    """Return integers as floats, if all of them are floats; any other column as it is."""
    if isinstance(column, list) or not pa.types.is_integer(column.type):
        return column
    ends = pc.min_max(column)
    if ends["min"].as_py() is None or max(-ends["min"].as_py(), ends["max"].as_py()) > _EXACT_AS_FLOAT:
        return column
    return column.cast(pa.float64())


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
