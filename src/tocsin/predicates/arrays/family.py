"""array_contains on one attribute: the elements of all lists of a batch become codes, a code is a test."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.model.condition import ArrayContains
from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.model.values import Constant, Kind, kind_of, scalar
from tocsin.predicates.fallback import decode_tests, encode_tests
from tocsin.predicates.protocol import Arrays, Int32, Probed, Slices
from tocsin.predicates.ranges.domain import Domain


class ArrayFamily:
    """array_contains on one attribute: one domain for each kind of constant."""

    def __init__(self, attribute: str, tests: Sequence[Test]) -> None:
        self.count = len(tests)
        self.attributes = {attribute}
        self._attribute = attribute
        self._tests = [test for test in tests if isinstance(test, ArrayContains)]
        self._domains: list[tuple[Domain, Int32]] = []
        constants: dict[Kind, list[tuple[Constant, int]]] = {}
        for number, test in enumerate(self._tests):
            constant: Constant = test.constant  # type: ignore[assignment]  # bound: no slot is left
            kind = kind_of(constant)
            if kind is not None:
                constants.setdefault(kind, []).append((constant, number))
        for kind, named in constants.items():
            domain = Domain.of(kind, [scalar(constant) for constant, _ in named])
            # Code -1, which is NULL, reads the last code, the gap behind all constants: it is no test either.
            test_of = np.full(domain.last + 1, -1, np.int32)
            for constant, number in named:
                test_of[domain.code(constant)] = number
            self._domains.append((domain, test_of))

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> "ArrayFamily":  # noqa: ARG003  # for XPath only
        """Build from tests."""
        return cls(attribute, tests)

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "ArrayFamily":
        """Read the definitions."""
        return cls(attribute, decode_tests(arrays))

    def arrays(self) -> Arrays:
        """The definitions as text."""
        return encode_tests(self._tests)

    def probe(self, batch: EventBatch) -> Probed:
        """Look up every element of every list."""
        column = batch.column(self._attribute)
        rows, present, found = np.empty(0, np.int64), np.full(len(batch), -1, np.int32), []
        if isinstance(column, list):
            lists = [value if isinstance(value, (list, tuple)) else None for value in column]
            present[:] = [-1 if value is None else 0 for value in lists]
            rows = np.array([row for row, value in enumerate(lists) for _ in value or ()], np.int64)
            elements = [element for value in lists for element in value or ()]
            for domain, test_of in self._domains:
                found.append(test_of[[domain.code(element) for element in elements]])
        elif column is not None and pa.types.is_large_list(column.type):
            present[np.asarray(column.is_valid())] = 0
            rows = np.asarray(column.value_parent_indices()).astype(np.int64)
            found = [test_of[domain.codes(column.flatten())] for domain, test_of in self._domains]
        tests = np.concatenate([*found, np.empty(0, np.int32)]).astype(np.int64)
        owners = np.tile(rows, len(found)) if found else rows[:0]
        held = np.unique((owners * self.count + tests)[tests >= 0])
        starts = np.searchsorted(held, np.arange(len(batch) + 1) * self.count).astype(np.int64)
        return Probed(Slices(starts, (held % max(self.count, 1)).astype(np.int32)), present)
