"""Keep the tests on the history of a segment: EXISTS, ANY and ALL over earlier events."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Ragged
from tocsin.model.condition import Exists, HistoryTest, OldComparedToNew
from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.model.values import Kind
from tocsin.predicates.definitions import decode_tests, encode_tests
from tocsin.predicates.history.join_table import JoinTable, Truths, attributes_of
from tocsin.predicates.history.store import HistoryStore
from tocsin.predicates.protocol import Arrays, Probed

_STARTS = np.zeros(2, np.int64), np.array([0, 1], np.int64)
"""Where the list of the only event starts and ends, if it has no test, or one."""


class HistoryFamily:
    """All tests on the history in a segment; the matcher that owns the history judges them (`index/history.py`)."""

    texts = None
    kinds: Collection[tuple[str, Kind]] = ()

    def __init__(self, tests: Sequence[Test]) -> None:
        self.tests: list[HistoryTest] = [test for test in tests if isinstance(test, HistoryTest)]
        self.count = len(self.tests)
        self.attributes = attributes_of(self.tests)
        for test in self.tests:
            self.attributes |= {term.new for term in test.terms if isinstance(term, OldComparedToNew)}
            if not isinstance(test, Exists) and test.attribute is not None:
                self.attributes.add(test.attribute)

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> "HistoryFamily":  # noqa: ARG003  # for others
        """Make a family of the definitions."""
        return cls(tests)

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "HistoryFamily":  # noqa: ARG003
        """Read the definitions."""
        return cls(decode_tests(arrays))

    def arrays(self) -> Arrays:
        """Return the definitions as text."""
        return encode_tests(self.tests)

    def check_arrays(self) -> None:
        """Demand nothing: the definitions were read, and no kernel reads their arrays."""

    def kept(self, numbers: Int32s) -> set[str]:
        """Return the attributes of old events that these tests look at."""
        return attributes_of(self.tests[number] for number in numbers.tolist())

    def probe(self, batch: EventBatch) -> Probed:
        """Evaluate the tests on an empty history."""
        table = JoinTable(list(enumerate(self.tests)), HistoryStore(attributes=attributes_of(self.tests)))
        return probed([table.probe(batch.event(row)) for row in range(len(batch))])


def probed(truths: Sequence[Truths]) -> Probed:
    """Return the truths of each event as lists of tests."""
    return Probed(_slices([truth.true for truth in truths]), null=_slices([truth.null for truth in truths]))


def _slices(lists: Sequence[Int32s]) -> Ragged:
    if len(lists) == 1:
        # A single event: 1 µs instead of 20.
        [numbers] = lists
        if numbers.size < 2:
            return Ragged(_STARTS[numbers.size], numbers)
        numbers = numbers.copy()
        numbers.sort()
        return Ragged(np.array([0, numbers.size]), numbers)
    starts = np.cumsum([0, *(numbers.size for numbers in lists)]).astype(np.int64)
    return Ragged(starts, np.concatenate([np.empty(0, np.int32), *(np.sort(numbers) for numbers in lists)]))
